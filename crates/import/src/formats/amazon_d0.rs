//! Log page D0 of Amazon's NVMe volumes (EBS, instance store), raw (`nvme get-log -i 0xD0 -b`): counters since the attachment, two or more snapshots.
//!
//! Built from the page's layout in nvme-cli's plugins/amzn/amzn-nvme.c. What its users ask first is whether a limit held them: microseconds over the
//! volume's and the instance's limits of operations and of throughput.
use super::bins::{values, Bins};
use super::snapshots::{of_one_folder, Moments};
use crate::format::{Format, Head, Source};
use crate::sink::Sink;
use crate::ImportError;
use case::schema::SubjectKind;
use std::path::Path;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "amazon-d0",
    about: "log page D0 of Amazon's volumes (EBS, instance store), raw: two or more snapshots; whether a limit held them",
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
    magic(&head.bytes).is_some()
}

struct Page {
    is_local: bool,
    counters: [u64; COUNTERS],
    /// Of reads and writes: middle of the bin, nanoseconds, and its count.
    histograms: [Bins; 2],
}

fn page(path: &Path) -> Result<Page, ImportError> {
    let bytes = Head::read(path)?.bytes;
    let wrong = |at: &str, expected: &str, found: String| {
        ImportError::content(
            path,
            at,
            expected,
            found,
            "take the page with nvme get-log -i 0xD0 -l 4096 -b",
        )
    };
    let Some(magic) = magic(&bytes) else {
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
        let many = (u64_at(&bytes, begin) as usize).min(BINS);
        (0..many)
            .map(|bin| {
                let at = begin + 8 + bin * 24;
                // An open last bin ends nowhere: its begin is what is known.
                let (low, high) = (u64_at(&bytes, at), u64_at(&bytes, at + 8));
                let middle_us = if high > low && high < 1 << 40 {
                    low / 2 + high / 2
                } else {
                    low
                };
                let count = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().expect("four bytes"));
                (middle_us.saturating_mul(1000), u64::from(count))
            })
            .collect()
    };
    Ok(Page {
        is_local: magic == LOCAL,
        counters: std::array::from_fn(|at| u64_at(&bytes, 8 + at * 8)),
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
    for (number, path) in source.files.iter().enumerate() {
        let now = page(path)?;
        moments.begin(sink);
        sink.progress(sink.bytes_done() + PAGE_BYTES as u64);
        let Some(old) = before.take() else {
            sink.record_without_row();
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
            let of = seconds.map_or(String::new(), |all| format!(" of {all:.0} s"));
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
