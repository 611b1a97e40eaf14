//! Rows of the page cache, readahead, writeback and journals.
use crate::raw::raw_row;

/// Buffered reads of one thread from one file within a window of about a second (`raw/cache_read/cache_read.arrows`).
///
/// `pages_asked - pages_missed` pages were in the cache when they were asked for (some still on their way from the
/// device: those are in [`CacheWaitRow`]). Pages are the host's, usually 4096 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheReadRow {
    /// Begin of the window.
    pub start_ns: u64,
    /// End of the window.
    pub end_ns: u64,
    /// Inode number.
    pub inode: u64,
    /// Read calls that looked into the cache.
    pub reads: u64,
    /// Pages those calls asked for, not beyond the end of the file. A page asked for twice counts twice.
    pub pages_asked: u64,
    /// Of those, not in the cache; the call itself had them read.
    pub pages_missed: u64,
    /// Waits for a page, those for missed pages included; each has a [`CacheWaitRow`].
    pub waits: u64,
    /// Their time.
    pub wait_ns: u64,
    /// Kernel dev_t of the file system: `major << 20 | minor`.
    pub device: u32,
    /// Reading process.
    pub pid: i32,
    /// Reading thread.
    pub tid: i32,
}

/// What a thread waited for in the page cache ([`CacheWaitRow::kind`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CacheWait {
    /// A read waited for pages that this same call had asked the device for.
    Missed = 0,
    /// A read waited for pages that were on their way already: readahead that came too late, or another's read.
    InFlight = 1,
    /// A page fault of a mapped file waited.
    Fault = 2,
}

impl CacheWait {
    /// Every kind, in the order of the discriminants.
    pub const ALL: [CacheWait; 3] = [CacheWait::Missed, CacheWait::InFlight, CacheWait::Fault];

    /// The kind with this discriminant.
    pub fn from_raw(raw: u8) -> Option<CacheWait> {
        CacheWait::ALL.get(usize::from(raw)).copied()
    }
}

/// One wait of a thread for a page of the cache to be read (`raw/cache_wait/cache_wait.arrows`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheWaitRow {
    /// The thread left its CPU to wait; of a fault, it looked for the page.
    pub start_ns: u64,
    /// It was on a CPU again.
    pub end_ns: u64,
    /// Blocked in between; less than `end_ns - start_ns` if it slept more than once.
    pub wait_ns: u64,
    /// Inode number.
    pub inode: u64,
    /// First page of the lookup in which it waited. Pages from here to before the folio waited for were in the cache.
    pub index: u64,
    /// Last page of the folio waited for (of a fault: the page of the fault).
    pub waited_index: u64,
    /// Last page that the read asks for.
    pub last_index: u64,
    /// Kernel dev_t of the file system.
    pub device: u32,
    /// Waiting process.
    pub pid: i32,
    /// Waiting thread.
    pub tid: i32,
    /// `CacheWait` discriminant.
    pub kind: u8,
}

/// Why pages were brought into the cache ([`ReadaheadRow::kind`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Readahead {
    /// A read found a page missing.
    Sync = 0,
    /// A read met the mark that asks for more in time.
    Async = 1,
    /// Anything else: page faults, fadvise, madvise, readahead(2), or a kernel that does not tell.
    Other = 2,
}

impl Readahead {
    /// Every kind, in the order of the discriminants.
    pub const ALL: [Readahead; 3] = [Readahead::Sync, Readahead::Async, Readahead::Other];

    /// The kind with this discriminant.
    pub fn from_raw(raw: u8) -> Option<Readahead> {
        Readahead::ALL.get(usize::from(raw)).copied()
    }
}

/// Adjacent pages brought into the cache by one call (`raw/readahead/readahead.arrows`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadaheadRow {
    /// The first of them was put into the cache, locked, and about to be read.
    pub time_ns: u64,
    /// Inode number.
    pub inode: u64,
    /// First page.
    pub index: u64,
    /// Pages.
    pub pages: u32,
    /// Of those, the ones that the read itself asked for; the rest was prefetched.
    pub pages_demanded: u32,
    /// Pages of the largest folio.
    pub folio_pages: u32,
    /// Kernel dev_t of the file system.
    pub device: u32,
    /// Process that had them read.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// `Readahead` discriminant.
    pub kind: u8,
}

/// What became of pages prefetched within one aligned chunk of a file (`raw/readahead_use/readahead_use.arrows`),
/// appended when the last of them was read or evicted, or at the end of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadaheadUseRow {
    /// The first of them was prefetched.
    pub start_ns: u64,
    /// The last of them was read or evicted; the end of the recording if some are still unread.
    pub end_ns: u64,
    /// Inode number.
    pub inode: u64,
    /// First page of the chunk.
    pub index: u64,
    /// Kernel dev_t of the file system.
    pub device: u32,
    /// Prefetched pages.
    pub pages_prefetched: u32,
    /// Of those, read (or mapped).
    pub pages_used: u32,
    /// Of those, evicted unread.
    pub pages_wasted: u32,
}

/// What a [`WritebackRow`] says; the meaning of its columns follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Writeback {
    /// A thread that dirtied pages was made to pause. `bytes` it had dirtied since its last pause, `rate_bytes_per_s` it
    /// may dirty (0: nothing for now).
    Throttled = 0,
    /// A flusher worked on one work item. `bytes` written, `cause`.
    Work = 1,
    /// An inode was written back. `bytes` written, `cause`.
    InodeWritten = 2,
    /// A process dirtied an inode, between two writebacks of it. `bytes`.
    Dirtied = 3,
    /// A thread waited for a page under writeback.
    WaitedForPage = 4,
    /// A journal's commit (jbd2). `transaction`, `bytes` logged.
    Commit = 5,
    /// Part of a commit: it waits for open handles. `transaction`.
    CommitLocking = 6,
    /// Part of a commit: file data are written (ordered mode). `transaction`.
    CommitFlushing = 7,
    /// Part of a commit: the log is written. `transaction`.
    CommitLogging = 8,
    /// A journal made room by writing back logged blocks; only the end is seen. `bytes`, `transaction`.
    Checkpoint = 9,
    /// A thread waited for a metadata buffer that the journal was writing.
    BufferStall = 10,
    /// A file system synced a file. `transaction`: of the journal, needed by the file (ext4). Only the begin is seen
    /// on xfs and btrfs: `end_ns` equals `start_ns`.
    Fsync = 11,
    /// A thread waited for space in the log (xfs).
    LogSpace = 12,
    /// The log was forced to disk (xfs); only the begin is seen.
    LogForce = 13,
    /// A transaction was committed (btrfs). `start_ns` equals `end_ns` where the kernel does not say how long it took.
    TreeCommit = 14,
    /// Writeback throttling (wbt) found a read that took too long: from its issue to its end.
    WbtLatency = 15,
    /// Writeback throttling changed its depth; `cause` is the new step, as a signed byte (higher = fewer writes).
    WbtStep = 16,
    /// A thread that wanted memory freed some itself (direct reclaim), for `bytes`.
    Reclaim = 17,
    /// A thread that wanted memory in one piece moved pages to make one (direct compaction), in one zone of memory.
    Compaction = 18,
}

impl Writeback {
    /// Kinds and their names, in the order of the discriminants.
    pub const NAMES: [(&str, Writeback); 19] = [
        ("throttled", Writeback::Throttled),
        ("work", Writeback::Work),
        ("inode_written", Writeback::InodeWritten),
        ("dirtied", Writeback::Dirtied),
        ("waited_for_page", Writeback::WaitedForPage),
        ("commit", Writeback::Commit),
        ("commit_locking", Writeback::CommitLocking),
        ("commit_flushing", Writeback::CommitFlushing),
        ("commit_logging", Writeback::CommitLogging),
        ("checkpoint", Writeback::Checkpoint),
        ("buffer_stall", Writeback::BufferStall),
        ("fsync", Writeback::Fsync),
        ("log_space", Writeback::LogSpace),
        ("log_force", Writeback::LogForce),
        ("tree_commit", Writeback::TreeCommit),
        ("wbt_latency", Writeback::WbtLatency),
        ("wbt_step", Writeback::WbtStep),
        ("reclaim", Writeback::Reclaim),
        ("compaction", Writeback::Compaction),
    ];

    /// The kind with this discriminant.
    pub fn from_raw(raw: u8) -> Option<Writeback> {
        Writeback::NAMES.get(usize::from(raw)).map(|(_, kind)| *kind)
    }
}

/// Names of [`WritebackRow::cause`] of works and inodes: the kernel's `enum wb_reason` (6.1 to 6.18).
pub const WRITEBACK_CAUSES: [&str; 8] = [
    "background",
    "vmscan",
    "sync",
    "periodic",
    "laptop_timer",
    "fs_free_space",
    "forker_thread",
    "foreign_flush",
];

/// [`WritebackRow::cause`] of a row that has none.
pub const NO_CAUSE: u8 = 255;

/// An interval or moment of writeback or of a journal (`raw/writeback/writeback.arrows`). Columns that a kind does not
/// use are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritebackRow {
    /// Begin.
    pub start_ns: u64,
    /// End; equal to `start_ns` where only one moment is seen.
    pub end_ns: u64,
    /// Inode number; 0 = none.
    pub inode: u64,
    /// See the kinds.
    pub bytes: u64,
    /// Number of the journal's transaction.
    pub transaction: u64,
    /// See `Writeback::Throttled`.
    pub rate_bytes_per_s: u64,
    /// Kernel dev_t of the file system or disk; 0 = not observed.
    pub device: u32,
    /// Process: the one that paused, wrote, dirtied, committed or waited.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// `Writeback` discriminant.
    pub kind: u8,
    /// Why; `NO_CAUSE` if the kind has none.
    pub cause: u8,
    /// Command name of the thread, NUL padded.
    pub comm: [u8; 16],
}

raw_row!(CacheReadRow, "cache_read", {
    start_ns: u64,
    end_ns: u64,
    inode: u64,
    reads: u64,
    pages_asked: u64,
    pages_missed: u64,
    waits: u64,
    wait_ns: u64,
    device: u32,
    pid: i32,
    tid: i32,
});

raw_row!(CacheWaitRow, "cache_wait", {
    start_ns: u64,
    end_ns: u64,
    wait_ns: u64,
    inode: u64,
    index: u64,
    waited_index: u64,
    last_index: u64,
    device: u32,
    pid: i32,
    tid: i32,
    kind: u8,
});

raw_row!(ReadaheadRow, "readahead", {
    time_ns: u64,
    inode: u64,
    index: u64,
    pages: u32,
    pages_demanded: u32,
    folio_pages: u32,
    device: u32,
    pid: i32,
    tid: i32,
    kind: u8,
});

raw_row!(ReadaheadUseRow, "readahead_use", {
    start_ns: u64,
    end_ns: u64,
    inode: u64,
    index: u64,
    device: u32,
    pages_prefetched: u32,
    pages_used: u32,
    pages_wasted: u32,
});

raw_row!(WritebackRow, "writeback", {
    start_ns: u64,
    end_ns: u64,
    inode: u64,
    bytes: u64,
    transaction: u64,
    rate_bytes_per_s: u64,
    device: u32,
    pid: i32,
    tid: i32,
    kind: u8,
    cause: u8,
    comm: [u8; 16],
});
