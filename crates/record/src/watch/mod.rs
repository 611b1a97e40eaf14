//! A live view: the probes of a recording. Their rows are folded into numbers at once and never stored.
//!
//! The thread `whodisk-rec` empties the rings as in a recording. An operation belongs to the interval in which it ended, by
//! its own time stamp, not to the one in which it was found.
mod fold;
mod frame;
pub(crate) mod histogram;
mod names;

use crate::drain::drain_pause;
use crate::error::RecordError;
use crate::load::Context;
use crate::memory;
use crate::probe::Probe;
use crate::recorder::{Config, THREAD};
use crate::registry::{self, Attached};
use crate::thread::Thread;
use crate::{block, sys, syscall};
use case::meta::Unseen;
use case::rows::{BlockRow, SyscallRow};
use fold::Fold;
pub use fold::{Counters, Stages, Totals, BOUNDS_NS};
pub use frame::{DeviceFrame, Frame, Latency, OpFrame, Shares, WorstOp};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The probes of a live view.
const PROBES: [&str; 2] = ["block", "syscall"];

/// Frames that may wait for whoever shows them; beyond, they are left out.
const FRAMES_MAX: usize = 4;

/// Probes are looked after, and their losses counted, this often.
const COUNT_PAUSE: Duration = Duration::from_secs(1);

/// Counters since the begin, shared with whoever serves them.
pub type SharedTotals = Arc<Mutex<Totals>>;

/// A live view at work. Dropped, it ends.
pub struct Watch {
    frames: Receiver<Frame>,
    totals: SharedTotals,
    unseen: Vec<Unseen>,
    stop: Arc<AtomicBool>,
    thread: Option<Thread<Result<(), RecordError>>>,
}

impl Watch {
    /// Attaches the probes and begins. `only`: the kernel name of the one disk of interest.
    pub fn begin(interval: Duration, only: Option<String>) -> Result<Watch, RecordError> {
        let config = Config {
            owners: false,
            ..Config::only(&PROBES)
        }
        .fit(memory::available().as_ref());
        let Attached { probes, unseen } = registry::attach(&Context::new(&config))?;
        let (sender, frames) = sync_channel(FRAMES_MAX);
        let (totals, stop) = (SharedTotals::default(), Arc::new(AtomicBool::new(false)));
        let mut loop_ = Loop::new(
            probes,
            drain_pause(&config),
            interval,
            only,
            sender,
            totals.clone(),
        );
        loop_.set_recording(true)?;
        let stop_seen = stop.clone();
        let thread = Thread::start(THREAD, move || loop_.run(&stop_seen))?;
        Ok(Watch {
            frames,
            totals,
            unseen,
            stop,
            thread: Some(thread),
        })
    }

    /// Facts that are missing on this host.
    pub fn unseen(&self) -> &[Unseen] {
        &self.unseen
    }

    /// Counters since the begin; they follow the operations within milliseconds.
    pub fn totals(&self) -> SharedTotals {
        self.totals.clone()
    }

    /// The next frame, if it comes in time. Error: the view has ended by itself; [`Watch::end`] says why.
    pub fn next_frame(&self, timeout: Duration) -> Result<Option<Frame>, RecvTimeoutError> {
        match self.frames.recv_timeout(timeout) {
            Ok(frame) => Ok(Some(frame)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Detaches everything.
    pub fn end(mut self) -> Result<(), RecordError> {
        self.join().unwrap_or(Ok(()))
    }

    fn join(&mut self) -> Option<Result<(), RecordError>> {
        self.stop.store(true, Ordering::Release);
        Some(self.thread.take()?.join().and_then(|result| result))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

/// State of the thread.
struct Loop {
    probes: Vec<(&'static str, Box<dyn Probe>)>,
    pause: Duration,
    interval_ns: u64,
    fold: Fold,
    /// Operations that ended after the interval which is about to be shown.
    early: (Vec<BlockRow>, Vec<SyscallRow>),
    sender: SyncSender<Frame>,
    totals: SharedTotals,
    counted_at: Instant,
    lost: BTreeMap<&'static str, u64>,
    lost_shown: u64,
}

impl Loop {
    fn new(
        probes: Vec<(&'static str, Box<dyn Probe>)>,
        pause: Duration,
        interval: Duration,
        only: Option<String>,
        sender: SyncSender<Frame>,
        totals: SharedTotals,
    ) -> Loop {
        Loop {
            probes,
            pause,
            interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX),
            fold: Fold::new(sys::monotonic_ns(), only),
            early: Default::default(),
            sender,
            totals,
            counted_at: Instant::now(),
            lost: BTreeMap::new(),
            lost_shown: 0,
        }
    }

    fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        let mut probes = self.probes.iter_mut();
        probes.try_for_each(|(_, probe)| probe.set_recording(on))
    }

    fn run(mut self, stop: &AtomicBool) -> Result<(), RecordError> {
        sys::run_first();
        let mut due_ns = self.fold.begin_ns().saturating_add(self.interval_ns);
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(self.pause);
            let now_ns = sys::monotonic_ns();
            self.drain(now_ns.min(due_ns));
            if self.counted_at.elapsed() >= COUNT_PAUSE || now_ns >= due_ns {
                self.count()?;
            }
            self.publish();
            if now_ns >= due_ns {
                self.show(due_ns);
                // After a pause (a suspended machine) what was missed is one long interval, not many empty ones.
                due_ns = due_ns.saturating_add(self.interval_ns).max(now_ns);
            }
        }
        self.set_recording(false)?;
        self.probes.iter_mut().for_each(|(_, probe)| probe.detach());
        Ok(())
    }

    /// Folds what ended before `until_ns`; the rest waits for the next time.
    fn drain(&mut self, until_ns: u64) {
        let (mut requests, mut calls) = std::mem::take(&mut self.early);
        for (name, probe) in &mut self.probes {
            probe.drain();
            match probe.take() {
                Some(batch) if *name == "block" => requests.extend(block::rows(batch)),
                Some(batch) => calls.extend(syscall::rows(batch)),
                None => {}
            }
        }
        for row in requests {
            if row.complete_ns < until_ns {
                self.fold.request(&row);
            } else {
                self.early.0.push(row);
            }
        }
        for row in calls {
            if row.end_ns < until_ns {
                self.fold.call(&row);
            } else {
                self.early.1.push(row);
            }
        }
    }

    fn publish(&mut self) {
        let mut shared = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        if *shared != self.fold.totals {
            shared.clone_from(&self.fold.totals);
        }
    }

    fn count(&mut self) -> Result<(), RecordError> {
        self.counted_at = Instant::now();
        for (name, probe) in &mut self.probes {
            probe.look_after()?;
            let lost: u64 = probe.counts()?.lost.iter().map(|(_, lost)| lost).sum();
            let programs = probe.program_counts();
            let missed: u64 = programs.values().map(|program| program.recursion_misses).sum();
            self.lost.insert(name, lost + missed);
        }
        self.fold.totals.lost.clone_from(&self.lost);
        Ok(())
    }

    fn show(&mut self, end_ns: u64) {
        let lost: u64 = self.lost.values().sum();
        let lost_now = lost.saturating_sub(std::mem::replace(&mut self.lost_shown, lost));
        // Whoever shows frames may be held up; the next ones then show what is new.
        let _ = self.sender.try_send(self.fold.frame(end_ns, lost_now));
    }
}
