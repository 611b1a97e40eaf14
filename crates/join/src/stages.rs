//! Where the time of one operation went. Pure arithmetic on raw times.
//!
//! Everything here keeps two promises for any input: no stage is negative, and the stages sum exactly
//! to the latency. Times that contradict each other (two CPUs' clocks, a lost stamp) are clamped into
//! order, and the caller hears of it so that it can count them.
use crate::held_back::Passed;
use case::rows::{AppRow, BlockRow};
use case::schema::Stage;

/// A carrier's stay at the device before its last: its data, or a flush command that served it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Issue to the driver.
    pub issue_ns: u64,
    /// Begin of the completing interrupt run; equals `done_ns` where there was none or nobody watched.
    pub irq_ns: u64,
    /// Completion; 0 = there was no such stay.
    pub done_ns: u64,
}

/// Stays at the device of a carrier before its last: of flush, data and flush.
pub type Turns = [Turn; 2];

/// A block request's boundaries in order: `entry <= passed <= issue <= irq <= end`, and before `issue` the turns, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTimes {
    /// First bio queued, or the earliest moment known.
    pub entry_ns: u64,
    /// When the queue's own controllers let its submitter go on; equals `entry_ns` if they did not hold it back.
    pub passed_ns: u64,
    /// Turns of a carrier before its last.
    pub turns: Turns,
    /// Last issue to the driver; equals `end_ns` if it was never issued. Of a carrier: of its last turn.
    pub issue_ns: u64,
    /// Begin of the completing interrupt run; equals `end_ns` where there was none or nobody watched.
    pub irq_ns: u64,
    /// Completion, or the end of the recording if it is still open.
    pub end_ns: u64,
    /// Unfinished when the recording began or ended.
    pub open: bool,
    /// The stamps contradicted each other and were put in order.
    pub clamped: bool,
    /// It was writeback throttling (or io.latency) that held it back.
    pub wbt: bool,
    /// A flush command was part of it.
    pub flush: bool,
}

/// The earliest moment known of a request; 0 if none is.
pub fn block_entry_ns(row: &BlockRow) -> u64 {
    let entered = match (row.queue_ns, row.start_ns) {
        (0, started) => started,
        (queued, 0) => queued,
        (queued, started) => queued.min(started),
    };
    [entered, row.issue_first_ns, row.issue_ns, row.complete_ns]
        .into_iter()
        .find(|t| *t != 0)
        .unwrap_or(0)
}

/// Puts the stamps of a request in order. `end_ns` is the end of the recording.
pub fn block_times(row: &BlockRow, end_ns: u64) -> BlockTimes {
    const OP_FLUSH: u32 = 2;
    let unfinished = row.complete_ns == 0;
    // The flush machinery's own requests are never seen to start; anything else without a start began
    // before the recording.
    let began_before = row.queue_ns == 0 && row.start_ns == 0 && row.cmd_flags & 0xff != OP_FLUSH;
    let entry_ns = block_entry_ns(row);
    let stamped_end_ns = if unfinished { end_ns } else { row.complete_ns };
    let end_ns = stamped_end_ns.max(entry_ns);
    let wanted_issue_ns = if row.issue_ns == 0 { end_ns } else { row.issue_ns };
    let issue_ns = wanted_issue_ns.clamp(entry_ns, end_ns);
    // An interrupt run that began before the issue is ordinary (one run completes many requests), so
    // the clip at the issue is no contradiction; a begin after the completion is.
    let wanted_irq_ns = if row.irq_ns == 0 || unfinished {
        end_ns
    } else {
        row.irq_ns.max(issue_ns)
    };
    let irq_ns = wanted_irq_ns.min(end_ns);
    let disordered_entry = row.queue_ns != 0 && row.start_ns != 0 && row.queue_ns > row.start_ns;
    BlockTimes {
        entry_ns,
        passed_ns: entry_ns,
        turns: Turns::default(),
        issue_ns,
        irq_ns,
        end_ns,
        open: unfinished || began_before,
        clamped: disordered_entry
            || end_ns != stamped_end_ns
            || issue_ns != wanted_issue_ns
            || irq_ns != wanted_irq_ns,
        wbt: false,
        flush: false,
    }
}

impl BlockTimes {
    /// The same request, held back.
    pub fn held_back_until(mut self, passed: Passed) -> BlockTimes {
        let first = self.turns[0];
        let issue_ns = if first.done_ns == 0 {
            self.issue_ns
        } else {
            first.issue_ns
        };
        self.passed_ns = passed.passed_ns.clamp(self.entry_ns, issue_ns);
        self.wbt = passed.wbt && self.passed_ns > self.entry_ns;
        self
    }

    /// As the operation above sees it.
    pub fn part(&self, throttled: bool) -> Part {
        Part {
            entry_ns: self.entry_ns,
            passed_ns: self.passed_ns,
            turns: self.turns,
            issue_ns: self.issue_ns,
            irq_ns: self.irq_ns,
            end_ns: self.end_ns,
            throttled,
            wbt: self.wbt,
            flush: self.flush,
        }
    }
}

/// Whether writeback throttling is what held an operation's requests back: where the I/O controller held any, the limit that somebody set did.
pub fn held_by_wbt<'a>(parts: impl Iterator<Item = &'a Part>) -> bool {
    let mut wbt = false;
    for part in parts {
        if part.throttled {
            return false;
        }
        wbt |= part.wbt;
    }
    wbt
}

/// One request as the operation above it sees it: ordered boundaries and an identity to break ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// See [`BlockTimes`].
    pub entry_ns: u64,
    /// See [`BlockTimes`].
    pub passed_ns: u64,
    /// See [`BlockTimes`].
    pub issue_ns: u64,
    /// See [`BlockTimes`].
    pub irq_ns: u64,
    /// See [`BlockTimes`].
    pub end_ns: u64,
    /// It was held back on purpose before its entry.
    pub throttled: bool,
    /// See [`BlockTimes`].
    pub wbt: bool,
    /// See [`BlockTimes`].
    pub flush: bool,
    /// See [`BlockTimes`].
    pub turns: Turns,
}

impl Part {
    /// The stages of its time within `[from_ns, to_ns]`, in order; some may be empty.
    pub fn each_stage(&self, from_ns: u64, to_ns: u64, mut see: impl FnMut(u64, u64, Stage)) {
        let mut see = |low_ns: u64, high_ns: u64, stage| {
            let (low_ns, high_ns) = (low_ns.max(from_ns), high_ns.min(to_ns));
            if low_ns < high_ns {
                see(low_ns, high_ns, stage);
            }
        };
        see(self.entry_ns, self.passed_ns, Stage::Throttle);
        let mut free_ns = self.passed_ns;
        let last = Turn {
            issue_ns: self.issue_ns,
            irq_ns: self.irq_ns,
            done_ns: self.end_ns,
        };
        let before = self.turns.iter().filter(|turn| turn.done_ns != 0);
        for turn in before.chain([&last]) {
            see(free_ns, turn.issue_ns, Stage::Queue);
            see(turn.issue_ns, turn.irq_ns, Stage::Device);
            see(turn.irq_ns, turn.done_ns, Stage::Interrupt);
            free_ns = turn.done_ns;
        }
    }

    /// The order of ownership: the later end wins, among equals the one that entered earlier, and so on.
    /// Parts that are equal in all of this give the same stages, so that no identity is needed.
    fn rank(&self) -> (u64, u64, u64, u64, u64, Turns) {
        (
            self.end_ns,
            u64::MAX - self.entry_ns,
            u64::MAX - self.passed_ns,
            u64::MAX - self.issue_ns,
            u64::MAX - self.irq_ns,
            self.turns,
        )
    }
}

/// The kernel's part of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Nothing of the operation in flight below.
    pub fs_ns: u64,
    /// Likewise, before a request that the I/O controller held back; and owned by a request that a controller of its queue held back.
    pub throttle_ns: u64,
    /// Owned by a request that waited for its issue.
    pub queue_ns: u64,
    /// Owned by a request that was at the device.
    pub device_ns: u64,
    /// Owned by a request while its interrupt was running.
    pub interrupt_ns: u64,
}

impl Kernel {
    fn own(&mut self, part: &Part, from_ns: u64, to_ns: u64) {
        part.each_stage(from_ns, to_ns, |from_ns, to_ns, stage| {
            *match stage {
                Stage::Throttle => &mut self.throttle_ns,
                Stage::Device => &mut self.device_ns,
                Stage::Interrupt => &mut self.interrupt_ns,
                _ => &mut self.queue_ns,
            } += to_ns - from_ns;
        });
    }
}

/// Splits `[submit_ns, end_ns]` among the requests of one operation, walking backwards: the request
/// that completed last owns the time from its entry to its completion, before its entry the one that
/// completed last of those in flight there, and what no request covers is `fs_ns` (`throttle_ns` before one
/// that was held back). In other words, every moment belongs to the request in flight then that completes last.
///
/// Sorts `parts`. Cost: n log n.
pub fn split_kernel(submit_ns: u64, end_ns: u64, parts: &mut [Part]) -> Kernel {
    let mut kernel = Kernel::default();
    walk_back(submit_ns, end_ns, parts, |from_ns, to_ns, owner| match owner {
        Owner::Part(part) => kernel.own(part, from_ns, to_ns),
        Owner::Nobody { before: Some(part) } if part.throttled => kernel.throttle_ns += to_ns - from_ns,
        Owner::Nobody { .. } => kernel.fs_ns += to_ns - from_ns,
    });
    kernel
}

/// Whom a stretch of time belongs to.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'p> {
    /// A request.
    Part(&'p Part),
    /// None; `before` is the request that follows it.
    Nobody {
        /// Owner of the time after it.
        before: Option<&'p Part>,
    },
}

/// The walk of [`split_kernel`]: tells each stretch of time, the last first, and its owner.
pub fn walk_back(submit_ns: u64, end_ns: u64, parts: &mut [Part], mut see: impl FnMut(u64, u64, Owner)) {
    parts.sort_unstable_by_key(|p| std::cmp::Reverse(p.rank()));
    let mut now_ns = end_ns;
    let mut before = None;
    // In order of falling rank, the first part that entered before `now_ns` is the owner; one that was
    // passed over (it entered later) can never own an earlier moment.
    for part in parts.iter() {
        if now_ns <= submit_ns {
            break;
        }
        if part.entry_ns >= now_ns {
            continue;
        }
        let until_ns = part.end_ns.clamp(submit_ns, now_ns);
        let from_ns = part.entry_ns.clamp(submit_ns, until_ns);
        see(until_ns, now_ns, Owner::Nobody { before });
        see(from_ns, until_ns, Owner::Part(part));
        before = Some(part);
        now_ns = from_ns;
    }
    if now_ns > submit_ns {
        see(submit_ns, now_ns, Owner::Nobody { before });
    }
}

/// An engine operation's boundaries in order: `start <= submit <= complete <= reap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppTimes {
    /// Intended start.
    pub start_ns: u64,
    /// Handed to the kernel.
    pub submit_ns: u64,
    /// The batch with its completion was seen.
    pub complete_ns: u64,
    /// Taken.
    pub reap_ns: u64,
    /// The stamps contradicted each other and were put in order.
    pub clamped: bool,
}

/// Puts the stamps of an operation in order.
pub fn app_times(row: &AppRow) -> AppTimes {
    let start_ns = row.intended_ns;
    let submit_ns = row.submit_ns.max(start_ns);
    let complete_ns = row.complete_ns.max(submit_ns);
    let reap_ns = row.reap_ns.max(complete_ns);
    let clamped = (submit_ns, complete_ns, reap_ns) != (row.submit_ns, row.complete_ns, row.reap_ns);
    AppTimes {
        start_ns,
        submit_ns,
        complete_ns,
        reap_ns,
        clamped,
    }
}

/// An operation's stages after its submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// Its requests are known.
    Joined {
        /// Submit to the last request's completion.
        kernel: Kernel,
        /// When the last request completed, clipped to the operation.
        end_ns: u64,
    },
    /// The block layer was watched, but what this operation did there is not known.
    Unknown,
    /// Nobody watched the block layer.
    Unobserved,
}

/// Joins an operation with its requests. Sorts `parts`; says whether a request ended after the operation.
pub fn join_parts(times: &AppTimes, parts: &mut [Part]) -> (Below, bool) {
    let last_ns = parts.iter().map(|p| p.end_ns).max().unwrap_or(times.submit_ns);
    let end_ns = last_ns.clamp(times.submit_ns, times.reap_ns);
    let kernel = split_kernel(times.submit_ns, end_ns, parts);
    (Below::Joined { kernel, end_ns }, end_ns != last_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(entry_ns: u64, issue_ns: u64, irq_ns: u64, end_ns: u64) -> Part {
        Part {
            entry_ns,
            passed_ns: entry_ns,
            issue_ns,
            irq_ns,
            end_ns,
            ..Part::default()
        }
    }

    fn kernel(fs_ns: u64, queue_ns: u64, device_ns: u64, interrupt_ns: u64) -> Kernel {
        Kernel {
            fs_ns,
            queue_ns,
            device_ns,
            interrupt_ns,
            ..Kernel::default()
        }
    }

    /// Nanosecond by nanosecond: the owner is the request in flight that completes last.
    fn reference(submit_ns: u64, end_ns: u64, parts: &[Part]) -> Kernel {
        let mut sum = Kernel::default();
        for now_ns in submit_ns..end_ns {
            let owner = parts
                .iter()
                .filter(|p| p.entry_ns <= now_ns && now_ns < p.end_ns)
                .max_by_key(|p| p.rank());
            match owner {
                None => sum.fs_ns += 1,
                Some(p) if now_ns < p.issue_ns => sum.queue_ns += 1,
                Some(p) if now_ns < p.irq_ns => sum.device_ns += 1,
                Some(_) => sum.interrupt_ns += 1,
            }
        }
        sum
    }

    fn any_part() -> impl Strategy<Value = Part> {
        prop::collection::vec(0u64..120, 4).prop_map(|mut t| {
            t.sort_unstable();
            part(t[0], t[1], t[2], t[3])
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn walk_equals_the_reference(
            parts in prop::collection::vec(any_part(), 0..9),
            submit_ns in 0u64..60,
            length_ns in 0u64..80,
        ) {
            let end_ns = submit_ns + length_ns;
            let mut shuffled = parts.clone();
            shuffled.reverse();
            let walked = split_kernel(submit_ns, end_ns, &mut shuffled);
            prop_assert_eq!(walked, reference(submit_ns, end_ns, &parts));
            let sum = walked.fs_ns + walked.queue_ns + walked.device_ns + walked.interrupt_ns;
            prop_assert_eq!(sum, length_ns);
        }

        #[test]
        fn joined_operations_sum_to_their_latency(
            parts in prop::collection::vec(any_part(), 1..9),
            stamps in prop::collection::vec(0u64..150, 4),
        ) {
            let row = AppRow {
                intended_ns: stamps[0], submit_ns: stamps[1], complete_ns: stamps[2], reap_ns: stamps[3],
                ..AppRow::default()
            };
            let times = app_times(&row);
            prop_assert!(times.start_ns <= times.submit_ns && times.submit_ns <= times.complete_ns);
            prop_assert!(times.complete_ns <= times.reap_ns);
            let in_order = stamps.windows(2).all(|pair| pair[0] <= pair[1]);
            prop_assert_eq!(times.clamped, !in_order);
            let (below, _) = join_parts(&times, &mut parts.clone());
            let Below::Joined { kernel: k, end_ns } = below else { panic!("joined") };
            let inside = k.fs_ns + k.queue_ns + k.device_ns + k.interrupt_ns;
            let sum = (times.submit_ns - times.start_ns) + inside + (times.reap_ns - end_ns);
            prop_assert_eq!(sum, times.reap_ns - times.start_ns);
        }

        #[test]
        fn block_stages_are_ordered_whatever_the_stamps(
            stamps in prop::collection::vec(prop_oneof![Just(0u64), 1u64..100], 6),
            end_ns in 1u64..200,
            cmd_flags in 0u32..3,
        ) {
            let row = BlockRow {
                queue_ns: stamps[0], start_ns: stamps[1], issue_first_ns: stamps[2],
                issue_ns: stamps[3], irq_ns: stamps[4], complete_ns: stamps[5],
                cmd_flags, ..BlockRow::default()
            };
            let t = block_times(&row, end_ns);
            prop_assert!(t.entry_ns <= t.issue_ns && t.issue_ns <= t.irq_ns && t.irq_ns <= t.end_ns);
            prop_assert!(t.open || row.complete_ns != 0);
        }
    }

    #[test]
    fn one_request() {
        let k = split_kernel(10, 100, &mut [part(20, 30, 90, 100)]);
        assert_eq!(k, kernel(10, 10, 60, 10));
    }

    #[test]
    fn silence_between_requests_is_fs() {
        let mut parts = [part(20, 25, 40, 45), part(60, 70, 90, 100)];
        assert_eq!(
            split_kernel(10, 100, &mut parts),
            kernel(10 + 15, 5 + 10, 15 + 20, 5 + 10)
        );
    }

    #[test]
    fn silence_before_a_request_that_was_held_back_is_throttle() {
        let mut held_back = part(60, 70, 90, 100);
        held_back.throttled = true;
        let split = split_kernel(10, 100, &mut [part(20, 25, 40, 45), held_back]);
        let wanted = Kernel {
            throttle_ns: 15,
            ..kernel(10, 5 + 10, 15 + 20, 5 + 10)
        };
        assert_eq!(split, wanted);
    }

    #[test]
    fn what_a_limit_held_back_too_is_no_writeback_throttling() {
        let part = |wbt, throttled| Part {
            wbt,
            throttled,
            ..Part::default()
        };
        assert!(held_by_wbt([part(false, false), part(true, false)].iter()));
        assert!(!held_by_wbt([part(true, false), part(false, true)].iter()));
        assert!(!held_by_wbt([part(false, false)].iter()));
    }

    #[test]
    fn the_last_to_complete_owns_even_if_it_entered_first() {
        let mut parts = [part(0, 10, 100, 100), part(20, 30, 40, 50)];
        assert_eq!(split_kernel(0, 100, &mut parts), kernel(0, 10, 90, 0));
    }

    #[test]
    fn time_before_a_merged_bios_submit_is_not_its_own() {
        // The request was queued at 0; the operation was merged into it at 50.
        let k = split_kernel(50, 100, &mut [part(0, 60, 90, 100)]);
        assert_eq!(k, kernel(0, 10, 30, 10));
    }

    #[test]
    fn never_issued_is_all_queue() {
        let row = BlockRow {
            queue_ns: 10,
            start_ns: 11,
            complete_ns: 50,
            ..BlockRow::default()
        };
        let t = block_times(&row, 1000);
        assert_eq!((t.entry_ns, t.issue_ns, t.irq_ns, t.end_ns), (10, 50, 50, 50));
        assert!(!t.open && !t.clamped);
    }

    #[test]
    fn open_requests_end_with_the_recording() {
        let queued = BlockRow {
            queue_ns: 10,
            start_ns: 12,
            ..BlockRow::default()
        };
        let t = block_times(&queued, 100);
        assert_eq!(
            (t.issue_ns - t.entry_ns, t.end_ns - t.issue_ns, t.open),
            (90, 0, true)
        );
        let issued = BlockRow {
            issue_first_ns: 15,
            issue_ns: 20,
            ..queued
        };
        let t = block_times(&issued, 100);
        assert_eq!(
            (t.issue_ns - t.entry_ns, t.irq_ns - t.issue_ns, t.open),
            (10, 80, true)
        );
        assert!(!t.clamped);
    }

    #[test]
    fn began_before_the_recording() {
        let read = BlockRow {
            issue_first_ns: 15,
            issue_ns: 20,
            complete_ns: 30,
            ..BlockRow::default()
        };
        assert!(block_times(&read, 100).open);
        assert!(!block_times(&BlockRow { cmd_flags: 2, ..read }, 100).open);
    }

    #[test]
    fn an_interrupt_run_that_began_before_the_issue_is_clipped_and_no_contradiction() {
        let row = BlockRow {
            queue_ns: 10,
            issue_ns: 50,
            irq_ns: 40,
            complete_ns: 60,
            ..BlockRow::default()
        };
        let t = block_times(&row, 100);
        assert_eq!((t.issue_ns, t.irq_ns, t.end_ns, t.clamped), (50, 50, 60, false));
    }

    #[test]
    fn contradictions_are_clamped_and_told() {
        let row = BlockRow {
            queue_ns: 10,
            issue_ns: 50,
            complete_ns: 40,
            ..BlockRow::default()
        };
        let t = block_times(&row, 100);
        assert_eq!((t.issue_ns, t.end_ns, t.clamped), (40, 40, true));
    }
}
