//! A flash cache between RAM and disks: what it holds, what it lets in, what it throws out.
//!
//! It holds blocks of one size. Which data go where in flash and how fast that is belongs to the drive model
//! under it. A run whose data fit in here never shows what the disks do.

use super::cache::{Cache, Lru, PolicyKind};
use super::{require, ParameterError};
use crate::component::{Access, CacheModel};

/// When a block that was missed is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// On its first miss (`always`).
    Always,
    /// On a miss while an earlier one is remembered (`second_miss`): one pass over cold data does not wear
    /// out flash and pushes nothing out.
    SecondMiss {
        /// Misses remembered, at least 2.
        history: usize,
    },
    /// Never (`never`): only what [`SsdTier::write`] and [`SsdTier::warm`] bring in.
    Never,
}

/// What a write does to the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnWrite {
    /// Goes to the disks; a cached copy is dropped (`around`).
    Around,
    /// Goes to both (`through`).
    Through,
}

/// The tier's size and rules.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdTierParameters {
    /// Blocks it holds, 2 to [`super::cache::CAPACITY_MAX`].
    pub capacity_blocks: usize,
    /// Size of a block, a power of two from 4 KiB to 16 MiB.
    pub block_bytes: u64,
    /// Who is thrown out.
    pub policy: PolicyKind,
    /// Who is let in.
    pub admission: Admission,
    /// What writes do.
    pub on_write: OnWrite,
}

/// Counts since the tier was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Reads served here.
    pub hits: u64,
    /// Reads that went on to the disks.
    pub misses: u64,
    /// Blocks written to flash.
    pub admitted: u64,
    /// Blocks thrown out by others.
    pub evicted: u64,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The block is here.
    Hit,
    /// The block comes from the disks.
    Miss {
        /// Whether it is written to flash when it has come; it counts as held from now on.
        admitted: bool,
    },
}

/// The tier.
#[derive(Clone)]
pub struct SsdTier {
    parameters: SsdTierParameters,
    cache: Cache,
    history: Option<Lru>,
    counts: TierCounts,
}

impl SsdTier {
    /// An empty tier.
    pub fn new(parameters: SsdTierParameters) -> Result<SsdTier, ParameterError> {
        let block = parameters.block_bytes;
        let legal = block.is_power_of_two() && (4096..=16 << 20).contains(&block);
        require(legal, "block_bytes", "a power of two from 4 KiB to 16 MiB", block)?;
        let history = match parameters.admission {
            Admission::SecondMiss { history } => Some(Lru::new(history)?),
            Admission::Always | Admission::Never => None,
        };
        let cache = Cache::new(parameters.policy, parameters.capacity_blocks)?;
        Ok(SsdTier {
            cache,
            history,
            counts: TierCounts::default(),
            parameters,
        })
    }

    /// Blocks `offset_bytes..offset_bytes + size_bytes` touches.
    pub fn blocks(&self, offset_bytes: u64, size_bytes: u64) -> std::ops::Range<u64> {
        let block = self.parameters.block_bytes;
        offset_bytes / block..(offset_bytes + size_bytes).div_ceil(block)
    }

    /// A read of `block` that RAM could not serve.
    pub fn read(&mut self, block: u64) -> Lookup {
        if self.cache.contains(block) {
            self.cache.access(block);
            self.counts.hits += 1;
            return Lookup::Hit;
        }
        self.counts.misses += 1;
        let admitted = match (self.parameters.admission, &mut self.history) {
            (Admission::Always, _) => true,
            (Admission::SecondMiss { .. }, Some(history)) => history.access(block) == Access::Hit,
            _ => false,
        };
        if admitted {
            let access = self.cache.access(block);
            self.note_admitted(matches!(access, Access::Miss { evicted: Some(_) }));
        }
        Lookup::Miss { admitted }
    }

    /// A write of `block`; whether it is written to flash too.
    pub fn write(&mut self, block: u64) -> bool {
        match self.parameters.on_write {
            OnWrite::Around => {
                self.cache.remove(block);
                false
            }
            OnWrite::Through => {
                self.warm(block);
                true
            }
        }
    }

    /// Brings `block` in without a read, as a test's preparation does.
    pub fn warm(&mut self, block: u64) {
        let held = self.cache.contains(block);
        let evicted = self.cache.insert(block);
        if !held {
            self.note_admitted(evicted.is_some());
        }
    }

    /// Throws everything out: afterwards the disks show.
    pub fn evict_all(&mut self) -> Result<(), ParameterError> {
        let counts = self.counts;
        *self = SsdTier::new(self.parameters.clone())?;
        self.counts = counts;
        Ok(())
    }

    /// Whether `block` is held; changes nothing.
    pub fn contains(&self, block: u64) -> bool {
        self.cache.contains(block)
    }

    /// Blocks held.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Counts since the tier was made.
    pub fn counts(&self) -> TierCounts {
        self.counts
    }

    fn note_admitted(&mut self, evicted: bool) {
        self.counts.admitted += 1;
        self.counts.evicted += u64::from(evicted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tier(admission: Admission, on_write: OnWrite) -> SsdTier {
        let (capacity_blocks, block_bytes) = (64, 65_536);
        let policy = PolicyKind::Lru;
        SsdTier::new(SsdTierParameters {
            capacity_blocks,
            block_bytes,
            policy,
            admission,
            on_write,
        })
        .unwrap()
    }

    #[test]
    fn data_that_fit_hide_the_disks_until_they_are_evicted() {
        let mut tier = tier(Admission::Always, OnWrite::Around);
        (0..60).for_each(|block| tier.warm(block));
        assert!((0..60).all(|block| tier.read(block) == Lookup::Hit));
        tier.evict_all().unwrap();
        assert!(tier.is_empty());
        assert!((0..60).all(|block| tier.read(block) == Lookup::Miss { admitted: true }));
        assert_eq!(
            tier.counts(),
            TierCounts {
                hits: 60,
                misses: 60,
                admitted: 120,
                evicted: 0
            }
        );
    }

    #[test]
    fn one_pass_over_cold_data_is_not_let_in_by_the_second_miss_rule() {
        let mut tier = tier(Admission::SecondMiss { history: 1000 }, OnWrite::Around);
        assert!((0..500).all(|block| tier.read(block) == Lookup::Miss { admitted: false }));
        assert_eq!(tier.read(7), Lookup::Miss { admitted: true });
        assert_eq!(tier.read(7), Lookup::Hit);
    }

    #[test]
    fn writes_go_around_or_through() {
        let mut around = tier(Admission::Always, OnWrite::Around);
        around.warm(3);
        assert!(!around.write(3) && !around.contains(3));
        let mut through = tier(Admission::Never, OnWrite::Through);
        assert!(through.write(3) && through.contains(3));
        assert_eq!(through.read(4), Lookup::Miss { admitted: false });
    }

    #[test]
    fn ranges_become_the_blocks_they_touch() {
        let tier = tier(Admission::Always, OnWrite::Around);
        assert_eq!(tier.blocks(65_535, 2), 0..2);
        assert_eq!(tier.blocks(65_536, 65_536), 1..2);
    }

    proptest! {
        #[test]
        fn counts_add_up(second in any::<bool>(), steps in prop::collection::vec((0..4u8, 0..200u64), 1..500)) {
            let admission = if second { Admission::SecondMiss { history: 50 } } else { Admission::Always };
            let mut tier = tier(admission, OnWrite::Through);
            let mut reads = 0;
            for (what, block) in steps {
                if what == 0 {
                    tier.write(block);
                } else {
                    reads += 1;
                    let held = tier.contains(block);
                    prop_assert_eq!(tier.read(block) == Lookup::Hit, held);
                }
                let counts = tier.counts();
                prop_assert_eq!(counts.hits + counts.misses, reads);
                prop_assert_eq!(counts.admitted - counts.evicted, tier.len() as u64);
                prop_assert!(tier.len() <= 64);
            }
        }
    }
}
