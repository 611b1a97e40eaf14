//! Block requests of a recording with a CPU budget: they wait until the call that they were made for has ended.
use super::slow::octave;
use super::{sampled, Fate, Sampler, SharedSampler, LONG_NS, NO_PANIC, PATIENCE_NS};
use crate::block::{BlockRecord, SLOT_THROTTLED};
use crate::sys;
use std::collections::VecDeque;

const REQ_OP_MASK: u32 = 0xff;
const REQ_OP_WRITE: u32 = 1;
/// `REQ_META`, `REQ_FUA`, `REQ_PREFLUSH`, Linux 6.1 to 6.18.
const DURABLE_FLAGS: u32 = 1 << 12 | 1 << 17 | 1 << 18;

/// Requests that may wait (50 MB); more are judged at once.
const WAITING_MAX: usize = 1 << 18;

/// Requests that came together.
struct Came {
    time_ns: u64,
    requests: Vec<BlockRecord>,
    /// Those that are kept whatever is drawn.
    always: Vec<bool>,
}

/// Requests that wait to be judged.
pub struct SampledRequests {
    sampler: SharedSampler,
    waiting: VecDeque<Came>,
    waiting_count: usize,
}

/// When a request was queued, as the seal has it.
fn entry_ns(request: &BlockRecord) -> u64 {
    let facts = &request.facts;
    let entered = [facts.queue_ns, facts.start_ns].into_iter().filter(|ns| *ns != 0);
    let later = || {
        [facts.issue_first_ns, request.complete_ns]
            .into_iter()
            .find(|ns| *ns != 0)
    };
    entered.min().or_else(later).unwrap_or(0)
}

/// Whether a request may be left out at all: a read or write of direct I/O that went as most do.
fn is_plain(request: &BlockRecord) -> bool {
    let (facts, owner) = (&request.facts, &request.owner);
    let moves_data = facts.cmd_flags & REQ_OP_MASK <= REQ_OP_WRITE && facts.size_bytes > 0;
    let durable = facts.cmd_flags & DURABLE_FLAGS != 0;
    let direct = owner.owner_key != 0 && facts.op_id == 0;
    let whole = request.complete_ns != 0 && facts.start_ns != 0;
    let well = facts.status == 0 && request.error == 0 && facts.requeues == 0;
    let single = facts.merges == 0 && facts.merge_key == 0;
    let throttled = facts.flags & SLOT_THROTTLED != 0;
    moves_data && !durable && direct && whole && well && single && !throttled
}

impl Sampler {
    /// Takes note of requests that came together; which of them are kept whatever is drawn.
    fn note_requests(&mut self, requests: &[BlockRecord]) -> Vec<bool> {
        let always = requests
            .iter()
            .map(|request| self.note_request(request))
            .collect();
        self.depths.close();
        always
    }

    fn note_request(&mut self, request: &BlockRecord) -> bool {
        if request.complete_ns == 0 {
            return true;
        }
        let (facts, span) = (&request.facts, (entry_ns(request), request.complete_ns));
        let latency_ns = span.1.saturating_sub(span.0);
        if facts.tid > 0 {
            self.busy.mark(facts.tid, span.0, span.1);
        }
        if latency_ns <= LONG_NS {
            self.depths.add(u64::from(facts.device), span.0, span.1);
        }
        let size = octave(u64::from(facts.size_bytes));
        let slow = self
            .slow_requests
            .note((facts.device, facts.cmd_flags as u8, size), latency_ns);
        let always = slow || !is_plain(request);
        if always && request.owner.owner_key != 0 {
            self.requests.add(request.owner.owner_key, span, ());
        }
        always
    }

    /// What becomes of a request, and the bits of its row.
    fn judge_request(&self, request: &BlockRecord, always: bool) -> (Fate, u32) {
        let start_ns = entry_ns(request);
        let tid = request.facts.tid;
        let silent = self.busy.silent_around(tid, start_ns, request.complete_ns);
        let key = request.owner.owner_key;
        let fate = if always || silent.0 || silent.1 {
            Fate::Always
        } else {
            let of_call = self.calls.touching(key, start_ns, start_ns);
            of_call.unwrap_or_else(|| self.draw.fate(key, start_ns))
        };
        let level = fate.level().filter(|_| self.draw.may_lack(start_ns));
        let mark = level.map_or(0, |level| {
            let depth = self.depths.at(u64::from(request.facts.device), start_ns);
            sampled::mark(level, depth, silent.0)
        });
        (fate, mark)
    }

    fn leave_out_request(&mut self, request: &BlockRecord) {
        let of_device = self.left_out.entry(request.facts.device).or_default();
        of_device.requests += 1;
        of_device.bytes += u64::from(request.facts.size_bytes);
    }
}

impl SampledRequests {
    /// Nothing waits.
    pub fn new(sampler: SharedSampler) -> SampledRequests {
        SampledRequests {
            sampler,
            waiting: VecDeque::new(),
            waiting_count: 0,
        }
    }

    /// Takes what came.
    pub fn take_in(&mut self, requests: Vec<BlockRecord>) {
        let always = self.sampler.lock().expect(NO_PANIC).note_requests(&requests);
        self.waiting_count += requests.len();
        self.waiting.push_back(Came {
            time_ns: sys::monotonic_ns(),
            requests,
            always,
        });
    }

    /// Judges those that have waited long enough, or all: those that are kept go to `keep` with the bits of their rows. Gives back
    /// a buffer, empty, for each that was taken in; to be called until there is none.
    pub fn judge(&mut self, all: bool, mut keep: impl FnMut(&BlockRecord, u32)) -> Option<Vec<BlockRecord>> {
        let until_ns = sys::monotonic_ns().saturating_sub(PATIENCE_NS);
        let first = self.waiting.front()?;
        if !all && first.time_ns > until_ns && self.waiting_count <= WAITING_MAX {
            return None;
        }
        let mut came = self.waiting.pop_front()?;
        self.waiting_count -= came.requests.len();
        let mut sampler = self.sampler.lock().expect(NO_PANIC);
        for (request, always) in came.requests.iter().zip(came.always) {
            match sampler.judge_request(request, always) {
                (Fate::LeftOut, _) => sampler.leave_out_request(request),
                (_, mark) => keep(request, mark),
            }
        }
        came.requests.clear();
        Some(came.requests)
    }
}
