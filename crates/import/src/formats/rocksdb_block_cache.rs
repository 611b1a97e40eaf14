//! RocksDB's trace of its block cache in its readable form: comma-separated, no header, 21 fields. Source: trace_replay/block_cache_tracer.cc.
//!
//! The trace has no latency: accesses per second and the share that hit become samples, by who asked.
use super::rocksdb_seconds::{second_of, Seconds};
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::integer;
use crate::ImportError;
use case::schema::NameId;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "rocksdb-block-cache",
    about:
        "RocksDB's block cache trace, readable form: accesses per second and the share that hit, as samples",
    not_carried: &[
        (
            "latencies",
            "the trace tells which block was asked for, not how long it took",
        ),
        ("single accesses", "they are summed up per second and caller"),
    ],
    recognise,
    together: alone,
    read,
};

/// Places of the moment, the block's size, the caller, and whether it hit.
const MOMENT: usize = 0;
const SIZE: usize = 3;
const CALLER: usize = 8;
const HIT: usize = 13;
const FIELDS_MIN: usize = 19;

fn caller(number: &str) -> &'static str {
    let names = [
        "get",
        "multiget",
        "iterator",
        "approximate_size",
        "verify_checksum",
        "sst_dump",
        "ingestion",
        "repair",
        "prefetch",
        "compaction",
        "compaction_refill",
        "flush",
    ];
    number
        .parse::<usize>()
        .ok()
        .and_then(|at| names.get(at.checked_sub(1)?).copied())
        .unwrap_or("other")
}

fn recognise(head: &Head) -> bool {
    let is_row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        cells.len() >= FIELDS_MIN
            && cells[MOMENT].len() >= 15
            && [MOMENT, SIZE, CALLER]
                .iter()
                .all(|at| cells[*at].parse::<u64>().is_ok())
            && matches!(cells[HIT], "0" | "1")
    };
    let mut lines = head.filled_lines().take(20).peekable();
    lines.peek().is_some() && lines.all(is_row)
}

/// Accesses, hits, and bytes of blocks that missed.
type Sums = (u64, u64, u64);

fn values((count, hits, missed_bytes): &Sums, sink: &mut Sink) -> Vec<(NameId, f64)> {
    vec![
        (sink.name("operations_per_s"), *count as f64),
        (sink.name("hit_ratio"), *hits as f64 / *count as f64),
        (sink.name("missed_bytes_per_s"), *missed_bytes as f64),
    ]
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    sink.clock(Clock::unix(1000));
    let mut seconds: Seconds<Sums> = Seconds::new(values);
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if text.is_empty() {
            return Ok(());
        }
        let cells: Vec<&str> = text.split(',').collect();
        if cells.len() < FIELDS_MIN {
            return Err(Bad::new("", "21 comma-separated fields of an access", text).into());
        }
        let second = second_of(cells[MOMENT])?;
        let size: u64 = integer(cells[SIZE], "block size")?;
        let is_hit = match cells[HIT] {
            "0" => false,
            "1" => true,
            other => return Err(Bad::new("column is_hit", "0 or 1", other).into()),
        };
        let sums = seconds.at(second, caller(cells[CALLER]), sink)?;
        let missed = if is_hit { 0 } else { size };
        *sums = (
            sums.0 + 1,
            sums.1 + u64::from(is_hit),
            sums.2.saturating_add(missed),
        );
        sink.record_without_row();
        Ok(())
    })?;
    seconds.flush(sink)
}
