//! The block probe: loads `block.bpf.o`, attaches it, reads its ring and its counters.
//!
//! # When an interrupt begins
//!
//! `irq_ns` is the entry of the handler that led to the completion, clipped to the issue (a handler that was
//! already running may notice a request issued meanwhile); `vector` is its Linux irq number.
//!
//! - One delivery of an interrupt line is one run: it begins with the first handler; further handlers of the same
//!   line (a shared line calls them one after the other) continue it.
//! - A softirq belongs to the run with the handler that raised it (`softirq_raise` inside the handler), also when it
//!   is executed later by ksoftirqd. A softirq that no handler raised (raised by a task, by another CPU's call, by a
//!   handler that has no irq number such as the local timer) begins its own run: `vector` is -1 and `irq_ns` its
//!   entry.
//! - A completion outside of both (a task, a threaded handler, polling) has `irq_ns` 0 and `vector` -1.
//!
//! Limits. Requests that were added to a softirq which was pending already share the run that raised it. Two
//! deliveries directly after each other are two runs, so time that a handler of another line kept this CPU's
//! interrupts disabled counts before `irq_ns`. On PREEMPT_RT softirqs can be preempted, and the rule does not hold.
//!
//! # What can pass unseen
//!
//! A program is not run while it runs already on that CPU (`recursion_misses`, counted by the kernel). Some kernels
//! also do not run BPF programs while certain tasks are current; one virtual machine did so for the threads of
//! process 1, and every completion in a softirq that had interrupted one of them was missed, uncounted. So completions
//! are missed on principle, and noticed: the request is started anew, or the kernel has freed it
//! (`look_after`). The kernel's own event tracing still shows when it completed ([`hidden`]); what is
//! not found there either is a loss, `no_complete`.
mod hidden;
mod layout;
mod log;
mod object;
mod scoped;

use crate::load::{has_tracepoint, refused, Context, Kernel, SCOPE_CHANGE};
use crate::plain::read;
use crate::pool::Pool;
use crate::probe::{Batch, Counts, Finished, Hooks, Log, Need, Probe, Target};
use crate::rings::{records_per_cpu, Rings, Shared};
use crate::scope::{Change, InFlight, Whose};
use crate::{error::RecordError, host, sys};
use aya::maps::{Array, HashMap, MapData, RingBuf};
use case::meta::Unseen;
use case::rows::BlockRow;
use case::CaseError;
use hidden::Hidden;
pub use hidden::FOLLOWER;
pub use layout::{errno, BlockRecord, Owner, SLOT_SCOPED, SLOT_THROTTLED};
use layout::{CarrierRecord, Counters, MergeRecord, OverflowSlot, Slot, Unfinished, SLOT_OWN};
use log::{BlockLog, Drained};
pub use object::{bio_globals, join_obstacle, join_symbols, join_tgid};
use std::collections::BTreeMap;
use std::mem::offset_of;

/// CPUs with interrupts that the programs can follow (`CPUS_MAX`).
const CPUS_MAX: u32 = 1024;

/// Slots of the table of requests in flight (`SLOTS_LOG2`), and how many one run of [`RELEASE_STALE`] looks at.
const SLOTS: u64 = 1 << 15;
const SLOTS_PER_RUN: usize = 1024;

/// The program that is run, not attached.
const RELEASE_STALE: &str = "release_stale";

const OVERFLOW_SLOT_BYTES: usize = size_of::<OverflowSlot>();
/// An [`Owner`] in a cache line of its own (`struct kept_owner`).
const OWNER_BYTES: usize = 64;

/// Hooks in the order of attaching: ends before begins, so that no request can begin seen and end unseen.
/// A program has the name of its tracepoint.
pub const HOOKS: Hooks = &[
    ("block_rq_complete", Need::Must),
    ("block_rq_merge", Need::Must),
    ("block_rq_requeue", Need::Fact("requeues of block requests")),
    ("block_rq_issue", Need::Must),
    // Only in a recording of some processes.
    ("sched_process_fork", Need::Alternative),
    (
        "block_rq_insert",
        Need::Fact("when block requests entered the I/O scheduler"),
    ),
    ("softirq_exit", Need::Fact(INTERRUPTS)),
    ("softirq_entry", Need::Fact(INTERRUPTS)),
    ("softirq_raise", Need::Fact(INTERRUPTS)),
    ("irq_handler_exit", Need::Fact(INTERRUPTS)),
    ("irq_handler_entry", Need::Fact(INTERRUPTS)),
    (
        "block_bio_queue",
        Need::Fact("when the bios behind block requests were queued"),
    ),
    ("block_io_start", Need::Fact(START)),
    ("block_getrq", Need::Fact(START)),
];

const INTERRUPTS: &str = "interrupts that complete block requests";
const START: &str = "who submitted a block request, and its start";

/// The map of owners, by the index of the request's slot.
type Owners<'a> = Array<&'a MapData, [u8; OWNER_BYTES]>;

/// The loaded and attached probe.
struct BlockProbe {
    kernel: Kernel,
    rings: Rings<BlockRecord>,
    merges: RingBuf<MapData>,
    carriers: RingBuf<MapData>,
    unfinished: RingBuf<MapData>,
    /// `None` where the kernel's event tracing cannot be used.
    hidden: Option<Hidden>,
    /// Requests that were found to be unfinished, without a completion anywhere.
    never_completed: u64,
    drained: Drained,
    used: Pool<Drained>,
    /// The table of requests in flight, as the kernel programs see it.
    slots: Shared<Slot>,
    /// Completions without a known begin at the first look: of requests in flight when the recording began.
    in_flight_at_begin: Option<u64>,
}

/// Records that each CPU's ring holds, of rings that together take about this many bytes.
pub fn ring_records(ring_bytes: u32) -> u32 {
    records_per_cpu::<BlockRecord>(ring_bytes, host::cpus_possible())
}

/// Loads and attaches the probe.
pub fn attach(context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    let config = context.config;
    if !(64 << 10..=1 << 30).contains(&config.ring_bytes) {
        return Err(RecordError::Setting {
            name: "ring_bytes",
            expected: "65536 to 1073741824".into(),
            found: config.ring_bytes.to_string(),
        });
    }
    let btf = context.btf()?;
    let start_exists = has_tracepoint(btf, "block_io_start") && !config.start_at_getrq;
    let follow_interrupts = host::cpus_possible() <= CPUS_MAX;
    let mut kernel = object::load(btf, config, !start_exists)?;
    kernel.load_runnable(RELEASE_STALE)?;
    kernel.load_runnable(SCOPE_CHANGE)?;
    let mut probe = BlockProbe::new(kernel, config.ring(config.ring_bytes), config.table_taken)?;
    probe
        .kernel
        .attach(context, HOOKS, |tracepoint, need| match tracepoint {
            "block_io_start" => start_exists,
            "block_getrq" => !start_exists,
            "sched_process_fork" => config.only_processes(),
            _ => need != Need::Fact(INTERRUPTS) || follow_interrupts,
        })?;
    if !follow_interrupts {
        let because = format!("more than {CPUS_MAX} possible CPUs");
        probe.kernel.miss(INTERRUPTS, &because);
    }
    Ok(Box::new(probe))
}

/// Rows of the requests in a batch of this probe. Their keys are not unique.
pub fn rows(batch: Batch) -> impl Iterator<Item = BlockRow> {
    let records: Box<Drained> = batch.data.downcast().expect("the block probe's own records");
    records.requests.into_iter().map(|record| record.row(0))
}

impl BlockProbe {
    fn new(mut kernel: Kernel, ring_bytes: u32, table_taken: bool) -> Result<BlockProbe, RecordError> {
        let cpus = host::cpus_possible();
        let length = ring_records(ring_bytes);
        let (ends, records) = (kernel.array("ring_ends")?, kernel.array("ring")?);
        let rings = Rings::map(ends, records, cpus, length).map_err(|error| refused("ring", &error))?;
        let slots = Shared::map(kernel.array("slots")?, SLOTS as usize);
        let slots = slots.map_err(|error| refused("slots", &error))?;
        if table_taken {
            // No request has this address.
            (0..SLOTS as usize).for_each(|index| slots.set(index, offset_of!(Slot, request), u64::MAX));
        }
        let merges = kernel.take_ring("merges")?;
        let carriers = kernel.take_ring("carriers")?;
        let unfinished = kernel.take_ring("unfinished")?;
        Ok(BlockProbe {
            kernel,
            rings,
            merges,
            carriers,
            unfinished,
            hidden: Hidden::start(cpus).ok(),
            never_completed: 0,
            drained: Drained::with_room(),
            used: Pool::default(),
            slots,
            in_flight_at_begin: None,
        })
    }

    fn drain_unfinished(&mut self) {
        let mut unfinished = Vec::new();
        while let Some(item) = self.unfinished.next() {
            unfinished.extend(read::<Unfinished>(&item));
        }
        if let Some(hidden) = &mut self.hidden {
            hidden.tend();
            hidden.resolve(&mut unfinished, &mut self.drained.requests);
        }
        self.never_completed += unfinished.len() as u64;
    }

    fn owners(&self) -> Result<Owners<'_>, RecordError> {
        Array::try_from(self.kernel.map("slot_owners")?).map_err(|error| refused("slot_owners", &error))
    }

    /// Requests in flight that are `wanted` and not the recorder's own, with their owners as far as they are known.
    fn taken(&self, wanted: impl Fn(&Slot) -> bool) -> Result<Vec<(Slot, Owner)>, RecordError> {
        let wanted = |slot: &Slot| slot.active != 0 && slot.facts.flags & SLOT_OWN == 0 && wanted(slot);
        let owners = self.owners()?;
        let in_table = self.slots.copies_with(offset_of!(Slot, active));
        let in_table = in_table.filter(|slot| wanted(slot));
        let mut taken: Vec<_> = in_table
            .map(|slot| (slot, owner_of(&owners, &slot).unwrap_or_default()))
            .collect();
        let overflow: HashMap<_, u64, [u8; OVERFLOW_SLOT_BYTES]> =
            HashMap::try_from(self.kernel.map("overflow")?).map_err(|error| refused("overflow", &error))?;
        let in_overflow = overflow
            .iter()
            .filter_map(|entry| read::<OverflowSlot>(&entry.ok()?.1));
        let in_overflow = in_overflow.filter(|further| wanted(&further.slot));
        taken.extend(in_overflow.map(|further| match further.slot.facts.issue_ns {
            0 => (further.slot, Owner::default()),
            _ => (further.slot, further.owner),
        }));
        Ok(taken)
    }

    /// Requests that are still open at `end_ns`, the recorder's own left out; and those that had completed unseen.
    fn open_requests(&mut self, end_ns: u64) -> Result<Vec<BlockRecord>, RecordError> {
        let unfinished = |(slot, owner)| Unfinished {
            slot,
            before_ns: end_ns,
            owner,
        };
        let mut open: Vec<Unfinished> = self.taken(|_| true)?.into_iter().map(unfinished).collect();
        let mut rows = Vec::new();
        if let Some(hidden) = &mut self.hidden {
            hidden.resolve(&mut open, &mut rows);
        }
        let still_open = open.into_iter();
        rows.extend(still_open.map(|request| request.slot.open_record(request.owner)));
        Ok(rows)
    }
}

impl Probe for BlockProbe {
    fn attached(&self) -> &[String] {
        &self.kernel.attached
    }

    fn unseen(&self) -> &[Unseen] {
        &self.kernel.unseen
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(BlockLog::create(target, self.used.clone())?))
    }

    fn follow(&mut self, changes: &[Change]) -> Result<(), RecordError> {
        self.kernel.follow(changes)
    }

    fn forget_ended(&mut self) -> Result<(), RecordError> {
        self.kernel.forget_ended()
    }

    fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        self.kernel.set_recording(on)
    }

    fn drain(&mut self) -> u64 {
        let before = self.drained.requests.len();
        self.rings.drain(&mut self.drained.requests);
        while let Some(item) = self.merges.next() {
            self.drained.merges.extend(read::<MergeRecord>(&item));
        }
        while let Some(item) = self.carriers.next() {
            self.drained.carriers.extend(read::<CarrierRecord>(&item));
        }
        self.drain_unfinished();
        (self.drained.requests.len() - before) as u64
    }

    fn waiting(&self) -> usize {
        self.drained.requests.len()
    }

    fn take(&mut self) -> Option<Batch> {
        if self.drained.len() == 0 {
            return None;
        }
        let full = std::mem::replace(
            &mut self.drained,
            self.used.take().unwrap_or_else(Drained::with_room),
        );
        Some(Batch {
            records: full.len() as u64,
            bytes: full.bytes(),
            data: Box::new(full),
        })
    }

    /// Ends the slots of requests with a completion that passed unseen (the kernel has freed the request), so that
    /// what is in the table is in flight. The next drain looks for their completions.
    fn look_after(&mut self) -> Result<(), RecordError> {
        let mut firsts = (0..SLOTS).step_by(SLOTS_PER_RUN);
        firsts.try_for_each(|first| self.kernel.run(RELEASE_STALE, first))
    }

    fn counts(&mut self) -> Result<Counts, RecordError> {
        let mut bytes = [0; size_of::<Counters>()];
        self.kernel.read_counters(&mut bytes)?;
        let counters: Counters = read(&bytes).unwrap_or_default();
        let in_flight = *self.in_flight_at_begin.get_or_insert(counters.no_state);
        Ok(Counts {
            lost: vec![
                ("no_state", counters.no_state - in_flight),
                ("ring_full", counters.ring_full),
                ("merge_ring_full", counters.merge_ring_full),
                ("map_full", counters.map_full),
                ("no_complete", counters.no_complete + self.never_completed),
                ("merge_walk_cut", counters.walk_cut),
                ("scope_full", counters.scope_full),
                ("carrier_ring_full", counters.carrier_ring_full),
                ("carriers_cut", counters.carriers_cut),
            ],
            out_of_scope: 0,
            own_excluded: counters.own_requests,
            own_excluded_bytes: counters.own_bytes,
            notes: vec![
                ("in_flight_at_begin", in_flight),
                ("requests_merged", counters.requests_merged),
                ("partial_completions", counters.partial),
                ("slot_overflows", counters.overflow),
                ("queue_unseen", counters.queue_unseen),
            ],
        })
    }

    fn program_counts(&self) -> BTreeMap<String, sys::ProgramCounts> {
        self.kernel.program_counts()
    }

    fn detach(&mut self) {
        self.kernel.detach();
    }

    fn in_flight(&self, begin_ns: u64, now_ns: u64) -> Vec<InFlight> {
        let taken = self.taken(|slot| slot.active < begin_ns).unwrap_or_default();
        taken
            .into_iter()
            .map(|(slot, owner)| InFlight {
                operation: slot.operation(now_ns),
                whose: Whose::Request(slot.open_record(owner)),
            })
            .collect()
    }

    fn open_now(&mut self, now_ns: u64) -> Result<Option<Batch>, RecordError> {
        let open = Drained {
            requests: self.open_requests(now_ns)?,
            ..Drained::default()
        };
        Ok(Some(Batch {
            records: open.len() as u64,
            bytes: open.bytes(),
            data: Box::new(open),
        }))
    }

    fn finish(&mut self, end_ns: u64) -> Result<Finished, RecordError> {
        let requests = self.open_requests(end_ns)?;
        let open = requests.iter().filter(|request| request.complete_ns == 0).count();
        let events = requests.len() as u64;
        self.drained.requests.extend(requests);
        Ok(Finished {
            events,
            open: open as u64,
        })
    }
}

/// Who is behind a request in flight; known from its issue on.
fn owner_of(owners: &Owners<'_>, slot: &Slot) -> Option<Owner> {
    let bytes = owners.get(&u32::from(slot.facts.index), 0).ok()?;
    read::<Owner>(&bytes[..size_of::<Owner>()]).filter(|_| slot.facts.issue_ns != 0)
}
