//! A raw stream that goes on counting when it can no longer write.
use crate::probe::{SharedFilter, Target};
use crate::told::Told;
use case::raw::RawWriter;
use case::CaseError;
use std::time::Duration;

/// Rows of one type on their way to `raw/<probe>/<probe>.arrows`.
pub struct Out<R: Told> {
    /// `None` once finished.
    writer: Option<RawWriter<R>>,
    came: u64,
    filter: Option<SharedFilter>,
    out_of_scope: u64,
    stopped: bool,
    error: Option<CaseError>,
}

impl<R: Told> Out<R> {
    /// Creates the stream. `metadata`: facts that are the same in every row.
    pub fn create(target: &Target, metadata: &[(String, String)]) -> Result<Out<R>, CaseError> {
        let path = target.raw_dir.join(R::PROBE).join(format!("{}.arrows", R::PROBE));
        Ok(Out {
            writer: Some(RawWriter::create(&path, metadata)?),
            came: 0,
            filter: target.filter.clone(),
            out_of_scope: 0,
            stopped: false,
            error: None,
        })
    }

    /// Appends a row.
    pub fn push(&mut self, row: &R) {
        if self.leaves_out(row) {
            return;
        }
        self.came += 1;
        self.attempt(|writer| writer.push(row));
    }

    /// Appends rows.
    pub fn push_many(&mut self, rows: &[R]) {
        if self.filter.is_some() {
            rows.iter().for_each(|row| self.push(row));
            return;
        }
        self.came += rows.len() as u64;
        self.attempt(|writer| writer.push_many(rows));
    }

    /// Whether a row is outside of the recording's scope; counts it then.
    fn leaves_out(&mut self, row: &R) -> bool {
        let Some(filter) = &self.filter else { return false };
        let mut filter = filter.lock().expect("no thread panics with the lock");
        let outside = !row.is_within(&mut filter);
        self.out_of_scope += u64::from(outside);
        outside
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
    /// Rows that were left out because they are not in the recording's scope.
    fn out_of_scope(&self) -> u64;
    /// Whether something went wrong here.
    fn has_failed(&self) -> bool;
    /// Writes out the rest and, unless it was stopped, the end mark; once, at the end. Returns rows in the file,
    /// rows that came but are not in it, and what went wrong.
    fn finish(&mut self) -> (u64, u64, Option<CaseError>);
}

impl<R: Told> Stream for Out<R> {
    fn name(&self) -> &'static str {
        R::PROBE
    }

    fn flush(&mut self, age: Duration) {
        self.attempt(|writer| writer.flush_if_older_than(age));
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn out_of_scope(&self) -> u64 {
        self.out_of_scope
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
