//! Layer `syscall`: every operation a program asked for, its requests, and where its time went.
//!
//! Everything is read in order of start at once: operations, waits, and (from the block side) requests. So an operation
//! is in flight here as it was on the machine, and whatever begins meanwhile finds it by its owner key, file or thread.
//! Requests that were in flight before an operation began are remembered until they end.
mod active;
mod dirty;
mod sealed;
#[cfg(test)]
mod tests;
pub(crate) mod timeline;

pub(crate) use sealed::observed;
pub use sealed::CLASSES;

use crate::beside::{text, Streams, Surveys};
use crate::children::Child;
use crate::journals::Journals;
use crate::own_side::OwnSide;
use crate::peers::Peers;
use crate::pipeline::Out;
use crate::sorted::{Sorted, Surveyed, Timed};
use crate::stages::{block_entry_ns, BlockTimes};
use crate::stream::Stream;
use active::{Active, Actives, FileKey, Request};
use case::rows::{
    syscall_flags, BlockMergeRow, BlockRow, CacheWait, CacheWaitRow, SchedRow, SyscallRow, Via, Writeback,
    WritebackRow,
};
use case::schema::{Layer, LinkKind, LinkRow, Op, WaitState};
use case::CaseError;
use dirty::Dirty;
use sealed::Ended;
use std::collections::{BTreeMap, HashMap};

/// Ended operations that wait for an earlier one to end, before they are written out of order.
const HELD_MAX: usize = 1 << 17;
/// Requests remembered for operations to come, between two clearings.
const REMEMBERED_MAX: usize = 1 << 14;
/// A page may be marked as read a while after its request completed: the completing thread can be preempted in between.
const SETTLING_NS: u64 = 1_000_000_000;
/// What a thread sleeps in until a commit of its file system's journal is on the disk: XFS, ext4 (jbd2), btrfs.
const COMMIT_WAITS: [&str; 5] = [
    "xlog_wait_on_iclog",
    "xlog_wait_on_iclog_lsn",
    "jbd2_log_wait_commit",
    "wait_log_commit",
    "wait_for_commit",
];
/// Number of the call (x86-64).
const IO_SUBMIT: u16 = 209;
/// Low 8 bits of `cmd_flags` of a read and a write.
const OP_READ: u32 = 0;
const OP_WRITE: u32 = 1;
/// `REQ_META`, Linux 6.1 to 6.18.
const META_FLAG: u32 = 1 << 12;
/// With it `REQ_FUA`, `REQ_PREFLUSH`.
const DURABLE_FLAGS: u32 = META_FLAG | 1 << 17 | 1 << 18;
/// `REQ_RAHEAD`.
const READAHEAD_FLAG: u32 = 1 << 19;

impl Timed for SyscallRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        match self.end_ns {
            0 if self.flags & syscall_flags::END_UNSEEN != 0 => Some(self.start_ns),
            0 => None,
            end_ns => Some(end_ns),
        }
    }
    fn ties(&self) -> (u64, u64) {
        (self.end_ns, self.op_key)
    }
}

/// What is known of the time of one class of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Operations.
    pub operations: u64,
    /// Their latencies.
    pub total_ns: u64,
    /// Of those, what could not be attributed.
    pub unknown_ns: u64,
}

/// A write of a journal in flight.
#[derive(Clone, Copy, Debug)]
struct JournalWrite {
    request: Request,
    /// Disk.
    device: u32,
    /// Block device with the cache that it comes from; 0 = none.
    file_device: u32,
    /// A durable write of nobody in particular: of any file system on its disk.
    of_worker: bool,
}

/// The operations of programs on their way through a seal.
pub struct SyscallSide<'a> {
    rows: Sorted<'a, SyscallRow>,
    sched: Sorted<'a, SchedRow>,
    waits: Sorted<'a, CacheWaitRow>,
    writeback: Sorted<'a, WritebackRow>,
    surveys: &'a Surveys,
    watched: Watched,
    actives: Actives,
    next_number: u64,
    /// Ended, by number.
    held: BTreeMap<u64, Ended>,
    next_written: u64,
    /// Requests of the page cache and of direct I/O that have not ended yet, for operations to come.
    by_file: HashMap<FileKey, Vec<Request>>,
    by_owner: HashMap<u64, Vec<Request>>,
    remembered: usize,
    forget_at: usize,
    /// The latest requests that were queued at one moment by one thread for one file, and which those are.
    pieces: Vec<Request>,
    pieces_of: Option<(u64, i32, FileKey)>,
    /// What buffered writes left in the cache.
    dirty: Dirty,
    /// Disk on which data of a file system were seen to go.
    disk_of: HashMap<u32, u32>,
    /// When the last io_submit of a thread began and ended, if something of it went through the page cache.
    submitted: HashMap<i32, (u64, u64)>,
    /// Journals on other devices.
    journals: &'a Journals,
    /// Writes of journals that have not ended: who asks for durable data meanwhile joins the commit that runs.
    journal: Vec<JournalWrite>,
    /// Names of threads, as far as they came up.
    comms: HashMap<i32, [u8; 16]>,
    /// Who slept in a call for a call of another thread.
    peers: Peers,
    /// What the programs say themselves.
    own: OwnSide<'a>,
}

/// What was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// Block requests.
    pub block: bool,
    /// Interrupts.
    pub interrupts: bool,
    /// The scheduler.
    pub sched: bool,
    /// Waits for pages.
    pub cache: bool,
    /// Dirty throttling.
    pub writeback: bool,
}

impl<'a> SyscallSide<'a> {
    /// Before the first operation.
    pub(crate) fn new(
        stream: Option<&'a dyn Stream<SyscallRow>>,
        surveyed: &Surveyed<SyscallRow>,
        streams: &Streams<'a>,
        surveys: &'a Surveys,
        watched: Watched,
        journals: &'a Journals,
        own: OwnSide<'a>,
    ) -> Result<SyscallSide<'a>, CaseError> {
        // Without operations nothing asks for the others.
        let some = stream.is_some();
        Ok(SyscallSide {
            rows: Sorted::new(stream, surveyed)?,
            sched: surveys.sched(streams.sched.filter(|_| some))?,
            waits: surveys.cache_waits(streams.cache_wait.filter(|_| some))?,
            writeback: surveys.writeback(streams.writeback.filter(|_| some))?,
            surveys,
            watched,
            actives: Actives::default(),
            next_number: 0,
            held: BTreeMap::new(),
            next_written: 0,
            by_file: HashMap::new(),
            by_owner: HashMap::new(),
            remembered: 0,
            forget_at: REMEMBERED_MAX,
            pieces: Vec::new(),
            pieces_of: None,
            dirty: Dirty::default(),
            disk_of: HashMap::new(),
            submitted: HashMap::new(),
            journals,
            journal: Vec::new(),
            comms: HashMap::new(),
            peers: Peers::of_process(),
            own,
        })
    }

    /// Rows held now.
    pub fn rows_held(&self) -> usize {
        let own = self.own.rows_held();
        self.actives.len() + self.held.len() + self.remembered + self.dirty.len() + self.journal.len() + own
    }

    /// A request with its number; requests come in order of their entry.
    pub(crate) fn request(
        &mut self,
        row: &BlockRow,
        times: &BlockTimes,
        id: u64,
        merges: &[BlockMergeRow],
        out: &mut Out,
    ) -> Result<(), CaseError> {
        if self.is_idle() {
            return Ok(());
        }
        let child = Child {
            id,
            ..Child::of(row, times)
        };
        self.advance(child.part.entry_ns, out)?;
        self.place(row, child, merges, out)
    }

    /// A bio of a volume, in order with the requests. `row` is what [`crate::volumes::as_request`] makes of it.
    pub(crate) fn volume(
        &mut self,
        row: &BlockRow,
        id: u64,
        end_ns: u64,
        out: &mut Out,
    ) -> Result<(), CaseError> {
        if self.is_idle() {
            return Ok(());
        }
        self.advance(row.queue_ns, out)?;
        self.place(row, Child::of_volume(row, id, end_ns), &[], out)
    }

    /// A request of a member, for the operation behind a volume's bio `row`.
    pub(crate) fn member(
        &mut self,
        row: &BlockRow,
        child: Child,
        now_ns: u64,
        out: &mut Out,
    ) -> Result<(), CaseError> {
        if self.is_idle() {
            return Ok(());
        }
        self.advance(now_ns, out)?;
        let child = Child {
            bytes: u64::from(row.size_bytes),
            kind: LinkKind::Stacked,
            ..child
        };
        let file = (row.file_device != 0).then_some((row.file_device, row.inode));
        let request = Request::new(child, row.file_offset_bytes, file);
        self.bio(request, row.owner_key, now_ns);
        self.by_submitter(row, request);
        Ok(())
    }

    /// Whether no operation is left that something may belong to.
    fn is_idle(&self) -> bool {
        let calls = self.rows.peek().is_some() || self.actives.len() > 0 || self.dirty.len() > 0;
        let calls = calls || self.waits.peek().is_some();
        !calls && self.own.is_idle()
    }

    /// Gives a request, or a volume's bio, to the operations that wait for it.
    fn place(
        &mut self,
        row: &BlockRow,
        child: Child,
        merges: &[BlockMergeRow],
        out: &mut Out,
    ) -> Result<(), CaseError> {
        let (id, now_ns) = (child.id, block_entry_ns(row));
        let merged_bytes: u64 = merges.iter().map(|bio| u64::from(bio.size_bytes)).sum();
        let bio = |kind, bytes, offset_bytes, inode, file_device| {
            let file = (file_device != 0).then_some((file_device, inode));
            Request::new(Child { bytes, kind, ..child }, offset_bytes, file)
        };
        let first_bytes = u64::from(row.size_bytes).saturating_sub(merged_bytes);
        let offset_bytes = row.file_offset_bytes;
        let mut first = bio(
            LinkKind::WaitsFor,
            first_bytes,
            offset_bytes,
            row.inode,
            row.file_device,
        );
        self.join_pieces(row, &mut first);
        let others = merges.iter().map(|other| {
            let (bytes, offset_bytes) = (u64::from(other.size_bytes), other.file_offset_bytes);
            let merged = bio(
                LinkKind::Merged,
                bytes,
                offset_bytes,
                other.inode,
                other.file_device,
            );
            (merged, other.owner_key)
        });
        let mut carried: BTreeMap<u64, u64> = BTreeMap::new();
        for (request, owner_key) in std::iter::once((first, row.owner_key)).chain(others) {
            self.bio(request, owner_key, now_ns);
            if let (OP_WRITE, Some(file)) = (row.cmd_flags & 0xff, request.file) {
                let end_bytes = request.offset_bytes + request.child.bytes;
                for (op_id, bytes) in self.dirty.carry(file, request.offset_bytes, end_bytes) {
                    *carried.entry(op_id).or_default() += bytes;
                }
            }
        }
        for (parent_id, bytes) in carried {
            out.link(&LinkRow {
                parent_id,
                child_id: id,
                bytes: bytes as i64,
                kind: LinkKind::Carries,
            })?;
        }
        self.by_submitter(row, first);
        Ok(())
    }

    /// A bio larger than its device takes becomes several requests, which were queued at the same moment, and its pages are read when the last
    /// one completes: who waits for one of its pages waits for them all. `latest` is one more of them, or of another bio.
    fn join_pieces(&mut self, row: &BlockRow, latest: &mut Request) {
        let Some(file) = latest
            .file
            .filter(|_| row.cmd_flags & 0xff == OP_READ && row.queue_ns != 0)
        else {
            return;
        };
        let of = (row.queue_ns, row.tid, file);
        if self.pieces_of != Some(of) {
            self.pieces_of = Some(of);
            self.pieces.clear();
        }
        let mut whole = latest.whole;
        // They come in any order: what lies between two others ties them.
        while let Some(next) = self.pieces.iter().map(|piece| piece.whole).find(|other| {
            let beside = other.1 == whole.0 || whole.1 == other.0;
            beside && other.0 != other.1
        }) {
            whole = (whole.0.min(next.0), whole.1.max(next.1));
        }
        latest.whole = whole;
        for piece in &mut self.pieces {
            let within = whole.0 <= piece.whole.0 && piece.whole.1 <= whole.1;
            if !within || piece.whole == whole {
                continue;
            }
            piece.whole = whole;
            let remembered = self.by_file.get_mut(&file).and_then(|requests| {
                let mut latest_first = requests.iter_mut().rev();
                latest_first.find(|request| request.child.id == piece.child.id)
            });
            if let Some(request) = remembered {
                request.whole = whole;
            }
            self.actives.of_file(file, |op| {
                let (from, to) = op.pages();
                if op.buffered_read() && piece.brings(from, to) {
                    op.give_again(*piece);
                }
            });
        }
        self.pieces.push(*latest);
    }

    /// A bio with a known owner or file.
    fn bio(&mut self, request: Request, owner_key: u64, now_ns: u64) {
        if owner_key != 0 {
            match self.actives.of_owner(owner_key) {
                Some(op) => op.give(request),
                None => self.remember(Some(owner_key), request, now_ns),
            }
        }
        let Some(file) = request.file else { return };
        self.actives.of_file(file, |op| {
            let (from, to) = op.pages();
            let its_page = request.brings(from, to);
            if op.direct() {
                if its_page && op.row.owner_key != 0 {
                    op.without_key.push(request);
                }
            } else if its_page && op.buffered_read() || op.durable() && file.1 != 0 {
                op.give(request);
            }
        });
        self.remember(None, request, now_ns);
    }

    /// What syncs wait for besides the file's own data, and what a thread reads besides data.
    fn by_submitter(&mut self, row: &BlockRow, request: Request) {
        if row.inode != 0 && row.file_device != 0 {
            self.disk_of.insert(row.file_device, row.device);
        }
        let read = row.cmd_flags & 0xff == OP_READ && row.cmd_flags & READAHEAD_FLAG == 0;
        let written = row.cmd_flags & 0xff == OP_WRITE;
        if row.tid > 0 {
            let disk_of = &mut self.disk_of;
            self.actives.of_thread(row.tid, |op| {
                if !op.is_call() {
                    return;
                }
                // Files of a file system on top of another (overlay) are written as files of that one: who syncs one there shows its disk.
                if op.durable() && written && op.row.device != 0 {
                    disk_of.entry(op.row.device).or_insert(row.device);
                }
                let keyed = op.direct() && op.row.owner_key != 0;
                if op.durable() || !keyed && (read || op.direct()) {
                    op.give(request);
                } else if keyed && row.owner_key == 0 {
                    op.without_key.push(request);
                }
            });
        }
        // The journal: blocks of the file system's own device, its metadata (btrfs keeps its trees, those of the log among them, in a file
        // of its own), or durable writes of its workers (of btrfs: superblocks, which lie in the disk's cache).
        let metadata = row.inode == 0 || row.cmd_flags & META_FLAG != 0;
        if !metadata || row.cmd_flags & 0xff == OP_READ {
            return;
        }
        let of_disk = row.file_device == 0 || row.file_device == row.device;
        let write = JournalWrite {
            request,
            device: row.device,
            file_device: row.file_device,
            of_worker: of_disk && row.owner_key == 0 && row.cmd_flags & DURABLE_FLAGS != 0,
        };
        for device in self.actives.durable_devices() {
            if self.may_be_of(&write, device) {
                self.actives.durable_of(device, |op| op.give(request));
            }
        }
        if write.of_worker || write.file_device != 0 {
            let now_ns = request.child.part.entry_ns;
            self.journal
                .retain(|other| other.request.child.part.end_ns > now_ns);
            self.journal.push(write);
        }
    }

    /// Writes of this file system's journal, as far as is known, that are in flight at this moment.
    fn journal_writes(&self, device: u32, now_ns: u64) -> impl Iterator<Item = Request> + '_ {
        let running = self
            .journal
            .iter()
            .filter(move |write| write.request.child.part.end_ns > now_ns);
        running
            .filter(move |write| self.may_be_of(write, device))
            .map(|write| write.request)
    }

    /// Whether the journal of this file system may have written it.
    fn may_be_of(&self, write: &JournalWrite, device: u32) -> bool {
        let its_disk = write.device == device || self.disk_of.get(&device) == Some(&write.device);
        write.file_device == device
            || its_disk && write.of_worker
            || self.journals.has(device, write.device, write.file_device)
    }

    fn remember(&mut self, owner_key: Option<u64>, request: Request, now_ns: u64) {
        match (owner_key, request.file) {
            (Some(key), _) => self.by_owner.entry(key).or_default().push(request),
            (None, Some(file)) => self.by_file.entry(file).or_default().push(request),
            (None, None) => return,
        }
        self.remembered += 1;
        if self.remembered < self.forget_at {
            return;
        }
        let mut left = 0;
        let mut prune = |requests: &mut Vec<Request>| {
            requests.retain(|request| request.child.part.end_ns.saturating_add(SETTLING_NS) >= now_ns);
            left += requests.len();
            !requests.is_empty()
        };
        self.by_owner.retain(|_, requests| prune(requests));
        self.by_file.retain(|_, requests| prune(requests));
        self.remembered = left;
        self.forget_at = REMEMBERED_MAX.max(2 * left);
    }

    /// Takes up everything that began before `until_ns`, in order of time, or everything.
    pub(crate) fn advance(&mut self, until_ns: u64, out: &mut Out) -> Result<(), CaseError> {
        loop {
            // Among equals the first: an operation is there before what happens to it.
            let next = [
                self.rows.peek().map(|row| row.start_ns),
                self.sched.peek().map(|row| row.start_ns),
                self.waits.peek().map(|row| row.start_ns),
                self.writeback.peek().map(|row| row.start_ns),
                self.own.peek_ns(),
            ];
            let now_ns = next.iter().flatten().min().copied();
            let Some(now_ns) = now_ns.filter(|ns| *ns <= until_ns) else {
                return self.end_before(until_ns, out);
            };
            self.end_before(now_ns, out)?;
            match next.iter().position(|ns| *ns == Some(now_ns)) {
                Some(0) => self.begin(out)?,
                Some(1) => self.wait_of_scheduler(out)?,
                Some(2) => {
                    if let Some(row) = self.waits.take()? {
                        self.wait_for_page(row)?;
                    }
                }
                Some(3) => {
                    if let Some(row) = self.writeback.take()? {
                        self.throttle(&row);
                    }
                }
                _ => self.own.begin()?,
            }
        }
    }

    fn begin(&mut self, out: &mut Out) -> Result<(), CaseError> {
        let Some(row) = self.rows.take()? else {
            return Ok(());
        };
        if Via::from_raw(row.via) == Some(Via::Wait) {
            if row.call == IO_SUBMIT {
                self.submitted.insert(row.tid, (row.start_ns, row.end_ns));
            }
            return Ok(());
        }
        let begin_unseen = row.start_ns == 0 || row.flags & syscall_flags::BEGIN_UNSEEN != 0;
        let start_ns = if begin_unseen {
            row.start_ns.max(out.start_ns)
        } else {
            row.start_ns
        };
        let end_ns = match row.end_ns {
            0 if row.flags & syscall_flags::END_UNSEEN != 0 => start_ns,
            0 => out.counts.end_ns,
            end_ns => end_ns,
        };
        let op = Active {
            done_ns: self.done_ns(&row),
            ..Active::new(row, start_ns, end_ns)
        };
        self.comms.insert(row.tid, row.comm);
        self.begin_op(op);
        Ok(())
    }

    /// When an operation of libaio on the page cache was done, at the latest: the submitter does it itself, in io_submit. That has its row
    /// before theirs, since it ends before they are reaped.
    fn done_ns(&self, row: &SyscallRow) -> Option<u64> {
        let cached = row.flags & syscall_flags::DIRECT == 0 && Op::from_raw(row.op) != Some(Op::Sync);
        let of_libaio = Via::from_raw(row.via) == Some(Via::Aio);
        let (start_ns, end_ns) = self.submitted.get(&row.tid).filter(|_| cached && of_libaio)?;
        (*start_ns == row.start_ns).then_some(*end_ns)
    }

    fn begin_op(&mut self, mut op: Active) {
        let row = op.row;
        self.give_remembered(&mut op);
        if Op::from_raw(row.op) == Some(Op::Write) && !op.direct() && !op.durable() {
            let op_id = Layer::Syscall.op_id_base() + self.next_number;
            let end_bytes = row.offset_bytes.saturating_add(row.size_bytes);
            self.dirty.write(op.file(), row.offset_bytes, end_bytes, op_id);
        }
        self.actives.begin(self.next_number, op);
        self.next_number += 1;
    }

    /// Requests in flight that were begun before: readahead, or a request that this operation's bio was merged into.
    fn give_remembered(&mut self, op: &mut Active) {
        let start_ns = op.start_ns;
        let of_owner = self
            .by_owner
            .get(&op.row.owner_key)
            .filter(|_| op.row.owner_key != 0);
        for request in of_owner.into_iter().flatten() {
            if request.child.kind == LinkKind::Merged && request.child.part.end_ns > start_ns {
                op.give(*request);
            }
        }
        if op.durable() {
            for request in self.journal_writes(op.row.device, start_ns) {
                op.give(request);
            }
        }
        if !op.buffered_read() {
            return;
        }
        let (from, to) = op.pages();
        if let Some(requests) = self.by_file.get_mut(&op.file()) {
            let before = requests.len();
            requests.retain(|request| request.child.part.end_ns.saturating_add(SETTLING_NS) >= start_ns);
            self.remembered -= before - requests.len();
            for request in requests.iter().filter(|request| request.brings(from, to)) {
                op.give(*request);
            }
        }
    }

    fn wait_of_scheduler(&mut self, out: &mut Out) -> Result<(), CaseError> {
        let Some(row) = self.sched.take()? else {
            return Ok(());
        };
        if text(&row.comm).is_some() {
            self.comms.insert(row.tid, row.comm);
            self.actives.of_thread(row.tid, |op| {
                if op.is_fault() && text(&op.row.comm).is_none() {
                    op.row.comm = row.comm;
                }
            });
        }
        if text(&row.by).is_some_and(|by| COMMIT_WAITS.contains(&by.as_str())) {
            self.join_commit(row.tid, row.start_ns);
        }
        let asked_from_ns = self.actives.first_start_ns().unwrap_or(row.start_ns);
        let end_ns = crate::beside::end_of(&row, out.counts.end_ns);
        self.peers.wait(&row, end_ns, asked_from_ns);
        self.own.wait(&row, end_ns);
        if matches!(
            crate::beside::wait_state(row.state),
            WaitState::Runnable | WaitState::Throttled
        ) {
            let span = (row.start_ns, crate::beside::end_of(&row, out.counts.end_ns));
            self.actives.of_thread(row.tid, |op| op.runnable.push(span));
            self.own.runnable(row.tid, span);
        }
        Ok(())
    }

    /// A call that joins a commit which is under way waits for what of it is in flight, and for what comes: whoever called for it.
    fn join_commit(&mut self, tid: i32, now_ns: u64) {
        let Some(device) = self.actives.joins_commit(tid) else {
            return;
        };
        let its: Vec<Request> = self.journal_writes(device, now_ns).collect();
        self.actives.of_thread(tid, |op| {
            if op.joined_commit {
                its.iter().for_each(|request| op.give(*request));
            }
        });
    }

    fn wait_for_page(&mut self, row: CacheWaitRow) -> Result<(), CaseError> {
        match CacheWait::from_raw(row.kind) {
            None => return Ok(()),
            Some(CacheWait::Fault) => return self.fault(row),
            Some(_) => (),
        }
        let file = (row.device, row.inode);
        self.actives.of_thread(row.tid, |op| {
            let (from, to) = op.pages();
            let place = row.waited_index.saturating_mul(crate::beside::PAGE_BYTES);
            if op.buffered_read() && op.file() == file && (from..to).contains(&place) {
                op.waits.push(row);
            }
        });
        Ok(())
    }

    /// A page fault that waited is an operation: the program read, though it called nobody. It may sleep more than once.
    fn fault(&mut self, row: CacheWaitRow) -> Result<(), CaseError> {
        let same = |other: &&CacheWaitRow| {
            (other.start_ns, other.tid, other.kind) == (row.start_ns, row.tid, row.kind)
        };
        let mut waits = vec![row];
        while self.waits.peek().filter(same).is_some() {
            waits.extend(self.waits.take()?);
        }
        let end_ns = waits.iter().map(|wait| wait.end_ns).max().unwrap_or(row.end_ns);
        let call = SyscallRow {
            start_ns: row.start_ns,
            end_ns,
            offset_bytes: row.waited_index.saturating_mul(crate::beside::PAGE_BYTES),
            size_bytes: crate::beside::PAGE_BYTES,
            result: crate::beside::PAGE_BYTES as i64,
            inode: row.inode,
            device: row.device,
            pid: row.pid,
            tid: row.tid,
            via: Via::Call as u8,
            op: Op::Fault as u8,
            comm: self.comms.get(&row.tid).copied().unwrap_or_default(),
            ..SyscallRow::default()
        };
        self.begin_op(Active {
            waits,
            ..Active::new(call, row.start_ns, end_ns)
        });
        Ok(())
    }

    fn throttle(&mut self, row: &WritebackRow) {
        if Writeback::from_raw(row.kind) == Some(Writeback::Throttled) {
            let writes = |op: &Active| Op::from_raw(op.row.op) != Some(Op::Read);
            self.actives.of_thread(row.tid, |op| {
                if op.is_call() && writes(op) {
                    op.throttled.push((row.start_ns, row.end_ns));
                }
            });
        }
    }

    /// Operations that ended before `now_ns` are complete; those that are due are written.
    fn end_before(&mut self, now_ns: u64, out: &mut Out) -> Result<(), CaseError> {
        while let Some((number, op)) = self.actives.end_before(now_ns) {
            let asked_from_ns = self.actives.first_start_ns().unwrap_or(now_ns);
            let op_id = number + Layer::Syscall.op_id_base();
            let ended = sealed::end(op_id, op, self.watched, &mut self.peers, asked_from_ns);
            self.held.insert(number, ended);
        }
        while let Some(first) = self.held.first_entry() {
            // One that outlasted all that may be held was passed over: it is written when it ends, and holds up nobody.
            let in_turn = *first.key() <= self.next_written;
            if !in_turn && self.held.len() < HELD_MAX {
                break;
            }
            if let Some((number, ended)) = self.held.pop_first() {
                self.next_written = self.next_written.max(number + 1);
                sealed::write(ended, self.surveys, self.watched, &mut self.own, out)?;
            }
        }
        self.own
            .settle(self.unwritten_ns().unwrap_or(u64::MAX).min(now_ns), out)
    }

    /// Every call that began before this has been written; `None`: all have.
    fn unwritten_ns(&self) -> Option<u64> {
        let of_held = self.held.first_key_value().map(|(_, ended)| ended.op.start_ns);
        of_held.into_iter().chain(self.actives.first_start_ns()).min()
    }
}
