//! A table in bounded memory.
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::Hash;

/// Most entries of a table.
pub const ENTRIES_MAX: usize = 1 << 18;

/// A table that forgets what was not entered lately.
pub struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent {
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq, V> Recent<K, V> {
    fn make_room(&mut self) {
        if self.young.len() >= ENTRIES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// Enters a value.
    pub fn insert(&mut self, key: K, value: V) {
        self.make_room();
        self.young.insert(key, value);
    }

    /// The value of a key, made if there is none.
    pub fn entry(&mut self, key: K, new: fn() -> V) -> &mut V {
        self.make_room();
        let old = &mut self.old;
        match self.young.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let value = old.remove(entry.key()).unwrap_or_else(new);
                entry.insert(value)
            }
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut recent = Recent::default();
        for key in 0..3 * ENTRIES_MAX {
            recent.insert(key, ());
        }
        assert!(recent.young.len() + recent.old.len() <= ENTRIES_MAX);
        assert!(recent.get(&(3 * ENTRIES_MAX - 1)).is_some());
    }
}
