//! The vocabulary of a case: layers, operation kinds, flags, stages and the rows of its tables.
//!
//! All times are integer nanoseconds. A raw row holds `CLOCK_MONOTONIC` of its host; a sealed row
//! holds nanoseconds since the start of the case. `None` means *not observed*; zero means zero.

/// Version of the case format that this code writes. A reader refuses newer ones by name.
pub const FORMAT_VERSION: u32 = 4;

/// One layer of the storage stack, as a partition of `ops/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// What the workload asked for, and when it meant to.
    App,
    /// System calls.
    Syscall,
    /// Block requests (and bios on stacked devices).
    Block,
    /// What the drive or the bus itself reports.
    Device,
}

impl Layer {
    /// Every layer, top of the stack first.
    pub const ALL: [Layer; 4] = [Layer::App, Layer::Syscall, Layer::Block, Layer::Device];

    /// Name as used in paths (`ops/layer=<name>`).
    pub const fn name(self) -> &'static str {
        match self {
            Layer::App => "app",
            Layer::Syscall => "syscall",
            Layer::Block => "block",
            Layer::Device => "device",
        }
    }

    /// Bits 56.. of every operation id of this layer, which keeps ids unique in a case.
    pub fn op_id_base(self) -> u64 {
        match self {
            Layer::App => 1 << 56,
            Layer::Syscall => 2 << 56,
            Layer::Block => 3 << 56,
            Layer::Device => 4 << 56,
        }
    }
}

/// What an open and the like fail with only where storage does (EIO, ENOSPC, ENOLINK, EBADMSG, ETIMEDOUT, EUCLEAN, EREMOTEIO,
/// EDQUOT); with others, as ENOENT, the kernel answers a question. Numbers of Linux on x86_64 and arm64 (asm-generic/errno.h).
pub const STORAGE_ERRNOS: [i32; 8] = [5, 28, 67, 74, 110, 117, 121, 122];
/// Answers to a call that was broken off or was not to wait, with which no I/O failed: EINTR, EAGAIN.
pub const UNFINISHED_ERRNOS: [i32; 2] = [4, 11];

/// Kind of an operation. The discriminant is what raw rows carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Data read.
    Read = 0,
    /// Data written.
    Write = 1,
    /// Cache flush of a device.
    Flush = 2,
    /// Discard, trim, write zeroes.
    Discard = 3,
    /// fsync, fdatasync and their kin.
    Sync = 4,
    /// Server-side or kernel-side copy.
    Copy = 5,
    /// Anything else.
    Other = 6,
    /// Layer app of a program: a transaction, its reads, writes and commit.
    Transaction = 7,
    /// Layer app of a program: writes that are made durable together.
    Commit = 8,
    /// Layer app of a program: a new record.
    Insert = 9,
    /// Layer app of a program: a record changed.
    Update = 10,
    /// Layer app of a program: records read in order.
    Scan = 11,
    /// Layer app of a program: a record read, changed and written.
    Modify = 12,
    /// Layer app of a program: a whole file read, written, copied or removed.
    File = 13,
    /// Layer syscall: a file opened or made.
    Open = 14,
    /// Layer syscall: a file renamed.
    Rename = 15,
    /// Layer syscall: a name removed: unlink, rmdir.
    Unlink = 16,
    /// Layer syscall: a directory made.
    Mkdir = 17,
    /// Layer syscall: another name made: link, symlink.
    Link = 18,
    /// Layer syscall: a length set: truncate, ftruncate.
    Truncate = 19,
    /// Layer syscall: space allocated or freed: fallocate.
    Allocate = 20,
    /// Layer syscall: a page of a mapped file that was not in memory, and that a thread waited for.
    Fault = 21,
    /// Layer syscall: pages of a file or device dropped from the page cache on request: posix_fadvise(POSIX_FADV_DONTNEED), ioctl(BLKFLSBUF).
    Drop = 22,
    /// Layer syscall: a file closed. Of this and of the next three kinds only the calls are known in which the thread slept.
    Close = 23,
    /// Layer syscall: what is behind a name or descriptor: stat, statx, access, readlink, getxattr.
    Lookup = 24,
    /// Layer syscall: names of a directory: getdents.
    List = 25,
    /// Layer syscall: mode, owner, times, extended attributes set: chmod, chown, utimensat, setxattr.
    Attribute = 26,
}

impl Op {
    /// Every kind, in the order of the discriminants.
    pub const ALL: [Op; 27] = [
        Op::Read,
        Op::Write,
        Op::Flush,
        Op::Discard,
        Op::Sync,
        Op::Copy,
        Op::Other,
        Op::Transaction,
        Op::Commit,
        Op::Insert,
        Op::Update,
        Op::Scan,
        Op::Modify,
        Op::File,
        Op::Open,
        Op::Rename,
        Op::Unlink,
        Op::Mkdir,
        Op::Link,
        Op::Truncate,
        Op::Allocate,
        Op::Fault,
        Op::Drop,
        Op::Close,
        Op::Lookup,
        Op::List,
        Op::Attribute,
    ];

    /// The name stored in column `op`.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::Sync => "sync",
            Op::Copy => "copy",
            Op::Other => "other",
            Op::Transaction => "transaction",
            Op::Commit => "commit",
            Op::Insert => "insert",
            Op::Update => "update",
            Op::Scan => "scan",
            Op::Modify => "modify",
            Op::File => "file",
            Op::Open => "open",
            Op::Rename => "rename",
            Op::Unlink => "unlink",
            Op::Mkdir => "mkdir",
            Op::Link => "link",
            Op::Truncate => "truncate",
            Op::Allocate => "allocate",
            Op::Fault => "fault",
            Op::Drop => "drop",
            Op::Close => "close",
            Op::Lookup => "lookup",
            Op::List => "list",
            Op::Attribute => "attribute",
        }
    }

    /// Whether it moves or keeps data. What is opened, named or made asks the kernel, and some of its errors are answers.
    pub const fn is_io(self) -> bool {
        !matches!(
            self,
            Op::Other
                | Op::Open
                | Op::Rename
                | Op::Unlink
                | Op::Mkdir
                | Op::Link
                | Op::Truncate
                | Op::Allocate
                | Op::Drop
                | Op::Close
                | Op::Lookup
                | Op::List
                | Op::Attribute
        )
    }

    /// The kind of this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The kind behind a raw byte; `None` if the byte is no known kind.
    pub fn from_raw(raw: u8) -> Option<Op> {
        Op::ALL.get(raw as usize).copied()
    }
}

/// Bits of the column `flags`.
pub mod flags {
    /// Somebody waits for it (REQ_SYNC, O_SYNC).
    pub const SYNC: u32 = 1 << 0;
    /// File system metadata.
    pub const META: u32 = 1 << 1;
    /// Readahead.
    pub const READAHEAD: u32 = 1 << 2;
    /// Forced unit access.
    pub const FUA: u32 = 1 << 3;
    /// Background writeback.
    pub const BACKGROUND: u32 = 1 << 4;
    /// Completed by polling.
    pub const POLLED: u32 = 1 << 5;
    /// More than one bio was merged into this request.
    pub const MERGED: u32 = 1 << 6;
    /// Preflush was asked for.
    pub const PREFLUSH: u32 = 1 << 7;
    /// Direct I/O (no page cache).
    pub const DIRECT: u32 = 1 << 8;
    /// Held back by writeback throttling (or io.latency, which uses the same function) before it got a request, or a request of it was.
    pub const WBT: u32 = 1 << 9;
    /// A flush command was part of it: time at the device is that of its data, if it has any, and of the flush commands
    /// that served it, which have rows of their own.
    pub const FLUSH: u32 = 1 << 10;
    /// A thread of the kernel submitted it.
    pub const KERNEL: u32 = 1 << 11;
    /// Names, bit by bit; the format document is checked against it.
    pub const NAMES: [(&str, u32); 12] = [
        ("sync", SYNC),
        ("meta", META),
        ("readahead", READAHEAD),
        ("fua", FUA),
        ("background", BACKGROUND),
        ("polled", POLLED),
        ("merged", MERGED),
        ("preflush", PREFLUSH),
        ("direct", DIRECT),
        ("wbt", WBT),
        ("flush", FLUSH),
        ("kernel", KERNEL),
    ];
}

/// A stage of an operation's latency. Exclusive; the stages of a row sum to its `latency_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Stage {
    /// Intended start to submit.
    App = 0,
    /// In the kernel above the block layer with nothing of the operation in flight below.
    Fs = 1,
    /// Held back on purpose.
    Throttle = 2,
    /// Bio queued to last issue.
    Queue = 3,
    /// Issue to the begin of the interrupt.
    Device = 4,
    /// Begin of the interrupt to request complete.
    Interrupt = 5,
    /// Complete until the submitter takes it.
    Reap = 6,
    /// Submitter runnable but not running.
    Runqueue = 7,
    /// Ambiguous joins.
    Unknown = 8,
}

impl Stage {
    /// Every stage in the order an operation passes them (the last two cut across).
    pub const ALL: [Stage; 9] = [
        Stage::App,
        Stage::Fs,
        Stage::Throttle,
        Stage::Queue,
        Stage::Device,
        Stage::Interrupt,
        Stage::Reap,
        Stage::Runqueue,
        Stage::Unknown,
    ];

    /// Name without unit, as verdicts print it.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::App => "app",
            Stage::Fs => "fs",
            Stage::Throttle => "throttle",
            Stage::Queue => "queue",
            Stage::Device => "device",
            Stage::Interrupt => "interrupt",
            Stage::Reap => "reap",
            Stage::Runqueue => "runqueue",
            Stage::Unknown => "unknown",
        }
    }

    /// Column name, with unit.
    pub const fn column(self) -> &'static str {
        match self {
            Stage::App => "app_ns",
            Stage::Fs => "fs_ns",
            Stage::Throttle => "throttle_ns",
            Stage::Queue => "queue_ns",
            Stage::Device => "device_ns",
            Stage::Interrupt => "interrupt_ns",
            Stage::Reap => "reap_ns",
            Stage::Runqueue => "runqueue_ns",
            Stage::Unknown => "unknown_ns",
        }
    }
}

/// Identifier of an interned name (host, device, file, comm, cgroup); see `sealed::Names`.
pub type NameId = u32;

/// One sealed operation: a row of `ops/layer=<layer>/`.
///
/// Columns, units and NULL rules are those of `docs/reference/case-format.md`.
#[derive(Clone, Debug, PartialEq)]
pub struct OpRow {
    /// Unique in the case; the layer is in bits 56.. (`Layer::op_id_base`).
    pub op_id: u64,
    /// Since the start of the case.
    pub start_ns: i64,
    /// From the (intended) start to the end. A lower bound where `open`.
    pub latency_ns: i64,
    /// Still unfinished when the recording began or ended.
    pub open: bool,
    /// Kind.
    pub op: Op,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Host name.
    pub host: Option<NameId>,
    /// Kernel name of the device (`vda`, `loop0`).
    pub device: Option<NameId>,
    /// Path, or `inode:N`.
    pub file: Option<NameId>,
    /// Command name of the submitting thread.
    pub comm: Option<NameId>,
    /// Control group path.
    pub cgroup: Option<NameId>,
    /// In the layer's own address space. None for operations without a place (flush, sync).
    pub offset_bytes: Option<i64>,
    /// Zero for operations without data.
    pub size_bytes: Option<i64>,
    /// In flight on this device (block) or by this worker (app) at start, this one included.
    pub queue_depth: Option<i32>,
    /// Process of the submitter.
    pub pid: Option<i32>,
    /// Thread of the submitter.
    pub tid: Option<i32>,
    /// CPU of the submit.
    pub cpu: Option<i32>,
    /// CPU of the completion.
    pub complete_cpu: Option<i32>,
    /// Hardware queue.
    pub hctx: Option<i32>,
    /// Interrupt vector (Linux irq number) that completed it.
    pub vector: Option<i32>,
    /// Errno, 0 = success.
    pub error: i32,
    /// 1, or the inverse sampling probability.
    pub weight: f32,
    /// Indexed by [`Stage`]; None = not observed (merged into the stage before it).
    pub stages: [Option<i64>; 9],
    /// Inside `interrupt_ns`: handlers of other devices on the same vector or CPU.
    pub foreign_handler_ns: Option<i64>,
}

impl OpRow {
    /// An operation of which no more is known than its moment, kind and latency.
    #[inline]
    pub fn plain(start_ns: i64, latency_ns: i64, op: Op) -> OpRow {
        OpRow {
            op_id: 0,
            start_ns,
            latency_ns,
            open: false,
            op,
            flags: 0,
            host: None,
            device: None,
            file: None,
            comm: None,
            cgroup: None,
            offset_bytes: None,
            size_bytes: None,
            queue_depth: None,
            pid: None,
            tid: None,
            cpu: None,
            complete_cpu: None,
            hctx: None,
            vector: None,
            error: 0,
            weight: 1.0,
            stages: [None; 9],
            foreign_handler_ns: None,
        }
    }
}

/// How a parent operation and its child belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LinkKind {
    /// The parent cannot end before the child.
    WaitsFor,
    /// The child writes back what the parent dirtied.
    Carries,
    /// A stacked device's request and the member's.
    Stacked,
    /// The parent was merged into a request that another one began.
    Merged,
    /// The parent waited in the queue until the child, a flush command that did not serve it, was done.
    QueuedBehind,
}

impl LinkKind {
    /// Every kind, in the order of the discriminants.
    pub const ALL: [LinkKind; 5] = [
        LinkKind::WaitsFor,
        LinkKind::Carries,
        LinkKind::Stacked,
        LinkKind::Merged,
        LinkKind::QueuedBehind,
    ];

    /// Name as stored.
    pub const fn name(self) -> &'static str {
        match self {
            LinkKind::WaitsFor => "waits_for",
            LinkKind::Carries => "carries",
            LinkKind::Stacked => "stacked",
            LinkKind::Merged => "merged",
            LinkKind::QueuedBehind => "queued_behind",
        }
    }
}

/// A row of `links/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRow {
    /// `op_id` of the upper operation.
    pub parent_id: u64,
    /// `op_id` of the lower operation.
    pub child_id: u64,
    /// Bytes of the child that belong to the parent.
    pub bytes: i64,
    /// Kind of the link. A merged bio's op also waits: its kind is `Merged`.
    pub kind: LinkKind,
}

/// A row of `gaps/`: a submitting thread had nothing in flight below it though its workload meant to be busy.
#[derive(Clone, Debug, PartialEq)]
pub struct GapRow {
    /// Layer in which the thread had nothing in flight.
    pub layer: Layer,
    /// Submitting thread.
    pub tid: i32,
    /// Its command name.
    pub comm: Option<NameId>,
    /// Since the start of the case.
    pub start_ns: i64,
    /// Length of the silence.
    pub duration_ns: i64,
    /// `stopped`, `runnable`, `blocked`, `running`, or `unobserved` where no scheduler probe ran.
    pub state: String,
    /// Whether the workload is known to have meant to submit (own closed loop), or only presumed.
    pub meant_busy: bool,
}

/// A row of `irqs/`: one run of an interrupt handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqRow {
    /// Host name.
    pub host: Option<NameId>,
    /// CPU it ran on.
    pub cpu: i32,
    /// Linux number of the interrupt; None for a softirq.
    pub vector: Option<i32>,
    /// Name of the handler (`nvme0q1`), or of the softirq (`BLOCK`).
    pub handler: NameId,
    /// Hard or soft.
    pub kind: IrqKind,
    /// Block device it serves, where it serves one.
    pub device: Option<NameId>,
    /// Since the start of the case.
    pub start_ns: i64,
    /// How long it ran.
    pub duration_ns: i64,
}

/// Kind of an interrupt handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IrqKind {
    /// A hardware interrupt's handler.
    Hard,
    /// A softirq.
    Soft,
}

impl IrqKind {
    /// Every kind.
    pub const ALL: [IrqKind; 2] = [IrqKind::Hard, IrqKind::Soft];

    /// Name as stored.
    pub const fn name(self) -> &'static str {
        match self {
            IrqKind::Hard => "hard",
            IrqKind::Soft => "soft",
        }
    }
}

/// A row of `cache/`: a piece of a read and the tier that served it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRow {
    /// The read: an `op_id` of this case.
    pub op_id: u64,
    /// `ram`, `readahead` (it waited for readahead already in flight), `device`; in the lab also `ssd`, `hdd`.
    pub tier: String,
    /// File that was read.
    pub file: Option<NameId>,
    /// First byte of the piece, in the file; None where only the amount is known.
    pub offset_bytes: Option<i64>,
    /// Bytes of the piece.
    pub size_bytes: i64,
    /// How long the read waited for this piece; 0 = it was there.
    pub wait_ns: i64,
}

/// A row of `prefetch/`: what a prefetcher did for one file in one window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchRow {
    /// The file.
    pub file: NameId,
    /// Begin of the window, since the start of the case.
    pub start_ns: i64,
    /// Its length.
    pub duration_ns: i64,
    /// Fetched ahead of need.
    pub issued_bytes: i64,
    /// Of what was fetched: read later.
    pub used_bytes: i64,
    /// Of what was fetched: evicted unread.
    pub wasted_bytes: i64,
    /// Read while the fetch was still in flight.
    pub late_bytes: Option<i64>,
    /// Read without ever having been fetched ahead.
    pub missed_bytes: Option<i64>,
}

/// A row of `waits/`: what a submitting thread did when it could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// The thread.
    pub tid: i32,
    /// Its process.
    pub pid: Option<i32>,
    /// Its command name.
    pub comm: Option<NameId>,
    /// CPU that it waited for.
    pub cpu: Option<i32>,
    /// Since the start of the case.
    pub start_ns: i64,
    /// Length.
    pub duration_ns: i64,
    /// Kind of the wait.
    pub state: WaitState,
    /// Who ran meanwhile (`runnable`), or what it was blocked in.
    pub cause: Option<NameId>,
    /// Process that ran meanwhile.
    pub cause_pid: Option<i32>,
    /// Command name of the thread that woke it from a sleep of 100 us or more that was not for I/O; `None` where that was not seen, or was an interrupt.
    pub waker: Option<NameId>,
    /// That thread's process.
    pub waker_pid: Option<i32>,
    /// That thread.
    pub waker_tid: Option<i32>,
}

/// Why a thread did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitState {
    /// It could have run, but another one did.
    Runnable,
    /// It slept inside the kernel.
    Blocked,
    /// A signal, a tracer or the freezer had stopped it.
    Stopped,
    /// Its control group had used up its CPU time.
    Throttled,
}

impl WaitState {
    /// Every state.
    pub const ALL: [WaitState; 4] = [
        WaitState::Runnable,
        WaitState::Blocked,
        WaitState::Stopped,
        WaitState::Throttled,
    ];

    /// Name as stored.
    pub const fn name(self) -> &'static str {
        match self {
            WaitState::Runnable => "runnable",
            WaitState::Blocked => "blocked",
            WaitState::Stopped => "stopped",
            WaitState::Throttled => "throttled",
        }
    }
}

/// A row of `series/`: one sample of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesRow {
    /// Moment of the sample, since the start of the case.
    pub time_ns: i64,
    /// Host name.
    pub host: Option<NameId>,
    /// What the subject is.
    pub kind: SubjectKind,
    /// The subject: `nvme0n1`, `cpu3`, `pid 812`.
    pub subject: NameId,
    /// Name with unit: `latency_ns`, `throughput_bytes_per_s`, `busy_ratio`.
    pub metric: NameId,
    /// The sample.
    pub value: f64,
}

/// Rows of `series/`: samples of several counters of one subject at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Moment of the samples, since the start of the case.
    pub time_ns: i64,
    /// Host name.
    pub host: Option<NameId>,
    /// What the subject is.
    pub kind: SubjectKind,
    /// The subject.
    pub subject: NameId,
    /// Metrics and their values.
    pub values: &'a [(NameId, f64)],
}

/// What a sampled subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubjectKind {
    /// A storage device.
    Device,
    /// A process or thread.
    Process,
    /// A CPU.
    Cpu,
    /// The host as a whole.
    Host,
    /// A control group.
    Cgroup,
    /// A part of a modelled stack.
    Component,
}

impl SubjectKind {
    /// Every kind.
    pub const ALL: [SubjectKind; 6] = [
        SubjectKind::Device,
        SubjectKind::Process,
        SubjectKind::Cpu,
        SubjectKind::Host,
        SubjectKind::Cgroup,
        SubjectKind::Component,
    ];

    /// Name as stored.
    pub const fn name(self) -> &'static str {
        match self {
            SubjectKind::Device => "device",
            SubjectKind::Process => "process",
            SubjectKind::Cpu => "cpu",
            SubjectKind::Host => "host",
            SubjectKind::Cgroup => "cgroup",
            SubjectKind::Component => "component",
        }
    }
}

/// A row of `losses/`: what a probe could not see, and when.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LossRow {
    /// Probe or stream.
    pub probe: String,
    /// First moment (CLOCK_MONOTONIC in raw files, since case start when sealed).
    pub start_ns: i64,
    /// Last moment.
    pub end_ns: i64,
    /// Events lost; None if the number cannot be known.
    pub lost: Option<u64>,
    /// `ring_full`, `map_full`, `recursion`, `truncated_raw`, `no_issue`, ...
    pub reason: String,
}

/// Kind of the event that the observed process was stopped (by a signal or a tracer); its subject is `process PID`.
pub const EVENT_STOPPED: &str = "stopped";

/// Kind of the event that a stopped process runs again; its subject is `process PID`.
pub const EVENT_CONTINUED: &str = "continued";

/// A row of `events/`: something that happened at a moment (error, requeue, timeout, setting changed).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventRow {
    /// Moment (as for losses).
    pub time_ns: i64,
    /// `error`, `requeue`, `timeout`, `reset`, `setting`, `stopped`, `continued`, ...
    pub kind: String,
    /// Device or other subject.
    pub subject: String,
    /// What happened, in words.
    pub detail: String,
}
