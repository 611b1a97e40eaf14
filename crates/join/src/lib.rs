//! Events become operations, stages, links and gaps. This crate owns sealing.
//!
//! * [`seal`]: a recorded (or crashed) case to Parquet.
//! * [`pipeline`]: the two passes, from raw rows to sealed rows.
//! * [`stages`]: where the time of one operation went; pure arithmetic.
//! * [`gaps`]: when a thread had nothing in flight.
//! * [`kernel`]: the kernel's flag bits.
//! * [`reorder`], [`merges`], [`children`], [`stream`]: bounded memory.
mod app_side;
mod block_side;
pub mod children;
pub mod gaps;
pub mod kernel;
pub mod merges;
pub mod pipeline;
pub mod reorder;
mod sealing;
pub mod stages;
pub mod stream;
#[cfg(test)]
mod testing;

pub use pipeline::Progress;
pub use sealing::{seal, JoinError, SealSummary};
