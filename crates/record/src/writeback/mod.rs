//! The writeback probe: dirty throttling, flushers, who dirtied what they write, journals, and writeback throttling.
//!
//! All go into one stream, `writeback`: a row is an interval or a moment of some kind (`case::rows::Writeback`).
//!
//! Throttled threads and waits for pages are those of the scope. Whatever flushers, journals and other callers of fsync
//! do is recorded whoever asked for it, and so is who dirtied a file: a neighbour on the same file system may be to blame.
mod journals;
mod layout;
mod modules;
pub(crate) mod names;

pub use journals::Names;
#[cfg(test)]
pub use journals::Who;
pub use modules::{is_of_module, visible};
pub use names::HostNames;

use crate::error::RecordError;
use crate::load::{refused, Context, Kernel};
use crate::plain::{bytes_of, read, Plain};
use crate::probe::{Batch, Hooks, Log, Need, Probe, Target};
use crate::ring_probe::{Counter, Design, Records, RingProbe, Settings};
use crate::streams::{Out, Stream};
use crate::{host, sys};
use aya::include_bytes_aligned;
use aya::maps::Map;
use aya::Btf;
use case::rows::WritebackRow;
use case::CaseError;
use layout::{Dirtied, InodeKey, Record};
use modules::Modules;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

const THROTTLED: Need = Need::Fact("pauses of threads that dirty pages");
const FLUSHERS: Need = Need::Fact("what flushers write back, and when");
const JOURNAL: Need = Need::Fact("commits of jbd2 journals (ext4)");
const EXT4: Need = Need::Fact("which transaction an fsync waits for");
const XFS: Need = Need::Fact("waits for the log of xfs");
const BTRFS: Need = Need::Fact("commits of btrfs");
const MEMORY: Need = Need::Fact("threads that free or compact memory before they get some");
const WBT: Need = Need::Fact("writeback throttling of devices (wbt)");

/// Tracepoints; see [`Hooks`].
pub const HOOKS: Hooks = &[
    ("writeback_single_inode", FLUSHERS),
    ("writeback_single_inode_start", FLUSHERS),
    ("writeback_written", FLUSHERS),
    ("writeback_start", FLUSHERS),
    ("writeback_dirty_folio", Need::Must),
    (
        "folio_wait_writeback",
        Need::Fact("waits for pages under writeback"),
    ),
    ("balance_dirty_pages", THROTTLED),
    ("sched_switch", THROTTLED),
    ("mm_vmscan_direct_reclaim_end", MEMORY),
    ("mm_vmscan_direct_reclaim_begin", MEMORY),
    ("mm_vmscan_memcg_reclaim_end", MEMORY),
    ("mm_vmscan_memcg_reclaim_begin", MEMORY),
    ("mm_compaction_end", MEMORY),
    ("mm_compaction_begin", MEMORY),
    ("jbd2_end_commit", JOURNAL),
    ("jbd2_run_stats", JOURNAL),
    ("jbd2_commit_logging", JOURNAL),
    ("jbd2_commit_flushing", JOURNAL),
    ("jbd2_commit_locking", JOURNAL),
    ("jbd2_start_commit", JOURNAL),
    ("jbd2_checkpoint_stats", JOURNAL),
    ("jbd2_lock_buffer_stall", JOURNAL),
    ("ext4_sync_file_exit", EXT4),
    ("ext4_sync_file_enter", EXT4),
    ("xfs_log_grant_wake", XFS),
    ("xfs_log_grant_sleep", XFS),
    ("xfs_log_force", XFS),
    ("xfs_file_fsync", XFS),
    ("btrfs_transaction_commit", BTRFS),
    ("btrfs_sync_file", BTRFS),
    ("wbt_lat", WBT),
    ("wbt_step", WBT),
    (SCOPE_HOOK, Need::Alternative),
];

/// Follows the observed command's descendants.
const SCOPE_HOOK: &str = "sched_process_fork";

/// Attaches it.
pub fn attach(context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    let design = WritebackProbe {
        limited: context.config.follows_processes(),
        by_tracing: context.config.journals_by_tracing,
        modules: None,
        seen: HashMap::new(),
    };
    RingProbe::attach(design, context)
}

/// The probe's side in user space: once a second it looks at inodes that were dirtied.
struct WritebackProbe {
    /// Whether only pauses of a command and its descendants are recorded.
    limited: bool,
    /// No program looks at journals.
    by_tracing: bool,
    /// Journals of file systems that are modules.
    modules: Option<Modules>,
    /// When inodes had been dirtied last, at the last look.
    seen: HashMap<InodeKey, u64>,
}

impl Design for WritebackProbe {
    const NAME: &'static str = "writeback";
    const HOOKS: Hooks = HOOKS;
    const COUNTERS: &'static [Counter] = &[
        Counter::Lost("ring_full"),
        Counter::Lost("inodes_full"),
        Counter::Lost("tasks_full"),
        Counter::Lost("scope_full"),
        Counter::Own,
        Counter::OwnBytes,
    ];

    fn object() -> &'static [u8] {
        include_bytes_aligned!("writeback.bpf.o")
    }

    fn settings(&self, _context: &Context<'_>) -> Settings {
        Settings::default()
            .global("page_shift", host::page_shift().to_ne_bytes())
            .global("scope_limited", [u8::from(self.limited)])
    }

    fn wanted(&self, btf: &Btf, tracepoint: &str, _need: Need) -> bool {
        let by_tracing = is_of_module(btf, tracepoint) || self.by_tracing && modules::is_known(tracepoint);
        !by_tracing && (tracepoint != SCOPE_HOOK || self.limited)
    }

    fn attach(&mut self, context: &Context<'_>, kernel: &mut Kernel) -> Result<(), RecordError> {
        self.modules = Modules::start(context.btf()?, self.by_tracing, host::cpus_possible(), kernel);
        Ok(())
    }

    fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        let Some(modules) = &mut self.modules else {
            return Ok(());
        };
        modules
            .set_recording(on)
            .map_err(|error| refused("event tracing", &error))
    }

    fn drain(&mut self, records: &mut Records) {
        if let Some(modules) = &mut self.modules {
            modules.drain(records);
        }
    }

    fn lost(&self) -> Vec<(&'static str, u64)> {
        vec![(
            "events_overwritten",
            self.modules.as_ref().map_or(0, Modules::lost),
        )]
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        vec![("modules_late", self.modules.as_ref().map_or(0, Modules::late))]
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(WritebackLog {
            rows: Out::create(target, &[])?,
        }))
    }

    /// Inodes that an fsync wrote back, or nobody yet, are reported once nobody dirties them any more.
    fn look_after(&mut self, kernel: &mut Kernel, records: &mut Records) -> Result<(), RecordError> {
        if let Some(modules) = &mut self.modules {
            modules.fetch(records);
        }
        let mut idle = Vec::new();
        let mut seen = HashMap::new();
        each_inode(kernel, |key, dirtied| {
            if self.seen.get(&key) == Some(&dirtied.last_ns) {
                idle.push(key);
            } else {
                seen.insert(key, dirtied.last_ns);
            }
        })?;
        self.seen = seen;
        for key in idle {
            let mut value = [0; size_of::<Dirtied>()];
            let there = sys::take_element(map(kernel, "dirtied")?, bytes_of(&key), &mut value);
            if there.map_err(|error| refused("map dirtied", &error))? {
                push(records, key, &value);
            }
        }
        Ok(())
    }

    fn finish(&mut self, kernel: &mut Kernel, records: &mut Records, end_ns: u64) -> Result<(), RecordError> {
        each_inode(kernel, |key, dirtied| {
            push(records, key, bytes_of(&dirtied));
        })?;
        // What is being written back now has no end yet.
        each(kernel, "writing", size_of::<i32>(), |_, begun: Record| {
            records.push_plain(&Record { end_ns, ..begun });
        })
    }
}

fn push(records: &mut Records, key: InodeKey, dirtied: &[u8]) {
    let dirtied: Option<Dirtied> = read(dirtied);
    for record in dirtied.iter().flat_map(|dirtied| dirtied.records(key)) {
        records.push_plain(&record);
    }
}

fn map<'a>(kernel: &'a Kernel, name: &'static str) -> Result<BorrowedFd<'a>, RecordError> {
    match kernel.map(name)? {
        Map::HashMap(data) => Ok(data.fd().as_fd()),
        _ => Err(kernel.missing(name)),
    }
}

fn each_inode(kernel: &Kernel, mut found: impl FnMut(InodeKey, Dirtied)) -> Result<(), RecordError> {
    each(kernel, "dirtied", size_of::<InodeKey>(), |key, dirtied| {
        if let Some(key) = read(key) {
            found(key, dirtied);
        }
    })
}

fn each<V: Plain>(
    kernel: &Kernel,
    name: &'static str,
    key_size: usize,
    mut found: impl FnMut(&[u8], V),
) -> Result<(), RecordError> {
    sys::read_hash(map(kernel, name)?, key_size, size_of::<V>(), |key, value| {
        if let Some(value) = read(value) {
            found(key, value);
        }
    })
    .map_err(|error| refused(&format!("map {name}"), &error))
}

/// The stream.
struct WritebackLog {
    rows: Out<WritebackRow>,
}

impl Log for WritebackLog {
    fn write(&mut self, batch: Batch) {
        for record in Records::of(batch).iter().filter_map(read::<Record>) {
            self.rows.push(&record.row());
        }
    }

    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.rows]
    }
}
