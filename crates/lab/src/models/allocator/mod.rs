//! A copy-on-write allocator: nothing is overwritten in place, so layout ages with every change.
//!
//! Writes are collected and go to disk at checkpoints, as one burst, wherever there is room; the blocks they
//! replace become free afterwards. So data that lay together end up apart, the free space falls into small
//! runs, and the fuller the volume the smaller they are. After Hitz, Lau and Malcolm, "File System Design for
//! an NFS File Server Appliance", USENIX 1994.
//!
//! **Layout score** (our definition; the vendors' are not published): the mean number of separate runs that a
//! window of [`AllocatorParameters::score_window_blocks`] consecutive blocks of a file lies in, over all
//! windows with data. 1 is contiguous, the window's length is the worst.
//! [`AllocatorParameters::score_threshold`] is where [`Allocator::reallocate`] starts.
//!
//! The unit of everything is a block of [`BLOCK_BYTES`]. Blocks of files, not of disks: striping lies below.

mod bits;
mod space;
#[cfg(test)]
mod tests;

use super::{require, ParameterError};
use crate::memory::{fetch, use_huge_pages};
use bits::FewBits;
pub use space::Extent;
use space::Space;
use workload::rng::Rng;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;

const HOLE: u32 = u32::MAX;

/// A checkpoint begins to load what it will need of the block that is so far ahead.
const EXPECTED_AHEAD: usize = 12;

/// A volume and its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatorParameters {
    /// Blocks of the volume, 1,024 to 2^31. Memory: a bit for each, four bytes and a bit for each block of a file.
    pub blocks: u32,
    /// Blocks of an allocation area, in which it writes before it looks for another, 64 to 2^20.
    pub area_blocks: u32,
    /// Window of the layout score, 2 to 4,096 blocks; one reallocation moves one window.
    pub score_window_blocks: u32,
    /// Windows with a higher score are reallocated, 1 to 4,096.
    pub score_threshold: f64,
}

impl AllocatorParameters {
    /// A volume of `blocks`: areas of 16 MiB, windows of 256 KiB, threshold 4.
    pub fn with_blocks(blocks: u32) -> AllocatorParameters {
        AllocatorParameters {
            blocks,
            area_blocks: 4096,
            score_window_blocks: 64,
            score_threshold: 4.0,
        }
    }
}

/// Number of a file on the volume, in order of creation.
pub type FileId = u32;

/// The volume is full; what was to be written is still dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the volume is full: {needed} blocks needed, {free} free")]
pub struct VolumeFull {
    /// Blocks that were to be written.
    pub needed: u64,
    /// Free blocks.
    pub free: u64,
}

/// What a checkpoint wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Runs on the volume, in the order they are written.
    pub writes: Vec<Extent>,
    /// Blocks written.
    pub blocks: u32,
    /// Blocks that became free.
    pub freed: u32,
}

/// What one step of reallocation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reallocated {
    /// Runs that were read.
    pub reads: Vec<Extent>,
    /// Runs that were written.
    pub writes: Vec<Extent>,
    /// Windows over the threshold for which no long enough free run was found.
    pub no_room: u32,
    /// The window to go on with; none at the end of the file.
    pub next_window: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// Block of the volume for each block of the file, or [`HOLE`].
    map: Vec<u32>,
    dirty: FewBits,
}

/// The allocator of one volume.
#[derive(Clone, Debug)]
pub struct Allocator {
    parameters: AllocatorParameters,
    space: Space,
    files: Vec<File>,
    /// Number of dirty blocks.
    dirty: usize,
}

impl Allocator {
    /// An empty volume.
    pub fn new(parameters: AllocatorParameters) -> Result<Allocator, ParameterError> {
        let p = &parameters;
        require(
            (1024..=1 << 31).contains(&p.blocks),
            "blocks",
            "1024 to 2^31",
            p.blocks,
        )?;
        require(
            (64..=1 << 20).contains(&p.area_blocks),
            "area_blocks",
            "64 to 2^20",
            p.area_blocks,
        )?;
        let window = p.score_window_blocks;
        let legal = (2..=4096).contains(&window) && window <= p.area_blocks;
        require(
            legal,
            "score_window_blocks",
            "2 to 4096, at most area_blocks",
            window,
        )?;
        let legal = (1.0..=4096.0).contains(&p.score_threshold);
        require(legal, "score_threshold", "1 to 4096", p.score_threshold)?;
        let space = Space::new(p.blocks, p.area_blocks);
        Ok(Allocator {
            space,
            files: Vec::new(),
            dirty: 0,
            parameters,
        })
    }

    /// A file of `blocks`, all holes.
    pub fn create(&mut self, blocks: u32) -> FileId {
        let mut map = Vec::with_capacity(blocks as usize);
        use_huge_pages(&mut map);
        map.resize(blocks as usize, HOLE);
        let file = File {
            map,
            dirty: FewBits::new(blocks),
        };
        self.files.push(file);
        self.files.len() as FileId - 1
    }

    /// Part of the volume that is in use, 0 to 1.
    pub fn fill(&self) -> f64 {
        1.0 - f64::from(self.space.free()) / f64::from(self.space.blocks())
    }

    /// Takes space for other data, in runs of `run_blocks` at random places, until `fill` of the volume is in
    /// use. Short runs age the free space: what is left between them is short too.
    pub fn occupy(&mut self, fill: f64, run_blocks: u32, rng: &mut Rng) -> Result<(), ParameterError> {
        require((0.0..=0.99).contains(&fill), "fill", "0 to 0.99", fill)?;
        require(
            (1..=1 << 20).contains(&run_blocks),
            "run_blocks",
            "1 to 2^20",
            run_blocks,
        )?;
        let runs = u64::from(self.space.blocks().div_ceil(run_blocks));
        while self.fill() < fill {
            let first = (rng.below(runs) * u64::from(run_blocks)) as u32;
            let end = (first + run_blocks).min(self.space.blocks());
            for block in first..end {
                if !self.space.is_used(block) && self.fill() < fill {
                    self.space.take(block);
                }
            }
        }
        Ok(())
    }

    /// Blocks `first..first + count` of `file` were written: they are in memory until the next checkpoint.
    /// Blocks beyond the end of the file are ignored.
    pub fn write(&mut self, file: FileId, first: u32, count: u32) {
        let blocks = &mut self.files[file as usize].dirty;
        for block in first..first.saturating_add(count).min(blocks.len()) {
            self.dirty += usize::from(blocks.set(block));
        }
    }

    /// A block will be read or written soon: a hint.
    #[inline]
    pub fn expect(&self, file: FileId, block: u32) {
        let file = &self.files[file as usize];
        file.dirty.expect(block);
        if let Some(place) = file.map.get(block as usize) {
            fetch(place);
        }
    }

    /// Blocks in memory that the next checkpoint will write.
    pub fn dirty_blocks(&self) -> usize {
        self.dirty
    }

    /// Whether a block is in memory only.
    pub fn is_dirty(&self, file: FileId, block: u32) -> bool {
        self.files[file as usize].dirty.get(block)
    }

    /// Writes all dirty blocks, file by file in ascending order, and frees what they replace.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, VolumeFull> {
        if self.dirty as u64 > u64::from(self.space.free()) {
            return Err(VolumeFull {
                needed: self.dirty as u64,
                free: u64::from(self.space.free()),
            });
        }
        let mut done = Checkpoint {
            blocks: std::mem::take(&mut self.dirty) as u32,
            ..Checkpoint::default()
        };
        let (mut dirty, mut replaced) = (Vec::new(), Vec::new());
        for file in &mut self.files {
            dirty.clear();
            file.dirty.take_all(|block| dirty.push(block));
            for (at, block) in dirty.iter().enumerate() {
                if let Some(place) = dirty
                    .get(at + EXPECTED_AHEAD)
                    .and_then(|later| file.map.get(*later as usize))
                {
                    fetch(place);
                }
                let to = self.space.take_next().expect("enough free blocks, counted above");
                let from = std::mem::replace(&mut file.map[*block as usize], to);
                if from != HOLE {
                    replaced.push(from);
                }
                push(&mut done.writes, to);
            }
        }
        // Only now: until the checkpoint is on disk the old state must be.
        done.freed = replaced.len() as u32;
        for (at, block) in replaced.iter().enumerate() {
            if let Some(later) = replaced.get(at + EXPECTED_AHEAD) {
                self.space.expect(*later);
            }
            self.space.release(*block);
        }
        Ok(done)
    }

    /// Where `first..first + count` of `file` lies on the volume. Holes are left out: reading them needs no
    /// disk.
    pub fn extents(&self, file: FileId, first: u32, count: u32) -> Vec<Extent> {
        let map = &self.files[file as usize].map;
        let end = (first as usize + count as usize).min(map.len());
        let mut extents = Vec::new();
        for block in map.get(first as usize..end).unwrap_or(&[]) {
            if *block != HOLE {
                push(&mut extents, *block);
            }
        }
        extents
    }

    /// The first of [`Allocator::extents`].
    #[inline]
    pub fn first_extent(&self, file: FileId, first: u32, count: u32) -> Option<Extent> {
        let map = &self.files[file as usize].map;
        let end = (first as usize + count as usize).min(map.len());
        let mut blocks = map
            .get(first as usize..end)?
            .iter()
            .filter(|block| **block != HOLE);
        let first = *blocks.next()?;
        let follow = blocks.zip(first + 1..).take_while(|(block, next)| *block == next);
        Some(Extent {
            first,
            blocks: 1 + follow.count() as u32,
        })
    }

    /// Layout score of `file`; see the module. None if it has no data.
    pub fn layout_score(&self, file: FileId) -> Option<f64> {
        let scores: Vec<u32> = (0..self.windows(file))
            .map(|window| self.window_runs(file, window))
            .collect();
        let with_data = scores.iter().filter(|runs| **runs > 0).count();
        (with_data > 0).then(|| scores.iter().map(|runs| f64::from(*runs)).sum::<f64>() / with_data as f64)
    }

    /// Windows of `file` with a score over the threshold, the worst first, at most `most`: its hotspots.
    pub fn hotspots(&self, file: FileId, most: usize) -> Vec<u32> {
        let mut over: Vec<(u32, u32)> = (0..self.windows(file))
            .map(|window| (self.window_runs(file, window), window))
            .filter(|(runs, _)| f64::from(*runs) > self.parameters.score_threshold)
            .collect();
        over.sort_unstable_by_key(|(runs, window)| (std::cmp::Reverse(*runs), *window));
        over.into_iter().take(most).map(|(_, window)| window).collect()
    }

    /// Looks at `count` windows of `file` from `window` on and rewrites those over the threshold into one run
    /// each. The caller decides how often: that is the schedule.
    pub fn reallocate(&mut self, file: FileId, window: u32, count: u32) -> Reallocated {
        let end = window.saturating_add(count).min(self.windows(file));
        let mut done = Reallocated::default();
        for window in window..end {
            if f64::from(self.window_runs(file, window)) > self.parameters.score_threshold {
                self.reallocate_window(file, window, &mut done);
            }
        }
        done.next_window = (end < self.windows(file)).then_some(end);
        done
    }

    fn reallocate_window(&mut self, file: FileId, window: u32, done: &mut Reallocated) {
        let range = self.window_range(file, window);
        let reads = self.extents(file, range.start, range.end - range.start);
        let blocks = reads.iter().map(|extent| extent.blocks).sum();
        let Some(run) = self.space.find_run(blocks) else {
            done.no_room += 1;
            return;
        };
        let mut to = run.first;
        for block in range {
            let place = &mut self.files[file as usize].map[block as usize];
            if *place != HOLE {
                self.space.take(to);
                self.space.release(std::mem::replace(place, to));
                to += 1;
            }
        }
        done.reads.extend(reads);
        done.writes.push(run);
    }

    fn windows(&self, file: FileId) -> u32 {
        (self.files[file as usize].map.len() as u32).div_ceil(self.parameters.score_window_blocks)
    }

    fn window_range(&self, file: FileId, window: u32) -> std::ops::Range<u32> {
        let blocks = self.parameters.score_window_blocks;
        window * blocks..((window + 1) * blocks).min(self.files[file as usize].map.len() as u32)
    }

    /// Runs a window lies in; 0 if it has no data.
    fn window_runs(&self, file: FileId, window: u32) -> u32 {
        let range = self.window_range(file, window);
        let map = &self.files[file as usize].map[range.start as usize..range.end as usize];
        let mut runs = 0;
        let mut expected = HOLE;
        for block in map.iter().filter(|block| **block != HOLE) {
            runs += u32::from(*block != expected);
            expected = block + 1;
        }
        runs
    }
}

/// Appends `block` to the last run if it continues it.
fn push(runs: &mut Vec<Extent>, block: u32) {
    match runs.last_mut() {
        Some(last) if last.first + last.blocks == block => last.blocks += 1,
        _ => runs.push(Extent {
            first: block,
            blocks: 1,
        }),
    }
}
