//! Silences: a thread had nothing in flight although it meant to be busy.
//!
//! The silence before an operation is the time between the latest end of all earlier operations of its
//! thread and its own submit. Most operations of a busy thread have none (something else is in flight)
//! or a short one (the thread takes a result and submits the next). A silence is a *gap* if it is at
//! least 1 ms **and** at least 20 times what is ordinary for the thread:
//! * own closed-loop workers: 20 x the median silence, operations without any counted as zero (so a few
//!   stalls at depth 16 do not become their own yardstick);
//! * own workers at a fixed rate: the same, but a silence only begins when the next intended start has
//!   passed: before that the workload meant to be idle;
//! * threads of other programs, at the block layer: 20 x the 99th percentile, and at least 100 requests.
//!   Nobody knows what they meant, so only a thread that practically always has something in flight is
//!   presumed to mean it.
//!
//! 1 ms: a shorter pause is a scheduler's tick or a timer, occurs on healthy machines by the thousand,
//! and explains no outlier that a person would notice. 20: far enough from the thread's own rhythm that
//! ordinary variation (a 2 x or 5 x pause) never qualifies.
//!
//! In a sampled recording the rows on both sides of a silence were always kept, and the second one is marked; before
//! any other row of it there was none.
//!
//! Nothing is said about the time before a thread's first operation and after its last.

/// Shortest gap.
pub const GAP_MIN_NS: u64 = 1_000_000;
/// A gap is this many times longer than what is ordinary.
const ORDINARY_TIMES: u64 = 20;
/// In a sampled recording: the silence before an operation that is not marked as coming after one was shorter. What was ordinary
/// is not known, so it counts as this long: then no gap is made up, and those of ten milliseconds are not missed.
const SILENCE_MAX_NS: u64 = 1 << 19;
/// Requests from which on a foreign thread has a rhythm.
const REQUESTS_MIN: u64 = 100;
/// Candidates kept per thread; where there are more, the shortest are dropped.
const CANDIDATES_MAX: usize = 1 << 16;

/// Counts per logarithmic bin: eight bins an octave, so an edge is at most 12.5 % above a value.
#[derive(Clone, Debug, Default)]
struct Histogram {
    bins: Vec<u64>,
    count: u64,
}

impl Histogram {
    fn bin(value: u64) -> usize {
        if value < 8 {
            return value as usize;
        }
        let octave = 63 - value.leading_zeros() as usize;
        (octave - 2) * 8 + ((value >> (octave - 3)) & 7) as usize
    }

    /// The first value of the next bin.
    fn edge(bin: usize) -> u64 {
        if bin < 7 {
            return bin as u64 + 1;
        }
        let next = bin + 1;
        let edge = u128::from(8 + next as u64 % 8) << (next / 8 - 1);
        u64::try_from(edge).unwrap_or(u64::MAX)
    }

    fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    fn add_many(&mut self, value: u64, times: u64) {
        let bin = Self::bin(value);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += times;
        self.count += times;
    }

    /// An upper bound of the value at or below which `per_mille` of all values lie; 0 if all of those are zero.
    fn quantile(&self, per_mille: u64) -> u64 {
        let rank = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return if bin == 0 { 0 } else { Self::edge(bin) };
            }
        }
        0
    }
}

/// A silence that may be a gap, CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Nothing in flight from here on.
    pub start_ns: u64,
    /// How long.
    pub duration_ns: u64,
}

impl Silence {
    /// How long it lasts after `begin_ns`.
    pub fn duration_after(&self, begin_ns: u64) -> u64 {
        (self.start_ns + self.duration_ns).saturating_sub(self.start_ns.max(begin_ns))
    }
}

/// What a thread meant to do between its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Own worker in a closed loop: always busy.
    Closed,
    /// Own worker at a fixed rate: busy from each intended start on.
    Rate,
    /// Another program's thread: unknown.
    Presumed,
}

/// The silences of one thread. Operations come in order of submit.
#[derive(Clone, Debug)]
pub struct Thread {
    intent: Intent,
    operations: u64,
    busy_until_ns: u64,
    silences: Histogram,
    candidates: Vec<Silence>,
    candidate_min_ns: u64,
}

impl Thread {
    /// Nothing seen yet.
    pub fn new(intent: Intent) -> Thread {
        Thread {
            intent,
            operations: 0,
            busy_until_ns: 0,
            silences: Histogram::default(),
            candidates: Vec::new(),
            candidate_min_ns: GAP_MIN_NS,
        }
    }

    /// One operation: when it was meant (only for [`Intent::Rate`]), when it was in flight.
    pub fn operation(&mut self, intended_ns: u64, submit_ns: u64, end_ns: u64) {
        if self.operations > 0 {
            let silent_from_ns = match self.intent {
                Intent::Rate => self.busy_until_ns.max(intended_ns),
                _ => self.busy_until_ns,
            };
            self.silence(silent_from_ns, submit_ns.saturating_sub(silent_from_ns));
        }
        self.operations += 1;
        self.busy_until_ns = self.busy_until_ns.max(end_ns).max(submit_ns);
    }

    /// An operation of a sampled recording, before which its thread had something in flight that may have been left out, at most
    /// [`SILENCE_MAX_NS`] before. It stands for several.
    pub fn after_others(&mut self, operations: u64, submit_ns: u64, end_ns: u64) {
        self.silences.add_many(SILENCE_MAX_NS, operations);
        self.operations += operations;
        self.busy_until_ns = self.busy_until_ns.max(end_ns).max(submit_ns);
    }

    fn silence(&mut self, start_ns: u64, duration_ns: u64) {
        self.silences.add(duration_ns);
        if duration_ns < self.candidate_min_ns {
            return;
        }
        self.candidates.push(Silence {
            start_ns,
            duration_ns,
        });
        while self.candidates.len() > CANDIDATES_MAX {
            self.candidate_min_ns *= 2;
            let min_ns = self.candidate_min_ns;
            self.candidates.retain(|s| s.duration_ns >= min_ns);
        }
    }

    /// Whether there were enough operations to tell what is ordinary.
    pub fn has_rhythm(&self) -> bool {
        self.operations >= REQUESTS_MIN
    }

    /// The latest end of all operations.
    pub fn busy_until_ns(&self) -> u64 {
        self.busy_until_ns
    }

    /// The gaps in order of time.
    pub fn gaps(&self) -> Vec<Silence> {
        let ordinary_ns = match self.intent {
            Intent::Presumed if !self.has_rhythm() => return Vec::new(),
            Intent::Presumed => self.silences.quantile(990),
            Intent::Closed | Intent::Rate => self.silences.quantile(500),
        };
        let min_ns = ordinary_ns
            .saturating_mul(ORDINARY_TIMES)
            .max(self.candidate_min_ns);
        self.candidates
            .iter()
            .copied()
            .filter(|s| s.duration_ns >= min_ns)
            .collect()
    }

    /// Gaps shorter than this were not kept, because there were too many; `None` if all were.
    pub fn dropped_below_ns(&self) -> Option<u64> {
        (self.candidate_min_ns > GAP_MIN_NS).then_some(self.candidate_min_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    proptest! {
        #[test]
        fn bins_contain_their_values(value in prop_oneof![0u64..5000, any::<u64>()]) {
            let bin = Histogram::bin(value);
            prop_assert!(value < Histogram::edge(bin) || Histogram::edge(bin) == u64::MAX);
            prop_assert!(bin == 0 || value >= Histogram::edge(bin - 1));
        }
    }

    fn closed_loop(depth: u64, stalls: &[(u64, u64)]) -> Thread {
        let mut thread = Thread::new(Intent::Closed);
        let mut now_ns = 0;
        for i in 0..10_000u64 {
            if let Some((_, stall_ns)) = stalls.iter().find(|(at, _)| *at == i) {
                now_ns += stall_ns;
            }
            thread.operation(now_ns, now_ns, now_ns + 100_000);
            now_ns += 100_000 / depth + if depth == 1 { 3000 } else { 0 };
        }
        thread
    }

    #[test]
    fn stalls_of_a_closed_loop() {
        for depth in [1, 16] {
            let gaps = closed_loop(depth, &[(5000, 100 * MS), (7000, 50 * MS)]).gaps();
            assert_eq!(gaps.len(), 2, "depth {depth}");
            assert!(gaps[0].duration_ns.abs_diff(100 * MS) <= 100_000 && gaps[0].start_ns > 0);
        }
    }

    #[test]
    fn a_healthy_loop_has_none() {
        assert!(closed_loop(1, &[(50, MS / 2)]).gaps().is_empty());
        assert!(closed_loop(16, &[]).gaps().is_empty());
    }

    #[test]
    fn a_slow_rhythm_is_no_gap() {
        let mut thread = Thread::new(Intent::Closed);
        for i in 0..100 {
            thread.operation(0, i * 10 * MS, i * 10 * MS + MS); // thinks 9 ms after each
        }
        assert!(thread.gaps().is_empty());
        thread.operation(0, 2000 * MS, 2001 * MS);
        let start_ns = 99 * 10 * MS + MS;
        assert_eq!(
            thread.gaps(),
            [Silence {
                start_ns,
                duration_ns: 2000 * MS - start_ns
            }]
        );
    }

    #[test]
    fn at_a_fixed_rate_only_lateness_counts() {
        let mut thread = Thread::new(Intent::Rate);
        for i in 0..100 {
            let intended_ns = i * 100 * MS;
            let submit_ns = if i == 50 {
                intended_ns + 30 * MS
            } else {
                intended_ns + 1000
            };
            thread.operation(intended_ns, submit_ns, submit_ns + MS);
        }
        assert_eq!(
            thread.gaps(),
            [Silence {
                start_ns: 5000 * MS,
                duration_ns: 30 * MS
            }]
        );
    }

    #[test]
    fn another_program_needs_a_rhythm() {
        let run = |requests: u64, pause_each: u64| {
            let mut thread = Thread::new(Intent::Presumed);
            let mut now_ns = 0;
            for i in 0..requests {
                now_ns += if i % pause_each == pause_each - 1 {
                    40 * MS
                } else {
                    20_000
                };
                thread.operation(0, now_ns, now_ns + 100_000);
                now_ns += 100_000;
            }
            thread.gaps().len()
        };
        assert_eq!(run(1000, 500), 2); // two pauses in a thousand requests
        assert_eq!(run(99, 60), 0); // too few requests
        assert_eq!(run(1000, 10), 0); // pauses are its rhythm
    }

    #[test]
    fn too_many_candidates_drop_the_shortest() {
        let mut thread = Thread::new(Intent::Closed);
        let mut now_ns = 0;
        for i in 0..3 * CANDIDATES_MAX as u64 {
            now_ns += if i == 9 {
                500 * MS
            } else if i % 2 == 0 {
                0
            } else {
                3 * MS / 2
            };
            thread.operation(0, now_ns, now_ns);
        }
        assert!(thread.candidates.len() <= CANDIDATES_MAX);
        assert_eq!(thread.dropped_below_ns(), Some(2 * MS));
        assert_eq!(thread.gaps().len(), 1);
    }
}
