//! Attaching, the thread `whodisk-rec` that empties the ring, and the account at the end.
use crate::block::{BlockProbe, Counters, Drained};
use crate::error::RecordError;
use crate::sys;
use crate::writer::{Writer, Written};
use case::meta::{ProbeMeta, Unseen};
use case::schema::LossRow;
use case::CaseError;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Thread name; its requests are not recorded.
const THREAD: &str = "whodisk-rec";

/// Pause between two looks at the ring. No program ever wakes this thread (that costs more than all the
/// rest); the ring must hold what comes meanwhile.
const DRAIN_PAUSE: Duration = Duration::from_millis(5);

/// Records are handed to the writer at least this often, and as soon as there are this many.
const HANDOVER_PAUSE: Duration = Duration::from_millis(250);
const HANDOVER_REQUESTS: usize = 4096;

/// How often counters are read: the width of the window that a loss is given.
const COUNT_PAUSE: Duration = Duration::from_secs(1);

/// Probe name in losses.
const PROBE: &str = "block";

/// What to record and how much memory to take.
#[derive(Clone, Debug)]
pub struct Config {
    /// Rings between kernel and recorder, all CPUs together, 64 KiB..1 GiB. A CPU's ring holds at least 1024
    /// requests, however little this is. 64 MiB are 131,072 requests for each of two CPUs.
    pub ring_bytes: u32,
    /// Most bytes that may wait for being written; beyond, records are dropped and counted.
    pub waiting_bytes_max: usize,
    /// Process whose io_uring requests carry operation ids in `user_data` (our own engine).
    pub join_tgid: Option<u32>,
    /// Take a request's start from block_getrq even where block_io_start exists: what kernels before 6.5 need.
    pub start_at_getrq: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            ring_bytes: 64 << 20,
            waiting_bytes_max: 256 << 20,
            join_tgid: None,
            start_at_getrq: false,
        }
    }
}

/// Attached, not yet recording.
pub struct Recorder {
    probe: BlockProbe,
    config: Config,
}

/// Recording until [`Running::stop`]. Dropped without it, the recording ends and its last rows are written.
pub struct Running {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<Summary, RecordError>>>,
}

/// The account of a recording.
#[derive(Debug, Default)]
pub struct Summary {
    /// `CLOCK_MONOTONIC` at which recording began.
    pub begin_ns: u64,
    /// And ended.
    pub end_ns: u64,
    /// Tracepoints attached to.
    pub attached: Vec<String>,
    /// Requests received, those still open at the end included.
    pub received: u64,
    /// Of those, still open at the end.
    pub open: u64,
    /// Records lost for whatever reason; `losses.jsonl` has the windows.
    pub lost: u64,
    /// Completions of requests that were already in flight when the recording began (not lost: never begun).
    pub in_flight_at_begin: u64,
    /// The recorder's own requests, left out.
    pub own_excluded: u64,
    /// Bytes of those.
    pub own_excluded_bytes: u64,
    /// Refused nested runs, over all programs.
    pub recursion_misses: u64,
    /// Requests and merged bios tied to an operation of ours.
    pub joined: u64,
    /// Requests that vanished into a neighbour before they were issued; their bios count as its merges.
    pub requests_merged: u64,
    /// Completions of a part of a request.
    pub partial_completions: u64,
    /// Requests that found their slot taken and lived in the overflow map.
    pub slot_overflows: u64,
    /// Requests whose time of queueing was not found.
    pub queue_unseen: u64,
    /// Rows written to `raw/block` and `raw/block_merge`.
    pub rows: u64,
    /// See `rows`.
    pub merge_rows: u64,
    /// Facts that this host did not let us see.
    pub unseen: Vec<Unseen>,
    /// What ended the writing early (a full disk); `lost` has the rows that came after.
    pub write_error: Option<CaseError>,
    /// Runs and time in ns by program; zero unless kernel.bpf_stats_enabled is 1.
    pub program_runs: BTreeMap<String, (u64, u64)>,
}

impl Summary {
    /// The part that goes into `case.json`.
    pub fn probe_meta(&self) -> ProbeMeta {
        ProbeMeta {
            attached: self.attached.clone(),
            received: self.received,
            lost: self.lost,
            recursion_misses: self.recursion_misses,
            own_excluded: self.own_excluded,
            own_excluded_bytes: self.own_excluded_bytes,
        }
    }
}

impl Recorder {
    /// Loads the programs and attaches them (about 0.2 s). Nothing is recorded yet.
    pub fn attach(config: Config) -> Result<Recorder, RecordError> {
        let ring = config.ring_bytes;
        if !(64 << 10..=1 << 30).contains(&ring) {
            let expected = "65536 to 1073741824".into();
            let found = ring.to_string();
            return Err(RecordError::Setting {
                name: "ring_bytes",
                expected,
                found,
            });
        }
        let probe = BlockProbe::attach(ring, config.join_tgid, config.start_at_getrq)?;
        Ok(Recorder { probe, config })
    }

    /// Facts that this host does not let us see, known from attaching.
    pub fn unseen(&self) -> &[Unseen] {
        &self.probe.unseen
    }

    /// Creates the streams below `raw_dir` and begins to record.
    pub fn start(self, raw_dir: &Path) -> Result<Running, RecordError> {
        let writer = Writer::start(raw_dir, self.config.waiting_bytes_max)?;
        let stop = Arc::new(AtomicBool::new(false));
        let received = Arc::new(AtomicU64::new(0));
        let mut drain = Drain::new(self.probe, writer, received.clone());
        drain.begin()?;
        let stop_seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || drain.run(&stop_seen))
            .map_err(|error| RecordError::Thread {
                thread: THREAD,
                cause: error.to_string(),
            })?;
        Ok(Running {
            stop,
            received,
            thread: Some(thread),
        })
    }
}

impl Running {
    /// Requests received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends the recording, writes what is left and gives the account. A disk error on the way is in
    /// [`Summary::write_error`]; what was written before it is safe.
    pub fn stop(mut self) -> Result<Summary, RecordError> {
        self.end().expect("the thread is joined only here and on drop")
    }

    fn end(&mut self) -> Option<Result<Summary, RecordError>> {
        self.stop.store(true, Ordering::Release);
        let panicked = |_| RecordError::Thread {
            thread: THREAD,
            cause: "it panicked".into(),
        };
        let joined = self.thread.take()?.join().map_err(panicked);
        Some(joined.and_then(|result| result))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// State of the drain thread.
struct Drain {
    probe: BlockProbe,
    writer: Writer,
    received: Arc<AtomicU64>,
    pending: Drained,
    handed_over: Instant,
    counted: Counted,
    summary: Summary,
}

/// Counters as of the last look.
#[derive(Default)]
struct Counted {
    at: Option<Instant>,
    at_ns: u64,
    counters: Counters,
    recursion: BTreeMap<String, u64>,
}

impl Drain {
    fn new(probe: BlockProbe, writer: Writer, received: Arc<AtomicU64>) -> Drain {
        let summary = Summary {
            attached: probe.attached.clone(),
            unseen: probe.unseen.clone(),
            ..Summary::default()
        };
        let (pending, handed_over) = (empty(), Instant::now());
        let counted = Counted::default();
        Drain {
            probe,
            writer,
            received,
            pending,
            handed_over,
            counted,
            summary,
        }
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        self.summary.begin_ns = sys::monotonic_ns();
        self.probe.set_recording(true)?;
        self.counted.at = Some(Instant::now());
        self.counted.at_ns = self.summary.begin_ns;
        Ok(())
    }

    fn run(mut self, stop: &AtomicBool) -> Result<Summary, RecordError> {
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(DRAIN_PAUSE);
            self.drain();
            if self.counted.at.is_none_or(|at| at.elapsed() >= COUNT_PAUSE) {
                self.probe.release_stale()?;
                self.count()?;
            }
        }
        self.end()
    }

    fn drain(&mut self) {
        let requests = self.probe.drain(&mut self.pending);
        if requests > 0 {
            self.received.fetch_add(requests, Ordering::Relaxed);
        }
        let full = self.pending.requests.len() >= HANDOVER_REQUESTS;
        if full || self.handed_over.elapsed() >= HANDOVER_PAUSE {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.handed_over = Instant::now();
        if self.pending.is_empty() {
            return;
        }
        let full = std::mem::replace(&mut self.pending, empty());
        if let Err(refused) = self.writer.send(full) {
            let lost = (refused.requests.len() + refused.merges.len()) as u64;
            let now_ns = sys::monotonic_ns();
            let start_ns = now_ns - HANDOVER_PAUSE.as_nanos() as u64;
            self.lose("writer_behind", PROBE, start_ns, now_ns, lost);
        }
    }

    fn lose(&mut self, reason: &str, probe: &str, start_ns: u64, end_ns: u64, lost: u64) {
        if lost == 0 {
            return;
        }
        self.summary.lost += lost;
        self.writer.send_loss(LossRow {
            probe: probe.into(),
            start_ns: start_ns as i64,
            end_ns: end_ns as i64,
            lost: Some(lost),
            reason: reason.into(),
        });
    }

    /// Reads all counters and turns what grew into losses of the time since the last look.
    fn count(&mut self) -> Result<(), RecordError> {
        let counters = self.probe.counters()?;
        let programs = self.probe.program_counts();
        let now_ns = sys::monotonic_ns();
        let (before, since_ns) = (self.counted.counters, self.counted.at_ns);
        let first = since_ns == self.summary.begin_ns;
        if first {
            self.summary.in_flight_at_begin = counters.no_state;
        } else {
            let lost = counters.no_state - before.no_state;
            self.lose("no_state", PROBE, since_ns, now_ns, lost);
        }
        for (reason, now, then) in [
            ("ring_full", counters.ring_full, before.ring_full),
            ("ring_full", counters.merge_ring_full, before.merge_ring_full),
            ("map_full", counters.map_full, before.map_full),
            ("no_complete", counters.no_complete, before.no_complete),
            ("merge_walk_cut", counters.walk_cut, before.walk_cut),
        ] {
            self.lose(reason, PROBE, since_ns, now_ns, now - then);
        }
        for (name, program) in programs {
            let then = self.counted.recursion.get(&name).copied().unwrap_or(0);
            let probe = format!("{PROBE}/{name}");
            self.lose(
                "recursion",
                &probe,
                since_ns,
                now_ns,
                program.recursion_misses - then,
            );
            self.counted
                .recursion
                .insert(name.clone(), program.recursion_misses);
            self.summary
                .program_runs
                .insert(name, (program.runs, program.run_time_ns));
        }
        self.counted.at = Some(Instant::now());
        self.counted.at_ns = now_ns;
        self.counted.counters = counters;
        Ok(())
    }

    /// Stops all programs at one moment, then drains: nothing can come after the last look.
    fn end(mut self) -> Result<Summary, RecordError> {
        self.probe.release_stale()?;
        self.probe.set_recording(false)?;
        self.summary.end_ns = sys::monotonic_ns();
        self.probe.detach();
        // A program that was running on another CPU when it was detached ends within microseconds.
        std::thread::sleep(DRAIN_PAUSE);
        self.drain();
        self.count()?;
        let open = self.probe.open_requests(self.summary.end_ns)?;
        self.summary.open = open.iter().filter(|request| request.complete_ns == 0).count() as u64;
        self.received.fetch_add(open.len() as u64, Ordering::Relaxed);
        self.pending.requests.extend(open);
        self.hand_over();
        let written = self.writer.finish()?;
        let received = self.received.load(Ordering::Relaxed);
        Ok(summarize(self.summary, &self.counted, received, written))
    }
}

/// Room for what usually comes until the next hand-over: growing would copy it again and again.
fn empty() -> Drained {
    Drained {
        requests: Vec::with_capacity(2 * HANDOVER_REQUESTS),
        merges: Vec::new(),
    }
}

fn summarize(summary: Summary, counted: &Counted, received: u64, written: Written) -> Summary {
    let counters = &counted.counters;
    Summary {
        received,
        lost: summary.lost + written.rows_lost,
        own_excluded: counters.own_requests,
        own_excluded_bytes: counters.own_bytes,
        recursion_misses: counted.recursion.values().sum(),
        joined: written.joined,
        requests_merged: counters.requests_merged,
        partial_completions: counters.partial,
        slot_overflows: counters.overflow,
        queue_unseen: counters.queue_unseen,
        rows: written.rows,
        merge_rows: written.merge_rows,
        write_error: written.error,
        ..summary
    }
}
