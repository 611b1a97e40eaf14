//! The mapping from the host's units to flash units, and garbage collection; no time in it.
//!
//! Page-mapped, one free list and one garbage collection per die. Host data go round the dies page by page.
//! Each die writes host data and collected data to blocks of their own. The victim is the block with the
//! fewest valid units (greedy).

use super::parameters::SsdParameters;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Free,
    Open,
    Full,
}

/// A place that is being written: a block and how many units of it are taken.
#[derive(Clone, Copy, Debug)]
struct Front {
    block: u32,
    taken: u32,
}

#[derive(Clone, Debug)]
struct Die {
    free: Vec<u32>,
    host: Front,
    moved: Front,
    victim: Option<Victim>,
}

/// A block that is being emptied: how far, and how much was valid when it was chosen.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    next: u32,
    valid_at_choice: u32,
}

/// What garbage collection did; the drive turns it into time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub page_reads: u32,
    pub programs: u32,
    pub erases: u32,
}

/// Counters since the drive was made, preconditioning left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Units of 4 KiB the host wrote.
    pub host_units: u64,
    /// Units garbage collection moved.
    pub moved_units: u64,
}

impl Written {
    /// Flash writes per host write.
    pub fn amplification(&self) -> f64 {
        (self.host_units + self.moved_units) as f64 / self.host_units.max(1) as f64
    }
}

#[derive(Clone, Debug)]
pub(super) struct Mapping {
    blocks_per_die: u32,
    block_units: u32,
    page_units: u32,
    program_units: u32,
    gc_free_blocks: usize,
    /// Flash unit + 1 of each host unit; 0 = none. Zeroed memory costs nothing until it is used.
    forward: Vec<u32>,
    /// Host unit + 1 of each flash unit; 0 = not valid.
    backward: Vec<u32>,
    valid: Vec<u32>,
    state: Vec<Block>,
    dies: Vec<Die>,
    cursor: u64,
    pub written: Written,
}

impl Mapping {
    pub fn new(p: &SsdParameters) -> Mapping {
        let (dies, blocks) = (p.dies(), p.blocks_per_die());
        let total_blocks = (dies * blocks) as usize;
        let nowhere = Front {
            block: NONE,
            taken: 0,
        };
        let die = |die: u32| Die {
            free: (die * blocks..(die + 1) * blocks).rev().collect(),
            host: nowhere,
            moved: nowhere,
            victim: None,
        };
        Mapping {
            blocks_per_die: blocks,
            block_units: p.block_units(),
            page_units: p.page_units(),
            program_units: p.program_units(),
            gc_free_blocks: p.gc_free_blocks as usize,
            forward: vec![0; p.logical_units() as usize],
            backward: vec![0; total_blocks * p.block_units() as usize],
            valid: vec![0; total_blocks],
            state: vec![Block::Free; total_blocks],
            dies: (0..dies).map(die).collect(),
            cursor: 0,
            written: Written::default(),
        }
    }

    /// Flash unit that holds host unit `unit`.
    #[inline]
    pub fn find(&self, unit: u64) -> Option<u32> {
        self.forward[unit as usize].checked_sub(1)
    }

    /// The die of a flash unit.
    #[inline]
    pub fn die(&self, flash: u32) -> usize {
        (flash / self.block_units / self.blocks_per_die) as usize
    }

    /// Units of this flash unit's block that were taken after it, if its block is where host data go now: the
    /// data are then perhaps still in the write buffer.
    #[inline]
    pub fn newer_in_block(&self, flash: u32) -> Option<u32> {
        let host = self.dies[self.die(flash)].host;
        (flash / self.block_units == host.block).then(|| host.taken - flash % self.block_units)
    }

    /// Writes host unit `unit`; the die it went to, and whether that filled a program unit of the die.
    pub fn write(&mut self, unit: u64) -> (usize, bool) {
        let die = (self.cursor / u64::from(self.page_units) % self.dies.len() as u64) as usize;
        self.cursor += 1;
        self.written.host_units += 1;
        self.discard(unit);
        let front = self.append(die, self.dies[die].host, unit);
        self.dies[die].host = front;
        (die, front.taken.is_multiple_of(self.program_units))
    }

    /// The host unit holds nothing any more.
    pub fn discard(&mut self, unit: u64) {
        if let Some(flash) = self.find(unit) {
            self.forward[unit as usize] = 0;
            self.backward[flash as usize] = 0;
            self.valid[(flash / self.block_units) as usize] -= 1;
        }
    }

    /// Garbage collection that goes with one program of host data on `die`: enough to keep pace with the
    /// host.
    pub fn collect(&mut self, die: usize) -> Work {
        let mut work = Work::default();
        while self.dies[die].free.len() < self.gc_free_blocks {
            let Some(victim) = self.dies[die].victim.or_else(|| self.choose_victim(die)) else {
                break;
            };
            self.dies[die].victim = Some(victim);
            let wins = self.block_units - victim.valid_at_choice;
            // Moves that free as much as one host program takes, and one more so that rounding never falls behind.
            let pace = self.program_units * victim.valid_at_choice / wins.max(1) + 1;
            let urgent = self.dies[die].free.len() <= 1;
            self.move_units(die, if urgent { u32::MAX } else { pace }, &mut work);
            if !urgent {
                break;
            }
        }
        work
    }

    fn choose_victim(&self, die: usize) -> Option<Victim> {
        let blocks = die as u32 * self.blocks_per_die..(die as u32 + 1) * self.blocks_per_die;
        let full = blocks.filter(|block| self.state[*block as usize] == Block::Full);
        let block = full.min_by_key(|block| self.valid[*block as usize])?;
        let valid_at_choice = self.valid[block as usize];
        (valid_at_choice < self.block_units).then_some(Victim {
            block,
            next: 0,
            valid_at_choice,
        })
    }

    /// Moves up to `most` valid units of the die's victim; erases it when it is empty.
    fn move_units(&mut self, die: usize, most: u32, work: &mut Work) {
        let Some(mut victim) = self.dies[die].victim else {
            return;
        };
        let first = victim.block * self.block_units;
        let (mut moved, mut page) = (0, NONE);
        while victim.next < self.block_units && moved < most {
            let flash = first + victim.next;
            victim.next += 1;
            let Some(unit) = self.backward[flash as usize].checked_sub(1) else {
                continue;
            };
            if page != flash / self.page_units {
                page = flash / self.page_units;
                work.page_reads += 1;
            }
            self.discard(u64::from(unit));
            let front = self.append(die, self.dies[die].moved, u64::from(unit));
            self.dies[die].moved = front;
            work.programs += u32::from(front.taken.is_multiple_of(self.program_units));
            moved += 1;
        }
        self.written.moved_units += u64::from(moved);
        let emptied = victim.next == self.block_units;
        if emptied {
            assert_eq!(
                self.valid[victim.block as usize], 0,
                "an erased block holds no data"
            );
            self.state[victim.block as usize] = Block::Free;
            self.dies[die].free.push(victim.block);
            work.erases += 1;
        }
        self.dies[die].victim = (!emptied).then_some(victim);
    }

    /// Puts host unit `unit` at `front`, or into a fresh block if that is full.
    fn append(&mut self, die: usize, mut front: Front, unit: u64) -> Front {
        if front.block == NONE || front.taken == self.block_units {
            if front.block != NONE {
                self.state[front.block as usize] = Block::Full;
            }
            let block = self.dies[die]
                .free
                .pop()
                .expect("garbage collection keeps a free block");
            self.state[block as usize] = Block::Open;
            front = Front { block, taken: 0 };
        }
        let flash = front.block * self.block_units + front.taken;
        self.forward[unit as usize] = flash + 1;
        self.backward[flash as usize] = unit as u32 + 1;
        self.valid[front.block as usize] += 1;
        front.taken += 1;
        front
    }

    /// Valid units by host and by flash, which must be equal; for tests.
    #[cfg(test)]
    pub fn valid_units(&self) -> (u64, u64) {
        let mapped = self.forward.iter().filter(|flash| **flash != 0).count() as u64;
        (mapped, self.valid.iter().map(|units| u64::from(*units)).sum())
    }
}
