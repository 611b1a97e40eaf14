//! Operations by what they share with others, and the time they lasted.
use super::fast_map::FastMap;
use std::collections::VecDeque;

/// Most spans; beyond, the oldest go before their time.
const SPANS_MAX: usize = 1 << 17;

/// Spans by key, in the order of their ends. Those of one key hardly overlap.
pub struct Spans<T> {
    by_key: FastMap<u64, VecDeque<(u64, u64, T)>>,
    count: usize,
}

impl<T> Default for Spans<T> {
    fn default() -> Spans<T> {
        Spans {
            by_key: FastMap::default(),
            count: 0,
        }
    }
}

impl<T: Copy> Spans<T> {
    /// Adds one.
    pub fn add(&mut self, key: u64, span_ns: (u64, u64), what: T) {
        let spans = self.by_key.entry(key).or_default();
        // They come CPU by CPU: those of a thread that moved are not in order, but nearly.
        let place = spans.partition_point(|(_, end_ns, _)| *end_ns <= span_ns.1);
        spans.insert(place, (span_ns.0, span_ns.1, what));
        self.count += 1;
        if self.count > SPANS_MAX && spans.pop_front().is_some() {
            self.count -= 1;
        }
    }

    /// The first one of a key that touches a span of time.
    pub fn touching(&self, key: u64, from_ns: u64, to_ns: u64) -> Option<T> {
        if self.count == 0 {
            return None;
        }
        let spans = self.by_key.get(&key)?;
        let place = spans.partition_point(|(_, end_ns, _)| *end_ns < from_ns);
        let mut later = spans.range(place..).take(2);
        let touching = later.find(|(start_ns, _, _)| *start_ns <= to_ns);
        touching.map(|(_, _, what)| *what)
    }

    /// Forgets those that ended before.
    pub fn forget_before(&mut self, time_ns: u64) {
        self.by_key.retain(|_, spans| {
            let old = spans.partition_point(|(_, end_ns, _)| *end_ns < time_ns);
            spans.drain(..old);
            !spans.is_empty()
        });
        self.count = self.by_key.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_found_by_key_and_time_and_forgotten() {
        let mut spans = Spans::default();
        spans.add(7, (30, 40), 'b');
        spans.add(7, (10, 20), 'a');
        assert_eq!(spans.touching(7, 15, 15), Some('a'));
        assert_eq!(
            (spans.touching(7, 20, 30), spans.touching(7, 30, 99)),
            (Some('a'), Some('b'))
        );
        assert_eq!(
            (spans.touching(7, 21, 29), spans.touching(8, 15, 15)),
            (None, None)
        );
        spans.forget_before(25);
        assert_eq!(
            (spans.touching(7, 15, 15), spans.touching(7, 35, 35)),
            (None, Some('b'))
        );
    }
}
