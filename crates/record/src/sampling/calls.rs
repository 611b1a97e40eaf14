//! Calls of a recording with a CPU budget. Their fate is known when they end; how many were in flight beside them, a while later.
use super::slow::octave;
use super::{sampled, Fate, Sampler, SharedSampler, LONG_NS, NO_PANIC, PATIENCE_NS};
use crate::sys;
use case::rows::{syscall_flags, SyscallRow, Via};
use case::schema::Op;
use std::collections::VecDeque;

/// Calls that are kept and wait to be written (42 MB); more are written at once.
const WAITING_MAX: usize = 1 << 18;

/// Calls that wait to be written.
pub struct SampledCalls {
    sampler: SharedSampler,
    /// With the time at which they came; each with its level.
    waiting: VecDeque<(u64, Vec<(SyscallRow, u32)>)>,
    waiting_count: usize,
}

/// Whether a call may be left out at all: a read or write that went as most do.
fn is_plain(call: &SyscallRow) -> bool {
    const NOT: u32 = syscall_flags::SYNC | syscall_flags::END_UNSEEN | syscall_flags::BEGIN_UNSEEN;
    let moves_data = matches!(Op::from_raw(call.op), Some(Op::Read | Op::Write));
    let whole = call.start_ns != 0 && call.end_ns != 0 && call.flags & NOT == 0;
    moves_data && whole && call.result >= 0
}

impl Sampler {
    /// What becomes of a call; its requests learn of it where they would not draw the same.
    fn judge_call(&mut self, call: &SyscallRow) -> Fate {
        let key = match call.owner_key {
            0 => call.tid as u64,
            key => key,
        };
        if call.via == Via::Wait as u8 {
            // It is no operation, only says when a thread waited for some.
            return self.draw.fate(key, call.start_ns);
        }
        if call.start_ns == 0 || call.end_ns == 0 {
            return Fate::Always;
        }
        let latency_ns = call.end_ns.saturating_sub(call.start_ns);
        if latency_ns <= LONG_NS {
            self.call_depths.add(call.tid as u64, call.start_ns, call.end_ns);
        }
        let slow = self
            .slow_calls
            .note((call.device, call.op, octave(call.size_bytes)), latency_ns);
        let owned = call.owner_key != 0;
        let above_slow = || owned && self.requests.touching(key, call.start_ns, call.end_ns).is_some();
        let fate = if slow || !is_plain(call) || above_slow() {
            Fate::Always
        } else {
            self.draw.fate(key, call.start_ns)
        };
        // Requests that may draw another fate than their call, and those of a call that is kept anyway.
        if owned && (fate == Fate::Always || !self.draw.same_fate(key, call.start_ns, call.end_ns)) {
            self.calls.add(key, (call.start_ns, call.end_ns), fate);
        }
        fate
    }

    fn mark_of_call(&self, call: &SyscallRow, level: u32) -> u32 {
        if !self.draw.may_lack(call.start_ns) {
            return 0;
        }
        let depth = self.call_depths.at(call.tid as u64, call.start_ns);
        sampled::mark(level, depth, false)
    }
}

impl SampledCalls {
    /// Nothing waits.
    pub fn new(sampler: SharedSampler) -> SampledCalls {
        SampledCalls {
            sampler,
            waiting: VecDeque::new(),
            waiting_count: 0,
        }
    }

    /// Takes what came together.
    pub fn take_in(&mut self, calls: impl Iterator<Item = SyscallRow>) {
        let mut sampler = self.sampler.lock().expect(NO_PANIC);
        let mut kept = Vec::new();
        for call in calls {
            match sampler.judge_call(&call).level() {
                Some(level) => kept.push((call, level)),
                None => sampler.calls_left_out += u64::from(call.via != Via::Wait as u8),
            }
        }
        sampler.call_depths.close();
        self.waiting_count += kept.len();
        self.waiting.push_back((sys::monotonic_ns(), kept));
    }

    /// Rows that have waited long enough, or all, in parts; to be called until there are none.
    pub fn give(&mut self, all: bool) -> Option<Vec<SyscallRow>> {
        let until_ns = sys::monotonic_ns().saturating_sub(PATIENCE_NS);
        let (came_ns, _) = self.waiting.front()?;
        if !all && *came_ns > until_ns && self.waiting_count <= WAITING_MAX {
            return None;
        }
        let (_, kept) = self.waiting.pop_front()?;
        self.waiting_count -= kept.len();
        let sampler = self.sampler.lock().expect(NO_PANIC);
        let marked = |(mut call, level): (SyscallRow, u32)| {
            call.flags |= sampler.mark_of_call(&call, level);
            call
        };
        Some(kept.into_iter().map(marked).collect())
    }
}
