//! The file server, or the file system of a local host: cuts operations into requests to the volume.
//!
//! An operation costs CPU time, of which the per-request part is single-threaded work on one of `threads` lanes (memory
//! allocation, checksums, locks): that is why very large requests are capped. Then its data come from the RAM cache,
//! from fetches already under way, from the SSD tier, or from the volume; writes go through, or into the cache and out
//! again by [`super::writeback`].
mod reads;
mod writes;

use super::pages::Pages;
use super::placement::Placement;
use super::writeback::Writeback;
use crate::component::{Component, ComponentId, Handle, Message, NO_HANDLE};
use crate::fast_map::FastMap;
use crate::keys::{key, Key, Kind};
use crate::request::{Level, Request};
use crate::sim::Core;
use crate::tally::Tally;
use case::schema::{flags, Op, Stage};
use reads::{piece, Waiter};

/// Keys of `[server]`.
pub const KEYS: [Key; 7] = [
    key(
        "threads",
        Kind::Count(1, 4096),
        "8",
        "Lanes of single-threaded work per request.",
    ),
    key(
        "request",
        Kind::Time(0, 1_000_000_000),
        "0ns",
        "Work of one request on its lane.",
    ),
    key(
        "per_mib",
        Kind::Time(0, 1_000_000_000),
        "0ns",
        "Further work for each MiB of it.",
    ),
    key(
        "write_per_mib",
        Kind::Time(0, 1_000_000_000),
        "0ns",
        "The same for each MiB of a write, on top (checksums, mirroring, a journal).",
    ),
    key(
        "max_io",
        Kind::Size(4096, 1 << 30),
        "1280KiB",
        "Largest request to the volume (max_sectors_kb).",
    ),
    key(
        "piece",
        Kind::Size(0, 1 << 40),
        "0B",
        "Files lie in pieces of this size, in random order; 0 = in one piece.",
    ),
    key(
        "misplaced",
        Kind::Count(0, 65535),
        "0",
        "How many of the targets, counted from the last, lie in a partition that begins 3.5 KiB after a multiple of 4 KiB.",
    ),
];

/// Event of a commit, as `record` names it.
const EVENT_COMMIT: &str = "journal_commit";
/// Process of the journal's thread.
const JOURNAL_PID: u32 = 301;

const START: u16 = 1;
const FLUSH: u16 = 2;
const WRITE_BACK: u16 = 3;
const COPIED: u16 = 4;
/// Copying a page to or from the cache, ns per KiB (10 GiB/s).
const COPY_NS_PER_KIB: u64 = 95;

/// Where requests of the server go.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    /// Component.
    pub id: ComponentId,
    /// A volume, or a drive itself.
    pub level: Level,
    /// Index of the device in the cast.
    pub device: u16,
}

/// Commits of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commits {
    /// First begin.
    pub from_ns: u64,
    /// No begin after this.
    pub to_ns: u64,
    /// Distance of begins.
    pub every_ns: u64,
    /// Length of each.
    pub length_ns: u64,
}

impl Commits {
    /// Begin of commit `number`, from 0 on; `None` if there is none.
    fn begin_ns(&self, number: u64) -> Option<u64> {
        let begin_ns = self.from_ns.checked_add(number.checked_mul(self.every_ns)?)?;
        (begin_ns < self.to_ns).then_some(begin_ns)
    }

    /// End of the commit that is under way at `at_ns`, or `at_ns`.
    fn until_ns(&self, at_ns: u64) -> u64 {
        let Some(since_ns) = at_ns.checked_sub(self.from_ns) else {
            return at_ns;
        };
        let begin_ns = self.from_ns + since_ns / self.every_ns * self.every_ns;
        match begin_ns < self.to_ns && at_ns < begin_ns + self.length_ns {
            true => begin_ns + self.length_ns,
            false => at_ns,
        }
    }
}

/// Memory that is far from the CPUs of one of two nodes: the odd ones, as many hosts number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    /// More kernel time of each of their operations.
    pub add_ns: u64,
}

/// CPU costs and limits.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Parallel kernel work of every operation.
    pub syscall_ns: u64,
    /// Single-threaded work per request.
    pub request_ns: u64,
    /// And per MiB.
    pub per_mib_ns: u64,
    /// And per MiB written.
    pub write_per_mib_ns: u64,
    /// Largest request below.
    pub max_io_bytes: u32,
}

/// The server.
pub struct Server {
    below: Below,
    costs: Costs,
    lanes: Vec<u64>,
    commits: Vec<Commits>,
    /// Device of the journal.
    journal: String,
    /// By kind of commits: how many are in the case already.
    recorded: Vec<u64>,
    far: Vec<Far>,
    placement: Placement,
    pages: Option<Box<Pages>>,
    writeback: Option<Writeback>,
    /// By fetch under way: who else waits for it.
    waiters: FastMap<u32, Vec<Waiter>>,
    held: usize,
    stopped: bool,
    /// Reads that a protocol asked for.
    reads: Tally,
    /// Requests of one read or prefetch, kept to spare allocations.
    fetches: Vec<Handle>,
}

impl Server {
    /// `pages`: the RAM cache with its prefetcher and SSD tier; None = direct I/O only.
    pub fn new(
        below: Below,
        costs: Costs,
        threads: usize,
        placement: Placement,
        pages: Option<Pages>,
        writeback: Option<Writeback>,
    ) -> Server {
        Server {
            below,
            costs,
            lanes: vec![0; threads],
            commits: Vec::new(),
            journal: String::new(),
            recorded: Vec::new(),
            far: Vec::new(),
            placement,
            pages: pages.map(Box::new),
            writeback,
            waiters: FastMap::default(),
            held: 0,
            stopped: false,
            reads: Tally::new(0, u64::MAX),
            fetches: Vec::new(),
        }
    }

    /// The same with what holds up single operations: commits of the journal on device `journal`, memory that is far away.
    pub fn held_up_by(mut self, commits: Vec<Commits>, journal: &str, far: Vec<Far>) -> Server {
        self.recorded = vec![0; commits.len()];
        (self.commits, self.journal, self.far) = (commits, journal.into(), far);
        self
    }

    /// Records the commits that have begun, also those that nobody waited for: the kernel's tracepoints give them all.
    fn record_commits(&mut self, core: &mut Core) {
        let now_ns = core.now_ns();
        for (commits, recorded) in self.commits.iter().zip(&mut self.recorded) {
            while let Some(begin_ns) = commits.begin_ns(*recorded).filter(|begin_ns| *begin_ns <= now_ns) {
                *recorded += 1;
                let (length_ns, number, journal) = (commits.length_ns, *recorded, &self.journal);
                core.recorder.event(begin_ns, EVENT_COMMIT, journal, || {
                    format!("duration_ns {length_ns} transaction {number} by jbd2/{journal}-8 (pid {JOURNAL_PID})")
                });
            }
        }
    }

    /// When an operation that is ready at `ready_ns` may go on.
    fn held_until_ns(&self, request: &Request, ready_ns: u64) -> u64 {
        let far = self.far.iter().filter(|_| request.cpu % 2 == 1);
        let ready_ns = ready_ns + far.map(|far| far.add_ns).sum::<u64>();
        match request.op {
            Op::Write | Op::Sync => self
                .commits
                .iter()
                .fold(ready_ns, |at_ns, commits| commits.until_ns(at_ns)),
            _ => ready_ns,
        }
    }

    /// Work of the request before anything else: parallel work, then a lane.
    fn arrive(&mut self, handle: Handle, core: &mut Core) {
        self.held += 1;
        let now_ns = core.now_ns();
        let request = core.get(handle);
        let size_bytes = u64::from(request.size_bytes);
        let mut per_mib_ns = self.costs.per_mib_ns;
        if request.op == Op::Write {
            per_mib_ns += self.costs.write_per_mib_ns;
        }
        let lane_ns = self.costs.request_ns + per_mib_ns * size_bytes / (1 << 20);
        let mut ready_ns = now_ns + self.costs.syscall_ns;
        if let (Op::Read, 0, Some(pages)) = (request.op, request.flags & flags::DIRECT, &mut self.pages) {
            ready_ns += size_bytes * COPY_NS_PER_KIB / 1024;
            pages.expect(request.file, request.offset_bytes);
        }
        if lane_ns > 0 {
            let mut least = 0;
            for lane in 1..self.lanes.len() {
                if self.lanes[lane] < self.lanes[least] {
                    least = lane;
                }
            }
            ready_ns = self.lanes[least].max(ready_ns) + lane_ns;
            self.lanes[least] = ready_ns;
        }
        if !self.commits.is_empty() || !self.far.is_empty() {
            self.record_commits(core);
            ready_ns = self.held_until_ns(core.get(handle), ready_ns);
        }
        if ready_ns > now_ns {
            core.timer(ready_ns, START, handle);
        } else {
            self.start(handle, core);
        }
    }

    fn start(&mut self, handle: Handle, core: &mut Core) {
        let request = core.get(handle);
        let direct = request.flags & flags::DIRECT != 0 || self.pages.is_none();
        match request.op {
            Op::Sync | Op::Flush => self.sync(handle, core),
            Op::Read if !direct => self.read_cached(handle, core),
            Op::Write if !direct && self.writeback.is_some() => self.write_cached(handle, core),
            _ => {
                let (op, file, size) = (request.op, request.file, request.size_bytes);
                let offset = request.offset_bytes;
                core.get_mut(handle).pending = 1;
                self.transfer(op, file, offset, size, handle, 0, core);
                if let (Op::Write, Some(pages)) = (op, &mut self.pages) {
                    pages.written_through(file, offset, size);
                }
                self.piece_done(handle, core);
            }
        }
    }

    /// Sends a range of a file to the volume, in pieces that are contiguous there and no larger than allowed.
    #[allow(clippy::too_many_arguments)]
    fn transfer(
        &mut self,
        op: Op,
        file: u16,
        offset_bytes: u64,
        size_bytes: u32,
        parent: Handle,
        extra_flags: u32,
        core: &mut Core,
    ) {
        let mut done = 0;
        while done < size_bytes {
            let at = offset_bytes + u64::from(done);
            let (address, run_bytes) = match op {
                Op::Write => self.placement.write(file, at, size_bytes - done),
                _ => self.placement.read(file, at, size_bytes - done),
            };
            let piece = run_bytes.min(size_bytes - done).min(self.costs.max_io_bytes);
            let child = self.request(op, address, piece, parent, extra_flags, core);
            let request = core.get_mut(child);
            (request.tag, request.file) = (at, file);
            core.send(self.below.id, child);
            done += piece;
        }
    }

    /// A request to the volume.
    fn request(
        &mut self,
        op: Op,
        address: u64,
        size_bytes: u32,
        parent: Handle,
        extra_flags: u32,
        core: &mut Core,
    ) -> Handle {
        let stage = if self.below.level == Level::Volume {
            Stage::Fs
        } else {
            Stage::Queue
        };
        let (thread, cpu, parent_flags) = match parent {
            NO_HANDLE => (u16::MAX, 0, 0),
            _ => {
                let from = core.get_mut(parent);
                from.pending += 1;
                (from.thread, from.cpu, from.flags & !flags::DIRECT)
            }
        };
        let now_ns = core.now_ns();
        let handle = core.create(Request::new(
            self.below.level,
            op,
            address,
            size_bytes,
            now_ns,
            stage,
        ));
        let child = core.get_mut(handle);
        child.submit_ns = 0;
        (child.device, child.parent) = (self.below.device, parent);
        (child.thread, child.cpu, child.flags) = (thread, cpu, extra_flags | parent_flags);
        handle
    }

    /// One piece fewer to wait for; at the last one the operation is complete.
    fn piece_done(&mut self, handle: Handle, core: &mut Core) {
        let request = core.get_mut(handle);
        request.pending -= 1;
        if request.pending > 0 {
            return;
        }
        if request.op == Op::Sync && request.work != u64::from(FLUSH) {
            return self.flush(handle, core);
        }
        core.absorb(handle);
        self.held -= 1;
        let request = core.get(handle);
        if request.level == Level::Syscall && request.op == Op::Read {
            let latency_ns = core.now_ns() - request.start_ns;
            self.reads
                .add(Op::Read, request.start_ns, latency_ns, request.size_bytes);
        }
        core.complete(handle);
    }

    /// A flush of the volume, as the second step of a sync.
    fn flush(&mut self, handle: Handle, core: &mut Core) {
        core.get_mut(handle).work = u64::from(FLUSH);
        let child = self.request(Op::Flush, 0, 0, handle, 0, core);
        core.send(self.below.id, child);
    }

    fn sync(&mut self, handle: Handle, core: &mut Core) {
        let file = core.get(handle).file;
        let request = core.get_mut(handle);
        (request.pending, request.work) = (1, 0);
        if let Some(mut writeback) = self.writeback.take() {
            for (offset, size) in writeback.take_file(file) {
                self.transfer(Op::Write, file, offset, size, handle, 0, core);
            }
            writeback.wait_for_file(file, handle, core);
            self.writeback = Some(writeback);
        }
        self.piece_done(handle, core);
    }

    fn child_done(&mut self, child: Handle, core: &mut Core) {
        let now_ns = core.now_ns();
        let request = core.get(child);
        let (op, file, at, size) = (request.op, request.file, request.tag, request.size_bytes);
        let (parent, start_ns, device) = (request.parent, request.start_ns, request.device);
        let background_write = op == Op::Write && parent == NO_HANDLE;
        if op == Op::Read {
            if let Some(mut pages) = self.pages.take() {
                let address = core.get(child).offset_bytes;
                if pages.end_fetch(file, at, size, child) {
                    let copies = pages.fetched_from(device, address, size);
                    self.pages = Some(pages);
                    if let Some(below) = copies {
                        self.fill_tier(below, address, size, core);
                    }
                    if parent != NO_HANDLE {
                        let tier = self.tier_name(device);
                        let op_id = parent_row(core.get(parent));
                        core.recorder
                            .cache_piece(op_id, piece(tier, file, (at, size), now_ns - start_ns));
                    }
                    self.wake_waiters(child, core);
                    self.write_evicted(core);
                } else {
                    self.pages = Some(pages);
                }
            }
        }
        if parent != NO_HANDLE {
            core.attach(parent, child);
            return self.piece_done(parent, core);
        }
        if background_write {
            self.background_write_done(child, core);
        }
        core.release(child);
        self.write_back(core);
    }
}

/// The row that links of an operation hang on.
fn parent_row(request: &Request) -> u64 {
    match request.level {
        Level::App if request.lower_id != 0 => request.lower_id,
        _ => request.op_id,
    }
}

impl Component for Server {
    fn name(&self) -> &str {
        "server"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(handle) => self.arrive(handle, core),
            Message::Done(child) => self.child_done(child, core),
            Message::Timer { what: START, arg } => self.start(arg, core),
            Message::Timer { what: COPIED, arg } => self.piece_done(arg, core),
            Message::Timer { .. } if self.stopped => {}
            Message::Timer { .. } => self.write_back(core),
        }
    }

    fn depth(&self) -> usize {
        self.held
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn sample(&mut self, _now_ns: u64, put: &mut dyn FnMut(&'static str, f64)) {
        if let Some(pages) = &mut self.pages {
            pages.sample(put);
        }
        if let Some(writeback) = &self.writeback {
            put("dirty_bytes", writeback.dirty_bytes() as f64);
        }
    }

    fn finish(&mut self, core: &mut Core) {
        if self.reads.count() > 0 {
            let facts = &mut core.recorder.facts;
            facts.insert("server_read_mean_ns".into(), self.reads.mean_ns());
            for (name, at) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
                facts.insert(format!("server_read_{name}_ns"), self.reads.quantile_ns(at));
            }
            facts.insert("server_read_max_ns".into(), self.reads.latency_max_ns as f64);
        }
        if let Some(pages) = &mut self.pages {
            pages.finish(core);
        }
    }
}
