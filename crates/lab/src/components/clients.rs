//! Clients: the workers of an access specification, closed or open loop, each a thread with costs of its own.
//!
//! What a worker does next comes from the same generator as in `whodisk run`. A thread submits and takes completions
//! one at a time; while it is stopped or waits for a CPU, nothing of it moves, and that is where gaps come from.
use super::host::{Host, Thread};
use crate::component::{Component, ComponentId, Handle, Message};
use crate::request::{Level, Request};
use crate::sim::Core;
use case::schema::{flags, GapRow, Layer, Op, Stage};
use workload::mix::{Access, Mix};
use workload::schedule::Schedule;
use workload::Spec;

const TAKE: u16 = 1;
const PUMP: u16 = 2;
const SEEN: u16 = 3;

/// A silence shorter than this is no gap (see the decision note on gaps).
const GAP_MIN_NS: u64 = 1_000_000;

struct Worker {
    cpu: usize,
    mix: Mix,
    schedule: Schedule,
    /// Drawn, but not started yet.
    next: Option<Access>,
    in_flight: u32,
    syncing: bool,
    sequence: u64,
    thread: Thread,
    pump_set_ns: u64,
    /// Since when nothing was in flight below; None while something is.
    silent_since_ns: Option<u64>,
    /// What its thread did when the last completion came.
    silent_state: &'static str,
    below: u32,
}

/// All workers of the workload.
pub struct Clients {
    below: ComponentId,
    host: Host,
    workers: Vec<Worker>,
    queue_depth: u32,
    operations_left: u64,
    end_ns: u64,
    closed: bool,
    direct: bool,
    stopped: bool,
    in_flight: usize,
}

impl Clients {
    /// `sizes_bytes`: usable size of each target.
    pub fn new(spec: &Spec, sizes_bytes: &[u64], below: ComponentId, host: Host) -> Clients {
        let worker = |worker: u32| Worker {
            cpu: host.cpu_of(worker as usize),
            mix: Mix::new(spec, worker, sizes_bytes),
            schedule: Schedule::new(spec, worker, 0),
            next: None,
            in_flight: 0,
            syncing: false,
            sequence: 0,
            thread: Thread::default(),
            pump_set_ns: u64::MAX,
            silent_since_ns: None,
            silent_state: "running",
            below: 0,
        };
        let workers = (0..spec.workers).map(worker).collect();
        Clients {
            below,
            host,
            workers,
            queue_depth: spec.queue_depth,
            operations_left: spec.operations.unwrap_or(u64::MAX),
            end_ns: spec
                .duration_ns
                .map_or(u64::MAX, |duration| spec.ramp_ns + duration),
            closed: spec.rate_per_s.is_none(),
            direct: spec.direct,
            stopped: false,
            in_flight: 0,
        }
    }

    /// Starts whatever worker `w` may start now.
    fn pump(&mut self, w: usize, core: &mut Core) {
        let now_ns = core.now_ns();
        loop {
            let worker = &mut self.workers[w];
            let over = self.stopped || now_ns >= self.end_ns || self.operations_left == 0;
            if over || worker.syncing || worker.in_flight >= self.queue_depth {
                return;
            }
            let access = *worker.next.get_or_insert_with(|| worker.mix.next_access());
            if access.op == Op::Sync && worker.in_flight > 0 {
                return;
            }
            let intended_ns = match worker.schedule.next_ns() {
                None => now_ns,
                // A sync is no slot of the schedule of its own; it follows its write.
                Some(_) if access.op == Op::Sync => now_ns,
                Some(next_ns) if next_ns >= self.end_ns => return,
                Some(next_ns) if next_ns > now_ns => {
                    if worker.pump_set_ns != next_ns {
                        worker.pump_set_ns = next_ns;
                        core.timer(next_ns, PUMP, w as u32);
                    }
                    return;
                }
                Some(next_ns) => next_ns,
            };
            worker.next = None;
            if access.op != Op::Sync {
                worker.schedule.advance();
            }
            self.operations_left -= 1;
            self.start(w, access, intended_ns, core);
            // The place of the next one is drawn already, long before it comes.
            let worker = &mut self.workers[w];
            let next = worker.next.get_or_insert_with(|| worker.mix.next_access());
            core.announce(self.below, u16::from(next.file), next.offset_bytes);
        }
    }

    fn start(&mut self, w: usize, access: Access, intended_ns: u64, core: &mut Core) {
        let now_ns = core.now_ns();
        let worker = &mut self.workers[w];
        worker.cpu = self.host.next_cpu(worker.cpu);
        let turn = self.host.submit_turn(w, &mut worker.thread, now_ns);
        core.recorder.wait(w, worker.cpu, turn.wanted_ns, &turn);
        let Access {
            op,
            offset_bytes,
            size_bytes,
            ..
        } = access;
        let level = Level::App;
        let handle = core.create(Request::new(
            level,
            op,
            offset_bytes,
            size_bytes,
            intended_ns,
            Stage::App,
        ));
        let request = core.get_mut(handle);
        request.op_id = Layer::App.op_id_base() | (w as u64) << 40 | worker.sequence;
        worker.sequence += 1;
        self.in_flight += 1;
        worker.in_flight += 1;
        worker.syncing = op == Op::Sync;
        request.depth = worker.in_flight;
        request.thread = w as u16;
        request.file = u16::from(access.file);
        request.cpu = worker.cpu as u16;
        if self.direct {
            request.flags |= flags::DIRECT;
        }
        if op != Op::Write || self.direct {
            request.flags |= flags::SYNC;
        }
        request.submit_ns = turn.ready_ns;
        if let Some(since_ns) = worker.silent_since_ns.take() {
            let meant_ns = if self.closed {
                since_ns
            } else {
                since_ns.max(intended_ns)
            };
            let duration_ns = turn.ready_ns.saturating_sub(meant_ns);
            if duration_ns >= GAP_MIN_NS {
                core.recorder.gap(GapRow {
                    layer: Layer::App,
                    tid: self.host.tid_of(w),
                    comm: None,
                    start_ns: meant_ns as i64,
                    duration_ns: duration_ns as i64,
                    state: match turn.state {
                        "running" => worker.silent_state.into(),
                        other => other.into(),
                    },
                    meant_busy: true,
                });
            }
        }
        worker.below += 1;
        // Held up by others first, then its own work.
        let held_up = core.recorder.stage_of(turn.stage, Stage::App);
        core.enter_at(handle, held_up, now_ns);
        core.enter_at(handle, Stage::App, turn.running_ns);
        core.enter_at(handle, Stage::Fs, turn.ready_ns);
        core.send_at(turn.ready_ns, self.below, handle);
    }

    /// An operation is complete below; its thread takes it when it looks and gets to it.
    fn done(&mut self, handle: Handle, core: &mut Core) {
        match self.host.wake_ns(core.get(handle).depth) {
            0 => self.seen(handle, core),
            ns => core.timer(core.now_ns() + ns, SEEN, handle),
        }
    }

    fn seen(&mut self, handle: Handle, core: &mut Core) {
        let now_ns = core.now_ns();
        let w = core.get(handle).thread as usize;
        let worker = &mut self.workers[w];
        worker.below -= 1;
        if worker.below == 0 {
            worker.silent_since_ns = Some(now_ns);
        }
        let turn = self.host.take_turn(w, &mut worker.thread, now_ns);
        core.recorder.wait(w, worker.cpu, turn.wanted_ns, &turn);
        worker.silent_state = turn.state;
        let late = match turn.stage {
            Stage::Runqueue => core.recorder.stage_of(Stage::Runqueue, Stage::Reap),
            _ => Stage::Reap,
        };
        core.get_mut(handle).stage = late;
        core.enter_at(handle, Stage::Reap, turn.running_ns);
        if turn.ready_ns > now_ns {
            core.timer(turn.ready_ns, TAKE, handle);
        } else {
            self.take(handle, core);
        }
    }

    fn take(&mut self, handle: Handle, core: &mut Core) {
        let now_ns = core.now_ns();
        let request = core.get_mut(handle);
        request.close_stage(now_ns);
        let w = request.thread as usize;
        core.app_row(handle);
        core.release(handle);
        let worker = &mut self.workers[w];
        self.in_flight -= 1;
        worker.in_flight -= 1;
        worker.syncing = false;
        self.pump(w, core);
    }

    /// Whether no worker will start anything more.
    fn is_over(&self, now_ns: u64) -> bool {
        let over = self.stopped || now_ns >= self.end_ns || self.operations_left == 0;
        let dry = |worker: &Worker| worker.schedule.next_ns().is_some_and(|next| next >= self.end_ns);
        self.workers.iter().all(|worker| over || dry(worker))
    }
}

impl Component for Clients {
    fn name(&self) -> &str {
        "clients"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(_) => unreachable!("nobody asks clients"),
            Message::Done(handle) => self.done(handle, core),
            Message::Timer { what: SEEN, arg } => self.seen(arg, core),
            Message::Timer { what: TAKE, arg } => self.take(arg, core),
            Message::Timer { what: PUMP, arg } => {
                self.workers[arg as usize].pump_set_ns = u64::MAX;
                self.pump(arg as usize, core);
            }
            Message::Timer { .. } => (0..self.workers.len()).for_each(|w| self.pump(w, core)),
        }
        if self.in_flight == 0 && self.is_over(core.now_ns()) {
            core.workload_over = true;
        }
    }

    fn depth(&self) -> usize {
        0
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}
