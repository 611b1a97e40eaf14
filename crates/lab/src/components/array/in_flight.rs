//! Which blocks are on their way from the volume, and by which read: runs of blocks, not single ones.
use crate::component::Handle;
use crate::models::allocator::FileId;

/// Runs are looked for in one of this many short lists.
const LISTS: u32 = 256;

#[derive(Clone, Copy)]
struct Run {
    disk: FileId,
    first: u32,
    end: u32,
    fetch: Handle,
}

/// Runs under way. A block belongs to the earliest read that brings it.
pub(super) struct InFlight {
    /// A run is on the list of each group of blocks that it touches.
    group_blocks: u32,
    lists: Vec<Vec<Run>>,
}

impl InFlight {
    /// For reads of about `group_blocks`, which then touch two groups at most.
    pub fn new(group_blocks: u32) -> InFlight {
        InFlight {
            group_blocks: group_blocks.max(1),
            lists: vec![Vec::new(); LISTS as usize],
        }
    }

    fn list(&self, disk: FileId, group: u32) -> usize {
        (group.wrapping_add(disk.wrapping_mul(LISTS / 3)) % LISTS) as usize
    }

    /// The read that brings a block.
    #[inline]
    pub fn fetch_of(&self, disk: FileId, block: u32) -> Option<Handle> {
        let list = &self.lists[self.list(disk, block / self.group_blocks)];
        let holds = |run: &&Run| run.disk == disk && (run.first..run.end).contains(&block);
        list.iter().find(holds).map(|run| run.fetch)
    }

    /// A read begins. What others bring already stays theirs.
    pub fn begin(&mut self, disk: FileId, first: u32, count: u32, fetch: Handle) {
        let mut own = first;
        for block in first..first + count {
            if self.fetch_of(disk, block).is_some() {
                self.add(disk, own, block, fetch);
                own = block + 1;
            }
        }
        self.add(disk, own, first + count, fetch);
    }

    fn add(&mut self, disk: FileId, first: u32, end: u32, fetch: Handle) {
        if first >= end {
            return;
        }
        for group in first / self.group_blocks..=(end - 1) / self.group_blocks {
            let list = self.list(disk, group);
            self.lists[list].push(Run {
                disk,
                first,
                end,
                fetch,
            });
        }
    }

    /// The read that began with these blocks has ended.
    pub fn end(&mut self, disk: FileId, first: u32, count: u32, fetch: Handle) {
        for group in first / self.group_blocks..=(first + count - 1) / self.group_blocks {
            let list = self.list(disk, group);
            self.lists[list].retain(|run| run.fetch != fetch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn runs_find_what_a_map_of_blocks_finds(
            steps in prop::collection::vec((0..2u32, 0..60u32, 1..20u32, any::<bool>()), 1..60),
        ) {
            let mut runs = InFlight::new(8);
            let mut blocks = BTreeMap::new();
            let mut begun = Vec::new();
            for (fetch, (disk, first, count, ends)) in (0..).zip(steps) {
                runs.begin(disk, first, count, fetch);
                for block in first..first + count {
                    blocks.entry((disk, block)).or_insert(fetch);
                }
                begun.push((disk, first, count, fetch));
                if ends {
                    let (disk, first, count, fetch) = begun.swap_remove(begun.len() / 2);
                    runs.end(disk, first, count, fetch);
                    blocks.retain(|_, own| *own != fetch);
                }
                for disk in 0..2 {
                    for block in 0..90 {
                        prop_assert_eq!(runs.fetch_of(disk, block), blocks.get(&(disk, block)).copied());
                    }
                }
            }
        }
    }
}
