//! Least recently used: a miss evicts the key with the oldest last use.

use super::{check_capacity, table::Table};
use crate::component::{Access, CacheModel};
use crate::models::ParameterError;

const RESIDENT: usize = 0;

/// An LRU cache of a fixed number of keys.
#[derive(Clone)]
pub struct Lru {
    capacity: usize,
    table: Table<1>,
}

impl Lru {
    /// Holds `capacity` keys, 2 to [`super::CAPACITY_MAX`].
    pub fn new(capacity: usize) -> Result<Lru, ParameterError> {
        check_capacity(capacity)?;
        Ok(Lru {
            capacity,
            table: Table::new(capacity + 1),
        })
    }
}

impl CacheModel for Lru {
    #[inline]
    fn expect(&mut self, key: u64) {
        self.table.expect(key);
    }

    #[inline]
    fn expect_insert(&self, key: u64) {
        self.table.expect_insert(key);
    }

    #[inline]
    fn access(&mut self, key: u64) -> Access {
        let vacant = match self.table.find(key) {
            Ok(at) => {
                self.table.renew(at, RESIDENT);
                return Access::Hit;
            }
            Err(vacant) => vacant,
        };
        self.table.insert(vacant, RESIDENT);
        let over = self.table.len(RESIDENT) > self.capacity;
        let oldest = if over { self.table.oldest(RESIDENT) } else { None };
        let evicted = oldest.map(|at| self.table.remove(at));
        Access::Miss { evicted }
    }

    #[inline]
    fn touch(&mut self, key: u64) -> bool {
        let found = self.table.find(key);
        found.map(|at| self.table.renew(at, RESIDENT)).is_ok()
    }

    fn insert(&mut self, key: u64) -> Option<u64> {
        match self.access(key) {
            Access::Hit => None,
            Access::Miss { evicted } => evicted,
        }
    }

    fn contains(&self, key: u64) -> bool {
        self.table.find(key).is_ok()
    }

    fn remove(&mut self, key: u64) -> bool {
        let found = self.table.find(key);
        found.map(|at| self.table.remove(at)).is_ok()
    }

    fn len(&self) -> usize {
        self.table.len(RESIDENT)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}
