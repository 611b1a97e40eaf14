//! The second pass over app operations: join, order, silences of our own workers.
use crate::beside::Surveys;
use crate::children::{Child, Children};
use crate::cpu_waits::{above_requests, CpuWaits};
use crate::gaps::{Intent, Thread};
use crate::pipeline::{app_span_ns, Inputs, Out, Silent, Worker};
use crate::reorder::{Plan, Reorder, Watermark};
use crate::stages::{app_times, held_by_wbt, join_parts, AppTimes, Below, Part};
use crate::stream::{Cursor, Stream};
use case::rows::AppRow;
use case::schema::{flags, EventRow, GapRow, Layer, LinkRow, NameId, Op, OpRow, Stage};
use case::CaseError;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A row with everything known about it, waiting for its turn.
#[derive(Clone, Copy, Debug)]
struct Ready {
    row: AppRow,
    below: Below,
    worker: u32,
    /// The device of all its requests, if it is one.
    device: Option<u32>,
    /// A request ended after the operation.
    overhang: bool,
    /// Its first request; further ones are in [`AppSide::further`].
    first: Option<Child>,
    /// Its `fs` stage, where the scheduler was watched.
    fs: FsTime,
}

/// The stretches of an `fs` stage.
#[derive(Clone, Copy, Debug, Default)]
struct FsTime {
    last: (u64, u64),
    /// Key of all others in [`AppSide::further_fs`]; 0 = there are none.
    further: u64,
}

/// What an operation's thread waited for a CPU in each stage.
#[derive(Clone, Copy, Debug, Default)]
struct Runnable {
    app_ns: u64,
    fs_ns: u64,
    reap_ns: u64,
}

struct WorkerState<'a> {
    cursor: Cursor<'a, AppRow>,
    watermark: Watermark,
    straggler_ns: u64,
    about: Worker,
    files: Vec<NameId>,
    comm: Option<NameId>,
    silences: Thread,
}

pub(crate) struct AppSide<'a> {
    workers: Vec<WorkerState<'a>>,
    /// Reap and number of the worker with the next row.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    held: Reorder<Ready>,
    rows_held_max: usize,
    block_watched: bool,
    interrupts_watched: bool,
    /// By the raw id of their operation: requests with links that are written with its row.
    further: HashMap<u64, Vec<Child>>,
    /// Sealed ids of stragglers with rows that were written before their requests were all known, by their raw ids.
    stragglers: HashMap<u64, u64>,
    /// `None`: the scheduler was not watched.
    cpu_waits: Option<CpuWaits<'a>>,
    /// See `Inputs`.
    wait_step_ns: u64,
    further_fs: HashMap<u64, Vec<(u64, u64)>>,
    further_fs_next: u64,
    /// Kept for their memory.
    children: Vec<Child>,
    parts: Vec<Part>,
    stretches: Vec<(u64, u64)>,
}

impl<'a> AppSide<'a> {
    pub(crate) fn new(
        inputs: &Inputs<'a>,
        plans: Vec<Plan<AppRow>>,
        mut straggler_children: HashMap<u64, Vec<Child>>,
        surveys: &Surveys,
        out: &mut Out,
        children: &mut Children,
    ) -> Result<AppSide<'a>, CaseError> {
        let cpu_waits = match inputs.beside.sched.filter(|_| !inputs.workers.is_empty()) {
            None => None,
            Some(stream) => {
                let tids = inputs.workers.iter().filter_map(|(about, _)| about.tid);
                Some(CpuWaits::new(
                    surveys.sched(Some(stream))?,
                    tids,
                    out.counts.end_ns,
                ))
            }
        };
        let mut side = AppSide {
            workers: Vec::new(),
            next: BinaryHeap::new(),
            held: Reorder::new(),
            rows_held_max: 0,
            block_watched: inputs.block.is_some(),
            interrupts_watched: out.counts.interrupts_watched,
            further: HashMap::new(),
            stragglers: HashMap::new(),
            cpu_waits,
            wait_step_ns: inputs.wait_step_ns,
            further_fs: HashMap::new(),
            further_fs_next: 1,
            children: Vec::new(),
            parts: Vec::new(),
            stretches: Vec::new(),
        };
        for ((about, stream), mut plan) in inputs.workers.iter().zip(plans) {
            side.add_worker(about, *stream, &mut plan, out, children)?;
            for row in &plan.stragglers {
                side.children = straggler_children.remove(&row.op_id).unwrap_or_default();
                side.children.retain(|child| child.part.entry_ns <= row.reap_ns);
                side.hold(side.workers.len() - 1, row);
            }
        }
        Ok(side)
    }

    fn add_worker(
        &mut self,
        about: &Worker,
        stream: &'a dyn Stream<AppRow>,
        plan: &mut Plan<AppRow>,
        out: &mut Out,
        children: &mut Children,
    ) -> Result<(), CaseError> {
        let number = self.workers.len();
        let state = WorkerState {
            cursor: Cursor::new(stream)?,
            watermark: Watermark::new(plan),
            straggler_ns: plan.straggler_ns,
            files: about.files.iter().map(|file| out.names.id(file)).collect(),
            comm: about.comm.as_deref().map(|comm| out.names.id(comm)),
            silences: Thread::new(if about.rate { Intent::Rate } else { Intent::Closed }),
            about: about.clone(),
        };
        match state.cursor.peek() {
            Some(row) => self.next.push(Reverse((row.reap_ns, number))),
            None => children.end_worker(about.number),
        }
        self.workers.push(state);
        Ok(())
    }

    /// Most rows held at once so far.
    pub(crate) fn rows_held_max(&self) -> usize {
        self.rows_held_max
    }

    /// Joins every row that was reaped before `watermark_ns` (requests that began before it are in
    /// `children`), and writes those that are due. `seen` is called for each row read.
    pub(crate) fn take_up(
        &mut self,
        watermark_ns: u64,
        out: &mut Out,
        children: &mut Children,
        seen: &mut dyn FnMut(),
    ) -> Result<(), CaseError> {
        while let Some(Reverse((reap_ns, number))) = self.next.peek().copied() {
            if reap_ns >= watermark_ns && watermark_ns != u64::MAX {
                break;
            }
            self.next.pop();
            if self.step(number, out, children)? {
                self.emit(out)?;
            }
            seen();
        }
        self.emit(out)
    }

    /// Takes the next row of a worker; true if the worker's watermark moved.
    fn step(&mut self, number: usize, out: &mut Out, children: &mut Children) -> Result<bool, CaseError> {
        let worker = &mut self.workers[number];
        let Some(row) = worker.cursor.peek().copied() else {
            return Ok(false);
        };
        worker.cursor.advance()?;
        let before_ns = worker.watermark.watermark_ns();
        worker.watermark.advance();
        let moved = worker.watermark.watermark_ns() != before_ns;
        let straggler = app_span_ns(&row) > worker.straggler_ns;
        let name = worker.about.number;
        let next_reap_ns = worker.cursor.peek().map(|next| next.reap_ns);
        children.take(row.op_id, row.reap_ns, &mut self.children);
        match next_reap_ns {
            Some(reap_ns) => self.next.push(Reverse((reap_ns, number))),
            None => children.end_worker(name),
        }
        if !straggler {
            self.hold(number, &row);
            self.keep_further(row.op_id, 1);
        } else if let Some(op_id) = self.stragglers.remove(&row.op_id) {
            for child in &self.children {
                link(op_id, &row, child, out)?;
            }
        } else {
            self.keep_further(row.op_id, 0);
        }
        Ok(moved)
    }

    /// Keeps `self.children` from `at` on until the row of their operation is written.
    fn keep_further(&mut self, raw_id: u64, at: usize) {
        if self.children.len() > at {
            let kept = self.further.entry(raw_id).or_default();
            kept.extend_from_slice(&self.children[at..]);
        }
    }

    /// Joins a row with `self.children` and keeps it until its turn.
    fn hold(&mut self, number: usize, row: &AppRow) {
        self.parts.clear();
        self.parts.extend(self.children.iter().map(|child| child.part));
        let (below, overhang) = match (self.block_watched, self.parts.is_empty()) {
            (false, _) => (Below::Unobserved, false),
            (true, true) => (Below::Unknown, false),
            (true, false) => join_parts(&app_times(row), &mut self.parts),
        };
        let fs = self.fs_time(row, &below);
        let mut devices = self.children.iter().filter(|child| !child.below_volume());
        let first = devices.next().map(|child| child.device);
        let device = first.filter(|device| devices.all(|child| child.device == *device));
        let ready = Ready {
            row: *row,
            below,
            worker: number as u32,
            device,
            overhang,
            first: self.children.first().copied().filter(|child| child.id != 0),
            fs,
        };
        self.held.push(row.intended_ns, (row.op_id, row.reap_ns), ready);
        self.rows_held_max = self.rows_held_max.max(self.held.rows());
    }

    /// The stretches of a row's `fs` stage.
    fn fs_time(&mut self, row: &AppRow, below: &Below) -> FsTime {
        let (Below::Joined { end_ns, .. }, true) = (below, self.cpu_waits.is_some()) else {
            return FsTime::default();
        };
        let submit_ns = app_times(row).submit_ns;
        above_requests(submit_ns, *end_ns, &mut self.parts, &mut self.stretches);
        let Some((last, others)) = self.stretches.split_first() else {
            return FsTime::default();
        };
        let mut fs = FsTime {
            last: *last,
            further: 0,
        };
        if !others.is_empty() {
            fs.further = self.further_fs_next;
            self.further_fs_next += 1;
            self.further_fs.insert(fs.further, others.to_vec());
        }
        fs
    }

    /// In `app`, `fs` and `reap` the thread of the operation had to do something, and could not while it had no CPU.
    /// Where the requests of an operation are not known, the devices may have been at work meanwhile.
    fn runnable(&mut self, ready: &Ready, times: &AppTimes) -> Result<Option<Runnable>, CaseError> {
        let tid = self.workers[ready.worker as usize].about.tid;
        let (Some(waits), Some(tid)) = (self.cpu_waits.as_mut(), tid) else {
            return Ok(None);
        };
        waits.advance(tid, times.start_ns, times.reap_ns)?;
        let mut runnable = Runnable {
            app_ns: waits.within(tid, times.start_ns, times.submit_ns),
            reap_ns: waits.within(tid, taken_from_ns(times, &ready.below), times.reap_ns),
            fs_ns: waits.within(tid, ready.fs.last.0, ready.fs.last.1),
        };
        let further = self.further_fs.remove(&ready.fs.further);
        for (from_ns, to_ns) in further.iter().flatten() {
            runnable.fs_ns += waits.within(tid, *from_ns, *to_ns);
        }
        // What is beyond the last step stays in the stage that it was in.
        for waited_ns in [&mut runnable.app_ns, &mut runnable.fs_ns, &mut runnable.reap_ns] {
            *waited_ns -= *waited_ns % self.wait_step_ns;
        }
        Ok(Some(runnable))
    }

    fn emit(&mut self, out: &mut Out) -> Result<(), CaseError> {
        let watermark_ns = self
            .workers
            .iter()
            .map(|worker| worker.watermark.watermark_ns())
            .min()
            .unwrap_or(u64::MAX);
        while let Some(ready) = self.held.pop(watermark_ns) {
            self.emit_row(&ready, out)?;
        }
        Ok(())
    }

    fn emit_row(&mut self, ready: &Ready, out: &mut Out) -> Result<(), CaseError> {
        let row = &ready.row;
        let times = app_times(row);
        let op = Op::from_raw(row.op).unwrap_or(Op::Other);
        let runnable = self.runnable(ready, &times)?;
        let worker = &mut self.workers[ready.worker as usize];
        let op_id = Layer::App.op_id_base() + out.counts.app_rows;
        out.counts.app_rows += 1;
        let further = self.further.remove(&row.op_id);
        if further.is_none() && app_span_ns(row) > worker.straggler_ns {
            self.stragglers.insert(row.op_id, op_id);
        }
        let children = || ready.first.iter().chain(further.iter().flatten());
        let held_back = held_by_wbt(children().map(|child| &child.part));
        for child in children() {
            link(op_id, row, child, out)?;
        }
        if times.clamped || ready.overhang {
            out.clamped(times.start_ns);
        }
        let kernel_end_ns = taken_from_ns(&times, &ready.below);
        worker
            .silences
            .operation(times.start_ns, times.submit_ns, kernel_end_ns);
        match ready.below {
            Below::Joined { .. } => out.counts.joined += 1,
            Below::Unobserved => {}
            Below::Unknown if worker.about.null => out.counts.unjoined_null += 1,
            Below::Unknown if op == Op::Sync => out.counts.unjoined_sync += 1,
            Below::Unknown if worker.about.direct => out.counts.unjoined_direct += 1,
            Below::Unknown => out.counts.unjoined_buffered += 1,
        }
        let has_place = matches!(op, Op::Read | Op::Write | Op::Discard | Op::Copy);
        let sealed = OpRow {
            op_id,
            start_ns: out.case_ns(times.start_ns),
            latency_ns: (times.reap_ns - times.start_ns) as i64,
            open: false,
            op,
            flags: if worker.about.direct { flags::DIRECT } else { 0 }
                | if held_back { flags::WBT } else { 0 },
            host: out.host,
            device: ready.device.map(|device| out.device(device)),
            file: worker.files.get(usize::from(row.file)).copied(),
            comm: worker.comm,
            cgroup: None,
            offset_bytes: i64::try_from(row.offset_bytes).ok().filter(|_| has_place),
            size_bytes: Some(i64::from(row.size_bytes)),
            queue_depth: Some(i32::try_from(row.queue_depth).unwrap_or(i32::MAX)),
            pid: worker.about.pid,
            tid: worker.about.tid,
            cpu: None,
            complete_cpu: None,
            hctx: None,
            vector: None,
            error: row.error.saturating_abs(),
            weight: 1.0,
            stages: app_stages(&times, &ready.below, runnable, self.interrupts_watched),
            foreign_handler_ns: None,
        };
        if row.error != 0 {
            let subject = sealed
                .file
                .map_or(String::new(), |file| out.names.get(file).to_owned());
            let detail = format!(
                "{} of {} bytes at offset {}: errno {}",
                op.name(),
                row.size_bytes,
                row.offset_bytes,
                row.error
            );
            let time_ns = out.case_ns(times.reap_ns);
            out.event(&EventRow {
                time_ns,
                kind: "error".into(),
                subject,
                detail,
            })?;
        }
        out.sink.op(Layer::App, &sealed, out.names)
    }

    /// Gaps of our own workers.
    pub(crate) fn gaps(self, out: &mut Out) -> Vec<GapRow> {
        let mut gaps = Vec::new();
        for worker in &self.workers {
            let silent = Silent {
                layer: Layer::App,
                pid: worker.about.pid,
                tid: worker.about.tid.unwrap_or(0),
                comm: worker.comm,
                meant_busy: true,
            };
            gaps.extend(out.gaps(&silent, &worker.silences));
        }
        gaps
    }
}

/// Notes that operation `op_id` waited for a request.
fn link(op_id: u64, row: &AppRow, child: &Child, out: &mut Out) -> Result<(), CaseError> {
    if child.below_volume() {
        return Ok(());
    }
    out.link(&LinkRow {
        parent_id: op_id,
        child_id: child.id,
        bytes: child.bytes.min(u64::from(row.size_bytes)) as i64,
        kind: child.kind,
    })
}

/// From when on an operation only had to be taken.
fn taken_from_ns(times: &AppTimes, below: &Below) -> u64 {
    match below {
        Below::Joined { end_ns, .. } => *end_ns,
        Below::Unknown | Below::Unobserved => times.complete_ns,
    }
}

fn app_stages(
    times: &AppTimes,
    below: &Below,
    runnable: Option<Runnable>,
    interrupts_watched: bool,
) -> [Option<i64>; 9] {
    let mut stages = [None; 9];
    let mut set = |stage: Stage, ns: u64| stages[stage as usize] = Some(ns as i64);
    let waited = runnable.unwrap_or_default();
    set(Stage::App, times.submit_ns - times.start_ns - waited.app_ns);
    set(
        Stage::Reap,
        times.reap_ns - taken_from_ns(times, below) - waited.reap_ns,
    );
    if runnable.is_some() {
        set(Stage::Runqueue, waited.app_ns + waited.fs_ns + waited.reap_ns);
    }
    match below {
        Below::Joined { kernel, .. } => {
            set(Stage::Fs, kernel.fs_ns - waited.fs_ns);
            set(Stage::Throttle, kernel.throttle_ns);
            set(Stage::Queue, kernel.queue_ns);
            if interrupts_watched {
                set(Stage::Device, kernel.device_ns);
                set(Stage::Interrupt, kernel.interrupt_ns);
            } else {
                set(Stage::Device, kernel.device_ns + kernel.interrupt_ns);
            }
            set(Stage::Unknown, 0);
        }
        Below::Unknown => set(Stage::Unknown, times.complete_ns - times.submit_ns),
        Below::Unobserved => {
            set(Stage::Fs, times.complete_ns - times.submit_ns);
            set(Stage::Unknown, 0);
        }
    }
    stages
}
