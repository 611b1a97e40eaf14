//! Block requests of a limited recording: kept back until their owner is known.
//!
//! A request may be submitted by a worker of the kernel for an operation in the scope, and completes before that
//! operation does. So requests wait, in their order, for as long as it usually takes until the operation has ended.
use super::layout::{BlockRecord, CarrierRecord, MergeRecord, Owner, SLOT_KERNEL, SLOT_THROTTLED};
use super::log::Drained;
use crate::probe::SharedFilter;
use crate::scope::Verdict;
use crate::sys;
use std::collections::{HashMap, VecDeque};

/// How long after its completion a request is judged.
const PATIENCE_NS: u64 = 500_000_000;

/// Requests that may wait (57 MB); more are judged at once.
const WAITING_MAX: usize = 1 << 18;

/// Bios, and what carriers waited for, that may wait for their request. More are those of requests with a lost end.
const MERGES_MAX: usize = 1 << 17;

/// Requests that wait to be judged.
pub struct Scoped {
    filter: SharedFilter,
    waiting: VecDeque<BlockRecord>,
    merges: HashMap<u64, Vec<MergeRecord>>,
    merges_waiting: usize,
    carriers: HashMap<u64, Vec<CarrierRecord>>,
    carriers_waiting: usize,
    /// Requests that were left out.
    pub outside: u64,
    /// Requests of others that were kept without what tells what they were for.
    pub competing: u64,
}

impl Scoped {
    /// Nothing waits.
    pub fn new(filter: SharedFilter) -> Scoped {
        Scoped {
            filter,
            waiting: VecDeque::new(),
            merges: HashMap::new(),
            merges_waiting: 0,
            carriers: HashMap::new(),
            carriers_waiting: 0,
            outside: 0,
            competing: 0,
        }
    }

    /// Takes what came, and gives what can be judged by now.
    pub fn pass(&mut self, came: &Drained) -> Drained {
        let filter = self.filter.clone();
        let mut filter = filter.lock().expect("no thread panics with the lock");
        for merge in &came.merges {
            self.merges.entry(merge.merge_key).or_default().push(*merge);
            self.merges_waiting += 1;
        }
        if self.merges_waiting > MERGES_MAX {
            self.merges.clear();
            self.merges_waiting = 0;
        }
        for carrier in &came.carriers {
            self.carriers
                .entry(carrier.carrier_key)
                .or_default()
                .push(*carrier);
            self.carriers_waiting += 1;
        }
        if self.carriers_waiting > MERGES_MAX {
            self.carriers.clear();
            self.carriers_waiting = 0;
        }
        came.requests.iter().for_each(|request| filter.note(request));
        self.waiting.extend(&came.requests);
        drop(filter);
        self.judge_until(sys::monotonic_ns().saturating_sub(PATIENCE_NS))
    }

    /// Judges all that completed before `until_ns`; open requests count as completed at once.
    pub fn judge_until(&mut self, until_ns: u64) -> Drained {
        let filter = self.filter.clone();
        let mut filter = filter.lock().expect("no thread panics with the lock");
        let mut judged = Drained::default();
        while let Some(request) = self.waiting.front().copied() {
            if request.complete_ns > until_ns && self.waiting.len() <= WAITING_MAX {
                break;
            }
            self.waiting.pop_front();
            let merges = match request.facts.merge_key {
                0 => Vec::new(),
                key => self.merges.remove(&key).unwrap_or_default(),
            };
            self.merges_waiting -= merges.len();
            let carriers = match request.facts.merge_key {
                0 => Vec::new(),
                key => self.carriers.remove(&key).unwrap_or_default(),
            };
            self.carriers_waiting -= carriers.len();
            match filter.judge(&request) {
                Verdict::Within => {
                    judged.requests.push(request);
                    judged.merges.extend(merges);
                    judged.carriers.extend(carriers);
                }
                Verdict::Competing => {
                    self.competing += 1;
                    judged.requests.push(without_its_doing(request));
                    judged.carriers.extend(carriers);
                }
                Verdict::Outside => self.outside += 1,
            }
        }
        judged
    }
}

/// The request, and which program and process made it: without thread, file, control group and what ties it to calls.
fn without_its_doing(mut request: BlockRecord) -> BlockRecord {
    request.owner = Owner::default();
    let facts = &mut request.facts;
    if facts.flags & SLOT_KERNEL == 0 {
        facts.tid = -1;
    }
    facts.op_id = 0;
    if facts.merges > 0 {
        // Its bios would tell.
        facts.merge_key = 0;
    }
    facts.flags &= SLOT_THROTTLED | SLOT_KERNEL;
    request
}
