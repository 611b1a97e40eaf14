//! Adaptive replacement cache: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
//! 2003.
//!
//! Keys seen once lately are on `T1`, keys seen at least twice on `T2`; together they are the cache. `B1` and
//! `B2` remember the keys that were evicted from either. A miss that is remembered shifts `target`, the size
//! `T1` should have, towards the side it was evicted from. The target is a real number, as in the simulators
//! it is compared with; the paper leaves open whether the step is rounded.
//!
//! The paper knows no prefetching. Here a key that was brought in without a read enters `T1`, whatever is
//! remembered of it, and its first read leaves it there: else prefetching alone would make a scan look
//! frequently used. ZFS does the same.

use super::check_capacity;
use super::table::{At, Table};
use crate::component::{Access, CacheModel};
use crate::models::ParameterError;

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;
/// A new key while room is made for it.
const COMING: usize = 4;

/// Mark of a key that was brought in without a read and not read since.
const UNREAD: u8 = 1;

/// An ARC cache of a fixed number of keys; it remembers as many evicted ones.
#[derive(Clone)]
pub struct Arc {
    capacity: usize,
    /// `p` of the paper: how many keys `T1` should hold, 0 to `capacity`.
    target: f64,
    table: Table<5>,
}

impl Arc {
    /// Holds `capacity` keys, 2 to [`super::CAPACITY_MAX`].
    pub fn new(capacity: usize) -> Result<Arc, ParameterError> {
        check_capacity(capacity)?;
        Ok(Arc {
            capacity,
            target: 0.0,
            table: Table::new(2 * capacity + 1),
        })
    }

    /// `REPLACE` of the paper: evicts the oldest of `T1` or of `T2` and remembers it.
    fn replace(&mut self, remembered_in_b2: bool) -> Option<u64> {
        let once = self.table.len(T1) as f64;
        let above = once > self.target || (remembered_in_b2 && once == self.target);
        let from_t1 = (once > 0.0 && above) || self.table.len(T2) == 0;
        let (from, to) = if from_t1 { (T1, B1) } else { (T2, B2) };
        let at = self.table.oldest(from)?;
        self.table.renew(at, to);
        Some(self.table.key(at))
    }

    fn forget_oldest(&mut self, list: usize) -> Option<u64> {
        let at = self.table.oldest(list)?;
        Some(self.table.remove(at))
    }

    /// Cases II and III: a miss on a key that was evicted lately.
    fn ghost_hit(&mut self, at: At, list: usize) -> Option<u64> {
        let (b1, b2) = (self.table.len(B1) as f64, self.table.len(B2) as f64);
        self.target = if list == B1 {
            (self.target + (b2 / b1).max(1.0)).min(self.capacity as f64)
        } else {
            (self.target - (b1 / b2).max(1.0)).max(0.0)
        };
        let evicted = if self.len() == self.capacity {
            self.replace(list == B2)
        } else {
            None
        };
        self.table.renew(at, T2);
        evicted
    }

    /// Case IV: a miss on a key nothing is known of.
    fn make_room(&mut self) -> Option<u64> {
        if self.len() < self.capacity {
            return None;
        }
        if self.table.len(T1) + self.table.len(B1) >= self.capacity {
            if self.table.len(B1) == 0 {
                return self.forget_oldest(T1);
            }
            self.forget_oldest(B1);
        } else if self.len() + self.table.len(B1) + self.table.len(B2) >= 2 * self.capacity {
            self.forget_oldest(B2);
        }
        self.replace(false)
    }
}

impl CacheModel for Arc {
    #[inline]
    fn expect(&mut self, key: u64) {
        self.table.expect(key);
    }

    #[inline]
    fn access(&mut self, key: u64) -> Access {
        let at = match self.table.find(key) {
            Ok(at) => at,
            Err(vacant) => {
                let at = self.table.insert(vacant, COMING);
                let evicted = self.make_room();
                self.table.renew(at, T1);
                return Access::Miss { evicted };
            }
        };
        match self.table.list(at) {
            T1 if self.table.uses(at) == UNREAD => {
                self.table.set_uses(at, 0);
                self.table.renew(at, T1);
                Access::Hit
            }
            T1 | T2 => {
                self.table.renew(at, T2);
                Access::Hit
            }
            list => Access::Miss {
                evicted: self.ghost_hit(at, list),
            },
        }
    }

    fn insert(&mut self, key: u64) -> Option<u64> {
        let at = match self.table.find(key) {
            Ok(at) if matches!(self.table.list(at), T1 | T2) => return None,
            Ok(at) => {
                self.table.renew(at, COMING);
                at
            }
            Err(vacant) => self.table.insert(vacant, COMING),
        };
        let evicted = self.make_room();
        self.table.renew(at, T1);
        self.table.set_uses(at, UNREAD);
        evicted
    }

    fn contains(&self, key: u64) -> bool {
        self.table
            .find(key)
            .is_ok_and(|at| matches!(self.table.list(at), T1 | T2))
    }

    fn remove(&mut self, key: u64) -> bool {
        let resident = self
            .table
            .find(key)
            .ok()
            .filter(|at| matches!(self.table.list(*at), T1 | T2));
        if let Some(at) = resident {
            self.table.remove(at);
        }
        resident.is_some()
    }

    fn len(&self) -> usize {
        self.table.len(T1) + self.table.len(T2)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}
