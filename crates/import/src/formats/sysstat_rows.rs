//! What iostat, sar and sadf say of a device, as metrics of the case. The names identify the columns; absent ones are not observed.
use crate::sink::Sink;
use crate::ImportError;
use case::schema::{NameId, SubjectKind};
use std::collections::BTreeSet;

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
        _ => return None,
    })
}

/// A mean that is longer, or more requests in flight, are no such thing: counters of the kernel that went below nought (md, dm; sysstat prints them as they are).
const LATENCY_NS_MAX: f64 = 86_400e9;
const IN_FLIGHT_MAX: f64 = 1e6;

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
    sink: &mut Sink,
) -> Result<(), ImportError> {
    let value_of = |name: &str| {
        columns
            .iter()
            .find(|(column, _)| *column == name)
            .map(|(_, value)| *value)
    };
    let mut values: Vec<(NameId, f64)> = Vec::new();
    let mut is_wrong = false;
    for (column, value) in columns {
        let Some((name, factor, needs)) = metric(column) else {
            continue;
        };
        if needs.is_some_and(|needed| value_of(needed) == Some(0.0)) {
            continue;
        }
        let is_impossible = match name {
            "queue_depth" => *value > IN_FLIGHT_MAX,
            _ => name.ends_with("latency_ns") && value * factor > LATENCY_NS_MAX,
        };
        if is_impossible {
            is_wrong = true;
            continue;
        }
        // Old iostat has await and the rates of reads and writes, but no tps.
        let of_all = matches!(*column, "await" | "avgrq-sz");
        let idle = of_all && value_of("r/s") == Some(0.0) && value_of("w/s") == Some(0.0);
        let name = sink.name(name);
        // Some versions say the same in sectors and in kB, or under an old name and a new one.
        let is_doubled = values.iter().any(|(other, _)| *other == name);
        if !idle && !is_doubled {
            values.push((name, value * factor));
        }
    }
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
        let parts = parts.map(|part| sink.name(part));
        let found: Vec<f64> = values
            .iter()
            .filter(|(name, _)| parts.contains(name))
            .map(|(_, v)| *v)
            .collect();
        if found.len() == parts.len() {
            values.push((sink.name(sum), found.iter().sum()));
        }
    }
    if is_wrong {
        sink.unseen(
            format!("how long requests of {device} took, or how many were in flight, in some samples"),
            "the log has a mean of more than a day there, or a million requests: the kernel's counters had gone wrong",
        );
    }
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
}
