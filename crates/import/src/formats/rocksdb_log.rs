//! RocksDB's LOG: dumps of its statistics, and its own events (flushes, compactions, stalls).
//!
//! The dumps are cumulative: what came between two is their difference, and percentiles of the whole cannot be subtracted, so only means are kept. Histograms
//! of old versions without COUNT and SUM are passed over. Excerpts are read, too: what `grep` found, with the file's name in front; RocksDB's lines in
//! Ceph's logs; MyRocks' status, which has no moments. Source: RocksDB's statistics.cc, event_logger.cc, column_family.cc.
use super::calendar::{date_ns, time_of_day_ns};
use super::rocksdb_dump::{metric, statistic, Blocks, Statistic};
use super::stamps::moment;
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{counted, last_word, word};
use crate::ImportError;
use case::schema::{EventRow, SubjectKind};
use serde_json::Value;
use std::collections::BTreeMap;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "rocksdb-log",
    about: "RocksDB's LOG or an excerpt, alone or in Ceph's logs: statistics and intervals between dumps as samples; flushes, compactions and stalls as events",
    not_carried: &[
        (
            "single operations",
            "RocksDB logs counters and means between dumps; outliers inside cannot be seen",
        ),
        (
            "percentiles between dumps",
            "the log has them since the start only, and they cannot be subtracted",
        ),
        (
            "the time zone",
            "RocksDB prints local time; the case takes it for UTC (Ceph's lines name their zone)",
        ),
    ],
    recognise,
    together: alone,
    read,
};

/// The moment of a line, and what follows the thread.
fn stamped(line: &str) -> Option<(i64, &str)> {
    of_log(line)
        .or_else(|| of_ceph(line))
        .or_else(|| of_cockroach(line))
}

/// Letters of `2022/11/24-15:58:09.512106`.
const STAMP: usize = 26;

/// `2022/11/24-15:58:09.512106 32851 ...`, also behind the name that grep puts in front of a file's lines.
fn of_log(line: &str) -> Option<(i64, &str)> {
    let (mut stamp, rest) = line.split_once(' ')?;
    if let Some((name, behind)) = stamp
        .len()
        .checked_sub(STAMP)
        .and_then(|at| stamp.split_at_checked(at))
    {
        if name.ends_with([':', '-']) {
            stamp = behind;
        }
    }
    let (date, time) = stamp.split_once('-')?;
    if date.len() != 10 || !date.contains('/') {
        return None;
    }
    let moment_ns = date_ns(&date.replace('/', "-"))? + time_of_day_ns(time, "")?;
    let (thread, rest) = rest.trim_start().split_once(' ')?;
    is_thread(thread).then_some((moment_ns, rest))
}

/// `2020-05-30T00:56:35.549+0200 7f00ad98b400  4 rocksdb: ...`, a line of Ceph's; of old ones with a blank between date and time.
fn of_ceph(line: &str) -> Option<(i64, &str)> {
    let (before, rest) = line.split_once(" rocksdb: ")?;
    let mut before = before.strip_prefix("debug ").unwrap_or(before);
    let level = last_word(&mut before);
    let thread = last_word(&mut before);
    let stamp = [word(&mut before), word(&mut before)];
    let is_level = level.parse::<i8>().is_ok();
    let moment_ns = moment(if stamp[1].is_empty() { &stamp[..1] } else { &stamp })?;
    (is_level && is_thread(thread) && before.trim().is_empty()).then_some((moment_ns, rest))
}

/// `I160826 04:47:00.189215 storage/engine/rocksdb.go:72  [WARN] ...`, a line of CockroachDB's, in UTC; of later ones with a number in front of the place.
fn of_cockroach(line: &str) -> Option<(i64, &str)> {
    let (before, rest) = line.split_once("rocksdb.go:")?;
    let mut words = before.split(' ');
    let (date, time) = (words.next()?.strip_prefix(['I', 'W', 'E', 'F'])?, words.next()?);
    let (year, month, day) = (date.get(..2)?, date.get(2..4)?, date.get(4..)?);
    let moment_ns = date_ns(&format!("20{year}-{month}-{day}"))? + time_of_day_ns(time, "")?;
    let (place, rest) = rest.split_once(' ')?;
    place
        .parse::<u32>()
        .is_ok()
        .then_some((moment_ns, rest.trim_start()))
}

/// A number, or hexadecimal.
fn is_thread(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn recognise(head: &Head) -> bool {
    head.has_line(|line| stamped(line.trim_start()).is_some_and(|(_, rest)| is_of_rocksdb(rest)))
        || is_status(head)
        || alone_of(head).is_some()
}

/// What a file holds of RocksDB's prints if that is all of it: totals since some opening, of which nothing says when it was or how long ago.
fn alone_of(head: &Head) -> Option<&'static str> {
    let lines = || head.filled_lines().take(200);
    let benchmarks = [&super::db_bench::FORMAT, &super::ycsb::FORMAT];
    let is_more = |line: &str| {
        line.starts_with("Uptime(secs): ")
            || line.contains("rocksdb: ")
            || line.contains("DUMPING STATS")
            || stamped(line).is_some()
    };
    if lines().any(is_more) || benchmarks.iter().any(|format| (format.recognise)(head)) {
        return None;
    }
    let statistics = lines()
        .filter(|line| matches!(statistic(line), Ok(Some(_))))
        .count();
    if 2 * statistics > lines().count() {
        return Some("RocksDB's statistics alone");
    }
    lines()
        .any(|line| line.starts_with("** Compaction Stats ["))
        .then_some("RocksDB's table of compactions alone")
}

/// Whether what follows a stamp is a line of RocksDB's: other stores (LevelDB) stamp theirs in the same way.
fn is_of_rocksdb(rest: &str) -> bool {
    let first = rest.split_once(']').map_or("", |(first, _)| first);
    rest.contains("RocksDB version:")
        || rest.to_ascii_lowercase().contains("speedb version:")
        || rest.contains("DUMPING STATS")
        || rest.contains("STATISTICS:")
        || rest.contains("EVENT_LOG_v1 {")
        || is_stall(rest)
        || first.starts_with('[') && (is_severity(&first[1..]) || first.contains(".cc:"))
}

fn is_severity(word: &str) -> bool {
    matches!(word, "DEBUG" | "INFO" | "WARN" | "ERROR" | "FATAL")
}

fn is_stall(rest: &str) -> bool {
    rest.contains("Stalling writes") || rest.contains("Stopping writes")
}

/// `DB Stats` alone, as `SHOW ENGINE ROCKSDB STATUS` has them. Benchmarks print them with what they measured.
fn is_status(head: &Head) -> bool {
    let benchmarks = [&super::db_bench::FORMAT, &super::ycsb::FORMAT];
    head.has_line(|line| line.trim() == "** DB Stats **")
        && head.has_line(|line| line.trim_start().starts_with("Uptime(secs): "))
        && !benchmarks.iter().any(|format| (format.recognise)(head))
}

/// Letters of an event that a terminal may have wrapped.
const EVENT_MAX: usize = 1 << 16;
/// Jobs that run at the same time: more only where their ends are not in the log.
const JOBS_MAX: usize = 1024;

#[derive(Default)]
struct Reader {
    /// Moment of the dump at hand.
    dump_ns: Option<i64>,
    now: BTreeMap<String, Statistic>,
    before: Option<(i64, BTreeMap<String, Statistic>)>,
    dumps: u64,
    /// Lines with a moment that tell nothing that is read, and whether others do.
    passed: u64,
    has_told: bool,
    /// No line has a moment: what is said is dated by how long the database is open.
    has_no_moments: bool,
    last_ns: i64,
    blocks: Blocks,
    /// An event that goes on in the next line.
    broken: Option<(i64, String)>,
    /// Events that ended before their JSON did.
    lost: u64,
    /// Flushes and compactions that began, by their number: what, and the moment at which the log says something of them last, if it does.
    jobs: BTreeMap<u64, (&'static str, Option<i64>)>,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        // What was shown may be indented.
        let plain = text.trim_start();
        if let Some((moment_ns, rest)) = stamped(plain) {
            self.end_dump(sink)?;
            self.lost += u64::from(self.broken.take().is_some());
            self.last_ns = moment_ns;
            self.blocks.end();
            if let Some(job) = job_of(rest, "[JOB ") {
                self.seen(job);
            }
            if rest.contains("RocksDB version:") {
                self.end_jobs(sink)?;
                self.blocks.opened();
            } else if rest.trim_end().ends_with("STATISTICS:") {
                self.dump_ns = Some(moment_ns);
            } else if let Some(at) = rest.find("EVENT_LOG_v1 ") {
                return self.event_text(rest[at + 13..].trim_end().to_owned(), moment_ns, sink);
            } else if is_stall(rest) {
                self.has_told = true;
                sink.record_without_row();
                sink.event(EventRow {
                    time_ns: moment_ns,
                    kind: "write_stall".into(),
                    subject: "rocksdb".into(),
                    detail: without_brackets(rest),
                })?;
            } else {
                self.passed += 1;
            }
            return Ok(());
        }
        if let Some((moment_ns, begun)) = self.broken.take() {
            // A terminal breaks lines where they reach its edge, between any two letters.
            return self.event_text(begun + text.trim_end_matches(['\r', '\n']), moment_ns, sink);
        }
        if self.dump_ns.is_some() {
            if let Some((name, statistic)) = statistic(plain)? {
                self.now.insert(name.to_owned(), statistic);
                return Ok(());
            }
        }
        let values = self.blocks.line(plain, sink)?;
        if let (true, Some(open_s)) = (self.has_no_moments, self.blocks.open_s()) {
            self.last_ns = (open_s.clamp(0.0, 1e9) * 1e9) as i64;
        }
        if !values.is_empty() {
            self.has_told = true;
            let subject = sink.name("rocksdb");
            sink.sample(self.last_ns, None, SubjectKind::Process, subject, &values)?;
        }
        Ok(())
    }

    /// `{"time_micros": 1669305489512106, "job": 2, "event": "flush_started", ...}`.
    fn event_text(&mut self, text: String, moment_ns: i64, sink: &mut Sink) -> Result<(), RecordError> {
        match serde_json::from_str(&text) {
            Ok(said) => self.event(&said, &text, moment_ns, sink),
            Err(error) if error.is_eof() && text.len() < EVENT_MAX => {
                self.broken = Some((moment_ns, text));
                Ok(())
            }
            Err(_) => Err(Bad::new("EVENT_LOG_v1", "JSON", &text).into()),
        }
    }

    fn event(
        &mut self,
        said: &Value,
        text: &str,
        moment_ns: i64,
        sink: &mut Sink,
    ) -> Result<(), RecordError> {
        let Some(kind) = said["event"].as_str() else {
            return Err(Bad::new("EVENT_LOG_v1", "an event", text).into());
        };
        self.has_told = true;
        sink.record_without_row();
        if let Some(job) = said["job"].as_u64() {
            match kind {
                "flush_started" => drop(self.jobs.insert(job, ("flush", None))),
                "compaction_started" => drop(self.jobs.insert(job, ("compaction", None))),
                "flush_finished" | "compaction_finished" => drop(self.jobs.remove(&job)),
                _ => self.seen(job),
            }
            if self.jobs.len() > JOBS_MAX {
                self.jobs.pop_first();
            }
        }
        // Files come and go with the flushes and compactions, which are imported.
        if !kind.starts_with("flush") && !kind.starts_with("compaction") {
            return Ok(());
        }
        let shown = [
            "job",
            "flush_reason",
            "compaction_reason",
            "total_data_size",
            "input_data_size",
            "total_output_size",
            "output_level",
            "compaction_time_micros",
        ];
        let detail: Vec<String> = shown
            .iter()
            .filter_map(|key| {
                said.get(*key)
                    .map(|value| format!("{key} {}", value.to_string().trim_matches('"')))
            })
            .collect();
        sink.event(EventRow {
            // `time_micros` is of the same moment but in UTC: the lines' own clock is kept.
            time_ns: moment_ns,
            kind: kind.to_owned(),
            subject: "rocksdb".into(),
            detail: detail.join(", "),
        })?;
        Ok(())
    }

    /// The line at hand says something of a job.
    fn seen(&mut self, job: u64) {
        if let Some((_, seen)) = self.jobs.get_mut(&job) {
            *seen = Some(self.last_ns);
        }
    }

    /// What ran where the log ends, or where the database was opened anew, took until then at least.
    fn end_jobs(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        for (job, (stem, seen)) in std::mem::take(&mut self.jobs) {
            if let Some(time_ns) = seen {
                sink.event(EventRow {
                    time_ns,
                    kind: format!("{stem}_unfinished"),
                    subject: "rocksdb".into(),
                    detail: format!("job {job}"),
                })?;
            }
        }
        Ok(())
    }

    /// A dump is whole where the next stamped line begins.
    fn end_dump(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let Some(dump_ns) = self.dump_ns.take() else {
            return Ok(());
        };
        let now = std::mem::take(&mut self.now);
        self.dumps += 1;
        sink.record_without_row();
        if let Some((before_ns, before)) = self.before.replace((dump_ns, now.clone())) {
            difference(dump_ns, (dump_ns - before_ns) as f64 / 1e9, &before, &now, sink)?;
        }
        Ok(())
    }

    fn end(&mut self, source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
        self.end_dump(sink)?;
        self.end_jobs(sink)?;
        let since_open = self.blocks.since_open(sink);
        if !since_open.is_empty() {
            let subject = sink.name("rocksdb");
            sink.sum(self.last_ns, None, SubjectKind::Process, subject, &since_open)?;
        }
        self.lost += u64::from(self.broken.take().is_some());
        if self.lost > 0 {
            sink.missing(
                format!("{} of {}", counted(self.lost, "event"), source.shown()),
                "their lines are broken off: the JSON behind EVENT_LOG_v1 does not end",
            );
        }
        let is_none = !self.has_told && self.dumps == 0 && since_open.is_empty();
        if is_none && self.passed > 0 {
            sink.missing(
                format!("what {} of {} say", counted(self.passed, "line"), source.shown()),
                "they are RocksDB's, and none tells of a stall, a flush, a compaction or statistics: import the whole LOG",
            );
        }
        if self.dumps < 2 {
            let because = match self.dumps {
                0 => "the log has no STATISTICS block: options.statistics is not set, or this is an excerpt",
                _ => "the log has 1 STATISTICS block, and a difference takes two: stats_dump_period_sec sets how often there is one",
            };
            sink.unseen(
                "what RocksDB's statistics say of the time between two dumps",
                because,
            );
        }
        Ok(())
    }
}

/// `[default] [JOB 2] Generated table ...`
fn job_of(text: &str, begin: &str) -> Option<u64> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(']')?.0.parse().ok()
}

/// Without the severity and the place in the source, with the column family behind: `[WARN] [db/column_family.cc:886] [index] Stopping writes ...`.
fn without_brackets(text: &str) -> String {
    let (mut rest, mut family) = (text.trim(), "");
    while let Some((inside, after)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        if !is_severity(inside) && !inside.contains(".cc:") {
            family = inside;
        }
        rest = after.trim_start();
    }
    match family {
        "" => rest.to_owned(),
        _ => format!("{rest}, column family {family}"),
    }
}

fn difference(
    time_ns: i64,
    seconds: f64,
    before: &BTreeMap<String, Statistic>,
    now: &BTreeMap<String, Statistic>,
    sink: &mut Sink,
) -> Result<(), ImportError> {
    let mut values = Vec::new();
    for (name, statistic) in now {
        let (metric, unit_ns) = metric(name);
        match (before.get(name), statistic) {
            (Some(Statistic::Counter(old)), Statistic::Counter(new)) if new > old => match unit_ns {
                Some(unit_ns) => {
                    values.push((sink.name(&format!("{metric}_time_ns")), (new - old) * unit_ns))
                }
                None => {
                    values.push((sink.name(&metric), new - old));
                    if seconds > 0.0 {
                        values.push((sink.name(&format!("{metric}_per_s")), (new - old) / seconds));
                    }
                }
            },
            (Some(Statistic::Histogram(old)), Statistic::Histogram(new)) if new.count > old.count => {
                let count = new.count - old.count;
                let mean = (new.sum - old.sum) / count;
                values.push((sink.name(&format!("{metric}_operations")), count));
                match unit_ns {
                    Some(unit_ns) => {
                        values.push((sink.name(&format!("{metric}_latency_ns")), mean * unit_ns));
                    }
                    None => values.push((sink.name(&format!("{metric}_mean")), mean)),
                }
            }
            _ => {}
        }
    }
    let subject = sink.name("rocksdb");
    sink.sum(time_ns, None, SubjectKind::Process, subject, &values)
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let head = Head::read(source.path())?;
    if let Some(found) = alone_of(&head) {
        let expected = "lines with moments, or ** DB Stats ** with its Uptime";
        let hint = "these are totals since the database was opened, without a moment: import the whole LOG, or the whole output of db_bench";
        return Err(ImportError::content(
            source.path(),
            "begin",
            expected,
            found,
            hint,
        ));
    }
    let has_moments = head.lines().any(|line| stamped(line.trim_start()).is_some());
    sink.clock(match has_moments {
        true => Clock::unix(1000),
        false => Clock::own("the opening of RocksDB", 100_000_000),
    });
    let mut reader = Reader {
        has_no_moments: !has_moments,
        ..Reader::default()
    };
    each_line(source, sink, |line, sink| reader.line(line.text, sink))?;
    reader.end(source, sink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::import;

    #[test]
    fn what_was_shown_indented_is_read() {
        let log = "2021/01/26-00:09:07.949333 7f798f7fe700 [WARN] [db/column_family.cc:886] [index] Stopping writes because we have 36 level-0 files\n\
            2021/01/26-00:09:08.949333 7f798f7fe700 EVENT_LOG_v1 {\"time_micros\": 1611619748949333, \"job\": 2, \"event\": \"flush_started\"}\n\
            2021/01/26-00:10:07.949333 7f798f7fe700 [INFO] [db/db_impl.cc:886] ------- DUMPING STATS -------\n\
            ** DB Stats **\nUptime(secs): 60.0 total, 60.0 interval\nInterval writes: 10 writes, 10 keys, 10 commit groups, 1.0 writes per commit group, ingest: 1.00 MB, 0.02 MB/s\n";
        let of = |log: &str| {
            import(&FORMAT, log)
                .map(|summary| (summary.records, summary.rows))
                .unwrap()
        };
        let plain = of(log);
        assert!(plain.1 > 2, "{plain:?}");
        for blanks in ["    ", "\t"] {
            let indented: String = log.lines().map(|line| format!("{blanks}{line}\n")).collect();
            assert_eq!(of(&indented), plain);
        }
    }

    #[test]
    fn what_grep_finds_is_a_log() {
        let line = "2026/11/24-19:28:15.100000 7f12abc00700 [WARN] [db/column_family.cc:886] [users] Stopping writes because we have 36 level-0 files";
        for (begin, end_ns) in [
            ("", 0),
            ("LOG:", 0),
            ("LOG.old.1795548495100000:", 0),
            ("db/LOG-", 0),
        ] {
            let summary = import(&FORMAT, &format!("{begin}{line}\n{begin}{line}\n")).unwrap();
            assert_eq!(
                (summary.records, summary.rows, summary.end_ns),
                (2, 2, end_ns),
                "{begin}"
            );
            assert_eq!(summary.start_unix_ns, Some(1_795_548_495_100_000_000), "{begin}");
        }
        // Lines without a stall are a log, too; LevelDB's are none of RocksDB's.
        let head = |rest: &str| Head {
            name: "LOG".into(),
            bytes: format!("2026/11/24-19:28:15.100000 7f12 {rest}\n").into_bytes(),
        };
        for rest in [
            "[/db_impl/db_impl.cc:788] Recovered",
            "[WARN] [default] x",
            "[users] Stalling writes because",
        ] {
            assert!(recognise(&head(rest)), "{rest}");
        }
        for rest in ["Level-0 table #5: started", "[ x", "... thread 0: (1"] {
            assert!(!recognise(&head(rest)), "{rest}");
        }
        assert_eq!(
            without_brackets(
                "[WARN] [db/column_family.cc:886] [users] Stopping writes because we have 36 level-0 files"
            ),
            "Stopping writes because we have 36 level-0 files, column family users"
        );
    }

    #[test]
    fn lines_of_ceph_are_rocksdbs_with_a_zone() {
        let rest = "[db/compaction_job.cc:1649] [default] x";
        let ns = |line: &str| stamped(line).map(|(ns, rest)| (ns / 1_000_000, rest.len()));
        let expected = Some((1_795_548_495_100, rest.len()));
        for stamp in [
            "2026-11-24T20:28:15.100+0100 7f00ad98b400  4",
            "2026-11-24 19:28:15.100 7f12 10",
            "debug 2026-11-24T19:28:15.100+0000 7f12 -1",
        ] {
            assert_eq!(ns(&format!("{stamp} rocksdb: {rest}")), expected, "{stamp}");
        }
        for other in [
            "2026-11-24T20:28:15.100+0100 7f12  0 bluestore(/x) slow",
            "x rocksdb: y",
            " rocksdb: ",
        ] {
            assert_eq!(ns(other), None, "{other}");
        }
    }

    #[test]
    fn an_event_that_a_terminal_wrapped_is_put_together() {
        let stamp = "2026/11/24-19:28:15.100000 7f12abc00700";
        let started = "{\"time_micros\": 1795548495100000, \"job\": 2, \"event\": \"compaction_sta\nrted\", \"input_da\nta_size\": 5}";
        let log = format!("{stamp} EVENT_LOG_v1 {started}\n");
        let summary = import(&FORMAT, &log).unwrap();
        assert_eq!((summary.records, summary.rows, summary.missing.len()), (1, 1, 0));
        // Broken off: the next line is another one's.
        let log = format!(
            "{stamp} EVENT_LOG_v1 {}\n{log}",
            started.split('\n').next().unwrap()
        );
        let summary = import(&FORMAT, &log).unwrap();
        assert_eq!((summary.records, summary.missing.len()), (1, 1));
        assert!(
            summary.missing[0].what.starts_with("1 event of"),
            "{:?}",
            summary.missing
        );
        let error = import(&FORMAT, &format!("{stamp} EVENT_LOG_v1 {{x}}\n")).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[test]
    fn a_compaction_that_the_log_does_not_end_took_until_its_last_word() {
        let line = |time: &str, event: &str| {
            format!("2026-11-24T20:28:{time}+0100 7f00ad98b400  4 rocksdb: {event}\n")
        };
        let log = line(
            "15.100",
            "EVENT_LOG_v1 {\"job\": 7, \"event\": \"compaction_started\"}",
        ) + &line(
            "37.100",
            "[db/compaction_job.cc:1332] [default] [JOB 7] Generated table #4: 5 keys, 6 bytes",
        ) + &line("39.000", "[db/compaction_job.cc:1332] [default] [JOB 8] x");
        let summary = import(&FORMAT, &log).unwrap();
        assert_eq!((summary.rows, summary.end_ns), (2, 22_000_000_000));
    }

    #[test]
    fn a_status_without_moments_is_dated_by_how_long_the_database_is_open() {
        let log = "  Type: DBSTATS\n  Name: rocksdb\nStatus: \n** DB Stats **\nUptime(secs): 5788.5 total, 85.1 interval\n\
            Cumulative stall: 00:10:20.500 H:M:S, 10.7 percent\n";
        let summary = import(&FORMAT, log).unwrap();
        assert_eq!((summary.rows, summary.end_ns), (2, 5_788_500_000_000));
        assert!(!recognise(&Head {
            name: "x".into(),
            bytes: format!("RocksDB:    version 7.10.0\n{log}").into_bytes(),
        }));
    }

    #[test]
    fn lines_of_cockroach_are_rocksdbs() {
        let line = "I160826 04:47:00.189215 storage/engine/rocksdb.go:72  [WARN] [default] Stalling writes because we have 20 level-0 files";
        let later = line.replace("storage", "42 storage");
        let summary = import(&FORMAT, &format!("$ grep WARN rocks.log\n{line}\n{later}\n")).unwrap();
        assert_eq!((summary.records, summary.rows), (2, 2));
        assert_eq!(summary.start_unix_ns, Some(1_472_186_820_189_215_000));
        let none = line.replace("Stalling writes", "Increasing compaction threads") + "\n";
        let summary = import(&FORMAT, &none).unwrap();
        assert!(
            summary
                .why_none()
                .is_some_and(|why| why.contains("1 line of log")),
            "{:?}",
            summary.missing
        );
        assert_eq!(
            stamped("I160826 04:47:00.189215 storage/engine/batch.go:72  x"),
            None
        );
    }

    #[test]
    fn totals_without_a_moment_are_refused_by_name() {
        let statistics = "rocksdb.sst.write.micros P50 : 4.0 P95 : 9.6 P99 : 14.6 P100 : 48553.0 COUNT : 297400 SUM : 2412867\n";
        let table = "This is what it costs\n** Compaction Stats [default] **\nLevel    Files   Size\n  L0      2/0   37.57 MB\n";
        for (log, what) in [
            (statistics, "statistics alone"),
            (table, "table of compactions alone"),
        ] {
            let error = import(&FORMAT, log).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("Uptime"), "{error}");
        }
    }

    #[test]
    fn what_is_not_in_the_log_is_said_as_it_is() {
        let dump = "2026/11/24-19:28:15.100000 7f12 [db/db_impl.cc:853] ------- DUMPING STATS -------\n";
        let statistics = "2026/11/24-19:28:15.100000 7f12 [db/db_impl.cc:788] STATISTICS:\n rocksdb.bytes.read COUNT : 5\n";
        for (log, because) in [
            (dump.to_owned(), "options.statistics is not set"),
            (statistics.to_owned(), "1 STATISTICS block"),
        ] {
            let unseen = import(&FORMAT, &log).unwrap().not_observed;
            assert!(
                unseen.iter().any(|one| one.because.contains(because)),
                "{unseen:?}"
            );
        }
    }
}
