//! The loop that holds the budget: how much CPU time the recorder takes, and which part of typical operations it keeps.
use super::draw::LEVEL_MAX;
use super::{SharedSampler, NO_PANIC};
use crate::sys;
use std::sync::{Arc, Mutex};

/// Time between two looks.
const LOOK_NS: u64 = 1_000_000_000;

/// Below this part of the budget a look counts as calm: twice as many rows will hardly take more than the budget.
const CALM: f64 = 0.4;

/// A smaller sample has helped if it left less than this part; else the rest of the cost is not that of rows, and a still smaller one
/// would only cost precision ...
const HELPED: f64 = 0.9;

/// ... until there is this many times as much to do.
const MORE: f64 = 1.25;

/// After this many calm looks in a row twice as many are kept.
const CALM_LOOKS: u32 = 3;

/// A change of what is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// From when on, `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// One typical operation in 2^level is kept.
    pub level: u32,
    /// What the recorder took in the second before, of one CPU.
    pub cpu_share: f64,
}

/// Decides the level from what was taken.
#[derive(Debug)]
struct Governor {
    budget: f64,
    level: u32,
    calm: u32,
    /// What was taken when the level was last raised; 0 = it was not, or has fallen since.
    raised_at: f64,
}

impl Governor {
    /// The level after a second in which the recorder took this share of a CPU.
    fn after(&mut self, share: f64) -> u32 {
        if share > self.budget {
            self.calm = 0;
            if share > HELPED * self.raised_at && share < MORE * self.raised_at {
                return self.level;
            }
            self.raised_at = share;
            // Each step halves what typical rows cost: as many as are missing.
            let steps = (share / self.budget).log2().ceil().max(1.0) as u32;
            self.level = (self.level + steps).min(LEVEL_MAX);
        } else if share < CALM * self.budget {
            self.calm += 1;
            if self.calm >= CALM_LOOKS {
                self.calm = 0;
                self.raised_at = 0.0;
                self.level = self.level.saturating_sub(1);
            }
        } else {
            self.calm = 0;
        }
        self.level
    }
}

/// The budget of a recording.
pub struct Budget {
    governor: Governor,
    sampler: SharedSampler,
    looked_ns: u64,
    cpu_ns: u64,
    changes: Arc<Mutex<Vec<Level>>>,
}

impl Budget {
    /// `share`: CPU time that the recorder may take, of one CPU, above 0. Every change is added to `changes`.
    pub fn new(share: f64, sampler: SharedSampler, changes: Arc<Mutex<Vec<Level>>>) -> Budget {
        Budget {
            governor: Governor {
                budget: share,
                level: 0,
                calm: 0,
                raised_at: 0.0,
            },
            sampler,
            looked_ns: sys::monotonic_ns(),
            cpu_ns: sys::process_cpu_ns(),
            changes,
        }
    }

    /// Looks once a second. CPU time is that of all threads of this process; what its programs take in the kernel is that of
    /// whom they interrupt, and not in it.
    pub fn look(&mut self) {
        let now_ns = sys::monotonic_ns();
        if now_ns < self.looked_ns + LOOK_NS {
            return;
        }
        let cpu_ns = sys::process_cpu_ns();
        let share = cpu_ns.saturating_sub(self.cpu_ns) as f64 / (now_ns - self.looked_ns) as f64;
        (self.looked_ns, self.cpu_ns) = (now_ns, cpu_ns);
        let before = self.governor.level;
        let level = self.governor.after(share);
        let mut sampler = self.sampler.lock().expect(NO_PANIC);
        sampler.tend(now_ns);
        if level != before {
            let time_ns = sampler.set_level(now_ns, level);
            let change = Level {
                time_ns,
                level,
                cpu_share: share,
            };
            self.changes.lock().expect(NO_PANIC).push(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_follows_what_is_taken_and_settles() {
        let mut governor = Governor {
            budget: 0.03,
            level: 0,
            calm: 0,
            raised_at: 0.0,
        };
        assert_eq!(governor.after(0.029), 0);
        assert_eq!(governor.after(0.1), 2, "3.3 times too much");
        assert_eq!(governor.after(0.031), 3);
        assert_eq!(
            [governor.after(0.02), governor.after(0.005), governor.after(0.005)],
            [3, 3, 3]
        );
        assert_eq!(governor.after(0.02), 3, "not calm: the count begins anew");
        let calm: Vec<u32> = (0..9).map(|_| governor.after(0.001)).collect();
        assert_eq!(calm, [3, 3, 2, 2, 2, 1, 1, 1, 0]);
        assert_eq!((governor.after(9.0), governor.after(9.0)), (LEVEL_MAX, LEVEL_MAX));
    }
    #[test]
    fn a_sample_that_does_not_help_is_made_no_smaller() {
        let mut governor = Governor {
            budget: 0.03,
            level: 0,
            calm: 0,
            raised_at: 0.0,
        };
        assert_eq!([0.08, 0.078, 0.077].map(|share| governor.after(share)), [2, 2, 2]);
        assert_eq!(governor.after(0.11), 4, "there is more to do");
    }
}
