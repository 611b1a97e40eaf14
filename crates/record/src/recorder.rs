//! Attaching, starting and stopping.
use crate::drain::{drain_pause, Drain};
use crate::error::RecordError;
use crate::flight::{Flight, FlightConfig, FlightCounts, SharedFlight, Snapshot};
use crate::kernel;
use crate::load::Context;
use crate::memory::{self, Available};
use crate::owner::random;
use crate::probe::Target;
use crate::registry::{self, Attached};
use crate::sampling::{Budget, LeftOut, Level, Sampler, SharedSampler};
use crate::scope::{self, Filter, Processes, Scope};
use crate::summary::Summary;
use crate::thread::Thread;
use crate::writer::Writer;
use case::meta::Unseen;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex};

/// Thread name; its requests are not recorded.
pub const THREAD: &str = "whodisk-rec";

/// Names of all threads that a recording starts.
pub const THREADS: [&str; 3] = [THREAD, crate::writer::THREAD, crate::block::FOLLOWER];

/// Most bytes that may wait for being taken by the flight recorder.
const FLIGHT_WAITING_BYTES_MAX: usize = 64 << 20;

/// What to record and how much memory to take.
#[derive(Clone, Debug)]
pub struct Config {
    /// Probes by name; `None` = all that this host allows.
    pub probes: Option<Vec<String>>,
    /// Rings between kernel and recorder for block requests, all CPUs together, 64 KiB..1 GiB. A CPU's ring holds at
    /// least 1024 requests, however little this is. 64 MiB are 131,072 requests for each of two CPUs.
    pub ring_bytes: u32,
    /// How often these and the rings of the other probes are halved: see [`Config::fit`].
    pub ring_halvings: u32,
    /// Most bytes that may wait for being written; beyond, records are dropped and counted.
    pub waiting_bytes_max: usize,
    /// The observed command, which is about to begin; it and its descendants are always within the scope.
    pub command_pid: Option<u32>,
    /// What to record. A command alone limits system calls and what belongs to them, not block requests.
    pub scope: Scope,
    /// Process with operation ids in `user_data` of its io_uring requests (our own engine).
    pub join_tgid: Option<u32>,
    /// Take a request's start from block_getrq even where block_io_start exists: what kernels before 6.5 need.
    pub start_at_getrq: bool,
    /// Begin with a full table of requests, so that every request takes the way of those that find no place in it.
    pub table_taken: bool,
    /// CPU time that the recorder may take, of one CPU; above, typical operations are sampled. `None`: every one is kept. Neither
    /// with a scope beyond the command nor with a flight recorder.
    pub cpu_budget: Option<f64>,
    /// Take journals from the kernel's event tracing even where programs can see them: what file systems that are modules need.
    pub journals_by_tracing: bool,
    /// Look who is behind the block requests of any program: operation, file and control group.
    pub owners: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            probes: None,
            ring_bytes: 64 << 20,
            ring_halvings: 0,
            waiting_bytes_max: 256 << 20,
            command_pid: None,
            scope: Scope::default(),
            join_tgid: None,
            start_at_getrq: false,
            table_taken: false,
            cpu_budget: None,
            journals_by_tracing: false,
            owners: true,
        }
    }
}

/// A ring is never made smaller than this.
const RING_BYTES_MIN: u32 = 64 << 10;

impl Config {
    /// Takes less memory where little of it is there.
    pub fn fit(self, available: Option<&Available>) -> Config {
        let Some(available) = available else { return self };
        Config {
            ring_halvings: memory::halvings(available.bytes),
            waiting_bytes_max: self.waiting_bytes_max.min((available.bytes / 4) as usize),
            ..self
        }
    }

    /// A ring of this full size, as this recording makes it.
    pub fn ring(&self, full_bytes: u32) -> u32 {
        (full_bytes >> self.ring_halvings).max(RING_BYTES_MIN.min(full_bytes))
    }

    /// Only these probes.
    pub fn only(probes: &[&str]) -> Config {
        let probes = probes.iter().map(|name| name.to_string()).collect();
        Config {
            probes: Some(probes),
            ..Config::default()
        }
    }

    /// Whether a probe was asked for.
    pub fn wants(&self, probe: &str) -> bool {
        let listed = |names: &Vec<String>| names.iter().any(|name| name == probe);
        self.probes.as_ref().is_none_or(listed)
    }
}

/// Attached, not yet recording.
pub struct Recorder {
    attached: Attached,
    config: Config,
    filter: Option<Filter>,
    processes: Option<Processes>,
}

/// Recording until [`Running::stop`]. Dropped without it, the recording ends and its last rows are written.
pub struct Running {
    stop: Arc<AtomicBool>,
    names: Vec<&'static str>,
    received: Arc<[AtomicU64]>,
    unseen: Vec<Unseen>,
    flight: Option<SharedFlight>,
    sampler: Option<SharedSampler>,
    levels: Arc<Mutex<Vec<Level>>>,
    thread: Option<Thread<Result<Summary, RecordError>>>,
}

impl Recorder {
    /// Loads the programs and attaches them (about 0.2 s). Nothing is recorded yet.
    pub fn attach(config: Config) -> Result<Recorder, RecordError> {
        if let Some(because) = kernel::unsupported(&kernel::release()) {
            return Err(RecordError::Unsupported(because));
        }
        let (filter, mut processes) = scope::resolve(&config)?;
        let mut attached = registry::attach(&Context::new(&config))?;
        // The kernel's type information is read no more, and the C library would keep its pages.
        // SAFETY: no arguments that could be wrong.
        unsafe { libc::malloc_trim(0) };
        if let Some(processes) = &mut processes {
            // Now, so that what is in flight when the recording begins is known.
            let probes = &mut attached.probes;
            processes.find(|changes| {
                let mut each = probes.iter_mut();
                each.try_for_each(|(_, probe)| probe.follow(changes))
            })?;
        }
        Ok(Recorder {
            attached,
            config,
            filter,
            processes,
        })
    }

    /// Facts that will be missing, known from attaching.
    pub fn unseen(&self) -> &[Unseen] {
        &self.attached.unseen
    }

    /// Creates the streams below `raw_dir` and begins to record.
    pub fn start(self, raw_dir: &Path) -> Result<Running, RecordError> {
        self.start_to(raw_dir, None)
    }

    /// Begins to record into memory; what triggers comes out of the channel. A snapshot must be dropped before the
    /// next one comes. Errors: settings that cannot work.
    pub fn start_flight(self, config: FlightConfig) -> Result<(Running, Receiver<Snapshot>), RecordError> {
        let (sender, snapshots) = channel();
        let mut flight = Flight::new(config, sender)?;
        let probes = self.attached.probes.iter();
        flight.attached = probes
            .map(|(name, probe)| (name.to_string(), probe.attached().to_vec()))
            .collect();
        let running = self.start_to(Path::new(""), Some(Arc::new(Mutex::new(flight))))?;
        Ok((running, snapshots))
    }

    fn start_to(self, raw_dir: &Path, flight: Option<SharedFlight>) -> Result<Running, RecordError> {
        let Attached { probes, unseen } = self.attached;
        let names: Vec<&str> = probes.iter().map(|(name, _)| *name).collect();
        let new_sampler = |_| Arc::new(Mutex::new(Sampler::new(random())));
        let sampler = self.config.cpu_budget.map(new_sampler);
        let target = Target {
            sampler: sampler.clone(),
            raw_dir: raw_dir.to_owned(),
            filter: self.filter.map(Mutex::new).map(Arc::new),
            flight: flight.clone(),
        };
        // What the flight recorder takes is to be known.
        let waiting_bytes_max = match flight {
            Some(_) => self.config.waiting_bytes_max.min(FLIGHT_WAITING_BYTES_MAX),
            None => self.config.waiting_bytes_max,
        };
        let writer = Writer::start(&target, &probes, waiting_bytes_max)?;
        let stop = Arc::new(AtomicBool::new(false));
        let received: Arc<[AtomicU64]> = probes.iter().map(|_| AtomicU64::new(0)).collect();
        let mut drain = Drain::new(
            probes,
            drain_pause(&self.config),
            writer,
            received.clone(),
            self.processes,
            target.filter,
            flight.clone(),
        );
        let levels: Arc<Mutex<Vec<Level>>> = Arc::default();
        if let (Some(share), Some(sampler)) = (self.config.cpu_budget, sampler.clone()) {
            drain.hold_budget(Budget::new(share, sampler, levels.clone()));
        }
        drain.begin()?;
        let stop_seen = stop.clone();
        let thread = Thread::start(THREAD, move || drain.run(&stop_seen))?;
        Ok(Running {
            stop,
            names,
            received,
            unseen,
            flight,
            sampler,
            levels,
            thread: Some(thread),
        })
    }
}

impl Running {
    /// Events received so far by a probe.
    pub fn received(&self, probe: &str) -> u64 {
        let place = self.names.iter().position(|name| *name == probe);
        place.map_or(0, |place| self.received[place].load(Ordering::Relaxed))
    }

    /// Numbers of the flight recorder; zeros where there is none.
    pub fn flight_counts(&self) -> FlightCounts {
        let lock = |flight: &SharedFlight| flight.lock().expect("no thread panics with the lock").counts();
        self.flight.as_ref().map(lock).unwrap_or_default()
    }

    /// Changes of what is kept since the last call; none without a budget.
    pub fn take_levels(&self) -> Vec<Level> {
        std::mem::take(&mut *self.levels.lock().expect("no thread panics with the lock"))
    }

    /// Ends the recording, writes what is left and gives the account. A disk error on the way is in
    /// [`Summary::write_error`]; what was written before it is safe.
    pub fn stop(mut self) -> Result<Summary, RecordError> {
        let ended = self.end().expect("the thread is joined only here and on drop");
        let unseen = std::mem::take(&mut self.unseen);
        let (left_out, calls_left_out) = self.left_out();
        ended.map(|summary| Summary {
            unseen,
            left_out,
            calls_left_out,
            ..summary
        })
    }

    fn left_out(&self) -> (BTreeMap<u32, LeftOut>, u64) {
        self.sampler.as_ref().map_or_else(Default::default, |sampler| {
            let sampler = sampler.lock().expect("no thread panics with the lock");
            (sampler.left_out().clone(), sampler.calls_left_out())
        })
    }

    fn end(&mut self) -> Option<Result<Summary, RecordError>> {
        self.stop.store(true, Ordering::Release);
        Some(self.thread.take()?.join().and_then(|result| result))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
