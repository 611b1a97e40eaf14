//! What buffered writes left in the page cache, until a request carries it to a device.
use super::active::FileKey;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Writes remembered at most; where there are more, the oldest are forgotten and never linked.
const WRITES_MAX: usize = 1 << 18;

#[derive(Debug, Default)]
struct Ranges {
    /// End by begin and operation.
    ends: BTreeMap<(u64, u64), u64>,
    /// Longest range so far, to know how far before a place one may begin.
    longest: u64,
}

/// Dirty ranges by file.
#[derive(Debug, Default)]
pub struct Dirty {
    by_file: HashMap<FileKey, Ranges>,
    /// In order of time; some have been carried since.
    order: VecDeque<(FileKey, (u64, u64))>,
}

impl Dirty {
    /// Operation `op_id` wrote `from..to` of a file into the cache.
    pub fn write(&mut self, file: FileKey, from: u64, to: u64, op_id: u64) {
        if to <= from {
            return;
        }
        if self.order.len() >= WRITES_MAX {
            if let Some((oldest, key)) = self.order.pop_front() {
                self.remove(oldest, key);
            }
        }
        let ranges = self.by_file.entry(file).or_default();
        ranges.longest = ranges.longest.max(to - from);
        ranges.ends.insert((from, op_id), to);
        self.order.push_back((file, (from, op_id)));
    }

    fn remove(&mut self, file: FileKey, key: (u64, u64)) {
        if let Some(ranges) = self.by_file.get_mut(&file) {
            ranges.ends.remove(&key);
            if ranges.ends.is_empty() {
                self.by_file.remove(&file);
            }
        }
    }

    /// A request carries `from..to` of the file: tells operations and bytes. What is left of a range stays.
    pub fn carry(&mut self, file: FileKey, from: u64, to: u64) -> Vec<(u64, u64)> {
        let Some(ranges) = self.by_file.get_mut(&file) else {
            return Vec::new();
        };
        let lowest = from.saturating_sub(ranges.longest);
        let touched: Vec<_> = ranges
            .ends
            .range((lowest, 0)..(to, 0))
            .map(|(key, end)| (*key, *end))
            .filter(|(_, end)| *end > from)
            .collect();
        let mut carried = Vec::new();
        for ((begin, op_id), end) in touched {
            carried.push((op_id, end.min(to) - begin.max(from)));
            ranges.ends.remove(&(begin, op_id));
            if begin < from {
                ranges.ends.insert((begin, op_id), from);
            }
            if end > to {
                ranges.ends.insert((to, op_id), end);
                self.order.push_back((file, (to, op_id)));
            }
        }
        if ranges.ends.is_empty() {
            self.by_file.remove(&file);
        }
        carried
    }

    /// Writes remembered.
    pub fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_carried_once() {
        let mut dirty = Dirty::default();
        let file = (1, 2);
        dirty.write(file, 0, 10_000, 7);
        dirty.write(file, 8192, 12_288, 8);
        dirty.write((1, 3), 0, 4096, 9);
        assert_eq!(dirty.carry(file, 4096, 8192), [(7, 4096)]);
        assert_eq!(dirty.carry(file, 4096, 8192), []);
        assert_eq!(dirty.carry(file, 0, 16_384), [(7, 4096), (7, 1808), (8, 4096)]);
        assert_eq!(dirty.carry(file, 0, 1 << 20), []);
        assert_eq!(dirty.carry((1, 3), 0, 4096), [(9, 4096)]);
        assert_eq!(dirty.carry((1, 3), 0, 4096), []);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut dirty = Dirty::default();
        for op_id in 0..WRITES_MAX as u64 + 1 {
            dirty.write((1, 2), op_id * 4096, (op_id + 1) * 4096, op_id);
        }
        assert_eq!(dirty.carry((1, 2), 0, 8192), [(1, 4096)]);
        assert_eq!(dirty.len(), WRITES_MAX);
    }
}
