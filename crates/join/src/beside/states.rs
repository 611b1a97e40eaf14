//! What the thread of a gap did meanwhile, by the scheduler's account.
use case::schema::{GapRow, WaitState};
use std::collections::{HashMap, HashSet};

/// Nobody saw what the thread did.
const UNOBSERVED: &str = "unobserved";

#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    stopped_ns: u64,
    runnable_ns: u64,
    blocked_ns: u64,
}

/// Gaps by thread, and how long each of them the thread was in which state.
#[derive(Debug, Default)]
pub struct GapStates {
    /// By thread: start, end (CLOCK_MONOTONIC) and place of its gaps, in order of start.
    by_tid: HashMap<i32, Vec<(u64, u64, usize)>>,
    shares: Vec<Shares>,
    /// Longest gap before and at each place of `by_tid`, to know how far back to look.
    longest_ns: u64,
    observed: HashSet<i32>,
}

impl GapStates {
    /// `start_ns` is the case's start.
    pub fn new(gaps: &[GapRow], start_ns: u64) -> GapStates {
        let mut states = GapStates {
            shares: vec![Shares::default(); gaps.len()],
            ..GapStates::default()
        };
        for (place, gap) in gaps.iter().enumerate() {
            let from_ns = start_ns.saturating_add_signed(gap.start_ns);
            let until_ns = from_ns.saturating_add_signed(gap.duration_ns);
            states.longest_ns = states.longest_ns.max(until_ns - from_ns);
            let of_thread = states.by_tid.entry(gap.tid).or_default();
            of_thread.push((from_ns, until_ns, place));
        }
        for of_thread in states.by_tid.values_mut() {
            of_thread.sort_unstable();
        }
        states
    }

    /// A wait of a thread.
    pub fn wait(&mut self, tid: i32, state: WaitState, start_ns: u64, end_ns: u64) {
        let Some(gaps) = self.by_tid.get(&tid) else {
            return;
        };
        self.observed.insert(tid);
        let earliest_ns = start_ns.saturating_sub(self.longest_ns);
        let first = gaps.partition_point(|(from_ns, ..)| *from_ns < earliest_ns);
        for (from_ns, until_ns, place) in gaps[first..].iter().take_while(|(from_ns, ..)| *from_ns < end_ns) {
            let ns = end_ns.min(*until_ns).saturating_sub(start_ns.max(*from_ns));
            let shares = &mut self.shares[*place];
            match state {
                WaitState::Stopped => shares.stopped_ns += ns,
                WaitState::Runnable | WaitState::Throttled => shares.runnable_ns += ns,
                WaitState::Blocked => shares.blocked_ns += ns,
            }
        }
    }

    /// Writes into each gap, unless its state is known, what its thread did for most of it. Threads of which no wait
    /// was seen at all were perhaps not watched: nothing is said about them.
    pub fn tell(&self, gaps: &mut [GapRow]) {
        for (gap, shares) in gaps.iter_mut().zip(&self.shares) {
            if gap.state != UNOBSERVED || !self.observed.contains(&gap.tid) {
                continue;
            }
            let waited_ns = shares.stopped_ns + shares.runnable_ns + shares.blocked_ns;
            let running_ns = gap.duration_ns.unsigned_abs().saturating_sub(waited_ns);
            // Among equals the first.
            let all = [
                (shares.stopped_ns, "stopped"),
                (shares.runnable_ns, "runnable"),
                (shares.blocked_ns, "blocked"),
                (running_ns, "running"),
            ];
            let most_ns = all.iter().map(|(ns, _)| *ns).max();
            let most = all.iter().find(|(ns, _)| Some(*ns) == most_ns);
            gap.state = most.map_or(UNOBSERVED, |(_, name)| name).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use case::schema::Layer;

    #[test]
    fn the_longest_share_names_a_gap() {
        let gap = |tid, start_ns, duration_ns, state: &str| GapRow {
            layer: Layer::Block,
            tid,
            comm: None,
            start_ns,
            duration_ns,
            state: state.into(),
            meant_busy: false,
        };
        let mut gaps = [
            gap(7, 0, 100, UNOBSERVED),
            gap(7, 200, 100, UNOBSERVED),
            gap(7, 400, 100, "stopped"),
            gap(8, 0, 100, UNOBSERVED),
            gap(7, 600, 100, UNOBSERVED),
        ];
        let mut states = GapStates::new(&gaps, 1000);
        states.wait(7, WaitState::Runnable, 950, 1060);
        states.wait(7, WaitState::Blocked, 1060, 1260);
        states.wait(9, WaitState::Blocked, 0, 5000);
        states.wait(7, WaitState::Blocked, 1400, 1500);
        states.tell(&mut gaps);
        let told: Vec<&str> = gaps.iter().map(|gap| gap.state.as_str()).collect();
        assert_eq!(told, ["runnable", "blocked", "stopped", UNOBSERVED, "running"]);
    }
}
