//! Operations gathered column by column, which can be put in order before they are written.
use super::values::Values;
use super::{key_of, name_array};
use crate::schema::{NameId, Op, OpRow, Stage};
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Float32Array, UInt32Array};
use std::sync::Arc;

const OP_ID: usize = 0;
const START: usize = 1;
const LATENCY: usize = 2;
const OFFSET: usize = 3;
const SIZE: usize = 4;
/// The first of the stages.
const STAGES: usize = 5;
const QUEUE_DEPTH: usize = 0;
const DEVICE: usize = 1;

/// Rows of `ops`. Groups of columns of equal type are kept in the order of the table.
pub struct OpBatch {
    /// op_id, start_ns, latency_ns, offset_bytes, size_bytes, the nine stages, foreign_handler_ns.
    wide: [Values<Int64Type>; 15],
    /// queue_depth, pid, tid, cpu, complete_cpu, hctx, vector, error.
    narrow: [Values<Int32Type>; 8],
    /// host, device, file, comm, cgroup.
    names: [Values<Int32Type>; 5],
    open: Vec<bool>,
    op: Values<Int32Type>,
    flags: Vec<u32>,
    weight: Vec<f32>,
}

impl Default for OpBatch {
    fn default() -> Self {
        OpBatch {
            wide: std::array::from_fn(|_| Values::default()),
            narrow: std::array::from_fn(|_| Values::default()),
            names: std::array::from_fn(|_| Values::default()),
            open: Vec::new(),
            op: Values::default(),
            flags: Vec::new(),
            weight: Vec::new(),
        }
    }
}

impl OpBatch {
    /// Rows.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Appends a row.
    #[inline]
    pub fn push(&mut self, row: &OpRow) {
        let [op_id, start, latency, offset, size, rest @ ..] = &mut self.wide;
        op_id.append(Some(row.op_id as i64));
        start.append(Some(row.start_ns));
        latency.append(Some(row.latency_ns));
        offset.append(row.offset_bytes);
        size.append(row.size_bytes);
        let (stages, foreign) = rest.split_at_mut(row.stages.len());
        for (column, value) in stages.iter_mut().zip(row.stages) {
            column.append(value);
        }
        foreign[0].append(row.foreign_handler_ns);
        let narrow = [
            row.queue_depth,
            row.pid,
            row.tid,
            row.cpu,
            row.complete_cpu,
            row.hctx,
            row.vector,
            Some(row.error),
        ];
        for (column, value) in self.narrow.iter_mut().zip(narrow) {
            column.append(value);
        }
        let names = [row.host, row.device, row.file, row.comm, row.cgroup];
        for (column, id) in self.names.iter_mut().zip(names) {
            column.append(key_of(id));
        }
        self.open.push(row.open);
        self.op.append(Some(row.op as i32));
        self.flags.push(row.flags);
        self.weight.push(row.weight);
    }

    /// A row, as it was appended.
    pub fn row(&self, at: usize) -> OpRow {
        let wide = |column: usize| self.wide[column].get(at);
        let must = |column: usize| wide(column).expect("no NULL in this column");
        let name = |column: usize| self.names[column].get(at).map(|key| key as NameId);
        let narrow = |column: usize| self.narrow[column].get(at);
        OpRow {
            op_id: must(OP_ID) as u64,
            start_ns: must(START),
            latency_ns: must(LATENCY),
            open: self.open[at],
            op: Op::ALL[self.op.all()[at] as usize],
            flags: self.flags[at],
            host: name(0),
            device: name(1),
            file: name(2),
            comm: name(3),
            cgroup: name(4),
            offset_bytes: wide(OFFSET),
            size_bytes: wide(SIZE),
            queue_depth: narrow(0),
            pid: narrow(1),
            tid: narrow(2),
            cpu: narrow(3),
            complete_cpu: narrow(4),
            hctx: narrow(5),
            vector: narrow(6),
            error: narrow(7).expect("no NULL in this column"),
            weight: self.weight[at],
            stages: std::array::from_fn(|stage| wide(STAGES + stage)),
            foreign_handler_ns: wide(STAGES + 9),
        }
    }

    /// Takes the first `count` of `rows` out; those that are left stay, in the order of the rest of `rows`.
    pub fn take_in_order(&mut self, rows: &[u32], count: usize) -> OpBatch {
        let (taken, left) = rows.split_at(count);
        let first = self.chosen(taken);
        *self = self.chosen(left);
        first
    }

    fn chosen(&self, rows: &[u32]) -> OpBatch {
        OpBatch {
            wide: std::array::from_fn(|column| self.wide[column].chosen(rows)),
            narrow: std::array::from_fn(|column| self.narrow[column].chosen(rows)),
            names: std::array::from_fn(|column| self.names[column].chosen(rows)),
            open: rows.iter().map(|row| self.open[*row as usize]).collect(),
            op: self.op.chosen(rows),
            flags: rows.iter().map(|row| self.flags[*row as usize]).collect(),
            weight: rows.iter().map(|row| self.weight[*row as usize]).collect(),
        }
    }

    /// When each begins.
    pub fn starts_ns(&self) -> &[i64] {
        self.wide[START].all()
    }

    /// How long each takes.
    pub fn latencies_ns(&self) -> &[i64] {
        self.wide[LATENCY].all()
    }

    /// Its kind.
    pub fn op(&self, at: usize) -> Op {
        Op::ALL[self.op.all()[at] as usize]
    }

    /// Whether it had not ended.
    pub fn is_open(&self, at: usize) -> bool {
        self.open[at]
    }

    /// Its device.
    pub fn device(&self, at: usize) -> Option<NameId> {
        self.names[DEVICE].get(at).map(|key| key as NameId)
    }

    /// A stage of it.
    pub fn stage_ns(&self, at: usize, stage: Stage) -> Option<i64> {
        self.wide[STAGES + stage as usize].get(at)
    }

    /// How many were in flight as it began.
    pub fn queue_depth(&self, at: usize) -> Option<i32> {
        self.narrow[QUEUE_DEPTH].get(at)
    }

    /// Replaces that of all rows.
    pub fn set_queue_depths(&mut self, depths: impl Iterator<Item = Option<i32>>) {
        let mut column = Values::default();
        depths.for_each(|depth| column.append(depth));
        self.narrow[QUEUE_DEPTH] = column;
    }

    /// Numbers the rows from here on.
    pub fn set_ids(&mut self, first: u64) {
        let ids: Vec<i64> = (0..self.len() as i64).map(|at| first as i64 + at).collect();
        self.wide[OP_ID] = ids.into();
    }

    /// The columns in the order of `tables::OPS`; there are no rows afterwards.
    pub(super) fn take(&mut self, ops: &ArrayRef, names: &ArrayRef) -> Vec<ArrayRef> {
        let [op_id, start, latency, offset, size, rest @ ..] = &mut self.wide;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(op_id.take()),
            Arc::new(start.take()),
            Arc::new(latency.take()),
            Arc::new(BooleanArray::from(std::mem::take(&mut self.open))),
            name_array(self.op.take(), ops),
            Arc::new(UInt32Array::from(std::mem::take(&mut self.flags))),
        ];
        columns.extend(self.names.iter_mut().map(|keys| name_array(keys.take(), names)));
        let (mut no_wide, mut no_narrow) = (None, None);
        columns.push(Arc::new(offset.take_or(&mut no_wide)));
        columns.push(Arc::new(size.take_or(&mut no_wide)));
        let narrow = self.narrow.iter_mut();
        columns.extend(narrow.map(|column| Arc::new(column.take_or(&mut no_narrow)) as ArrayRef));
        columns.push(Arc::new(Float32Array::from(std::mem::take(&mut self.weight))));
        let rest = rest.iter_mut();
        columns.extend(rest.map(|column| Arc::new(column.take_or(&mut no_wide)) as ArrayRef));
        columns
    }
}
