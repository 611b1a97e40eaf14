//! The flight recorder: keeps the last seconds, and gives them away when an operation takes too long.
//!
//! Rows go to a [`Ring`] instead of files. When a [`Trigger`] fires, the recorder waits a little for what comes after,
//! and hands a [`Snapshot`] over: all rows of the window and what is still open. Then it goes on.
mod names;
mod ring;
mod trigger;

use crate::error::RecordError;
use crate::told::Told;
use case::rows::FileRow;
use case::schema::LossRow;
use case::CaseError;
use names::{device_names, FileNames};
use ring::{Chunk, Files, Ring};
use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
pub use trigger::{spoken, Measure, OpLayer, Operation, Trigger, TriggerError, TRIGGER_HELP};

/// Losses that are remembered.
const LOSSES_MAX: usize = 10_000;

/// Operations that one case names as having triggered it; more are counted.
const FIRED_MAX: usize = 100;

/// What the flight recorder does.
#[derive(Clone, Debug)]
pub struct FlightConfig {
    /// How much of the past a case holds, ns.
    pub ring_ns: u64,
    /// How much of what comes after the trigger, ns.
    pub after_ns: u64,
    /// A trigger this soon after the one that made a case makes none, ns.
    pub refractory_ns: u64,
    /// Most bytes of rows in memory, 1 MiB or more; while a case is written, its rows may take as much again.
    pub memory_bytes: usize,
    /// Any of them is enough.
    pub triggers: Vec<Trigger>,
    /// Cases after which no more are written; `None`: no limit.
    pub cases_max: Option<u64>,
}

/// An operation that triggered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The operation.
    pub operation: Operation,
    /// What of it was too long.
    pub measure: Measure,
    /// The trigger.
    pub trigger: String,
    /// What it must exceed, ns.
    pub limit_ns: u64,
    /// Name of its device; empty if not known.
    pub device: String,
    /// When that was seen, `CLOCK_MONOTONIC`.
    pub time_ns: u64,
}

/// The window around a trigger.
pub struct Snapshot {
    /// Its begin, `CLOCK_MONOTONIC`; operations that ended earlier are not in it.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// What triggered, the first one first.
    pub fired: Vec<Fired>,
    /// Further operations that would have.
    pub fired_more: u64,
    /// Of the window.
    pub losses: Vec<LossRow>,
    /// Hooks by probe.
    pub attached: BTreeMap<String, Vec<String>>,
    chunks: Vec<Arc<Chunk>>,
    busy: Arc<AtomicBool>,
}

impl Snapshot {
    /// Writes the raw streams and `losses.jsonl`; rows by stream.
    pub fn write(&self, raw_dir: &Path) -> Result<BTreeMap<String, u64>, CaseError> {
        let mut files = Files::new(raw_dir);
        for chunk in &self.chunks {
            chunk.write(&mut files, self.start_ns)?;
        }
        let lines = self.losses.iter().map(|loss| {
            let line = serde_json::to_string(loss).expect("a loss is plain numbers and text");
            line + "\n"
        });
        let path = raw_dir.join("losses.jsonl");
        std::fs::write(&path, lines.collect::<String>()).map_err(|e| CaseError::io(&path, "write", e))?;
        files.finish()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.busy.store(false, Ordering::Release);
    }
}

/// Numbers of a flight so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlightCounts {
    /// Cases handed over.
    pub cases: u64,
    /// Operations that triggered soon after a case and made none.
    pub merged: u64,
    /// Operations that triggered after the last case allowed.
    pub beyond_max: u64,
    /// Rows that had to go before their time, for want of memory.
    pub dropped: u64,
    /// Memory taken by rows now, bytes.
    pub bytes: u64,
}

/// A trigger with an open window.
struct Pending {
    fired: Vec<Fired>,
    more: u64,
    due_ns: u64,
    /// The snapshot is on its way.
    asked: bool,
}

/// State of the flight recorder; both threads of the recorder use it.
pub struct Flight {
    config: FlightConfig,
    ring: Ring,
    names: FileNames,
    /// An empty chunk of every stream, so that cases have all of them.
    streams: Vec<Arc<Chunk>>,
    losses: VecDeque<LossRow>,
    pending: Option<Pending>,
    /// Of the last case.
    triggered_ns: Option<u64>,
    /// What is in flight when a window ends.
    open: Option<Vec<Arc<Chunk>>>,
    devices: HashMap<u32, Vec<String>>,
    /// Operations in flight that have triggered by their age: start and thread.
    aged: HashMap<(u64, i32), u64>,
    /// Hooks by probe.
    pub attached: BTreeMap<String, Vec<String>>,
    counts: FlightCounts,
    busy: Arc<AtomicBool>,
    sender: Sender<Snapshot>,
}

/// Shared by the threads.
pub type SharedFlight = Arc<Mutex<Flight>>;

impl Flight {
    /// Nothing is kept yet; snapshots go to `sender`. Errors: settings that cannot work.
    pub fn new(config: FlightConfig, sender: Sender<Snapshot>) -> Result<Flight, RecordError> {
        let wrong = |name, expected: &str, found: String| RecordError::Setting {
            name,
            expected: expected.into(),
            found,
        };
        if config.triggers.is_empty() {
            return Err(wrong("triggers", "one at least", "none".into()));
        }
        if config.memory_bytes < 1 << 20 {
            let found = config.memory_bytes.to_string();
            return Err(wrong("memory_bytes", "1048576 or more", found));
        }
        let ring = Ring::new(config.ring_ns + config.after_ns, config.memory_bytes);
        Ok(Flight {
            config,
            ring,
            names: FileNames::default(),
            streams: Vec::new(),
            losses: VecDeque::new(),
            pending: None,
            triggered_ns: None,
            open: None,
            devices: HashMap::new(),
            aged: HashMap::new(),
            attached: BTreeMap::new(),
            counts: FlightCounts::default(),
            busy: Arc::new(AtomicBool::new(false)),
            sender,
        })
    }

    /// The least latency that any trigger looks for, ns.
    pub fn latency_limit_ns(&self) -> u64 {
        self.limit_ns(Measure::Latency)
    }

    /// The least age that any trigger looks for, ns; `None`: ages are of no interest.
    pub fn age_limit_ns(&self) -> Option<u64> {
        Some(self.limit_ns(Measure::Age)).filter(|limit| *limit != u64::MAX)
    }

    fn limit_ns(&self, measure: Measure) -> u64 {
        let of_kind = self
            .config
            .triggers
            .iter()
            .filter(|trigger| trigger.measure == measure);
        of_kind.map(|trigger| trigger.limit_ns).min().unwrap_or(u64::MAX)
    }

    /// Makes a stream known.
    pub fn add_stream<R: Told>(&mut self) {
        self.streams.push(Arc::new(Chunk::new::<R>(0, Vec::new())));
    }

    /// Keeps rows of a stream that have come by now.
    pub fn keep<R: Told>(&mut self, now_ns: u64, rows: Vec<R>) {
        if rows.is_empty() {
            return;
        }
        let names = (&rows as &dyn Any).downcast_ref::<Vec<FileRow>>();
        if let Some(names) = names {
            self.names.keep(names);
            return;
        }
        match &mut self.open {
            Some(open) => open.push(Arc::new(Chunk::new(now_ns, rows))),
            None => self.ring.push(Chunk::new(now_ns, rows)),
        }
        self.counts.dropped = self.ring.dropped;
    }

    /// Keeps a loss.
    pub fn lose(&mut self, loss: LossRow) {
        if self.losses.len() >= LOSSES_MAX {
            self.losses.pop_front();
        }
        self.losses.push_back(loss);
    }

    /// Looks whether an operation that ended triggers.
    pub fn ended(&mut self, operation: &Operation) {
        // What is in flight when a window ends was looked at already.
        if self.open.is_none() {
            let end_ns = operation.start_ns + operation.time_ns;
            self.look(Measure::Latency, operation, end_ns);
        }
    }

    /// Looks whether operations in flight trigger; each does once.
    pub fn in_flight(&mut self, operations: &[Operation], now_ns: u64) {
        for operation in operations {
            let key = (operation.start_ns, operation.tid);
            if !self.aged.contains_key(&key) && self.look(Measure::Age, operation, now_ns) {
                self.aged.insert(key, now_ns);
            }
        }
        let there = |key: &(u64, i32)| operations.iter().any(|op| (op.start_ns, op.tid) == *key);
        self.aged.retain(|key, _| there(key));
    }

    fn look(&mut self, measure: Measure, operation: &Operation, time_ns: u64) -> bool {
        let names = self.devices.entry(operation.device);
        let names = names.or_insert_with(|| device_names(operation.device));
        let mut triggers = self.config.triggers.iter();
        let Some(trigger) = triggers.find(|trigger| trigger.fires(measure, operation, names)) else {
            return false;
        };
        let fired = Fired {
            operation: operation.clone(),
            measure,
            trigger: trigger.text.clone(),
            limit_ns: trigger.limit_ns,
            device: names.first().cloned().unwrap_or_default(),
            time_ns,
        };
        self.fire(fired);
        true
    }

    fn fire(&mut self, fired: Fired) {
        if let Some(pending) = &mut self.pending {
            if pending.fired.len() < FIRED_MAX {
                pending.fired.push(fired);
            } else {
                pending.more += 1;
            }
            return;
        }
        let soon = |then: u64| fired.time_ns < then + self.config.refractory_ns;
        if self.triggered_ns.is_some_and(soon) {
            self.counts.merged += 1;
        } else if self
            .config
            .cases_max
            .is_some_and(|most| self.counts.cases >= most)
        {
            self.counts.beyond_max += 1;
        } else {
            self.triggered_ns = Some(fired.time_ns);
            self.pending = Some(Pending {
                due_ns: fired.time_ns + self.config.after_ns,
                fired: vec![fired],
                more: 0,
                asked: false,
            });
        }
    }

    /// Whether a window ends now, and the last case has been written; true once. `at_end`: it ends with the recording.
    pub fn is_due(&mut self, now_ns: u64, at_end: bool) -> bool {
        let busy = self.busy.load(Ordering::Acquire);
        let Some(pending) = self.pending.as_mut().filter(|pending| !pending.asked) else {
            return false;
        };
        pending.asked = at_end || (pending.due_ns <= now_ns && !busy);
        pending.asked
    }

    /// From now on rows are those of operations in flight, until [`Flight::hand_over`].
    pub fn take_open(&mut self) {
        self.open = Some(Vec::new());
    }

    /// Gives the window away.
    pub fn hand_over(&mut self, now_ns: u64) {
        let open = self.open.take().unwrap_or_default();
        let Some(pending) = self.pending.take() else {
            return;
        };
        let Some(first_ns) = pending.fired.first().map(|fired| fired.time_ns) else {
            return;
        };
        let start_ns = first_ns.saturating_sub(self.config.ring_ns);
        let mut losses: Vec<LossRow> = self
            .losses
            .iter()
            .filter(|loss| loss.end_ns >= start_ns as i64)
            .cloned()
            .collect();
        if self.ring.dropped_until_ns >= start_ns {
            losses.push(LossRow {
                probe: "flight".into(),
                start_ns: start_ns as i64,
                end_ns: self.ring.dropped_until_ns as i64,
                lost: None,
                reason: "ring_memory".into(),
            });
        }
        let names = Arc::new(Chunk::new(now_ns, self.names.rows()));
        let mut chunks = self.streams.clone();
        chunks.push(names);
        chunks.extend(self.ring.since(start_ns));
        chunks.extend(open);
        self.counts.cases += 1;
        self.busy.store(true, Ordering::Release);
        let _ = self.sender.send(Snapshot {
            start_ns,
            end_ns: now_ns,
            fired: pending.fired,
            fired_more: pending.more,
            losses,
            attached: self.attached.clone(),
            chunks,
            busy: self.busy.clone(),
        });
    }

    /// Numbers so far.
    pub fn counts(&self) -> FlightCounts {
        FlightCounts {
            bytes: self.ring.bytes() as u64,
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use case::rows::BlockRow;
    use std::sync::mpsc::{channel, Receiver};

    const MS: u64 = 1_000_000;

    fn flight(cases_max: Option<u64>) -> (Flight, Receiver<Snapshot>) {
        let (sender, receiver) = channel();
        let config = FlightConfig {
            ring_ns: 1000 * MS,
            after_ns: 100 * MS,
            refractory_ns: 500 * MS,
            memory_bytes: 1 << 20,
            triggers: vec!["latency > 50ms".parse().unwrap(), "age > 80ms".parse().unwrap()],
            cases_max,
        };
        let mut flight = Flight::new(config, sender).unwrap();
        flight.add_stream::<BlockRow>();
        (flight, receiver)
    }

    fn operation(start_ms: u64, time_ms: u64) -> Operation {
        Operation {
            layer: OpLayer::Block,
            op: "read",
            start_ns: start_ms * MS,
            time_ns: time_ms * MS,
            device: 0,
            pid: 3,
            tid: 3,
            comm: [0; 16],
        }
    }

    /// What both threads do every now and then.
    fn tick(flight: &mut Flight, now_ms: u64) {
        if flight.is_due(now_ms * MS, false) {
            flight.take_open();
            flight.keep(now_ms * MS, vec![BlockRow::default()]);
            flight.hand_over(now_ms * MS);
        }
    }

    #[test]
    fn a_slow_operation_makes_a_case_of_its_time() {
        let (mut flight, receiver) = flight(None);
        let row = |end_ms: u64| BlockRow {
            complete_ns: end_ms * MS,
            ..BlockRow::default()
        };
        for end_ms in (0..3000).step_by(100) {
            flight.keep(end_ms * MS, vec![row(end_ms)]);
        }
        flight.ended(&operation(2900, 50));
        assert!(!flight.is_due(9000 * MS, false), "not above the limit");
        flight.ended(&operation(2930, 60));
        flight.ended(&operation(2940, 70));
        tick(&mut flight, 3000);
        assert!(receiver.try_recv().is_err(), "what comes after is awaited");
        tick(&mut flight, 3091);
        let snapshot = receiver.try_recv().unwrap();
        assert_eq!(snapshot.fired.len(), 2);
        assert_eq!(snapshot.start_ns, 1990 * MS);
        let folder = tempfile::tempdir().unwrap();
        let rows = snapshot.write(folder.path()).unwrap();
        assert_eq!(rows["block"], 10 + 1, "of one second, and one in flight");
    }

    #[test]
    fn triggers_soon_after_are_merged_and_the_last_case_is_the_last() {
        let (mut flight, receiver) = flight(Some(2));
        for start_ms in [1000, 1300, 1600, 2500] {
            flight.ended(&operation(start_ms, 60));
            tick(&mut flight, start_ms + 200);
            drop(receiver.try_recv());
        }
        let counts = flight.counts();
        assert_eq!((counts.cases, counts.merged, counts.beyond_max), (2, 1, 1));
    }

    #[test]
    fn a_case_at_a_time() {
        let (mut flight, receiver) = flight(None);
        flight.ended(&operation(1000, 60));
        tick(&mut flight, 1200);
        let first = receiver.try_recv().unwrap();
        flight.ended(&operation(2000, 60));
        tick(&mut flight, 2200);
        assert!(receiver.try_recv().is_err(), "the first is still being written");
        drop(first);
        tick(&mut flight, 2300);
        assert!(receiver.try_recv().is_ok());
    }

    #[test]
    fn an_operation_in_flight_fires_once() {
        let (mut flight, receiver) = flight(None);
        for now_ms in (1000..4000).step_by(100) {
            flight.in_flight(&[operation(1000, now_ms - 1000)], now_ms * MS);
            tick(&mut flight, now_ms);
        }
        let snapshot = receiver.try_recv().unwrap();
        assert_eq!(snapshot.fired[0].measure, Measure::Age);
        assert_eq!(flight.counts().cases, 1);
    }
}
