//! Observes the machine's block requests with eBPF and appends them to a case's raw streams.
//!
//! [`Recorder::attach`] loads the programs, [`Recorder::start`] begins to write, [`Running::stop`] ends it with
//! an account of what was seen and what was not. [`doctor`] says what this host lets us observe.
//!
//! One folder per probe: its kernel program (`*.bpf.c`, compiled and committed as `*.bpf.o`), its wiring.

mod block;
mod doctor;
mod error;
mod host;
mod recorder;
mod sys;
mod writer;

pub use doctor::{doctor, Check, Verdict};
pub use error::RecordError;
pub use recorder::{Config, Recorder, Running, Summary};
