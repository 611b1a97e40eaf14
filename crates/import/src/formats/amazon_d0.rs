//! Log page D0 of Amazon's NVMe volumes (EBS, instance store), raw (`nvme get-log -i 0xD0 -b`) or as `nvme amzn stats` prints it (text, JSON): counters since
//! the attachment, two or more snapshots.
//!
//! Built from the page's layout in nvme-cli's plugins/amzn/amzn-nvme.c, and from what it prints. What its users ask first is whether a limit held them: microseconds over the
//! volume's and the instance's limits of operations and of throughput.
use super::bins::{values, Bins};
use super::snapshots::{of_one_folder, Moments};
use crate::error::Bad;
use crate::format::{Format, Head, Source};
use crate::records::{document, json};
use crate::sink::Sink;
use crate::ImportError;
use case::schema::SubjectKind;
use serde_json::Value;
use std::path::Path;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "amazon-d0",
    about: "log page D0 of Amazon's volumes (EBS, instance store), raw or of nvme amzn stats: two or more snapshots; whether a limit held them",
    not_carried: &[
        (
            "single operations",
            "the page holds counters and histograms over all of the volume's life",
        ),
        (
            "when within a period a limit held operations",
            "the page sums up microseconds",
        ),
    ],
    recognise,
    together: of_one_folder,
    read,
};

const EBS: u32 = 0x3C23_B510;
const LOCAL: u32 = 0xEC2C_0D7E;
/// Magic to the end of the histogram of writes.
const PAGE_BYTES: usize = 512 + 2 * HISTOGRAM_BYTES;
const HISTOGRAM_BYTES: usize = 8 + BINS * 24;
const BINS: usize = 64;
/// Counters after magic and version.
const COUNTERS: usize = 11;

fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

fn magic(bytes: &[u8]) -> Option<u32> {
    let magic = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    matches!(magic, EBS | LOCAL).then_some(magic)
}

fn recognise(head: &Head) -> bool {
    magic(&head.bytes).is_some() || is_text(head) || is_json(head)
}

/// What `nvme amzn stats` prints for people; Amazon's own `ebsnvme stats` prints the same without colons.
fn is_text(head: &Head) -> bool {
    head.has_line(|line| line.trim().trim_end_matches(':') == OPERATIONS)
        && head.has_line(|line| line.trim_start().starts_with(LENGTH))
}

const OPERATIONS: &str = "Total Ops";
const LENGTH: &str = "Queue Length (point in time)";

fn is_json(head: &Head) -> bool {
    head.is_json_with("total_read_ops") && head.is_json_with("volume_queue_length")
}

/// Keys of the JSON, in the order of the counters; the instance's have two names.
const KEYS: [&[&str]; COUNTERS] = [
    &["total_read_ops"],
    &["total_write_ops"],
    &["total_read_bytes"],
    &["total_write_bytes"],
    &["total_read_time"],
    &["total_write_time"],
    &["ebs_volume_performance_exceeded_iops"],
    &["ebs_volume_performance_exceeded_tp"],
    &[
        "ec2_instance_performance_exceeded_iops",
        "ec2_instance_ebs_performance_exceeded_iops",
    ],
    &[
        "ec2_instance_performance_exceeded_tp",
        "ec2_instance_ebs_performance_exceeded_tp",
    ],
    &["volume_queue_length"],
];

/// Headings of the text, the lines below them, and the counter that each is.
const LINES: [(&str, [(&str, usize); 2]); 6] = [
    (OPERATIONS, [("Read", 0), ("Write", 1)]),
    ("Total Bytes", [("Read", 2), ("Write", 3)]),
    ("Total Time (us)", [("Read", 4), ("Write", 5)]),
    (
        "EBS Volume Performance Exceeded (us)",
        [("IOPS", 6), ("Throughput", 7)],
    ),
    (
        "EC2 Instance EBS Performance Exceeded (us)",
        [("IOPS", 8), ("Throughput", 9)],
    ),
    (OF_LOCAL, [("IOPS", 8), ("Throughput", 9)]),
];
const OF_LOCAL: &str = "EC2 Instance Local Storage Performance Exceeded (us)";

/// A bin's middle in nanoseconds; an open last bin ends nowhere: its begin is what is known.
fn middle_ns(low: u64, high: u64) -> u64 {
    let middle_us = if high > low && high < 1 << 40 {
        low / 2 + high / 2
    } else {
        low
    };
    middle_us.saturating_mul(1000)
}

fn page_of_json(document: &Value) -> Option<Page> {
    let mut page = Page::default();
    for (counter, keys) in page.counters.iter_mut().zip(KEYS) {
        *counter = keys.iter().find_map(|key| document.get(key)?.as_u64())?;
    }
    for (bins, key) in page
        .histograms
        .iter_mut()
        .zip(["read_io_latency_histogram", "write_io_latency_histogram"])
    {
        let listed = document[key]["bins"].as_array().into_iter().flatten();
        *bins = listed
            .filter_map(|bin| {
                let number = |key: &str| bin[key].as_u64();
                Some((middle_ns(number("lower")?, number("upper")?), number("count")?))
            })
            .collect();
    }
    Some(page)
}

/// `[32       - 64      ] => 12`
fn bin_of_text(line: &str) -> Option<(u64, u64)> {
    let (bounds, count) = line.strip_prefix('[')?.split_once("] =>")?;
    let (low, high) = bounds.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    Some((middle_ns(number(low)?, number(high)?), number(count)?))
}

/// The snapshots of a text, one below the other.
fn pages_of_text(text: &str) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    let (mut below, mut histogram) = (None, None);
    for line in text.lines().map(str::trim) {
        let heading = line.trim_end_matches(':');
        if heading == OPERATIONS {
            pages.push(Page::default());
            histogram = None;
        }
        let Some(page) = pages.last_mut() else {
            continue;
        };
        if let Some((name, lines)) = LINES.iter().find(|(name, _)| *name == heading) {
            page.is_local |= *name == OF_LOCAL;
            below = Some(lines);
        } else if line.starts_with("IO Size Range") {
            // With --details the same once more, by the sizes of requests.
            histogram = Some(2);
        } else if let (true, None | Some(0)) = (line.contains("IO Latency Histogram"), histogram) {
            histogram = Some(usize::from(line.starts_with("Write")));
        } else if let Some(bin) = bin_of_text(line) {
            if let Some(bins) = histogram.and_then(|at: usize| page.histograms.get_mut(at)) {
                bins.push(bin);
            }
        } else if let Some((name, number)) = line.split_once(':') {
            let at = match name {
                LENGTH => Some(QUEUE),
                _ => below.and_then(|lines: &[(&str, usize); 2]| {
                    lines.iter().find(|(of, _)| *of == name).map(|(_, at)| *at)
                }),
            };
            if let (Some(at), Ok(number)) = (at, number.trim().parse()) {
                page.counters[at] = number;
            }
        }
    }
    pages
}

#[derive(Default)]
struct Page {
    is_local: bool,
    counters: [u64; COUNTERS],
    /// Of reads and writes: middle of the bin, nanoseconds, and its count.
    histograms: [Bins; 2],
}

/// The snapshots of a file: the raw page is one.
fn pages(path: &Path, sink: &mut Sink) -> Result<Vec<Page>, ImportError> {
    let head = Head::read(path)?;
    if magic(&head.bytes).is_none() && is_text(&head) {
        return Ok(pages_of_text(&document(path, sink)?));
    }
    if magic(&head.bytes).is_none() && is_json(&head) {
        let documents = json(path, sink)?;
        let mut pages = Vec::new();
        for (number, document) in documents.all.iter().enumerate() {
            match page_of_json(document) {
                Some(page) => pages.push(page),
                None => documents.lacks(number, Bad::none("counters", "those of nvme amzn stats"), sink)?,
            }
        }
        return Ok(pages);
    }
    sink.progress(sink.bytes_done() + PAGE_BYTES as u64);
    Ok(vec![page(path, &head.bytes)?])
}

fn page(path: &Path, bytes: &[u8]) -> Result<Page, ImportError> {
    let wrong = |at: &str, expected: &str, found: String| {
        ImportError::content(
            path,
            at,
            expected,
            found,
            "take the page with nvme get-log -i 0xD0 -l 4096 -b, or with nvme amzn stats -o json",
        )
    };
    let Some(magic) = magic(bytes) else {
        let found = format!("{:02x?}", &bytes[..bytes.len().min(4)]);
        return Err(wrong(
            "byte 0",
            "the page's magic, 0x3c23b510 or 0xec2c0d7e",
            found,
        ));
    };
    if bytes.len() < PAGE_BYTES {
        let expected = format!("{PAGE_BYTES} bytes or more");
        return Err(wrong("length", &expected, format!("{} bytes", bytes.len())));
    }
    let histogram = |begin: usize| -> Bins {
        let many = (u64_at(bytes, begin) as usize).min(BINS);
        (0..many)
            .map(|bin| {
                let at = begin + 8 + bin * 24;
                let (low, high) = (u64_at(bytes, at), u64_at(bytes, at + 8));
                let count = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().expect("four bytes"));
                (middle_ns(low, high), u64::from(count))
            })
            .collect()
    };
    Ok(Page {
        is_local: magic == LOCAL,
        counters: std::array::from_fn(|at| u64_at(bytes, 8 + at * 8)),
        histograms: [histogram(512), histogram(512 + HISTOGRAM_BYTES)],
    })
}

/// Each counter's metric, and what one is in it.
const METRICS: [(&str, f64); COUNTERS] = [
    ("read_operations", 1.0),
    ("write_operations", 1.0),
    ("read_bytes", 1.0),
    ("write_bytes", 1.0),
    ("read_time_ns", 1e3),
    ("write_time_ns", 1e3),
    ("volume_iops_limit_ns", 1e3),
    ("volume_throughput_limit_ns", 1e3),
    ("instance_iops_limit_ns", 1e3),
    ("instance_throughput_limit_ns", 1e3),
    ("queue_depth", 1.0),
];
const LIMITS: [(usize, &str); 4] = [
    (6, "the volume's IOPS limit"),
    (7, "the volume's throughput limit"),
    (8, "the instance's IOPS limit"),
    (9, "the instance's throughput limit"),
];
const QUEUE: usize = 10;

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut moments = Moments::of(source)?;
    let device = source.device.clone().unwrap_or_else(|| "volume".into());
    let mut before: Option<Page> = None;
    let mut held = [0_u64; LIMITS.len()];
    let mut all = Vec::new();
    for path in &source.files {
        all.extend(pages(path, sink)?);
    }
    let is_one = all.len() == 1;
    for (number, now) in all.into_iter().enumerate() {
        moments.begin(sink);
        let Some(old) = before.take() else {
            if is_one {
                // All there is: what came since the attachment.
                held = LIMITS.map(|(at, _)| now.counters[at]);
                sample(&device, moments.now_ns(), &now, &now, sink)?;
                sink.unseen(
                    format!("what {device} did lately"),
                    "there is one page: its counts, means and quantiles are since the volume was attached",
                );
            } else {
                sink.record_without_row();
            }
            before = Some(now);
            continue;
        };
        match grown(&old, &now) {
            Some(grown) => {
                sample(&device, moments.now_ns(), &now, &grown, sink)?;
                for (sum, (at, _)) in held.iter_mut().zip(LIMITS) {
                    *sum = sum.saturating_add(grown.counters[at]);
                }
            }
            None => sink.unseen(
                format!("what {device} did before snapshot {}", number + 1),
                "its counters went back: the volume was attached anew",
            ),
        }
        before = Some(now);
    }
    // Of the first snapshot to the last.
    let seconds = moments.seconds_since(0);
    for (us, (_, limit)) in held.iter().zip(LIMITS) {
        if *us > 0 {
            let of = match is_one {
                true => " since it was attached".to_owned(),
                false => seconds.map_or(String::new(), |all| format!(" of {all:.0} s")),
            };
            sink.missing(
                format!(
                    "{limit}, which held operations of {device} for {:.1} s{of}",
                    *us as f64 / 1e6
                ),
                "the page sums up microseconds, and does not say of which operations",
            );
        }
    }
    if before.as_ref().is_some_and(|page| page.is_local) {
        sink.unseen(
            "limits of the volume",
            "this is an instance store: the page knows the instance's only",
        );
    }
    moments.tell(sink);
    Ok(())
}

/// What came between two pages; None where a counter went back.
fn grown(old: &Page, now: &Page) -> Option<Page> {
    let mut counters = now.counters;
    for (at, counter) in counters.iter_mut().enumerate() {
        if at != QUEUE {
            *counter = counter.checked_sub(old.counters[at])?;
        }
    }
    let bins = |at: usize| -> Option<Bins> {
        let before = &old.histograms[at];
        now.histograms[at]
            .iter()
            .enumerate()
            .map(|(bin, (ns, count))| Some((*ns, count.checked_sub(before.get(bin).map_or(0, |b| b.1))?)))
            .collect()
    };
    Some(Page {
        is_local: now.is_local,
        counters,
        histograms: [bins(0)?, bins(1)?],
    })
}

fn sample(device: &str, now_ns: i64, now: &Page, grown: &Page, sink: &mut Sink) -> Result<(), ImportError> {
    let mut row = Vec::new();
    for (at, (metric, factor)) in METRICS.iter().enumerate() {
        let is_known = !(now.is_local && (at == 6 || at == 7));
        if is_known {
            row.push((sink.name(metric), grown.counters[at] as f64 * factor));
        }
    }
    for (at, op) in ["read", "write"].iter().enumerate() {
        // The histogram counts what the counters count; its quantiles only.
        row.extend(values(op, &grown.histograms[at], sink).into_iter().skip(1));
        if grown.counters[at] > 0 {
            let mean_ns = grown.counters[4 + at] as f64 * 1e3 / grown.counters[at] as f64;
            row.push((sink.name(&format!("{op}_latency_ns")), mean_ns));
        }
    }
    let subject = sink.name(device);
    sink.sample(now_ns, None, SubjectKind::Device, subject, &row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nvme_cli_prints_is_read() {
        let text = |operations: u32, exceeded: u32| {
            format!(
                "Total Ops:\n  Read: {operations}\n  Write: 5\nTotal Bytes:\n  Read: 4096\n  Write: 8192\nTotal Time (us):\n  Read: 900\n  Write: 700\n\n\
                EBS Volume Performance Exceeded (us):\n  IOPS: {exceeded}\n  Throughput: 1\n\nEC2 Instance EBS Performance Exceeded (us):\n  IOPS: 2\n  Throughput: 3\n\n\
                Queue Length (point in time): 12\n\nRead IO Latency Histogram\n=================================\nLower       Upper        IO Count\n\
                =================================\n[0        - 64      ] => {operations}\n=================================\n\n\
                Write IO Latency Histogram\n[64       - 128     ] => 5\n"
            )
        };
        let details = "IO Size Range:\n(io_size_low: 0 -> io_size_high: 4K]\nRead IO Latency Histogram\n[0        - 64      ] => 7\n";
        let pages = pages_of_text(&format!("{}{details}{}", text(10, 100), text(30, 200)));
        assert_eq!(pages.len(), 2);
        assert_eq!(pages[0].counters, [10, 5, 4096, 8192, 900, 700, 100, 1, 2, 3, 12]);
        assert_eq!(pages[0].histograms, [vec![(32_000, 10)], vec![(96_000, 5)]]);
        assert_eq!(pages[1].histograms[0], [(32_000, 30)]);
        let said = |log: &str| {
            let summary = crate::testing::import(&FORMAT, log).unwrap();
            let missing: Vec<String> = summary.missing.iter().map(|unseen| unseen.what.clone()).collect();
            (summary.records, missing.join("; "))
        };
        let (records, missing) = said(&format!("{}{}", text(10, 100), text(30, 31_000_100)));
        assert!(
            records == 2
                && missing.contains("the volume's IOPS limit, which held operations of volume for 31.0 s"),
            "{missing}"
        );
        // Of one snapshot the time since the attachment is known.
        let json = |exceeded: u32| {
            let keys = KEYS.map(|names| names[names.len() - 1]);
            let numbers = keys.map(|key| {
                format!(
                    "\"{key}\": {}",
                    if key.starts_with("ebs_volume") {
                        exceeded
                    } else {
                        0
                    }
                )
            });
            format!("{{{}, \"read_io_latency_histogram\": {{\"bins\": [{{\"lower\": 0, \"upper\": 64, \"count\": 1}}]}}}}\n", numbers.join(", "))
        };
        let (records, missing) = said(&json(31_000_000));
        assert!(
            records == 1 && missing.contains("31.0 s since it was attached"),
            "{missing}"
        );
        assert_eq!(
            page_of_json(&serde_json::from_str(&json(0)).unwrap())
                .unwrap()
                .histograms[0],
            [(32_000, 1)]
        );
        let local = text(1, 1).replace("EC2 Instance EBS", "EC2 Instance Local Storage");
        assert!(pages_of_text(&local)[0].is_local);
    }
}
