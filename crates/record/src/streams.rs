//! A raw stream that goes on counting when it can no longer write.
use crate::flight::SharedFlight;
use crate::probe::{SharedFilter, Target};
use crate::sys;
use crate::told::Told;
use case::raw::RawWriter;
use case::CaseError;
use std::time::{Duration, Instant};

/// Rows that go to the flight recorder together.
const CHUNK_ROWS: usize = 4096;

/// Rows of one type on their way to `raw/<probe>/<probe>.arrows`, or to the flight recorder.
pub struct Out<R: Told> {
    kept: Option<Kept<R>>,
    /// `None` once finished.
    writer: Option<RawWriter<R>>,
    came: u64,
    filter: Option<SharedFilter>,
    out_of_scope: u64,
    stopped: bool,
    error: Option<CaseError>,
}

impl<R: Told> Out<R> {
    /// Creates the stream; no file of it where the flight recorder keeps the rows. `metadata`: facts that are the same in every row.
    pub fn create(target: &Target, metadata: &[(String, String)]) -> Result<Out<R>, CaseError> {
        let path = target.raw_dir.join(R::PROBE).join(format!("{}.arrows", R::PROBE));
        let writer = match &target.flight {
            Some(_) => None,
            None => Some(RawWriter::create(&path, metadata)?),
        };
        Ok(Out {
            kept: target.flight.clone().map(Kept::new),
            writer,
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
        match &mut self.kept {
            Some(kept) => kept.push(row),
            None => self.attempt(|writer| writer.push(row)),
        }
    }

    /// Appends rows.
    pub fn push_many(&mut self, rows: &[R]) {
        if self.filter.is_some() || self.kept.is_some() {
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

/// Rows on their way to the flight recorder.
struct Kept<R: Told> {
    flight: SharedFlight,
    latency_limit_ns: u64,
    rows: Vec<R>,
    oldest: Option<Instant>,
}

impl<R: Told> Kept<R> {
    fn new(flight: SharedFlight) -> Kept<R> {
        let latency_limit_ns = {
            let mut flight = flight.lock().expect(NO_PANIC);
            flight.add_stream::<R>();
            flight.latency_limit_ns()
        };
        Kept {
            flight,
            latency_limit_ns,
            rows: Vec::new(),
            oldest: None,
        }
    }

    fn push(&mut self, row: &R) {
        if let Some(operation) = row.slow_operation(self.latency_limit_ns) {
            self.flight.lock().expect(NO_PANIC).ended(&operation);
        }
        self.oldest.get_or_insert_with(Instant::now);
        self.rows.push(*row);
        if self.rows.len() >= CHUNK_ROWS {
            self.hand_over();
        }
    }

    fn flush(&mut self, age: Duration) {
        if self.oldest.is_some_and(|oldest| oldest.elapsed() >= age) {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.oldest = None;
        let rows = std::mem::take(&mut self.rows);
        self.flight
            .lock()
            .expect(NO_PANIC)
            .keep(sys::monotonic_ns(), rows);
    }
}

const NO_PANIC: &str = "no thread panics with the lock";

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
        if let Some(kept) = &mut self.kept {
            kept.flush(age);
        }
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
        if let Some(kept) = &mut self.kept {
            kept.hand_over();
            return (self.came, 0, None);
        }
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
