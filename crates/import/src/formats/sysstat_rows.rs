//! What iostat, sar and sadf say of a device, as metrics of the case. The names identify the columns; absent ones are not observed.
//!
//! Solaris and FreeBSD (`iostat -x`) have names of their own; source: their iostat(1M) and iostat(8).
use crate::sink::Sink;
use crate::text::counted;
use crate::ImportError;
use case::schema::SubjectKind;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Metric, factor to base units, and the column that must have a value if this one is to count (a mean wait of no request is no value).
fn metric(column: &str) -> Option<(&'static str, f64, Option<&'static str>)> {
    Some(match column {
        "r/s" => ("read_operations_per_s", 1.0, None),
        "w/s" => ("write_operations_per_s", 1.0, None),
        "d/s" => ("discard_operations_per_s", 1.0, None),
        "f/s" => ("flush_operations_per_s", 1.0, None),
        "tps" => ("operations_per_s", 1.0, None),
        "kB/s" => ("throughput_bytes_per_s", 1024.0, None),
        "MB/s" => ("throughput_bytes_per_s", 1_048_576.0, None),
        "kB_read/s" => ("read_throughput_bytes_per_s", 1024.0, None),
        "kB_wrtn/s" => ("write_throughput_bytes_per_s", 1024.0, None),
        "kB_dscd/s" => ("discard_throughput_bytes_per_s", 1024.0, None),
        "GB/s" => ("throughput_bytes_per_s", 1_073_741_824.0, None),
        "GB_read/s" | "rGB/s" => ("read_throughput_bytes_per_s", 1_073_741_824.0, None),
        "GB_wrtn/s" | "wGB/s" => ("write_throughput_bytes_per_s", 1_073_741_824.0, None),
        "GB_dscd/s" | "dGB/s" => ("discard_throughput_bytes_per_s", 1_073_741_824.0, None),
        "MB_read/s" => ("read_throughput_bytes_per_s", 1_048_576.0, None),
        "MB_wrtn/s" => ("write_throughput_bytes_per_s", 1_048_576.0, None),
        "MB_dscd/s" => ("discard_throughput_bytes_per_s", 1_048_576.0, None),
        "Blk_read/s" => ("read_throughput_bytes_per_s", 512.0, None),
        "Blk_wrtn/s" => ("write_throughput_bytes_per_s", 512.0, None),
        "rkB/s" | "rkB" => ("read_throughput_bytes_per_s", 1024.0, None),
        "wkB/s" | "wkB" => ("write_throughput_bytes_per_s", 1024.0, None),
        "dkB/s" | "dkB" => ("discard_throughput_bytes_per_s", 1024.0, None),
        "rMB/s" => ("read_throughput_bytes_per_s", 1_048_576.0, None),
        "wMB/s" => ("write_throughput_bytes_per_s", 1_048_576.0, None),
        "dMB/s" => ("discard_throughput_bytes_per_s", 1_048_576.0, None),
        "rsec/s" | "rd_sec/s" => ("read_throughput_bytes_per_s", 512.0, None),
        "wsec/s" | "wr_sec/s" => ("write_throughput_bytes_per_s", 512.0, None),
        "r_await" => ("read_latency_ns", 1e6, Some("r/s")),
        "w_await" => ("write_latency_ns", 1e6, Some("w/s")),
        "d_await" => ("discard_latency_ns", 1e6, Some("d/s")),
        "f_await" => ("flush_latency_ns", 1e6, Some("f/s")),
        "await" => ("latency_ns", 1e6, Some("tps")),
        "aqu-sz" | "avgqu-sz" => ("queue_depth", 1.0, None),
        "%util" | "util" | "util-percent" => ("busy_ratio", 0.01, None),
        "rareq-sz" => ("read_size_bytes", 1024.0, Some("r/s")),
        "wareq-sz" => ("write_size_bytes", 1024.0, Some("w/s")),
        "areq-sz" => ("size_bytes", 1024.0, Some("tps")),
        // Sectors.
        "avgrq-sz" => ("size_bytes", 512.0, Some("tps")),
        // Of Solaris and FreeBSD.
        "kr/s" | "Kr/s" => ("read_throughput_bytes_per_s", 1024.0, None),
        "kw/s" | "Kw/s" => ("write_throughput_bytes_per_s", 1024.0, None),
        "Mr/s" => ("read_throughput_bytes_per_s", 1_048_576.0, None),
        "Mw/s" => ("write_throughput_bytes_per_s", 1_048_576.0, None),
        "ms/r" => ("read_latency_ns", 1e6, Some("r/s")),
        "ms/w" => ("write_latency_ns", 1e6, Some("w/s")),
        "svc_t" | "ms/t" => ("latency_ns", 1e6, None),
        "%b" => ("busy_ratio", 0.01, None),
        // Counted since the machine's start (`iostat -xe`); soft ones are of commands that a device does not know, too.
        "h/w" => ("hard_errors", 1.0, None),
        "trn" => ("transport_errors", 1.0, None),
        // Of the moment when a sample ends.
        "qlen" => ("requests_in_flight", 1.0, None),
        _ => return None,
    })
}

/// Columns of which no metric is made.
const NOT_READ: [&str; 10] = [
    "rrqm/s", "wrqm/s", "drqm/s", "%rrqm", "%wrqm", "%drqm", "svctm", "dareq-sz", "s/w", "tot",
];

/// Whether all words are columns of iostat.
pub fn are_columns(words: &[&str]) -> bool {
    let is_column = |word: &&str| metric(word).is_some() || NOT_READ.contains(word);
    !words.is_empty() && words.iter().all(is_column)
}

/// What Solaris says of the queue above a device and of the device itself, and the column that both together are.
const PARTS: [([&str; 2], &str); 2] = [(["wsvc_t", "asvc_t"], "svc_t"), (["wait", "actv"], "aqu-sz")];

/// A mean that is longer, or more requests in flight, are no such thing: counters of the kernel that went below nought (md, dm; sysstat prints them as they are).
const LATENCY_NS_MAX: f64 = 86_400e9;
const IN_FLIGHT_MAX: f64 = 1e6;
/// No device reads or writes more in a second: its bus does not (64 GB/s each way with PCIe 5.0 x16), nor does the memory of a host with many of them.
const BYTES_PER_S_MAX: f64 = 1_099_511_627_776.0;
/// One in each nanosecond.
const OPERATIONS_PER_S_MAX: f64 = 1e9;
/// The kernel counts the bytes of a request with 32 bits.
const SIZE_BYTES_MAX: f64 = 4_294_967_296.0;

/// Whether a value is one that no device can have: what its metric is called, the value, and all values of its sample.
fn is_impossible(name: &str, value: f64, all: &[(&str, f64)]) -> bool {
    let of_operations = match name {
        "read_throughput_bytes_per_s" => Some("read_operations_per_s"),
        "write_throughput_bytes_per_s" => Some("write_operations_per_s"),
        "discard_throughput_bytes_per_s" => Some("discard_operations_per_s"),
        "throughput_bytes_per_s" => Some("operations_per_s"),
        _ => None,
    };
    if let Some(of_operations) = of_operations {
        // Cheap, and true of nearly all.
        if value <= SIZE_BYTES_MAX / 2.0 {
            return false;
        }
        let of = |name: &str| {
            all.iter()
                .find(|(other, _)| *other == name)
                .map(|(_, value)| *value)
        };
        let operations = of(of_operations).or_else(|| of("operations_per_s"));
        // Rates may be rounded to whole ones. What is discarded crosses no bus.
        return value > BYTES_PER_S_MAX && of_operations != "discard_operations_per_s"
            || operations.is_some_and(|rate| value > SIZE_BYTES_MAX * (rate + 0.5));
    }
    match name {
        "queue_depth" => value > IN_FLIGHT_MAX,
        _ if name.ends_with("operations_per_s") => value > OPERATIONS_PER_S_MAX,
        _ if name.ends_with("size_bytes") => value > SIZE_BYTES_MAX,
        _ => name.ends_with("latency_ns") && value > LATENCY_NS_MAX,
    }
}

/// Values that were left out since no device can have them: per device, in how many samples.
#[derive(Default)]
pub struct Impossible {
    waits: BTreeMap<String, u64>,
    rates: BTreeMap<String, u64>,
}

impl Impossible {
    /// Leaves them out of a sample of this device.
    fn leave_out(&mut self, device: &str, values: &mut Vec<(&'static str, f64)>) {
        if !values
            .iter()
            .any(|(name, value)| is_impossible(name, *value, values))
        {
            return;
        }
        let all = values.clone();
        let (mut has_waits, mut has_rates) = (false, false);
        values.retain(|(name, value)| {
            let is_wrong = is_impossible(name, *value, &all);
            let is_wait = *name == "queue_depth" || name.ends_with("latency_ns");
            has_waits |= is_wrong && is_wait;
            has_rates |= is_wrong && !is_wait;
            !is_wrong
        });
        for (has, samples) in [(has_waits, &mut self.waits), (has_rates, &mut self.rates)] {
            if has {
                *samples.entry(device.to_owned()).or_default() += 1;
            }
        }
    }

    /// All rows were read.
    pub fn tell(self, sink: &mut Sink) {
        for (device, samples) in self.waits {
            sink.missing(
                format!(
                    "how long requests of {device} took, or how many were in flight, in {}",
                    counted(samples, "sample")
                ),
                "the log has a mean of more than a day there, or a million requests: the kernel's counters had gone wrong",
            );
        }
        for (device, samples) in self.rates {
            sink.missing(
                format!("how much {device} read or wrote in {}", counted(samples, "sample")),
                "the log has more there than any device does (1 TiB or a billion operations per second, or 4 GiB per operation): the kernel's counters had gone wrong",
            );
        }
    }
}

/// Groups of devices (`iostat -g`), of which a blank stands before the name. Their rows are sums, behind those of their members.
#[derive(Default)]
pub struct Groups {
    has_members: bool,
    left_out: BTreeSet<String>,
    alone: BTreeSet<String>,
}

impl Groups {
    /// A row with this name is next. Whether it is to be read: a group beside its members would count them twice; without them (`-H`) it is all there is.
    pub fn is_read(&mut self, name: &str, is_group: bool) -> bool {
        self.has_members |= !is_group;
        if !is_group {
            return true;
        }
        let of = if self.has_members {
            &mut self.left_out
        } else {
            &mut self.alone
        };
        if !of.contains(name) {
            of.insert(name.to_owned());
        }
        !self.has_members
    }

    /// All rows were read.
    pub fn tell(self, sink: &mut Sink) {
        let listed = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
        if !self.left_out.is_empty() {
            sink.unseen(
                format!("groups of devices ({})", listed(self.left_out)),
                "iostat -g prints sums behind their members, which are read",
            );
        }
        if !self.alone.is_empty() {
            sink.unseen(
                format!("which device of a group ({}) did what", listed(self.alone)),
                "iostat -H prints groups alone",
            );
        }
    }
}

/// Writes what was said of a device at a moment.
pub fn write(
    time_ns: i64,
    host: &str,
    device: &str,
    columns: &[(&str, f64)],
    impossible: &mut Impossible,
    sink: &mut Sink,
) -> Result<(), ImportError> {
    let value_of = |name: &str| {
        columns
            .iter()
            .find(|(column, _)| *column == name)
            .map(|(_, value)| *value)
    };
    let mut columns = Cow::Borrowed(columns);
    for (parts, whole) in PARTS {
        if let [Some(above), Some(inside)] = parts.map(value_of) {
            columns.to_mut().push((whole, above + inside));
        }
    }
    let mut values: Vec<(&'static str, f64)> = Vec::new();
    for (column, value) in columns.iter() {
        let Some((name, factor, needs)) = metric(column) else {
            continue;
        };
        if needs.is_some_and(|needed| value_of(needed) == Some(0.0)) {
            continue;
        }
        // Old iostat has await and the rates of reads and writes, but no tps.
        let of_all = matches!(*column, "await" | "avgrq-sz" | "svc_t" | "ms/t");
        let idle = of_all && value_of("r/s") == Some(0.0) && value_of("w/s") == Some(0.0);
        // Some versions say the same in sectors and in kB, or under an old name and a new one.
        let is_doubled = values.iter().any(|(other, _)| *other == name);
        if !idle && !is_doubled {
            values.push((name, value * factor));
        }
    }
    impossible.leave_out(device, &mut values);
    let sums = [
        (
            "throughput_bytes_per_s",
            ["read_throughput_bytes_per_s", "write_throughput_bytes_per_s"],
        ),
        (
            "operations_per_s",
            ["read_operations_per_s", "write_operations_per_s"],
        ),
    ];
    for (sum, parts) in sums {
        let found: Vec<f64> = values
            .iter()
            .filter(|(name, _)| parts.contains(name))
            .map(|(_, v)| *v)
            .collect();
        if found.len() == parts.len() {
            values.push((sum, found.iter().sum()));
        }
    }
    let values: Vec<_> = values
        .into_iter()
        .map(|(name, value)| (sink.name(name), value))
        .collect();
    let host = sink.name_if(host);
    let subject = sink.name(device);
    sink.sample(time_ns, host, SubjectKind::Device, subject, &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_old_versions_are_sectors() {
        assert_eq!(metric("avgrq-sz"), Some(("size_bytes", 512.0, Some("tps"))));
        assert_eq!(metric("areq-sz"), Some(("size_bytes", 1024.0, Some("tps"))));
    }

    #[test]
    fn what_no_device_can_do_is_left_out_and_counted() {
        let left = |columns: &[(&'static str, f64)]| {
            let mut values: Vec<(&'static str, f64)> = columns
                .iter()
                .map(|(column, value)| {
                    let (name, factor, _) = metric(column).unwrap();
                    (name, value * factor)
                })
                .collect();
            let mut impossible = Impossible::default();
            impossible.leave_out("sda", &mut values);
            let of = |samples: &BTreeMap<String, u64>| samples.get("sda").copied().unwrap_or(0);
            let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
            (names, of(&impossible.waits), of(&impossible.rates))
        };
        // A counter began again.
        let wrapped = [
            ("r/s", 143.96),
            ("rsec/s", 3e17),
            ("avgrq-sz", 2e15),
            ("await", 55.12),
        ];
        assert_eq!(
            left(&wrapped),
            (vec!["read_operations_per_s", "latency_ns"], 0, 1)
        );
        // Below 1 TiB/s, but 8 GiB per request; and what is printed as no request at all.
        let (kept, ..) = left(&[("w/s", 20.0), ("wMB/s", 8192.0 * 20.0)]);
        assert_eq!(kept, ["write_operations_per_s"]);
        assert_eq!(left(&[("w/s", 0.0), ("wMB/s", 1024.0)]).2, 0);
        assert_eq!(left(&[("tps", 2e9)]), (vec![], 0, 1));
        // A whole disk may be discarded at once.
        assert_eq!(left(&[("d/s", 2e4), ("dMB/s", 2e6)]).2, 0);
        assert_eq!(left(&[("r_await", 1e8), ("aqu-sz", 1e7)]), (vec![], 1, 0));
        // What is far beyond 100 % was logged by some kernels, and is kept as it is.
        assert_eq!(left(&[("%util", 1849.55)]), (vec!["busy_ratio"], 0, 0));
    }

    #[test]
    fn columns_are_known_by_their_names() {
        assert!(are_columns(&["avgrq-sz", "avgqu-sz", "await", "svctm", "%util"]));
        assert!(!are_columns(&["Device", "r/s"]) && !are_columns(&["sda", "1.0"]) && !are_columns(&[]));
    }
}
