//! Raw rows: what an observer appends while it runs. Narrow, fixed width, `CLOCK_MONOTONIC` ns.
mod bios;
mod cache;
mod host;
mod nvme;
mod own;

pub use bios::{BioMemberRow, BioRow};
pub use cache::{
    CacheReadRow, CacheWait, CacheWaitRow, Readahead, ReadaheadRow, ReadaheadUseRow, Writeback, WritebackRow,
    NO_CAUSE, WRITEBACK_CAUSES,
};
pub use host::{sched_by, IrqRow, IrqTotalRow, SampleRow, SchedReason, SchedRow, SchedState, NAME_BYTES};
pub use nvme::{Nvme, NvmeRow};
pub use own::OwnRow;

/// One operation of our own workload engine (`raw/app/worker-NNN.arrows`), appended when reaped.
///
/// Constant facts of a stream are metadata of its schema, not columns: `pid`, `tid`, `comm`,
/// `worker`, `files` (JSON list of paths), `direct` (`true`/`false`), `loop` (`closed`/`rate`),
/// `queue_depth_max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppRow {
    /// `Layer::App.op_id_base() | worker << 40 | sequence`; also the `user_data` of the io_uring request.
    pub op_id: u64,
    /// When the workload meant to start it. Equals `submit_ns` in a closed loop.
    pub intended_ns: u64,
    /// Just before it was handed to the kernel.
    pub submit_ns: u64,
    /// When the batch that held its completion was seen.
    pub complete_ns: u64,
    /// When the engine took this completion.
    pub reap_ns: u64,
    /// File offset; 0 for a sync.
    pub offset_bytes: u64,
    /// Bytes asked for; 0 for a sync.
    pub size_bytes: u32,
    /// In flight by this worker at submit, this one included.
    pub queue_depth: u32,
    /// 0 or errno (positive).
    pub error: i32,
    /// `schema::Op` discriminant.
    pub op: u8,
    /// Index into the stream's `files`.
    pub file: u8,
}

/// One block request (`raw/block/block.arrows`), appended when it completes, or at detach if still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRow {
    /// Unique for each request instance of this recording; `BlockMergeRow` and `BlockCarrierRow` refer to it.
    pub request_key: u64,
    /// Operation id found in `user_data` of our own io_uring request behind the *first* bio; 0 = none.
    pub op_id: u64,
    /// First bio queued (block_bio_queue); 0 = not observed.
    pub queue_ns: u64,
    /// Request allocated and started (block_getrq / block_io_start); 0 = not observed (began before the recording, flush machinery).
    pub start_ns: u64,
    /// Inserted into the scheduler; 0 = never (direct issue).
    pub insert_ns: u64,
    /// First issue to the driver; 0 = never issued.
    pub issue_first_ns: u64,
    /// Last issue to the driver; 0 = never issued.
    pub issue_ns: u64,
    /// Begin of the interrupt run that completed it, clipped to >= `issue_ns`; 0 = not completed by an interrupt, or not
    /// observed (see `flags`).
    pub irq_ns: u64,
    /// Completed; 0 = still open when the recording ended.
    pub complete_ns: u64,
    /// First sector, 512-byte units of the whole disk (partition start included).
    pub sector_512: u64,
    /// Bytes of data at issue.
    pub size_bytes: u32,
    /// Kernel `cmd_flags` (`REQ_OP_*` in the low 8 bits).
    pub cmd_flags: u32,
    /// Kernel dev_t of the disk: `major << 20 | minor`.
    pub device: u32,
    /// Submitting process; -1 = not observed (flush machinery, begun before the recording).
    pub pid: i32,
    /// Submitting thread; -1 = not observed.
    pub tid: i32,
    /// Completed-by vector (Linux irq number); -1 = none or not observed.
    pub vector: i32,
    /// Errno (positive), 0 = success.
    pub error: i32,
    /// CPU that started it.
    pub cpu: u16,
    /// CPU that completed it.
    pub complete_cpu: u16,
    /// Hardware queue index.
    pub hctx: u16,
    /// Times it was requeued.
    pub requeues: u16,
    /// Bios merged into it beyond the first.
    pub merges: u16,
    /// Who is behind the direct I/O of the *first* bio: equals `SyscallRow::owner_key` of the operation it was made
    /// for, as long as that lasts. A hash; 0 = none, or not observed.
    pub owner_key: u64,
    /// On a loop device with direct I/O: the `owner_key` of the requests that this one becomes below. 0 = none.
    pub stack_key: u64,
    /// Cached file that the first bio's data comes from or goes to; 0 = none (direct I/O, a block device's cache).
    pub inode: u64,
    /// Place of the first bio's data in it; 0 where `file_device` is.
    pub file_offset_bytes: u64,
    /// Control group that the I/O is accounted to: its id, which is the inode number of its folder; 0 = not observed.
    pub cgroup: u64,
    /// Kernel dev_t of that file's file system or, where `inode` is 0, of the block device that the cache belongs to; 0 = none.
    pub file_device: u32,
    /// `block_flags`.
    pub flags: u32,
    /// Command name of the submitting thread, NUL padded.
    pub comm: [u8; 16],
}

/// Bits of [`BlockRow::flags`].
pub mod block_flags {
    /// The I/O controller held its first bio back; it was queued, late, by a worker of the kernel, and `pid`, `tid` and
    /// `comm` are that worker's.
    pub const THROTTLED: u32 = 1;
    /// No program was run when it completed; the kernel's event tracing says when it did, but not by which interrupt.
    pub const INTERRUPT_UNSEEN: u32 = 2;
    /// A thread of the kernel submitted it (PF_KTHREAD): no program of its own.
    pub const KERNEL: u32 = 4;
    /// Names of the bits.
    pub const NAMES: [(&str, u32); 3] = [
        ("throttled", THROTTLED),
        ("interrupt_unseen", INTERRUPT_UNSEEN),
        ("kernel", KERNEL),
    ];
}

/// Bits of [`BlockRow::flags`] and [`SyscallRow::flags`] in a recording with a CPU budget. Where nothing was left out they are 0.
pub mod sampled {
    /// Something may have been left out beside this row: its queue depth is given.
    pub const COUNTED: u32 = 1 << 10;
    /// Only requests: its thread had had nothing in flight for a while. Without it (and with [`COUNTED`]) it had had.
    pub const SILENT_BEFORE: u32 = 1 << 11;
    /// Four bits: the row stands for 2 to the power of this many.
    pub const LEVEL_SHIFT: u32 = 12;
    /// Sixteen bits: operations in flight at its start, itself included, those left out that took longer than [`LONG_NS`].
    pub const DEPTH_SHIFT: u32 = 16;
    /// In place of a depth: it is not known.
    pub const DEPTH_UNKNOWN: u32 = 0xffff;
    /// What takes longer was always kept, ns.
    pub const LONG_NS: u64 = 250_000_000;

    /// Queue depth of a row.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Depth {
        /// Nothing was left out: count the rows.
        OfRows,
        /// This many, and those that took longer than [`LONG_NS`].
        Counted(usize),
        /// It had begun too long ago.
        Unknown,
    }

    /// The bits of a row. `level` at most 15; `depth`: `None` if not known, beyond 65,534 stored as that.
    pub fn mark(level: u32, depth: Option<usize>, silent_before: bool) -> u32 {
        assert!(level < 16);
        let silent = if silent_before { SILENT_BEFORE } else { 0 };
        let depth = depth.map_or(DEPTH_UNKNOWN, |depth| depth.min(0xfffe) as u32);
        COUNTED | silent | level << LEVEL_SHIFT | depth << DEPTH_SHIFT
    }

    /// The weight of a row.
    pub fn weight(flags: u32) -> u32 {
        1 << (flags >> LEVEL_SHIFT & 0xf)
    }

    /// Its queue depth.
    pub fn depth(flags: u32) -> Depth {
        match (flags & COUNTED, flags >> DEPTH_SHIFT) {
            (0, _) => Depth::OfRows,
            (_, DEPTH_UNKNOWN) => Depth::Unknown,
            (_, counted) => Depth::Counted(counted as usize),
        }
    }
}

/// One bio beyond the first of a request, if it is known what is behind it (`raw/block_merge/block_merge.arrows`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockMergeRow {
    /// `BlockRow::request_key` of the request it was merged into.
    pub request_key: u64,
    /// Our operation id; 0 = none.
    pub op_id: u64,
    /// As in [`BlockRow::owner_key`], of this bio.
    pub owner_key: u64,
    /// As in [`BlockRow::inode`], of this bio.
    pub inode: u64,
    /// As in [`BlockRow::file_offset_bytes`], of this bio.
    pub file_offset_bytes: u64,
    /// As in [`BlockRow::file_device`], of this bio.
    pub file_device: u32,
    /// Bytes of this bio.
    pub size_bytes: u32,
}

/// What one carrier waited for in the kernel's flush machinery (`raw/block_carrier/block_carrier.arrows`): its own data, or a
/// flush command that served it. A carrier is a request with REQ_PREFLUSH, or with REQ_FUA on a device that has none; it
/// has up to three such rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCarrierRow {
    /// `BlockRow::request_key` of the carrier.
    pub carrier_key: u64,
    /// The same of the flush command; 0 = its data.
    pub flush_key: u64,
    /// When that was issued to the driver, last; 0 = not observed.
    pub issue_ns: u64,
    /// Begin of the interrupt run that completed it, as in [`BlockRow::irq_ns`].
    pub irq_ns: u64,
    /// When it was complete.
    pub done_ns: u64,
}

/// How a program asked for a storage operation ([`SyscallRow::via`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Via {
    /// A system call that returns when it is done.
    Call = 0,
    /// A request in an io_uring.
    Uring = 1,
    /// A control block given to io_submit.
    Aio = 2,
    /// No operation, but a call that bounds others. One that waits for completions of an io_uring (`io_uring_enter`): what completed while
    /// it waited can have been reaped when it ended, not before; `result` is what it submitted. Or one that submits to the page
    /// cache (`io_submit`): the operations of this thread that began with it were done when it ended.
    Wait = 3,
}

impl Via {
    /// Every way, in the order of the discriminants.
    pub const ALL: [Via; 4] = [Via::Call, Via::Uring, Via::Aio, Via::Wait];

    /// The way with this discriminant.
    pub fn from_raw(raw: u8) -> Option<Via> {
        Via::ALL.get(usize::from(raw)).copied()
    }
}

/// Bits of [`SyscallRow::flags`].
pub mod syscall_flags {
    /// Direct I/O (O_DIRECT).
    pub const DIRECT: u32 = 1;
    /// A write that is durable when it returns (O_SYNC, O_DSYNC, RWF_SYNC, RWF_DSYNC).
    pub const SYNC: u32 = 2;
    /// A write to the end of the file; `offset_bytes` is the file's size when it began.
    pub const APPEND: u32 = 4;
    /// May not block (RWF_NOWAIT, O_NONBLOCK has no meaning for files).
    pub const NOWAIT: u32 = 8;
    /// The file is a block device: `device` is its number and `inode` is 0.
    pub const BLOCK_DEVICE: u32 = 16;
    /// io_uring handed it to one of its worker threads.
    pub const WORKER: u32 = 32;
    /// `end_ns` is when the program took the result (libaio: nothing tells when it was there).
    pub const END_IS_REAP: u32 = 64;
    /// It ended, but that was not seen (its thread or ring died, or the end was lost); `end_ns` is 0.
    pub const END_UNSEEN: u32 = 128;
    /// It had begun before the recording; `start_ns` is 0.
    pub const BEGIN_UNSEEN: u32 = 256;
    /// Its vectors could not be read: `size_bytes` is 0.
    pub const SIZE_UNSEEN: u32 = 512;
    /// Names of the bits.
    pub const NAMES: [(&str, u32); 10] = [
        ("direct", DIRECT),
        ("sync", SYNC),
        ("append", APPEND),
        ("nowait", NOWAIT),
        ("block_device", BLOCK_DEVICE),
        ("worker", WORKER),
        ("end_is_reap", END_IS_REAP),
        ("end_unseen", END_UNSEEN),
        ("begin_unseen", BEGIN_UNSEEN),
        ("size_unseen", SIZE_UNSEEN),
    ];
}

/// One storage operation that a program asked for (`raw/syscall/syscall.arrows`), appended when it ends, or at detach if
/// still open. Only regular files with a backing device, directories' `open`s left out, and block devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyscallRow {
    /// Unique in this recording.
    pub op_key: u64,
    /// Who is behind direct I/O: block requests made for this operation, between its start and its end, carry the same
    /// key. A hash; unique among operations in flight, used again by later ones. 0 = none.
    pub owner_key: u64,
    /// io_uring: `user_data`; libaio: `data` of the control block; else 0.
    pub user_data: u64,
    /// Entered the kernel; io_uring: the request was submitted. 0 = before the recording.
    pub start_ns: u64,
    /// Returned to the program; io_uring: completed. 0 = still open at the end, or not seen (see `flags`).
    pub end_ns: u64,
    /// In the file; for calls without an offset of their own the position at entry. 0 for syncs of whole files.
    pub offset_bytes: u64,
    /// Bytes asked for.
    pub size_bytes: u64,
    /// What the call returned: bytes, a descriptor, or a negative errno. 0 while open.
    pub result: i64,
    /// Inode number; 0 = none (block device, failed open, `sync`).
    pub inode: u64,
    /// Kernel dev_t of the file's file system, or of the block device: `major << 20 | minor`; 0 = none.
    pub device: u32,
    /// Submitting process.
    pub pid: i32,
    /// Submitting thread.
    pub tid: i32,
    /// `syscall_flags`.
    pub flags: u32,
    /// CPU at the start.
    pub cpu: u16,
    /// CPU at the end.
    pub end_cpu: u16,
    /// Number of the system call (x86-64), io_uring opcode, or libaio command, as `via` says.
    pub call: u16,
    /// `Via` discriminant.
    pub via: u8,
    /// `schema::Op` discriminant.
    pub op: u8,
    /// Command name of the submitting thread, NUL padded.
    pub comm: [u8; 16],
}

/// Bytes of a path that one [`FileRow`] holds.
pub const PATH_PART: usize = 128;

/// A piece of the name of a file that operations of this recording refer to (`raw/file/file.arrows`). A file is
/// named before its first row in `syscall`, except where that was lost, and again when its name is found changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// When the name was found.
    pub time_ns: u64,
    /// As in [`SyscallRow::inode`]; 0 for a block device.
    pub inode: u64,
    /// As in [`SyscallRow::device`].
    pub device: u32,
    /// Number of this piece, from 0; pieces of a name follow each other.
    pub part: u16,
    /// Pieces of this name.
    pub parts: u16,
    /// Bytes of the path, NUL padded.
    pub path: [u8; PATH_PART],
}

impl Default for FileRow {
    fn default() -> FileRow {
        FileRow {
            time_ns: 0,
            inode: 0,
            device: 0,
            part: 0,
            parts: 1,
            path: [0; PATH_PART],
        }
    }
}

use crate::raw::raw_row;

raw_row!(AppRow, "app", {
    op_id: u64,
    intended_ns: u64,
    submit_ns: u64,
    complete_ns: u64,
    reap_ns: u64,
    offset_bytes: u64,
    size_bytes: u32,
    queue_depth: u32,
    error: i32,
    op: u8,
    file: u8,
});

raw_row!(BlockRow, "block", {
    request_key: u64,
    op_id: u64,
    queue_ns: u64,
    start_ns: u64,
    insert_ns: u64,
    issue_first_ns: u64,
    issue_ns: u64,
    irq_ns: u64,
    complete_ns: u64,
    sector_512: u64,
    size_bytes: u32,
    cmd_flags: u32,
    device: u32,
    pid: i32,
    tid: i32,
    vector: i32,
    error: i32,
    cpu: u16,
    complete_cpu: u16,
    hctx: u16,
    requeues: u16,
    merges: u16,
    owner_key: u64,
    stack_key: u64,
    inode: u64,
    file_offset_bytes: u64,
    cgroup: u64,
    file_device: u32,
    flags: u32,
    comm: [u8; 16],
});

raw_row!(BlockMergeRow, "block_merge", {
    request_key: u64,
    op_id: u64,
    owner_key: u64,
    inode: u64,
    file_offset_bytes: u64,
    file_device: u32,
    size_bytes: u32,
});

raw_row!(BlockCarrierRow, "block_carrier", {
    carrier_key: u64,
    flush_key: u64,
    issue_ns: u64,
    irq_ns: u64,
    done_ns: u64,
});

raw_row!(SyscallRow, "syscall", {
    op_key: u64,
    owner_key: u64,
    user_data: u64,
    start_ns: u64,
    end_ns: u64,
    offset_bytes: u64,
    size_bytes: u64,
    result: i64,
    inode: u64,
    device: u32,
    pid: i32,
    tid: i32,
    flags: u32,
    cpu: u16,
    end_cpu: u16,
    call: u16,
    via: u8,
    op: u8,
    comm: [u8; 16],
});

raw_row!(FileRow, "file", {
    time_ns: u64,
    inode: u64,
    device: u32,
    part: u16,
    parts: u16,
    path: [u8; PATH_PART],
});
