//! Latency histograms of other tools, as the samples of one moment: number of operations, median, 99th percentile, slowest bin.
use super::fio_bins::{counted, quantile};
use crate::sink::Sink;
use case::schema::NameId;

/// A histogram's bins, each with a value inside it and a count, in ascending order.
pub type Bins = Vec<(u64, u64)>;

/// Metrics of a histogram; `op` may be empty. None of a histogram without counts.
pub fn values(op: &str, bins: &[(u64, u64)], sink: &mut Sink) -> Vec<(NameId, f64)> {
    let total = counted(bins);
    if total == 0 {
        return Vec::new();
    }
    let prefix = if op.is_empty() {
        String::new()
    } else {
        format!("{op}_")
    };
    let mut values = vec![(sink.name(&format!("{prefix}operations")), total as f64)];
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        if let Some(value) = quantile(bins, share) {
            values.push((sink.name(&format!("{prefix}latency_{name}_ns")), value as f64));
        }
    }
    values
}

/// The same of bins that are powers of two, and how many times as large as its begin a bin's end is.
pub fn wide_values(op: &str, bins: &[(u64, u64)], sink: &mut Sink) -> Vec<(NameId, f64)> {
    let mut values = values(op, bins, sink);
    if !values.is_empty() {
        values.push((sink.name("bin_width_ratio"), 2.0));
    }
    values
}

/// `low -> high : count |****|`, as bcc prints powers of two.
pub fn bcc_row(line: &str) -> Option<(u64, u64, u64)> {
    let (low, rest) = line.split_once("->")?;
    let (high, rest) = rest.split_once(':')?;
    let count = rest.split('|').next()?.trim().parse().ok()?;
    Some((low.trim().parse().ok()?, high.trim().parse().ok()?, count))
}

/// The middle of such a bin times `unit_ns`, and its count.
pub fn bcc_bin(line: &str, unit_ns: u64) -> Option<(u64, u64)> {
    let (low, high, count) = bcc_row(line)?;
    Some((middle_ns(low, high, unit_ns)?, count))
}

/// The middle of a bin of bcc; `high` itself is inside.
fn middle_ns(low: u64, high: u64, unit_ns: u64) -> Option<u64> {
    Some(low.checked_add(high)?.checked_add(1)?.checked_mul(unit_ns)? / 2)
}

/// A bin as bcc's `-j` prints it, `'interval-start': 16, 'interval-end': 31, 'count': 7`: its middle and its count.
pub fn bcc_dictionary_bin(text: &str, unit_ns: u64) -> Option<(u64, u64)> {
    let number = |key: &str| -> Option<u64> {
        let (_, after) = text.split_once(key)?;
        after.split(',').next()?.trim().parse().ok()
    };
    let (low, high) = (number("'interval-start':")?, number("'interval-end':")?);
    Some((middle_ns(low, high, unit_ns)?, number("'count':")?))
}

/// The unit in the head of a histogram of bcc: `usecs : count distribution`.
pub fn bcc_unit(line: &str) -> Option<u64> {
    let (unit, rest) = line.split_once(':')?;
    if !rest.trim_start().starts_with("count") {
        return None;
    }
    bcc_unit_ns(unit.trim())
}

/// What bcc calls the units of its bins.
pub fn bcc_unit_ns(unit: &str) -> Option<u64> {
    Some(match unit {
        "nsecs" => 1,
        "usecs" => 1000,
        "msecs" => 1_000_000,
        _ => return None,
    })
}

/// The unit and the key of a histogram of bpftrace: `@usecs:`, `@usecs[nvme0n1]:`.
pub fn bpftrace_map(line: &str) -> Option<(u64, &str)> {
    let inside = line.trim().strip_prefix('@')?.strip_suffix(':')?;
    let (name, key) = match inside.split_once('[') {
        Some((name, key)) => (name, key.strip_suffix(']')?),
        None => (inside, ""),
    };
    let unit_ns = match name.rsplit('_').next().unwrap_or(name) {
        "nsecs" | "ns" => 1,
        "usecs" | "us" => 1000,
        "msecs" | "ms" => 1_000_000,
        _ => return None,
    };
    Some((unit_ns, key))
}

/// A bin of bpftrace, `[16, 32)   12 |@@@   |`, `[1K, 2K)`, `[0]`, `(..., 0)`: its middle and its count.
pub fn bpftrace_bin(line: &str, unit_ns: u64) -> Option<(u64, u64)> {
    let (bounds, rest) = line.split_at(line.find([')', ']'])? + 1);
    let count = rest.split('|').next()?.trim().parse().ok()?;
    let bounds = &bounds[1..bounds.len() - 1];
    let (low, high) = match bounds.split_once(',') {
        // What is below zero took no time.
        Some(("...", _)) => (0, 0),
        Some((low, high)) => (power_of_two(low.trim())?, power_of_two(high.trim())?),
        None => {
            let value = power_of_two(bounds.trim())?;
            (value, value.checked_add(1)?)
        }
    };
    Some((low.checked_add(high)?.checked_mul(unit_ns)? / 2, count))
}

/// A number with its unit of 1024.
fn power_of_two(text: &str) -> Option<u64> {
    let shift = match text.bytes().next_back()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        _ => return text.parse().ok(),
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_of_bpftrace() {
        assert_eq!(bpftrace_map("@usecs: "), Some((1000, "")));
        assert_eq!(bpftrace_map("@read_us[nvme0n1]:"), Some((1000, "nvme0n1")));
        assert_eq!((bpftrace_map("@bytes:"), bpftrace_map("usecs:")), (None, None));
        assert_eq!(
            bpftrace_bin("[16, 32)              12 |@@@@      |", 1000),
            Some((24_000, 12))
        );
        assert_eq!(
            bpftrace_bin("[1K, 2K)               3 |@         |", 1000),
            Some((1_536_000, 3))
        );
        assert_eq!(
            bpftrace_bin("[0]                    3 |@         |", 1000),
            Some((500, 3))
        );
        assert_eq!(
            bpftrace_bin("(..., 0)               1 |          |", 1000),
            Some((0, 1))
        );
        assert_eq!(
            (bpftrace_bin("[x, 2)  1 ||", 1), bpftrace_bin("[1, 2)  |", 1)),
            (None, None)
        );
    }

    #[test]
    fn bins_of_bcc() {
        let line = "        16 -> 31         : 20609    |*****     |";
        assert_eq!(bcc_bin(line, 1000), Some((24_000, 20_609)));
        assert_eq!(bcc_bin("16 -> x : 1", 1), None);
        assert_eq!(
            bcc_unit("     usecs               : count    distribution"),
            Some(1000)
        );
        assert_eq!(bcc_unit("     kbytes              : count    distribution"), None);
        let bin = "{'interval-start': 16, 'interval-end': 31, 'count': 20609";
        assert_eq!(bcc_dictionary_bin(bin, 1000), Some((24_000, 20_609)));
        assert_eq!(bcc_dictionary_bin("{'interval-start': 16, 'count': 1", 1), None);
    }
}
