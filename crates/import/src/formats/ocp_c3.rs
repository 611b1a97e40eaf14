//! Latency monitor of OCP drives, log page C3: text and JSON of `nvme ocp latency-monitor-log`, and the raw page (512 bytes, `-o binary`).
//!
//! Four buckets count commands between thresholds A, B, C and D (5 ms x (v + 1)); each keeps the slowest one's latency and moment. Built from the
//! page's layout in nvme-cli's plugins/ocp/ocp-nvme.h and its print statements. Buckets of timestamps and latencies stand in reverse order in the page.
use super::calendar::{date_ns, time_of_day_ns};
use super::snapshots::{of_one_folder, Moments};
use crate::format::{Format, Head, Source};
use crate::records::{document, json};
use crate::sink::{DriveCount, Sink};
use crate::ImportError;
use case::schema::{Op, SubjectKind};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "ocp-c3",
    about: "OCP latency monitor, log page C3 of a drive (text, JSON or the raw page): commands over its thresholds, as samples and events",
    not_carried: &[
        (
            "single commands",
            "the drive counts commands between its thresholds and keeps the slowest of each",
        ),
        (
            "commands faster than threshold A",
            "the drive does not count them here",
        ),
    ],
    recognise,
    together: of_one_folder,
    read,
};

const PAGE_BYTES: usize = 512;
const GUID: [u8; 16] = [
    0x92, 0x7a, 0xc0, 0x8c, 0xd0, 0x84, 0x6c, 0x9c, 0x70, 0x43, 0xe6, 0xd4, 0x58, 0x5e, 0xd4, 0x85,
];
const OPS: [(Op, &str); 3] = [(Op::Read, "read"), (Op::Write, "write"), (Op::Discard, "discard")];

fn recognise(head: &Head) -> bool {
    is_page(&head.bytes)
        || head.has_line(|line| line.contains("Latency Monitor/C3 Log Page Data"))
        || head.is_json_with("Active Bucket Counter: Bucket 0")
}

fn is_page(bytes: &[u8]) -> bool {
    bytes.len() == PAGE_BYTES && bytes[0x1F0..] == GUID
}

/// What a page says; operations in the order of [`OPS`].
#[derive(Default)]
struct Page {
    thresholds_ms: [u64; 4],
    timer_minutes: u64,
    counts: [[u64; 3]; 4],
    slowest_ms: [[u64; 3]; 4],
    moments_ns: [[Option<i64>; 3]; 4],
}

fn from_bytes(page: &[u8]) -> Page {
    let u16_at = |at: usize| u64::from(u16::from_le_bytes([page[at], page[at + 1]]));
    let u32_at = |at: usize| {
        u64::from(u32::from_le_bytes(
            page[at..at + 4].try_into().expect("four bytes"),
        ))
    };
    let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
    let mut said = Page {
        timer_minutes: 5 * u16_at(2),
        ..Page::default()
    };
    for bucket in 0..4 {
        said.thresholds_ms[bucket] = 5 * (u64::from(page[6 + bucket]) + 1);
        for op in 0..3 {
            // Counters: reserved, trim, write, read. The others: trim, write, read, the last bucket first.
            said.counts[bucket][op] = u32_at(0x20 + bucket * 16 + (3 - op) * 4);
            let reversed = (3 - bucket) * 3 + (2 - op);
            said.slowest_ms[bucket][op] = u16_at(0xC0 + reversed * 2);
            said.moments_ns[bucket][op] = stamp_ns(u64_at(0x60 + reversed * 8));
        }
    }
    said
}

/// Milliseconds in bits 0 to 47; those that count from a reset (bits 49 to 51 are 0) are no moments of a clock.
fn stamp_ns(stamp: u64) -> Option<i64> {
    let is_set = stamp != u64::MAX && (stamp >> 49) & 7 != 0;
    is_set.then(|| {
        ((stamp & ((1 << 48) - 1)) as i64)
            .saturating_mul(1_000_000)
            .min(i64::MAX / 4)
    })
}

/// `2024-01-02D|03:24:05:678`, UTC.
fn moment_ns(text: &str) -> Option<i64> {
    let (day, time) = text.trim().split_once("D|")?;
    let (time, ms) = time.rsplit_once(':')?;
    Some(date_ns(day)? + time_of_day_ns(time, "")? + i64::from(ms.parse::<u16>().ok()?) * 1_000_000)
}

/// Fields of the text and of the JSON have the same names: the three operations' words by name.
fn from_fields(path: &Path, fields: &HashMap<String, Vec<String>>) -> Result<Page, ImportError> {
    let word = |name: &str, at: usize| -> Result<&str, ImportError> {
        fields
            .get(name)
            .and_then(|words| words.get(at))
            .map(String::as_str)
            .ok_or_else(|| {
                ImportError::content(path, name, "a value", "none", "check that the page is whole")
            })
    };
    let number = |name: &str, at: usize| -> Result<u64, ImportError> {
        let text = word(name, at)?;
        // Printed as signed numbers of 32 bits: large ones come out negative.
        text.parse::<i64>()
            .ok()
            .and_then(|value| {
                u64::try_from(if (-(1 << 31)..0).contains(&value) {
                    value + (1 << 32)
                } else {
                    value
                })
                .ok()
            })
            .ok_or_else(|| {
                ImportError::content(path, name, "a whole number", text, "check that the page is whole")
            })
    };
    let mut page = Page {
        timer_minutes: number("Active Bucket Timer", 0).unwrap_or(0),
        ..Page::default()
    };
    for (bucket, letter) in ["A", "B", "C", "D"].iter().enumerate() {
        page.thresholds_ms[bucket] = number(&format!("Active Threshold {letter}"), 0)?;
        for op in 0..3 {
            page.counts[bucket][op] = number(&format!("Active Bucket Counter: Bucket {bucket}"), op)?;
            page.slowest_ms[bucket][op] = number(&format!("Active Measured Latency: Bucket {bucket}"), op)?;
            page.moments_ns[bucket][op] =
                moment_ns(word(&format!("Active Latency Time Stamp: Bucket {bucket}"), op)?);
        }
    }
    Ok(page)
}

fn fields_of_text(text: &str) -> HashMap<String, Vec<String>> {
    let mut fields = HashMap::new();
    for line in text.lines().map(str::trim) {
        let name_end = match line.rfind("Bucket ").filter(|_| line.contains(": Bucket ")) {
            Some(at) => at + 8,
            // Names of single values are followed by two spaces or more.
            None => line.find("  ").unwrap_or(line.len()),
        };
        let (Some(name), Some(rest)) = (line.get(..name_end), line.get(name_end..)) else {
            continue;
        };
        let words = rest
            .split_whitespace()
            .filter(|word| *word != "ms" && *word != "min")
            .map(str::to_owned)
            .collect();
        fields.insert(name.trim().to_owned(), words);
    }
    fields
}

fn fields_of_json(document: &Value) -> HashMap<String, Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut fields = HashMap::new();
    for (name, value) in document.as_object().into_iter().flatten() {
        let words = match value {
            Value::Object(by_op) => ["Read", "Write", "Trim"]
                .iter()
                .filter_map(|op| by_op.get(*op).map(text))
                .collect(),
            other => vec![text(other)],
        };
        fields.insert(name.clone(), words);
    }
    fields
}

fn page_of(path: &Path, sink: &mut Sink) -> Result<Page, ImportError> {
    let head = Head::read(path)?;
    if is_page(&head.bytes) {
        sink.progress(sink.bytes_done() + PAGE_BYTES as u64);
        return Ok(from_bytes(&head.bytes));
    }
    if head
        .filled_lines()
        .next()
        .is_some_and(|line| line.starts_with('{'))
    {
        return match json(path, sink)?.all.as_slice() {
            [one] => from_fields(path, &fields_of_json(one)),
            several => {
                let found = format!("{} documents", several.len());
                let hint = "put each snapshot into a file of its own";
                Err(ImportError::content(path, "byte 0", "one snapshot", found, hint))
            }
        };
    }
    let text = document(path, sink)?;
    from_fields(path, &fields_of_text(&text))
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut moments = Moments::of(source)?;
    let device = source.device.clone().unwrap_or_else(|| "drive".into());
    let mut before: Option<Page> = None;
    for (number, path) in source.files.iter().enumerate() {
        let page = page_of(path, sink)?;
        moments.begin(sink);
        samples(&device, moments.now_ns(), &page, sink)?;
        if number + 1 == source.files.len() {
            slowest(&device, before.as_ref(), &page, sink);
        }
        for (at, (op, _)) in OPS.iter().enumerate() {
            let over = |page: &Page| counted_from(page, 0, at);
            // Of several snapshots, what came between the first and the last; of one, all that the drive counted.
            let counted = match &before {
                Some(first) => over(&page).saturating_sub(over(first)),
                None => over(&page),
            };
            sink.drive_counted(DriveCount {
                device: device.clone(),
                op: *op,
                threshold_ns: page.thresholds_ms[0].saturating_mul(1_000_000).min(1 << 60) as i64,
                counted,
                is_difference: before.is_some(),
            });
        }
        if before.is_none() {
            before = Some(page);
        }
    }
    moments.tell(sink);
    Ok(())
}

/// Commands of a kind in this bucket and in those above.
fn counted_from(page: &Page, bucket: usize, at: usize) -> u64 {
    let counts = page.counts[bucket..].iter().map(|counts| counts[at]);
    counts.fold(0, u64::saturating_add)
}

/// `read_commands_over_5ms` and its kin: every command over the threshold is in its bucket or in one above.
fn samples(device: &str, time_ns: i64, page: &Page, sink: &mut Sink) -> Result<(), ImportError> {
    let mut values = Vec::new();
    for bucket in 0..4 {
        for (at, (_, name)) in OPS.iter().enumerate() {
            let over = counted_from(page, bucket, at);
            let metric = format!("{name}_commands_over_{}ms", page.thresholds_ms[bucket]);
            values.push((sink.name(&metric), over as f64));
        }
    }
    let subject = sink.name(device);
    sink.sample(time_ns, None, SubjectKind::Device, subject, &values)
}

/// The slowest commands, with the drive's own moments (a clock of its own, set by the host or not at all).
fn slowest(device: &str, before: Option<&Page>, page: &Page, sink: &mut Sink) {
    let mut told = Vec::new();
    for bucket in 0..4 {
        for (at, (_, name)) in OPS.iter().enumerate() {
            let ms = page.slowest_ms[bucket][at];
            let is_new = before.is_none_or(|old| {
                old.slowest_ms[bucket][at] != ms || old.moments_ns[bucket][at] != page.moments_ns[bucket][at]
            });
            if page.counts[bucket][at] == 0 || !is_new || ms == 0 {
                continue;
            }
            let when = page.moments_ns[bucket][at].map_or("at no moment of a clock".into(), |ns| {
                format!(
                    "at {}.{:03} s since 1970",
                    ns / 1_000_000_000,
                    ns / 1_000_000 % 1000
                )
            });
            told.push(format!("a {name} of {ms} ms {when}"));
        }
    }
    if !told.is_empty() {
        let since = match before {
            Some(_) => "since the first snapshot",
            None => "so far",
        };
        let what = format!(
            "which operations the slowest commands of {device} {since} were ({})",
            told.join(", ")
        );
        let minutes = page.timer_minutes;
        sink.unseen(
            what,
            format!("the drive keeps the slowest of each bucket, without its place; its counters run since {minutes} minutes"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_text() {
        assert_eq!(moment_ns("1970-01-01D|00:00:01:500"), Some(1_500_000_000));
        assert_eq!(moment_ns("1970-01-01D|00:00:01:9223372036854775807"), None);
    }
}
