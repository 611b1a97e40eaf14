//! Snapshots of /proc/diskstats, a file each, in the order given: differences between one and the next become samples.
//!
//! Source: Documentation/admin-guide/iostats.rst. A snapshot has no moment: mean latencies and sizes are told, rates are not.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::integer;
use crate::ImportError;
use case::schema::SubjectKind;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "diskstats",
    about:
        "two or more snapshots of /proc/diskstats: mean latency and size between them, as samples per device",
    not_carried: &[
        (
            "single operations",
            "counters hold averages between two snapshots; outliers inside cannot be seen",
        ),
        (
            "rates, and when the snapshots were taken",
            "a snapshot has no moment; they are put one second apart",
        ),
        (
            "latencies to better than 1 ms in sum",
            "the kernel counts whole milliseconds per device",
        ),
    ],
    recognise,
    together,
    read,
};

fn fields(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn is_row(line: &str) -> bool {
    let words = fields(line);
    let number = |at: usize| words[at].parse::<u64>().is_ok();
    matches!(words.len(), 14 | 18 | 20)
        && words[2].parse::<u64>().is_err()
        && (0..words.len()).all(|at| at == 2 || number(at))
}

fn recognise(head: &Head) -> bool {
    let mut lines = head.filled_lines().take(20).peekable();
    lines.peek().is_some() && lines.all(is_row)
}

/// Snapshots in one folder belong together.
fn together(path: &Path) -> Option<PathBuf> {
    Some(path.with_file_name(""))
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    sink.clock(Clock::own("the first snapshot", 1_000_000_000));
    let mut before: HashMap<String, [u64; 8]> = HashMap::new();
    for (number, path) in source.files.iter().enumerate() {
        let one = Source {
            files: vec![path.clone()],
            ..source.clone()
        };
        each_line(&one, sink, |line, sink| {
            let words = fields(line.text);
            if words.is_empty() {
                return Ok(());
            }
            if words.len() < 14 {
                return Err(Bad::new("", "major, minor, name and 11 counters or more", line.text).into());
            }
            let mut now = [0_u64; 8];
            for (at, count) in now.iter_mut().enumerate() {
                *count = integer(words[3 + at], "of a counter")?;
            }
            let old = before.insert(words[2].to_owned(), now);
            sink.record_without_row();
            let Some(old) = old else { return Ok(()) };
            let grown: Option<Vec<u64>> = now
                .iter()
                .zip(old)
                .map(|(now, old)| now.checked_sub(old))
                .collect();
            let Some(grown) = grown else {
                sink.unseen(
                    format!("what {} did before a snapshot", words[2]),
                    "its counters went back: it was new, or the machine restarted",
                );
                return Ok(());
            };
            let mut values = Vec::new();
            for (op, at) in [("read", 0), ("write", 4)] {
                values.push((sink.name(&format!("{op}_operations")), grown[at] as f64));
                if grown[at] > 0 {
                    let count = grown[at] as f64;
                    values.push((
                        sink.name(&format!("{op}_latency_ns")),
                        grown[at + 3] as f64 * 1e6 / count,
                    ));
                    values.push((
                        sink.name(&format!("{op}_size_bytes")),
                        grown[at + 2] as f64 * 512.0 / count,
                    ));
                }
            }
            if grown.iter().any(|count| *count > 0) {
                let device = sink.name(words[2]);
                sink.sample(
                    number as i64 * 1_000_000_000,
                    None,
                    SubjectKind::Device,
                    device,
                    &values,
                )?;
            }
            Ok(())
        })?;
    }
    if source.files.len() < 2 {
        sink.unseen(
            "anything between two snapshots",
            "there is one only: counters since the machine's start say nothing of a moment",
        );
    }
    Ok(())
}
