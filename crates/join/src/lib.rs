//! Events become operations, stages, links and gaps. This crate owns sealing.
//!
//! [`seal`] turns a recorded (or crashed) case into Parquet. Inside:
//! * `sealing`: the case's directory and `case.json`;
//! * `pipeline`, `block_side`, `app_side`: the two passes, from raw rows to sealed rows;
//! * `syscalls`: operations of programs, their requests and stages; `own_side`: what the programs say themselves, `peers`: where these waited for each other;
//! * `beside`: tables beside the operations; `files`: names of files;
//! * `volumes`: bios of stacked devices, and the requests below them;
//! * `stages`: where the time of one operation went; pure arithmetic;
//! * `cpu_waits`: when an engine worker had no CPU;
//! * `gaps`: when a thread had nothing in flight;
//! * `kernel`: the kernel's flag bits;
//! * `reorder`, `sorted`, `merges`, `children`, `spans`, `stream`: bounded memory.
mod app_side;
mod beside;
mod block_side;
mod carriers;
#[cfg(test)]
mod carriers_tests;
mod children;
mod cpu_waits;
#[cfg(test)]
mod cpu_waits_tests;
mod files;
mod foreign;
mod gaps;
mod held_back;
mod journals;
mod kernel;
mod merges;
mod own_side;
mod peers;
mod pipeline;
#[cfg(test)]
mod pipeline_tests;
mod reorder;
mod sealing;
mod served;
mod sorted;
mod spans;
mod stages;
mod stops;
mod stream;
mod syscalls;
#[cfg(test)]
mod testing;
mod volumes;
#[cfg(test)]
mod volumes_tests;

pub use pipeline::{Counts, Progress, StreamEnd};
pub use sealing::{seal, JoinError, Rebuilt, SealSummary};
