//! The workload engine: an access specification run on io_uring, every operation logged.
//!
//! * [`spec`]: specifications in TOML; `docs/how-to/workload.md` is their reference.
//! * [`run`]: runs one and writes `raw/app/`: one stream of [`case::rows::AppRow`] per worker, and
//!   `workload.json` ([`Summary`]).
//!
//! One thread and one ring per worker; a writer thread `whodisk-log` encodes the log. A closed-loop
//! worker keeps `queue_depth` operations in flight. At a fixed rate the schedule never shifts, so an
//! operation that starts late because too many are in flight counts its latency from its intended start.
mod backend;
mod buffers;
pub mod clock;
mod engine;
mod error;
mod log;
pub mod mix;
pub mod rng;
mod run;
pub mod schedule;
pub mod spec;
mod summary;
mod target;
mod toml_reader;
pub mod trace;
pub mod units;

pub use backend::UringFeatures;
pub use error::WorkloadError;
pub use log::LOG_THREAD;
pub use run::{run, Progress, RunOptions};
pub use spec::Spec;
pub use summary::{Phase, Summary, TargetSummary, WorkerSummary};
