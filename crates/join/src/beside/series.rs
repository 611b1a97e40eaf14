//! `series/`: sampled counters, and the account of every handler.
use super::{text, Streams, Surveys};
use crate::pipeline::{Out, Row};
use crate::sorted::{Sorted, Timed};
use case::rows::{IrqTotalRow, SampleRow};
use case::schema::{SeriesRow, SubjectKind};
use case::CaseError;
use std::hash::Hasher;

impl Timed for SampleRow {
    fn start_ns(&self) -> u64 {
        self.time_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.time_ns)
    }
    fn ties(&self) -> (u64, u64) {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(&self.subject);
        hasher.write(&self.metric);
        (u64::from(self.kind), hasher.finish())
    }
}

pub(super) fn write(surveys: &Surveys, streams: &Streams, out: &mut Out) -> Result<(), CaseError> {
    let mut samples = Sorted::new(streams.sample, &surveys.sample)?;
    let mut totals = Sorted::new(streams.irq_total, &surveys.irq_total)?;
    loop {
        let sample_ns = samples.peek().map(|row| row.time_ns);
        let total_ns = totals.peek().map(|row| row.start_ns);
        let sample_is_next = sample_ns.is_some_and(|ns| total_ns.is_none_or(|other| ns <= other));
        if sample_is_next {
            if let Some(row) = samples.take()? {
                sample(&row, out)?;
            }
        } else if let Some(row) = totals.take()? {
            handler(&row, out)?;
        } else {
            return Ok(());
        }
    }
}

fn sample(row: &SampleRow, out: &mut Out) -> Result<(), CaseError> {
    let kind = SubjectKind::ALL.get(usize::from(row.kind)).copied();
    let (Some(kind), true) = (kind, row.value.is_finite()) else {
        return Ok(());
    };
    let sealed = SeriesRow {
        time_ns: out.case_ns(row.time_ns),
        host: out.host,
        kind,
        subject: out.names.id(&text(&row.subject).unwrap_or_default()),
        metric: out.names.id(&text(&row.metric).unwrap_or_default()),
        value: row.value,
    };
    out.row(Row::Series(sealed))
}

/// Runs per second and share of a CPU's time of one handler on one CPU, at the begin of their window.
fn handler(row: &IrqTotalRow, out: &mut Out) -> Result<(), CaseError> {
    let window_ns = row.end_ns.saturating_sub(row.start_ns);
    if window_ns == 0 {
        return Ok(());
    }
    let handler = text(&row.handler).unwrap_or_default();
    let subject = out.names.id(&format!("cpu{}", row.cpu));
    let softly = if row.kind == 0 { "irq" } else { "softirq" };
    let values = [
        ("busy_ratio", row.busy_ns as f64 / window_ns as f64),
        ("runs_per_s", row.runs as f64 * 1e9 / window_ns as f64),
    ];
    for (metric, value) in values {
        let sealed = SeriesRow {
            time_ns: out.case_ns(row.start_ns),
            host: out.host,
            kind: SubjectKind::Cpu,
            subject,
            metric: out.names.id(&format!("{softly}_{handler}_{metric}")),
            value,
        };
        out.row(Row::Series(sealed))?;
    }
    Ok(())
}
