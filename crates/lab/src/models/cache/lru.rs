//! Least recently used: a miss evicts the key whose last use is longest ago.

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
            table: Table::new(capacity),
        })
    }
}

impl CacheModel for Lru {
    #[inline]
    fn access(&mut self, key: u64) -> Access {
        if let Some(at) = self.table.find(key) {
            self.table.renew(at, RESIDENT);
            return Access::Hit;
        }
        let full = self.table.len(RESIDENT) == self.capacity;
        let oldest = if full { self.table.oldest(RESIDENT) } else { None };
        let evicted = oldest.map(|at| self.table.remove(at));
        self.table.insert(key, RESIDENT);
        Access::Miss { evicted }
    }

    fn insert(&mut self, key: u64) -> Option<u64> {
        match self.access(key) {
            Access::Hit => None,
            Access::Miss { evicted } => evicted,
        }
    }

    fn contains(&self, key: u64) -> bool {
        self.table.find(key).is_some()
    }

    fn remove(&mut self, key: u64) -> bool {
        let found = self.table.find(key);
        if let Some(at) = found {
            self.table.remove(at);
        }
        found.is_some()
    }

    fn len(&self) -> usize {
        self.table.len(RESIDENT)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}
