//! The log of operations: workers put rows into rings, one writer thread encodes them into raw streams.
//!
//! A ring has one producer and one consumer. The producer never drops a row: where the ring is full
//! it waits, and the time is counted. Rows become visible to the writer once per batch of
//! completions, so a row waits in memory for the writer only, never for its worker.
use crate::clock::mono_ns;
use crate::WorkloadError;
use case::raw::RawWriter;
use case::rows::AppRow;
use case::schema::EventRow;
use std::cell::UnsafeCell;
use std::io::Write;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Name of the thread that writes the log: the recorder's own, not the workload's.
pub const LOG_THREAD: &str = "whodisk-log";

/// Rows per ring; a power of two. 32,768 rows are 2.4 MB, about 10 ms at 3 million rows per second.
const RING_ROWS: usize = 1 << 15;

/// A row reaches the file within about this plus [`WAKE`] (promised: one second).
const FLUSH_AGE: Duration = Duration::from_millis(400);

/// The writer looks at the rings at least this often; a ring that is a quarter full wakes it at once.
const WAKE: Duration = Duration::from_millis(100);

/// Events kept per run; more are counted only, so that a broken device cannot flood the case.
const EVENTS_MAX: u64 = 1000;

#[repr(align(64))]
#[derive(Default)]
struct Padded(AtomicU64);

struct Ring {
    /// Uninitialised, so that a slow worker never touches most of its memory.
    rows: Box<[MaybeUninit<UnsafeCell<AppRow>>]>,
    /// Rows ever published by the producer.
    tail: Padded,
    /// Rows ever taken by the consumer; `tail - head <= RING_ROWS`.
    head: Padded,
}

// SAFETY: a cell is written only by the one producer while `head + RING_ROWS > index >= tail`, and
// read only by the one consumer while `head <= index < tail`; `tail` and `head` are
// released after and acquired before those accesses.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Ring {
        let rows = Box::new_uninit_slice(RING_ROWS);
        Ring {
            rows,
            tail: Padded::default(),
            head: Padded::default(),
        }
    }

    /// The cell of row `index`, counted since the beginning; valid for the cells after it too.
    #[inline]
    fn cell(&self, index: u64) -> *mut AppRow {
        let place = index as usize & (RING_ROWS - 1);
        // SAFETY: `place` lies within the slice.
        UnsafeCell::raw_get(unsafe { self.rows.as_ptr().add(place) }.cast())
    }
}

/// What the workers, the writer and the main thread share.
#[derive(Default)]
pub(crate) struct Shared {
    /// No more rows will come.
    finish: AtomicBool,
    /// The writer gave up; workers must end instead of waiting for room.
    pub(crate) failed: AtomicBool,
    writer: OnceLock<Thread>,
    events: Mutex<Vec<EventRow>>,
    events_seen: AtomicU64,
}

impl Shared {
    fn wake_writer(&self) {
        if let Some(thread) = self.writer.get() {
            thread.unpark();
        }
    }

    /// Keeps an event for `raw/events.jsonl`.
    pub(crate) fn event(&self, kind: &str, subject: &str, detail: String) {
        if self.events_seen.fetch_add(1, Ordering::Relaxed) >= EVENTS_MAX {
            return;
        }
        let (kind, subject) = (kind.to_owned(), subject.to_owned());
        let event = EventRow {
            time_ns: mono_ns() as i64,
            kind,
            subject,
            detail,
        };
        self.events
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(event);
    }

    /// Events that were counted but not kept.
    pub(crate) fn events_dropped(&self) -> u64 {
        self.events_seen
            .load(Ordering::Relaxed)
            .saturating_sub(EVENTS_MAX)
    }
}

/// The worker's end of a ring.
pub(crate) struct Producer {
    ring: Arc<Ring>,
    shared: Arc<Shared>,
    /// Rows written; published by [`Producer::publish`].
    tail: u64,
    /// Last known `head`.
    head: u64,
    /// `tail` at which the writer is woken next.
    wake_at: u64,
    /// Time spent waiting for room.
    pub(crate) stalls_ns: u64,
}

impl Producer {
    /// Appends a row; waits while the ring is full. After a failure of the writer rows are dropped
    /// (the run then ends with that failure).
    #[inline]
    pub(crate) fn push(&mut self, row: &AppRow) {
        if self.tail - self.head == RING_ROWS as u64 && !self.wait_for_room() {
            return;
        }
        // SAFETY: this is the only producer, and `tail - head < RING_ROWS`: the consumer is done with the cell.
        unsafe { self.ring.cell(self.tail).write(*row) };
        self.tail += 1;
    }

    /// Makes all rows so far visible to the writer.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.ring.tail.0.store(self.tail, Ordering::Release);
        if self.tail >= self.wake_at {
            self.wake_at = self.tail + RING_ROWS as u64 / 4;
            self.shared.wake_writer();
        }
    }

    #[cold]
    fn wait_for_room(&mut self) -> bool {
        self.head = self.ring.head.0.load(Ordering::Acquire);
        if self.tail - self.head < RING_ROWS as u64 {
            return true;
        }
        let began_ns = mono_ns();
        self.publish();
        while self.tail - self.head == RING_ROWS as u64 {
            if self.shared.failed.load(Ordering::Relaxed) {
                return false;
            }
            self.shared.wake_writer();
            std::thread::sleep(Duration::from_micros(50));
            self.head = self.ring.head.0.load(Ordering::Acquire);
        }
        self.stalls_ns += mono_ns() - began_ns;
        true
    }
}

/// The main thread's view of a ring: rows published so far.
#[derive(Clone)]
pub(crate) struct Counter(Arc<Ring>);

impl Counter {
    pub(crate) fn rows(&self) -> u64 {
        self.0.tail.0.load(Ordering::Relaxed)
    }
}

struct Stream {
    ring: Arc<Ring>,
    head: u64,
    writer: RawWriter<AppRow>,
}

impl Stream {
    /// Encodes what is in the ring.
    fn drain(&mut self) -> Result<(), case::CaseError> {
        let tail = self.ring.tail.0.load(Ordering::Acquire);
        while self.head < tail {
            let begin = self.head as usize & (RING_ROWS - 1);
            let count = (tail - self.head).min((RING_ROWS - begin) as u64).min(4096) as usize;
            let first = self.ring.cell(self.head).cast_const();
            // SAFETY: rows `head..tail` are published, so they are written, and not yet taken, so the
            // producer leaves them alone; `begin + count` does not pass the end of the ring.
            let rows: &[AppRow] = unsafe { std::slice::from_raw_parts(first, count) };
            self.writer.push_many(rows)?;
            self.head += count as u64;
            self.ring.head.0.store(self.head, Ordering::Release);
        }
        self.writer.flush_if_older_than(FLUSH_AGE)
    }
}

/// The writer thread and its streams.
pub(crate) struct Log {
    pub(crate) shared: Arc<Shared>,
    thread: JoinHandle<Result<Vec<u64>, case::CaseError>>,
}

/// A ring before its stream exists.
pub(crate) struct Channel {
    ring: Arc<Ring>,
}

impl Channel {
    pub(crate) fn new() -> Channel {
        Channel {
            ring: Arc::new(Ring::new()),
        }
    }

    pub(crate) fn producer(&self, shared: &Arc<Shared>) -> Producer {
        let (ring, shared) = (Arc::clone(&self.ring), Arc::clone(shared));
        Producer {
            ring,
            shared,
            tail: 0,
            head: 0,
            wake_at: RING_ROWS as u64 / 4,
            stalls_ns: 0,
        }
    }

    pub(crate) fn counter(&self) -> Counter {
        Counter(Arc::clone(&self.ring))
    }
}

impl Log {
    /// Creates one stream per channel and starts the thread [`LOG_THREAD`]. By that name the
    /// recorder distinguishes its writes from the workload's.
    pub(crate) fn start(
        raw_dir: &Path,
        shared: &Arc<Shared>,
        channels: Vec<(Channel, Vec<(String, String)>)>,
    ) -> Result<Log, WorkloadError> {
        let mut streams = Vec::new();
        for (worker, (channel, metadata)) in channels.into_iter().enumerate() {
            let path = raw_dir.join(format!("app/worker-{worker:03}.arrows"));
            streams.push(Stream {
                ring: channel.ring,
                head: 0,
                writer: RawWriter::create(&path, &metadata)?,
            });
        }
        let (state, events_path) = (Arc::clone(shared), raw_dir.join("events.jsonl"));
        let thread = std::thread::Builder::new()
            .name(LOG_THREAD.into())
            .spawn(move || write_log(&state, streams, &events_path))
            .map_err(|source| WorkloadError::Io {
                path: raw_dir.to_owned(),
                action: "start the writer thread".into(),
                source,
                hint: "raise the limit of processes".into(),
            })?;
        let _ = shared.writer.set(thread.thread().clone());
        Ok(Log {
            shared: Arc::clone(shared),
            thread,
        })
    }

    /// Takes the rest, ends the streams, returns the rows of each. Workers must have ended.
    pub(crate) fn finish(self) -> Result<Vec<u64>, WorkloadError> {
        self.shared.finish.store(true, Ordering::Release);
        self.thread.thread().unpark();
        match self.thread.join() {
            Ok(rows) => Ok(rows?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn write_log(shared: &Shared, mut streams: Vec<Stream>, events: &Path) -> Result<Vec<u64>, case::CaseError> {
    let result = drain_until_finished(shared, &mut streams, events);
    if let Err(error) = result {
        shared.failed.store(true, Ordering::Release);
        return Err(error);
    }
    streams.into_iter().map(|stream| stream.writer.finish()).collect()
}

fn drain_until_finished(
    shared: &Shared,
    streams: &mut [Stream],
    events: &Path,
) -> Result<(), case::CaseError> {
    loop {
        // Read before draining: what was published before `finish` is then drained for certain.
        let last = shared.finish.load(Ordering::Acquire);
        for stream in streams.iter_mut() {
            stream.drain()?;
        }
        append_events(shared, events)?;
        if last {
            return Ok(());
        }
        let quarter_full = |stream: &Stream| {
            stream.ring.tail.0.load(Ordering::Relaxed) - stream.head >= RING_ROWS as u64 / 4
        };
        if !streams.iter().any(quarter_full) {
            std::thread::park_timeout(WAKE);
        }
    }
}

/// One line per event, in one write each, since other observers append to the same file.
fn append_events(shared: &Shared, path: &Path) -> Result<(), case::CaseError> {
    let events = std::mem::take(
        &mut *shared
            .events
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()),
    );
    if events.is_empty() {
        return Ok(());
    }
    let io_error = |source: std::io::Error| case::CaseError::Io {
        path: PathBuf::from(path),
        action: "append an event".into(),
        source,
        hint: "; free space or choose another folder".into(),
    };
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(io_error)?;
    for event in &events {
        let line = serde_json::to_string(event).map_err(|error| io_error(error.into()))? + "\n";
        file.write_all(line.as_bytes()).map_err(io_error)?;
    }
    Ok(())
}
