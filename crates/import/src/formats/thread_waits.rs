//! What threads that submit requests waited for, from the scheduler's tracepoints: sched_switch, sched_wakeup and sched_wakeup_new become rows of `waits`.
//!
//! `prev_comm=fio prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120`, or as trace-cmd's plugin prints it:
//! `fio:7 [120] D ==> swapper/0:0 [120]`. Source: include/trace/events/sched.h. A thread that submitted no request so far has no row: its waits
//! delay no operation of the log.
use crate::error::{Bad, RecordError};
use crate::sink::Sink;
use crate::text::integer;
use case::schema::{WaitRow, WaitState};
use std::collections::{HashMap, HashSet};

/// Threads that are kept at most.
const THREADS_MAX: usize = 1 << 16;

/// A thread in a line.
struct Thread<'a> {
    comm: &'a str,
    tid: i32,
}

/// See the module.
#[derive(Default)]
pub struct Waits {
    submitters: HashSet<i32>,
    /// Since when who does not run, and why.
    since: HashMap<i32, (i64, WaitState)>,
}

impl Waits {
    /// A thread submitted a request.
    pub fn submits(&mut self, tid: Option<i32>) {
        if self.submitters.len() < THREADS_MAX {
            self.submitters.extend(tid.filter(|tid| *tid > 0));
        }
    }

    /// A CPU goes on with another thread.
    pub fn switch(
        &mut self,
        time_ns: i64,
        cpu: Option<i32>,
        rest: &str,
        sink: &mut Sink,
    ) -> Result<(), RecordError> {
        let (previous, state, next) = switched(rest)?;
        if let Some((since_ns, why)) = self.since.remove(&next.tid) {
            // The idle thread keeps nobody waiting.
            let runner = Some(&previous).filter(|thread| thread.tid != 0 && why == WaitState::Runnable);
            self.wait(&next, cpu, (since_ns, time_ns), why, runner, sink)?;
        }
        let why = match state.trim_start_matches('|').as_bytes() {
            [b'R', ..] => Some(WaitState::Runnable),
            [b'D', ..] => Some(WaitState::Blocked),
            [b'T' | b't', ..] => Some(WaitState::Stopped),
            // It sleeps until something happens that it asked for, or it is no more.
            _ => None,
        };
        self.begins(previous.tid, time_ns, why);
        Ok(())
    }

    /// A thread can go on.
    pub fn wakeup(&mut self, time_ns: i64, rest: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let woken = woken(rest)?;
        match self.since.get(&woken.tid) {
            Some((_, WaitState::Runnable)) => return Ok(()),
            Some((since_ns, why)) => self.wait(&woken, None, (*since_ns, time_ns), *why, None, sink)?,
            None => {}
        }
        self.begins(woken.tid, time_ns, Some(WaitState::Runnable));
        Ok(())
    }

    fn begins(&mut self, tid: i32, time_ns: i64, why: Option<WaitState>) {
        self.since.remove(&tid);
        if let (Some(why), true) = (why, tid != 0 && self.since.len() < THREADS_MAX) {
            self.since.insert(tid, (time_ns, why));
        }
    }

    fn wait(
        &self,
        thread: &Thread<'_>,
        cpu: Option<i32>,
        (since_ns, until_ns): (i64, i64),
        state: WaitState,
        runner: Option<&Thread<'_>>,
        sink: &mut Sink,
    ) -> Result<(), RecordError> {
        if until_ns <= since_ns || !self.submitters.contains(&thread.tid) {
            return Ok(());
        }
        let row = WaitRow {
            tid: thread.tid,
            pid: None,
            comm: sink.name_if(thread.comm),
            cpu: cpu.filter(|_| state == WaitState::Runnable),
            start_ns: since_ns,
            duration_ns: until_ns.saturating_sub(since_ns),
            state,
            cause: runner.and_then(|runner| sink.name_if(runner.comm)),
            cause_pid: runner.map(|runner| runner.tid),
            waker: None,
            waker_pid: None,
            waker_tid: None,
        };
        Ok(sink.wait(row)?)
    }
}

fn switched(rest: &str) -> Result<(Thread<'_>, &str, Thread<'_>), Bad> {
    let wrong = || {
        Bad::new(
            "",
            "prev_comm=... ==> next_comm=..., or NAME:PID [PRIO] STATE ==> NAME:PID [PRIO]",
            rest,
        )
    };
    let (before, after) = rest.trim().split_once(" ==> ").ok_or_else(wrong)?;
    let Some(before) = before.strip_prefix("prev_comm=") else {
        let (thread, state) = before.rsplit_once("] ").ok_or_else(wrong)?;
        return Ok((
            of_plugin(thread).ok_or_else(wrong)?,
            state,
            of_plugin(after).ok_or_else(wrong)?,
        ));
    };
    let (comm, before) = before.rsplit_once(" prev_pid=").ok_or_else(wrong)?;
    let (tid, state) = before.split_once(" prev_prio=").ok_or_else(wrong)?;
    let (_, state) = state.split_once(" prev_state=").ok_or_else(wrong)?;
    let previous = Thread {
        comm,
        tid: integer(tid, "prev_pid")?,
    };
    let after = after.strip_prefix("next_comm=").ok_or_else(wrong)?;
    let (comm, after) = after.rsplit_once(" next_pid=").ok_or_else(wrong)?;
    let tid = integer(after.split(' ').next().unwrap_or(""), "next_pid")?;
    Ok((previous, state, Thread { comm, tid }))
}

fn woken(rest: &str) -> Result<Thread<'_>, Bad> {
    let wrong = || Bad::new("", "comm=... pid=..., or NAME:PID [PRIO]", rest);
    let text = rest.trim();
    let Some(text) = text.strip_prefix("comm=") else {
        return of_plugin(text).ok_or_else(wrong);
    };
    let (comm, after) = text.rsplit_once(" pid=").ok_or_else(wrong)?;
    let tid = integer(after.split(' ').next().unwrap_or(""), "pid")?;
    Ok(Thread { comm, tid })
}

/// `fio:7 [120`, and whatever follows.
fn of_plugin(text: &str) -> Option<Thread<'_>> {
    let (thread, _) = text.split_once(" [")?;
    let (comm, tid) = thread.rsplit_once(':')?;
    Some(Thread {
        comm,
        tid: tid.parse().ok()?,
    })
}
