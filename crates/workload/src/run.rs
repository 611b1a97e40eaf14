//! Runs a specification: targets, workers, log, summary.
use crate::backend::{new_ring, Backend, Null, Uring, UringFeatures};
use crate::buffers::Buffers;
use crate::clock::{mono_ns, sleep_until};
use crate::engine::{Context, Plan, Times, Totals, Worker};
use crate::log::{Channel, Counter, Log, Producer, Shared};
use crate::mix::Mix;
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::spec::Spec;
use crate::summary::{Phase, Summary, TargetSummary, WorkerSummary};
use crate::target::{self, Target};
use crate::trace::{self, Step};
use crate::WorkloadError;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Between the moment all workers are ready and the first operation.
const LEAD_NS: u64 = 2_000_000;

/// Distance of progress reports.
const PROGRESS: Duration = Duration::from_millis(200);

/// How a run can be watched and ended.
#[derive(Clone, Copy)]
pub struct RunOptions<'o> {
    /// Once true, no operation starts any more; those in flight are drained and logged.
    pub stop: &'o AtomicBool,
    /// Called on the calling thread about five times a second.
    pub progress: Option<&'o dyn Fn(&Progress)>,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// `layout`, `ramp` or `measure`.
    pub phase: &'static str,
    /// Of this phase, 0 to 1.
    pub fraction: f64,
    /// Operations logged so far.
    pub ops: u64,
    /// Of these, failed or short.
    pub errors: u64,
}

/// Runs `spec` to its end and logs every operation under `raw_dir/app/`.
///
/// Writes `worker-NNN.arrows` and `workload.json` there (the streams must not exist yet), and
/// `raw_dir/events.jsonl` for short transfers. A run that is killed leaves all but about the last
/// second of each stream, and no `workload.json`.
///
/// # Errors
/// A target or the log that cannot be used, or no io_uring. Failed operations are rows.
pub fn run(spec: &Spec, raw_dir: &Path, options: RunOptions) -> Result<Summary, WorkloadError> {
    check_memory(spec)?;
    let app_dir = raw_dir.join("app");
    std::fs::create_dir_all(&app_dir).map_err(|source| WorkloadError::Io {
        path: app_dir.clone(),
        action: "create the folder".into(),
        source,
        hint: "choose a folder that can be written".into(),
    })?;
    let targets = target::open_all(spec, &mut |done, all| {
        report(&options, "layout", done as f64 / all as f64, 0, 0);
        !options.stop.load(Ordering::Relaxed)
    })?;
    let steps = trace::read(spec, targets.first().map_or(0, |target| target.size_bytes))?;
    let outcome = Run::new(spec, &targets, steps, options.stop).go(raw_dir, &options);
    target::mark_all(&targets);
    let summary = summarize(spec, &targets, outcome?);
    summary.write(&app_dir.join("workload.json"))?;
    Ok(summary)
}

fn report(options: &RunOptions, phase: &'static str, fraction: f64, ops: u64, errors: u64) {
    if let Some(progress) = options.progress {
        progress(&Progress {
            phase,
            fraction: fraction.clamp(0.0, 1.0),
            ops,
            errors,
        });
    }
}

/// Buffers take memory at once; half of what is available is the most a test load should take.
fn check_memory(spec: &Spec) -> Result<(), WorkloadError> {
    let directions = u64::from(spec.read_ppm > 0) + u64::from(spec.writes());
    let needed = u64::from(spec.workers)
        * u64::from(spec.queue_depth)
        * u64::from(spec.block_size_max()).next_multiple_of(4096)
        * directions;
    let Some(available) = available_memory_bytes() else {
        return Ok(());
    };
    if needed <= available / 2 {
        return Ok(());
    }
    Err(WorkloadError::Spec {
        file: "memory".into(),
        at: "workers x queue_depth x largest block size".into(),
        expected: format!("at most {available} / 2 bytes of buffers"),
        found: format!("{needed} bytes"),
        hint: "lower one of them".into(),
    })
}

fn available_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// What the workers brought home.
struct Outcome {
    totals: Vec<Totals>,
    tids: Vec<i32>,
    rows: Vec<u64>,
    features: Option<UringFeatures>,
    start_ns: u64,
    times: Times,
    ended_ns: u64,
    stopped: bool,
    events_dropped: u64,
}

/// What a worker tells once it is ready.
struct Ready {
    worker: u32,
    tid: i32,
    features: Option<UringFeatures>,
}

/// What every worker thread sees of the run.
struct Run<'r> {
    spec: &'r Spec,
    stop: &'r AtomicBool,
    names: Vec<String>,
    sizes_bytes: Vec<u64>,
    /// What is replayed.
    steps: Option<Arc<[Step]>>,
    files: Vec<RawFd>,
    shared: Arc<Shared>,
    errors: AtomicU64,
}

type ReadyOut = mpsc::Sender<Result<Ready, WorkloadError>>;
type ReadyIn = mpsc::Receiver<Result<Ready, WorkloadError>>;

/// One spawned worker.
struct Spawned<'s> {
    thread: ScopedJoinHandle<'s, Totals>,
    start: mpsc::Sender<(u64, Times)>,
    channel: Channel,
}

impl<'r> Run<'r> {
    fn new(spec: &'r Spec, targets: &[Target], steps: Option<Arc<[Step]>>, stop: &'r AtomicBool) -> Self {
        Run {
            spec,
            steps,
            stop,
            names: targets.iter().map(|target| target.name.clone()).collect(),
            sizes_bytes: targets.iter().map(|target| target.size_bytes).collect(),
            files: targets
                .iter()
                .filter_map(|target| Some(target.file.as_ref()?.as_raw_fd()))
                .collect(),
            shared: Arc::default(),
            errors: AtomicU64::new(0),
        }
    }

    /// Starts the workers, waits until all are ready, lets them go together, and ends the log.
    ///
    /// An error return drops the start channels of the workers that wait for theirs, which ends them.
    fn go(&self, raw_dir: &Path, options: &RunOptions) -> Result<Outcome, WorkloadError> {
        std::thread::scope(|scope| {
            let (ready_out, ready) = mpsc::channel();
            let spawned: Result<Vec<Spawned>, WorkloadError> = (0..self.spec.workers)
                .map(|worker| self.spawn(scope, worker, ready_out.clone()))
                .collect();
            let spawned = spawned?;
            drop(ready_out);
            let (tids, features) = self.wait_ready(&ready)?;
            let counters: Vec<Counter> = spawned.iter().map(|worker| worker.channel.counter()).collect();
            let metadata = tids
                .iter()
                .zip(0..)
                .map(|(tid, worker)| self.metadata(worker, *tid));
            let (mut threads, mut starts, mut channels) = (Vec::new(), Vec::new(), Vec::new());
            for (
                Spawned {
                    thread,
                    start,
                    channel,
                },
                metadata,
            ) in spawned.into_iter().zip(metadata)
            {
                threads.push(thread);
                starts.push(start);
                channels.push((channel, metadata));
            }
            let log = Log::start(raw_dir, &self.shared, channels)?;
            let start_ns = mono_ns() + LEAD_NS;
            let times = self.times(start_ns);
            for start in starts {
                // A worker that is gone has said why; it is found below.
                let _ = start.send((start_ns, times));
            }
            self.watch(&threads, &counters, start_ns, times, options);
            let (ended_ns, stopped) = (mono_ns(), self.stop.load(Ordering::Relaxed));
            let totals = threads.into_iter().map(join).collect();
            let rows = log.finish()?;
            if let Some(Err(error)) = ready.try_iter().next() {
                return Err(error);
            }
            let events_dropped = self.shared.events_dropped();
            Ok(Outcome {
                totals,
                tids,
                rows,
                features,
                start_ns,
                times,
                ended_ns,
                stopped,
                events_dropped,
            })
        })
    }

    fn spawn<'s, 'e>(
        &'e self,
        scope: &'s Scope<'s, 'e>,
        worker: u32,
        ready: ReadyOut,
    ) -> Result<Spawned<'s>, WorkloadError> {
        let channel = Channel::new();
        let producer = channel.producer(&self.shared);
        let (start, wait) = mpsc::channel();
        let body = move || {
            self.work(worker, producer, &ready, &wait)
                .unwrap_or_else(|error| {
                    // The others need not go on without this one.
                    self.shared.failed.store(true, Ordering::Relaxed);
                    let _ = ready.send(Err(error));
                    Totals::default()
                })
        };
        let thread = std::thread::Builder::new()
            .name(format!("worker-{worker}"))
            .spawn_scoped(scope, body);
        let thread = thread.map_err(|source| WorkloadError::Io {
            path: format!("worker-{worker}").into(),
            action: "start the thread".into(),
            source,
            hint: "lower workers or raise the limit of processes".into(),
        })?;
        Ok(Spawned {
            thread,
            start,
            channel,
        })
    }

    fn times(&self, start_ns: u64) -> Times {
        let measure_ns = start_ns + self.spec.ramp_ns;
        let end_ns = self
            .spec
            .duration_ns
            .map_or(u64::MAX, |duration_ns| measure_ns + duration_ns);
        Times { measure_ns, end_ns }
    }

    fn wait_ready(&self, ready: &ReadyIn) -> Result<(Vec<i32>, Option<UringFeatures>), WorkloadError> {
        let mut tids = vec![0; self.spec.workers as usize];
        let mut features = None;
        for message in ready.iter().take(tids.len()) {
            let message = message?;
            tids[message.worker as usize] = message.tid;
            features = message.features;
        }
        Ok((tids, features))
    }

    /// Reports progress until the workers have ended.
    fn watch(
        &self,
        threads: &[ScopedJoinHandle<Totals>],
        counters: &[Counter],
        start_ns: u64,
        times: Times,
        options: &RunOptions,
    ) {
        let mut report_at = Instant::now();
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            if Instant::now() >= report_at {
                self.report(counters, start_ns, times, options);
                report_at = Instant::now() + PROGRESS;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn report(&self, counters: &[Counter], start_ns: u64, times: Times, options: &RunOptions) {
        let ops: u64 = counters.iter().map(Counter::rows).sum();
        let errors = self.errors.load(Ordering::Relaxed);
        let now_ns = mono_ns().max(start_ns);
        if now_ns < times.measure_ns {
            let fraction = (now_ns - start_ns) as f64 / self.spec.ramp_ns as f64;
            return report(options, "ramp", fraction, ops, errors);
        }
        let by_time = self.spec.duration_ns.map_or(0.0, |duration_ns| {
            (now_ns - times.measure_ns) as f64 / duration_ns as f64
        });
        let by_ops = self.spec.operations.map_or(0.0, |all| ops as f64 / all as f64);
        report(options, "measure", by_time.max(by_ops), ops, errors);
    }

    /// Constant facts of a worker's stream.
    fn metadata(&self, worker: u32, tid: i32) -> Vec<(String, String)> {
        let files = serde_json::Value::from(self.names.clone()).to_string();
        let loop_kind = if self.spec.rate_per_s.is_some() {
            "rate"
        } else {
            "closed"
        };
        [
            ("pid", std::process::id().to_string()),
            ("tid", tid.to_string()),
            ("comm", format!("worker-{worker}")),
            ("worker", worker.to_string()),
            ("files", files),
            ("direct", self.spec.direct.to_string()),
            ("loop", loop_kind.to_string()),
            ("queue_depth_max", self.spec.queue_depth.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .to_vec()
    }

    /// The body of a worker thread: sets up, says so, waits for the start, runs.
    fn work(
        &self,
        worker: u32,
        log: Producer,
        ready: &ReadyOut,
        start: &mpsc::Receiver<(u64, Times)>,
    ) -> Result<Totals, WorkloadError> {
        let spec = self.spec;
        // SAFETY: these calls only concern the calling thread.
        let tid = unsafe {
            // Timed waits of a fixed rate should end on time, not within the default 50 us.
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
            libc::gettid()
        };
        let depth = spec.queue_depth as usize;
        let block_bytes = spec.block_size_max() as usize;
        let rng = Rng::new(spec.seed, u64::from(worker) | 1 << 40);
        let buffers = Buffers::new(depth, block_bytes, spec.read_ppm > 0, spec.writes(), rng)?;
        let tell = |features| {
            // Nobody listens once another worker has failed; the closed start channel then ends this one.
            let _ = ready.send(Ok(Ready {
                worker,
                tid,
                features,
            }));
        };
        if self.files.is_empty() {
            tell(None);
            return self.work_on(worker, Null::new(depth), &buffers, log, start);
        }
        let (mut ring, defer_taskrun) = new_ring(spec.queue_depth)?;
        let backend = Uring::new(&mut ring, defer_taskrun, &self.files, &buffers, spec.sync_kind)?;
        tell(Some(backend.features));
        self.work_on(worker, backend, &buffers, log, start)
    }

    fn work_on<B: Backend>(
        &self,
        worker: u32,
        backend: B,
        buffers: &Buffers,
        log: Producer,
        start: &mpsc::Receiver<(u64, Times)>,
    ) -> Result<Totals, WorkloadError> {
        let Ok((start_ns, times)) = start.recv() else {
            return Ok(Totals::default());
        };
        let spec = self.spec;
        let context = Context {
            stop: self.stop,
            shared: &self.shared,
            errors: &self.errors,
            target_names: &self.names,
            times,
        };
        let steps = self.steps.clone();
        let plan = Plan {
            worker,
            queue_depth: spec.queue_depth,
            quota: quota(spec, worker).min(steps.as_ref().map_or(u64::MAX, |steps| steps.len() as u64)),
            schedule: match &steps {
                Some(steps) => Schedule::replay(steps.clone(), spec.replay_timed, start_ns),
                None => Schedule::new(spec, worker, start_ns),
            },
            mix: Mix::new(spec, worker, &self.sizes_bytes).replaying(steps),
        };
        let engine = Worker::new(&context, plan, backend, buffers, log);
        sleep_until(start_ns);
        engine.run()
    }
}

fn join(thread: ScopedJoinHandle<Totals>) -> Totals {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Operations of `worker`: the workload's number in equal parts, the rest on the first workers.
fn quota(spec: &Spec, worker: u32) -> u64 {
    let Some(operations) = spec.operations else {
        return u64::MAX;
    };
    let workers = u64::from(spec.workers);
    operations / workers + u64::from(u64::from(worker) < operations % workers)
}

fn summarize(spec: &Spec, targets: &[Target], outcome: Outcome) -> Summary {
    let Outcome {
        totals,
        tids,
        rows,
        features,
        start_ns,
        times,
        ended_ns,
        stopped,
        events_dropped,
    } = outcome;
    let sum = |field: fn(&Totals) -> u64| totals.iter().map(field).sum::<u64>();
    let by_time = times.end_ns <= ended_ns;
    let last_reap_ns = totals.iter().map(|total| total.last_reap_ns).max().unwrap_or(0);
    let end_ns = if by_time {
        times.end_ns
    } else {
        last_reap_ns.max(start_ns)
    };
    let measured_ns = end_ns.saturating_sub(times.measure_ns);
    let achieved = if measured_ns == 0 {
        0.0
    } else {
        sum(|t| t.ops_measured) as f64 * 1e9 / measured_ns as f64
    };
    let mut errors_by_errno = std::collections::BTreeMap::new();
    for (errno, count) in totals.iter().flat_map(|total| &total.errno) {
        *errors_by_errno.entry(*errno).or_insert(0) += count;
    }
    let workers = tids
        .iter()
        .zip(&rows)
        .zip(&totals)
        .zip(0..)
        .map(|(((tid, ops), total), worker)| WorkerSummary {
            worker,
            tid: *tid,
            ops: *ops,
            errors: total.errors,
        });
    Summary {
        spec: spec.clone(),
        pid: std::process::id(),
        offered_ops_per_s: spec.rate_per_s.map(|rate| rate as f64),
        offered_ops: spec.rate_per_s.map(|_| sum(|t| t.offered_measured)),
        achieved_ops_per_s: achieved,
        ops: rows.iter().sum(),
        ops_measured: sum(|t| t.ops_measured),
        errors: sum(|t| t.errors),
        short: sum(|t| t.short),
        errors_by_errno,
        read_bytes: sum(|t| t.read_bytes),
        written_bytes: sum(|t| t.written_bytes),
        syncs: sum(|t| t.syncs),
        missed_slots: sum(|t| t.missed_slots),
        log_stalls_ns: sum(|t| t.log_stalls_ns),
        events_dropped,
        phases: phases(start_ns, times.measure_ns, end_ns),
        ended_by: match (stopped, by_time) {
            (true, _) => "stopped",
            (false, true) => "duration",
            (false, false) => "operations",
        },
        workers: workers.collect(),
        targets: targets.iter().map(target_summary).collect(),
        io_uring: features,
        warnings: targets
            .iter()
            .filter_map(|target| target.warning.clone())
            .collect(),
    }
}

fn target_summary(target: &Target) -> TargetSummary {
    let Target {
        name,
        size_bytes,
        laid_out_bytes,
        ..
    } = target;
    TargetSummary {
        name: name.clone(),
        size_bytes: *size_bytes,
        laid_out_bytes: *laid_out_bytes,
    }
}

fn phases(start_ns: u64, measure_ns: u64, end_ns: u64) -> Vec<Phase> {
    let ramp_end_ns = measure_ns.min(end_ns);
    let mut phases = Vec::new();
    if measure_ns > start_ns {
        phases.push(Phase {
            name: "ramp",
            start_ns,
            end_ns: ramp_end_ns,
        });
    }
    if end_ns > measure_ns {
        phases.push(Phase {
            name: "measure",
            start_ns: measure_ns,
            end_ns,
        });
    }
    phases
}
