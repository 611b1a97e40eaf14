//! Sampling above a CPU budget: of typical operations a declared part is kept, of all others every one.
//!
//! Most of what a row costs the recorder is to turn it into columns, compress and write it (about four fifths; the rest is to take
//! it out of the ring). So the fate of rows is decided in the thread `whodisk-log`, before that. It sees every operation, and
//! so knows what no sample would tell:
//!
//! - **Which are slow** ([`Slow`]), and that the requests of a slow call, however typical, must be kept: requests wait half a second for
//!   the end of their call, as those of a limited recording do.
//! - **Queue depth** ([`Depths`]): a kept row carries how many were in flight when it began, all of them.
//! - **Silences** ([`Busy`]): rows before and after one are always kept, and marked.
//!
//! The fate of a typical operation is drawn by hash ([`Draw`]) of what a call and its requests share, its owner and the time:
//! so they go together. Kept are always, with weight 1: what is slow; what failed, was requeued, merged, throttled, is open; what is no
//! plain read or write; requests of a page cache or file system (no direct I/O); those of our own engine.
mod budget;
mod busy;
mod calls;
mod depths;
mod draw;
mod fast_map;
mod requests;
mod slow;
mod spans;
#[cfg(test)]
mod tests;

pub use budget::{Budget, Level};
pub use calls::SampledCalls;
pub use requests::SampledRequests;

use busy::Busy;
use case::rows::sampled::{self, LONG_NS};
use depths::Depths;
use draw::Draw;
use slow::Slow;
use spans::Spans;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How long a request waits for the end of its call, and a call for what began beside it.
const PATIENCE_NS: u64 = 500_000_000;

/// How long back queue depths are known.
const DEPTH_MEMORY_NS: u64 = 4_000_000_000;

// What is in flight beside a row and may be left out is known when the row is judged.
const _: () = assert!(2 * LONG_NS <= PATIENCE_NS);

const NO_PANIC: &str = "no thread panics with the lock";

/// Shared by the logs of block requests and of system calls, and by the loop that holds the budget.
pub type SharedSampler = Arc<Mutex<Sampler>>;

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Kept whatever was drawn: weight 1.
    Always,
    /// Typical, and drawn: it stands for 2^level.
    Drawn(u32),
    /// Typical, and left out.
    LeftOut,
}

impl Fate {
    /// The level that its row carries; `None`: it has no row.
    fn level(self) -> Option<u32> {
        match self {
            Fate::Always => Some(0),
            Fate::Drawn(level) => Some(level),
            Fate::LeftOut => None,
        }
    }
}

/// What was left out of one device's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is known of all operations, kept or not.
pub struct Sampler {
    draw: Draw,
    slow_requests: Slow,
    slow_calls: Slow,
    /// Calls with requests that do not have the fate that they draw themselves: kept for being slow, or across the border of two draws.
    calls: Spans<Fate>,
    /// Slow requests: their calls are kept, too.
    requests: Spans<()>,
    busy: Busy,
    depths: Depths,
    call_depths: Depths,
    left_out: BTreeMap<u32, LeftOut>,
    calls_left_out: u64,
}

impl Sampler {
    /// Everything is kept for now. `seed`: decides every draw.
    pub fn new(seed: u64) -> Sampler {
        Sampler {
            draw: Draw::new(seed),
            slow_requests: Slow::default(),
            slow_calls: Slow::default(),
            calls: Spans::default(),
            requests: Spans::default(),
            busy: Busy::default(),
            depths: Depths::default(),
            call_depths: Depths::default(),
            left_out: BTreeMap::new(),
            calls_left_out: 0,
        }
    }

    /// From the next draw after `now_ns` on, one typical operation in 2^level is kept. Returns when that is.
    pub fn set_level(&mut self, now_ns: u64, level: u32) -> u64 {
        self.draw.set_level(now_ns, level)
    }

    /// About once a second: what is slow, and what may be forgotten.
    pub fn tend(&mut self, now_ns: u64) {
        self.slow_requests.tend();
        self.slow_calls.tend();
        let old_ns = now_ns.saturating_sub(3 * PATIENCE_NS);
        self.calls.forget_before(old_ns);
        self.requests.forget_before(old_ns);
        let old_ns = now_ns.saturating_sub(DEPTH_MEMORY_NS);
        self.depths.forget_before(old_ns);
        self.call_depths.forget_before(old_ns);
        self.busy.forget_before(now_ns);
    }

    /// Requests and bytes left out, by device.
    pub fn left_out(&self) -> &BTreeMap<u32, LeftOut> {
        &self.left_out
    }

    /// Calls left out.
    pub fn calls_left_out(&self) -> u64 {
        self.calls_left_out
    }
}
