//! Which blocks are free, by allocation area, and the search for free ones.
use super::bits::Bits;

/// A run of blocks on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block.
    pub first: u32,
    /// Never 0.
    pub blocks: u32,
}

/// Areas in which a free run is looked for, the emptiest first.
const AREAS_SEARCHED: usize = 16;

/// The free map. Blocks are taken from one area at a time, ascending; when it has no more, the emptiest area
/// is next.
#[derive(Clone, Debug)]
pub(super) struct Space {
    used: Bits,
    area_blocks: u32,
    free_in_area: Vec<u32>,
    free: u32,
    /// The next block to look at, and the end of its area.
    cursor: u32,
    area_end: u32,
}

impl Space {
    pub fn new(blocks: u32, area_blocks: u32) -> Space {
        let areas = blocks.div_ceil(area_blocks);
        let size = |area: u32| area_blocks.min(blocks - area * area_blocks);
        Space {
            used: Bits::new(blocks),
            area_blocks,
            free_in_area: (0..areas).map(size).collect(),
            free: blocks,
            cursor: 0,
            area_end: 0,
        }
    }

    pub fn blocks(&self) -> u32 {
        self.used.len()
    }

    pub fn free(&self) -> u32 {
        self.free
    }

    pub fn is_used(&self, block: u32) -> bool {
        self.used.get(block)
    }

    /// The next free block in writing order; none when the volume is full.
    pub fn take_next(&mut self) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        loop {
            while self.cursor < self.area_end {
                let block = self.cursor;
                self.cursor += 1;
                if !self.used.get(block) {
                    self.take(block);
                    return Some(block);
                }
            }
            self.enter_emptiest_area();
        }
    }

    pub fn take(&mut self, block: u32) {
        assert!(!self.used.replace(block, true), "block {block} is taken twice");
        self.free_in_area[(block / self.area_blocks) as usize] -= 1;
        self.free -= 1;
    }

    pub fn release(&mut self, block: u32) {
        assert!(self.used.replace(block, false), "block {block} is freed twice");
        self.free_in_area[(block / self.area_blocks) as usize] += 1;
        self.free += 1;
    }

    /// A free run of `blocks` inside one area, the emptiest that has one. Only the emptiest few are searched: where
    /// they have none, the others hardly do, and looking everywhere each time takes minutes on a full volume.
    pub fn find_run(&self, blocks: u32) -> Option<Extent> {
        let mut areas: Vec<(std::cmp::Reverse<u32>, u32)> = (0..)
            .zip(&self.free_in_area)
            .filter(|(_, free)| **free >= blocks)
            .map(|(area, free)| (std::cmp::Reverse(*free), area))
            .collect();
        if areas.len() > AREAS_SEARCHED {
            areas.select_nth_unstable(AREAS_SEARCHED);
            areas.truncate(AREAS_SEARCHED);
        }
        areas.sort_unstable();
        areas
            .into_iter()
            .find_map(|(_, area)| self.run_in_area(area, blocks))
    }

    fn run_in_area(&self, area: u32, blocks: u32) -> Option<Extent> {
        let begin = area * self.area_blocks;
        let end = (begin + self.area_blocks).min(self.blocks());
        let mut length = 0;
        for block in begin..end {
            length = if self.used.get(block) { 0 } else { length + 1 };
            if length == blocks {
                return Some(Extent {
                    first: block + 1 - blocks,
                    blocks,
                });
            }
        }
        None
    }

    fn enter_emptiest_area(&mut self) {
        let emptiest =
            (0..self.free_in_area.len()).max_by_key(|area| (self.free_in_area[*area], usize::MAX - area));
        let area = emptiest.expect("a volume has an area") as u32;
        self.cursor = area * self.area_blocks;
        self.area_end = (self.cursor + self.area_blocks).min(self.blocks());
    }
}
