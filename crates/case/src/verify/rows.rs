//! What the rows of each table must hold.
//!
//! Every check gets a batch with the column types of the table; NULLs in columns that
//! forbid them were reported before, and count as zero here.
use super::ids::IdSet;
use super::Findings;
use crate::completeness::Account;
use crate::meta::LayerMeta;
use crate::schema::{flags, IrqKind, Layer, LinkKind, Op, Stage, SubjectKind, WaitState};
use crate::tables::{self, Kind, Table};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StringArray};

/// States a gap may name.
pub(super) const GAP_STATES: [&str; 5] = ["stopped", "runnable", "blocked", "running", "unobserved"];

/// Checks of the rows of one table.
pub(super) trait RowChecks {
    /// Checks a batch that begins at row `first_row` of the table.
    fn check(&mut self, batch: &RecordBatch, first_row: u64, findings: &mut Findings);
}

/// Position of a column. The name is one of ours, so a miss is our bug.
fn index_of(table: &Table, name: &str) -> usize {
    table
        .columns
        .iter()
        .position(|c| c.name == name)
        .expect("a column of the table")
}

fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    table: &Table,
    name: &str,
) -> &'a PrimitiveArray<T> {
    batch.column(index_of(table, name)).as_primitive::<T>()
}

fn texts<'a>(batch: &'a RecordBatch, table: &Table, name: &str) -> &'a StringArray {
    batch.column(index_of(table, name)).as_string::<i32>()
}

fn value<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

fn at(first_row: u64, row: usize, column: &str) -> String {
    format!("row {}, column {column}", first_row + row as u64)
}

/// Reports every value for which `good` is false.
fn check_values<T: ArrowPrimitiveType>(
    column: (&RecordBatch, &Table, &str),
    first_row: u64,
    findings: &mut Findings,
    expected: &str,
    good: impl Fn(T::Native) -> bool,
) where
    T::Native: std::fmt::Display,
{
    let (batch, table, name) = column;
    let array = numbers::<T>(batch, table, name);
    for row in 0..array.len() {
        if let Some(found) = value(array, row).filter(|found| !good(*found)) {
            findings.add(at(first_row, row, name), expected, found.to_string());
        }
    }
}

fn check_names(
    column: (&RecordBatch, &Table, &str),
    first_row: u64,
    findings: &mut Findings,
    known: &[&str],
) {
    let (batch, table, name) = column;
    let array = texts(batch, table, name);
    for row in 0..array.len() {
        if array.is_valid(row) && !known.contains(&array.value(row)) {
            findings.add(at(first_row, row, name), known.join(", "), array.value(row));
        }
    }
}

/// Checks of `ops/layer=<layer>/`.
pub(super) struct Ops<'a> {
    layer: Layer,
    /// Stages that case.json declares for this layer.
    declared: [bool; 9],
    ids: &'a mut IdSet,
    op_names: [&'static str; Op::ALL.len()],
}

impl<'a> Ops<'a> {
    pub(super) fn new(layer: Layer, meta: &LayerMeta, ids: &'a mut IdSet) -> Ops<'a> {
        let declared = Stage::ALL.map(|stage| meta.stages.contains_key(stage.column()));
        Ops {
            layer,
            declared,
            ids,
            op_names: Op::ALL.map(Op::name),
        }
    }

    fn check_ids(&mut self, batch: &RecordBatch, first_row: u64, findings: &mut Findings) {
        let ids = numbers::<Int64Type>(batch, &tables::OPS, "op_id");
        let base = self.layer.op_id_base();
        for (row, id) in ids.values().iter().enumerate() {
            let id = *id as u64;
            if id >> 56 != base >> 56 {
                let expected = format!(
                    "an id of layer {} ({} in bits 56..)",
                    self.layer.name(),
                    base >> 56
                );
                findings.add(at(first_row, row, "op_id"), expected, id.to_string());
            }
            if !self.ids.insert(id) {
                findings.add(
                    at(first_row, row, "op_id"),
                    "an id not seen before",
                    id.to_string(),
                );
            }
        }
    }

    /// Stages are not negative, declared, and sum to the latency.
    fn check_stages(&self, batch: &RecordBatch, first_row: u64, findings: &mut Findings) {
        let mut sums = vec![0i128; batch.num_rows()];
        for stage in Stage::ALL {
            let array = numbers::<Int64Type>(batch, &tables::OPS, stage.column());
            if array.null_count() == array.len() {
                continue;
            }
            if !self.declared[stage as usize] {
                let row = (0..array.len()).find(|row| array.is_valid(*row)).unwrap_or(0);
                let expected = "NULL, because case.json does not say what this stage covers";
                findings.add(
                    at(first_row, row, stage.column()),
                    expected,
                    array.value(row).to_string(),
                );
            }
            for (row, sum) in sums.iter_mut().enumerate() {
                let Some(ns) = value(array, row) else { continue };
                *sum += ns as i128;
                if ns < 0 {
                    findings.add(at(first_row, row, stage.column()), "0 or more", ns.to_string());
                }
            }
        }
        let latency = numbers::<Int64Type>(batch, &tables::OPS, "latency_ns");
        for (row, sum) in sums.into_iter().enumerate() {
            let ns = latency.value(row);
            if sum != ns as i128 {
                let expected = format!("stages that sum to latency_ns = {ns}");
                findings.add(at(first_row, row, "*_ns"), expected, format!("a sum of {sum}"));
            }
        }
    }

    fn check_foreign(&self, batch: &RecordBatch, first_row: u64, findings: &mut Findings) {
        let foreign = numbers::<Int64Type>(batch, &tables::OPS, "foreign_handler_ns");
        if foreign.null_count() == foreign.len() {
            return;
        }
        let interrupt = numbers::<Int64Type>(batch, &tables::OPS, Stage::Interrupt.column());
        for row in 0..batch.num_rows() {
            let Some(ns) = value(foreign, row) else { continue };
            let room = value(interrupt, row).unwrap_or(0);
            if !(0..=room).contains(&ns) {
                let expected = format!("0 to interrupt_ns = {room}");
                findings.add(at(first_row, row, "foreign_handler_ns"), expected, ns.to_string());
            }
        }
    }
}

impl RowChecks for Ops<'_> {
    fn check(&mut self, batch: &RecordBatch, first_row: u64, findings: &mut Findings) {
        let known_flags = flags::NAMES.iter().fold(0, |bits, (_, bit)| bits | bit);
        let column = |name| (batch, &tables::OPS, name);
        self.check_ids(batch, first_row, findings);
        self.check_stages(batch, first_row, findings);
        self.check_foreign(batch, first_row, findings);
        check_names(column("op"), first_row, findings, &self.op_names);
        for name in ["latency_ns", "offset_bytes", "size_bytes"] {
            check_values::<Int64Type>(column(name), first_row, findings, "0 or more", |v| v >= 0);
        }
        check_values::<Int32Type>(column("error"), first_row, findings, "0 or an errno", |v| v >= 0);
        check_values::<Int32Type>(column("queue_depth"), first_row, findings, "1 or more", |v| {
            v >= 1
        });
        let known = format!("only bits of {known_flags:#x}");
        check_values::<UInt32Type>(column("flags"), first_row, findings, &known, |v| {
            v & !known_flags == 0
        });
        check_values::<Float32Type>(column("weight"), first_row, findings, "a number above 0", |v| {
            v > 0.0 && v.is_finite()
        });
    }
}

/// Checks of `links/`: both ends are operations of this case.
pub(super) struct Links<'a> {
    /// Operations of the case; `None` if not all could be read.
    pub(super) ids: Option<&'a IdSet>,
}

impl RowChecks for Links<'_> {
    fn check(&mut self, batch: &RecordBatch, first_row: u64, findings: &mut Findings) {
        let kinds = LinkKind::ALL.map(LinkKind::name);
        check_names((batch, &tables::LINKS, "kind"), first_row, findings, &kinds);
        let bytes = (batch, &tables::LINKS, "bytes");
        check_values::<Int64Type>(bytes, first_row, findings, "0 or more", |v| v >= 0);
        for name in ["parent_id", "child_id"] {
            let known = |id| self.ids.is_none_or(|ids| ids.contains(id as u64));
            let column = (batch, &tables::LINKS, name);
            check_values::<Int64Type>(column, first_row, findings, "the op_id of an operation", known);
        }
    }
}

/// Checks of `gaps/`: inside the recording, where its length is known.
pub(super) struct Gaps {
    pub(super) duration_ns: Option<i64>,
}

impl RowChecks for Gaps {
    fn check(&mut self, batch: &RecordBatch, first_row: u64, findings: &mut Findings) {
        let column = |name| (batch, &tables::GAPS, name);
        check_names(column("layer"), first_row, findings, &Layer::ALL.map(Layer::name));
        check_names(column("state"), first_row, findings, &GAP_STATES);
        for name in ["start_ns", "duration_ns"] {
            check_values::<Int64Type>(column(name), first_row, findings, "0 or more", |v| v >= 0);
        }
        let Some(limit) = self.duration_ns else { return };
        let start = numbers::<Int64Type>(batch, &tables::GAPS, "start_ns");
        let duration = numbers::<Int64Type>(batch, &tables::GAPS, "duration_ns");
        for row in 0..batch.num_rows() {
            let end = start.value(row).saturating_add(duration.value(row));
            if end > limit {
                let expected = format!("a gap that ends within the recording of {limit} ns");
                findings.add(
                    at(first_row, row, "duration_ns"),
                    expected,
                    format!("an end at {end} ns"),
                );
            }
        }
    }
}

/// Checks of a table, column by column: `irqs/`, `cache/`, `prefetch/`, `waits/`, `series/`.
pub(super) struct Columns<'a> {
    pub(super) table: &'a Table,
    /// Operations of the case, for a column `op_id`; `None` if not all could be read.
    pub(super) ids: Option<&'a IdSet>,
}

impl Columns<'_> {
    /// The words that a column of names may hold; `None`: any.
    fn words(&self, column: &str) -> Option<Vec<&'static str>> {
        match (self.table.name, column) {
            ("irqs", "kind") => Some(IrqKind::ALL.map(IrqKind::name).to_vec()),
            ("waits", "state") => Some(WaitState::ALL.map(WaitState::name).to_vec()),
            ("series", "kind") => Some(SubjectKind::ALL.map(SubjectKind::name).to_vec()),
            _ => None,
        }
    }
}

impl RowChecks for Columns<'_> {
    fn check(&mut self, batch: &RecordBatch, first_row: u64, findings: &mut Findings) {
        for column in self.table.columns {
            let at = (batch, self.table, column.name);
            if let Some(words) = self.words(column.name) {
                check_names(at, first_row, findings, &words);
            }
            if column.name == "op_id" {
                let known = |id| self.ids.is_none_or(|ids| ids.contains(id as u64));
                check_values::<Int64Type>(at, first_row, findings, "the op_id of an operation", known);
            } else if column.name.ends_with("_bytes")
                || column.name == "wait_ns"
                || column.name == "duration_ns"
            {
                check_values::<Int64Type>(at, first_row, findings, "0 or more", |v| v >= 0);
            } else if column.kind == Kind::Float64 {
                check_values::<Float64Type>(at, first_row, findings, "a finite number", f64::is_finite);
            }
        }
    }
}

/// Losses that are reported one by one; further ones are counted.
const LOSSES_TOLD: usize = 100;

/// `losses/`: nothing to check, but to tell and to add up.
#[derive(Default)]
pub(super) struct Losses {
    told: Vec<String>,
    more: u64,
    account: Account,
}

impl Losses {
    /// The losses in words, and what they come to.
    pub(super) fn into_told(mut self) -> (Vec<String>, Account) {
        if self.more > 0 {
            self.told.push(format!(
                "and {} more losses: see {}",
                self.more,
                tables::path(&tables::LOSSES)
            ));
        }
        (self.told, self.account)
    }
}

impl RowChecks for Losses {
    fn check(&mut self, batch: &RecordBatch, _first_row: u64, _findings: &mut Findings) {
        let probe = texts(batch, &tables::LOSSES, "probe");
        let reason = texts(batch, &tables::LOSSES, "reason");
        let start = numbers::<Int64Type>(batch, &tables::LOSSES, "start_ns");
        let end = numbers::<Int64Type>(batch, &tables::LOSSES, "end_ns");
        let lost = numbers::<Int64Type>(batch, &tables::LOSSES, "lost");
        for row in 0..batch.num_rows() {
            let known = value(lost, row);
            let number = known.and_then(|lost| u64::try_from(lost).ok());
            self.account.add(probe.value(row), reason.value(row), number);
            if self.told.len() == LOSSES_TOLD {
                self.more += 1;
                continue;
            }
            let count = known.map_or("an unknown number of".into(), |lost| lost.to_string());
            self.told.push(format!(
                "{}: {count} events lost between {} ns and {} ns ({})",
                probe.value(row),
                start.value(row),
                end.value(row),
                reason.value(row)
            ));
        }
    }
}

/// `events/`: schema and NULLs say all.
pub(super) struct Events;

impl RowChecks for Events {
    fn check(&mut self, _batch: &RecordBatch, _first_row: u64, _findings: &mut Findings) {}
}
