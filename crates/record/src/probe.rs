//! What every probe offers the recorder. A probe is a folder with its kernel program (if it has one), its wiring,
//! and one line in [`crate::registry`].
//!
//! Two threads use it: `whodisk-rec` empties the probes and reads their counters ([`Probe`]); `whodisk-log` turns what
//! was emptied into rows ([`Log`]), since writing may wait for the very disk that is observed.
use crate::error::RecordError;
use crate::flight::SharedFlight;
use crate::sampling::SharedSampler;
use crate::scope::{Change, Filter, InFlight};
use crate::streams::Stream;
use crate::sys::ProgramCounts;
use case::meta::Unseen;
use case::CaseError;
use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Why a probe wants a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Without it the probe is of no use.
    Must,
    /// Without it a fact is missing; the text names the fact.
    Fact(&'static str),
    /// Without it nothing is missing: the probe has another way (an older or newer kernel's).
    Alternative,
}

/// Tracepoints in the order of attaching, ends before begins, so that nothing can begin seen and end unseen. A program
/// has the name of its tracepoint.
pub type Hooks = &'static [(&'static str, Need)];

/// Records on their way from a probe to its log.
pub struct Batch {
    /// How many.
    pub records: u64,
    /// Memory that they take.
    pub bytes: usize,
    /// Whatever probe and log agree on.
    pub data: Box<dyn Any + Send>,
}

/// What the rows of a limited recording are looked at with: by the thread `whodisk-log`, and by `whodisk-rec` for what
/// is in flight.
pub type SharedFilter = Arc<Mutex<Filter>>;

/// Where rows go.
#[derive(Clone)]
pub struct Target {
    /// Folder of the raw streams.
    pub raw_dir: PathBuf,
    /// Which rows; `None`: all.
    pub filter: Option<SharedFilter>,
    /// Leaves out typical ones above a CPU budget; `None`: keeps all.
    pub sampler: Option<SharedSampler>,
    /// Keeps the rows instead, of which then no files are made.
    pub flight: Option<SharedFlight>,
}

/// A probe's counters since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that will be in no row, by reason (`ring_full`, `map_full`, ...). A reason may stand twice.
    pub lost: Vec<(&'static str, u64)>,
    /// The recorder's own operations, left out.
    pub own_excluded: u64,
    /// Bytes of those.
    pub own_excluded_bytes: u64,
    /// Events that were left out because they are not in the scope.
    pub out_of_scope: u64,
    /// What else is worth knowing: thresholds, and how many events they left out. Goes into `case.json`.
    pub notes: Vec<(&'static str, u64)>,
}

/// What a probe added at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Events.
    pub events: u64,
    /// Of those, still open.
    pub open: u64,
}

/// A probe that is attached. Nothing is recorded before [`Probe::set_recording`].
pub trait Probe: Send {
    /// Kernel hooks, or files, that it listens to.
    fn attached(&self) -> &[String];

    /// Facts that this host does not let it see.
    fn unseen(&self) -> &[Unseen];

    /// Creates its streams below `raw_dir`.
    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError>;

    /// Takes processes into the scope, or out of it, if the probe is limited to some.
    fn follow(&mut self, _changes: &[Change]) -> Result<(), RecordError> {
        Ok(())
    }

    /// Takes processes that have ended out of its scope. Called every few seconds in a recording of some processes.
    fn forget_ended(&mut self) -> Result<(), RecordError> {
        Ok(())
    }

    /// Begins or ends the recording, for all its programs at once.
    fn set_recording(&mut self, on: bool) -> Result<(), RecordError>;

    /// Moves out of the kernel what waits there; returns the number of events. Called every few milliseconds: it must be cheap
    /// when nothing waits.
    fn drain(&mut self) -> u64;

    /// Records drained and not yet taken.
    fn waiting(&self) -> usize;

    /// Gives away the drained records; `None` if there are none.
    fn take(&mut self) -> Option<Batch>;

    /// What is to be done about once a second, and before the recording ends.
    fn look_after(&mut self) -> Result<(), RecordError> {
        Ok(())
    }

    /// Operations in flight that began before `begin_ns`; asked for every 100 ms where a trigger looks for them.
    fn in_flight(&self, _begin_ns: u64, _now_ns: u64) -> Vec<InFlight> {
        Vec::new()
    }

    /// Records of what is in flight, as [`Probe::finish`] adds them; the recording goes on.
    fn open_now(&mut self, _now_ns: u64) -> Result<Option<Batch>, RecordError> {
        Ok(None)
    }

    /// Its counters.
    fn counts(&mut self) -> Result<Counts, RecordError>;

    /// The kernel's account of its programs, by name.
    fn program_counts(&self) -> BTreeMap<String, ProgramCounts> {
        BTreeMap::new()
    }

    /// Detaches everything; rings, maps and counters stay readable.
    fn detach(&mut self);

    /// After the last drain: adds records of what is still open at `end_ns` to those drained.
    fn finish(&mut self, _end_ns: u64) -> Result<Finished, RecordError> {
        Ok(Finished::default())
    }
}

/// Turns a probe's records into rows of its streams.
pub trait Log: Send {
    /// Appends what the records say. Streams count what they cannot write, so this has no error.
    fn write(&mut self, batch: Batch);

    /// Nothing more will come, or (flight recorder) what has come is wanted now.
    fn end(&mut self) {}

    /// Events that it left out because they are not in the scope; its streams count theirs themselves.
    fn out_of_scope(&self) -> u64 {
        0
    }

    /// Its streams, in the order in which they must reach the disk.
    fn streams(&mut self) -> Vec<&mut dyn Stream>;

    /// Counts that are known only here; go into `case.json`.
    fn notes(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
