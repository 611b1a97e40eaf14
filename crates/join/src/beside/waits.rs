//! `waits/`: intervals of the scheduler, and of threads that writeback or a journal held up.
use super::{text, GapStates, Streams, Surveys};
use crate::pipeline::{Out, Row};
use crate::sorted::{Sorted, Timed};
use case::rows::{SchedReason, SchedRow, SchedState, Writeback, WritebackRow};
use case::schema::{WaitRow, WaitState};
use case::CaseError;

impl Timed for SchedRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        (self.end_ns != 0).then_some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (
            u64::from(self.state) << 32 | u64::from(self.tid as u32),
            self.end_ns,
        )
    }
}

impl Timed for WritebackRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        let who = u64::from(self.kind) << 32 | u64::from(self.tid as u32);
        (who, self.end_ns ^ self.inode << 20 ^ self.bytes)
    }
}

/// Where threads stand that are frozen, with their control group or before a suspend (kernel/freezer.c).
const FREEZER: &str = "__refrigerator";

/// What a thread did in this state.
pub(crate) fn state(raw: u8) -> WaitState {
    match SchedState::from_raw(raw) {
        Some(SchedState::Woken | SchedState::Preempted) => WaitState::Runnable,
        Some(SchedState::Throttled) => WaitState::Throttled,
        Some(SchedState::Stopped | SchedState::Traced | SchedState::Frozen) => WaitState::Stopped,
        Some(SchedState::Sleeping | SchedState::Uninterruptible) | None => WaitState::Blocked,
    }
}

/// What held a thread up, if a row of writeback is such a wait.
fn held_up_by(row: &WritebackRow) -> Option<&'static str> {
    match Writeback::from_raw(row.kind)? {
        Writeback::Throttled => Some("dirty throttling"),
        Writeback::WaitedForPage => Some("page under writeback"),
        Writeback::BufferStall => Some("journal buffer"),
        Writeback::LogSpace => Some("log space"),
        Writeback::Reclaim => Some("direct reclaim"),
        Writeback::Compaction => Some("direct compaction"),
        _ => None,
    }
}

pub(super) fn write(
    surveys: &Surveys,
    streams: &Streams,
    states: &mut GapStates,
    out: &mut Out,
) -> Result<(), CaseError> {
    let mut sched = Sorted::new(streams.sched, &surveys.sched)?;
    let mut writeback = Sorted::new(streams.writeback, &surveys.writeback)?;
    loop {
        let sched_ns = sched.peek().map(|row| row.start_ns);
        let writeback_ns = writeback.peek().map(|row| row.start_ns);
        if let Some(row) = sched_ns
            .filter(|ns| writeback_ns.is_none_or(|other| *ns <= other))
            .and(sched.peek().copied())
        {
            sched.take()?;
            let end_ns = end_of(&row, out.counts.end_ns);
            states.wait(row.tid, state(row.state), row.start_ns, end_ns);
            of_scheduler(&row, end_ns, out)?;
        } else if let Some(row) = writeback.take()? {
            if let Some(cause) = held_up_by(&row) {
                of_writeback(&row, cause, out)?;
            }
        } else {
            return Ok(());
        }
    }
}

/// A wait without an end lasted until the recording ended.
pub(crate) fn end_of(row: &SchedRow, recording_end_ns: u64) -> u64 {
    let end_ns = if row.end_ns == 0 {
        recording_end_ns
    } else {
        row.end_ns
    };
    end_ns.max(row.start_ns)
}

fn of_scheduler(row: &SchedRow, end_ns: u64, out: &mut Out) -> Result<(), CaseError> {
    let reason = SchedReason::NAMES
        .get(usize::from(row.reason))
        .filter(|reason| !reason.is_empty());
    // The freezer is known by its state: where a thread stands is looked at now and then only.
    let frozen = SchedState::from_raw(row.state) == Some(SchedState::Frozen);
    let cause = frozen
        .then(|| FREEZER.to_owned())
        .or_else(|| text(&row.by))
        .or_else(|| reason.map(|reason| (*reason).to_owned()));
    let sealed = WaitRow {
        tid: row.tid,
        pid: Some(row.pid),
        comm: text(&row.comm).map(|comm| out.names.id(&comm)),
        cpu: Some(i32::from(row.cpu)),
        start_ns: out.case_ns(row.start_ns),
        duration_ns: (end_ns - row.start_ns) as i64,
        state: state(row.state),
        cause: cause.map(|cause| out.names.id(&cause)),
        cause_pid: (row.by_pid > 0).then_some(row.by_pid),
        waker: text(&row.waker).map(|waker| out.names.id(&waker)),
        waker_pid: (row.waker_pid > 0).then_some(row.waker_pid),
        waker_tid: (row.waker_tid > 0).then_some(row.waker_tid),
    };
    out.row(Row::Wait(sealed))
}

fn of_writeback(row: &WritebackRow, cause: &str, out: &mut Out) -> Result<(), CaseError> {
    let sealed = WaitRow {
        tid: row.tid,
        pid: (row.pid > 0).then_some(row.pid),
        comm: text(&row.comm).map(|comm| out.names.id(&comm)),
        cpu: None,
        start_ns: out.case_ns(row.start_ns),
        duration_ns: row.end_ns.saturating_sub(row.start_ns) as i64,
        state: WaitState::Blocked,
        cause: Some(out.names.id(cause)),
        cause_pid: None,
        waker: None,
        waker_pid: None,
        waker_tid: None,
    };
    out.row(Row::Wait(sealed))
}
