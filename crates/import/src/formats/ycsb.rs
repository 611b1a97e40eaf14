//! YCSB's output without raw measurements: its status lines, its summary, and time series (`measurementtype=timeseries`), as samples.
//!
//! Built from YCSB's OneMeasurementHistogram.java, OneMeasurementTimeSeries.java, Client.java. Labels of fractional percentiles lack "th". What
//! YCSB-cpp (measurements.cc) and go-ycsb (histogram.go) print while they run counts from the begin of the run: differences become samples.
use super::calendar::{date_ns, time_of_day_ns};
use crate::clock::Clock;
use crate::error::RecordError;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{number, time};
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
                || line.starts_with("[OVERALL],RunTime(ms),")
                || line.contains(" operations; ") && line.contains("current ops/sec")
                || status(line).is_some()
                    && (line.contains("est completion in") || line.contains(" operations;"))
                || of_go_line(line).is_some()
        })
}

/// `2016-11-14 12:59:18:287 10 sec: 1234 operations; 123.4 current ops/sec; ...`; YCSB-cpp prints no milliseconds.
fn status(line: &str) -> Option<(i64, &str)> {
    let (date, rest) = line.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let (seconds, rest) = rest.split_once(" sec: ")?;
    let (clock, ms) = match time.matches(':').count() {
        2 => (time, "0"),
        _ => time.rsplit_once(':')?,
    };
    seconds.trim().parse::<u64>().ok()?;
    let moment_ns =
        date_ns(date)? + time_of_day_ns(clock, "")? + i64::from(ms.parse::<u16>().ok()?) * 1_000_000;
    Some((moment_ns, rest))
}

/// The kind of operations and the fields of a line of go-ycsb: `READ   - Takes(s): 10.0, Count: 50214, OPS: 5024.1, Avg(us): 1520, ...`.
fn of_go_line(line: &str) -> Option<(&str, &str)> {
    let (kind, fields) = line.split_once("- Takes(s): ")?;
    let kind = kind.trim();
    // go-tpc prints alike, `[Current] PAYMENT - Takes(s): 10.0, Count: 130, TPM: 780.6, ...`, and counts anew each time.
    let is_kind = !kind.is_empty() && !kind.contains(['[', ' ']);
    (is_kind && fields.contains(", Count: ")).then_some((kind, fields))
}

/// Metric of `Avg`, `99.9`, `99thPercentileLatency(us)`, and what one is in it.
fn metric(label: &str) -> Option<(String, f64)> {
    let label = label.trim();
    // Before 0.2 there were milliseconds.
    let (label, factor) = match label.strip_suffix("(ms)") {
        Some(label) => (label, 1e6),
        None => (label.strip_suffix("(us)").unwrap_or(label), 1e3),
    };
    let latency = |part: &str| Some((format!("latency_{part}_ns"), factor));
    match label {
        "Count" | "Operations" => return Some(("operations".into(), 1.0)),
        "Avg" | "AverageLatency" => return Some(("latency_ns".into(), factor)),
        "Max" | "MaxLatency" => return latency("max"),
        "Min" | "MinLatency" => return latency("min"),
        "Throughput(ops/sec)" => return Some(("operations_per_s".into(), 1.0)),
        _ => {}
    }
    let share = label.trim_end_matches("PercentileLatency");
    let share = share
        .trim_end_matches("th")
        .trim_end_matches("st")
        .trim_end_matches("nd")
        .trim_end_matches("rd");
    let value: f64 = share.parse().ok()?;
    let is_percentile = !label.contains('(');
    (is_percentile && (0.0..=100.0).contains(&value)).then(|| (format!("latency_p{share}_ns"), factor))
}

/// What was counted of a kind since the begin of the run.
#[derive(Clone, Copy, Default)]
struct Total {
    at_ns: i64,
    operations: f64,
    sum_ns: f64,
}

/// What a status line says of one kind of operation.
fn interval(fields: &str) -> Vec<(String, f64)> {
    // A comma without a blank behind it is a decimal one.
    let values = fields.split(", ").filter_map(|field| {
        let (label, value) = field.split_once('=')?;
        let (name, factor) = metric(label)?;
        // An interval without operations of a kind has no latencies.
        Some((name, number(value.trim(), "of a status line").ok()? * factor))
    });
    values.collect()
}

#[derive(Default)]
struct Reader {
    last_ns: i64,
    begin_ns: i64,
    /// The status line before.
    said: (i64, String),
    totals: BTreeMap<String, Total>,
    summary: BTreeMap<String, Vec<(NameId, f64)>>,
}

impl Reader {
    fn status(&mut self, moment_ns: i64, rest: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if self.last_ns == 0 {
            self.begin_ns = moment_ns;
        }
        self.last_ns = moment_ns;
        // The standard output has what the error output has, and somebody may have kept both in one file.
        if self.said.0 == moment_ns && self.said.1 == rest {
            return Ok(());
        }
        self.said = (moment_ns, rest.to_owned());
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
            if !fields.contains(',') && fields.contains(" Max=") {
                self.total(moment_ns, kind, fields.split_whitespace(), '=', sink)?;
                continue;
            }
            let values: Vec<(NameId, f64)> = interval(fields)
                .into_iter()
                .map(|(name, value)| (sink.name(&name), value))
                .collect();
            if !values.is_empty() {
                let subject = sink.name(kind);
                sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)?;
            }
        }
        Ok(())
    }

    /// Fields that count from the begin of the run: what came since those before is a sample, all of it the summary so far.
    fn total<'a>(
        &mut self,
        moment_ns: i64,
        kind: &str,
        fields: impl Iterator<Item = &'a str>,
        between: char,
        sink: &mut Sink,
    ) -> Result<(), RecordError> {
        let mut now = Total {
            at_ns: moment_ns,
            ..Total::default()
        };
        let (mut mean_ns, mut summary) = (None, Vec::new());
        for field in fields {
            let Some((label, value)) = field.split_once(between) else {
                continue;
            };
            let Some((name, factor)) = metric(label) else {
                continue;
            };
            let value = number(value.trim(), "of a status line")? * factor;
            match name.as_str() {
                "operations" => now.operations = value,
                "latency_ns" => mean_ns = Some(value),
                _ => {}
            }
            summary.push((sink.name(&format!("run_{name}")), value));
        }
        now.sum_ns = mean_ns.unwrap_or(0.0) * now.operations;
        self.last_ns = self.last_ns.max(moment_ns);
        self.summary.insert(kind.to_owned(), summary);
        let begin = Total {
            at_ns: self.begin_ns,
            ..Total::default()
        };
        let old = self.totals.insert(kind.to_owned(), now).unwrap_or(begin);
        let operations = now.operations - old.operations;
        let seconds = moment_ns.saturating_sub(old.at_ns) as f64 / 1e9;
        if operations > 0.0 && seconds > 0.0 {
            let mut values = vec![
                (sink.name("operations"), operations),
                (sink.name("operations_per_s"), operations / seconds),
            ];
            if mean_ns.is_some() {
                // A mean is rounded, and so is the difference of two sums.
                let mean_ns = ((now.sum_ns - old.sum_ns) / operations).max(0.0);
                values.push((sink.name("latency_ns"), mean_ns));
            }
            let subject = sink.name(kind);
            sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)?;
        } else {
            sink.record_without_row();
        }
        Ok(())
    }

    /// A line of go-ycsb: its first field is how long the run took so far.
    fn of_go(&mut self, kind: &str, fields: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let (takes, fields) = fields.split_once(',').unwrap_or((fields, ""));
        let moment_ns = time(takes, 1_000_000_000, "Takes(s)")?;
        self.total(moment_ns, kind, fields.split(", "), ':', sink)
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
        } else if label.bytes().all(|byte| byte.is_ascii_digit()) {
            // A bucket of a histogram.
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
        if let Some((kind, fields)) = of_go_line(text) {
            return reader.of_go(kind, fields, sink);
        }
        if text.starts_with('[') && text.contains("],") {
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
    fn means_of_other_places_have_a_decimal_comma() {
        let of = |fields: &str| interval(fields)[1].clone();
        assert_eq!(
            of("Count=106, Avg=1061,08, 90=1568"),
            ("latency_ns".into(), 1_061_080.0)
        );
        assert_eq!(
            of("Count=106, Avg=1061.08, 90=1568"),
            ("latency_ns".into(), 1_061_080.0)
        );
        assert_eq!(
            interval("Count=0, Max=0, Min=9223372036854775807, Avg=NaN, 90=0").len(),
            4
        );
    }

    #[test]
    fn moments_of_status_lines() {
        let line = |ms: &str| format!("2016-11-14 12:59:18:{ms} 10 sec: 1234 operations");
        assert!(status(&line("287")).is_some_and(|(ns, _)| ns % 1_000_000_000 == 287_000_000));
        assert_eq!(status(&line("9223372036854775807")), None);
    }

    /// Samples of a log, and its last moment.
    fn samples(log: &str) -> (u64, u64, i64) {
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        (summary.records, summary.rows, summary.end_ns / 1_000_000_000)
    }

    #[test]
    fn what_counts_from_the_begin_of_the_run_is_subtracted() {
        let status =
            |s: u32, fields: &str| format!("2024-01-28 19:34:{s} {} sec: 9 operations; {fields}\n", s - 32);
        let of_cpp = status(32, "")
            + &status(
                42,
                "[READ: Count=528 Max=26.86 Min=0.46 Avg=5.41 90=9.92 99.9=26.82]",
            )
            + &status(
                52,
                "[READ: Count=5592 Max=55.42 Min=0.04 Avg=6.03 90=12.68 99.9=27.74]",
            );
        // Two intervals of three values each, and the summary of six.
        assert_eq!(samples(&of_cpp), (3, 12, 10));
        let of_go = "READ   - Takes(s): 10.0, Count: 50, OPS: 5.0, Avg(us): 1520, Min(us): 102, Max(us): 20111, 99.9th(us): 9000\n\
            READ   - Takes(s): 20.0, Count: 150, OPS: 7.5, Avg(us): 1020, Min(us): 102, Max(us): 20111, 99.9th(us): 9000\n\
            Run finished, takes 20.0s\n\
            READ   - Takes(s): 20.0, Count: 150, OPS: 7.5, Avg(us): 1020, Min(us): 102, Max(us): 20111, 99.9th(us): 9000\n";
        assert_eq!(samples(of_go).1, 6 + 5);
        // Rates alone are no latency of 0; go-tpc is not go-ycsb.
        assert_eq!(samples("READ - Takes(s): 10.0, Count: 50, OPS: 5.0\n").1, 2 + 1);
        assert!(of_go_line("[Current] PAYMENT - Takes(s): 10.0, Count: 130, TPM: 780.6").is_none());
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let mut reader = Reader::default();
        for (at, fields) in [(1, "Count=100 Max=9 Avg=5"), (2, "Count=300 Max=9 Avg=7")] {
            // A survey ends with its first sample.
            let _ = reader.total(at, "READ", fields.split(' '), '=', &mut sink);
        }
        let total = reader.totals["READ"];
        assert_eq!((total.operations, total.sum_ns), (300.0, 2_100_000.0));
    }

    #[test]
    fn old_versions_print_milliseconds_and_no_blank() {
        assert_eq!(metric("AverageLatency(ms)"), Some(("latency_ns".into(), 1e6)));
        assert_eq!(
            metric("99thPercentileLatency(ms)"),
            Some(("latency_p99_ns".into(), 1e6))
        );
        assert_eq!(metric("99.9th(us)"), Some(("latency_p99.9_ns".into(), 1e3)));
        assert_eq!(
            (metric("RunTime(ms)"), metric("OPS"), metric("Time(%)")),
            (None, None, None)
        );
        let old = "[OVERALL],RunTime(ms), 10110\n[OVERALL],Throughput(ops/sec), 98.9\n\
            [UPDATE], AverageLatency(ms), 0.05\n[UPDATE], 0, 464\n[UPDATE], >1000, 0\n";
        assert_eq!(samples(old), (2, 2, 0));
    }

    #[test]
    fn a_status_line_that_stands_twice_is_one() {
        let line = "2016-03-02 14:58:23:453 100 sec: 97 operations; 912.3 current ops/sec; est completion in 1 minutes [READ AverageLatency(us)=10945.5]\n";
        assert_eq!(samples(&line.repeat(2)).0, 2);
    }
}
