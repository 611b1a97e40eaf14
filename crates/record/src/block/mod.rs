//! The block probe: loads `block.bpf.o`, attaches it, reads its ring and its counters.
//!
//! # When an interrupt begins
//!
//! `irq_ns` is the entry of the handler that led to the completion, clipped to the issue (a handler that was
//! already running may notice a request issued meanwhile); `vector` is its Linux irq number.
//!
//! - One delivery of an interrupt line is one run: it begins with the first handler; further handlers of the same
//!   line (a shared line calls them one after the other) continue it.
//! - A softirq belongs to the run whose handler raised it (`softirq_raise` inside the handler), also when it
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
//! ([`BlockProbe::release_stale`]). The kernel's own event tracing still shows when it completed ([`hidden`]); what is
//! not found there either is a loss, `no_complete`.
mod hidden;
mod layout;
mod ring;
mod tracefs;

use crate::{error::RecordError, host, sys};
use aya::maps::{Array, HashMap, Map, MapData, RingBuf};
use aya::programs::{tp_btf::BtfTracePointLink, BtfTracePoint, RawTracePoint};
use aya::{include_bytes_aligned, Btf, Ebpf, EbpfLoader};
use case::meta::Unseen;
use hidden::Hidden;
pub use layout::{BlockRecord, Counters, MergeRecord};
use layout::{Slot, Unfinished};
use ring::Rings;
use std::collections::BTreeMap;
use std::os::fd::AsFd;

static OBJECT: &[u8] = include_bytes_aligned!("block.bpf.o");

/// CPUs whose interrupts the programs can follow (`CPUS_MAX`).
const CPUS_MAX: u32 = 1024;

/// Slots of the table of requests in flight (`SLOTS_LOG2`), and how many one run of [`RELEASE_STALE`] looks at.
const SLOTS: u64 = 1 << 15;
const SLOTS_PER_RUN: usize = 1024;

/// The program that is run, not attached.
const RELEASE_STALE: &str = "release_stale";

const SLOT_BYTES: usize = size_of::<Slot>();

/// Why a hook is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No recording without it.
    Must,
    /// Without it a fact is missing; the text names the fact.
    Fact(&'static str),
    /// Used only where `block_io_start` does not exist.
    InsteadOfStart,
}

/// Hooks in the order of attaching: ends before begins, so that no request can begin seen and end unseen.
/// A program has the name of its tracepoint.
pub const HOOKS: [(&str, Need); 13] = [
    ("block_rq_complete", Need::Must),
    ("block_rq_merge", Need::Must),
    ("block_rq_requeue", Need::Fact("requeues of block requests")),
    ("block_rq_issue", Need::Must),
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
    (
        "block_io_start",
        Need::Fact("who submitted a block request, and its start"),
    ),
    ("block_getrq", Need::InsteadOfStart),
];

const INTERRUPTS: &str = "interrupts that complete block requests";

/// Kernel functions by which a bio's owner is recognised.
const SPLIT_SYMBOL: &str = "bio_chain_endio";
const OWNER_SYMBOLS: [&str; 3] = [
    "iomap_dio_bio_end_io",
    "blkdev_bio_end_io",
    "blkdev_bio_end_io_async",
];
const URING_SYMBOLS: [&str; 2] = ["io_complete_rw", "io_complete_rw_iopoll"];

/// The loaded and attached probe.
pub struct BlockProbe {
    ebpf: Ebpf,
    rings: Rings,
    merges: RingBuf<MapData>,
    unfinished: RingBuf<MapData>,
    /// `None` where the kernel's event tracing cannot be used.
    hidden: Option<Hidden>,
    /// Requests that were found to be unfinished, and whose completion was found nowhere.
    never_completed: u64,
    links: Vec<BtfTracePointLink>,
    /// Tracepoints it is attached to.
    pub attached: Vec<String>,
    /// Facts that this host does not let us see.
    pub unseen: Vec<Unseen>,
}

/// What came out of the ring since the last drain.
#[derive(Default)]
pub struct Drained {
    /// Requests in the order of completion.
    pub requests: Vec<BlockRecord>,
    /// Bios beyond the first.
    pub merges: Vec<MergeRecord>,
}

impl Drained {
    /// Memory that the records take.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.requests[..]) + size_of_val(&self.merges[..])
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.merges.is_empty()
    }
}

impl BlockProbe {
    /// Loads and attaches. Nothing is recorded before [`BlockProbe::set_recording`].
    pub fn attach(
        ring_bytes: u32,
        join_tgid: Option<u32>,
        start_at_getrq: bool,
    ) -> Result<BlockProbe, RecordError> {
        check_host()?;
        let btf = Btf::from_sys_fs().map_err(|error| RecordError::NoBtf {
            found: error.to_string(),
        })?;
        let mut unseen = Vec::new();
        let start_exists = has_tracepoint(&btf, "block_io_start") && !start_at_getrq;
        let ebpf = load_object(&btf, ring_bytes, join_tgid, !start_exists, &mut unseen)?;
        let mut probe = BlockProbe::new(ebpf, ring_bytes, unseen)?;
        load_release_stale(&mut probe.ebpf).map_err(|cause| refused_text(RELEASE_STALE, cause))?;
        for (tracepoint, need) in HOOKS {
            let wanted = match tracepoint {
                "block_io_start" => start_exists,
                "block_getrq" => !start_exists,
                _ => need != Need::Fact(INTERRUPTS) || host::cpus_possible() <= CPUS_MAX,
            };
            if wanted {
                probe.attach_hook(&btf, tracepoint, need)?;
            }
        }
        if host::cpus_possible() > CPUS_MAX {
            let because = format!("more than {CPUS_MAX} possible CPUs");
            probe.unseen.push(Unseen {
                what: INTERRUPTS.into(),
                because,
            });
        }
        Ok(probe)
    }

    fn new(mut ebpf: Ebpf, ring_bytes: u32, unseen: Vec<Unseen>) -> Result<BlockProbe, RecordError> {
        let cpus = host::cpus_possible();
        let length = ring::records_per_cpu(ring_bytes, cpus);
        let (ends, records) = (array(&ebpf, "ring_ends")?, array(&ebpf, "ring")?);
        let rings = Rings::map(ends, records, cpus, length).map_err(|error| refused("ring", &error))?;
        let merges = take_ring(&mut ebpf, "merges")?;
        let unfinished = take_ring(&mut ebpf, "unfinished")?;
        let (links, attached) = (Vec::new(), Vec::new());
        Ok(BlockProbe {
            ebpf,
            rings,
            merges,
            unfinished,
            hidden: Hidden::start(cpus).ok(),
            never_completed: 0,
            links,
            attached,
            unseen,
        })
    }

    fn attach_hook(&mut self, btf: &Btf, tracepoint: &str, need: Need) -> Result<(), RecordError> {
        let cause = match try_attach(&mut self.ebpf, btf, tracepoint) {
            Ok(link) => {
                self.links.push(link);
                self.attached.push(tracepoint.to_string());
                return Ok(());
            }
            Err(cause) => cause,
        };
        let what = match need {
            Need::Fact(what) => what,
            Need::InsteadOfStart => "who submitted a block request, and its start",
            Need::Must => {
                let hint = "whodisk is made for Linux 6.1 and later".into();
                return Err(RecordError::Hook {
                    tracepoint: tracepoint.into(),
                    cause,
                    hint,
                });
            }
        };
        let because = format!("kernel tracepoint {tracepoint} cannot be used: {cause}");
        self.unseen.push(Unseen {
            what: what.into(),
            because,
        });
        Ok(())
    }

    /// Begins or ends the recording, for all programs at once.
    pub fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        let value = u32::from(on).to_ne_bytes();
        sys::write_global(array(&self.ebpf, ".data.control")?.fd().as_fd(), &value)
            .map_err(|error| refused("control variable", &error))
    }

    /// Moves everything that waits in the rings into `into`; returns the number of requests.
    pub fn drain(&mut self, into: &mut Drained) -> u64 {
        let before = into.requests.len();
        self.rings.drain(&mut into.requests);
        while let Some(item) = self.merges.next() {
            into.merges.extend(layout::read::<MergeRecord>(&item));
        }
        self.drain_unfinished(&mut into.requests);
        (into.requests.len() - before) as u64
    }

    fn drain_unfinished(&mut self, into: &mut Vec<BlockRecord>) {
        let mut unfinished = Vec::new();
        while let Some(item) = self.unfinished.next() {
            unfinished.extend(layout::read::<Unfinished>(&item));
        }
        if let Some(hidden) = &mut self.hidden {
            hidden.tend();
            hidden.resolve(&mut unfinished, into);
        }
        self.never_completed += unfinished.len() as u64;
    }

    /// The programs' counters.
    pub fn counters(&self) -> Result<Counters, RecordError> {
        let mut bytes = [0u8; size_of::<Counters>()];
        sys::read_global(array(&self.ebpf, ".bss.counters")?.fd().as_fd(), &mut bytes)
            .map_err(|error| refused("counters", &error))?;
        let mut counters: Counters = layout::read(&bytes).unwrap_or_default();
        counters.no_complete += self.never_completed;
        Ok(counters)
    }

    /// `recursion_misses` and, while kernel.bpf_stats_enabled is 1, run times, by tracepoint.
    pub fn program_counts(&self) -> BTreeMap<String, sys::ProgramCounts> {
        let mut counts = BTreeMap::new();
        for name in &self.attached {
            let Some(program) = self.ebpf.program(name) else {
                continue;
            };
            let Ok(fd) = program.fd() else { continue };
            if let Ok(count) = sys::program_counts(fd.as_fd()) {
                counts.insert(name.clone(), count);
            }
        }
        counts
    }

    /// Ends the slots of requests whose completion passed unseen (the kernel has freed the request), so that
    /// what is in the table is in flight. The next drain looks for their completions.
    pub fn release_stale(&self) -> Result<(), RecordError> {
        let program = self
            .ebpf
            .program(RELEASE_STALE)
            .ok_or_else(|| missing_map(RELEASE_STALE))?;
        let fd = program.fd().map_err(|error| refused(RELEASE_STALE, &error))?;
        for first in (0..SLOTS).step_by(SLOTS_PER_RUN) {
            sys::run_program(fd.as_fd(), first).map_err(|error| refused(RELEASE_STALE, &error))?;
        }
        Ok(())
    }

    /// Detaches every program; the ring, the counters and the table stay readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Requests that are still open at `end_ns`, the recorder's own left out; and those that had completed unseen.
    pub fn open_requests(&mut self, end_ns: u64) -> Result<Vec<BlockRecord>, RecordError> {
        let table: Array<_, [u8; SLOT_BYTES]> =
            Array::try_from(self.map("slots")?).map_err(|error| refused("slots", &error))?;
        let overflow: HashMap<_, u64, [u8; SLOT_BYTES]> =
            HashMap::try_from(self.map("overflow")?).map_err(|error| refused("overflow", &error))?;
        let in_table = table.iter().filter_map(Result::ok);
        let in_overflow = overflow.iter().filter_map(|entry| Some(entry.ok()?.1));
        let slots = in_table
            .chain(in_overflow)
            .filter_map(|bytes| layout::read::<Slot>(&bytes));
        let open = slots.filter(|slot| slot.active != 0 && slot.own == 0);
        let before_ns = end_ns;
        let mut open: Vec<Unfinished> = open.map(|slot| Unfinished { slot, before_ns }).collect();
        let mut rows = Vec::new();
        if let Some(hidden) = &mut self.hidden {
            hidden.resolve(&mut open, &mut rows);
        }
        rows.extend(open.into_iter().map(|request| request.slot.open_record()));
        Ok(rows)
    }

    fn map(&self, name: &str) -> Result<&Map, RecordError> {
        self.ebpf.map(name).ok_or_else(|| missing_map(name))
    }
}

fn array<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a MapData, RecordError> {
    match ebpf.map(name) {
        Some(Map::Array(data)) => Ok(data),
        _ => Err(missing_map(name)),
    }
}

fn take_ring(ebpf: &mut Ebpf, name: &str) -> Result<RingBuf<MapData>, RecordError> {
    let map = ebpf.take_map(name).ok_or_else(|| missing_map(name))?;
    RingBuf::try_from(map).map_err(|error| refused(name, &error))
}

fn check_host() -> Result<(), RecordError> {
    host::may_load_tracing().map_err(|found| RecordError::NotPrivileged { found })?;
    if host::locked_down() {
        return Err(RecordError::Lockdown);
    }
    Ok(())
}

/// Whether this kernel has a tracepoint that a BTF program can attach to.
pub fn has_tracepoint(btf: &Btf, name: &str) -> bool {
    let kind = aya_obj::btf::BtfKind::Typedef;
    btf.id_by_type_name_kind(&format!("btf_trace_{name}"), kind)
        .is_ok()
}

/// Functions whose addresses the exact join needs, and those that were found.
pub fn join_symbols() -> (Vec<&'static str>, BTreeMap<String, u64>) {
    let wanted: Vec<&str> = [SPLIT_SYMBOL]
        .into_iter()
        .chain(OWNER_SYMBOLS)
        .chain(URING_SYMBOLS)
        .collect();
    let found = host::kernel_symbols(&wanted);
    (wanted, found)
}

/// Why the exact join cannot work with these symbols; `None` if it can.
pub fn join_obstacle(found: &BTreeMap<String, u64>) -> Option<String> {
    let missing = |names: &[&str]| names.iter().all(|name| !found.contains_key(*name));
    if found.is_empty() {
        let hint = "run as root, with kernel.kptr_restrict at 0 or 1";
        return Some(format!("/proc/kallsyms shows no addresses; {hint}"));
    }
    if missing(&OWNER_SYMBOLS) || missing(&URING_SYMBOLS) {
        return Some("this kernel has no direct I/O through io_uring that we recognise".into());
    }
    None
}

fn load_object(
    btf: &Btf,
    ring_bytes: u32,
    join_tgid: Option<u32>,
    start_at_getrq: bool,
    unseen: &mut Vec<Unseen>,
) -> Result<Ebpf, RecordError> {
    let (_, found) = join_symbols();
    let obstacle = join_tgid.and_then(|_| join_obstacle(&found));
    let tgid = join_tgid.filter(|_| obstacle.is_none()).unwrap_or(0);
    if let Some(because) = obstacle {
        let what = "which block requests belong to which operation of the workload".into();
        unseen.push(Unseen { what, because });
    }
    let symbol = |name: &str| found.get(name).copied().unwrap_or(0);
    let chain = symbol(SPLIT_SYMBOL);
    let [iomap, blkdev, blkdev_async] = OWNER_SYMBOLS.map(symbol);
    let [complete, complete_iopoll] = URING_SYMBOLS.map(symbol);
    let start_at_getrq = u8::from(start_at_getrq);
    let cpus = host::cpus_possible();
    let length = ring::records_per_cpu(ring_bytes, cpus);
    EbpfLoader::new()
        .btf(Some(btf))
        .map_max_entries("ring_ends", cpus)
        .map_max_entries("ring", cpus * length)
        .override_global("ring_records", &length, true)
        .override_global("weakly_ordered", &u8::from(!cfg!(target_arch = "x86_64")), true)
        .override_global("join_tgid", &tgid, true)
        .override_global("start_at_getrq", &start_at_getrq, true)
        .override_global("sym_bio_chain_endio", &chain, true)
        .override_global("sym_iomap_dio_bio_end_io", &iomap, true)
        .override_global("sym_blkdev_bio_end_io", &blkdev, true)
        .override_global("sym_blkdev_bio_end_io_async", &blkdev_async, true)
        .override_global("sym_io_complete_rw", &complete, true)
        .override_global("sym_io_complete_rw_iopoll", &complete_iopoll, true)
        .load(OBJECT)
        .map_err(|error| refused("object", &error))
}

fn try_attach(ebpf: &mut Ebpf, btf: &Btf, tracepoint: &str) -> Result<BtfTracePointLink, String> {
    let program = ebpf
        .program_mut(tracepoint)
        .ok_or("the object has no such program")?;
    let program: &mut BtfTracePoint = program.try_into().map_err(|error| whole(&error))?;
    program.load(tracepoint, btf).map_err(|error| whole(&error))?;
    let id = program.attach().map_err(|error| whole(&error))?;
    let link = program.take_link(id).map_err(|error| whole(&error))?;
    Ok(link)
}

fn load_release_stale(ebpf: &mut Ebpf) -> Result<(), String> {
    let program = ebpf
        .program_mut(RELEASE_STALE)
        .ok_or("the object has no such program")?;
    let program: &mut RawTracePoint = program.try_into().map_err(|error| whole(&error))?;
    program.load().map_err(|error| whole(&error))
}

/// An error with its causes, on one line.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.replace('\n', " ")
}

fn refused(what: &str, error: &dyn std::error::Error) -> RecordError {
    refused_text(what, whole(error))
}

fn refused_text(what: &str, cause: String) -> RecordError {
    let hint = "whodisk is made for Linux 6.1 and later; free memory if it says so".into();
    RecordError::Load {
        what: what.into(),
        cause,
        hint,
    }
}

fn missing_map(name: &str) -> RecordError {
    let cause = format!("map {name} is not in block.bpf.o");
    RecordError::Load {
        what: "object".into(),
        cause,
        hint: "run make bpf".into(),
    }
}
