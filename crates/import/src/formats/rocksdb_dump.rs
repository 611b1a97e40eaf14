//! What RocksDB prints of itself, into its LOG, into db_bench's output and into MyRocks' status: lines of `STATISTICS`, and the blocks `DB Stats` and
//! `Compaction Stats`. Source: RocksDB's statistics.cc, internal_stats.cc.
use crate::error::Bad;
use crate::sink::Sink;
use crate::text::{number, scaled};
use case::schema::NameId;
use std::collections::BTreeMap;

/// A line of `STATISTICS`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// How many.
    Counter(f64),
    /// How many, and how much.
    Histogram(Histogram),
}

/// All since the database was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Histogram {
    /// How many.
    pub count: f64,
    /// Of all of them.
    pub sum: f64,
    /// In the order of [`PERCENTILES`].
    pub percentiles: [Option<f64>; 4],
}

/// What a line calls them, and a metric.
const PERCENTILES: [(&str, &str); 4] = [("P50", "p50"), ("P95", "p95"), ("P99", "p99"), ("P100", "max")];

/// `rocksdb.x COUNT : 5`, or `rocksdb.x P50 : ... COUNT : 5 SUM : 7`.
pub fn statistic(line: &str) -> Result<Option<(&str, Statistic)>, Bad> {
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
        (Some(_), Some(sum)) => {
            let percentiles = PERCENTILES.map(|(word, _)| number(after(word)?, "P50").ok());
            let sum = number(sum, "SUM")?;
            let histogram = Histogram {
                count,
                sum,
                percentiles,
            };
            (name, Statistic::Histogram(histogram))
        }
        _ => (name, Statistic::Counter(count)),
    }))
}

/// `rocksdb.db.get.micros` becomes `db_get`, with the nanoseconds of its unit if it is a time.
pub fn metric(name: &str) -> (String, Option<f64>) {
    let base = name.trim_start_matches("rocksdb.");
    let (base, unit_ns) = if let Some(base) = base.strip_suffix("micros") {
        (base, Some(1e3))
    } else if let Some(base) = base.strip_suffix("nanos") {
        (base, Some(1.0))
    } else if let Some(base) = base.strip_suffix("millis") {
        (base, Some(1e6))
    } else if base == "db.write.stall" {
        // The only time that does not name its unit.
        (base, Some(1e3))
    } else {
        (base, None)
    };
    (
        base.trim_end_matches(['.', '_', '-']).replace(['.', '-'], "_"),
        unit_ns,
    )
}

/// How many of something there were, and how long they took, as samples; nothing of what is no time, or never came.
pub fn summed_up(name: &str, histogram: &Histogram, sink: &mut Sink) -> Vec<(NameId, f64)> {
    let (metric, Some(unit_ns)) = metric(name) else {
        return Vec::new();
    };
    if histogram.count <= 0.0 {
        return Vec::new();
    }
    let mean_ns = histogram.sum / histogram.count * unit_ns;
    let mut values = vec![
        (sink.name(&format!("{metric}_operations")), histogram.count),
        (sink.name(&format!("{metric}_latency_ns")), mean_ns),
    ];
    for ((_, of), value) in PERCENTILES.iter().zip(histogram.percentiles) {
        if let Some(value) = value {
            values.push((sink.name(&format!("{metric}_latency_{of}_ns")), value * unit_ns));
        }
    }
    values
}

/// What lines of stalls call a cause, old versions first, and its metric. Those `with ongoing compaction` are among the others.
const CAUSES: [(&str, &str); 13] = [
    ("level0_slowdown", "level0_delays"),
    ("l0-file-count-limit-delays", "level0_delays"),
    ("level0_numfiles", "level0_stops"),
    ("l0-file-count-limit-stops", "level0_stops"),
    ("memtable_slowdown", "memtable_delays"),
    ("memtable-limit-delays", "memtable_delays"),
    ("memtable_compaction", "memtable_stops"),
    ("memtable-limit-stops", "memtable_stops"),
    (
        "slowdown for pending_compaction_bytes",
        "pending_compaction_delays",
    ),
    ("pending-compaction-bytes-delays", "pending_compaction_delays"),
    ("stop for pending_compaction_bytes", "pending_compaction_stops"),
    ("pending-compaction-bytes-stops", "pending_compaction_stops"),
    ("write-buffer-manager-limit-stops", "write_buffer_stops"),
];

/// Reads the blocks `DB Stats` and `Compaction Stats`.
#[derive(Default)]
pub struct Blocks {
    /// Seconds since the database was opened, and of the interval: `Uptime(secs): 604.8 total, 4.8 interval`.
    uptime: Option<(f64, f64)>,
    /// The column family at hand; "": the whole database.
    family: String,
    /// How often writes were held up since it was opened, by family and cause.
    stalls: BTreeMap<(String, &'static str), f64>,
    /// Seconds of that, of how many.
    stalled: Option<(f64, f64)>,
}

impl Blocks {
    /// Another line begins that is none of a block.
    pub fn end(&mut self) {
        self.uptime = None;
    }

    /// The database was opened anew: it counts from 0.
    pub fn opened(&mut self) {
        *self = Blocks::default();
    }

    /// Seconds since the database was opened, as the block at hand says.
    pub fn open_s(&self) -> Option<f64> {
        self.uptime.map(|(total, _)| total)
    }

    /// What a line says of the interval since the block before.
    pub fn line(&mut self, text: &str, sink: &mut Sink) -> Result<Vec<(NameId, f64)>, Bad> {
        let text = text.trim_end();
        if let Some(rest) = text.strip_prefix("Uptime(secs): ") {
            self.uptime = uptime(rest);
        } else if let Some(rest) = text.strip_prefix("** Compaction Stats [") {
            rest.trim_end_matches("] **").clone_into(&mut self.family);
        } else if text.starts_with("** DB Stats") {
            self.family.clear();
        } else if let (Some(rest), Some((_, interval_s))) = (text.strip_prefix("Interval "), self.uptime) {
            return interval(rest, interval_s, sink);
        } else if let (Some(rest), Some((open_s, _))) = (text.strip_prefix("Cumulative stall: "), self.uptime)
        {
            self.stalled = seconds_of(rest.split(' ').next().unwrap_or("")).map(|stalled| (stalled, open_s));
        } else if let Some(rest) = text
            .strip_prefix("Stalls(count): ")
            .or_else(|| text.strip_prefix("Write Stall (count): "))
        {
            for (cause, count) in rest.split(", ").filter_map(cause) {
                self.stalls.insert((self.family.clone(), cause), count);
            }
        }
        Ok(Vec::new())
    }

    /// What the last blocks say of all the time since the database was opened: how long writers were held up, and how often for what.
    pub fn since_open(&mut self, sink: &mut Sink) -> Vec<(NameId, f64)> {
        let mut values = Vec::new();
        if let Some((stalled_s, open_s)) = self.stalled.take() {
            values.push((sink.name("since_open_ns"), open_s * 1e9));
            values.push((sink.name("since_open_stalled_ns"), stalled_s * 1e9));
        }
        let mut causes: BTreeMap<&str, f64> = BTreeMap::new();
        for ((_, cause), count) in std::mem::take(&mut self.stalls) {
            *causes.entry(cause).or_default() += count;
        }
        for (cause, count) in causes.into_iter().filter(|(_, count)| *count > 0.0) {
            values.push((sink.name(&format!("since_open_{cause}")), count));
        }
        values
    }
}

/// `311 level0_slowdown`, `memtable-limit-stops: 4`.
fn cause(part: &str) -> Option<(&'static str, f64)> {
    let (name, count) = match part.split_once(": ") {
        Some(both) => both,
        None => part.split_once(' ').map(|(count, name)| (name, count))?,
    };
    let (_, cause) = CAUSES.iter().find(|(known, _)| *known == name)?;
    Some((cause, number(count, "of stalls").ok()?))
}

/// `writes: 0 writes, 0 keys, ... ingest: 0.00 MB, 0.00 MB/s`, `WAL: 0 writes, 0 syncs, ...`, `stall: 00:00:1.250 H:M:S, 12.3 percent`.
fn interval(text: &str, interval_s: f64, sink: &mut Sink) -> Result<Vec<(NameId, f64)>, Bad> {
    let Some((kind, rest)) = text.split_once(": ") else {
        return Ok(Vec::new());
    };
    let of = |unit: &str| {
        let parts = rest.split([',', ':']).map(str::trim);
        let value = parts.filter_map(|part| part.strip_suffix(unit)).next_back()?;
        human(value.trim())
    };
    let seconds = Some(interval_s).filter(|seconds| *seconds > 0.0);
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
        _ => return Ok(Vec::new()),
    };
    let values: Vec<_> = all
        .into_iter()
        .filter_map(|(metric, value)| Some((sink.name(metric), value?)))
        .collect();
    match values.is_empty() {
        true => Err(Bad::new("", "what an interval held", text)),
        false => Ok(values),
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

/// Seconds in `604.8 total, 4.8 interval`.
fn uptime(text: &str) -> Option<(f64, f64)> {
    let (total, interval) = text.strip_suffix(" interval")?.split_once(" total, ")?;
    Some((number(total, "total").ok()?, number(interval, "interval").ok()?))
}

/// Seconds of `03:13:20.714`.
fn seconds_of(text: &str) -> Option<f64> {
    let mut parts = text.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let whole =
        hours.parse::<u32>().ok()? * 60 + minutes.parse::<u32>().ok().filter(|minutes| *minutes < 60)?;
    let seconds_ns = scaled(seconds, 1_000_000_000).filter(|ns| (0..=60_000_000_000).contains(ns))?;
    parts
        .next()
        .is_none()
        .then_some(f64::from(whole) * 60.0 + seconds_ns as f64 / 1e9)
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
        assert_eq!(uptime("604.8 total, 600.5 interval"), Some((604.8, 600.5)));
        assert_eq!(
            (uptime("604.8 total"), uptime("x total, 1 interval")),
            (None, None)
        );
        assert_eq!(seconds_of("100:13:20.5"), Some(360_800.5));
        assert_eq!(
            (
                seconds_of("1:60:0"),
                seconds_of("1:0"),
                seconds_of("9999999999:0:0")
            ),
            (None, None, None)
        );
    }

    #[test]
    fn causes_of_stalls_by_either_name() {
        assert_eq!(cause("311 level0_slowdown"), Some(("level0_delays", 311.0)));
        assert_eq!(
            cause("2 stop for pending_compaction_bytes"),
            Some(("pending_compaction_stops", 2.0))
        );
        assert_eq!(cause("memtable-limit-stops: 4"), Some(("memtable_stops", 4.0)));
        for none in [
            "97 level0_slowdown_with_compaction",
            "interval 183 total count",
            "total-stops: 1",
            "",
        ] {
            assert_eq!(cause(none), None, "{none}");
        }
    }

    #[test]
    fn a_histogram_with_its_percentiles() {
        let line = " rocksdb.db.write.stall P50 : 1.5 P95 : 2 P99 : 3 P100 : 9 COUNT : 4 SUM : 8";
        let (name, Statistic::Histogram(found)) = statistic(line).unwrap().unwrap() else {
            panic!("no histogram");
        };
        assert_eq!(
            (found.count, found.sum, found.percentiles),
            (4.0, 8.0, [Some(1.5), Some(2.0), Some(3.0), Some(9.0)])
        );
        assert_eq!(metric(name), ("db_write_stall".into(), Some(1e3)));
        assert_eq!(metric("rocksdb.db.get.micros"), ("db_get".into(), Some(1e3)));
        assert_eq!(
            statistic("rocksdb.bytes.read COUNT : 5").unwrap(),
            Some(("rocksdb.bytes.read", Statistic::Counter(5.0)))
        );
        assert!(statistic("rocksdb.bytes.read COUNT : x").is_err());
    }
}
