//! Who woke a thread in the middle of its operation, where what it slept for is another thread's call.
//!
//! Of a program's own operations: one of several clients writes the log for all of them, and the others sleep until it has. Threads that work for nobody
//! in particular (a flush, a compaction, a checkpoint) are no peers: waiting for them is the program's own doing.
//!
//! Of system calls: one thread holds a file's lock while it waits for the disk, and others of its process want it.
use crate::own_side::Call;
use crate::syscalls::timeline::{Stretch, Timeline};
use case::rows::{OwnRow, SchedRow};
use case::schema::{LinkKind, LinkRow, Stage, WaitState};
use std::collections::{HashMap, VecDeque};

/// The recorder looks at who ends sleeps from here on (`waker_min_ns` of sched.bpf.c): shorter calls explain little of such a one.
const CALL_MIN_NS: u64 = 100_000;
/// Calls and sleeps kept per thread: an operation may take as long as the recording.
const KEPT_MAX: usize = 4096;
/// From one waker to the next, outside of calls.
const HOPS_MAX: usize = 8;

/// A sleep that another thread ended.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    from_ns: u64,
    to_ns: u64,
    waker_tid: i32,
}

/// What one thread did lately.
#[derive(Debug, Default)]
struct Peer {
    calls: VecDeque<Call>,
    sleeps: VecDeque<Sleep>,
}

/// A call that others slept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waited {
    /// Number in layer `syscall`.
    pub(crate) op_id: u64,
    pub(crate) device: Option<u32>,
    /// Bits of `schema::flags`.
    pub(crate) flags: u32,
}

/// What an operation slept for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Stretches of others' calls, in no order; of those that overlap the first counts.
    pub(crate) stretches: Vec<Stretch>,
    /// Those calls.
    pub(crate) calls: Vec<Waited>,
}

impl Waited {
    /// The link from an operation that slept for it; none of its bytes are that one's.
    pub(crate) fn link(&self, parent_id: u64) -> LinkRow {
        LinkRow {
            parent_id,
            child_id: self.op_id,
            bytes: 0,
            kind: LinkKind::WaitsFor,
        }
    }
}

impl Behind {
    /// Gives the time of these stretches their stages where it counts to `of` so far.
    pub(crate) fn hand_on(&self, timeline: &mut Timeline, of: Stage) {
        for stretch in &self.stretches {
            timeline.move_to(stretch.stage, &[of], &[(stretch.from_ns, stretch.to_ns)]);
        }
    }
}

/// Threads that may wait for each other.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    by_tid: HashMap<i32, Peer>,
    /// All threads of a process are; else those with operations of their own.
    of_process: bool,
}

fn keep<T>(kept: &mut VecDeque<T>, one: T, end_ns: impl Fn(&T) -> u64, asked_from_ns: u64) {
    while kept.len() >= KEPT_MAX || kept.front().is_some_and(|first| end_ns(first) <= asked_from_ns) {
        kept.pop_front();
    }
    kept.push_back(one);
}

impl Peers {
    /// Threads of one process, in their system calls.
    pub(crate) fn of_process() -> Peers {
        Peers {
            of_process: true,
            ..Peers::default()
        }
    }

    /// A thread has an operation.
    pub(crate) fn add(&mut self, row: &OwnRow) {
        if row.tid != 0 {
            self.by_tid.entry(row.tid).or_default();
        }
    }

    /// A wait of a thread that ended at `end_ns`. Nobody asks for what was before `asked_from_ns` any more.
    pub(crate) fn wait(&mut self, row: &SchedRow, end_ns: u64, asked_from_ns: u64) {
        let slept = crate::beside::wait_state(row.state) == WaitState::Blocked && row.waker_tid != 0;
        if !slept || self.of_process && row.waker_pid != row.pid {
            return;
        }
        if self.of_process {
            // Calls of threads that nobody waited for are not kept.
            self.by_tid.entry(row.tid).or_default();
            self.by_tid.entry(row.waker_tid).or_default();
        }
        let Some(peer) = self.by_tid.get_mut(&row.tid) else {
            return;
        };
        let sleep = Sleep {
            from_ns: row.start_ns,
            to_ns: end_ns,
            waker_tid: row.waker_tid,
        };
        keep(&mut peer.sleeps, sleep, |sleep| sleep.to_ns, asked_from_ns);
    }

    /// A call of a thread, when it is written.
    pub(crate) fn call(&mut self, tid: i32, call: &Call, asked_from_ns: u64) {
        if call.end_ns - call.start_ns < CALL_MIN_NS {
            return;
        }
        if let Some(peer) = self.by_tid.get_mut(&tid) {
            keep(&mut peer.calls, call.clone(), |call| call.end_ns, asked_from_ns);
        }
    }

    /// What a thread slept for between two moments: the calls that those were in who let it go on, directly or through others.
    pub(crate) fn behind(&self, tid: i32, from_ns: u64, to_ns: u64) -> Behind {
        let mut behind = Behind::default();
        // Who holds a lock of the kernel is in a call, and has the stages of what that waited for.
        let hops = if self.of_process { 1 } else { HOPS_MAX };
        self.sleeps(tid, from_ns, to_ns, hops, &mut behind);
        behind.calls.sort_unstable();
        behind.calls.dedup();
        behind
    }

    fn sleeps(&self, tid: i32, from_ns: u64, to_ns: u64, hops: usize, behind: &mut Behind) {
        let Some(peer) = self.by_tid.get(&tid).filter(|_| hops > 0) else {
            return;
        };
        // A thread's sleeps come one after the other.
        let first = peer.sleeps.partition_point(|sleep| sleep.to_ns <= from_ns);
        let within = peer.sleeps.range(first..);
        for sleep in within.take_while(|sleep| sleep.from_ns < to_ns) {
            let (low_ns, high_ns) = (sleep.from_ns.max(from_ns), sleep.to_ns.min(to_ns));
            self.doings(sleep.waker_tid, low_ns, high_ns, behind);
            self.sleeps(sleep.waker_tid, low_ns, high_ns, hops - 1, behind);
        }
    }

    fn doings(&self, tid: i32, from_ns: u64, to_ns: u64, behind: &mut Behind) {
        let Some(peer) = self.by_tid.get(&tid) else {
            return;
        };
        for call in &peer.calls {
            if call.start_ns >= to_ns || call.end_ns <= from_ns {
                continue;
            }
            behind.calls.push(Waited {
                op_id: call.op_id,
                device: call.device,
                flags: call.flags,
            });
            behind
                .stretches
                .extend(call.stretches.iter().filter_map(|stretch| {
                    let within = Stretch {
                        from_ns: stretch.from_ns.max(from_ns),
                        to_ns: stretch.to_ns.min(to_ns),
                        stage: stretch.stage,
                    };
                    (within.from_ns < within.to_ns).then_some(within)
                }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use case::rows::SchedState;

    const US: u64 = 1_000;

    fn call(op_id: u64, from_us: u64, to_us: u64) -> Call {
        Call {
            op_id,
            start_ns: from_us * US,
            end_ns: to_us * US,
            stretches: vec![stretch(from_us, to_us, Stage::Device)],
            device: Some(5),
            bytes: 0,
            flags: 0,
        }
    }

    fn stretch(from_us: u64, to_us: u64, stage: Stage) -> Stretch {
        Stretch {
            from_ns: from_us * US,
            to_ns: to_us * US,
            stage,
        }
    }

    fn peers(tids: &[i32]) -> Peers {
        let mut peers = Peers::default();
        for tid in tids {
            peers.add(&OwnRow {
                tid: *tid,
                ..OwnRow::default()
            });
        }
        peers
    }

    fn slept(peers: &mut Peers, tid: i32, from_us: u64, to_us: u64, waker_tid: i32) {
        let row = SchedRow {
            tid,
            start_ns: from_us * US,
            end_ns: to_us * US,
            state: SchedState::Sleeping as u8,
            waker_tid,
            ..SchedRow::default()
        };
        peers.wait(&row, row.end_ns, 0);
    }

    #[test]
    fn who_waits_in_line_waits_for_the_calls_of_those_before_it() {
        let mut peers = peers(&[1, 2, 3]);
        peers.call(3, &call(30, 0, 400), 0);
        peers.call(2, &call(20, 420, 800), 0);
        slept(&mut peers, 2, 50, 410, 3);
        slept(&mut peers, 1, 100, 810, 2);
        let behind = peers.behind(1, 0, 1000 * US);
        let waited = |op_id| Waited {
            op_id,
            device: Some(5),
            flags: 0,
        };
        assert_eq!(behind.calls, [waited(20), waited(30)]);
        let expected = [stretch(420, 800, Stage::Device), stretch(100, 400, Stage::Device)];
        assert_eq!(behind.stretches, expected);
        // No more than was asked for.
        let part = peers.behind(1, 0, 500 * US).stretches;
        assert_eq!(
            part,
            [stretch(420, 500, Stage::Device), stretch(100, 400, Stage::Device)]
        );
    }

    #[test]
    fn who_has_no_operations_of_its_own_is_no_peer() {
        let mut peers = peers(&[1]);
        peers.call(9, &call(90, 0, 800), 0);
        slept(&mut peers, 1, 100, 810, 9);
        assert_eq!(peers.behind(1, 0, 1000 * US), Behind::default());
    }

    #[test]
    fn threads_that_wake_each_other_come_to_an_end() {
        let mut peers = peers(&[1, 2]);
        slept(&mut peers, 1, 100, 800, 2);
        slept(&mut peers, 2, 100, 800, 1);
        assert_eq!(peers.behind(1, 0, 1000 * US), Behind::default());
    }

    #[test]
    fn what_nobody_asks_for_any_more_is_let_go() {
        let mut peers = peers(&[1]);
        for number in 0..2 * KEPT_MAX as u64 {
            peers.call(1, &call(number, number * 200, number * 200 + 150), 0);
        }
        assert_eq!(peers.by_tid[&1].calls.len(), KEPT_MAX);
        let now_us = 400 * KEPT_MAX as u64;
        peers.call(1, &call(0, now_us, now_us + 150), now_us * US);
        assert_eq!(peers.by_tid[&1].calls.len(), 1);
    }
}
