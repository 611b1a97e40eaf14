//! A real block device that can delay or fail every request: a FUSE file of ours under a loop device.
//!
//! Requests are answered asynchronously, each at its own time, so that a delayed one does not hold its neighbours.
//! With a modelled drive (see [`Model`]) each takes what the drive would take.
//! What was injected is counted and can be logged: it is the truth that detectors are tested against.
#![warn(clippy::undocumented_unsafe_blocks)]

mod clock;
mod device;
mod disk;
mod error;
mod fault;
mod inject;
mod kernel;
mod log;
mod loopdev;
mod model;
mod process;
mod serve;
mod store;
mod timer;
mod units;

pub use device::{Config, Slowdisk, Stats, SIZE_UNIT_BYTES};
pub use error::{FaultError, SlowdiskError};
pub use fault::{Fault, Kind, Op, Rate, FAULT_HELP};
pub use inject::FaultStats;
pub use model::{Command, Model, Served, Station};
pub use serve::{describe, serve, Options};
pub use timer::Lateness;
