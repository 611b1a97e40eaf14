//! A copy-on-write array with guest file systems on it: writes go to memory, and at checkpoints to wherever there is room.
//!
//! A write is complete once it is in protected memory (NVRAM). When half of that memory is full, or after a while, a
//! checkpoint writes everything out as one burst, and the layout of the file ages: blocks that lay together end up
//! apart ([`crate::models::allocator`]). While a checkpoint writes, the other half takes new data; writers that
//! come when that is full, too, wait for its end. A read that memory cannot serve reads a cluster: the blocks behind it, as
//! far as they follow each other on the disks; that is how an aged layout costs reads. The file lies in pieces on
//! the guest's disk if the guest's file system is fragmented ([`crate::models::guest_fs`]).
mod checkpoint;
mod in_flight;
mod keys;

pub use keys::KEYS;

use super::parity::{RowPlan, Rows, Transfer};
use super::server::Below;
use crate::component::{CacheModel, Component, Handle, Message, NO_HANDLE};
use crate::fast_map::FastMap;
use crate::models::allocator::{Allocator, Extent, FileId, BLOCK_BYTES};
use crate::models::guest_fs::{GuestFile, Placed};
use crate::request::{Level, Request};
use crate::sim::Core;
use case::schema::{flags, Op, Stage};
use in_flight::InFlight;
use std::collections::VecDeque;

const TICK: u16 = 0;
const IN_MEMORY: u16 = 1;
/// Length of the windows in which operations are counted.
const WINDOW_NS: u64 = 60_000_000_000;

/// Rules of an array.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A checkpoint begins at this many dirty blocks.
    pub half_blocks: usize,
    /// And at least this often.
    pub interval_ns: u64,
    /// How far the guest's partition begins after a multiple of a block, bytes.
    pub misplaced_by: u64,
    /// Writes in flight.
    pub depth: usize,
    /// Blocks of a read from disk.
    pub cluster_blocks: u32,
    /// Time of an operation in memory.
    pub memory_ns: u64,
    /// Largest request below.
    pub max_io_bytes: u32,
    /// Parity.
    pub rows: Rows,
}

/// What lies on the array.
pub struct Contents {
    /// Blocks and who holds them.
    pub allocator: Allocator,
    /// Per target: its file on the guest's disk, and that disk as a file of the array.
    pub files: Vec<(GuestFile, FileId)>,
    /// First byte of the array on the volume.
    pub first_byte: u64,
}

/// The array.
pub struct Array {
    below: Below,
    rules: Rules,
    contents: Contents,
    cache: Box<dyn CacheModel>,
    /// Rows that the checkpoint under way has not begun, and transfers of those it has.
    to_write: VecDeque<RowPlan>,
    transfers: VecDeque<(u32, Transfer)>,
    /// By number of a row that reads before it writes: reads that are missing, and the writes.
    reading: FastMap<u32, (usize, Vec<Transfer>)>,
    /// Row of each transfer below.
    row_of: FastMap<u32, u32>,
    rows_begun: u32,
    writing: usize,
    blocks_written: u64,
    blocks_read_first: u64,
    /// Writers that wait for the end of a checkpoint.
    waiters: Vec<Handle>,
    /// By read of the volume: first block of which disk it brings.
    fetches: FastMap<u32, (FileId, u32, u32)>,
    /// Blocks on their way from the volume, and who else waits for their read.
    in_flight: InFlight,
    readers: FastMap<u32, Vec<(Handle, u64)>>,
    placed: Vec<Placed>,
    /// File and offset of the request that was expected last.
    expected: (u16, u64),
    held: usize,
    stopped: bool,
    checkpoints: u64,
    back_to_back: u64,
    looks: u64,
    hits: u64,
    windows: Vec<u64>,
    score_before: f64,
}

impl Array {
    /// `cache` counts blocks of [`BLOCK_BYTES`].
    pub fn new(below: Below, rules: Rules, contents: Contents, cache: Box<dyn CacheModel>) -> Array {
        let score_before = score(&contents);
        Array {
            below,
            rules,
            contents,
            cache,
            to_write: VecDeque::new(),
            transfers: VecDeque::new(),
            reading: FastMap::default(),
            row_of: FastMap::default(),
            rows_begun: 0,
            writing: 0,
            blocks_written: 0,
            blocks_read_first: 0,
            waiters: Vec::new(),
            fetches: FastMap::default(),
            in_flight: InFlight::new(rules.cluster_blocks),
            readers: FastMap::default(),
            placed: Vec::new(),
            expected: (0, 0),
            held: 0,
            stopped: false,
            checkpoints: 0,
            back_to_back: 0,
            looks: 0,
            hits: 0,
            windows: Vec::new(),
            score_before,
        }
    }

    fn key(disk: FileId, block: u32) -> u64 {
        u64::from(disk) << 32 | u64::from(block)
    }

    fn arrive(&mut self, handle: Handle, core: &mut Core) {
        self.held += 1;
        let request = core.get_mut(handle);
        request.pending = 1;
        match request.op {
            Op::Write => self.write(handle, core),
            Op::Read => self.read(handle, core),
            // What was acknowledged is in protected memory already.
            _ => self.in_memory(handle, core),
        }
    }

    fn in_memory(&mut self, handle: Handle, core: &mut Core) {
        core.timer(core.now_ns() + self.rules.memory_ns, IN_MEMORY, handle);
    }

    /// Finds where the bytes of a request lie on the guest's disk.
    fn place(&mut self, handle: Handle, core: &Core) -> FileId {
        let request = core.get(handle);
        let (file, disk) = &self.contents.files[request.file as usize];
        self.placed.clear();
        self.placed
            .extend(file.map(request.offset_bytes, u64::from(request.size_bytes)));
        for placed in &mut self.placed {
            placed.disk_offset_bytes += self.rules.misplaced_by;
        }
        *disk
    }

    /// A write that begins and ends within blocks needs what else is in them: reads them first, unless they are in memory.
    fn read_partial(&mut self, handle: Handle, disk: FileId, core: &mut Core) {
        let placed = std::mem::take(&mut self.placed);
        for part in &placed {
            let (first, count) = blocks_of(part);
            for block in [first, first + count - 1] {
                let known = self.is_in_memory(disk, block, Self::key(disk, block));
                if !known && self.in_flight.fetch_of(disk, block).is_none() {
                    self.fetch(handle, disk, block, core);
                }
            }
        }
        self.placed = placed;
    }

    fn write(&mut self, handle: Handle, core: &mut Core) {
        let busy = self.is_writing() && self.contents.allocator.dirty_blocks() >= self.rules.half_blocks;
        if busy {
            self.back_to_back += 1;
            core.enter(handle, Stage::Throttle);
            return self.waiters.push(handle);
        }
        let disk = self.place(handle, core);
        if self.rules.misplaced_by > 0 {
            self.read_partial(handle, disk, core);
        }
        for placed in &self.placed {
            let (first, count) = blocks_of(placed);
            self.contents.allocator.write(disk, first, count);
            for block in first..first + count {
                self.cache.access(Self::key(disk, block));
            }
        }
        if self.contents.allocator.dirty_blocks() >= self.rules.half_blocks {
            self.checkpoint(core);
        }
        self.in_memory(handle, core);
    }

    fn read(&mut self, handle: Handle, core: &mut Core) {
        let disk = self.place(handle, core);
        let placed = std::mem::take(&mut self.placed);
        for part in &placed {
            let (first, count) = blocks_of(part);
            let mut block = first;
            while block < first + count {
                self.looks += 1;
                let key = Self::key(disk, block);
                if self.is_in_memory(disk, block, key) {
                    self.hits += 1;
                    block += 1;
                } else if let Some(fetch) = self.in_flight.fetch_of(disk, block) {
                    self.hits += 1;
                    block += 1;
                    let readers = self.readers.entry(fetch).or_default();
                    // Neighbouring blocks of one read are one wait.
                    if readers.last().is_none_or(|(reader, _)| *reader != handle) {
                        readers.push((handle, core.now_ns()));
                        core.get_mut(handle).pending += 1;
                    }
                } else {
                    block += self.fetch(handle, disk, block, core);
                }
            }
        }
        self.placed = placed;
        self.in_memory(handle, core);
    }

    /// Whether a block that is read now is in memory, dirty or cached.
    fn is_in_memory(&mut self, disk: FileId, block: u32, key: u64) -> bool {
        if self.contents.allocator.is_dirty(disk, block) {
            self.cache.access(key);
            return true;
        }
        self.cache.touch(key)
    }

    /// Reads a cluster from the volume; how many blocks of the file that brings.
    fn fetch(&mut self, parent: Handle, disk: FileId, block: u32, core: &mut Core) -> u32 {
        let found = self
            .contents
            .allocator
            .first_extent(disk, block, self.rules.cluster_blocks);
        let Some(mut run) = found else {
            // A hole: there is nothing to read.
            return 1;
        };
        run.blocks = self.rules.rows.within_row(run);
        let place = Extent {
            first: self.rules.rows.place(run.first),
            ..run
        };
        let child = self.request(Op::Read, place, parent, core);
        self.fetches.insert(child, (disk, block, run.blocks));
        self.in_flight.begin(disk, block, run.blocks, child);
        core.send(self.below.id, child);
        run.blocks
    }

    /// A request to the volume; `run` counts its blocks, those of parity included.
    fn request(&mut self, op: Op, run: Extent, parent: Handle, core: &mut Core) -> Handle {
        let address = self.contents.first_byte + u64::from(run.first) * BLOCK_BYTES;
        let bytes = (u64::from(run.blocks) * BLOCK_BYTES) as u32;
        let stage = match self.below.level {
            Level::Volume => Stage::Fs,
            _ => Stage::Queue,
        };
        let (thread, cpu, file, flags) = match parent {
            NO_HANDLE => (u16::MAX, 0, 0, flags::BACKGROUND),
            _ => {
                let from = core.get_mut(parent);
                from.pending += 1;
                (from.thread, from.cpu, from.file, from.flags & !flags::DIRECT)
            }
        };
        let now_ns = core.now_ns();
        let handle = core.create(Request::new(self.below.level, op, address, bytes, now_ns, stage));
        let child = core.get_mut(handle);
        (child.submit_ns, child.device, child.parent) = (0, self.below.device, parent);
        (child.thread, child.cpu, child.file, child.flags) = (thread, cpu, file, flags);
        handle
    }

    fn child_done(&mut self, child: Handle, core: &mut Core) {
        let parent = core.get(child).parent;
        if let Some((disk, first, count)) = self.fetches.remove(&child) {
            (first..first + count).for_each(|block| self.cache.expect_insert(Self::key(disk, block)));
            self.in_flight.end(disk, first, count, child);
            (first..first + count).for_each(|block| {
                self.cache.insert(Self::key(disk, block));
            });
            for (reader, since_ns) in self.readers.remove(&child).unwrap_or_default() {
                core.borrow(reader, child, since_ns);
                self.piece_done(reader, core);
            }
        }
        if parent != NO_HANDLE {
            core.attach(parent, child);
            return self.piece_done(parent, core);
        }
        core.release(child);
        self.transfer_done(child);
        self.write_out(core);
        if !self.is_writing() {
            if self.contents.allocator.dirty_blocks() >= self.rules.half_blocks {
                self.checkpoint(core);
            }
            for writer in std::mem::take(&mut self.waiters) {
                core.enter(writer, Stage::Fs);
                self.write(writer, core);
            }
        }
    }

    fn piece_done(&mut self, handle: Handle, core: &mut Core) {
        let request = core.get_mut(handle);
        request.pending -= 1;
        if request.pending > 0 {
            return;
        }
        core.absorb(handle);
        self.held -= 1;
        let window = (core.now_ns() / WINDOW_NS) as usize;
        if self.windows.len() <= window {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += 1;
        core.complete(handle);
    }

    fn tick(&mut self, core: &mut Core) {
        if !self.stopped {
            self.checkpoint(core);
            core.timer(core.now_ns() + self.rules.interval_ns, TICK, 0);
        }
    }
}

/// Blocks of the guest's disk that a piece touches: first and number.
fn blocks_of(placed: &Placed) -> (u32, u32) {
    let first = placed.disk_offset_bytes / BLOCK_BYTES;
    let end = (placed.disk_offset_bytes + placed.size_bytes).div_ceil(BLOCK_BYTES);
    (first as u32, (end - first) as u32)
}

/// Mean layout score of all files.
fn score(contents: &Contents) -> f64 {
    let scores: Vec<f64> = contents
        .files
        .iter()
        .filter_map(|(_, disk)| contents.allocator.layout_score(*disk))
        .collect();
    scores.iter().sum::<f64>() / scores.len().max(1) as f64
}

impl Component for Array {
    fn name(&self) -> &str {
        "array"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(handle) => self.arrive(handle, core),
            Message::Done(child) => self.child_done(child, core),
            Message::Timer { what: IN_MEMORY, arg } => self.piece_done(arg, core),
            Message::Timer { .. } => self.tick(core),
        }
    }

    /// The place on the guest's disk first, and what is known of the blocks there when the next request is expected.
    fn expect(&mut self, file: u16, offset_bytes: u64) {
        self.contents.files[file as usize].0.expect(offset_bytes);
        let (before, offset_bytes) = std::mem::replace(&mut self.expected, (file, offset_bytes));
        let (guest, disk) = &self.contents.files[before as usize];
        if let Some(placed) = guest.map(offset_bytes, BLOCK_BYTES).next() {
            let (block, _) = blocks_of(&placed);
            self.contents.allocator.expect(*disk, block);
            self.cache.expect(Self::key(*disk, block));
        }
    }

    fn depth(&self) -> usize {
        self.held
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn sample(&mut self, _now_ns: u64, put: &mut dyn FnMut(&'static str, f64)) {
        put(
            "dirty_bytes",
            self.contents.allocator.dirty_blocks() as f64 * BLOCK_BYTES as f64,
        );
        put("checkpoint_active", f64::from(u8::from(self.is_writing())));
        put("fill_ratio", self.contents.allocator.fill());
    }

    fn finish(&mut self, core: &mut Core) {
        let now_ns = core.now_ns();
        let facts = &mut core.recorder.facts;
        facts.insert("layout_score_before".into(), self.score_before);
        facts.insert("layout_score_after".into(), score(&self.contents));
        facts.insert("fill_ratio".into(), self.contents.allocator.fill());
        facts.insert("checkpoints".into(), self.checkpoints as f64);
        facts.insert("held_writes".into(), self.back_to_back as f64);
        facts.insert("checkpoint_blocks_written".into(), self.blocks_written as f64);
        facts.insert("checkpoint_blocks_read".into(), self.blocks_read_first as f64);
        facts.insert("hit_ratio".into(), self.hits as f64 / self.looks.max(1) as f64);
        // A test's mean over all its samples has its ramp in it.
        let all: u64 = self.windows.iter().sum();
        facts.insert(
            "ops_per_s_with_ramp".into(),
            all as f64 * 1e9 / now_ns.max(1) as f64,
        );
        let whole = (now_ns / WINDOW_NS) as usize;
        for (minute, ops) in self.windows.iter().enumerate().take(whole) {
            let per_s = *ops as f64 * 1e9 / WINDOW_NS as f64;
            facts.insert(format!("ops_per_s_minute_{minute:02}"), per_s);
        }
        let text = format!(
            "layout score {:.1}, {:.1} at the end",
            self.score_before,
            score(&self.contents)
        );
        core.recorder.event(now_ns, "layout", "array", || text);
    }
}
