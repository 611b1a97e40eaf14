//! Rows of the tables beside `ops` and `links`, gathered column by column.
use super::file::TableFile;
use super::values::Values;
use super::{name_array, Names};
use crate::schema::{
    CacheRow, EventRow, GapRow, IrqRow, LossRow, NameId, PrefetchRow, Sample, SeriesRow, WaitRow,
};
use crate::tables::{self, Kind, Table};
use crate::CaseError;
use arrow_array::builder::BooleanBuilder;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::ArrayRef;
use std::collections::HashMap;
use std::sync::Arc;

/// The tables in [`tables::ALWAYS`], links excepted.
pub(super) const TABLES: [Table; 8] = [
    tables::GAPS,
    tables::IRQS,
    tables::CACHE,
    tables::PREFETCH,
    tables::WAITS,
    tables::SERIES,
    tables::LOSSES,
    tables::EVENTS,
];

/// A row of one of these tables, or several that differ in few columns.
pub trait TableRow {
    /// The place of its table among them.
    const PLACE: usize;

    /// How many rows it is.
    fn rows(&self) -> usize {
        1
    }

    /// Gives the values in the order of the table's columns.
    fn put(&self, out: &mut Cells, names: &Names);
}

enum Cell {
    Int64(Values<Int64Type>),
    Int32(Values<Int32Type>),
    Bool(BooleanBuilder),
    Float64(Values<Float64Type>),
    Name(Values<Int32Type>),
    Text(Texts),
}

/// Strings of one batch, each of them held once.
#[derive(Default)]
struct Texts {
    keys: Values<Int32Type>,
    known: HashMap<String, i32>,
    texts: Vec<String>,
    /// The key of the last one: often the next one is the same.
    last: usize,
    /// The last one, if it was one of our own words.
    word: Option<&'static str>,
}

impl Texts {
    fn append(&mut self, text: Option<&str>) {
        self.repeat(text, 1);
    }

    /// The same text this many times.
    fn repeat(&mut self, text: Option<&str>, times: usize) {
        let Some(text) = text else {
            self.keys.repeat(None, times);
            return;
        };
        if self.texts.get(self.last).is_none_or(|last| last != text) {
            self.find(text);
        }
        self.keys.repeat(Some(self.last as i32), times);
    }

    /// The same word of ours this many times. Its address shows whether it is the last one, without a look at it.
    #[inline]
    fn repeat_word(&mut self, word: &'static str, times: usize) {
        if !self.word.is_some_and(|last| std::ptr::eq(last, word)) {
            self.find(word);
            self.word = Some(word);
        }
        self.keys.repeat(Some(self.last as i32), times);
    }

    fn find(&mut self, text: &str) {
        self.word = None;
        self.last = match self.known.get(text) {
            Some(key) => *key as usize,
            None => {
                self.known.insert(text.to_owned(), self.texts.len() as i32);
                self.texts.push(text.to_owned());
                self.texts.len() - 1
            }
        };
    }

    fn take(&mut self) -> ArrayRef {
        let mut all = std::mem::take(self);
        let values = super::text_values(all.texts.iter().map(String::as_str));
        name_array(all.keys.take(), &values)
    }
}

/// Where a row puts its values, one after the other. A value of another type than the column's is our bug, and panics.
pub struct Cells {
    cells: Vec<Cell>,
    at: usize,
    rows: usize,
}

impl Cells {
    fn new(table: &Table) -> Cells {
        let cell = |kind| match kind {
            Kind::Int64 => Cell::Int64(Values::default()),
            Kind::Int32 => Cell::Int32(Values::default()),
            Kind::Bool => Cell::Bool(BooleanBuilder::new()),
            Kind::Float64 => Cell::Float64(Values::default()),
            Kind::Name => Cell::Name(Values::default()),
            Kind::Text => Cell::Text(Texts::default()),
            Kind::UInt32 | Kind::Float32 => unreachable!("only the table of operations has such columns"),
        };
        Cells {
            cells: table.columns.iter().map(|column| cell(column.kind)).collect(),
            at: 0,
            rows: 0,
        }
    }

    #[inline]
    fn next(&mut self) -> &mut Cell {
        self.at += 1;
        &mut self.cells[self.at - 1]
    }

    #[inline]
    fn int64(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        let Cell::Int64(cell) = self.next() else {
            unreachable!("a column of another type")
        };
        cell.append(value.into());
        self
    }

    #[inline]
    fn int32(&mut self, value: impl Into<Option<i32>>) -> &mut Self {
        let Cell::Int32(cell) = self.next() else {
            unreachable!("a column of another type")
        };
        cell.append(value.into());
        self
    }

    #[inline]
    fn bool(&mut self, value: bool) -> &mut Self {
        let Cell::Bool(cell) = self.next() else {
            unreachable!("a column of another type")
        };
        cell.append_value(value);
        self
    }

    #[inline]
    fn float64(&mut self, value: f64) -> &mut Self {
        let Cell::Float64(cell) = self.next() else {
            unreachable!("a column of another type")
        };
        cell.append(Some(value));
        self
    }

    #[inline]
    fn name(&mut self, value: impl Into<Option<NameId>>) -> &mut Self {
        let Cell::Name(cell) = self.next() else {
            unreachable!("a column of another type")
        };
        cell.append(super::key_of(value.into()));
        self
    }

    fn text<'t>(&mut self, value: impl Into<Option<&'t str>>) -> &mut Self {
        let Cell::Text(cell) = self.next() else {
            unreachable!("a column of another type")
        };
        cell.append(value.into());
        self
    }

    fn take(&mut self, names: &ArrayRef) -> Vec<ArrayRef> {
        self.rows = 0;
        let array = |cell: &mut Cell| -> ArrayRef {
            match cell {
                Cell::Int64(cell) => Arc::new(cell.take()),
                Cell::Int32(cell) => Arc::new(cell.take()),
                Cell::Bool(cell) => Arc::new(cell.finish()),
                Cell::Float64(cell) => Arc::new(cell.take()),
                Cell::Name(keys) => name_array(keys.take(), names),
                Cell::Text(texts) => texts.take(),
            }
        };
        self.cells.iter_mut().map(array).collect()
    }
}

/// A table and the rows that were not handed to its file yet.
pub(super) struct Gathered {
    pub(super) table: Table,
    cells: Cells,
    file: TableFile,
}

impl Gathered {
    pub(super) fn new(table: Table, file: TableFile) -> Gathered {
        Gathered {
            table,
            cells: Cells::new(&table),
            file,
        }
    }

    /// True: there are enough rows for a batch.
    pub(super) fn push(&mut self, row: &impl TableRow, names: &Names) -> bool {
        self.cells.at = 0;
        row.put(&mut self.cells, names);
        assert_eq!(
            self.cells.at,
            self.table.columns.len(),
            "a row of {}",
            self.table.name
        );
        self.cells.rows += row.rows();
        self.cells.rows >= super::BATCH_ROWS
    }

    pub(super) fn write(&mut self, names: &ArrayRef) -> Result<(), CaseError> {
        if self.cells.rows == 0 {
            return Ok(());
        }
        let columns = self.cells.take(names);
        self.file.write(columns)
    }

    pub(super) fn into_file(self) -> TableFile {
        self.file
    }
}

impl TableRow for GapRow {
    const PLACE: usize = 0;

    fn put(&self, out: &mut Cells, names: &Names) {
        out.text(self.layer.name()).int32(self.tid);
        out.text(self.comm.map(|id| names.get(id)));
        out.int64(self.start_ns).int64(self.duration_ns);
        out.text(self.state.as_str()).bool(self.meant_busy);
    }
}

impl TableRow for LossRow {
    const PLACE: usize = 6;

    fn put(&self, out: &mut Cells, _names: &Names) {
        out.text(self.probe.as_str())
            .int64(self.start_ns)
            .int64(self.end_ns);
        out.int64(self.lost.map(|lost| i64::try_from(lost).unwrap_or(i64::MAX)));
        out.text(self.reason.as_str());
    }
}

impl TableRow for EventRow {
    const PLACE: usize = 7;

    fn put(&self, out: &mut Cells, _names: &Names) {
        out.int64(self.time_ns).text(self.kind.as_str());
        out.text(self.subject.as_str()).text(self.detail.as_str());
    }
}

impl TableRow for IrqRow {
    const PLACE: usize = 1;

    fn put(&self, out: &mut Cells, _names: &Names) {
        out.name(self.host).int32(self.cpu).int32(self.vector);
        out.name(self.handler).text(self.kind.name()).name(self.device);
        out.int64(self.start_ns).int64(self.duration_ns);
    }
}

impl TableRow for CacheRow {
    const PLACE: usize = 2;

    fn put(&self, out: &mut Cells, _names: &Names) {
        out.int64(self.op_id as i64)
            .text(self.tier.as_str())
            .name(self.file);
        out.int64(self.offset_bytes)
            .int64(self.size_bytes)
            .int64(self.wait_ns);
    }
}

impl TableRow for PrefetchRow {
    const PLACE: usize = 3;

    fn put(&self, out: &mut Cells, _names: &Names) {
        out.name(self.file).int64(self.start_ns).int64(self.duration_ns);
        out.int64(self.issued_bytes)
            .int64(self.used_bytes)
            .int64(self.wasted_bytes);
        out.int64(self.late_bytes).int64(self.missed_bytes);
    }
}

impl TableRow for WaitRow {
    const PLACE: usize = 4;

    fn put(&self, out: &mut Cells, _names: &Names) {
        out.int32(self.tid)
            .int32(self.pid)
            .name(self.comm)
            .int32(self.cpu);
        out.int64(self.start_ns)
            .int64(self.duration_ns)
            .text(self.state.name());
        out.name(self.cause).int32(self.cause_pid);
        out.name(self.waker).int32(self.waker_pid).int32(self.waker_tid);
    }
}

impl TableRow for SeriesRow {
    const PLACE: usize = 5;

    fn put(&self, out: &mut Cells, _names: &Names) {
        out.int64(self.time_ns).name(self.host).text(self.kind.name());
        out.name(self.subject).name(self.metric).float64(self.value);
    }
}

impl TableRow for Sample<'_> {
    const PLACE: usize = SeriesRow::PLACE;

    fn rows(&self) -> usize {
        self.values.len()
    }

    fn put(&self, out: &mut Cells, _names: &Names) {
        let times = self.rows();
        out.at = out.cells.len();
        let [Cell::Int64(time), Cell::Name(host), Cell::Text(kind), Cell::Name(subject), Cell::Name(metric), Cell::Float64(value)] =
            out.cells.as_mut_slice()
        else {
            unreachable!("columns of another type")
        };
        time.repeat(Some(self.time_ns), times);
        host.repeat(super::key_of(self.host), times);
        kind.repeat_word(self.kind.name(), times);
        subject.repeat(super::key_of(Some(self.subject)), times);
        for (id, sample) in self.values {
            metric.append(super::key_of(Some(*id)));
            value.append(Some(*sample));
        }
    }
}
