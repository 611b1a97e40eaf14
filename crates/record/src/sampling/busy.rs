//! When threads had something in flight, in slices of time: tells silences whatever the order in which rows come.
use super::fast_map::FastMap;

/// Length of a slice, as a power of two of ns (0.52 ms): a silence of twice as long has a whole slice without anything in flight.
pub const SLICE_LOG2: u32 = 19;

/// Slices remembered of each thread: 8.6 s, in 2 KiB.
const SLICES: u64 = 1 << 14;

/// A thread is forgotten after this time without anything.
const IDLE_NS: u64 = 10_000_000_000;

struct Slices {
    /// The newest one in which it had something in flight.
    newest: u64,
    bits: Box<[u64; (SLICES / 64) as usize]>,
}

impl Slices {
    fn set(&mut self, slice: u64, busy: bool) {
        let (word, bit) = ((slice % SLICES / 64) as usize, 1 << (slice % 64));
        if busy {
            self.bits[word] |= bit;
        } else {
            self.bits[word] &= !bit;
        }
    }

    fn mark(&mut self, from: u64, to: u64) {
        let from = from.max(to.saturating_sub(SLICES - 1));
        if to > self.newest {
            let first = (self.newest + 1).max((to + 1).saturating_sub(SLICES));
            (first..=to).for_each(|slice| self.set(slice, false));
            self.newest = to;
        }
        let oldest = (self.newest + 1).saturating_sub(SLICES);
        (from.max(oldest)..=to).for_each(|slice| self.set(slice, true));
    }

    fn is_idle(&self, slice: u64) -> bool {
        if slice > self.newest {
            return true;
        }
        let known = slice + SLICES > self.newest;
        known && self.bits[(slice % SLICES / 64) as usize] & 1 << (slice % 64) == 0
    }
}

/// All threads.
#[derive(Default)]
pub struct Busy {
    threads: FastMap<i32, Slices>,
}

impl Busy {
    /// A thread had something in flight from then to then.
    pub fn mark(&mut self, tid: i32, from_ns: u64, to_ns: u64) {
        let (from, to) = (from_ns >> SLICE_LOG2, to_ns.max(from_ns) >> SLICE_LOG2);
        let new = || Slices {
            newest: from.saturating_sub(1),
            bits: Box::new([0; (SLICES / 64) as usize]),
        };
        self.threads.entry(tid).or_insert_with(new).mark(from, to);
    }

    /// Whether a thread had nothing in flight in the slice before one moment, and in the slice after another.
    pub fn silent_around(&self, tid: i32, from_ns: u64, to_ns: u64) -> (bool, bool) {
        let Some(thread) = self.threads.get(&tid) else {
            return (true, true);
        };
        let (from, to) = (from_ns >> SLICE_LOG2, to_ns >> SLICE_LOG2);
        (thread.is_idle(from.saturating_sub(1)), thread.is_idle(to + 1))
    }

    /// Forgets threads that have been idle for long.
    pub fn forget_before(&mut self, now_ns: u64) {
        let old = now_ns.saturating_sub(IDLE_NS) >> SLICE_LOG2;
        self.threads.retain(|_, thread| thread.newest >= old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: u64 = 1 << SLICE_LOG2;

    #[test]
    fn a_silence_is_seen_from_both_its_sides_in_any_order() {
        let mut busy = Busy::default();
        let at = |slice: u64| slice * SLICE_NS + 7;
        busy.mark(1, at(110), at(111));
        busy.mark(1, at(100), at(104));
        busy.mark(1, at(105), at(105));
        assert_eq!(busy.silent_around(1, at(110), at(111)), (true, true));
        assert_eq!(busy.silent_around(1, at(100), at(104)), (true, false));
        assert_eq!(busy.silent_around(1, at(105), at(105)), (false, true));
        busy.mark(1, at(90), at(120));
        assert_eq!(busy.silent_around(1, at(110), at(111)), (false, false));
    }

    #[test]
    fn what_is_too_old_to_be_known_is_no_silence() {
        let mut busy = Busy::default();
        busy.mark(1, 0, 9 * SLICE_NS);
        busy.mark(1, 30_000 * SLICE_NS, 30_000 * SLICE_NS);
        assert_eq!(busy.silent_around(1, 5 * SLICE_NS, 5 * SLICE_NS), (false, false));
        assert_eq!(
            busy.silent_around(1, 30_000 * SLICE_NS, 30_000 * SLICE_NS),
            (true, true)
        );
        assert_eq!(busy.silent_around(2, 5, 5), (true, true));
        busy.forget_before(1 << 60);
        assert!(busy.threads.is_empty());
    }
}
