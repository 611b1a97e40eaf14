//! The file system: one file. Its reads, writes and flushes are answered when the injector says.
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, WriteFlags,
};

use crate::clock::mono_ns;
use crate::fault::{error_name, Op};
use crate::inject::{Decision, Injector, Request};
use crate::log::LogLine;
use crate::model::{Command, Station};
use crate::process::be_a_disk_thread;
use crate::store::Store;
use crate::timer::Timer;

/// Inode of the one file; 1 is the root folder.
const FILE_INODE: INodeNo = INodeNo(2);

/// Nobody else changes our attributes: the kernel may keep them.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// Largest request the kernel sends (its own limit is 256 pages).
const REQUEST_MAX_BYTES: u32 = 1 << 20;

/// An answer that waits for its time, with what it will say.
pub enum Answer {
    Read(ReplyData, Result<Vec<u8>, Errno>),
    Write(ReplyWrite, Result<u32, Errno>),
    Empty(ReplyEmpty, Result<(), Errno>),
}

impl Answer {
    /// Sends the answer to the kernel, which completes the request within this call.
    pub fn send(self) {
        match self {
            Answer::Read(reply, Ok(data)) => reply.data(&data),
            Answer::Read(reply, Err(errno)) => reply.error(errno),
            Answer::Write(reply, Ok(size_bytes)) => reply.written(size_bytes),
            Answer::Write(reply, Err(errno)) => reply.error(errno),
            Answer::Empty(reply, Ok(())) => reply.ok(),
            Answer::Empty(reply, Err(errno)) => reply.error(errno),
        }
    }
}

/// What the timer does.
pub enum Due {
    Answer(Answer),
    /// Something happens in the modelled drive.
    Look,
}

/// A request at a modelled drive.
pub struct AtDrive {
    answer: Answer,
    /// What faults add to the time that the drive takes.
    added_ns: u64,
}

/// A modelled drive, and when the timer looks at it next.
pub struct Modelled {
    station: Station<AtDrive>,
    look_ns: u64,
}

impl Modelled {
    pub fn new(station: Station<AtDrive>) -> Modelled {
        Modelled {
            station,
            look_ns: u64::MAX,
        }
    }
}

/// Requests that arrived, whatever became of them.
#[derive(Default)]
pub struct Counters {
    pub reads: AtomicU64,
    pub read_bytes: AtomicU64,
    pub writes: AtomicU64,
    pub write_bytes: AtomicU64,
    pub flushes: AtomicU64,
    pub discards: AtomicU64,
}

/// What the file system shares with its owner.
pub struct Shared {
    pub injector: Injector,
    pub timer: Timer<Due>,
    /// None: requests take no time by themselves.
    pub modelled: Option<Mutex<Modelled>>,
    pub counters: Counters,
    /// Zero of the times in faults.
    pub start_mono_ns: u64,
    /// Taken away at shutdown, so that the log can end.
    pub log: Mutex<Option<Sender<LogLine>>>,
}

impl Shared {
    /// Answers at the due time: now, or by the timer thread.
    fn answer_at(&self, due_ns: u64, answer: Answer) {
        let due_mono_ns = self.start_mono_ns + due_ns;
        if due_mono_ns <= mono_ns() {
            answer.send();
        } else if let Err(Due::Answer(answer)) = self.timer.push(due_mono_ns, Due::Answer(answer)) {
            answer.send();
        }
    }

    /// Gives a request to the modelled drive, if there is one; else it is done as the decision says.
    fn submit(&self, command: Command, decision: &Decision, answer: Answer) {
        let Some(modelled) = &self.modelled else {
            return self.answer_at(decision.due_ns, answer);
        };
        if self.injector.is_disarmed() {
            return answer.send();
        }
        let mut drive = modelled.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the drive hears of arrivals in order.
        let now_ns = mono_ns() - self.start_mono_ns;
        let added_ns = decision.added_ns;
        drive
            .station
            .arrive(now_ns, command, AtDrive { answer, added_ns });
        self.let_happen(drive, now_ns);
    }

    /// The timer's look at the modelled drive.
    pub fn look(&self) {
        if let Some(modelled) = &self.modelled {
            let mut drive = modelled.lock().unwrap_or_else(PoisonError::into_inner);
            drive.look_ns = u64::MAX;
            let now_ns = mono_ns() - self.start_mono_ns;
            self.let_happen(drive, now_ns);
        }
    }

    fn let_happen(&self, mut drive: MutexGuard<Modelled>, now_ns: u64) {
        let mut begun = Vec::new();
        drive
            .station
            .advance(now_ns, |item, done_ns| begun.push((item, done_ns)));
        if let Some(next_ns) = drive.station.next_ns().filter(|next_ns| *next_ns < drive.look_ns) {
            // A timer that is closed answers what waits (`abandon`).
            if self.timer.push(self.start_mono_ns + next_ns, Due::Look).is_ok() {
                drive.look_ns = next_ns;
            }
        }
        drop(drive);
        for (item, done_ns) in begun {
            self.answer_at(done_ns + item.added_ns, item.answer);
        }
    }

    /// Answers at once what the modelled drive has not begun.
    pub fn abandon(&self) {
        if let Some(modelled) = &self.modelled {
            let mut drive = modelled.lock().unwrap_or_else(PoisonError::into_inner);
            for item in drive.station.abandon() {
                item.answer.send();
            }
        }
    }
}

/// The file system.
pub struct Disk {
    pub file_name: String,
    pub size_bytes: u64,
    pub store: Store,
    pub shared: Arc<Shared>,
    /// Numbers the reader threads.
    pub threads: AtomicUsize,
}

thread_local! {
    static PREPARED: Cell<bool> = const { Cell::new(false) };
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Disk {
    /// Names and prepares the reader thread at its first request (fuser starts and names them).
    fn prepare_thread(&self) {
        if PREPARED.replace(true) {
            return;
        }
        be_a_disk_thread();
        let name = format!("slowdisk-{}\0", self.threads.fetch_add(1, Relaxed));
        // SAFETY: a name that ends with 0; the kernel copies at most 16 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }

    /// Notes the arrival and decides; logs what hit.
    fn arrive(&self, op: Op, offset_bytes: u64, size_bytes: u64) -> Decision {
        self.prepare_thread();
        let shared = &self.shared;
        let time_mono_ns = mono_ns();
        let arrive_ns = time_mono_ns - shared.start_mono_ns;
        let decision = shared.injector.decide(&Request {
            op,
            offset_bytes,
            size_bytes,
            arrive_ns,
        });
        if !decision.hits.is_empty() {
            if let Some(log) = &*shared.log.lock().unwrap_or_else(PoisonError::into_inner) {
                for hit in &decision.hits {
                    // A log that failed says so at the end.
                    let _ = log.send(LogLine {
                        time_mono_ns,
                        op: op.name(),
                        offset_bytes,
                        size_bytes,
                        fault: shared.injector.fault_text(hit.fault),
                        delay_ns: hit.delay_ns,
                        error: shared.injector.errno(hit.fault).map(error_name),
                    });
                }
            }
        }
        decision
    }

    fn attr(&self, inode: INodeNo) -> FileAttr {
        let is_file = inode == FILE_INODE;
        FileAttr {
            ino: inode,
            size: if is_file { self.size_bytes } else { 0 },
            blocks: if is_file { self.size_bytes / 512 } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

/// A request for the modelled drive. The kernel sends at most `REQUEST_MAX_BYTES`.
fn command(op: Op, offset_bytes: u64, size_bytes: u64) -> Command {
    Command {
        op,
        offset_bytes,
        size_bytes: u32::try_from(size_bytes).unwrap_or(u32::MAX),
    }
}

/// Adds a request of `size_bytes` to a counter pair.
fn count(requests: &AtomicU64, bytes: &AtomicU64, size_bytes: u64) {
    requests.fetch_add(1, Relaxed);
    bytes.fetch_add(size_bytes, Relaxed);
}

fn planned(decision: &Decision) -> Result<(), Errno> {
    decision.errno.map_or(Ok(()), |errno| Err(Errno::from_i32(errno)))
}

impl fuser::Filesystem for Disk {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without asynchronous direct I/O each request would hold a worker of the loop device.
        let needed = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES;
        config
            .add_capabilities(needed)
            .map_err(|missing| io::Error::other(format!("the kernel's FUSE lacks {missing:?}")))?;
        let limits = [
            config.set_max_background(u16::MAX).is_ok(),
            config.set_congestion_threshold(u16::MAX).is_ok(),
            config.set_max_write(REQUEST_MAX_BYTES).is_ok(),
            config.set_max_readahead(1).is_ok(),
        ];
        if limits.contains(&false) {
            return Err(io::Error::other("the kernel's FUSE refuses our limits"));
        }
        Ok(())
    }

    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == OsStr::new(&self.file_name) {
            reply.entry(&FOR_EVER, &self.attr(FILE_INODE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &fuser::Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attr(inode));
    }

    fn open(&self, _: &fuser::Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size_bytes = u64::from(size).min(self.size_bytes.saturating_sub(offset_bytes));
        count(
            &self.shared.counters.reads,
            &self.shared.counters.read_bytes,
            size_bytes,
        );
        let decision = self.arrive(Op::Read, offset_bytes, size_bytes);
        let fill = |buffer: &mut Vec<u8>| {
            planned(&decision)?;
            buffer.resize(size_bytes as usize, 0);
            self.store.read(offset_bytes, buffer).map_err(Errno::from)
        };
        let later = decision.due_ns + self.shared.start_mono_ns > mono_ns();
        if later || self.shared.modelled.is_some() {
            let mut buffer = Vec::new();
            let result = fill(&mut buffer).map(|()| buffer);
            let command = command(Op::Read, offset_bytes, size_bytes);
            return self
                .shared
                .submit(command, &decision, Answer::Read(reply, result));
        }
        BUFFER.with_borrow_mut(|buffer| match fill(buffer) {
            Ok(()) => reply.data(buffer),
            Err(errno) => reply.error(errno),
        });
    }

    fn write(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size_bytes = data.len() as u64;
        count(
            &self.shared.counters.writes,
            &self.shared.counters.write_bytes,
            size_bytes,
        );
        let decision = self.arrive(Op::Write, offset_bytes, size_bytes);
        let result = planned(&decision).and_then(|()| {
            if offset_bytes + size_bytes > self.size_bytes {
                return Err(Errno::ENOSPC);
            }
            self.store
                .write(offset_bytes, data)
                .map(|()| data.len() as u32)
                .map_err(Errno::from)
        });
        let command = command(Op::Write, offset_bytes, size_bytes);
        self.shared
            .submit(command, &decision, Answer::Write(reply, result));
    }

    fn fsync(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.shared.counters.flushes.fetch_add(1, Relaxed);
        let decision = self.arrive(Op::Flush, 0, 0);
        let result = planned(&decision).and_then(|()| self.store.sync().map_err(Errno::from));
        let command = command(Op::Flush, 0, 0);
        self.shared
            .submit(command, &decision, Answer::Empty(reply, result));
    }

    fn fallocate(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        length_bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.prepare_thread();
        self.shared.counters.discards.fetch_add(1, Relaxed);
        match self.store.allocate(mode, offset_bytes, length_bytes) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(Errno::from(error)),
        }
    }
}
