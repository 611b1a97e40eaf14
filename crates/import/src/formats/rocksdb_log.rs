//! RocksDB's LOG: dumps of its statistics, and its own events (flushes, compactions, stalls).
//!
//! The dumps are cumulative: what came between two is their difference, and percentiles of the whole cannot be subtracted, so only means are kept. Histograms
//! of old versions without COUNT and SUM are passed over. Source: RocksDB's statistics.cc, event_logger.cc.
use super::calendar::{date_ns, time_of_day_ns};
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::number;
use crate::ImportError;
use case::schema::{EventRow, SubjectKind};
use serde_json::Value;
use std::collections::BTreeMap;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "rocksdb-log",
    about: "RocksDB's LOG: statistics and intervals between dumps as samples; flushes, compactions and stalls as events",
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
            "RocksDB prints local time; the case takes it for UTC",
        ),
    ],
    recognise,
    together: alone,
    read,
};

/// `2022/11/24-15:58:09.512106 32851 ...`: the moment and what follows the thread.
fn stamped(line: &str) -> Option<(i64, &str)> {
    let (stamp, rest) = line.split_once(' ')?;
    let (date, time) = stamp.split_once('-')?;
    if date.len() != 10 || !date.contains('/') {
        return None;
    }
    let moment_ns = date_ns(&date.replace('/', "-"))? + time_of_day_ns(time, "")?;
    let (thread, rest) = rest.trim_start().split_once(' ')?;
    // The thread is a number, or hexadecimal.
    let is_thread = !thread.is_empty() && thread.bytes().all(|b| b.is_ascii_hexdigit());
    is_thread.then_some((moment_ns, rest))
}

fn recognise(head: &Head) -> bool {
    head.has_line(|line| {
        stamped(line.trim_start()).is_some_and(|(_, rest)| {
            rest.contains("RocksDB version:")
                || rest.to_ascii_lowercase().contains("speedb version:")
                || rest.contains("DUMPING STATS")
                || rest.contains("STATISTICS:")
                || rest.contains("EVENT_LOG_v1 {")
        })
    })
}

/// A line of a dump.
#[derive(Clone, Copy, PartialEq)]
enum Statistic {
    Counter(f64),
    /// Count and sum.
    Histogram(f64, f64),
}

/// `rocksdb.x COUNT : 5`, or `rocksdb.x P50 : ... COUNT : 5 SUM : 7`.
fn statistic(line: &str) -> Result<Option<(&str, Statistic)>, Bad> {
    let line = line.trim();
    let Some((name, rest)) = line
        .split_once(' ')
        .filter(|(name, _)| name.starts_with("rocksdb."))
    else {
        return Ok(None);
    };
    let after = |word: &str| {
        let mut words = rest.split_whitespace();
        words.find(|one| *one == word)?;
        words.nth(1)
    };
    let Some(count) = after("COUNT") else {
        return Ok(None);
    };
    let count = number(count, "COUNT")?;
    Ok(Some(match (after("P50"), after("SUM")) {
        (Some(_), Some(sum)) => (name, Statistic::Histogram(count, number(sum, "SUM")?)),
        _ => (name, Statistic::Counter(count)),
    }))
}

#[derive(Default)]
struct Reader {
    /// Moment of the dump at hand.
    dump_ns: Option<i64>,
    now: BTreeMap<String, Statistic>,
    before: Option<(i64, BTreeMap<String, Statistic>)>,
    dumps: u64,
    last_ns: i64,
    /// Seconds that the lines at hand are of: `Uptime(secs): 4.8 total, 4.8 interval`.
    interval_s: Option<f64>,
    intervals: u64,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if let Some((moment_ns, rest)) = stamped(text) {
            self.end_dump(sink)?;
            self.last_ns = moment_ns;
            self.interval_s = None;
            if rest.trim_end().ends_with("STATISTICS:") {
                self.dump_ns = Some(moment_ns);
            } else if let Some(at) = rest.find("EVENT_LOG_v1 ") {
                return event(&rest[at + 13..], moment_ns, sink);
            } else if rest.contains("Stalling writes") || rest.contains("Stopping writes") {
                sink.event(EventRow {
                    time_ns: moment_ns,
                    kind: "write_stall".into(),
                    subject: "rocksdb".into(),
                    detail: after_bracket(rest).to_owned(),
                })?;
            }
        } else if let Some(rest) = text.strip_prefix("Uptime(secs): ") {
            self.interval_s = uptime_interval(rest);
        } else if let (Some(rest), Some(_)) = (text.strip_prefix("Interval "), self.interval_s) {
            return self.interval(rest, sink);
        } else if self.dump_ns.is_some() {
            if let Some((name, statistic)) = statistic(text)? {
                self.now.insert(name.to_owned(), statistic);
            }
        }
        Ok(())
    }

    /// A dump is whole where the next stamped line begins.
    /// `writes: 0 writes, 0 keys, ... ingest: 0.00 MB, 0.00 MB/s`, `WAL: 0 writes, 0 syncs, ...`, `stall: 00:00:1.250 H:M:S, 12.3 percent`.
    fn interval(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let Some((kind, rest)) = text.trim_end().split_once(": ") else {
            return Ok(());
        };
        let of = |unit: &str| {
            let parts = rest.split([',', ':']).map(str::trim);
            let value = parts.filter_map(|part| part.strip_suffix(unit)).next_back()?;
            human(value.trim())
        };
        let seconds = self.interval_s.filter(|seconds| *seconds > 0.0);
        let per_s = |count: Option<f64>| Some(count? / seconds?);
        let all: Vec<(&str, Option<f64>)> = match kind {
            "writes" => vec![
                ("db_writes", of(" writes")),
                ("db_writes_per_s", per_s(of(" writes"))),
                ("db_keys_written", of(" keys")),
                ("db_ingest_bytes_per_s", of(" MB/s").map(|mb| mb * 1_048_576.0)),
            ],
            "WAL" => vec![
                ("wal_syncs", of(" syncs")),
                ("wal_syncs_per_s", per_s(of(" syncs"))),
                ("wal_written_bytes_per_s", of(" MB/s").map(|mb| mb * 1_048_576.0)),
            ],
            "stall" => vec![("write_stall_ratio", of(" percent").map(|percent| percent / 100.0))],
            _ => return Ok(()),
        };
        let values: Vec<_> = all
            .into_iter()
            .filter_map(|(metric, value)| Some((sink.name(metric), value?)))
            .collect();
        if values.is_empty() {
            return Err(Bad::new("", "what an interval held", text).into());
        }
        self.intervals += 1;
        let subject = sink.name("rocksdb");
        sink.sample(self.last_ns, None, SubjectKind::Process, subject, &values)?;
        Ok(())
    }

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
}

/// A number as RocksDB prints large ones: `1234K`, `56M`.
fn human(text: &str) -> Option<f64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    Some(number(digits, "of an interval").ok()? * factor)
}

/// Seconds of the interval in `4.8 total, 4.8 interval`.
fn uptime_interval(text: &str) -> Option<f64> {
    let interval = text.trim_end().strip_suffix(" interval")?;
    number(interval.rsplit(' ').next()?, "interval").ok()
}

/// Without `[default] ` and the place in the source.
fn after_bracket(text: &str) -> &str {
    let mut rest = text.trim();
    while let Some((_, after)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        rest = after.trim_start();
    }
    rest
}

/// `db.get.micros` becomes `db_get`.
fn metric(name: &str) -> (String, Option<f64>) {
    let base = name.trim_start_matches("rocksdb.");
    let (base, unit_ns) = if let Some(base) = base.strip_suffix("micros") {
        (base, Some(1e3))
    } else if let Some(base) = base.strip_suffix("nanos") {
        (base, Some(1.0))
    } else if let Some(base) = base.strip_suffix("millis") {
        (base, Some(1e6))
    } else {
        (base, None)
    };
    (
        base.trim_end_matches(['.', '_', '-']).replace(['.', '-'], "_"),
        unit_ns,
    )
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
            (Some(Statistic::Histogram(old, old_sum)), Statistic::Histogram(new, new_sum)) if new > old => {
                let mean = (new_sum - old_sum) / (new - old);
                values.push((sink.name(&format!("{metric}_operations")), new - old));
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

/// `{"time_micros": 1669305489512106, "job": 2, "event": "flush_started", ...}`.
fn event(text: &str, moment_ns: i64, sink: &mut Sink) -> Result<(), RecordError> {
    let said: Value =
        serde_json::from_str(text.trim()).map_err(|_| Bad::new("EVENT_LOG_v1", "JSON", text))?;
    let Some(kind) = said["event"].as_str() else {
        return Err(Bad::new("EVENT_LOG_v1", "an event", text).into());
    };
    sink.record_without_row();
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

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    sink.clock(Clock::unix(1000));
    let mut reader = Reader::default();
    each_line(source, sink, |line, sink| reader.line(line.text, sink))?;
    reader.end_dump(sink)?;
    if reader.dumps < 2 {
        sink.unseen(
            "what RocksDB's statistics say of the time between two dumps",
            format!(
                "the log has {}; set statistics and stats_dump_period_sec",
                reader.dumps
            ),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_intervals() {
        assert_eq!(
            (human("9999"), human("1234K"), human("5.5M")),
            (Some(9999.0), Some(1_234_000.0), Some(5_500_000.0))
        );
        assert_eq!((human("K"), human("")), (None, None));
        assert_eq!(uptime_interval("604.8 total, 600.5 interval"), Some(600.5));
        assert_eq!(uptime_interval("604.8 total"), None);
    }
}
