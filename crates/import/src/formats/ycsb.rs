//! YCSB's output without raw measurements: its status lines, its summary, and time series (`measurementtype=timeseries`), as samples.
//!
//! Built from YCSB's OneMeasurementHistogram.java, OneMeasurementTimeSeries.java, Client.java. Labels of fractional percentiles lack "th".
use super::calendar::{date_ns, time_of_day_ns};
use crate::clock::Clock;
use crate::error::RecordError;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::number;
use crate::ImportError;
use case::schema::{NameId, SubjectKind};
use std::collections::BTreeMap;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "ycsb",
    about: "output of YCSB: status lines, time series and summary, as samples",
    not_carried: &[
        (
            "single operations",
            "rates and distributions only; measurementtype=raw logs operations",
        ),
        (
            "the time zone",
            "YCSB prints local time; the case takes it for UTC",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn recognise(head: &Head) -> bool {
    let is_raw = head.has_line(|line| line.contains("latency raw data: op, timestamp(ms), latency(us)"));
    !is_raw
        && head.has_line(|line| {
            line.starts_with("[OVERALL], RunTime(ms),")
                || line.contains(" operations; ") && line.contains("current ops/sec")
                || status(line).is_some() && line.contains("est completion in")
        })
}

/// `2016-11-14 12:59:18:287 10 sec: 1234 operations; 123.4 current ops/sec; ...`.
fn status(line: &str) -> Option<(i64, &str)> {
    let (date, rest) = line.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let (seconds, rest) = rest.split_once(" sec: ")?;
    let (clock, ms) = time.rsplit_once(':')?;
    seconds.trim().parse::<u64>().ok()?;
    let moment_ns =
        date_ns(date)? + time_of_day_ns(clock, "")? + i64::from(ms.parse::<u16>().ok()?) * 1_000_000;
    Some((moment_ns, rest))
}

/// Metric of `Avg`, `99.9`, `99thPercentileLatency(us)`, and what one is in it.
fn metric(label: &str) -> Option<(String, f64)> {
    let label = label.trim();
    let latency = |part: &str| Some((format!("latency_{part}_ns"), 1e3));
    match label {
        "Count" | "Operations" => return Some(("operations".into(), 1.0)),
        "Avg" | "AverageLatency(us)" => return Some(("latency_ns".into(), 1e3)),
        "Max" | "MaxLatency(us)" => return latency("max"),
        "Min" | "MinLatency(us)" => return latency("min"),
        "Throughput(ops/sec)" => return Some(("operations_per_s".into(), 1.0)),
        _ => {}
    }
    let share = label.trim_end_matches("PercentileLatency(us)");
    let share = share
        .trim_end_matches("th")
        .trim_end_matches("st")
        .trim_end_matches("nd")
        .trim_end_matches("rd");
    let value: f64 = share.parse().ok()?;
    let is_percentile = label.ends_with("PercentileLatency(us)") || !label.contains('(');
    (is_percentile && (0.0..=100.0).contains(&value)).then(|| (format!("latency_p{share}_ns"), 1e3))
}

#[derive(Default)]
struct Reader {
    last_ns: i64,
    begin_ns: i64,
    summary: BTreeMap<String, Vec<(NameId, f64)>>,
}

impl Reader {
    fn status(&mut self, moment_ns: i64, rest: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if self.last_ns == 0 {
            self.begin_ns = moment_ns;
        }
        self.last_ns = moment_ns;
        let rate = rest
            .split(';')
            .find_map(|part| part.trim().strip_suffix(" current ops/sec"));
        if let Some(rate) = rate {
            let values = [(sink.name("operations_per_s"), number(rate, "current ops/sec")?)];
            let subject = sink.name("ycsb");
            sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)?;
        }
        for part in rest.split('[').skip(1) {
            let inside = part.split(']').next().unwrap_or("");
            // Before 0.2: `[READ AverageLatency(us)=426.5]`.
            let Some((kind, fields)) = inside.split_once(": ").or_else(|| inside.split_once(' ')) else {
                continue;
            };
            let mut values = Vec::new();
            for field in fields.split(',') {
                let Some((label, value)) = field.split_once('=') else {
                    continue;
                };
                let Some((name, factor)) = metric(label) else {
                    continue;
                };
                // An interval without operations of a kind has no latencies.
                if let Ok(value) = number(value.trim(), "of a status line") {
                    values.push((sink.name(&name), value * factor));
                }
            }
            if !values.is_empty() {
                let subject = sink.name(kind);
                sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)?;
            }
        }
        Ok(())
    }

    /// `[READ], 99thPercentileLatency(us), 426`, or a bucket of a time series, `[READ], 1000, 312.5`.
    fn summary(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let [kind, label, value] = fields[..] else {
            return Ok(());
        };
        let kind = kind.trim_matches(['[', ']']);
        if let (Ok(ms), true) = (label.parse::<u32>(), value.contains('.')) {
            // Buckets of a histogram (milliseconds and a count) look alike, but for the point in the mean.
            let value = number(value, "of a time series")?;
            let subject = sink.name(kind);
            let values = [(sink.name("latency_ns"), value * 1e3)];
            let time_ns = self.begin_ns + i64::from(ms) * 1_000_000;
            self.last_ns = self.last_ns.max(time_ns);
            sink.sample(time_ns, None, SubjectKind::Process, subject, &values)?;
        } else if let Some((name, factor)) = metric(label) {
            let value = number(value, "of the summary")?;
            let value = (sink.name(&format!("run_{name}")), value * factor);
            self.summary.entry(kind.to_owned()).or_default().push(value);
        }
        Ok(())
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let has_moments = Head::read(source.path())?.has_line(|line| status(line).is_some());
    sink.clock(if has_moments {
        Clock::unix(1_000_000)
    } else {
        Clock::own("the begin of YCSB's run", 1_000_000)
    });
    let mut reader = Reader::default();
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if let Some((moment_ns, rest)) = status(text) {
            return reader.status(moment_ns, rest, sink);
        }
        if text.starts_with('[') && text.contains("], ") {
            return reader.summary(text, sink);
        }
        Ok(())
    })?;
    for (kind, values) in std::mem::take(&mut reader.summary) {
        let subject = sink.name(&kind);
        sink.sample(reader.last_ns, None, SubjectKind::Process, subject, &values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_status_lines() {
        let line = |ms: &str| format!("2016-11-14 12:59:18:{ms} 10 sec: 1234 operations");
        assert!(status(&line("287")).is_some_and(|(ns, _)| ns % 1_000_000_000 == 287_000_000));
        assert_eq!(status(&line("9223372036854775807")), None);
    }
}
