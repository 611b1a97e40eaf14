//! A compact set of operation ids.
use std::collections::HashMap;

/// Ids in a block of 65,536 that are kept as a list; more become a bit map.
const LIST_LEN_MAX: usize = 4096;

/// Words of the bit map of one block.
const BITMAP_WORDS: usize = 65_536 / 64;

/// A set of 64-bit ids, cheap where ids come in runs (as those of a case do): 100 M ids in a row take
/// 13 MB. Scattered ids cost up to about 100 bytes each.
#[derive(Default)]
pub(super) struct IdSet {
    blocks: HashMap<u64, Block>,
    /// Most ids follow their predecessor, so the last block is likely to be the next one too.
    last: Option<(u64, Block)>,
}

enum Block {
    /// Sorted low halves.
    List(Vec<u16>),
    Bitmap(Box<[u64; BITMAP_WORDS]>),
}

impl Block {
    fn insert(&mut self, low: u16) -> bool {
        match self {
            Block::List(list) => {
                let Err(at) = list.binary_search(&low) else {
                    return false;
                };
                list.insert(at, low);
                if list.len() > LIST_LEN_MAX {
                    let mut bitmap = Box::new([0u64; BITMAP_WORDS]);
                    list.iter()
                        .for_each(|low| bitmap[*low as usize / 64] |= 1 << (low % 64));
                    *self = Block::Bitmap(bitmap);
                }
                true
            }
            Block::Bitmap(bitmap) => {
                let word = &mut bitmap[low as usize / 64];
                let fresh = *word & 1 << (low % 64) == 0;
                *word |= 1 << (low % 64);
                fresh
            }
        }
    }

    fn contains(&self, low: u16) -> bool {
        match self {
            Block::List(list) => list.binary_search(&low).is_ok(),
            Block::Bitmap(bitmap) => bitmap[low as usize / 64] & 1 << (low % 64) != 0,
        }
    }
}

impl IdSet {
    /// Adds an id; false if it was there already.
    pub(super) fn insert(&mut self, id: u64) -> bool {
        let high = id >> 16;
        if self.last.as_ref().is_none_or(|(last, _)| *last != high) {
            let next = self.blocks.remove(&high).unwrap_or(Block::List(Vec::new()));
            if let Some((old, block)) = self.last.replace((high, next)) {
                self.blocks.insert(old, block);
            }
        }
        self.last
            .as_mut()
            .is_some_and(|(_, block)| block.insert(id as u16))
    }

    /// Whether the id was added.
    pub(super) fn contains(&self, id: u64) -> bool {
        let high = id >> 16;
        match &self.last {
            Some((last, block)) if *last == high => block.contains(id as u16),
            _ => self
                .blocks
                .get(&high)
                .is_some_and(|block| block.contains(id as u16)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn it_is_a_set(ids in proptest::collection::vec(prop_oneof![0u64..200_000, any::<u64>()], 0..2000)) {
            let (mut set, mut model) = (IdSet::default(), HashSet::new());
            for id in &ids {
                prop_assert_eq!(set.insert(*id), model.insert(*id));
            }
            for id in ids.iter().flat_map(|id| [*id, id.wrapping_add(1)]) {
                prop_assert_eq!(set.contains(id), model.contains(&id));
            }
        }
    }

    #[test]
    fn dense_blocks_become_bit_maps() {
        let mut set = IdSet::default();
        for id in (0..131_072u64).rev() {
            assert!(set.insert(1 << 56 | id));
        }
        assert!(!set.insert(1 << 56 | 70_000));
        assert!(set.contains(1 << 56 | 131_071) && !set.contains(1 << 56 | 131_072) && !set.contains(0));
        assert!(set.blocks.values().all(|block| matches!(block, Block::Bitmap(_))));
    }
}
