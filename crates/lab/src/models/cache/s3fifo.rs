//! S3-FIFO: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.
//!
//! A key enters the small queue. When it leaves it, it moves to the main queue if it was used at least twice
//! meanwhile, else it is evicted and remembered as a ghost; a miss on a ghost goes straight to the main
//! queue. The main queue is a FIFO with reinsertion: a used key goes round again with one use less, counted
//! up to 3.
//!
//! Where the paper leaves room, this follows the authors' simulator, libCacheSim 0.3.5: the small queue is
//! drained down to its first victim however full the main queue gets meanwhile, and a cold cache fills both
//! queues.

use super::check_capacity;
use super::table::{At, Table};
use crate::component::{Access, CacheModel};
use crate::models::{require, ParameterError};

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
/// A new key while room is made for it.
const COMING: usize = 3;

/// Uses are counted up to here (two bits).
const USES_MAX: u8 = 3;

/// Mark of a key that was brought in without a read and not read since: its first read counts like the miss
/// that would otherwise have brought it in.
const UNREAD: u8 = u8::MAX;

/// Sizes of the queues and the promotion rule, as the authors evaluate them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct S3FifoParameters {
    /// Part of the capacity that the small queue is meant to have, above 0 and below 1.
    pub small_ratio: f64,
    /// Ghosts remembered, as a part of the capacity, 0 to 2.
    pub ghost_ratio: f64,
    /// Uses in the small queue that earn a place in the main queue, 1 to 3.
    pub promote_uses: u8,
}

impl Default for S3FifoParameters {
    fn default() -> S3FifoParameters {
        S3FifoParameters {
            small_ratio: 0.1,
            ghost_ratio: 0.9,
            promote_uses: 2,
        }
    }
}

/// An S3-FIFO cache of a fixed number of keys.
#[derive(Clone)]
pub struct S3Fifo {
    capacity: usize,
    main_capacity: usize,
    /// Set by the first eviction. Until then a full small queue leaves new keys to the main queue, so that a
    /// cold cache fills both to their sizes.
    warm: bool,
    ghost_capacity: usize,
    promote_uses: u8,
    table: Table<4>,
}

impl S3Fifo {
    /// Holds `capacity` keys, 2 to [`super::CAPACITY_MAX`]; the small queue has room for one at least.
    pub fn new(capacity: usize, parameters: S3FifoParameters) -> Result<S3Fifo, ParameterError> {
        let S3FifoParameters {
            small_ratio,
            ghost_ratio,
            promote_uses,
        } = parameters;
        check_capacity(capacity)?;
        require(
            small_ratio > 0.0 && small_ratio < 1.0,
            "small_ratio",
            "above 0 and below 1",
            small_ratio,
        )?;
        require(
            (0.0..=2.0).contains(&ghost_ratio),
            "ghost_ratio",
            "0 to 2",
            ghost_ratio,
        )?;
        require(
            (1..=USES_MAX).contains(&promote_uses),
            "promote_uses",
            "1 to 3",
            promote_uses,
        )?;
        let small = ((capacity as f64 * small_ratio) as usize).max(1);
        let ghost_capacity = (capacity as f64 * ghost_ratio) as usize;
        Ok(S3Fifo {
            capacity,
            main_capacity: capacity - small,
            warm: false,
            ghost_capacity,
            promote_uses,
            table: Table::new(capacity + ghost_capacity + 1),
        })
    }

    fn evict(&mut self) -> Option<u64> {
        self.warm = true;
        loop {
            let from_main = self.table.len(MAIN) > self.main_capacity || self.table.len(SMALL) == 0;
            let evicted = if from_main {
                self.evict_main()
            } else {
                self.evict_small()
            };
            if evicted.is_some() || self.len() == 0 {
                return evicted;
            }
        }
    }

    /// Moves what earned it to the main queue; `None` if that was all.
    fn evict_small(&mut self) -> Option<u64> {
        while let Some(at) = self.table.oldest(SMALL) {
            let uses = self.table.uses(at);
            if uses < self.promote_uses || uses == UNREAD {
                return Some(self.remember(at));
            }
            self.table.set_uses(at, 0);
            self.table.renew(at, MAIN);
        }
        None
    }

    fn evict_main(&mut self) -> Option<u64> {
        while let Some(at) = self.table.oldest(MAIN) {
            let uses = self.table.uses(at);
            if uses == 0 {
                return Some(self.table.remove(at));
            }
            self.table.set_uses(at, uses - 1);
            self.table.renew(at, MAIN);
        }
        None
    }

    fn remember(&mut self, at: At) -> u64 {
        if self.ghost_capacity == 0 {
            return self.table.remove(at);
        }
        if self.table.len(GHOST) == self.ghost_capacity {
            if let Some(oldest) = self.table.oldest(GHOST) {
                self.table.remove(oldest);
            }
        }
        self.table.renew(at, GHOST);
        self.table.key(at)
    }
}

impl CacheModel for S3Fifo {
    #[inline]
    fn expect(&mut self, key: u64) {
        self.table.expect(key);
    }

    #[inline]
    fn access(&mut self, key: u64) -> Access {
        let found = self.table.find(key);
        let ghost = found.is_ok();
        let at = match found {
            Ok(at) if self.table.list(at) != GHOST => {
                let uses = self.table.uses(at);
                let used = if uses == UNREAD {
                    0
                } else {
                    (uses + 1).min(USES_MAX)
                };
                self.table.set_uses(at, used);
                return Access::Hit;
            }
            Ok(at) => {
                self.table.renew(at, COMING);
                self.table.set_uses(at, 0);
                at
            }
            Err(vacant) => self.table.insert(vacant, COMING),
        };
        let full = self.len() == self.capacity;
        let evicted = if full { self.evict() } else { None };
        let small_full = self.table.len(SMALL) >= self.capacity - self.main_capacity;
        let to_main = ghost || (!self.warm && small_full);
        self.table.renew(at, if to_main { MAIN } else { SMALL });
        Access::Miss { evicted }
    }

    fn insert(&mut self, key: u64) -> Option<u64> {
        if self.contains(key) {
            return None;
        }
        let evicted = match self.access(key) {
            Access::Miss { evicted } => evicted,
            Access::Hit => None,
        };
        if let Some(at) = self
            .table
            .find(key)
            .ok()
            .filter(|at| self.table.list(*at) == SMALL)
        {
            self.table.set_uses(at, UNREAD);
        }
        evicted
    }

    fn contains(&self, key: u64) -> bool {
        self.table.find(key).is_ok_and(|at| self.table.list(at) != GHOST)
    }

    fn remove(&mut self, key: u64) -> bool {
        let resident = self
            .table
            .find(key)
            .ok()
            .filter(|at| self.table.list(*at) != GHOST);
        if let Some(at) = resident {
            self.table.remove(at);
        }
        resident.is_some()
    }

    fn len(&self) -> usize {
        self.table.len(SMALL) + self.table.len(MAIN)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}
