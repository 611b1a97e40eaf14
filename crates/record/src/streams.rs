//! A raw stream that goes on counting when it can no longer write.
use case::raw::{RawRow, RawWriter};
use case::CaseError;
use std::path::Path;
use std::time::Duration;

/// Rows of one type on their way to `raw/<probe>/<probe>.arrows`.
pub struct Out<R: RawRow> {
    /// `None` once finished.
    writer: Option<RawWriter<R>>,
    came: u64,
    stopped: bool,
    error: Option<CaseError>,
}

impl<R: RawRow> Out<R> {
    /// Creates the stream. `metadata`: facts that are the same in every row.
    pub fn create(raw_dir: &Path, metadata: &[(String, String)]) -> Result<Out<R>, CaseError> {
        let path = raw_dir.join(R::PROBE).join(format!("{}.arrows", R::PROBE));
        Ok(Out {
            writer: Some(RawWriter::create(&path, metadata)?),
            came: 0,
            stopped: false,
            error: None,
        })
    }

    /// Appends a row.
    pub fn push(&mut self, row: &R) {
        self.came += 1;
        self.attempt(|writer| writer.push(row));
    }

    /// Appends rows.
    pub fn push_many(&mut self, rows: &[R]) {
        self.came += rows.len() as u64;
        self.attempt(|writer| writer.push_many(rows));
    }

    fn attempt(&mut self, action: impl FnOnce(&mut RawWriter<R>) -> Result<(), CaseError>) {
        let Some(writer) = self.writer.as_mut().filter(|_| !self.stopped) else {
            return;
        };
        if let Err(error) = action(writer) {
            self.error = Some(error);
            self.stopped = true;
        }
    }
}

/// An [`Out`] of any row type.
pub trait Stream {
    /// Folder under `raw/`.
    fn name(&self) -> &'static str;
    /// Writes out rows older than `age`.
    fn flush(&mut self, age: Duration);
    /// Writes nothing from here on: the disk is full or broken.
    fn stop(&mut self);
    /// Whether something went wrong here.
    fn has_failed(&self) -> bool;
    /// Writes out the rest and, unless it was stopped, the end mark; once, at the end. Returns rows in the file,
    /// rows that came but are not in it, and what went wrong.
    fn finish(&mut self) -> (u64, u64, Option<CaseError>);
}

impl<R: RawRow> Stream for Out<R> {
    fn name(&self) -> &'static str {
        R::PROBE
    }

    fn flush(&mut self, age: Duration) {
        self.attempt(|writer| writer.flush_if_older_than(age));
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    fn finish(&mut self) -> (u64, u64, Option<CaseError>) {
        let Some(mut writer) = self.writer.take() else {
            return (0, 0, None);
        };
        // Stopped for another stream's sake, it may still hold rows that can be written.
        if let (Err(error), None) = (writer.flush(), &self.error) {
            self.error = Some(error);
        }
        let rows = writer.rows();
        if !self.stopped {
            self.error = self.error.take().or(writer.finish().err());
        }
        (rows, self.came - rows, self.error.take())
    }
}
