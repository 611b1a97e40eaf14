//! `irqs/`: runs of handlers.
use super::{text, Streams, Surveys};
use crate::pipeline::{Out, Row};
use crate::sorted::{Sorted, Timed};
use case::rows::{IrqRow, IrqTotalRow, NAME_BYTES};
use case::schema::{self, IrqKind};
use case::CaseError;
use std::hash::Hasher;

/// A number for a name, the same in every run.
fn number(name: &[u8; NAME_BYTES]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(name);
    hasher.finish()
}

impl Timed for IrqRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (u64::from(self.cpu) << 48 | self.end_ns, number(&self.handler))
    }
}

impl Timed for IrqTotalRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (u64::from(self.cpu), number(&self.handler) ^ self.vector as u64)
    }
}

pub(super) fn write(surveys: &Surveys, streams: &Streams, out: &mut Out) -> Result<(), CaseError> {
    let mut runs = Sorted::new(streams.irq, &surveys.irq)?;
    while let Some(row) = runs.take()? {
        let handler = text(&row.handler).unwrap_or_default();
        let sealed = schema::IrqRow {
            host: out.host,
            cpu: i32::from(row.cpu),
            vector: (row.vector >= 0).then_some(row.vector),
            device: out.device_of_handler(&handler),
            handler: out.names.id(&handler),
            kind: if row.kind == 0 {
                IrqKind::Hard
            } else {
                IrqKind::Soft
            },
            start_ns: out.case_ns(row.start_ns),
            duration_ns: row.end_ns.saturating_sub(row.start_ns) as i64,
        };
        out.row(Row::Irq(sealed))?;
    }
    Ok(())
}
