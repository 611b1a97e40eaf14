//! Observes the machine with eBPF and `/proc`, and appends what it sees to a case's raw streams.
//!
//! [`Recorder::attach`] loads the programs, [`Recorder::start`] begins to write, [`Running::stop`] ends it with
//! an account of what was seen and what was not. [`doctor`] says what this host lets us observe.
//!
//! One folder per probe: its kernel program (`*.bpf.c`, compiled and committed as `*.bpf.o`), its wiring, and one line
//! in `registry.rs`. What a probe offers is the trait in `probe.rs`; `ring_probe.rs` and `bpf/probe.h` are all
//! but its programs, for a probe that sends records through one ring.

mod block;
mod cache;
mod doctor;
mod drain;
mod error;
mod facts;
mod flight;
mod host;
mod irq;
mod kernel;
mod listener;
mod load;
pub mod memory;
mod nvme;
mod owner;
mod plain;
mod pool;
mod probe;
mod recorder;
mod registry;
#[allow(dead_code)] // some of what a probe may want, none wants yet
mod ring_probe;
mod rings;
mod sampler;
mod sampling;
mod sched;
mod scope;
mod stack;
mod streams;
mod summary;
mod sys;
mod syscall;
mod thread;
mod told;
mod tracefs;
pub mod watch;
mod writeback;
mod writer;

pub use doctor::{doctor, shortened, Check, Verdict, KERNEL};
pub use error::RecordError;
pub use flight::{
    spoken, Fired, FlightConfig, FlightCounts, Measure, OpLayer, Operation, Snapshot, Trigger, TriggerError,
    TRIGGER_HELP,
};
pub use recorder::{Config, Recorder, Running, THREADS};
pub use registry::{all_unseen, names as probe_names};
pub use sampling::{LeftOut, Level};
pub use scope::Scope;
#[doc(hidden)]
pub use stack::{bios_of, SeenBio};
pub use summary::{ProbeSummary, Summary};
