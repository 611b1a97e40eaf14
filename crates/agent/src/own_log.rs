//! `own-log`: what a program said of its own operations becomes a raw stream of its case.
use crate::args::OwnLogArgs;
use crate::failure::{io_failure, Failure};
use crate::observe::require_case;
use case::raw::{RawRow, RawWriter};
use case::rows::OwnRow;
use case::schema::Op;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Writes `raw/own/`: the stream of operations, and what was run.
///
/// A line of the log is `KIND START_NS LATENCY_NS TID LATE_NS`, CLOCK_MONOTONIC: a kind of operation, when it was due, how long
/// it took from then on, its thread (0 = not known), and how much later than it was due the program began with it. A program that
/// knows them adds `OFFSET_BYTES SIZE_BYTES ERRNO`. A last line without its end is left out: the program was ended while it wrote. Errors name file, line, what was expected and what was found.
pub fn main(args: &OwnLogArgs) -> Result<(), Failure> {
    require_case(&args.case)?;
    let folder = args.case.join("raw").join(OwnRow::PROBE);
    std::fs::create_dir_all(&folder).map_err(|error| io_failure(&folder, "create the folder", &error))?;
    let about = folder.join("workload.json");
    std::fs::copy(&args.about, &about).map_err(|error| io_failure(&about, "write", &error))?;
    match &args.log {
        Some(log) => convert(log, &folder.join("own.arrows")),
        None => Ok(()),
    }
}

fn convert(log: &Path, stream: &Path) -> Result<(), Failure> {
    let file = File::open(log).map_err(|error| io_failure(log, "open", &error))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut writer = RawWriter::<OwnRow>::create(stream, &[]).map_err(Failure::error)?;
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        read.map_err(|error| io_failure(log, "read", &error))?;
        if line.pop() != Some(b'\n') {
            break;
        }
        number += 1;
        let row = parsed(&line).ok_or_else(|| {
            Failure::error(format!(
                "{}: line {number}: expected KIND START_NS LATENCY_NS TID LATE_NS [OFFSET_BYTES SIZE_BYTES ERRNO], found '{}'; the log is damaged",
                log.display(),
                String::from_utf8_lossy(&line)
            ))
        })?;
        writer.push(&row).map_err(Failure::error)?;
    }
    writer.finish().map_err(Failure::error)?;
    Ok(())
}

fn parsed(line: &[u8]) -> Option<OwnRow> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let op = Op::from_name(words.next()?)? as u8;
    let start_ns: u64 = words.next()?.parse().ok()?;
    let latency_ns: u64 = words.next()?.parse().ok()?;
    let tid = words.next()?.parse().ok()?;
    let late_ns: u64 = words.next()?.parse().ok()?;
    let (offset_bytes, size_bytes, error) = match words.next() {
        None => (0, 0, 0),
        Some(offset) => (
            offset.parse().ok()?,
            words.next()?.parse().ok()?,
            words.next()?.parse().ok()?,
        ),
    };
    let is_place = [offset_bytes, size_bytes]
        .iter()
        .all(|bytes| *bytes <= i64::MAX as u64);
    let row = OwnRow {
        start_ns,
        submit_ns: start_ns.checked_add(late_ns)?,
        end_ns: start_ns.checked_add(latency_ns)?,
        tid,
        op,
        offset_bytes,
        size_bytes,
        error,
    };
    (words.next().is_none() && late_ns <= latency_ns && tid >= 0 && error >= 0 && is_place).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_rows() {
        let row = OwnRow {
            start_ns: 100,
            submit_ns: 110,
            end_ns: 150,
            tid: 7,
            op: Op::Commit as u8,
            ..OwnRow::default()
        };
        assert_eq!(parsed(b"commit 100 50 7 10"), Some(row));
        let told = OwnRow {
            op: Op::Copy as u8,
            offset_bytes: 4096,
            size_bytes: 8192,
            error: 28,
            ..row
        };
        assert_eq!(parsed(b"copy 100 50 7 10 4096 8192 28"), Some(told));
        for bad in [
            "",
            "commit",
            "commit 100 50 7",
            "commit 100 50 7 51",
            "commit 100 50 7 10 1",
            "copy 100 50 7 10 0 1 -5",
            "copy 100 50 7 10 0 1 5 9",
            "copy 100 50 7 10 9223372036854775808 1 0",
            "commits 100 50 7 10",
            "commit -1 50 7 10",
            "commit 100 50 -7 10",
            "commit 18446744073709551615 50 7 10",
        ] {
            assert_eq!(parsed(bad.as_bytes()), None, "{bad:?} was taken");
        }
    }

    #[test]
    fn a_damaged_line_is_named_and_a_cut_one_left_out() {
        let folder = std::env::temp_dir().join(format!("whodisk-own-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (log, stream) = (folder.join("log"), folder.join("own.arrows"));
        std::fs::write(&log, "read 1 2 3 0\nread 5 6").unwrap();
        convert(&log, &stream).unwrap();
        let mut rows = Vec::new();
        let mut reader = case::raw::RawReader::<OwnRow>::open(&stream).unwrap();
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch).unwrap() {
            rows.extend_from_slice(&batch);
        }
        assert_eq!(rows.len(), 1);
        std::fs::write(&log, "read 1 2 3 0\nread one 6 3 0\n").unwrap();
        std::fs::remove_file(&stream).unwrap();
        let error = convert(&log, &stream).unwrap_err().message;
        assert!(error.contains("line 2: expected KIND"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
