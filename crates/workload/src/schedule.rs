//! When one worker means to start each operation. A fixed-rate schedule never shifts.
use crate::rng::Rng;
use crate::spec::{Arrival, Spec};
use crate::trace::Step;
use std::sync::Arc;

/// Intended starts of one worker's operations, in order.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// At once, whenever there is room.
    Closed,
    /// Equal distances: slot `n` of the workload belongs to worker `n % workers`.
    Constant {
        /// CLOCK_MONOTONIC of slot 0.
        origin_ns: u64,
        /// Next slot of this worker, counted over the whole workload.
        slot: u64,
        /// Distance of this worker's slots.
        workers: u64,
        /// Of the whole workload.
        rate_per_s: u64,
    },
    /// Exponential distances; the superposition of the workers is again such a process.
    Poisson {
        /// CLOCK_MONOTONIC of the beginning.
        origin_ns: u64,
        /// Next start after the origin.
        after_ns: f64,
        /// Mean distance.
        mean_ns: f64,
        /// Own stream, so that the operations do not depend on the arrival kind.
        rng: Rng,
    },
    /// The times of a file.
    Replay {
        /// CLOCK_MONOTONIC of the beginning.
        origin_ns: u64,
        /// What is done.
        steps: Arc<[Step]>,
        /// Which is next.
        at: usize,
    },
}

impl Schedule {
    /// The schedule of `worker` for a workload that begins at `origin_ns`.
    pub fn new(spec: &Spec, worker: u32, origin_ns: u64) -> Schedule {
        let workers = u64::from(spec.workers);
        let Some(rate_per_s) = spec.rate_per_s else {
            return Schedule::Closed;
        };
        if spec.arrival == Arrival::Constant {
            return Schedule::Constant {
                origin_ns,
                slot: u64::from(worker),
                workers,
                rate_per_s,
            };
        }
        let mut rng = Rng::new(spec.seed, u64::from(worker) | 1 << 32);
        let mean_ns = 1e9 * workers as f64 / rate_per_s as f64;
        Schedule::Poisson {
            origin_ns,
            after_ns: rng.exponential() * mean_ns,
            mean_ns,
            rng,
        }
    }

    /// The schedule of operations that are replayed: their times, or none if they go as fast as they can.
    pub fn replay(steps: Arc<[Step]>, timed: bool, origin_ns: u64) -> Schedule {
        if timed {
            Schedule::Replay {
                origin_ns,
                steps,
                at: 0,
            }
        } else {
            Schedule::Closed
        }
    }

    /// Intended start of the next operation; None in a closed loop.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        match self {
            Schedule::Closed => None,
            Schedule::Constant {
                origin_ns,
                slot,
                rate_per_s,
                ..
            } => {
                // Split so that the product stays below 2^64 for every rate up to 10^8 per second.
                let (whole_s, rest) = (slot / rate_per_s, slot % rate_per_s);
                Some(origin_ns + whole_s * 1_000_000_000 + rest * 1_000_000_000 / rate_per_s)
            }
            Schedule::Poisson {
                origin_ns, after_ns, ..
            } => Some(origin_ns + *after_ns as u64),
            Schedule::Replay { origin_ns, steps, at } => steps.get(*at).map(|step| origin_ns + step.after_ns),
        }
    }

    /// The next operation was started.
    #[inline]
    pub fn advance(&mut self) {
        match self {
            Schedule::Closed => {}
            Schedule::Constant { slot, workers, .. } => *slot += *workers,
            Schedule::Poisson {
                after_ns,
                mean_ns,
                rng,
                ..
            } => *after_ns += rng.exponential() * *mean_ns,
            Schedule::Replay { at, .. } => *at += 1,
        }
    }

    /// Slots before `end_ns` that are left, at most `limit`.
    pub fn remaining_before(mut self, end_ns: u64, limit: u64) -> u64 {
        let mut count = 0;
        while count < limit && self.next_ns().is_some_and(|next| next < end_ns) {
            self.advance();
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(extra: &str) -> Spec {
        let text = format!("[workload]\ntargets = [\"null\"]\nduration = \"1s\"\n{extra}");
        Spec::parse(&text, "test").expect("a good specification")
    }

    #[test]
    fn constant_slots_of_all_workers_are_exact() {
        let spec = spec("rate = \"3000/s\"\nworkers = 4");
        let mut starts = Vec::new();
        for worker in 0..4 {
            let mut schedule = Schedule::new(&spec, worker, 1_000);
            for _ in 0..2000 {
                starts.extend(schedule.next_ns());
                schedule.advance();
            }
        }
        starts.sort_unstable();
        for (n, start) in starts.iter().enumerate() {
            assert_eq!(
                u128::from(*start),
                1_000 + n as u128 * 1_000_000_000 / 3000,
                "slot {n}"
            );
        }
    }

    #[test]
    fn constant_slots_do_not_overflow_after_years() {
        let schedule = Schedule::Constant {
            origin_ns: 0,
            slot: 1 << 55,
            workers: 1,
            rate_per_s: 100_000_000,
        };
        assert_eq!(schedule.next_ns(), Some((1 << 55) * 10));
    }

    #[test]
    fn poisson_has_the_right_mean_and_spread() {
        let spec = spec("rate = \"1000/s\"\narrival = \"poisson\"\nworkers = 2");
        let mut schedule = Schedule::new(&spec, 1, 0);
        let mut distances = Vec::new();
        let mut last = 0;
        for _ in 0..20_000 {
            let next = schedule.next_ns().expect("a fixed rate");
            distances.push((next - last) as f64 / 2e6);
            last = next;
            schedule.advance();
        }
        let mean = distances.iter().sum::<f64>() / 2e4;
        let variance = distances.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 2e4;
        // Five standard errors: 1/sqrt(20,000) of the mean, sqrt(8/20,000) of the variance.
        assert!((mean - 1.0).abs() < 0.036, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.1, "variance {variance}");
    }

    #[test]
    fn slots_left_are_counted() {
        let spec = spec("rate = \"1000/s\"");
        let schedule = Schedule::new(&spec, 0, 0);
        assert_eq!(schedule.clone().remaining_before(10_000_001, 1000), 11);
        assert_eq!(schedule.clone().remaining_before(10_000_001, 5), 5);
        assert_eq!(Schedule::Closed.remaining_before(u64::MAX, 1000), 0);
    }
}
