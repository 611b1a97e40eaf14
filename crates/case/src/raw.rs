//! Raw event streams: LZ4 Arrow IPC, fixed-width columns, append-only, never rewritten.
use crate::CaseError;
use std::path::Path;

/// A raw row type and its Arrow form.
pub trait RawRow: Copy + Send + 'static {
    /// Probe name: folder under `raw/`.
    const PROBE: &'static str;
}

/// Appends rows to one stream. Rows are batched; a batch that was flushed survives a kill.
pub struct RawWriter<R: RawRow> {
    _marker: std::marker::PhantomData<R>,
}

impl<R: RawRow> RawWriter<R> {
    /// Creates `path` (its folder too). `metadata` goes into the stream's schema.
    pub fn create(_path: &Path, _metadata: &[(String, String)]) -> Result<Self, CaseError> {
        todo!()
    }
    /// Appends one row; writes a batch when one is full.
    pub fn push(&mut self, _row: &R) -> Result<(), CaseError> {
        todo!()
    }
    /// Writes what is batched so far.
    pub fn flush(&mut self) -> Result<(), CaseError> {
        todo!()
    }
    /// Flushes, writes the end-of-stream mark, returns the number of rows.
    pub fn finish(self) -> Result<u64, CaseError> {
        todo!()
    }
}

/// Reads a stream batch by batch and keeps the good prefix of a damaged one.
pub struct RawReader<R: RawRow> {
    _marker: std::marker::PhantomData<R>,
}

/// Where and why a stream ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Bytes of the good prefix.
    pub good_bytes: u64,
    /// Bytes after it.
    pub lost_bytes: u64,
    /// What was found there.
    pub found: String,
}

impl<R: RawRow> RawReader<R> {
    /// Opens a stream. A file that was cut within its header reads as empty with a [`Truncation`].
    pub fn open(_path: &Path) -> Result<Self, CaseError> {
        todo!()
    }
    /// Value of a metadata key of the stream's schema.
    pub fn metadata(&self, _key: &str) -> Option<&str> {
        todo!()
    }
    /// Clears `into` and fills it with the next batch; false at the end (good or cut).
    pub fn next_batch(&mut self, _into: &mut Vec<R>) -> Result<bool, CaseError> {
        todo!()
    }
    /// After the end: Some if the stream has no proper end.
    pub fn truncation(&self) -> Option<&Truncation> {
        todo!()
    }
}
