//! The probe `syscall`: every storage operation of the programs in scope, as they asked for it.
//!
//! # What is an operation
//!
//! Calls on regular files with a backing device and on block devices: reads and writes of all kinds, syncs, copies,
//! allocations, truncations, opens, renames, removals, links, new directories; requests in an io_uring; control blocks of libaio. Syncs of
//! directories, too. Pipes, sockets, what else is done to directories, and files
//! in memory (tmpfs, /proc) are counted and left out, as are calls of 32-bit programs. Files on overlayfs are the real ones below it, named as
//! overlayfs knows them, not as the file system below does. Page faults of mapped files are no calls: the cache probe
//! tells those that wait, and sealing makes operations of them.
//!
//! # When it begins and ends
//!
//! - A system call lasts from the entry into the kernel to the return.
//! - A request in an io_uring lasts from being submitted to its completion being posted. What the program does then is
//!   its own: calls that wait for completions are rows too (`Via::Wait`), and one that returns after a completion
//!   which it waited for marks the earliest moment at which the program can have known.
//! - A control block of libaio begins when the thread enters io_submit, and ends when io_getevents returns with it: no
//!   tracepoint tells when it was complete, but its block requests do. One that goes through the page cache is done by the
//!   submitter itself: that io_submit is a row, too (`Via::Wait`), and when it returned all of them were done. A program that takes events out of the
//!   shared ring by itself is not seen to do so; its operation then stays without an end.
//!
//! Operations are followed from the moment of attaching, which is before the recording begins: those in flight at its
//! begin are whole, unless they are older than that.
mod layout;
mod log;
mod mounts;

use crate::error::RecordError;
use crate::load::{has_tracepoint, refused, Context, Kernel, SCOPE_CHANGE};
use crate::plain::read;
use crate::pool::Pool;
use crate::probe::{Batch, Counts, Finished, Hooks, Log, Need, Probe, Target};
use crate::ring_probe::read_counts;
use crate::rings::{records_per_cpu, Rings, Shared};
use crate::scope::{Change, InFlight};
use crate::{host, kernel, owner, sys};
use aya::maps::{HashMap, MapData, RingBuf};
use aya::{include_bytes_aligned, EbpfLoader};
use case::meta::Unseen;
use case::rows::SyscallRow;
use case::CaseError;
use layout::{Call, CallRecord, Name, COUNTERS};
use log::{Drained, SyscallLog};
use mounts::Mounts;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::AsFd;

static OBJECT: &[u8] = include_bytes_aligned!("syscall.bpf.o");

/// Places in each table of operations in flight (`CALLS_LOG2`).
const CALLS: usize = 1 << 15;
const CALL_BYTES: usize = size_of::<Call>();

/// Rings between kernel and recorder, all CPUs together: 131,072 operations for each of two CPUs.
const RING_BYTES: u32 = 32 << 20;

/// The ring of file names: some thousand of usual length.
const NAMES_BYTES: u32 = 1 << 20;

/// The variable `recording`: see `call.h`.
const DURING: u32 = 1;
const OVER: u32 = 2;

const URING: &str = "requests in an io_uring (layer syscall)";
const SUBMIT_NAMES: [&str; 2] = ["io_uring_submit_req", "io_uring_submit_sqe"];

/// Tracepoints, ends before begins.
pub const HOOKS: Hooks = &[
    (
        "sched_process_exit",
        Need::Fact("calls that end with their thread"),
    ),
    ("io_uring_complete", Need::Fact(URING)),
    (
        "io_uring_queue_async_work",
        Need::Fact("which io_uring requests went to a worker thread"),
    ),
    ("sys_exit", Need::Must),
    ("sched_process_fork", Need::Fact("operations of child processes")),
    ("io_uring_submit_req", Need::Alternative),
    ("io_uring_submit_sqe", Need::Alternative),
    ("sys_enter", Need::Must),
];

/// Names given from the root on, by number: the device of each.
type Places = std::collections::HashMap<u64, u32>;

/// Most of them that wait for their calls, which come at once, or were before the recording and never come.
const PLACES_MAX: usize = 1 << 17;

/// The loaded and attached probe.
struct SyscallProbe {
    kernel: Kernel,
    rings: Rings<CallRecord>,
    names: RingBuf<MapData>,
    tables: [Shared<Call>; 2],
    drained: Drained,
    mounts: Mounts,
    /// Devices of names that were given from the root on, until their calls have come.
    given: Places,
    used: Pool<Drained>,
}

/// Loads and attaches the probe.
pub fn attach(context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    let btf = context.btf()?;
    let cpus = host::cpus_possible();
    let length = records_per_cpu::<CallRecord>(context.config.ring(RING_BYTES), cpus);
    let weakly_ordered = u8::from(!cfg!(target_arch = "x86_64"));
    let limited = u8::from(context.config.follows_processes());
    let overlay_wraps = u8::from(kernel::overlay_wraps());
    let mut loader = EbpfLoader::new();
    owner::configure(&mut loader);
    loader
        .btf(Some(btf))
        .map_max_entries("ring_ends", cpus)
        .map_max_entries("ring", cpus * length)
        .map_max_entries("events", context.config.ring(NAMES_BYTES))
        .override_global("ring_records", &length, true)
        .override_global("weakly_ordered", &weakly_ordered, true)
        .override_global("scope_limited", &limited, true)
        .override_global("overlay_wraps", &overlay_wraps, true);
    let mut kernel = Kernel::load("syscall", OBJECT, &mut loader)?;
    kernel.load_runnable(SCOPE_CHANGE)?;
    let mut probe = SyscallProbe::new(kernel, cpus, length)?;
    let wanted = |name: &str, need: Need| need != Need::Alternative || has_tracepoint(btf, name);
    probe.kernel.attach(context, HOOKS, wanted)?;
    let submits = |name: &String| SUBMIT_NAMES.contains(&name.as_str());
    if !probe.kernel.attached.iter().any(submits) {
        let because = "this kernel has no tracepoint io_uring_submit_req or io_uring_submit_sqe";
        probe.kernel.miss(URING, because);
    }
    Ok(Box::new(probe))
}

/// Rows of the operations in a batch of this probe. Their keys are not unique.
pub fn rows(batch: Batch) -> impl Iterator<Item = SyscallRow> {
    let records: Box<Drained> = batch.data.downcast().expect("the syscall probe's own records");
    records.calls.into_iter().map(|record| record.row(0))
}

impl SyscallProbe {
    fn new(mut kernel: Kernel, cpus: u32, length: u32) -> Result<SyscallProbe, RecordError> {
        let (ends, records) = (kernel.array("ring_ends")?, kernel.array("ring")?);
        let rings = Rings::map(ends, records, cpus, length).map_err(|error| refused("ring", &error))?;
        let table = |name: &'static str| {
            Shared::map(kernel.array(name)?, CALLS).map_err(|error| refused(name, &error))
        };
        let tables = [table("threads")?, table("requests")?];
        Ok(SyscallProbe {
            names: kernel.take_ring("events")?,
            kernel,
            rings,
            tables,
            drained: Drained::with_room(),
            mounts: Mounts::default(),
            given: Places::new(),
            used: Pool::default(),
        })
    }

    /// Gives calls on names that begin at the root their devices. Those on no storage are left out, as calls on open files there are.
    fn place_calls(&mut self, from: usize) {
        let calls = &mut self.drained.calls;
        if !calls[from..].iter().any(|record| record.call.is_given()) {
            return;
        }
        let mut kept = from;
        for at in from..calls.len() {
            let mut record = calls[at];
            if record.call.is_given() {
                // Of a name that was lost (and counted) nothing is known.
                match self.given.remove(&record.call.inode) {
                    Some(0) => continue,
                    Some(device) => record.call.device = device,
                    None => record.call.inode = 0,
                }
            }
            calls[kept] = record;
            kept += 1;
        }
        calls.truncate(kept);
    }

    fn open_calls(&self) -> Result<Vec<CallRecord>, RecordError> {
        let overflow: HashMap<_, u64, [u8; CALL_BYTES]> =
            HashMap::try_from(self.kernel.map("overflow")?).map_err(|error| refused("overflow", &error))?;
        let in_tables = self.tables.iter().flat_map(Shared::copies);
        let in_overflow = overflow.iter().filter_map(|entry| read(&entry.ok()?.1));
        let open = in_tables.chain(in_overflow).filter(Call::is_open);
        Ok(open.map(Call::open_record).collect())
    }
}

impl Probe for SyscallProbe {
    fn attached(&self) -> &[String] {
        &self.kernel.attached
    }

    fn unseen(&self) -> &[Unseen] {
        &self.kernel.unseen
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(SyscallLog::create(target, self.used.clone())?))
    }

    fn follow(&mut self, changes: &[Change]) -> Result<(), RecordError> {
        self.kernel.follow(changes)
    }

    fn forget_ended(&mut self) -> Result<(), RecordError> {
        self.kernel.forget_ended()
    }

    fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        let value = if on { DURING } else { OVER }.to_ne_bytes();
        sys::write_single(self.kernel.array(".data.control")?.fd().as_fd(), &value)
            .map_err(|error| refused("control variable", &error))
    }

    /// Operations first: the names of their files have then come, too.
    fn drain(&mut self) -> u64 {
        let before = self.drained.calls.len();
        self.rings.drain(&mut self.drained.calls);
        self.mounts.refresh();
        if self.given.len() > PLACES_MAX {
            self.given.clear();
        }
        while let Some(item) = self.names.next() {
            let Some((number, path)) = Name::given(&item) else {
                self.drained.names.push(&item);
                continue;
            };
            let device = self.mounts.device_of(&path);
            self.given.insert(number, device);
            if device != 0 {
                self.drained.names.push(&Name::placed(&item, device));
            }
        }
        self.place_calls(before);
        (self.drained.calls.len() - before) as u64
    }

    fn waiting(&self) -> usize {
        self.drained.calls.len()
    }

    fn take(&mut self) -> Option<Batch> {
        if self.drained.calls.is_empty() && self.drained.names.count() == 0 {
            return None;
        }
        let room = self.used.take().unwrap_or_else(Drained::with_room);
        let full = std::mem::replace(&mut self.drained, room);
        Some(Batch {
            records: full.calls.len() as u64,
            bytes: full.bytes(),
            data: Box::new(full),
        })
    }

    fn counts(&mut self) -> Result<Counts, RecordError> {
        read_counts(&self.kernel, &COUNTERS)
    }

    fn program_counts(&self) -> BTreeMap<String, sys::ProgramCounts> {
        self.kernel.program_counts()
    }

    fn detach(&mut self) {
        self.kernel.detach();
    }

    fn in_flight(&self, begin_ns: u64, now_ns: u64) -> Vec<InFlight> {
        let tables = self.tables.iter();
        let calls = tables.flat_map(|table| table.copies_with(offset_of!(Call, key)));
        let old = calls.filter(|call| call.is_open() && (1..begin_ns).contains(&call.start_ns));
        old.map(|call| InFlight {
            operation: call.operation(now_ns),
            whose: call.whose(),
        })
        .collect()
    }

    fn open_now(&mut self, _now_ns: u64) -> Result<Option<Batch>, RecordError> {
        let open = Drained {
            calls: self.open_calls()?,
            ..Drained::default()
        };
        Ok(Some(Batch {
            records: open.calls.len() as u64,
            bytes: open.bytes(),
            data: Box::new(open),
        }))
    }

    fn finish(&mut self, _end_ns: u64) -> Result<Finished, RecordError> {
        let open = self.open_calls()?;
        let count = open.len() as u64;
        self.drained.calls.extend(open);
        Ok(Finished {
            events: count,
            open: count,
        })
    }
}
