//! Histogram logs of fio (`write_hist_log`): `msec, direction, block size, bin, bin, ...`, each row what came since the one before.
//!
//! 1856 bins of nanoseconds, or 1216 of microseconds (before fio 3), or those / 2^c with `log_hist_coarseness=c`. A row becomes samples: the number of operations, median, 99th percentile and slowest bin.
use super::fio_bins::{counted, middle_ns, quantile, COUNT_MAX};
use super::fio_columns::{clock_of, is_log_of, job_of};
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{integer, time};
use crate::ImportError;
use case::schema::SubjectKind;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "fio-hist",
    about: "fio's histogram logs (write_hist_log): the distribution of each window, as samples",
    not_carried: &[
        (
            "single operations",
            "a histogram tells how many were how slow in a window, not when and where",
        ),
        (
            "latencies to better than 1.6 % of their size",
            "the bins are that wide; coarser with log_hist_coarseness",
        ),
    ],
    recognise,
    together: alone,
    read,
};

const KINDS: [&str; 3] = ["clat_hist", "lat_hist", "hist"];

const BINS: [(usize, u64); 2] = [(1856, 1), (1216, 1000)];

/// Bins of the full width in one of a row, and nanoseconds of a unit, from how many bins a row has. None: no version writes so many.
fn width_and_unit(count: usize) -> Option<(u64, u64)> {
    let fits = |all: usize| {
        count > 0 && all.is_multiple_of(count) && (all / count).is_power_of_two() && all / count <= 64
    };
    BINS.into_iter()
        .find(|(all, _)| fits(*all))
        .map(|(all, unit_ns)| ((all / count) as u64, unit_ns))
}

fn recognise(head: &Head) -> bool {
    let named = is_log_of(&head.name, &KINDS);
    let is_row = |line: &str| {
        let fields = line.split(',').count();
        fields > 3 && width_and_unit(fields - 3).is_some()
    };
    named && head.filled_lines().next().is_some_and(is_row)
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let subject = job_of(&source.name(), &KINDS);
    let mut is_told = false;
    each_line(source, sink, |line, sink| {
        if line.text.trim().is_empty() {
            return Ok(());
        }
        let fields: Vec<&str> = line.text.split(',').map(str::trim).collect();
        let Some((wide, unit_ns)) = width_and_unit(fields.len().saturating_sub(3)) else {
            let found = format!("{} columns", fields.len());
            let expected = "milliseconds, direction, block size, and 1856 / 2^c bins (fio 2: 1216 / 2^c)";
            return Err(Bad::new("", expected, &found).into());
        };
        let time_ns = time(fields[0], 1_000_000, "time")?;
        if !std::mem::replace(&mut is_told, true) {
            sink.clock(clock_of(time_ns / 1_000_000, 1_000_000));
        }
        let op = match fields[1] {
            "0" => "read",
            "1" => "write",
            "2" => "discard",
            other => return Err(Bad::new("column direction", "0, 1 or 2", other).into()),
        };
        let mut bins = Vec::new();
        for (index, field) in fields[3..].iter().enumerate() {
            let many: u64 = integer(field, "of a bin")?;
            if many > COUNT_MAX {
                let expected = format!("a number of operations (at most {COUNT_MAX})");
                return Err(Bad::new(format!("bin {index}"), expected, field).into());
            }
            if many > 0 {
                bins.push((middle_ns(index as u64 * wide + wide / 2) * unit_ns, many));
            }
        }
        let total = counted(&bins);
        let mut values = vec![(sink.name(&format!("{op}_operations")), total as f64)];
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            if let Some(value) = quantile(&bins, share) {
                values.push((sink.name(&format!("{op}_latency_{name}_ns")), value as f64));
            }
        }
        let name = sink.name(&subject);
        sink.sample(time_ns, None, SubjectKind::Process, name, &values)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_since_1970_are_those() {
        let row = |ms: u64| format!("{ms}, 0, 4096, {}7\n", "0, ".repeat(28));
        let text = row(1_795_752_876_157) + &row(1_795_752_876_657);
        let summary = crate::testing::import_named(&FORMAT, "run_clat_hist.1.log", &text).unwrap();
        assert_eq!(
            (summary.start_unix_ns, summary.end_ns),
            (Some(1_795_752_876_157_000_000), 500_000_000)
        );
    }

    #[test]
    fn what_cannot_be_a_count_is_no_count() {
        let row = format!("10002, 0, 4096, {}8532478939214341485, 7\n", "0, ".repeat(27));
        let error = crate::testing::import_named(&FORMAT, "run_clat_hist.1.log", &row);
        let said = error.unwrap_err().to_string();
        let expected = "line 1, bin 27: expected a number of operations (at most 1099511627776), found '8532478939214341485'";
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn the_number_of_bins_tells_their_width_and_unit() {
        let all = [1856, 928, 29, 1216, 304, 19, 1855, 1, 0].map(width_and_unit);
        let known = [(1, 1), (2, 1), (64, 1), (1, 1000), (4, 1000), (64, 1000)];
        assert_eq!(all[..6], known.map(Some));
        assert_eq!(all[6..], [None; 3]);
    }
}
