//! The cache probe: page cache and readahead, as reading threads see them.
//!
//! | stream | a row says |
//! |---|---|
//! | `cache_read` | how many pages a thread asked of a file in about a second, and how many were missing |
//! | `cache_wait` | what a thread waited for, how long, and whether the same call had asked for it |
//! | `readahead` | pages that a call brought into the cache: those it wanted, and those in advance |
//! | `readahead_use` | what became of pages brought in advance |
//!
//! A hit is counted in the kernel and sends nothing. Why, and what it costs: docs/why/decisions/0017.
mod layout;
mod log;

use crate::error::RecordError;
use crate::load::{has_tracepoint, refused, Context, Kernel};
use crate::plain::{bytes_of, read};
use crate::probe::{Hooks, Log, Need, Probe, Target};
use crate::ring_probe::{Counter, Design, Records, RingProbe, Settings};
use crate::{host, sys};
use aya::include_bytes_aligned;
use aya::maps::Map;
use aya::Btf;
use case::CaseError;
use layout::{what, Chunk, ChunkKey, Reader, ReaderKey, ReaderRecord, UseRecord};
use log::CacheLog;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

/// The hook without which nobody says when readahead begins.
const READAHEAD: &str = "page_cache_sync_ra";

const WAITS: Need = Need::Fact("what reads waited for in the page cache");

/// Tracepoints; see [`Hooks`].
pub const HOOKS: Hooks = &[
    (
        "mm_filemap_get_pages",
        Need::Fact("which pages reads found in the page cache, and what they waited for there"),
    ),
    (
        "mm_filemap_delete_from_page_cache",
        Need::Fact("prefetched pages that were evicted unread"),
    ),
    ("mm_filemap_add_to_page_cache", Need::Must),
    ("mm_filemap_map_pages", Need::Alternative),
    ("page_cache_ra_unbounded", Need::Alternative),
    ("page_cache_ra_order", Need::Alternative),
    ("page_cache_async_ra", Need::Alternative),
    (
        READAHEAD,
        Need::Fact("which pages a read wanted and which were read in advance, other than by comparing"),
    ),
    ("mm_filemap_fault", Need::Fact("waits of page faults")),
    ("sched_switch", WAITS),
    (SCOPE_HOOK, Need::Alternative),
];

/// Follows the observed command's descendants.
const SCOPE_HOOK: &str = "sched_process_fork";

/// Attaches it.
pub fn attach(context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    let design = Cache {
        limited: context.config.follows_processes(),
        ..Cache::default()
    };
    RingProbe::attach(design, context)
}

/// The probe's side in user space: once a second it looks at all readers.
#[derive(Default)]
struct Cache {
    /// Whether only a command and its descendants are looked at.
    limited: bool,
    /// What readers had asked for when looked at last: (born, lookups, pages brought).
    seen: HashMap<ReaderKey, (u64, u64, u64)>,
    deleted: u64,
}

impl Design for Cache {
    const NAME: &'static str = "cache";
    const HOOKS: Hooks = HOOKS;
    const COUNTERS: &'static [Counter] = &[
        Counter::Lost("ring_full"),
        Counter::Lost("readers_full"),
        Counter::Lost("chunks_full"),
        Counter::Lost("sleeper_lost"),
        Counter::Lost("scope_full"),
        Counter::Own,
    ];

    fn object() -> &'static [u8] {
        include_bytes_aligned!("cache.bpf.o")
    }

    fn settings(&self, context: &Context<'_>) -> Settings {
        let untold = !context.btf().is_ok_and(|btf| has_tracepoint(btf, READAHEAD));
        Settings::default()
            .global("page_shift", host::page_shift().to_ne_bytes())
            .global("scope_limited", [u8::from(self.limited)])
            .global("readahead_untold", [u8::from(untold)])
    }

    fn wanted(&self, _btf: &Btf, tracepoint: &str, _need: Need) -> bool {
        tracepoint != SCOPE_HOOK || self.limited
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(CacheLog::create(target)?))
    }

    fn look_after(&mut self, kernel: &mut Kernel, records: &mut Records) -> Result<(), RecordError> {
        let time_ns = sys::monotonic_ns();
        let mut idle = Vec::new();
        let mut seen = HashMap::new();
        each_reader(kernel, |key, reader| {
            let state = (reader.born, reader.reads + reader.waits, reader.run.time_ns);
            if self.seen.get(&key) == Some(&state) {
                idle.push(key);
            } else {
                seen.insert(key, state);
                push_reader(records, key, reader, time_ns, false);
            }
        })?;
        self.seen = seen;
        let map = hash(kernel, "readers")?;
        for key in &idle {
            // As it is in the moment of deletion; `None` if the kernel was faster.
            if let Some(reader) = take(map, key)? {
                push_reader(records, *key, reader, time_ns, true);
                self.deleted += 1;
            }
        }
        let section = kernel.array(".data.deleted")?;
        sys::write_single(section.fd().as_fd(), &self.deleted.to_ne_bytes())
            .map_err(|error| refused("count of deleted readers", &error))
    }

    fn finish(&mut self, kernel: &mut Kernel, records: &mut Records, end_ns: u64) -> Result<(), RecordError> {
        each_reader(kernel, |key, reader| {
            push_reader(records, key, reader, end_ns, true)
        })?;
        sys::read_hash(
            hash(kernel, "chunks")?,
            size_of::<ChunkKey>(),
            size_of::<Chunk>(),
            |key, chunk| {
                if let (Some(key), Some(chunk)) = (read(key), read(chunk)) {
                    push_chunk(records, key, chunk, end_ns);
                }
            },
        )
        .map_err(|error| refused("map chunks", &error))
    }
}

fn push_reader(records: &mut Records, key: ReaderKey, reader: Reader, time_ns: u64, gone: bool) {
    records.push_plain(&ReaderRecord {
        what: what::READER,
        gone: gone.into(),
        time_ns,
        key,
        reader,
    });
}

fn push_chunk(records: &mut Records, key: ChunkKey, chunk: Chunk, end_ns: u64) {
    if chunk.gone == 0 {
        records.push_plain(&UseRecord {
            what: what::USE,
            pad: 0,
            key,
            end_ns,
            chunk,
        });
    }
}

fn hash<'a>(kernel: &'a Kernel, name: &str) -> Result<BorrowedFd<'a>, RecordError> {
    match kernel.map(name)? {
        Map::HashMap(data) => Ok(data.fd().as_fd()),
        _ => Err(kernel.missing(name)),
    }
}

fn each_reader(kernel: &Kernel, mut found: impl FnMut(ReaderKey, Reader)) -> Result<(), RecordError> {
    sys::read_hash(
        hash(kernel, "readers")?,
        size_of::<ReaderKey>(),
        size_of::<Reader>(),
        |key, reader| {
            if let (Some(key), Some(reader)) = (read(key), read(reader)) {
                found(key, reader);
            }
        },
    )
    .map_err(|error| refused("map readers", &error))
}

/// Deletes a reader and gives it as it was.
fn take(map: BorrowedFd<'_>, key: &ReaderKey) -> Result<Option<Reader>, RecordError> {
    let mut value = [0; size_of::<Reader>()];
    let there =
        sys::take_element(map, bytes_of(key), &mut value).map_err(|error| refused("map readers", &error))?;
    Ok(read(&value).filter(|_| there))
}
