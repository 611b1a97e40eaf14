//! From requests to rows. Without a case it only tallies the workload's operations.
use crate::apart::Slowest;
use crate::components::host::Turn;
use crate::components::interrupts::HandlerRun;
use crate::components::pages::CachePiece;
use crate::models::prefetch::Account;
use crate::observation::{Losses, Observation};
use crate::request::{Level, Request};
use crate::tally::Tally;
use crate::writer::CaseSink;
use case::schema::{EventRow, GapRow, Layer, LinkKind, Op, Stage};
use std::collections::BTreeMap;

/// What the truth needs of single operations.
#[derive(Clone, Debug)]
pub enum Judged {
    /// The slowest.
    Slowest(Slowest),
    /// Latency, ns, of these (by id).
    These(BTreeMap<u64, u64>),
}

impl Judged {
    fn add(&mut self, op: Op, op_id: u64, start_ns: u64, latency_ns: u64, size_bytes: u32) {
        match self {
            Judged::Slowest(slowest) => slowest.add(op, op_id, start_ns, latency_ns, size_bytes),
            Judged::These(these) => {
                if let Some(own_ns) = these.get_mut(&op_id) {
                    *own_ns = latency_ns;
                }
            }
        }
    }
}

/// Where rows go.
pub struct Recorder {
    /// The workload's operations in numbers.
    pub tally: Tally,
    /// The case; None while a scenario is only measured.
    pub sink: Option<Box<CaseSink>>,
    /// Whether the workload's operations are also what the server sees (no protocol between).
    pub local: bool,
    /// What the truth needs of single operations; None where nobody asks for it.
    pub judged: Option<Judged>,
    /// What a recorder would have seen.
    pub observation: Observation,
    /// What components know at the end, for the outcome: name with unit, value.
    pub facts: BTreeMap<String, f64>,
    slots: [u64; 3],
    volume_rows: u64,
}

/// Ring of rows that a level goes to.
pub(crate) fn ring_of(level: Level) -> usize {
    match level {
        Level::App => 0,
        Level::Syscall => 1,
        Level::Volume | Level::Block | Level::Borrowed | Level::Internal => 2,
    }
}

impl Recorder {
    /// A recorder that tallies, and writes a case if there is a sink.
    pub fn new(tally: Tally, sink: Option<Box<CaseSink>>, local: bool) -> Recorder {
        Recorder {
            tally,
            sink,
            local,
            judged: None,
            observation: Observation::exact(),
            facts: BTreeMap::new(),
            slots: [0; 3],
            volume_rows: 0,
        }
    }

    /// The same, of which a recorder sees only a part.
    pub fn observed(mut self, observation: Observation, losses: Losses) -> Recorder {
        if let Some(sink) = &mut self.sink {
            sink.observe(observation.clone(), losses, self.local);
        }
        self.observation = observation;
        self
    }

    /// A stage as it is seen: what the run queue holds up is part of `without` where the scheduler is not watched.
    #[inline]
    pub fn stage_of(&self, stage: Stage, without: Stage) -> Stage {
        match stage {
            Stage::Runqueue if !self.observation.scheduler => without,
            stage => stage,
        }
    }

    /// Numbers a new request. Ids of App requests come from the client (worker and sequence).
    #[inline]
    pub(crate) fn begin(&mut self, request: &mut Request) {
        if !request.level.is_recorded() {
            return;
        }
        let slot = &mut self.slots[ring_of(request.level)];
        request.slot = *slot;
        *slot += 1;
        match request.level {
            Level::App if self.local && self.observation.syscalls => {
                request.lower_id = Layer::Syscall.op_id_base() | request.slot
            }
            Level::Syscall => request.op_id = Layer::Syscall.op_id_base() | request.slot,
            Level::Volume => request.op_id = Layer::Block.op_id_base() | request.slot,
            Level::Block => {
                request.op_id = Layer::Block.op_id_base() | request.slot;
                request.lower_id = Layer::Device.op_id_base() | request.slot;
            }
            _ => {}
        }
        if let Some(sink) = &mut self.sink {
            sink.reserve(request);
        }
    }

    /// A complete request becomes its rows.
    #[inline]
    pub(crate) fn row(&mut self, request: &Request) {
        if request.level == Level::App {
            let (start_ns, latency_ns) = (request.start_ns, request.latency_ns());
            self.tally
                .add(request.op, start_ns, latency_ns, request.size_bytes);
            if let Some(judged) = self.judged.as_mut().filter(|_| self.tally.measures(start_ns)) {
                judged.add(
                    request.op,
                    request.op_id,
                    start_ns,
                    latency_ns,
                    request.size_bytes,
                );
            }
        }
        if let Some(sink) = &mut self.sink {
            if request.level.is_recorded() {
                sink.rows(request, self.local && self.observation.syscalls, false);
            }
        }
        self.volume_rows += u64::from(request.level == Level::Volume);
    }

    /// A request that is still in flight at the end.
    pub(crate) fn open_row(&mut self, request: &Request) {
        if let Some(sink) = &mut self.sink {
            sink.rows(request, self.local && self.observation.syscalls, true);
        }
    }

    /// `parent` waited for `child`.
    #[inline]
    pub(crate) fn link(&mut self, parent: &Request, child: &Request) {
        let Some(sink) = &mut self.sink else { return };
        if child.op_id == 0 {
            return;
        }
        let kind = match parent.level {
            Level::Volume => LinkKind::Stacked,
            _ => LinkKind::WaitsFor,
        };
        let parent_id = if parent.level == Level::App && parent.lower_id != 0 {
            parent.lower_id
        } else {
            parent.op_id
        };
        sink.link(parent_id, child.op_id, child.size_bytes, kind);
    }

    /// `child` writes back what `parent_id` dirtied.
    pub fn carries(&mut self, parent_id: u64, child_id: u64, bytes: u32) {
        if let Some(sink) = &mut self.sink {
            sink.link(parent_id, child_id, bytes, LinkKind::Carries);
        }
    }

    /// Something happened.
    pub fn event(&mut self, time_ns: u64, kind: &str, subject: &str, detail: impl FnOnce() -> String) {
        if let Some(sink) = &mut self.sink {
            sink.event(EventRow {
                time_ns: time_ns as i64,
                kind: kind.into(),
                subject: subject.into(),
                detail: detail(),
            });
        }
    }

    /// A submitter was silent.
    pub fn gap(&mut self, mut gap: GapRow) {
        if let Some(sink) = &mut self.sink {
            if !self.observation.scheduler {
                gap.state = "unobserved".into();
            }
            sink.gap(gap);
        }
    }

    /// A worker's thread did not run although it had something to do.
    #[inline]
    pub fn wait(&mut self, worker: usize, cpu: usize, start_ns: u64, turn: &Turn) {
        if let Some(sink) = self.sink.as_mut().filter(|_| self.observation.scheduler) {
            sink.wait(worker, cpu, start_ns, turn);
        }
    }

    /// A sampled value of a component.
    pub fn series(&mut self, now_ns: u64, subject: &str, metric: &'static str, value: f64) {
        if let Some(sink) = &mut self.sink {
            sink.series(now_ns, subject, metric, value);
        }
    }

    /// An interrupt handler has run.
    #[inline]
    pub fn handler_run(&mut self, run: HandlerRun) {
        if let Some(sink) = self.sink.as_mut().filter(|_| self.observation.interrupts) {
            sink.handler_run(run);
        }
    }

    /// A piece of a read was served by a tier of the cache.
    #[inline]
    pub fn cache_piece(&mut self, op_id: u64, piece: CachePiece) {
        if let Some(sink) = &mut self.sink {
            sink.cache_piece(op_id, piece);
        }
    }

    /// What the prefetcher did for a file in a window of time.
    pub fn prefetch_window(&mut self, file: u16, start_ns: u64, duration_ns: u64, window: &Account) {
        let parts = [
            ("prefetch_issued_bytes", window.issued_bytes),
            ("prefetch_used_bytes", window.used_bytes),
            ("prefetch_wasted_bytes", window.wasted_bytes),
            ("prefetch_missed_bytes", window.missed_bytes),
        ];
        for (name, bytes) in parts {
            *self.facts.entry(name.into()).or_default() += bytes as f64;
        }
        if let Some(sink) = &mut self.sink {
            sink.prefetch_window(file, start_ns, duration_ns, window);
        }
    }

    /// Whether rows are wanted at all; spares the making of rows that would be dropped.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.sink.is_some()
    }
}
