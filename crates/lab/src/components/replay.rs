//! The workload of a recording, once more: its operations in their order, with their pauses, on another stack.
//!
//! * Closed loop: an operation begins when as many operations of its thread have ended as had ended before it in the
//!   recording, after the same pause; so a faster stack gets more work. Those with none before them begin when they began.
//! * Open loop (the recorded workload had a rate): each is meant to begin when it was; a thread keeps no more in
//!   flight than it was allowed, and latency counts from the intended start.
use super::host::{Host, Thread, Turn};
use super::server::Below;
use crate::component::{Component, ComponentId, Handle, Message};
use crate::request::{Level, Request};
use crate::sim::Core;
use crate::tally::Tally;
use case::schema::{flags, Layer, Op, Stage};
use std::collections::VecDeque;

/// No other step.
const NONE: u32 = u32::MAX;

const BEGIN: u16 = 0;
const START: u16 = 1;
const TAKE: u16 = 2;
const SEEN: u16 = 3;

/// One operation of the replay. 56 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// When it began; where it follows another, how long after that one's end.
    pub start_ns: u64,
    /// In the one file of the replay, or on the device.
    pub offset_bytes: u64,
    /// Bytes.
    pub size_bytes: u32,
    /// Bits of `case::schema::flags`.
    pub flags: u32,
    /// Number of its thread.
    pub thread: u16,
    /// Kind.
    pub op: Op,
    /// Whether it counts.
    pub measured: bool,
    /// First of those that follow it.
    first: u32,
    /// Next of those that follow the same.
    next: u32,
    /// Follows another.
    follows: bool,
}

impl Step {
    /// A step that follows nothing.
    pub fn new(start_ns: u64, op: Op, offset_bytes: u64, size_bytes: u32) -> Step {
        Step {
            start_ns,
            offset_bytes,
            size_bytes,
            flags: 0,
            thread: 0,
            op,
            measured: true,
            first: NONE,
            next: NONE,
            follows: false,
        }
    }
}

/// Lets every step of a closed loop follow as many ends of its thread as in the recording; `ends_ns` is when each ended.
/// Steps are in order of start. Returns, per thread, its steps in order of their recorded ends: the step at `n` carries the
/// list of those that follow the `n`-th end.
///
/// A thread that took several completions at once and then began as many operations had to wait for each of them only: the
/// last of these begins follows the last end, the one before it the end before that. Else a model in which
/// completions come one by one would let slots stand empty that were never empty.
pub fn chain(steps: &mut [Step], ends_ns: &[u64]) -> Vec<Vec<u32>> {
    let mut by_end: Vec<u32> = (0..steps.len() as u32).collect();
    by_end.sort_by_key(|at| (ends_ns[*at as usize], *at));
    let threads = threads_of(steps);
    let mut ranks = vec![Vec::new(); threads];
    let mut ended = by_end.into_iter().peekable();
    // Ends before each step, of its thread.
    let mut before = vec![0usize; steps.len()];
    for (at, step) in steps.iter().enumerate() {
        // An operation without length may end when it begins; it does not follow itself or a later one.
        let is_before = |done: &u32| ends_ns[*done as usize] <= step.start_ns && (*done as usize) < at;
        while let Some(done) = ended.next_if(is_before) {
            ranks[usize::from(steps[done as usize].thread)].push(done);
        }
        before[at] = ranks[usize::from(step.thread)].len();
    }
    for done in ended {
        ranks[usize::from(steps[done as usize].thread)].push(done);
    }
    for (at, end) in followed(steps, &before, threads).into_iter().enumerate() {
        let Some(end) = end else { continue };
        let holder = ranks[usize::from(steps[at].thread)][end];
        let next = std::mem::replace(&mut steps[holder as usize].first, at as u32);
        let step = &mut steps[at];
        step.follows = true;
        step.start_ns -= ends_ns[holder as usize];
        step.next = next;
    }
    ranks
}

/// The number of the end of its thread that each step follows; none for those that begin before any. `before`: ends of its
/// thread before each step.
fn followed(steps: &[Step], before: &[usize], threads: usize) -> Vec<Option<usize>> {
    let mut of_thread = vec![Vec::new(); threads];
    for (at, step) in steps.iter().enumerate() {
        of_thread[usize::from(step.thread)].push(at);
    }
    let mut found = vec![None; steps.len()];
    for own in of_thread {
        let mut earlier = 0;
        for begun in own.chunk_by(|one, other| before[*one] == before[*other]) {
            let ends = before[begun[0]];
            for (back, at) in begun.iter().rev().enumerate() {
                found[*at] = (ends > 0).then(|| ends - 1 - back.min(ends - earlier - 1));
            }
            earlier = ends;
        }
    }
    found
}

fn threads_of(steps: &[Step]) -> usize {
    steps.iter().map(|step| step.thread).max().map_or(0, usize::from) + 1
}

/// Where the steps go.
pub enum To {
    /// To the top of the stack, by threads with costs of their own.
    Top(ComponentId, Host),
    /// To a volume or drive.
    Device(Below),
}

/// The replay.
pub struct Replay {
    steps: Vec<Step>,
    to: To,
    /// Closed loop: see [`chain`].
    ranks: Vec<Vec<u32>>,
    /// Ends so far, of each thread.
    ended: Vec<usize>,
    /// First step that is still to begin by the clock.
    cursor: usize,
    /// Most in flight of each thread.
    depth: u32,
    in_flight: Vec<u32>,
    threads: Vec<Thread>,
    waiting: Vec<VecDeque<u32>>,
    left: usize,
    tallying: bool,
}

impl Replay {
    /// `ranks`: of [`chain`], empty for an open loop; `depth`: most in flight of each thread.
    pub fn new(steps: Vec<Step>, ranks: Vec<Vec<u32>>, to: To, depth: u32) -> Replay {
        let threads = threads_of(&steps);
        Replay {
            ranks,
            ended: vec![0; threads],
            left: steps.len(),
            steps,
            to,
            cursor: 0,
            depth,
            in_flight: vec![0; threads],
            threads: vec![Thread::default(); threads],
            waiting: (0..threads).map(|_| VecDeque::new()).collect(),
            tallying: false,
        }
    }

    /// Begins what begins by the clock now, and sets the timer for the next.
    fn begin(&mut self, core: &mut Core) {
        while let Some(step) = self.steps.get(self.cursor) {
            if !step.follows {
                if step.start_ns > core.now_ns() {
                    core.timer(step.start_ns, BEGIN, 0);
                    return;
                }
                self.meant(self.cursor as u32, core);
            }
            self.cursor += 1;
        }
    }

    /// A step is meant to begin now: it does, or waits for its thread to have room.
    fn meant(&mut self, at: u32, core: &mut Core) {
        let thread = usize::from(self.steps[at as usize].thread);
        if self.in_flight[thread] >= self.depth {
            self.waiting[thread].push_back(at);
        } else {
            self.start(at, core.now_ns(), core);
        }
    }

    fn start(&mut self, at: u32, intended_ns: u64, core: &mut Core) {
        let now_ns = core.now_ns();
        let step = self.steps[at as usize];
        let thread = usize::from(step.thread);
        self.in_flight[thread] += 1;
        let (level, stage) = match &self.to {
            To::Top(..) => (Level::App, Stage::App),
            To::Device(below) if below.level == Level::Volume => (Level::Volume, Stage::Fs),
            To::Device(below) => (below.level, Stage::Queue),
        };
        let (offset_bytes, size_bytes) = (step.offset_bytes, step.size_bytes);
        let new = Request::new(level, step.op, offset_bytes, size_bytes, intended_ns, stage);
        let handle = core.create(new);
        let request = core.get_mut(handle);
        request.thread = step.thread;
        request.tag = u64::from(at);
        request.flags = step.flags;
        request.depth = self.in_flight[thread];
        match &mut self.to {
            To::Top(top, host) => {
                request.op_id = Layer::App.op_id_base() | u64::from(at);
                request.cpu = host.cpu_of(thread) as u16;
                let top = *top;
                let turn: Turn = host.submit_turn(thread, &mut self.threads[thread], now_ns);
                core.enter_at(handle, turn.stage, now_ns);
                core.enter_at(handle, Stage::App, turn.running_ns);
                core.enter_at(handle, Stage::Fs, turn.ready_ns);
                core.get_mut(handle).submit_ns = turn.ready_ns;
                core.send_at(turn.ready_ns, top, handle);
            }
            To::Device(below) => {
                request.submit_ns = 0;
                request.device = below.device;
                let id = below.id;
                core.send(id, handle);
            }
        }
    }

    fn done(&mut self, handle: Handle, core: &mut Core) {
        let depth = core.get(handle).depth;
        match &mut self.to {
            To::Top(_, host) => match host.wake_ns(depth) {
                0 => self.seen(handle, core),
                ns => core.timer(core.now_ns() + ns, SEEN, handle),
            },
            To::Device(_) => self.take(handle, core),
        }
    }

    fn seen(&mut self, handle: Handle, core: &mut Core) {
        let now_ns = core.now_ns();
        if let To::Top(_, host) = &mut self.to {
            let thread = usize::from(core.get(handle).thread);
            let turn = host.take_turn(thread, &mut self.threads[thread], now_ns);
            core.get_mut(handle).stage = Stage::Reap;
            if turn.ready_ns > now_ns {
                core.timer(turn.ready_ns, TAKE, handle);
                return;
            }
        }
        self.take(handle, core);
    }

    fn take(&mut self, handle: Handle, core: &mut Core) {
        let now_ns = core.now_ns();
        let request = core.get(handle);
        let at = request.tag as u32;
        let (op, start_ns, size) = (request.op, request.start_ns, request.size_bytes);
        core.release(handle);
        let step = self.steps[at as usize];
        if step.measured {
            if !self.tallying {
                self.tallying = true;
                core.recorder.tally = Tally::new(0, u64::MAX);
            }
            core.recorder.tally.add(op, start_ns, now_ns - start_ns, size);
        }
        let thread = usize::from(step.thread);
        self.in_flight[thread] -= 1;
        self.left -= 1;
        if let Some(next) = self.waiting[thread].pop_front() {
            // Latency counts from when it was meant to begin.
            let meant_ns = match self.steps[next as usize].follows {
                true => now_ns,
                false => self.steps[next as usize].start_ns,
            };
            self.start(next, meant_ns, core);
        }
        let rank = self.ended[thread];
        self.ended[thread] += 1;
        let holder = self.ranks.get(thread).and_then(|ranks| ranks.get(rank));
        let mut next = holder.map_or(NONE, |holder| self.steps[*holder as usize].first);
        let mut due = Vec::new();
        while next != NONE {
            due.push(next);
            next = self.steps[next as usize].next;
        }
        // The list is in reverse order of start.
        for at in due.into_iter().rev() {
            match self.steps[at as usize].start_ns {
                0 => self.meant(at, core),
                pause_ns => core.timer(now_ns + pause_ns, START, at),
            }
        }
        core.workload_over = self.left == 0;
    }
}

impl Component for Replay {
    fn name(&self) -> &str {
        "replay"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(_) => unreachable!("nobody asks a replay"),
            Message::Done(handle) => self.done(handle, core),
            Message::Timer { what: SEEN, arg } => self.seen(arg, core),
            Message::Timer { what: TAKE, arg } => {
                let now_ns = core.now_ns();
                core.get_mut(arg).close_stage(now_ns);
                self.take(arg, core);
            }
            Message::Timer { what: START, arg } => self.meant(arg, core),
            Message::Timer { .. } => self.begin(core),
        }
    }

    fn depth(&self) -> usize {
        0
    }
}

/// Flags of a recorded operation that a replay keeps.
pub const KEPT_FLAGS: u32 = flags::DIRECT | flags::SYNC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_follows_the_last_end_of_its_thread() {
        let step = |start_ns, thread| Step {
            thread,
            ..Step::new(start_ns, Op::Read, 0, 4096)
        };
        let mut steps = vec![step(0, 0), step(0, 0), step(5, 1), step(100, 0), step(130, 0)];
        let ranks = chain(&mut steps, &[100, 120, 50, 400, 500]);
        let follows: Vec<bool> = steps.iter().map(|step| step.follows).collect();
        assert_eq!(follows, [false, false, false, true, true]);
        assert_eq!((steps[3].start_ns, steps[4].start_ns), (0, 10));
        assert_eq!((steps[0].first, steps[1].first, steps[2].first), (3, 4, NONE));
        assert_eq!(ranks, [vec![0, 1, 3, 4], vec![2]]);
    }

    #[test]
    fn what_is_taken_together_is_followed_one_by_one() {
        let step = |start_ns| Step::new(start_ns, Op::Read, 0, 4096);
        // Three in flight, taken at 100, 101 and 102; three begin then, and a fourth, deeper than before.
        let mut steps = [0, 0, 0, 110, 111, 112, 113].map(step).to_vec();
        let ranks = chain(&mut steps, &[101, 100, 102, 300, 301, 302, 303]);
        assert_eq!(ranks[0][..3], [1, 0, 2]);
        let pauses: Vec<u64> = steps[3..].iter().map(|step| step.start_ns).collect();
        assert_eq!(pauses, [10, 11, 11, 11]);
        // Lists are in reverse order of start.
        assert_eq!((steps[1].first, steps[4].next, steps[3].next), (4, 3, NONE));
        assert_eq!((steps[0].first, steps[2].first), (5, 6));
    }
}
