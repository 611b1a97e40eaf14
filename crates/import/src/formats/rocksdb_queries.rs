//! RocksDB's query trace in its readable form (`trace_analyzer -convert_to_human_readable_trace`): `KEY type column-family value-size microseconds`.
//!
//! The trace has no latency: operations per second and their bytes become samples, by kind. Source: tools/trace_analyzer_tool.cc.
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
    name: "rocksdb-queries",
    about: "RocksDB's query trace, readable form: operations per second by kind, as samples",
    not_carried: &[
        (
            "latencies",
            "the trace tells when a query came, not how long it took",
        ),
        (
            "keys",
            "they are the program's data: only how many queries there were is kept",
        ),
    ],
    recognise,
    together: alone,
    read,
};

const KINDS: [&str; 9] = [
    "get",
    "put",
    "delete",
    "single_delete",
    "range_delete",
    "merge",
    "seek",
    "seek_for_prev",
    "multiget",
];

fn fields(line: &str) -> Option<(&str, &str, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [key, kind, family, size, moment] = words[..] else {
        return None;
    };
    let is_key = key.len() >= 2 && key.bytes().all(|b| b.is_ascii_hexdigit());
    let is_family = family.parse::<u32>().is_ok();
    (is_key && is_family).then_some((kind, size, moment))
}

/// What RocksDB writes, before one of its tools makes it readable; the tool.
fn binary(head: &Head) -> Option<&'static str> {
    let begin = &head.bytes[..head.bytes.len().min(200)];
    let has = |mark: &[u8]| begin.windows(mark.len()).any(|bytes| bytes == mark);
    if !has(b"feedcafedeadbeef") {
        return None;
    }
    Some(match has(b"Trace Version") {
        true => "trace_analyzer --convert_to_human_readable_trace --trace_path=FILE --output_dir=DIRECTORY",
        false => {
            "block_cache_trace_analyzer --block_cache_trace_path=FILE --human_readable_trace_file_path=FILE"
        }
    })
}

fn recognise(head: &Head) -> bool {
    if binary(head).is_some() {
        return true;
    }
    let is_row = |line: &str| {
        fields(line).is_some_and(|(kind, size, moment)| {
            kind.parse::<usize>().is_ok_and(|kind| kind < 16)
                && size.parse::<u64>().is_ok()
                && moment.len() >= 15
        })
    };
    let mut lines = head.filled_lines().take(20).peekable();
    lines.peek().is_some() && lines.all(is_row)
}

/// Queries, and bytes of their values.
type Sums = (u64, u64);

fn values((count, bytes): &Sums, sink: &mut Sink) -> Vec<(NameId, f64)> {
    vec![
        (sink.name("operations_per_s"), *count as f64),
        (sink.name("value_bytes_per_s"), *bytes as f64),
    ]
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    if let Some(tool) = binary(&Head::read(source.path())?) {
        let hint = format!("make it readable: {tool}");
        let found = "RocksDB's own trace";
        return Err(ImportError::content(
            source.path(),
            "begin",
            "a readable trace",
            found,
            hint,
        ));
    }
    sink.clock(Clock::unix(1000));
    let mut seconds: Seconds<Sums> = Seconds::new(values);
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if text.is_empty() {
            return Ok(());
        }
        let (kind, size, moment) = fields(text)
            .ok_or_else(|| Bad::new("", "KEY type column-family value-size microseconds", text))?;
        let kind: usize = integer(kind, "type")?;
        let size: u64 = integer(size, "value size")?;
        let kind = KINDS.get(kind).copied().unwrap_or("other");
        let sums = seconds.at(second_of(moment)?, kind, sink)?;
        *sums = (sums.0 + 1, sums.1.saturating_add(size));
        sink.record_without_row();
        Ok(())
    })?;
    seconds.flush(sink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rocksdb_writes_has_to_be_made_readable() {
        for (mark, tool) in [
            ("feedcafedeadbeef\tTrace Version: 0.2", "trace_analyzer "),
            ("feedcafedeadbeef\u{7}", "block_cache_trace_analyzer"),
        ] {
            let error = crate::testing::import(&FORMAT, &format!("]\u{1}Z{mark}")).unwrap_err();
            assert!(error.to_string().contains(tool), "{error}");
        }
    }
}
