//! The loop of one worker: start operations when they are due, log them when they end.
use crate::backend::{Backend, Wait};
use crate::buffers::Buffers;
use crate::clock::mono_ns;
use crate::log::{Producer, Shared};
use crate::mix::{Access, Mix};
use crate::schedule::Schedule;
use crate::WorkloadError;
use case::rows::AppRow;
use case::schema::{Layer, Op};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A fixed-rate worker looks at the stop flag at least this often.
const LOOK_NS: u64 = 50_000_000;

/// A wait is ended early by up to this, and the rest is spent looking at the clock: timers come late.
const SPIN_NS_MAX: u64 = 60_000;

/// Below this a sleep would end late almost always; above it at most an eighth of a wait is spun.
const SPIN_NS_ALWAYS: u64 = 20_000;

/// What one worker did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) ops: u64,
    pub(crate) errors: u64,
    pub(crate) short: u64,
    /// Operations with a batch that ended inside the measured phase.
    pub(crate) ops_measured: u64,
    /// Intended starts inside the measured phase, missed ones included.
    pub(crate) offered_measured: u64,
    pub(crate) missed_slots: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) syncs: u64,
    pub(crate) log_stalls_ns: u64,
    pub(crate) last_reap_ns: u64,
    /// errno -> operations.
    pub(crate) errno: std::collections::BTreeMap<i32, u64>,
}

/// When a worker's phases begin and end, CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) measure_ns: u64,
    /// `u64::MAX`: only the number of operations ends it.
    pub(crate) end_ns: u64,
}

/// What a worker shares with the rest of the run.
pub(crate) struct Context<'c> {
    pub(crate) stop: &'c AtomicBool,
    pub(crate) shared: &'c Shared,
    /// Errors so far, for progress.
    pub(crate) errors: &'c AtomicU64,
    pub(crate) target_names: &'c [String],
    pub(crate) times: Times,
}

/// What one worker is to do.
pub(crate) struct Plan {
    pub(crate) worker: u32,
    pub(crate) queue_depth: u32,
    /// Operations it may start.
    pub(crate) quota: u64,
    pub(crate) mix: Mix,
    pub(crate) schedule: Schedule,
}

/// Operations in flight by id: open addressing, so a straggler costs its neighbours one more probe.
struct InFlight {
    rows: Box<[(AppRow, u32)]>,
    mask: usize,
    len: usize,
}

impl InFlight {
    fn new(queue_depth: usize) -> InFlight {
        let capacity = (queue_depth * 2).next_power_of_two();
        InFlight {
            rows: vec![(AppRow::default(), 0); capacity].into_boxed_slice(),
            mask: capacity - 1,
            len: 0,
        }
    }

    /// Returns the index, which stays until the row is removed.
    #[inline]
    fn insert(&mut self, row: AppRow, slot: u32) -> usize {
        assert!(
            self.len <= self.mask,
            "more operations in flight than queue_depth"
        );
        let mut index = row.op_id as usize & self.mask;
        while self.rows[index].0.op_id != 0 {
            index = (index + 1) & self.mask;
        }
        self.rows[index] = (row, slot);
        self.len += 1;
        index
    }

    /// Index of an operation that is in flight. No early end at empty cells: removals leave holes.
    #[inline]
    fn find(&self, op_id: u64) -> usize {
        let mut index = op_id as usize & self.mask;
        for _ in 0..self.rows.len() {
            if self.rows[index].0.op_id == op_id {
                return index;
            }
            index = (index + 1) & self.mask;
        }
        panic!("completion of {op_id:#x}, which is not in flight");
    }

    /// Frees the cell of [`InFlight::find`].
    #[inline]
    fn remove(&mut self, index: usize) {
        self.rows[index].0.op_id = 0;
        self.len -= 1;
    }
}

/// One worker.
pub(crate) struct Worker<'c, B> {
    context: &'c Context<'c>,
    backend: B,
    buffers: &'c Buffers,
    mix: Mix,
    schedule: Schedule,
    log: Producer,
    in_flight: InFlight,
    free_slots: Vec<u32>,
    /// Cells queued since the last submit.
    queued: Vec<usize>,
    op_id_next: u64,
    /// Operations this worker may still start.
    quota: u64,
    /// Drawn, but not yet startable.
    held: Option<Access>,
    syncing: bool,
    /// How late waits ended lately.
    oversleep_ns: u64,
    totals: Totals,
}

impl<'c, B: Backend> Worker<'c, B> {
    pub(crate) fn new(
        context: &'c Context<'c>,
        plan: Plan,
        backend: B,
        buffers: &'c Buffers,
        log: Producer,
    ) -> Self {
        let Plan {
            worker,
            queue_depth,
            quota,
            mix,
            schedule,
        } = plan;
        Worker {
            context,
            backend,
            buffers,
            mix,
            schedule,
            log,
            in_flight: InFlight::new(queue_depth as usize),
            free_slots: (0..queue_depth).rev().collect(),
            queued: Vec::with_capacity(queue_depth as usize),
            op_id_next: Layer::App.op_id_base() | u64::from(worker) << 40 | 1,
            quota,
            held: None,
            syncing: false,
            oversleep_ns: 0,
            totals: Totals::default(),
        }
    }

    /// Runs to the end and drains what is in flight.
    pub(crate) fn run(mut self) -> Result<Totals, WorkloadError> {
        let mut now_ns = mono_ns();
        let mut ended_ns = None;
        loop {
            if ended_ns.is_none() {
                ended_ns = self.end(now_ns);
            }
            if ended_ns.is_none() {
                self.start_due(now_ns)?;
            }
            if self.in_flight.len == 0 && (ended_ns.is_some() || self.quota == 0) {
                break;
            }
            let wait = if ended_ns.is_some() {
                Wait::Completion
            } else {
                self.wait(now_ns)
            };
            self.stamp_submit();
            self.backend.enter(wait)?;
            now_ns = self.reap();
            self.learn_oversleep(wait, now_ns);
        }
        self.account_missed(ended_ns.unwrap_or(self.context.times.end_ns));
        self.totals.log_stalls_ns = self.log.stalls_ns;
        Ok(self.totals)
    }

    /// The moment at which this worker stops starting operations, once it has come.
    fn end(&self, now_ns: u64) -> Option<u64> {
        if now_ns >= self.context.times.end_ns {
            return Some(self.context.times.end_ns);
        }
        let stopped =
            self.context.stop.load(Ordering::Relaxed) || self.context.shared.failed.load(Ordering::Relaxed);
        stopped.then_some(now_ns)
    }

    /// Starts every operation that is due and may start. The last one is queued only: the next enter takes it.
    #[inline]
    fn start_due(&mut self, now_ns: u64) -> Result<(), WorkloadError> {
        while self.quota > 0 && !self.syncing && !self.free_slots.is_empty() {
            let intended_ns = self.schedule.next_ns();
            if intended_ns.is_some_and(|intended| intended > now_ns) {
                break;
            }
            let access = self.held.take().unwrap_or_else(|| self.mix.next_access());
            if access.op == Op::Sync {
                if self.in_flight.len > 0 {
                    self.held = Some(access);
                    break;
                }
                self.syncing = true;
            }
            // One by one: the block layer holds a batch back until its last operation is there (it plugs), and the
            // device would idle while the operations that have just completed are all prepared again.
            if !self.queued.is_empty() {
                self.stamp_submit();
                self.backend.submit()?;
            }
            self.start(access, intended_ns.unwrap_or(0));
        }
        Ok(())
    }

    #[inline]
    fn start(&mut self, access: Access, intended_ns: u64) {
        let Some(slot) = self.free_slots.pop() else { return };
        let op_id = self.op_id_next;
        self.op_id_next += 1;
        self.quota -= 1;
        self.schedule.advance();
        if intended_ns >= self.context.times.measure_ns {
            self.totals.offered_measured += 1;
        }
        if access.op == Op::Write {
            self.buffers.vary(slot as usize, access.size_bytes, op_id);
        }
        self.backend.queue(&access, op_id, slot as usize);
        let row = AppRow {
            op_id,
            intended_ns,
            offset_bytes: access.offset_bytes,
            size_bytes: access.size_bytes,
            queue_depth: self.in_flight.len as u32 + 1,
            op: access.op as u8,
            file: access.file,
            ..AppRow::default()
        };
        self.queued.push(self.in_flight.insert(row, slot));
    }

    /// How long the next enter may wait.
    fn wait(&self, now_ns: u64) -> Wait {
        let can_start = self.quota > 0 && !self.syncing && self.held.is_none() && !self.free_slots.is_empty();
        let due_ns = match self.schedule.next_ns() {
            Some(due_ns) if can_start => due_ns.min(self.context.times.end_ns),
            _ => return Wait::Completion,
        };
        let spin_ns_allowed = (due_ns.saturating_sub(now_ns) / 8).clamp(SPIN_NS_ALWAYS, SPIN_NS_MAX);
        let spin_ns = (self.oversleep_ns + self.oversleep_ns / 2).min(spin_ns_allowed);
        if due_ns <= now_ns + spin_ns {
            return Wait::No;
        }
        Wait::Until((due_ns - spin_ns).min(now_ns + LOOK_NS))
    }

    /// A moving average of how late timed waits end; spinning covers one and a half times that.
    fn learn_oversleep(&mut self, wait: Wait, now_ns: u64) {
        if let Wait::Until(until_ns) = wait {
            if now_ns >= until_ns {
                self.oversleep_ns = (self.oversleep_ns * 7 + (now_ns - until_ns).min(SPIN_NS_MAX)) / 8;
            }
        }
    }

    /// One stamp for all operations of a batch, taken just before the kernel gets them.
    #[inline]
    fn stamp_submit(&mut self) {
        if self.queued.is_empty() {
            return;
        }
        let submit_ns = mono_ns();
        for index in self.queued.drain(..) {
            let row = &mut self.in_flight.rows[index].0;
            row.submit_ns = submit_ns;
            // Zero: a closed loop, which means to start an operation when it does.
            if row.intended_ns == 0 {
                row.intended_ns = submit_ns;
            }
        }
    }

    /// Logs every completion at hand; returns the last stamp taken.
    #[inline]
    fn reap(&mut self) -> u64 {
        let complete_ns = mono_ns();
        let mut reap_ns = complete_ns;
        let ops_before = self.totals.ops;
        let Self {
            backend,
            in_flight,
            free_slots,
            log,
            totals,
            context,
            syncing,
            ..
        } = self;
        backend.completions(|op_id, result| {
            reap_ns = mono_ns();
            let index = in_flight.find(op_id);
            let (row, slot) = &mut in_flight.rows[index];
            row.complete_ns = complete_ns;
            row.reap_ns = reap_ns;
            free_slots.push(*slot);
            totals.ops += 1;
            if result == row.size_bytes as i32 && result > 0 {
                let is_write = u64::from(row.op == Op::Write as u8);
                totals.written_bytes += is_write * result as u64;
                totals.read_bytes += (1 - is_write) * result as u64;
            } else {
                unusual(context, totals, row, result);
                *syncing = *syncing && row.op != Op::Sync as u8;
            }
            log.push(row);
            in_flight.remove(index);
        });
        let reaped = totals.ops - ops_before;
        if reaped > 0 {
            totals.last_reap_ns = reap_ns;
            if (context.times.measure_ns..context.times.end_ns).contains(&complete_ns) {
                totals.ops_measured += reaped;
            }
            log.publish();
        }
        reap_ns
    }

    fn account_missed(&mut self, end_ns: u64) {
        let times = self.context.times;
        let end_ns = if end_ns == u64::MAX {
            self.totals.last_reap_ns
        } else {
            end_ns
        };
        let ramp = self
            .schedule
            .clone()
            .remaining_before(times.measure_ns.min(end_ns), self.quota);
        let missed = self.schedule.clone().remaining_before(end_ns, self.quota);
        self.totals.missed_slots = missed;
        self.totals.offered_measured += missed - ramp;
    }
}

/// A sync, an error or a short transfer.
#[cold]
fn unusual(context: &Context, totals: &mut Totals, row: &mut AppRow, result: i32) {
    if result == 0 && row.op == Op::Sync as u8 {
        totals.syncs += 1;
        return;
    }
    totals.errors += 1;
    context.errors.fetch_add(1, Ordering::Relaxed);
    if result < 0 {
        row.error = -result;
    } else {
        row.error = libc::EIO;
        totals.short += 1;
        let op = Op::from_raw(row.op).map_or("operation", Op::name);
        let detail = format!(
            "short {op}: {result} of {} bytes at offset {}, operation {:#x}",
            row.size_bytes, row.offset_bytes, row.op_id
        );
        let name = context
            .target_names
            .get(usize::from(row.file))
            .map_or("", String::as_str);
        context.shared.event("error", name, detail);
    }
    *totals.errno.entry(row.error).or_insert(0) += 1;
}
