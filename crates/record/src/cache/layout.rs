//! Twins of the structs in `cache.bpf.c`, byte for byte, and what becomes of them.
use crate::plain::Plain;
use case::rows::{CacheWait, CacheWaitRow, Readahead, ReadaheadRow, ReadaheadUseRow};

/// `enum what`: the first word of every record.
pub mod what {
    pub const WAIT: u32 = 1;
    pub const RUN: u32 = 2;
    pub const USE: u32 = 3;
    pub const READER: u32 = 4;
}

/// A thread that reads a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReaderKey {
    pub inode: u64,
    pub device: u32,
    pub tid: i32,
}

/// Adjacent pages brought by one call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub time_ns: u64,
    pub index: u64,
    pub pages: u32,
    pub demanded: u32,
    pub folio_pages: u32,
    pub kind: u32,
}

/// A wait, until it is known which page was waited for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    pub start_ns: u64,
    pub end_ns: u64,
    pub wait_ns: u64,
    pub index: u64,
    pub last: u64,
}

/// What is known of a reader.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reader {
    pub born: u64,
    pub reads: u64,
    pub asked: u64,
    pub missed: u64,
    pub waits: u64,
    pub wait_ns: u64,
    pub call: u64,
    pub index: u64,
    pub last: u64,
    pub marked: u64,
    pub brought_begin: u64,
    pub brought_end: u64,
    pub brought_call: u64,
    pub window_begin: u64,
    pub window_end: u64,
    pub demand_begin: u64,
    pub demand_end: u64,
    pub run: Run,
    pub wait: Wait,
    pub pid: i32,
    pub kind: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitRecord {
    pub what: u32,
    pub kind: u32,
    pub key: ReaderKey,
    pub wait: Wait,
    pub waited: u64,
    pub pid: i32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RunRecord {
    pub what: u32,
    pub pid: i32,
    pub key: ReaderKey,
    pub run: Run,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ReaderRecord {
    pub what: u32,
    pub gone: u32,
    pub time_ns: u64,
    pub key: ReaderKey,
    pub reader: Reader,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkKey {
    pub inode: u64,
    pub device: u32,
    pub number: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk {
    pub unread: [u64; 2],
    pub start_ns: u64,
    pub prefetched: u32,
    pub used: u32,
    pub wasted: u32,
    pub gone: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UseRecord {
    pub what: u32,
    pub pad: u32,
    pub key: ChunkKey,
    pub end_ns: u64,
    pub chunk: Chunk,
}

// SAFETY: plain integers, without gaps.
unsafe impl Plain for ReaderKey {}
unsafe impl Plain for Reader {}
unsafe impl Plain for WaitRecord {}
unsafe impl Plain for RunRecord {}
unsafe impl Plain for ReaderRecord {}
unsafe impl Plain for ChunkKey {}
unsafe impl Plain for Chunk {}
unsafe impl Plain for UseRecord {}

const _: () = assert!(size_of::<Reader>() == 216);
const _: () = assert!(size_of::<ReaderRecord>() == 248);
const _: () = assert!(size_of::<WaitRecord>() == 80);
const _: () = assert!(size_of::<RunRecord>() == 56);
const _: () = assert!(size_of::<UseRecord>() == 72);

/// Pages of a chunk (`CHUNK_PAGES`).
pub const CHUNK_PAGES: u64 = 128;

impl WaitRecord {
    /// The row.
    pub fn row(&self) -> CacheWaitRow {
        CacheWaitRow {
            start_ns: self.wait.start_ns,
            end_ns: self.wait.end_ns,
            wait_ns: self.wait.wait_ns,
            inode: self.key.inode,
            index: self.wait.index,
            waited_index: self.waited,
            last_index: self.wait.last,
            device: self.key.device,
            pid: self.pid,
            tid: self.key.tid,
            kind: self.kind as u8,
        }
    }
}

impl RunRecord {
    /// The row.
    pub fn row(&self) -> ReadaheadRow {
        ReadaheadRow {
            time_ns: self.run.time_ns,
            inode: self.key.inode,
            index: self.run.index,
            pages: self.run.pages,
            pages_demanded: self.run.demanded,
            folio_pages: self.run.folio_pages,
            device: self.key.device,
            pid: self.pid,
            tid: self.key.tid,
            kind: self.run.kind as u8,
        }
    }
}

impl UseRecord {
    /// The row.
    pub fn row(&self) -> ReadaheadUseRow {
        ReadaheadUseRow {
            start_ns: self.chunk.start_ns,
            end_ns: self.end_ns.max(self.chunk.start_ns),
            inode: self.key.inode,
            index: u64::from(self.key.number) * CHUNK_PAGES,
            device: self.key.device,
            pages_prefetched: self.chunk.prefetched,
            pages_used: self.chunk.used,
            pages_wasted: self.chunk.wasted,
        }
    }
}

impl ReaderRecord {
    /// What its reader waited for last, if that has not been sent yet: a page up to the end of the call.
    pub fn last_wait(&self) -> Option<CacheWaitRow> {
        let reader = &self.reader;
        let brought = reader.brought_begin..reader.brought_end;
        let missed = brought.contains(&reader.last);
        let kind = if missed {
            CacheWait::Missed
        } else {
            CacheWait::InFlight
        };
        let record = WaitRecord {
            kind: kind as u32,
            key: self.key,
            wait: reader.wait,
            waited: reader.last,
            pid: reader.pid,
            ..WaitRecord::default()
        };
        (reader.wait.wait_ns > 0).then(|| record.row())
    }

    /// What its reader brought last, if that has not been sent yet.
    pub fn last_run(&self) -> Option<ReadaheadRow> {
        let record = RunRecord {
            key: self.key,
            run: self.reader.run,
            pid: self.reader.pid,
            ..RunRecord::default()
        };
        (self.reader.run.pages > 0).then(|| record.row())
    }
}

const _: () = assert!(Readahead::ALL.len() == 3 && CacheWait::ALL.len() == 3);
