//! Snapshots of /proc/diskstats, a file each, in the order given: differences between one and the next become samples.
//!
//! Source: Documentation/admin-guide/iostats.rst. A snapshot has no moment: rates need `--map every=TIME`.
use super::snapshots::{of_one_folder, Moments};
use crate::error::Bad;
use crate::format::{Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::integer;
use crate::ImportError;
use case::schema::SubjectKind;
use std::collections::HashMap;

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
            "latencies to better than 1 ms in sum",
            "the kernel counts whole milliseconds per device",
        ),
    ],
    recognise,
    together: of_one_folder,
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
    let lines: Vec<&str> = head.filled_lines().take(20).collect();
    // A damaged line among them does not make it another format.
    2 * lines.iter().filter(|line| is_row(line)).count() > lines.len()
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let moments = Moments::of(source, sink)?;
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
                if let Some(seconds) = moments.seconds() {
                    let rates = [
                        ("operations_per_s", 1.0, at),
                        ("throughput_bytes_per_s", 512.0, at + 2),
                    ];
                    for (name, factor, at) in rates {
                        let rate = grown[at] as f64 * factor / seconds;
                        values.push((sink.name(&format!("{op}_{name}")), rate));
                    }
                }
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
                sink.sum(moments.at(number), None, SubjectKind::Device, device, &values)?;
            }
            Ok(())
        })?;
    }
    moments.tell(source.files.len(), sink);
    Ok(())
}
