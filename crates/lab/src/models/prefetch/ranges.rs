//! The prefetched bytes that nobody has read yet, by file and offset.
use std::collections::BTreeMap;

/// Disjoint ranges; reading one takes it out.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// (file, first byte) -> (byte after the last, arrived).
    map: BTreeMap<(u32, u64), (u64, bool)>,
}

/// A piece of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub begin: u64,
    pub end: u64,
    pub arrived: bool,
}

impl Ranges {
    /// Parts that overlap `begin..end`, ascending, cut to it.
    pub fn overlaps(&self, file: u32, begin: u64, end: u64) -> Vec<Part> {
        let before = self.map.range((file, 0)..(file, begin)).next_back();
        let inside = self.map.range((file, begin)..(file, end));
        let cut = |((_, first), (last, arrived)): (&(u32, u64), &(u64, bool))| Part {
            begin: (*first).max(begin),
            end: (*last).min(end),
            arrived: *arrived,
        };
        before
            .into_iter()
            .chain(inside)
            .map(cut)
            .filter(|part| part.begin < part.end)
            .collect()
    }

    /// The parts of `begin..end` that no range holds, ascending.
    pub fn gaps(&self, file: u32, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = begin;
        for part in self.overlaps(file, begin, end) {
            if at < part.begin {
                gaps.push((at, part.begin));
            }
            at = part.end;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// Adds a range in flight; it must not overlap another.
    pub fn add(&mut self, file: u32, begin: u64, end: u64) {
        debug_assert!(self.overlaps(file, begin, end).is_empty());
        self.map.insert((file, begin), (end, false));
    }

    /// Takes `begin..end` out and returns what was there.
    pub fn take(&mut self, file: u32, begin: u64, end: u64) -> Vec<Part> {
        let parts = self.overlaps(file, begin, end);
        for part in &parts {
            let key = *self
                .map
                .range(..=(file, part.begin))
                .next_back()
                .expect("the range just found")
                .0;
            let (last, arrived) = self.map.remove(&key).expect("the key just found");
            if key.1 < part.begin {
                self.map.insert(key, (part.begin, arrived));
            }
            if part.end < last {
                self.map.insert((file, part.end), (last, arrived));
            }
        }
        parts
    }

    /// Marks what is left of `begin..end` as arrived.
    pub fn arrive(&mut self, file: u32, begin: u64, end: u64) {
        for part in self.take(file, begin, end) {
            self.map.insert((file, part.begin), (part.end, true));
        }
    }

    /// Bytes of all ranges.
    pub fn total_bytes(&self) -> u64 {
        self.map.iter().map(|((_, begin), (end, _))| end - begin).sum()
    }
}
