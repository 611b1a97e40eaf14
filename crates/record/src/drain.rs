//! The thread `whodisk-rec`, which empties all probes and keeps the account.
use crate::block;
use crate::error::RecordError;
use crate::flight::SharedFlight;
use crate::probe::{Counts, Probe, SharedFilter};
use crate::recorder::Config;
use crate::sampling::Budget;
use crate::scope::{Change, InFlight, Processes};
use crate::summary::{ProbeSummary, Summary};
use crate::sys;
use crate::writer::{Writer, Written};
use case::schema::LossRow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two looks at the rings: as long as they hold what may come meanwhile, since most of what a look costs is to wake up
/// for it. No program ever wakes this thread: that costs more than all the rest.
const DRAIN_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(20));

/// More requests than one CPU completes in a second.
const CPU_REQUESTS_PER_S: f64 = 400_000.0;

/// A program that was running on another CPU when it was detached ends within microseconds.
const DETACH_PAUSE: Duration = Duration::from_millis(5);

/// Records are handed to the writer at least this often, and as soon as there are this many.
const HANDOVER_PAUSE: Duration = Duration::from_millis(250);
pub const HANDOVER_RECORDS: usize = 4096;

/// How often counters are read: the width of the window that a loss is given.
const COUNT_PAUSE: Duration = Duration::from_secs(1);

/// How often control groups are looked at for who has come and gone.
const SCOPE_PAUSE: Duration = Duration::from_millis(100);

/// How often processes that have ended are taken out of the scope.
const ENDED_PAUSE: Duration = Duration::from_secs(3);

/// How often the flight recorder looks at what is in flight.
const FLIGHT_PAUSE: Duration = Duration::from_millis(100);

const NO_PANIC: &str = "no thread panics with the lock";

/// The pause that the rings of this recording allow.
pub fn drain_pause(config: &Config) -> Duration {
    let (least, most) = DRAIN_PAUSES;
    let requests = f64::from(block::ring_records(config.ring(config.ring_bytes)));
    Duration::from_secs_f64(requests / CPU_REQUESTS_PER_S).clamp(least, most)
}

/// One probe at work.
struct Source {
    name: &'static str,
    probe: Box<dyn Probe>,
    counted: Counts,
    recursion: BTreeMap<String, u64>,
    summary: ProbeSummary,
}

/// State of the drain thread.
pub struct Drain {
    sources: Vec<Source>,
    pause: Duration,
    writer: Writer,
    handed_over: Instant,
    /// Events received, by the order of the probes.
    received: Arc<[AtomicU64]>,
    counted_at: Instant,
    counted_at_ns: u64,
    /// `None`: every process is in the scope.
    processes: Option<Processes>,
    scope_seen: Instant,
    ended_seen: Instant,
    /// `None`: every operation in flight is of interest.
    filter: Option<SharedFilter>,
    /// `None`: rows go to files.
    flight: Option<SharedFlight>,
    flight_seen: Instant,
    /// `None`: every operation is kept.
    budget: Option<Budget>,
    summary: Summary,
}

impl Drain {
    /// Nothing is recorded yet.
    pub fn new(
        probes: Vec<(&'static str, Box<dyn Probe>)>,
        pause: Duration,
        writer: Writer,
        received: Arc<[AtomicU64]>,
        processes: Option<Processes>,
        filter: Option<SharedFilter>,
        flight: Option<SharedFlight>,
    ) -> Drain {
        let source = |(name, probe): (&'static str, Box<dyn Probe>)| Source {
            name,
            summary: ProbeSummary {
                attached: probe.attached().to_vec(),
                ..ProbeSummary::default()
            },
            probe,
            counted: Counts::default(),
            recursion: BTreeMap::new(),
        };
        Drain {
            sources: probes.into_iter().map(source).collect(),
            pause,
            writer,
            handed_over: Instant::now(),
            received,
            counted_at: Instant::now(),
            counted_at_ns: 0,
            processes,
            scope_seen: Instant::now(),
            ended_seen: Instant::now(),
            filter,
            flight,
            flight_seen: Instant::now(),
            budget: None,
            summary: Summary::default(),
        }
    }

    /// From now on what is kept follows a CPU budget.
    pub fn hold_budget(&mut self, budget: Budget) {
        self.budget = Some(budget);
    }

    /// Begins to record.
    pub fn begin(&mut self) -> Result<(), RecordError> {
        self.summary.begin_ns = sys::monotonic_ns();
        for source in &mut self.sources {
            source.probe.set_recording(true)?;
        }
        self.counted_at = Instant::now();
        self.counted_at_ns = self.summary.begin_ns;
        Ok(())
    }

    fn look_at_scope(&mut self) -> Result<(), RecordError> {
        if self.scope_seen.elapsed() < SCOPE_PAUSE {
            return Ok(());
        }
        self.scope_seen = Instant::now();
        let Some(processes) = &mut self.processes else {
            return Ok(());
        };
        let changes = processes.look_at_cgroups();
        self.follow(&changes)?;
        if self.ended_seen.elapsed() >= ENDED_PAUSE {
            self.ended_seen = Instant::now();
            let mut probes = self.sources.iter_mut().map(|source| &mut source.probe);
            probes.try_for_each(|probe| probe.forget_ended())?;
        }
        Ok(())
    }

    fn follow(&mut self, changes: &[Change]) -> Result<(), RecordError> {
        let mut probes = self.sources.iter_mut().map(|source| &mut source.probe);
        probes.try_for_each(|probe| probe.follow(changes))
    }

    /// Drains until `stop`, and gives the account.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Summary, RecordError> {
        // On a machine with all CPUs taken, whoever waits its turn among equals finds the rings overrun.
        sys::run_first();
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(self.pause);
            self.drain();
            self.look_at_scope()?;
            self.look_at_flight()?;
            if let Some(budget) = &mut self.budget {
                budget.look();
            }
            if self.counted_at.elapsed() >= COUNT_PAUSE {
                self.look_after()?;
                self.count()?;
            }
        }
        self.end()
    }

    /// Looks for what has been in flight for too long, and ends the window of a trigger.
    fn look_at_flight(&mut self) -> Result<(), RecordError> {
        let Some(flight) = self.flight.clone() else {
            return Ok(());
        };
        if self.flight_seen.elapsed() < FLIGHT_PAUSE {
            return Ok(());
        }
        self.flight_seen = Instant::now();
        let now_ns = sys::monotonic_ns();
        let limit_ns = flight.lock().expect(NO_PANIC).age_limit_ns();
        if let Some(limit_ns) = limit_ns {
            let probes = self.sources.iter().map(|source| &source.probe);
            let old = probes.flat_map(|probe| probe.in_flight(now_ns.saturating_sub(limit_ns), now_ns));
            let old: Vec<InFlight> = old.collect();
            let old = match &self.filter {
                Some(filter) => filter.lock().expect(NO_PANIC).in_flight(old),
                None => old.into_iter().map(|each| each.operation).collect(),
            };
            flight.lock().expect(NO_PANIC).in_flight(&old, now_ns);
        }
        let due = flight.lock().expect(NO_PANIC).is_due(now_ns, false);
        if due {
            self.snapshot()?;
        }
        Ok(())
    }

    /// Hands over all that has come, and what is in flight.
    fn snapshot(&mut self) -> Result<(), RecordError> {
        self.look_after()?;
        self.drain();
        let now_ns = sys::monotonic_ns();
        let mut open = Vec::new();
        for index in 0..self.sources.len() {
            self.hand_over(index);
            let batch = self.sources[index].probe.open_now(now_ns)?;
            open.extend(batch.map(|batch| (index, batch)));
        }
        self.writer.send_snapshot(open, now_ns);
        Ok(())
    }

    fn look_after(&mut self) -> Result<(), RecordError> {
        let mut probes = self.sources.iter_mut().map(|source| &mut source.probe);
        probes.try_for_each(|probe| probe.look_after())
    }

    fn drain(&mut self) {
        let mut full = false;
        for (source, received) in self.sources.iter_mut().zip(self.received.iter()) {
            let events = source.probe.drain();
            if events > 0 {
                received.fetch_add(events, Ordering::Relaxed);
            }
            full |= source.probe.waiting() >= HANDOVER_RECORDS;
        }
        // All at once: the writer then wakes up once.
        if full || self.handed_over.elapsed() >= HANDOVER_PAUSE {
            self.handed_over = Instant::now();
            (0..self.sources.len()).for_each(|index| self.hand_over(index));
        }
    }

    fn hand_over(&mut self, index: usize) {
        let Some(batch) = self.sources[index].probe.take() else {
            return;
        };
        if let Err(refused) = self.writer.send(index, batch) {
            let now_ns = sys::monotonic_ns();
            let start_ns = now_ns - HANDOVER_PAUSE.as_nanos() as u64;
            self.lose(index, "writer_behind", None, (start_ns, now_ns), refused.records);
        }
    }

    fn lose(&mut self, index: usize, reason: &str, program: Option<&str>, window: (u64, u64), lost: u64) {
        if lost == 0 {
            return;
        }
        let source = &mut self.sources[index];
        source.summary.lost += lost;
        let probe = match program {
            Some(program) => format!("{}/{program}", source.name),
            None => source.name.to_string(),
        };
        self.writer.send_loss(LossRow {
            probe,
            start_ns: window.0 as i64,
            end_ns: window.1 as i64,
            lost: Some(lost),
            reason: reason.into(),
        });
    }

    /// Reads all counters and turns what grew into losses of the time since the last look.
    fn count(&mut self) -> Result<(), RecordError> {
        let now_ns = sys::monotonic_ns();
        let window = (self.counted_at_ns, now_ns);
        for index in 0..self.sources.len() {
            let source = &mut self.sources[index];
            let counts = source.probe.counts()?;
            let before = std::mem::replace(&mut source.counted, counts.clone());
            for (place, (reason, lost)) in counts.lost.iter().enumerate() {
                // The order of a probe's reasons never changes.
                let then = before.lost.get(place).map_or(0, |(_, lost)| *lost);
                self.lose(index, reason, None, window, lost.saturating_sub(then));
            }
            self.count_programs(index, window);
        }
        self.counted_at = Instant::now();
        self.counted_at_ns = now_ns;
        Ok(())
    }

    fn count_programs(&mut self, index: usize, window: (u64, u64)) {
        for (name, program) in self.sources[index].probe.program_counts() {
            let source = &mut self.sources[index];
            let misses = program.recursion_misses;
            let then = source.recursion.insert(name.clone(), misses).unwrap_or(0);
            let runs = (program.runs, program.run_time_ns);
            let key = format!("{}/{name}", source.name);
            self.summary.program_runs.insert(key, runs);
            self.lose(index, "recursion", Some(&name), window, misses - then);
        }
    }

    /// Stops all programs at one moment, then drains: nothing can come after the last look.
    fn end(mut self) -> Result<Summary, RecordError> {
        self.look_after()?;
        for source in &mut self.sources {
            source.probe.set_recording(false)?;
        }
        self.summary.end_ns = sys::monotonic_ns();
        for source in &mut self.sources {
            source.probe.detach();
        }
        std::thread::sleep(DETACH_PAUSE);
        self.drain();
        self.count()?;
        for index in 0..self.sources.len() {
            let source = &mut self.sources[index];
            let finished = source.probe.finish(self.summary.end_ns)?;
            source.summary.open = finished.open;
            self.received[index].fetch_add(finished.events, Ordering::Relaxed);
            self.hand_over(index);
        }
        let end_ns = self.summary.end_ns;
        let due = |flight: &SharedFlight| flight.lock().expect(NO_PANIC).is_due(end_ns, true);
        if self.flight.as_ref().is_some_and(due) {
            self.writer.send_snapshot(Vec::new(), end_ns);
        }
        let (written, write_error) = self.writer.finish()?;
        self.summary.write_error = write_error;
        let received = self.received.iter().map(|count| count.load(Ordering::Relaxed));
        let parts = self.sources.into_iter().zip(received).zip(written);
        self.summary.probes = parts
            .map(|((source, received), written)| {
                (source.name.to_string(), account(source, received, written))
            })
            .collect();
        Ok(self.summary)
    }
}

fn account(source: Source, received: u64, written: Written) -> ProbeSummary {
    let notes = source.counted.notes.iter().chain(&written.notes);
    ProbeSummary {
        received,
        lost: source.summary.lost + written.rows_lost,
        own_excluded: source.counted.own_excluded,
        own_excluded_bytes: source.counted.own_excluded_bytes,
        out_of_scope: source.counted.out_of_scope + written.out_of_scope,
        recursion_misses: source.recursion.values().sum(),
        counts: notes.map(|(name, count)| (name.to_string(), *count)).collect(),
        rows: written.rows,
        ..source.summary
    }
}
