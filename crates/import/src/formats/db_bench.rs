//! Output of RocksDB's db_bench: per benchmark the mean, and with `--histogram` the percentiles; with `--stats_interval_seconds` the rate over time.
//!
//! Both streams may stand in one file. Benchmarks run one after the other: a summary is put at the sum of the run times so far. Source: db_bench_tool.cc.
use super::calendar::{date_ns, time_of_day_ns};
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{integer, number};
use crate::ImportError;
use case::schema::SubjectKind;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "db-bench",
    about: "output of RocksDB's db_bench: each benchmark's rate, mean and percentiles, and its rate over time, as samples",
    not_carried: &[
        (
            "single operations",
            "db_bench prints rates and a distribution, not when the slow ones were",
        ),
        (
            "requests below RocksDB",
            "an operation of db_bench may touch the memtable, the cache, or many blocks",
        ),
    ],
    recognise,
    together: alone,
    read,
};

/// `fillrandom   :  59.622 micros/op 33425 ops/sec 6.043 seconds 201998 operations; 13.3 MB/s`; old ones end after ops/sec.
struct Summary<'a> {
    name: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

fn summary(line: &str) -> Option<Summary<'_>> {
    let (name, rest) = line.split_once(" : ").or_else(|| line.split_once(": "))?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let fields: Vec<(&str, &str)> = words
        .windows(2)
        .map(|pair| (pair[1].trim_end_matches(';'), pair[0]))
        .collect();
    let has_rate = fields.first().is_some_and(|(unit, _)| *unit == "micros/op");
    let name = name.trim();
    (has_rate && !name.is_empty() && !name.contains(' ')).then_some(Summary { name, fields })
}

/// `2026/11/24-19:28:16  ... thread 0: (21000,21000) ops and (20138.1,20138.1) ops/second in (...) seconds`.
fn progress(line: &str) -> Option<(&str, &str, &str)> {
    let (stamp, rest) = line.split_once("... thread ")?;
    let (thread, rest) = rest.split_once(": (")?;
    let (_, rest) = rest.split_once(") ops and (")?;
    let rate = rest.split(',').next()?;
    Some((stamp.trim(), thread, rate))
}

fn recognise(head: &Head) -> bool {
    // Another tool may copy db_bench's output; RocksDB's own LOG begins with a stamp.
    is_report(head)
        || head.has_line(|line| summary(line).is_some() || progress(line).is_some())
        || head.has_line(|line| line.starts_with("Keys:"))
            && head.has_line(|line| line.starts_with("FileSize:"))
}

#[derive(Default)]
struct Reader {
    benchmark: String,
    after_ns: i64,
    /// Whether the benchmark at hand told its progress, so that the moment is known.
    has_progress: bool,
    values: Vec<(String, f64)>,
    summaries: u64,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if let Some(said) = summary(text) {
            self.flush(sink)?;
            self.benchmark = said.name.to_owned();
            self.summaries += 1;
            for (unit, value) in said.fields {
                match unit {
                    "micros/op" => self.push("latency_ns", number(value, "micros/op")? * 1e3),
                    "ops/sec" => self.push("operations_per_s", number(value, "ops/sec")?),
                    "operations" => self.push("operations", number(value, "operations")?),
                    "MB/s" => self.push("throughput_bytes_per_s", number(value, "MB/s")? * 1_048_576.0),
                    // Its last progress was at most an interval before its end.
                    "seconds" if self.has_progress => {}
                    "seconds" => {
                        let seconds = number(value, "seconds")?.clamp(0.0, 1e9);
                        self.after_ns = self.after_ns.saturating_add((seconds * 1e9) as i64).min(1 << 61);
                    }
                    _ => {}
                }
            }
            self.has_progress = false;
        } else if let Some(rest) = text.strip_prefix("Percentiles: ") {
            // `P50: 5.33 P75: 7.55`, microseconds.
            let words: Vec<&str> = rest.split_whitespace().collect();
            for pair in words.chunks_exact(2) {
                let name = pair[0].trim_end_matches(':').to_ascii_lowercase();
                let value = number(pair[1], "Percentiles")?;
                self.push(&format!("latency_{name}_ns"), value * 1e3);
            }
        } else if let Some(rest) = text.split("Max: ").nth(1).filter(|_| text.starts_with("Min: ")) {
            self.push("latency_max_ns", number(rest.trim(), "Max")? * 1e3);
        }
        Ok(())
    }

    fn push(&mut self, metric: &str, value: f64) {
        // With several kinds of operation in a benchmark its first histogram is the one that is named.
        if !self.benchmark.is_empty() && !self.values.iter().any(|(name, _)| name == metric) {
            self.values.push((metric.to_owned(), value));
        }
    }

    fn flush(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let values = std::mem::take(&mut self.values);
        if values.is_empty() {
            return Ok(());
        }
        let values: Vec<_> = values
            .iter()
            .map(|(name, value)| (sink.name(name), *value))
            .collect();
        let subject = sink.name(&self.benchmark);
        sink.sample(self.after_ns, None, SubjectKind::Process, subject, &values)
    }
}

/// What `--report_file` names: the rate of each interval.
fn is_report(head: &Head) -> bool {
    head.filled_lines().next() == Some(REPORT)
}

const REPORT: &str = "secs_elapsed,interval_qps";

fn read_report(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    sink.clock(Clock::own("the begin of db_bench", 1_000_000_000));
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if text.is_empty() || text == REPORT {
            return Ok(());
        }
        let (seconds, rate) = text.split_once(',').ok_or_else(|| Bad::new("", REPORT, text))?;
        let end_ns = i64::from(integer::<u32>(seconds, "secs_elapsed")?) * 1_000_000_000;
        let values = [(sink.name("operations_per_s"), number(rate, "interval_qps")?)];
        let subject = sink.name("db_bench");
        sink.sample(end_ns, None, SubjectKind::Process, subject, &values)?;
        Ok(())
    })
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let head = Head::read(source.path())?;
    if is_report(&head) {
        return read_report(source, sink);
    }
    let mut reader = Reader::default();
    let has_moments = head.has_line(|line| progress(line).is_some());
    sink.clock(if has_moments {
        Clock::unix(1_000_000_000)
    } else {
        Clock::own("db_bench's first benchmark", 1_000_000)
    });
    let mut last_ns = 0;
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        let Some((stamp, thread, rate)) = progress(text) else {
            return reader.line(text, sink);
        };
        let moment = stamp
            .split_once('-')
            .and_then(|(date, time)| Some(date_ns(&date.replace('/', "-"))? + time_of_day_ns(time, "")?));
        let moment_ns = moment.ok_or_else(|| Bad::new("", "YYYY/MM/DD-HH:MM:SS ... thread N", text))?;
        last_ns = moment_ns;
        // What a benchmark said last is written before the next one tells its progress.
        reader.flush(sink)?;
        (reader.after_ns, reader.has_progress) = (moment_ns, true);
        let values = [(sink.name("operations_per_s"), number(rate, "ops/second")?)];
        let subject = sink.name(&format!("thread {thread}"));
        sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)?;
        Ok(())
    })?;
    reader.flush(sink)?;
    if reader.summaries > 0 && !has_moments {
        sink.unseen(
            "when the benchmarks ran",
            "db_bench prints moments with --stats_interval_seconds only; they are put one after the other",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_rates_is_samples() {
        let log = "secs_elapsed,interval_qps\n1,457550\n2,491279\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!((summary.records, summary.end_ns), (2, 2_000_000_000));
        let error = crate::testing::import(&FORMAT, &log.replace("1,457550", "1;457550")).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn a_benchmark_ends_at_its_last_progress_or_after_its_seconds() {
        let log =
            "2024/12/12-18:33:13  ... thread 0: (5,5) ops and (0.5,0.5) ops/second in (10.0,10.0) seconds\n\
            2024/12/12-18:33:23  ... thread 0: (5,10) ops and (0.5,0.5) ops/second in (10.0,20.0) seconds\n\
            fillseq      :  20.123 micros/op 49999 ops/sec 20.001 seconds 10 operations;    5.5 MB/s\n\
            readseq      :  20.123 micros/op 49999 ops/sec 7.000 seconds 10 operations;    5.5 MB/s\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!((summary.records, summary.end_ns), (4, 17_000_000_000));
    }
}
