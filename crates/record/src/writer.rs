//! The thread `whodisk-log`: turns drained records into rows and writes them.
//!
//! It is apart from the thread that empties the rings because writing may wait for the very disk that is being
//! observed. What waits for it is bounded; beyond the bound the drain thread drops and counts.
use crate::error::RecordError;
use crate::flight::SharedFlight;
use crate::probe::{Batch, Log, Probe, Target};
use crate::sys;
use crate::thread::Thread;
use case::schema::LossRow;
use case::CaseError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

/// Thread name; its requests are not recorded.
pub const THREAD: &str = "whodisk-log";

/// Rows reach the disk at most this long after they came (drain included, below a second).
const FLUSH_AGE: Duration = Duration::from_millis(600);

enum Message {
    Records(usize, Batch),
    Loss(LossRow),
    /// The window of a trigger ends now; what is in flight.
    Snapshot(Vec<(usize, Batch)>, u64),
}

/// What became of one probe's rows.
#[derive(Debug, Default)]
pub struct Written {
    /// Rows in the files, by stream.
    pub rows: BTreeMap<String, u64>,
    /// Rows that came but are not in the files.
    pub rows_lost: u64,
    /// Rows and events that were left out because they are not in the scope.
    pub out_of_scope: u64,
    /// What only the log knows.
    pub notes: Vec<(&'static str, u64)>,
}

/// All of it, by the order of the probes, and what ended the writing early.
type Outcome = (Vec<Written>, Option<CaseError>);

/// Hands records to the writer thread.
pub struct Writer {
    sender: Sender<Message>,
    thread: Thread<Outcome>,
    waiting_bytes: Arc<AtomicUsize>,
    waiting_bytes_max: usize,
}

impl Writer {
    /// Creates the streams of all probes below `raw_dir` and starts the thread.
    pub fn start(
        target: &Target,
        probes: &[(&'static str, Box<dyn Probe>)],
        waiting_bytes_max: usize,
    ) -> Result<Writer, RecordError> {
        let logs = Logs::create(target, probes)?;
        let (sender, receiver) = channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = waiting_bytes.clone();
        let thread = Thread::start(THREAD, move || logs.run(&receiver, &waiting))?;
        Ok(Writer {
            sender,
            thread,
            waiting_bytes,
            waiting_bytes_max,
        })
    }

    /// Queues records of the probe at `index`; gives them back if too much is waiting already.
    pub fn send(&self, index: usize, batch: Batch) -> Result<(), Batch> {
        let bytes = batch.bytes;
        if self.waiting_bytes.load(Ordering::Relaxed) + bytes > self.waiting_bytes_max {
            return Err(batch);
        }
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The thread ends only when this sender is gone.
        let _ = self.sender.send(Message::Records(index, batch));
        Ok(())
    }

    /// Queues the end of a trigger's window, with what is in flight.
    pub fn send_snapshot(&self, open: Vec<(usize, Batch)>, now_ns: u64) {
        let _ = self.sender.send(Message::Snapshot(open, now_ns));
    }

    /// Queues a line of `losses.jsonl`.
    pub fn send_loss(&self, loss: LossRow) {
        let _ = self.sender.send(Message::Loss(loss));
    }

    /// Waits until everything is written.
    pub fn finish(self) -> Result<Outcome, RecordError> {
        drop(self.sender);
        self.thread.join()
    }
}

/// The files and what went into them.
struct Logs {
    logs: Vec<Box<dyn Log>>,
    /// `None`: the flight recorder keeps them.
    losses: Option<File>,
    flight: Option<SharedFlight>,
    losses_path: PathBuf,
    losses_error: Option<CaseError>,
    /// When the first error came; from then on nothing is written.
    failed_at_ns: Option<u64>,
}

impl Logs {
    fn create(target: &Target, probes: &[(&'static str, Box<dyn Probe>)]) -> Result<Logs, CaseError> {
        let logs: Result<Vec<_>, _> = probes.iter().map(|(_, probe)| probe.open_log(target)).collect();
        let losses_path = target.raw_dir.join("losses.jsonl");
        let open = || {
            let file = File::options().create(true).append(true).open(&losses_path);
            file.map_err(|error| CaseError::io(&losses_path, "create", error))
        };
        let losses = target.flight.is_none().then(open).transpose()?;
        Ok(Logs {
            logs: logs?,
            losses,
            flight: target.flight.clone(),
            losses_path,
            losses_error: None,
            failed_at_ns: None,
        })
    }

    fn run(mut self, receiver: &Receiver<Message>, waiting_bytes: &AtomicUsize) -> Outcome {
        loop {
            match receiver.recv_timeout(FLUSH_AGE / 2) {
                Ok(Message::Records(index, batch)) => {
                    let bytes = batch.bytes;
                    self.logs[index].write(batch);
                    waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
                Ok(Message::Loss(loss)) => self.write_loss(&loss),
                Ok(Message::Snapshot(open, now_ns)) => self.snapshot(open, now_ns),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.flush();
        }
        self.finish()
    }

    /// Gives the window of a trigger away: all that has come, and what is in flight.
    fn snapshot(&mut self, open: Vec<(usize, Batch)>, now_ns: u64) {
        let Some(flight) = self.flight.clone() else { return };
        let lock = || flight.lock().expect("no thread panics with the lock");
        self.hand_over_all();
        lock().take_open();
        for (index, batch) in open {
            self.logs[index].write(batch);
        }
        self.hand_over_all();
        lock().hand_over(now_ns);
    }

    fn hand_over_all(&mut self) {
        for log in &mut self.logs {
            log.end();
            log.streams()
                .into_iter()
                .for_each(|stream| stream.flush(Duration::ZERO));
        }
    }

    /// Writes out what is old enough. The first error anywhere ends all writing: the case then is whole up to
    /// one moment.
    fn flush(&mut self) {
        if self.failed_at_ns.is_some() {
            return;
        }
        let mut failed = self.losses_error.is_some();
        for log in &mut self.logs {
            for stream in log.streams() {
                stream.flush(FLUSH_AGE);
                failed |= stream.has_failed();
            }
        }
        if failed {
            self.stop();
        }
    }

    fn stop(&mut self) {
        self.failed_at_ns = Some(sys::monotonic_ns());
        let streams = self.logs.iter_mut().flat_map(|log| log.streams());
        streams.for_each(|stream| stream.stop());
    }

    fn write_loss(&mut self, loss: &LossRow) {
        if let Some(flight) = &self.flight {
            flight
                .lock()
                .expect("no thread panics with the lock")
                .lose(loss.clone());
        }
        let Some(losses) = &mut self.losses else { return };
        let line = serde_json::to_string(loss).expect("a loss is plain numbers and text") + "\n";
        if let Err(error) = losses.write_all(line.as_bytes()) {
            self.losses_error = Some(CaseError::io(&self.losses_path, "append to", error));
        }
    }

    fn finish(mut self) -> Outcome {
        let (mut all, mut error) = (Vec::new(), None);
        let mut losses = Vec::new();
        self.logs.iter_mut().for_each(|log| log.end());
        for log in &mut self.logs {
            let mut written = Written {
                out_of_scope: log.out_of_scope(),
                ..Written::default()
            };
            for stream in log.streams() {
                written.out_of_scope += stream.out_of_scope();
                let (rows, lost, stream_error) = stream.finish();
                written.rows.insert(stream.name().to_string(), rows);
                written.rows_lost += lost;
                error = error.or(stream_error);
                if lost > 0 {
                    losses.push((stream.name(), lost));
                }
            }
            written.notes = log.notes();
            all.push(written);
        }
        let error = error.or(self.losses_error.take());
        self.declare_unwritten(&losses, error.as_ref());
        (all, error)
    }

    fn declare_unwritten(&mut self, losses: &[(&'static str, u64)], error: Option<&CaseError>) {
        let end_ns = sys::monotonic_ns();
        let cause = error.map_or(String::new(), |error| format!(": {error}"));
        for (stream, lost) in losses {
            self.write_loss(&LossRow {
                probe: stream.to_string(),
                start_ns: self.failed_at_ns.unwrap_or(end_ns) as i64,
                end_ns: end_ns as i64,
                lost: Some(*lost),
                reason: format!("write_failed{cause}"),
            });
        }
    }
}
