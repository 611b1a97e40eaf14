//! Raw measurements of YCSB (`measurementtype=raw`): `READ,1539890121213,426` (kind, milliseconds since 1970 of the end, microseconds).
//!
//! Built from YCSB's OneMeasurementRaw.java. Other lines of YCSB's output (its status, its summary) are passed over.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::{one_stage_op, Sink};
use crate::text::integer;
use crate::ImportError;
use case::schema::{Layer, Op, Stage};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "ycsb-raw",
    about: "raw measurements of YCSB (measurementtype=raw): every operation",
    not_carried: &[
        (
            "which keys were asked for",
            "YCSB's raw measurements do not hold them",
        ),
        (
            "the order of operations within a millisecond",
            "moments are in milliseconds",
        ),
        (
            "when operations were meant to begin",
            "raw measurements count from when they did begin",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn recognise(head: &Head) -> bool {
    head.has_line(|line| line.contains("latency raw data: op, timestamp(ms), latency(us)"))
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut is_told = false;
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        let fields: Vec<&str> = text.split(',').collect();
        // `[READ], Return=OK, 100` and messages of YCSB stand among them.
        let is_record = fields.len() >= 2
            && fields[0]
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b == b'-' || b == b'_');
        if !is_record || fields[0].is_empty() {
            return Ok(());
        }
        if fields.len() != 3 {
            return Err(Bad::new("", "KIND,MILLISECONDS,MICROSECONDS", text).into());
        }
        if !is_told {
            sink.clock(Clock::unix(1_000_000));
            sink.layer(
                Layer::App,
                &[(Stage::Fs, "fs+queue+device+interrupt+reap+runqueue")],
            );
            sink.resolution(1000);
            is_told = true;
        }
        let op = match fields[0] {
            "READ" | "SCAN" => Op::Read,
            "UPDATE" | "INSERT" | "DELETE" => Op::Write,
            // A read-modify-write is counted as its parts, too; what cleans up does no I/O of the load.
            _ => Op::Other,
        };
        let end_ns = i64::from(integer::<u32>(
            fields[1].get(..fields[1].len().saturating_sub(3)).unwrap_or(""),
            "timestamp",
        )?) * 1_000_000_000
            + i64::from(integer::<u32>(
                fields[1].get(fields[1].len().saturating_sub(3)..).unwrap_or(""),
                "timestamp",
            )?) * 1_000_000;
        let latency_ns = i64::from(integer::<u32>(fields[2].trim(), "latency")?) * 1000;
        let mut row = one_stage_op(end_ns - latency_ns, latency_ns, op, Stage::Fs);
        row.comm = Some(sink.name("ycsb"));
        sink.op(Layer::App, row)?;
        Ok(())
    })
}
