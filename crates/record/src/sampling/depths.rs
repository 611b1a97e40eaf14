//! How many operations were in flight at a moment, counting all of them, in whatever order they came.
use super::fast_map::FastMap;
use case::rows::sampled::LONG_NS;
use std::collections::VecDeque;

/// Begins and ends of operations that came together, each in order once it is closed.
#[derive(Default)]
struct Chunk {
    starts_ns: Vec<u64>,
    ends_ns: Vec<u64>,
}

impl Chunk {
    fn close(&mut self) {
        // They come nearly in order, in a few runs: what a stable sort is fast at.
        self.starts_ns.sort();
        self.ends_ns.sort();
    }

    fn at(&self, time_ns: u64) -> usize {
        let (Some(first_ns), Some(last_ns)) = (self.starts_ns.first(), self.ends_ns.last()) else {
            return 0;
        };
        if *first_ns > time_ns || *last_ns <= time_ns {
            return 0;
        }
        let begun = self.starts_ns.partition_point(|ns| *ns <= time_ns);
        begun - self.ends_ns.partition_point(|ns| *ns <= time_ns)
    }
}

/// Operations by group: a device, a thread. None takes longer than [`LONG_NS`].
#[derive(Default)]
pub struct Depths {
    open: FastMap<u64, Chunk>,
    closed: FastMap<u64, VecDeque<Chunk>>,
    known_from_ns: u64,
}

impl Depths {
    /// Adds an operation.
    pub fn add(&mut self, group: u64, start_ns: u64, end_ns: u64) {
        let chunk = self.open.entry(group).or_default();
        chunk.starts_ns.push(start_ns);
        chunk.ends_ns.push(end_ns.max(start_ns));
    }

    /// What was added is complete for now; [`Depths::at`] then knows it.
    pub fn close(&mut self) {
        for (group, mut chunk) in self.open.drain() {
            chunk.close();
            self.closed.entry(group).or_default().push_back(chunk);
        }
    }

    /// Operations of a group in flight: begun by then, and not ended; `None` if that is forgotten.
    pub fn at(&self, group: u64, time_ns: u64) -> Option<usize> {
        if time_ns < self.known_from_ns {
            return None;
        }
        let Some(chunks) = self.closed.get(&group) else {
            return Some(0);
        };
        // Chunks come in order of time. One in which all ended before is of no interest, nor is one in which all ended so late
        // that they began later.
        let first = chunks.partition_point(|chunk| chunk.ends_ns.last().is_some_and(|ns| *ns <= time_ns));
        let near = |chunk: &&Chunk| chunk.ends_ns.first().is_some_and(|ns| *ns <= time_ns + LONG_NS);
        Some(
            chunks
                .range(first..)
                .take_while(near)
                .map(|chunk| chunk.at(time_ns))
                .sum(),
        )
    }

    /// Forgets what ended before.
    pub fn forget_before(&mut self, time_ns: u64) {
        self.known_from_ns = time_ns;
        self.closed.retain(|_, chunks| {
            chunks.retain(|chunk| chunk.ends_ns.last().is_some_and(|ns| *ns >= time_ns));
            !chunks.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_counted_over_chunks_in_any_order() {
        let mut depths = Depths::default();
        depths.add(1, 10, 30);
        depths.add(1, 5, 25);
        depths.close();
        depths.add(1, 300, 2 * LONG_NS);
        depths.add(1, 1, 100);
        depths.add(2, 1, 100);
        depths.close();
        let at = |time_ns| depths.at(1, time_ns).unwrap();
        assert_eq!(
            [at(0), at(1), at(5), at(10), at(25), at(30), at(100)],
            [0, 1, 2, 3, 2, 1, 0]
        );
        depths.forget_before(50);
        assert_eq!((depths.at(1, 50), depths.at(2, 50)), (Some(1), Some(1)));
        assert_eq!((depths.at(1, 49), depths.at(1, 100)), (None, Some(0)));
    }
}
