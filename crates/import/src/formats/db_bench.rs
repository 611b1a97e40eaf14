//! Output of RocksDB's db_bench: per benchmark the mean, and with `--histogram` the percentiles; with `--stats_interval_seconds` the rate over time.
//!
//! Both streams may stand in one file. Benchmarks run one after the other: a summary is put at the sum of the run times so far. `--statistics` and `stats`
//! print what RocksDB says of itself since it was opened. Source: db_bench_tool.cc.
use super::calendar::{date_ns, time_of_day_ns};
use super::rocksdb_dump::{statistic, summed_up, Blocks, Histogram, Statistic};
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{integer, last_word, number};
use crate::ImportError;
use case::schema::SubjectKind;
use std::collections::BTreeMap;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "db-bench",
    about: "output of RocksDB's db_bench: each benchmark's rate, mean and percentiles, its rate over time, RocksDB's statistics and stalls, as samples",
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
    let has = |at: usize, wanted: &str| fields.get(at).is_some_and(|(unit, _)| *unit == wanted);
    let mut before = name;
    let name = last_word(&mut before);
    // What a logger put in front, or `... finished 100 ops`; people write `mean: 5.2 micros/op`, too.
    let is_certain = before.trim().is_empty() || has(2, "ops/sec");
    (has(0, "micros/op") && is_certain && !name.is_empty()).then_some(Summary { name, fields })
}

/// `2026/11/24-19:28:16  ... thread 0: (21000,21000) ops and (20138.1,20138.1) ops/second in (...) seconds`.
fn progress(line: &str) -> Option<(&str, &str, &str)> {
    let (stamp, rest) = line.split_once("... thread ")?;
    let (thread, rest) = rest.split_once(": (")?;
    let (_, rest) = rest.split_once(") ops and (")?;
    let rate = rest.split(',').next()?;
    // Behind what a logger put in front.
    Some((last_word(&mut { stamp }), thread, rate))
}

/// What a line says behind what a logger put in front, of those that begin with words of db_bench's or RocksDB's.
fn said(line: &str) -> &str {
    const BEGINS: [&str; 10] = [
        "Microseconds per ",
        "Percentiles: P",
        "Min: ",
        "Uptime(secs): ",
        "Interval ",
        "Cumulative stall: ",
        "Stalls(count): ",
        "Write Stall (count): ",
        "** ",
        "rocksdb.",
    ];
    let begins = |text: &str| BEGINS.iter().any(|begin| text.starts_with(begin));
    if begins(line) {
        return line;
    }
    // A mark ends what a logger puts there, and a blank follows it.
    let behind = |(at, mark): (usize, &str)| line[at + mark.len()..].strip_prefix([' ', '\t']);
    line.match_indices([':', '|', ']', '-', '>'])
        .filter_map(behind)
        .map(str::trim_start)
        .find(|text| begins(text))
        .unwrap_or(line)
}

/// The first lines say of which program they are.
fn is_head(line: &str) -> bool {
    let mut before = line.split_once(":    version ").map_or("", |(before, _)| before);
    matches!(last_word(&mut before), "RocksDB" | "LevelDB")
}

fn recognise(head: &Head) -> bool {
    // Another tool may copy db_bench's output; RocksDB's own LOG begins with a stamp.
    is_report(head)
        || head.has_line(|line| summary(line).is_some() || progress(line).is_some() || is_head(line))
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
    /// What follows is the distribution of the benchmark at hand, not one of a level's reads.
    in_distribution: bool,
    blocks: Blocks,
    /// The last ones: they count from the opening.
    statistics: BTreeMap<String, Histogram>,
}

/// Of RocksDB's statistics, how long its operations took, and how long writers were held up.
const STATISTICS: [&str; 6] = [
    "rocksdb.db.get.micros",
    "rocksdb.db.multiget.micros",
    "rocksdb.db.seek.micros",
    "rocksdb.db.write.micros",
    "rocksdb.db.write.stall",
    "rocksdb.wal.file.sync.micros",
];

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if let Some(said) = summary(text) {
            self.flush(sink)?;
            self.benchmark = said.name.to_owned();
            self.summaries += 1;
            self.push("benchmark_run", self.summaries as f64);
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
            // The line above the percentiles may have been left out.
            (self.has_progress, self.in_distribution) = (false, true);
            return Ok(());
        }
        let text = said(text);
        if text.starts_with("Microseconds per ") {
            self.in_distribution = true;
        } else if let Some(rest) = text
            .strip_prefix("Percentiles: ")
            .filter(|_| self.in_distribution)
        {
            // `P50: 5.33 P75: 7.55`, microseconds.
            let words: Vec<&str> = rest.split_whitespace().collect();
            for pair in words.chunks_exact(2) {
                let name = pair[0].trim_end_matches(':').to_ascii_lowercase();
                let value = number(pair[1], "Percentiles")?;
                self.push(&format!("latency_{name}_ns"), value * 1e3);
            }
        } else if let Some(rest) = text
            .split("Max:")
            .nth(1)
            .filter(|_| self.in_distribution && text.starts_with("Min: "))
        {
            self.push("latency_max_ns", number(rest.trim(), "Max")? * 1e3);
        } else if let Some((name, Statistic::Histogram(histogram))) = statistic(text)? {
            if STATISTICS.contains(&name) {
                self.statistics.insert(name.to_owned(), histogram);
            }
        } else {
            self.in_distribution &= !text.starts_with("** ");
            let values = self.blocks.line(text, sink)?;
            if !values.is_empty() {
                let subject = sink.name("rocksdb");
                sink.sample(self.after_ns, None, SubjectKind::Process, subject, &values)?;
            }
        }
        Ok(())
    }

    /// What RocksDB said last of all that it did.
    fn end(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        self.flush(sink)?;
        let mut values = self.blocks.since_open(sink);
        for (name, histogram) in &self.statistics {
            values.extend(summed_up(name, histogram, sink));
        }
        if values.is_empty() {
            return Ok(());
        }
        let subject = sink.name("rocksdb");
        sink.sample(self.after_ns, None, SubjectKind::Process, subject, &values)
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
        let subject = sink.of_log(&self.benchmark);
        let subject = sink.name(&subject);
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
        let subject = sink.of_log("db_bench");
        let subject = sink.name(&subject);
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
        let subject = sink.of_log(&format!("thread {thread}"));
        let subject = sink.name(&subject);
        sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)?;
        Ok(())
    })?;
    reader.end(sink)?;
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
    fn percentiles_behind_what_a_logger_put_in_front_are_read() {
        let lines = [
            "fillrandom   :     383.781 micros/op 2605 ops/sec;    2.0 MB/s",
            "Microseconds per op:",
            "Count: 100000  Average: 383.7785  StdDev: 870.93",
            "Min: 123.0000  Median: 230.9580  Max: 17470.0000",
            "Percentiles: P50: 230.96 P75: 249.74 P99: 5625.96 P99.9: 7577.78 P99.99: 11911.11",
        ];
        let rows = |prefix: &str| {
            let log = lines.map(|line| format!("{prefix}{line}\n")).concat();
            crate::testing::import(&FORMAT, &log).unwrap().rows
        };
        assert_eq!(rows(""), 10);
        // Known ones, and marks that nobody knows.
        for prefix in [
            "pgbench_1  |  ",
            "[pod/a/b] ",
            "2024-03-01 10:00:01,001 - INFO - ",
            "<7> bench: ",
            "(bench) -> ",
            "7 [x] ",
        ] {
            assert_eq!(rows(prefix), 10, "{prefix}");
        }
    }

    fn of_head(text: &str) -> Head {
        Head {
            name: "db_bench.txt".into(),
            bytes: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn the_head_is_enough() {
        // Without --stats_interval_seconds progress is one line of any length.
        for head in [
            "RocksDB:    version 10.7.0\nDate:       Thu Nov 26 10:00:00 2026\n",
            "LevelDB:    version 1.23\n",
            "x: RocksDB:    version 8.1\n",
        ] {
            assert!(recognise(&of_head(head)), "{head}");
        }
        assert!(!recognise(&of_head(
            "RocksDB version: 8.1\n- mean: 84.8 micros/op\n"
        )));
        let summary = crate::testing::import(
            &FORMAT,
            "RocksDB:    version 10.7.0\n... finished 100 ops      \r... finished 200 ops   \roverwrite    :      13.5 micros/op 73000 ops/sec 3.0 seconds 200 operations;  1.1 MB/s\n",
        )
        .unwrap();
        assert_eq!((summary.records, summary.rows), (1, 5));
    }

    #[test]
    fn what_a_logger_put_in_front_is_passed_over() {
        let log = "[2026-11-24 10:00:10.086] [info] Task 0, stdout: 2026/11/24-10:00:10  ... thread 6: (37,37) ops and (7.0,7.0) ops/second in (5.0,5.0) seconds\n\
            [2026-11-24 10:00:10.090] [info] Task 0, stdout: Uptime(secs): 10.0 total, 5.0 interval\n\
            [2026-11-24 10:00:10.090] [info] Task 0, stdout: Interval stall: 00:00:1.000 H:M:S, 20.0 percent\n\
            [2026-11-24 10:00:20.086] [info] Task 0, stdout: readwhilewriting :   5.0 micros/op 1000 ops/sec;  1.1 MB/s\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!((summary.records, summary.rows), (3, 6));
        assert_eq!(summary.start_unix_ns, Some(1_795_514_410_000_000_000));
    }

    #[test]
    fn what_rocksdb_says_of_itself_is_no_benchmarks() {
        let log = "fillrandom   :   70.0 micros/op 14000 ops/sec 10.0 seconds 140000 operations;  1.8 MB/s\n\
            ** DB Stats **\n\
            Uptime(secs): 10.2 total, 10.2 interval\n\
            Cumulative stall: 00:00:8.100 H:M:S, 79.4 percent\n\
            Interval stall: 00:00:8.100 H:M:S, 79.4 percent\n\
            ** Level 0 read latency histogram (micros):\n\
            Min: 0.0000  Median: 1.4000  Max: 90.0000\n\
            Percentiles: P50: 1.40 P75: 1.70 P99: 3.30 P99.9: 10.50 P99.99: 15.00\n\
            STATISTICS:\n\
            rocksdb.db.get.micros P50 : 0 P95 : 0 P99 : 0 P100 : 0 COUNT : 0 SUM : 0\n\
            rocksdb.db.write.micros P50 : 19 P95 : 1080 P99 : 2500 P100 : 1900000 COUNT : 140000 SUM : 1000000\n\
            rocksdb.db.write.stall P50 : 1250 P95 : 2700 P99 : 2800 P100 : 1890000 COUNT : 100 SUM : 500000\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        // The benchmark's 5, a share, what is since the opening 2, and twice 6 of statistics.
        assert_eq!((summary.records, summary.rows), (3, 20));
    }

    #[test]
    fn percentiles_below_a_summary_are_its_own() {
        let log = "fillrandom   :     990.074 micros/op 1010 ops/sec;    4.0 MB/s\n\
            Percentiles: P50: 721.23 P75: 2313.12 P99: 161971.90\n";
        let found = crate::testing::samples(&FORMAT, log, "latency_p99_ns");
        assert_eq!(found, [("fillrandom".into(), 0, 161_971_900.0)]);
    }

    #[test]
    fn the_slowest_is_told_without_a_median_and_in_a_diff() {
        let log = "+fillseq :     430.3008 micros/op 2324.0 ops/sec\n+Microseconds per op:\n+Min: 320.0000  Max:873116.0000\n";
        let found = crate::testing::samples(&FORMAT, log, "latency_max_ns");
        assert_eq!(found, [("fillseq".into(), 0, 873_116_000.0)]);
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
