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
    /// Per area: no free run is longer.
    longest_in_area: Vec<u32>,
    /// The emptiest areas, emptiest first, while `emptiest_known`.
    emptiest: Vec<u32>,
    emptiest_known: bool,
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
            longest_in_area: vec![area_blocks; areas as usize],
            emptiest: Vec::new(),
            emptiest_known: false,
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
            let block = self.used.first_clear(self.cursor, self.area_end);
            if block < self.area_end {
                self.cursor = block + 1;
                self.take(block);
                return Some(block);
            }
            self.enter_emptiest_area();
        }
    }

    pub fn take(&mut self, block: u32) {
        assert!(!self.used.replace(block, true), "block {block} is taken twice");
        self.free_in_area[(block / self.area_blocks) as usize] -= 1;
        self.free -= 1;
        self.emptiest_known = false;
    }

    /// A block will be released soon: a hint.
    pub fn expect(&self, block: u32) {
        self.used.expect(block);
    }

    pub fn release(&mut self, block: u32) {
        assert!(self.used.replace(block, false), "block {block} is freed twice");
        let area = (block / self.area_blocks) as usize;
        self.free_in_area[area] += 1;
        self.longest_in_area[area] = self.area_blocks;
        self.free += 1;
        self.emptiest_known = false;
    }

    /// A free run of `blocks` inside one area, the emptiest that has one. Only the emptiest few are searched: where
    /// they have none, the others hardly do, and looking everywhere each time takes minutes on a full volume.
    pub fn find_run(&mut self, blocks: u32) -> Option<Extent> {
        self.find_emptiest();
        for place in 0..self.emptiest.len() {
            let area = self.emptiest[place];
            if self.free_in_area[area as usize] < blocks || self.longest_in_area[area as usize] < blocks {
                continue;
            }
            let begin = area * self.area_blocks;
            let end = (begin + self.area_blocks).min(self.blocks());
            match self.used.first_clear_run(begin, end, blocks) {
                Some(first) => return Some(Extent { first, blocks }),
                // Not looked at again for this many before a block of it becomes free.
                None => self.longest_in_area[area as usize] = blocks - 1,
            }
        }
        None
    }

    fn find_emptiest(&mut self) {
        if self.emptiest_known {
            return;
        }
        let mut areas: Vec<(std::cmp::Reverse<u32>, u32)> = (0..)
            .zip(&self.free_in_area)
            .map(|(area, free)| (std::cmp::Reverse(*free), area))
            .collect();
        if areas.len() > AREAS_SEARCHED {
            areas.select_nth_unstable(AREAS_SEARCHED);
            areas.truncate(AREAS_SEARCHED);
        }
        areas.sort_unstable();
        self.emptiest.clear();
        self.emptiest.extend(areas.into_iter().map(|(_, area)| area));
        self.emptiest_known = true;
    }

    fn enter_emptiest_area(&mut self) {
        let emptiest =
            (0..self.free_in_area.len()).max_by_key(|area| (self.free_in_area[*area], usize::MAX - area));
        let area = emptiest.expect("a volume has an area") as u32;
        self.cursor = area * self.area_blocks;
        self.area_end = (self.cursor + self.area_blocks).min(self.blocks());
    }
}
