//! Rate logs of fio: `NAME_bw.1.log` (KiB/s) and `NAME_iops.1.log`. They look exactly like latency logs; only the name tells them apart.
//!
//! Without `log_avg_msec` a line is an operation: its value is 1 (IOPS), or its size over its own latency (bandwidth), which is no rate of the job. Such
//! lines are counted per second. Source: fio's stat.c, per_unit_log, add_iops_sample, add_bw_sample.
use super::fio_columns::{clock_of, head_entries, is_log_of, job_of, kind_and_key, layout, look_like, Entry};
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::ImportError;
use case::schema::{Op, SubjectKind};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "fio-rate",
    about: "fio's bandwidth and IOPS logs (write_bw_log, write_iops_log): samples",
    not_carried: &[(
        "single operations",
        "rate logs hold bandwidth and IOPS; write_lat_log logs operations",
    )],
    recognise,
    together: alone,
    read,
};

const KINDS: [&str; 2] = ["bw", "iops"];

fn recognise(head: &Head) -> bool {
    is_log_of(&head.name, &KINDS) && look_like(head)
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let name = source.name();
    let Some((kind, _)) = kind_and_key(&name, &KINDS) else {
        let hint = "rename it as fio does: whether values are KiB/s or IOPS is said by nothing else";
        return Err(ImportError::content(
            source.path(),
            "name",
            "NAME_bw.N.log or NAME_iops.N.log",
            name,
            hint,
        ));
    };
    let layout = layout(source)?;
    let subject = job_of(&name, &KINDS);
    let mut counted = are_operations(kind, &head_entries(source.path(), &layout)?).then(Counted::default);
    if counted.is_some() {
        sink.unseen(
            "rates within a second",
            "the log was made without log_avg_msec: a line is an operation, and these are counted in whole seconds from the first one on; \
             write_lat_log logs how long each took",
        );
    }
    let mut is_told = false;
    each_line(source, sink, |line, sink| {
        if line.text.is_empty() {
            return Ok(());
        }
        let entry = Entry::parse(line.text, &layout)?;
        if !std::mem::replace(&mut is_told, true) {
            sink.clock(clock_of(entry.time_ms, 1_000_000));
        }
        if let Some(counted) = &mut counted {
            while let Some(end_ms) = counted.ends_before(&entry)? {
                counted.tell(end_ms, kind, &subject, sink)?;
            }
            counted.add(kind, &entry);
            sink.record_without_row();
            return Ok(());
        }
        let value = match kind {
            "bw" => entry.value as f64 * 1024.0,
            _ => entry.value as f64,
        };
        let values = [(sink.name(&metric(entry.op(), kind)), value)];
        let subject = sink.name(&subject);
        let time_ns = entry.time_ms.saturating_mul(1_000_000);
        sink.sample(time_ns, None, SubjectKind::Process, subject, &values)?;
        Ok(())
    })?;
    match counted {
        Some(mut counted) if counted.is_first => counted.tell(counted.last_ms, kind, &subject, sink),
        _ => Ok(()),
    }
}

fn metric(op: Op, kind: &str) -> String {
    let rate = match kind {
        "bw" => "throughput_bytes_per_s",
        _ => "operations_per_s",
    };
    format!("{}_{rate}", op.name())
}

/// Versions of fio that logged means of bandwidth with the size of a block did so for no shorter times than this (bwavgtime).
const MEAN_MS_MIN: i64 = 100;

/// Whether lines are operations. A mean has no size of a block, or (old versions) it has one and stands as far from the next as it is long: an operation
/// in less than a second is more than 1 per second.
fn are_operations(kind: &str, lines: &[Entry]) -> bool {
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
        return false;
    };
    let step_ms = if kind == "bw" { MEAN_MS_MIN } else { INTERVAL_MS };
    let steps = lines.len() as i64 - 1;
    let is_operation = |line: &Entry| line.size_bytes > 0 && (kind == "bw" || line.value == 1);
    last.time_ms.saturating_sub(first.time_ms) < steps * step_ms && lines.iter().all(is_operation)
}

const INTERVAL_MS: i64 = 1000;
/// A longer time without an operation is a damaged number.
const GAP_MS_MAX: i64 = 3_600_000;

/// Operations of the second at hand.
struct Counted {
    begin_ms: Option<i64>,
    last_ms: i64,
    /// Of each kind that was there so far, its operations, or their bytes.
    sums: [Option<u64>; 3],
    /// No second has ended yet.
    is_first: bool,
}

impl Default for Counted {
    fn default() -> Counted {
        Counted {
            begin_ms: None,
            last_ms: 0,
            sums: [None; 3],
            is_first: true,
        }
    }
}

impl Counted {
    /// When the second at hand ended, if that is before an operation.
    fn ends_before(&self, entry: &Entry) -> Result<Option<i64>, Bad> {
        let Some(begin_ms) = self.begin_ms else {
            return Ok(None);
        };
        if entry.time_ms.saturating_sub(begin_ms) > GAP_MS_MAX {
            let expected = "a moment within an hour of the operation before";
            return Err(Bad::new("column time", expected, &entry.time_ms.to_string()));
        }
        let end_ms = begin_ms.checked_add(INTERVAL_MS);
        Ok(end_ms.filter(|end_ms| entry.time_ms >= *end_ms))
    }

    fn add(&mut self, kind: &str, entry: &Entry) {
        self.begin_ms.get_or_insert(entry.time_ms);
        self.last_ms = self.last_ms.max(entry.time_ms);
        let sum = self.sums[usize::from(entry.direction)].get_or_insert(0);
        let more = if kind == "bw" {
            entry.size_bytes
        } else {
            entry.value
        };
        *sum = sum.saturating_add(more.unsigned_abs());
    }

    /// What was counted until a moment, of every kind as a rate. The next second begins.
    fn tell(&mut self, end_ms: i64, kind: &str, subject: &str, sink: &mut Sink) -> Result<(), ImportError> {
        let length_ms = end_ms.saturating_sub(self.begin_ms.replace(end_ms).unwrap_or(end_ms));
        self.is_first = false;
        if length_ms <= 0 {
            return Ok(());
        }
        let mut values = Vec::new();
        for (op, sum) in [Op::Read, Op::Write, Op::Discard].into_iter().zip(&mut self.sums) {
            if let Some(sum) = sum {
                let rate = std::mem::take(sum) as f64 * 1000.0 / length_ms as f64;
                values.push((sink.name(&metric(op, kind)), rate));
            }
        }
        let subject = sink.name(subject);
        sink.sum(
            end_ms.saturating_mul(1_000_000),
            None,
            SubjectKind::Process,
            subject,
            &values,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{import_into, import_named, samples_of};

    #[test]
    fn moments_since_1970_are_those() {
        let at = |text: &str| {
            let summary = import_named(&FORMAT, "run_iops.1.log", text).unwrap();
            (summary.start_unix_ns, summary.end_ns)
        };
        let since_1970 = "1795752876157, 1, 0, 4096, 0\n1795752877157, 1, 1, 4096, 0\n";
        assert_eq!(at(since_1970), (Some(1_795_752_876_157_000_000), 1_000_000_000));
        assert_eq!(
            at("500, 1, 0, 4096, 0\n1500, 1, 1, 4096, 0\n"),
            (None, 1_500_000_000)
        );
    }

    fn lines(kind: &str, moments_ms: &[i64]) -> String {
        let value = if kind == "bw" { 2944 } else { 1 };
        let line = |ms: &i64| format!("{ms}, {value}, 0, 4096, 0\n");
        moments_ms.iter().map(line).collect()
    }

    /// What a log of this kind becomes: records, and samples with their seconds.
    fn told(kind: &str, text: &str) -> (u64, Vec<(i64, f64)>) {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("job_{kind}.1.log");
        let summary = import_into(folder.path(), &FORMAT, &name, text).unwrap();
        let metric = metric(Op::Read, kind);
        let found = samples_of(folder.path(), &metric).into_iter();
        (
            summary.records,
            found.map(|one| (one.seconds, one.value)).collect(),
        )
    }

    #[test]
    fn lines_of_operations_are_counted_per_second() {
        // Without log_avg_msec; each line says 1.
        let short = [100, 104, 107, 112, 120, 128, 133, 139, 144, 150, 155, 171, 180];
        assert_eq!(told("iops", &lines("iops", &short)), (13, vec![(0, 162.5)]));
        assert_eq!(told("bw", &lines("bw", &short)).1, [(0, 162.5 * 4096.0)]);
        // A second without any is one; the last is not over.
        let long: Vec<i64> = (0..100).map(|at| at * 10).chain([2500, 2510, 3100]).collect();
        let expected = [(1, 100.0), (2, 0.0), (3, 2.0)];
        assert_eq!(told("iops", &lines("iops", &long)), (103, expected.to_vec()));
        // All at one moment: no time, no rate.
        assert_eq!(told("iops", &lines("iops", &[5, 5])), (2, Vec::new()));
    }

    #[test]
    fn lines_of_means_are_rates() {
        let means = "1000, 1, 0, 0, 0\n1010, 1, 0, 0, 0\n";
        assert_eq!(told("iops", means).1, [(1, 1.0), (1, 1.0)]);
        // One operation per second.
        assert_eq!(
            told("iops", &lines("iops", &[1000, 2000])).1,
            [(1, 1.0), (2, 1.0)]
        );
        assert_eq!(told("bw", &lines("bw", &[500, 1000])).1.len(), 2);
    }

    #[test]
    fn a_moment_far_away_is_a_damaged_one() {
        let text = lines("iops", &[1, 2, 3, 4])
            + &"5, 1, 0, 4096, 0\n".repeat(2_000)
            + "99999999999, 1, 0, 4096, 0\n";
        let error = import_named(&FORMAT, "run_iops.1.log", &text)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 2005, column time: expected a moment within an hour"),
            "{error}"
        );
    }
}
