//! The thread `whodisk-log`: turns drained records into rows and writes them.
//!
//! It is apart from the thread that empties the ring because writing may wait for the very disk that is being
//! observed. What waits for it is bounded; beyond the bound the drain thread drops and counts.
use crate::block::Drained;
use crate::error::RecordError;
use crate::sys;
use case::raw::{RawRow, RawWriter};
use case::rows::{BlockMergeRow, BlockRow};
use case::schema::LossRow;
use case::CaseError;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Thread name; its requests are not recorded.
const THREAD: &str = "whodisk-log";

/// Rows reach the disk at most this long after they came (drain included, below a second).
const FLUSH_AGE: Duration = Duration::from_millis(600);

enum Message {
    Records(Drained),
    Loss(LossRow),
}

/// What the writer thread did.
#[derive(Debug, Default)]
pub struct Written {
    /// Requests in `raw/block`.
    pub rows: u64,
    /// Bios in `raw/block_merge`.
    pub merge_rows: u64,
    /// Requests and bios that carry one of our operations.
    pub joined: u64,
    /// Rows that came but are not in the files.
    pub rows_lost: u64,
    /// What ended the writing early.
    pub error: Option<CaseError>,
}

/// Hands records to the writer thread.
pub struct Writer {
    sender: Sender<Message>,
    thread: JoinHandle<Written>,
    waiting_bytes: Arc<AtomicUsize>,
    waiting_bytes_max: usize,
}

impl Writer {
    /// Creates the streams below `raw_dir` and starts the thread.
    pub fn start(raw_dir: &Path, waiting_bytes_max: usize) -> Result<Writer, RecordError> {
        let streams = Streams::create(raw_dir)?;
        let (sender, receiver) = channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = waiting_bytes.clone();
        let thread = std::thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || streams.run(&receiver, &waiting))
            .map_err(|error| RecordError::Thread {
                thread: THREAD,
                cause: error.to_string(),
            })?;
        Ok(Writer {
            sender,
            thread,
            waiting_bytes,
            waiting_bytes_max,
        })
    }

    /// Queues records; gives them back if too much is waiting already.
    pub fn send(&self, records: Drained) -> Result<(), Drained> {
        let bytes = records.bytes();
        if self.waiting_bytes.load(Ordering::Relaxed) + bytes > self.waiting_bytes_max {
            return Err(records);
        }
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The thread ends only when this sender is gone.
        let _ = self.sender.send(Message::Records(records));
        Ok(())
    }

    /// Queues a line of `losses.jsonl`.
    pub fn send_loss(&self, loss: LossRow) {
        let _ = self.sender.send(Message::Loss(loss));
    }

    /// Waits until everything is written.
    pub fn finish(self) -> Result<Written, RecordError> {
        drop(self.sender);
        let panicked = |_| RecordError::Thread {
            thread: THREAD,
            cause: "it panicked".into(),
        };
        self.thread.join().map_err(panicked)
    }
}

/// The files and what went into them.
struct Streams {
    blocks: RawWriter<BlockRow>,
    merges: RawWriter<BlockMergeRow>,
    losses: File,
    losses_path: PathBuf,
    rows: Vec<BlockRow>,
    /// Requests and bios that came.
    requests: u64,
    bios: u64,
    joined: u64,
    /// The first error and when; from then on nothing is written.
    failed: Option<(CaseError, u64)>,
}

impl Streams {
    fn create(raw_dir: &Path) -> Result<Streams, CaseError> {
        let stream = |probe: &str| raw_dir.join(probe).join(format!("{probe}.arrows"));
        let blocks = RawWriter::create(&stream(BlockRow::PROBE), &[])?;
        let merges = RawWriter::create(&stream(BlockMergeRow::PROBE), &[])?;
        let losses_path = raw_dir.join("losses.jsonl");
        let losses = File::options()
            .create(true)
            .append(true)
            .open(&losses_path)
            .map_err(|error| CaseError::io(&losses_path, "create", error))?;
        let (requests, bios, joined, rows, failed) = (0, 0, 0, Vec::new(), None);
        Ok(Streams {
            blocks,
            merges,
            losses,
            losses_path,
            rows,
            requests,
            bios,
            joined,
            failed,
        })
    }

    fn run(mut self, receiver: &Receiver<Message>, waiting_bytes: &AtomicUsize) -> Written {
        loop {
            match receiver.recv_timeout(FLUSH_AGE / 2) {
                Ok(Message::Records(records)) => {
                    self.write(&records);
                    waiting_bytes.fetch_sub(records.bytes(), Ordering::Relaxed);
                }
                Ok(Message::Loss(loss)) => self.write_loss(&loss),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.failed.is_none() {
                let result = self.flush();
                self.note(result);
            }
        }
        self.finish()
    }

    fn write(&mut self, records: &Drained) {
        self.rows.clear();
        for record in &records.requests {
            self.requests += 1;
            self.rows.push(record.row(self.requests));
        }
        self.bios += records.merges.len() as u64;
        self.joined += records.merges.len() as u64;
        self.joined += self.rows.iter().filter(|row| row.op_id != 0).count() as u64;
        if self.failed.is_none() {
            let result = self.append(records);
            self.note(result);
        }
    }

    fn append(&mut self, records: &Drained) -> Result<(), CaseError> {
        for record in &records.merges {
            self.merges.push(&record.row())?;
        }
        self.blocks.push_many(&self.rows)
    }

    /// Merges first: a request in the file then has its merged bios in the file, even after a kill.
    fn flush(&mut self) -> Result<(), CaseError> {
        self.merges.flush_if_older_than(FLUSH_AGE)?;
        self.blocks.flush_if_older_than(FLUSH_AGE)
    }

    fn note(&mut self, result: Result<(), CaseError>) {
        if let (Err(error), None) = (result, &self.failed) {
            self.failed = Some((error, sys::monotonic_ns()));
        }
    }

    fn write_loss(&mut self, loss: &LossRow) {
        let line = serde_json::to_string(loss).expect("a loss is plain numbers and text") + "\n";
        if let Err(error) = self.losses.write_all(line.as_bytes()) {
            let error = CaseError::io(&self.losses_path, "append to", error);
            self.note(Err(error));
        }
    }

    fn finish(mut self) -> Written {
        let result = self.merges.flush().and_then(|()| self.blocks.flush());
        self.note(result);
        let (rows, merge_rows) = (self.blocks.rows(), self.merges.rows());
        let rows_lost = self.requests + self.bios - rows - merge_rows;
        if let (Some((error, since_ns)), true) = (&self.failed, rows_lost > 0) {
            let reason = format!("write_failed: {error}");
            let end_ns = sys::monotonic_ns() as i64;
            self.write_loss(&LossRow {
                probe: BlockRow::PROBE.into(),
                start_ns: *since_ns as i64,
                end_ns,
                lost: Some(rows_lost),
                reason,
            });
        }
        if self.failed.is_none() {
            let result = self.merges.finish().and_then(|_| self.blocks.finish());
            self.failed = result.err().map(|error| (error, 0));
        }
        let error = self.failed.map(|(error, _)| error);
        Written {
            rows,
            merge_rows,
            joined: self.joined,
            rows_lost,
            error,
        }
    }
}
