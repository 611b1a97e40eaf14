//! Requests with a submitter that a controller of their queue held back: writeback throttling, io.latency, io.cost.
//!
//! They do it between the queueing of a bio and its request, where the submitter sleeps in a function of theirs; a
//! submitter that waits for a tag sleeps in another one. A thread submits one bio at a time, so a sleep between
//! the two belongs to that request.
use crate::beside::end_of;
use crate::sorted::Sorted;
use case::rows::{sched_by, BlockRow, SchedRow};
use case::CaseError;
use std::collections::HashMap;

/// Most threads with a kept last sleep; above, those that nobody can ask for any more are forgotten.
const THREADS_MAX: usize = 1 << 12;

/// A sleep in a controller's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sleep {
    start_ns: u64,
    end_ns: u64,
    wbt: bool,
}

/// Until when a request was held back, and by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// End of its submitter's last such sleep; 0 = there was none.
    pub passed_ns: u64,
    /// By writeback throttling or io.latency.
    pub wbt: bool,
}

/// Sleeps of submitters, in order of time, beside the requests, which come in order of their queueing.
pub struct HeldBack<'a> {
    sched: Sorted<'a, SchedRow>,
    end_ns: u64,
    /// By thread, in order of time.
    by_tid: HashMap<i32, Vec<Sleep>>,
    threads_max: usize,
}

impl<'a> HeldBack<'a> {
    /// Before the first sleep.
    pub fn new(sched: Sorted<'a, SchedRow>, recording_end_ns: u64) -> HeldBack<'a> {
        HeldBack {
            sched,
            end_ns: recording_end_ns,
            by_tid: HashMap::new(),
            threads_max: THREADS_MAX,
        }
    }

    /// Rows held now.
    pub fn rows_held(&self) -> usize {
        self.by_tid.values().map(Vec::len).sum()
    }

    /// When a request was let through. `row.queue_ns` never falls from call to call.
    pub fn passed(&mut self, row: &BlockRow) -> Result<Passed, CaseError> {
        if row.queue_ns == 0 || row.start_ns <= row.queue_ns {
            return Ok(Passed::default());
        }
        while self.sched.peek().is_some_and(|wait| wait.start_ns < row.start_ns) {
            if let Some(wait) = self.sched.take()? {
                self.add(&wait, row.queue_ns);
            }
        }
        let Some(sleeps) = self.by_tid.get_mut(&row.tid) else {
            return Ok(Passed::default());
        };
        sleeps.retain(|sleep| sleep.end_ns > row.queue_ns);
        let within = |sleep: &&Sleep| sleep.start_ns >= row.queue_ns && sleep.start_ns < row.start_ns;
        let last = sleeps.iter().filter(within).max_by_key(|sleep| sleep.end_ns);
        Ok(last.map_or(Passed::default(), |sleep| Passed {
            passed_ns: sleep.end_ns.min(row.start_ns),
            wbt: sleep.wbt,
        }))
    }

    fn add(&mut self, wait: &SchedRow, now_ns: u64) {
        let wbt = is_named(&wait.by, sched_by::WBT);
        if !wbt && !is_named(&wait.by, sched_by::IO_COST) {
            return;
        }
        if self.by_tid.len() >= self.threads_max {
            self.by_tid
                .retain(|_, sleeps| sleeps.last().is_some_and(|sleep| sleep.end_ns > now_ns));
            self.threads_max = THREADS_MAX.max(2 * self.by_tid.len());
        }
        let sleeps = self.by_tid.entry(wait.tid).or_default();
        sleeps.retain(|sleep| sleep.end_ns > now_ns);
        sleeps.push(Sleep {
            start_ns: wait.start_ns,
            end_ns: end_of(wait, self.end_ns),
            wbt,
        });
    }
}

/// Whether a field that is padded with NUL holds this name.
fn is_named(field: &[u8], name: &str) -> bool {
    field
        .strip_prefix(name.as_bytes())
        .is_some_and(|rest| rest.first().is_none_or(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sorted::Surveyed;
    use crate::stream::Stream;
    use crate::testing::Rows;
    use case::rows::SchedState;

    fn sleep(tid: i32, by: &str, start_ns: u64, end_ns: u64) -> SchedRow {
        let mut row = SchedRow {
            tid,
            state: SchedState::Uninterruptible as u8,
            start_ns,
            end_ns,
            ..SchedRow::default()
        };
        row.by[..by.len()].copy_from_slice(by.as_bytes());
        row
    }

    fn request(tid: i32, queue_ns: u64, start_ns: u64) -> BlockRow {
        BlockRow {
            tid,
            queue_ns,
            start_ns,
            ..BlockRow::default()
        }
    }

    #[test]
    fn only_sleeps_in_a_controllers_function_between_queueing_and_request_count() {
        let mut rows = vec![
            sleep(7, sched_by::WBT, 110, 150),
            sleep(7, sched_by::WBT, 152, 180),
            sleep(7, "blk_mq_get_tag", 210, 250),
            sleep(8, sched_by::IO_COST, 310, 340),
            sleep(9, sched_by::WBT, 320, 0),
            sleep(7, sched_by::WBT, 410, 450),
        ];
        rows.sort_by_key(|row| if row.end_ns == 0 { u64::MAX } else { row.end_ns });
        let stream = Rows(rows);
        let stream = &stream as &dyn Stream<SchedRow>;
        let surveyed = Surveyed::of(Some(stream), |_| ()).unwrap();
        let mut held = HeldBack::new(Sorted::new(Some(stream), &surveyed).unwrap(), 1000);
        let mut passed = |tid, queue_ns, start_ns| {
            let passed = held.passed(&request(tid, queue_ns, start_ns)).unwrap();
            (passed.passed_ns, passed.wbt)
        };
        assert_eq!(passed(7, 100, 190), (180, true), "woken, and held back again");
        assert_eq!(passed(7, 200, 260), (0, false), "waits for a tag");
        assert_eq!(passed(8, 300, 350), (340, false), "io.cost");
        assert_eq!(passed(9, 301, 330), (330, true), "never seen to end");
        assert_eq!(passed(7, 400, 405), (0, false), "the sleep is a later request's");
        assert_eq!(passed(7, 406, 460), (450, true));
        assert_eq!(passed(7, 500, 0), (0, false), "never got a request");
        assert!(held.rows_held() <= 4);
    }
}
