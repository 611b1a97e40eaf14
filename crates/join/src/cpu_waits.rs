//! When the engine's workers could run and did not, beside their operations.
//!
//! The scheduler's stream is read along with the rows of the app layer, which leave in order of start: what ended before
//! the start of a row is of no use to any later one. Held at any time: the waits within the longest operation in hand.
use crate::beside::{end_of, wait_state};
use crate::sorted::Sorted;
use crate::spans::Spans;
use crate::stages::{walk_back, Owner, Part};
use case::rows::SchedRow;
use case::schema::WaitState;
use case::CaseError;
use std::collections::HashMap;

/// Waits of the workers for a CPU, in order of time.
pub struct CpuWaits<'a> {
    sched: Sorted<'a, SchedRow>,
    /// An unfinished wait ends here.
    end_ns: u64,
    by_tid: HashMap<i32, Spans>,
}

impl<'a> CpuWaits<'a> {
    /// Before the first wait; those of other threads than `tids` are passed over.
    pub fn new(
        sched: Sorted<'a, SchedRow>,
        tids: impl Iterator<Item = i32>,
        recording_end_ns: u64,
    ) -> CpuWaits<'a> {
        CpuWaits {
            sched,
            end_ns: recording_end_ns,
            by_tid: tids.map(|tid| (tid, Spans::default())).collect(),
        }
    }

    /// Makes the waits of `tid` between `from_ns` and `to_ns` known. `from_ns` never falls from call to call.
    pub fn advance(&mut self, tid: i32, from_ns: u64, to_ns: u64) -> Result<(), CaseError> {
        while self.sched.peek().is_some_and(|row| row.start_ns < to_ns) {
            if let Some(row) = self.sched.take()? {
                self.add(&row, from_ns);
            }
        }
        if let Some(waits) = self.by_tid.get_mut(&tid) {
            waits.forget(from_ns);
        }
        Ok(())
    }

    fn add(&mut self, row: &SchedRow, from_ns: u64) {
        let waited = matches!(wait_state(row.state), WaitState::Runnable | WaitState::Throttled);
        let Some(waits) = self.by_tid.get_mut(&row.tid).filter(|_| waited) else {
            return;
        };
        let end_ns = end_of(row, self.end_ns);
        if end_ns > from_ns {
            waits.add(row.start_ns, end_ns);
        }
    }

    /// How long `tid` waited between two moments that were made known.
    pub fn within(&self, tid: i32, from_ns: u64, to_ns: u64) -> u64 {
        let waits = self.by_tid.get(&tid);
        waits.map_or(0, |waits| waits.covered_ns(from_ns, to_ns))
    }
}

/// The stretches of an operation's `fs` stage. Sorts `parts`.
pub fn above_requests(submit_ns: u64, end_ns: u64, parts: &mut [Part], into: &mut Vec<(u64, u64)>) {
    into.clear();
    walk_back(submit_ns, end_ns, parts, |from_ns, to_ns, owner| {
        let held_back = matches!(owner, Owner::Nobody { before: Some(part) } if part.throttled);
        if matches!(owner, Owner::Nobody { .. }) && !held_back && to_ns > from_ns {
            into.push((from_ns, to_ns));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sorted::Surveyed;
    use crate::stages::split_kernel;
    use crate::stream::Stream;
    use crate::testing::Rows;
    use case::rows::SchedState;
    use proptest::prelude::*;

    fn wait(tid: i32, state: SchedState, start_ns: u64, end_ns: u64) -> SchedRow {
        SchedRow {
            tid,
            state: state as u8,
            start_ns,
            end_ns,
            ..SchedRow::default()
        }
    }

    fn waits(stream: &Rows<SchedRow>) -> CpuWaits<'_> {
        let stream = stream as &dyn Stream<SchedRow>;
        let surveyed = Surveyed::of(Some(stream), |_| ()).unwrap();
        let sorted = Sorted::new(Some(stream), &surveyed).unwrap();
        CpuWaits::new(sorted, [7, 8].into_iter(), 1000)
    }

    #[test]
    fn only_waits_for_a_cpu_of_the_workers_count() {
        use SchedState::{Preempted, Sleeping, Stopped, Throttled, Woken};
        let stream = Rows(vec![
            wait(7, Woken, 10, 20),
            wait(7, Sleeping, 20, 40),
            wait(7, Stopped, 40, 50),
            wait(9, Woken, 10, 60),
            wait(8, Preempted, 30, 60),
            wait(7, Preempted, 60, 70),
            wait(7, Throttled, 80, 90),
            wait(7, Woken, 95, 0),
        ]);
        let mut waits = waits(&stream);
        waits.advance(7, 0, 100).unwrap();
        waits.advance(8, 0, 100).unwrap();
        let of = |tid, from_ns, to_ns| waits.within(tid, from_ns, to_ns);
        assert_eq!(of(7, 0, 100), 10 + 10 + 10 + 5);
        assert_eq!((of(7, 15, 62), of(7, 20, 60), of(7, 61, 61)), (7, 0, 0));
        assert_eq!((of(8, 0, 40), of(9, 0, 100)), (10, 0));
    }

    #[test]
    fn a_moment_counts_once() {
        let stream = Rows(vec![
            wait(7, SchedState::Woken, 10, 30),
            wait(7, SchedState::Preempted, 20, 25),
            wait(7, SchedState::Preempted, 28, 40),
        ]);
        let mut waits = waits(&stream);
        waits.advance(7, 0, 100).unwrap();
        assert_eq!((waits.within(7, 0, 100), waits.within(7, 29, 31)), (30, 2));
    }

    proptest! {
        #[test]
        fn the_stretches_are_the_fs_stage(
            parts in prop::collection::vec((0u64..120, 0u64..40, any::<bool>()), 0..7),
            submit_ns in 0u64..60,
            length_ns in 0u64..80,
        ) {
            let part = |(entry_ns, length_ns, throttled)| Part {
                entry_ns, passed_ns: entry_ns, issue_ns: entry_ns, irq_ns: entry_ns + length_ns, end_ns: entry_ns + length_ns, throttled, ..Part::default()
            };
            let mut parts: Vec<Part> = parts.into_iter().map(part).collect();
            let end_ns = submit_ns + length_ns;
            let mut stretches = Vec::new();
            above_requests(submit_ns, end_ns, &mut parts, &mut stretches);
            let fs_ns: u64 = stretches.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
            prop_assert_eq!(fs_ns, split_kernel(submit_ns, end_ns, &mut parts).fs_ns);
        }
    }
}
