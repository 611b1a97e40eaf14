//! Where the file system has put a file: measured, made worse on purpose, made better.
//!
//! Nothing but the file asked for is ever changed, and that only by steps after each of which it is whole: the kernel's own exchange
//! of blocks, or a complete copy that takes its place at once. Whatever moves blocks reads the contents before and after.
mod checksum;
mod error;
mod fiemap;
mod fragment;
mod job;
mod kernel;
mod measure;
mod reallocate;
mod replace;
mod score;

pub use error::LayoutError;
pub use fragment::{fragment, Fragmented};
pub use job::{jobs, Job, JobState};
pub use kernel::FileSystem;
pub use measure::{files_below, measure, request_bytes_of, Measured};
pub use reallocate::{reallocate, Method, Options, Outcome, Reallocated};
pub use score::{Extent, Layout};

/// Hears how far the work is: bytes done, bytes in all. `false` asks to stop at the next point where the file is whole.
pub type Tell<'a> = dyn FnMut(u64, u64) -> bool + 'a;
