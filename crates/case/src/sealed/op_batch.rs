//! Operations gathered column by column, which can be put in order before they are written.
use super::values::{split_off, Shared, Values};
use super::{key_of, name_array};
use crate::schema::{NameId, Op, OpRow, Stage};
use arrow_array::types::{Float32Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{ArrayRef, BooleanArray, Int64Array};
use arrow_buffer::BooleanBuffer;
use std::ops::Range;
use std::sync::Arc;

const OFFSET: usize = 0;
const SIZE: usize = 1;
/// The first of the stages.
const STAGES: usize = 2;
const FOREIGN_HANDLER: usize = 11;
const QUEUE_DEPTH: usize = 0;
const DEVICE: usize = 1;

/// Rows of `ops`. Groups of columns of equal type are kept in the order of the table.
#[derive(Default)]
pub struct OpBatch {
    op_id: Values<Int64Type>,
    start: Vec<i64>,
    latency: Vec<i64>,
    /// offset_bytes, size_bytes, the nine stages, foreign_handler_ns.
    wide: [Values<Int64Type>; 12],
    /// queue_depth, pid, tid, cpu, complete_cpu, hctx, vector, error.
    narrow: [Values<Int32Type>; 8],
    /// host, device, file, comm, cgroup.
    names: [Values<Int32Type>; 5],
    /// 0 or 1.
    open: Values<Int32Type>,
    op: Values<Int32Type>,
    flags: Values<UInt32Type>,
    weight: Values<Float32Type>,
}

/// Rows that are handed on together: their columns stay in the CPU's cache.
const TOGETHER: usize = 2048;

/// Operations that differ in these columns only.
#[derive(Default)]
pub struct FewColumns {
    /// When each begins.
    pub start_ns: Vec<i64>,
    /// How long each takes.
    pub latency_ns: Vec<i64>,
    /// Kinds.
    pub op: Vec<Op>,
    /// Empty: each has that of the others' row.
    pub offset_bytes: Vec<i64>,
    /// Empty: each has that of the others' row.
    pub size_bytes: Vec<i64>,
    /// Empty: each has that of the others' row.
    pub device: Vec<NameId>,
}

impl FewColumns {
    /// Whether there are as many as are best handed on together.
    pub fn is_full(&self) -> bool {
        self.len() >= TOGETHER
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.start_ns.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.start_ns.is_empty()
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.start_ns.clear();
        self.latency_ns.clear();
        self.op.clear();
        self.offset_bytes.clear();
        self.size_bytes.clear();
        self.device.clear();
    }
}

impl OpBatch {
    /// Rows.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Appends a row.
    #[inline]
    pub fn push(&mut self, row: &OpRow) {
        self.op_id.append(Some(row.op_id as i64));
        self.start.push(row.start_ns);
        self.latency.push(row.latency_ns);
        let [offset, size, rest @ ..] = &mut self.wide;
        offset.append(row.offset_bytes);
        size.append(row.size_bytes);
        let (stages, foreign) = rest.split_at_mut(row.stages.len());
        for (column, value) in stages.iter_mut().zip(row.stages) {
            column.append(value);
        }
        foreign[0].append(row.foreign_handler_ns);
        for (column, value) in self.narrow.iter_mut().zip(narrow(row)) {
            column.append(value);
        }
        for (column, id) in self.names.iter_mut().zip(names(row)) {
            column.append(key_of(id));
        }
        self.open.append(Some(i32::from(row.open)));
        self.op.append(Some(row.op as i32));
        self.flags.append(Some(row.flags));
        self.weight.append(Some(row.weight));
    }

    /// Appends a range of rows that are like `row` but for these columns. A stage that `row` has takes all of each operation's latency.
    pub fn extend(&mut self, row: &OpRow, few: &FewColumns, range: Range<usize>) {
        let times = range.len();
        self.op_id.repeat(Some(row.op_id as i64), times);
        self.start.extend_from_slice(&few.start_ns[range.clone()]);
        let latencies = &few.latency_ns[range.clone()];
        self.latency.extend_from_slice(latencies);
        let ops = few.op[range.clone()].iter();
        // Kinds that are all the same stay a count.
        match few.op[range.clone()] {
            [first, ref others @ ..] if others.iter().all(|op| *op == first) => {
                self.op.repeat(Some(first as i32), times);
            }
            _ => self.op.extend_from(ops.map(|op| *op as i32)),
        }
        let [offset, size, rest @ ..] = &mut self.wide;
        for (column, values, same) in [
            (offset, &few.offset_bytes, row.offset_bytes),
            (size, &few.size_bytes, row.size_bytes),
        ] {
            match values.get(range.clone()) {
                None => column.repeat(same, times),
                Some([first, others @ ..]) if others.iter().all(|value| value == first) => {
                    column.repeat(Some(*first), times);
                }
                Some(values) => column.extend_from(values.iter().copied()),
            }
        }
        let (stages, foreign) = rest.split_at_mut(row.stages.len());
        for (column, value) in stages.iter_mut().zip(row.stages) {
            match value {
                None => column.repeat(None, times),
                Some(_) => column.extend_from(latencies.iter().copied()),
            }
        }
        foreign[0].repeat(row.foreign_handler_ns, times);
        for (column, value) in self.narrow.iter_mut().zip(narrow(row)) {
            column.repeat(value, times);
        }
        for (place, (column, id)) in self.names.iter_mut().zip(names(row)).enumerate() {
            match few.device.get(range.clone()) {
                Some([first, others @ ..]) if place == DEVICE && others.iter().any(|id| id != first) => {
                    let devices = few.device[range.clone()].iter();
                    column.extend_from(devices.map(|id| key_of(Some(*id)).expect("a name")));
                }
                Some([first, ..]) if place == DEVICE => column.repeat(key_of(Some(*first)), times),
                _ => column.repeat(key_of(id), times),
            }
        }
        self.open.repeat(Some(i32::from(row.open)), times);
        self.flags.repeat(Some(row.flags), times);
        self.weight.repeat(Some(row.weight), times);
    }

    /// A row, as it was appended.
    pub fn row(&self, at: usize) -> OpRow {
        let wide = |column: usize| self.wide[column].get(at);
        let name = |column: usize| self.names[column].get(at).map(|key| key as NameId);
        let narrow = |column: usize| self.narrow[column].get(at);
        OpRow {
            op_id: self.op_id.get(at).expect("no NULL in this column") as u64,
            start_ns: self.start[at],
            latency_ns: self.latency[at],
            open: self.is_open(at),
            op: self.op(at),
            flags: self.flags.get(at).expect("no NULL in this column"),
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
            weight: self.weight.get(at).expect("no NULL in this column"),
            stages: std::array::from_fn(|stage| wide(STAGES + stage)),
            foreign_handler_ns: wide(FOREIGN_HANDLER),
        }
    }

    /// Takes the first `count` of `rows` out; those that are left stay, in the order of the rest of `rows`.
    pub fn take_in_order(&mut self, rows: &[u32], count: usize) -> OpBatch {
        let (taken, left) = rows.split_at(count);
        let first = self.chosen(taken, count);
        // As many will come again.
        *self = self.chosen(left, rows.len());
        first
    }

    /// Takes the first `count` rows out.
    pub fn take_first(&mut self, count: usize) -> OpBatch {
        let left = OpBatch {
            op_id: self.op_id.split_off(count),
            start: split_off(&mut self.start, count),
            latency: split_off(&mut self.latency, count),
            wide: std::array::from_fn(|column| self.wide[column].split_off(count)),
            narrow: std::array::from_fn(|column| self.narrow[column].split_off(count)),
            names: std::array::from_fn(|column| self.names[column].split_off(count)),
            open: self.open.split_off(count),
            op: self.op.split_off(count),
            flags: self.flags.split_off(count),
            weight: self.weight.split_off(count),
        };
        std::mem::replace(self, left)
    }

    fn chosen(&self, rows: &[u32], capacity: usize) -> OpBatch {
        let whole = |all: &[i64]| {
            let mut chosen = Vec::with_capacity(capacity);
            chosen.extend(rows.iter().map(|row| all[*row as usize]));
            chosen
        };
        OpBatch {
            op_id: self.op_id.chosen(rows, capacity),
            start: whole(&self.start),
            latency: whole(&self.latency),
            wide: std::array::from_fn(|column| self.wide[column].chosen(rows, capacity)),
            narrow: std::array::from_fn(|column| self.narrow[column].chosen(rows, capacity)),
            names: std::array::from_fn(|column| self.names[column].chosen(rows, capacity)),
            open: self.open.chosen(rows, capacity),
            op: self.op.chosen(rows, capacity),
            flags: self.flags.chosen(rows, capacity),
            weight: self.weight.chosen(rows, capacity),
        }
    }

    /// When each begins.
    pub fn starts_ns(&self) -> &[i64] {
        &self.start
    }

    /// How long each takes.
    pub fn latencies_ns(&self) -> &[i64] {
        &self.latency
    }

    /// Its kind.
    pub fn op(&self, at: usize) -> Op {
        Op::ALL[self.op.get(at).expect("no NULL in this column") as usize]
    }

    /// Whether it had not ended.
    pub fn is_open(&self, at: usize) -> bool {
        self.open.get(at) == Some(1)
    }

    /// Its device.
    #[inline]
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

    /// How many were in flight as each began; 0: not known. What a row has already stays.
    pub fn set_queue_depths(&mut self, depths: Vec<i32>) {
        let known = &mut self.narrow[QUEUE_DEPTH];
        if known.is_absent() && !depths.contains(&0) {
            *known = Values::of(depths);
            return;
        }
        let mut column = Values::default();
        for (at, depth) in depths.into_iter().enumerate() {
            column.append(known.get(at).or((depth > 0).then_some(depth)));
        }
        *known = column;
    }

    /// Numbers the rows from here on.
    pub fn set_ids(&mut self, first: u64) {
        let rows = 0..self.len() as i64;
        self.op_id = Values::of(rows.map(|at| first as i64 + at).collect());
    }

    /// The columns in the order of `tables::OPS`; there are no rows afterwards.
    pub(super) fn take(
        &mut self,
        ops: &ArrayRef,
        names: &ArrayRef,
        shared: &mut SharedColumns,
    ) -> Vec<ArrayRef> {
        let rows = self.len();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(32);
        columns.push(Arc::new(self.op_id.take()));
        for column in [&mut self.start, &mut self.latency] {
            // The next batch has as many rows as this one.
            let all = std::mem::replace(column, Vec::with_capacity(rows));
            columns.push(Arc::new(Int64Array::from(all)));
        }
        columns.push(Arc::new(truths(&mut self.open, shared)));
        columns.push(name_array(self.op.take_shared(&mut shared.narrow), ops));
        columns.push(Arc::new(self.flags.take_shared(&mut shared.flags)));
        let keys = self.names.iter_mut();
        columns.extend(keys.map(|keys| name_array(keys.take_shared(&mut shared.narrow), names)));
        let [offset, size, rest @ ..] = &mut self.wide;
        columns.push(Arc::new(offset.take_shared(&mut shared.wide)));
        columns.push(Arc::new(size.take_shared(&mut shared.wide)));
        let narrow = self.narrow.iter_mut();
        columns.extend(narrow.map(|column| Arc::new(column.take_shared(&mut shared.narrow)) as ArrayRef));
        columns.push(Arc::new(self.weight.take_shared(&mut shared.weight)));
        let rest = rest.iter_mut();
        columns.extend(rest.map(|column| Arc::new(column.take_shared(&mut shared.wide)) as ArrayRef));
        columns
    }
}

/// Arrays that columns of equal type share.
#[derive(Default)]
pub(super) struct SharedColumns {
    wide: Shared<Int64Type>,
    narrow: Shared<Int32Type>,
    flags: Shared<UInt32Type>,
    weight: Shared<Float32Type>,
}

fn truths(column: &mut Values<Int32Type>, shared: &mut SharedColumns) -> BooleanArray {
    let same = column.same();
    let values = column.take_shared(&mut shared.narrow);
    match same {
        Some(0) => BooleanArray::new(BooleanBuffer::new_unset(values.len()), None),
        _ => values.values().iter().map(|value| Some(*value == 1)).collect(),
    }
}

fn narrow(row: &OpRow) -> [Option<i32>; 8] {
    [
        row.queue_depth,
        row.pid,
        row.tid,
        row.cpu,
        row.complete_cpu,
        row.hctx,
        row.vector,
        Some(row.error),
    ]
}

fn names(row: &OpRow) -> [Option<NameId>; 5] {
    [row.host, row.device, row.file, row.comm, row.cgroup]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(start_ns: i64, latency_ns: i64, op: Op, size_bytes: Option<i64>) -> OpRow {
        OpRow {
            flags: 2,
            device: Some(3 - (size_bytes == Some(512)) as u32),
            comm: Some(1),
            offset_bytes: Some(start_ns * 512),
            size_bytes,
            pid: Some(7),
            stages: std::array::from_fn(|stage| (stage == 1).then_some(latency_ns)),
            ..OpRow::plain(start_ns, latency_ns, op)
        }
    }

    proptest! {
        /// Rows that are appended together are those that are appended one by one.
        #[test]
        fn together_or_one_by_one(
            ops in prop::collection::vec((0_i64..100, 0_i64..9, 0_usize..2), 1..40),
            kinds in 1_usize..3,
            sizes in prop::option::of(1_i64..3),
            before in 0_usize..3,
            cut in any::<prop::sample::Index>(),
        ) {
            let op = |kind: usize| Op::ALL[kind % kinds];
            let size = |start: i64| sizes.map(|sizes| 512 * (1 + start % sizes));
            let (mut one_by_one, mut together, mut few) = (OpBatch::default(), OpBatch::default(), FewColumns::default());
            for at in 0..before {
                let other = OpRow { comm: None, open: at == 1, ..row(at as i64, 3, Op::Flush, Some(1)) };
                one_by_one.push(&other);
                together.push(&other);
            }
            for (start, latency, kind) in &ops {
                one_by_one.push(&row(*start, *latency, op(*kind), size(*start)));
                few.start_ns.push(*start);
                few.latency_ns.push(*latency);
                few.op.push(op(*kind));
                few.offset_bytes.push(start * 512);
                few.size_bytes.extend(size(*start));
                few.device.extend(row(*start, *latency, op(*kind), size(*start)).device);
            }
            let same = row(0, 0, Op::Read, None);
            let cut = cut.index(ops.len());
            together.extend(&same, &few, 0..cut);
            together.extend(&same, &few, cut..ops.len());
            prop_assert_eq!(together.len(), one_by_one.len());
            for at in 0..together.len() {
                prop_assert_eq!(format!("{:?}", together.row(at)), format!("{:?}", one_by_one.row(at)), "row {}", at);
            }
            let text = |batch: &mut OpBatch| {
                let names = super::super::text_values(["a", "b", "c", "d"]);
                let ops = super::super::text_values(Op::ALL.iter().map(|op| op.name()));
                format!("{:?}", batch.take(&ops, &names, &mut SharedColumns::default()))
            };
            prop_assert_eq!(text(&mut together), text(&mut one_by_one));
        }
    }
}
