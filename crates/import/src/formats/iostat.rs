//! Text of `iostat -x` and of `sar -d`: a header line tells the columns, which differ from version to version.
//!
//! The first report of iostat averages since the machine's start and is left out. Without `-t` reports have no moment.
use super::calendar::{date_ns, time_of_day_ns};
use super::sysstat_rows;
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::number;
use crate::ImportError;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "iostat",
    about: "text of iostat -x and of sar -d: samples per device",
    not_carried: &[
        (
            "single operations",
            "sampled counters hold averages over a sampling period; outliers inside a period cannot be seen",
        ),
        (
            "the time zone",
            "sysstat prints local time; the case takes it for UTC",
        ),
    ],
    recognise,
    together: alone,
    read,
};

const SECOND: i64 = 1_000_000_000;

fn is_iostat_header(words: &[&str]) -> bool {
    words.first().is_some_and(|w| w.trim_end_matches(':') == "Device")
        && words.iter().any(|w| *w == "%util" || w.ends_with("await"))
}

/// Place of `DEV` in a header of `sar -d`.
fn sar_header(words: &[&str]) -> Option<usize> {
    let at = words.iter().position(|word| *word == "DEV")?;
    (at <= 2 && words.contains(&"tps")).then_some(at)
}

fn recognise(head: &Head) -> bool {
    head.has_line(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        is_iostat_header(&words) || sar_header(&words).is_some()
    })
}

struct Reader {
    host: String,
    day_ns: Option<i64>,
    columns: Vec<String>,
    device_at: usize,
    is_sar: bool,
    /// Of the report at hand.
    moment_ns: Option<i64>,
    reports: i64,
    clock_told: bool,
    last_ns: i64,
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader {
        host: String::new(),
        day_ns: None,
        columns: Vec::new(),
        device_at: 0,
        is_sar: false,
        moment_ns: None,
        reports: 0,
        clock_told: false,
        last_ns: i64::MIN,
    };
    let mut in_cpu = false;
    each_line(source, sink, |line, sink| {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let Some(first) = words.first().copied() else {
            in_cpu = false;
            return Ok(());
        };
        if first == "Linux" && words.len() > 3 {
            reader.system(&words);
        } else if first == "avg-cpu:" {
            in_cpu = true;
        } else if let Some(ns) = moment(&words) {
            reader.moment_ns = Some(ns);
        } else if is_iostat_header(&words) {
            in_cpu = false;
            reader.begin_iostat(&words, sink);
        } else if let Some(at) = sar_header(&words) {
            reader.begin_sar(&words, at);
        } else if in_cpu || first == "Average:" || reader.columns.is_empty() || words.contains(&"LINUX") {
        } else if words.len() == reader.columns.len() {
            reader.row(&words, sink)?;
        } else {
            let expected = format!("{} columns, as the header says", reader.columns.len());
            return Err(Bad::new("", expected, line.text).into());
        }
        Ok(())
    })?;
    if !reader.is_sar && reader.reports > 0 {
        sink.unseen(
            "what the first report says",
            "iostat's first report averages since the machine's start (unless -y was given)",
        );
    }
    if !reader.is_sar && reader.moment_ns.is_none() && reader.reports > 0 {
        sink.unseen(
            "when the samples were taken",
            "iostat prints moments with -t only; they are put one second apart",
        );
    }
    Ok(())
}

/// A line that is a moment: date and time.
fn moment(words: &[&str]) -> Option<i64> {
    match words {
        [date, time] => Some(date_ns(date)? + time_of_day_ns(time, "")?),
        [date, time, half @ ("AM" | "PM")] => Some(date_ns(date)? + time_of_day_ns(time, half)?),
        [iso] => {
            let (date, rest) = iso.split_once('T')?;
            let (time, zone) = rest.split_at_checked(8)?;
            let ns = date_ns(date)? + time_of_day_ns(time, "")?;
            let zone = zone.replace(':', "");
            let (sign, digits) = zone.split_at_checked(1).unwrap_or(("", ""));
            let minutes = digits.parse::<i64>().map_or(0, |n| n / 100 * 60 + n % 100);
            Some(ns - if sign == "-" { -minutes } else { minutes } * 60 * SECOND)
        }
        _ => None,
    }
}

impl Reader {
    fn system(&mut self, words: &[&str]) {
        self.host = words[2].trim_start_matches('(').trim_end_matches(')').to_owned();
        self.day_ns = words[3..].iter().find_map(|word| date_ns(word));
    }

    fn begin_iostat(&mut self, words: &[&str], sink: &mut Sink) {
        (self.is_sar, self.device_at) = (false, 0);
        self.columns = words.iter().map(|word| (*word).to_owned()).collect();
        self.reports += 1;
        if !self.clock_told {
            sink.clock(if self.moment_ns.is_some() {
                Clock::unix(SECOND)
            } else {
                Clock::own("iostat's first report", SECOND)
            });
            self.clock_told = true;
        }
    }

    fn begin_sar(&mut self, words: &[&str], at: usize) {
        (self.is_sar, self.device_at) = (true, at);
        self.columns = words.iter().map(|word| (*word).to_owned()).collect();
    }

    fn row(&mut self, words: &[&str], sink: &mut Sink) -> Result<(), crate::error::RecordError> {
        if !self.is_sar && self.reports < 2 {
            return Ok(());
        }
        let time_ns = if self.is_sar {
            let half = if self.device_at == 2 { words[1] } else { "" };
            let of_day = time_of_day_ns(words[0], half)
                .ok_or_else(|| Bad::new("column time", "HH:MM:SS", words[0]))?;
            if !self.clock_told {
                sink.clock(match self.day_ns {
                    Some(_) => Clock::unix(SECOND),
                    None => Clock::own("midnight", SECOND),
                });
                self.clock_told = true;
            }
            let mut ns = self.day_ns.unwrap_or(0) + of_day;
            // Past midnight.
            while ns < self.last_ns {
                ns += 86_400 * SECOND;
            }
            ns
        } else {
            self.moment_ns.unwrap_or((self.reports - 1) * SECOND)
        };
        let mut values = Vec::with_capacity(words.len());
        for (column, word) in self.columns.iter().zip(words).skip(self.device_at + 1) {
            values.push((column.as_str(), number(word, "of a rate")?));
        }
        self.last_ns = time_ns;
        sysstat_rows::write(time_ns, &self.host, words[self.device_at], &values, sink)?;
        Ok(())
    }
}
