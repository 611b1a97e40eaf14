//! Helpers of the tests: rows from memory, and a sink that keeps what it is given.
use crate::pipeline::{Row, Sink};
use crate::stream::{Source, Stream};
use case::raw::Truncation;
use case::schema::{EventRow, GapRow, Layer, LinkRow, OpRow};
use case::sealed::Names;
use case::CaseError;

/// A stream of the rows of a vector, in small batches.
#[derive(Debug)]
pub(crate) struct Rows<R>(pub(crate) Vec<R>);

struct RowsSource<'a, R>(std::slice::Chunks<'a, R>);

impl<R: Copy> Source<R> for RowsSource<'_, R> {
    fn next_batch(&mut self, into: &mut Vec<R>) -> Result<bool, CaseError> {
        into.clear();
        into.extend(self.0.next().into_iter().flatten());
        Ok(!into.is_empty())
    }

    fn truncation(&self) -> Option<&Truncation> {
        None
    }
}

impl<R: Copy> Stream<R> for Rows<R> {
    fn open(&self) -> Result<Box<dyn Source<R> + '_>, CaseError> {
        Ok(Box::new(RowsSource(self.0.chunks(100))))
    }
}

/// Keeps everything.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Kept {
    pub(crate) app: Vec<OpRow>,
    pub(crate) block: Vec<OpRow>,
    pub(crate) syscall: Vec<OpRow>,
    pub(crate) links: Vec<LinkRow>,
    pub(crate) gaps: Vec<GapRow>,
    pub(crate) events: Vec<EventRow>,
    pub(crate) beside: Vec<Row>,
}

impl Sink for Kept {
    fn op(&mut self, layer: Layer, row: &OpRow, _names: &Names) -> Result<(), CaseError> {
        match layer {
            Layer::App => self.app.push(row.clone()),
            Layer::Syscall => self.syscall.push(row.clone()),
            _ => self.block.push(row.clone()),
        }
        Ok(())
    }
    fn link(&mut self, row: &LinkRow) -> Result<(), CaseError> {
        self.links.push(*row);
        Ok(())
    }
    fn gap(&mut self, row: &GapRow, _names: &Names) -> Result<(), CaseError> {
        self.gaps.push(row.clone());
        Ok(())
    }
    fn event(&mut self, row: &EventRow) -> Result<(), CaseError> {
        self.events.push(row.clone());
        Ok(())
    }
    fn row(&mut self, row: &Row, _names: &Names) -> Result<(), CaseError> {
        self.beside.push(row.clone());
        Ok(())
    }
}
