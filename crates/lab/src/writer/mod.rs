//! The sealed case of a run: rows in order of begin, written while the run goes on.
//!
//! Memory: the rows of requests that began after the oldest unfinished one of their level (about 600 bytes each), and
//! one batch per table. Bytes depend on scenario, settings and seed only: virtual time starts at a fixed date, and
//! neither the path of the case nor the number of threads is written into it.
mod rows;

use crate::components::host::Turn;
use crate::components::interrupts::{HandlerRun, FIRST_VECTOR};
use crate::components::pages::CachePiece;
use crate::models::prefetch::Account;
use crate::observation::{Losses, Observation};
use crate::recorder::ring_of;
use crate::request::{Level, Request};
use case::meta::{CaseMeta, Phase, SystemMeta, Unseen};
use case::schema::{
    CacheRow, EventRow, GapRow, IrqKind, IrqRow, Layer, LinkKind, LinkRow, NameId, OpRow, PrefetchRow,
    SeriesRow, SubjectKind, WaitRow, WaitState, EVENT_CONTINUED, EVENT_STOPPED,
};
use case::sealed::{Names, SealWriter};
use case::CaseError;
use rows::layer_meta;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use workload::rng::Rng;

/// Name of the file with the truth.
pub const TRUTH_JSON: &str = "truth.json";

/// When virtual time begins; any fixed date will do.
const START_UTC: &str = "2000-01-01T00:00:00.000000000Z";

/// A submitting thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Command name.
    pub comm: String,
}

/// Names that rows refer to by index.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    /// Host.
    pub host: String,
    /// Devices: drives first, then volumes.
    pub devices: Vec<String>,
    /// Whether there is a volume.
    pub stacked: bool,
    /// Files.
    pub files: Vec<String>,
    /// Submitting threads.
    pub threads: Vec<Thread>,
}

/// What stops threads in the lab, and who else wants their CPUs.
const STOP_CAUSE: &str = "SIGSTOP";
const OTHER_COMM: &str = "cc1plus";
const OTHER_PID: i32 = 4001;

struct NamedThread {
    /// Up to here its waits are written.
    waited_to_ns: u64,
    pid: i32,
    tid: i32,
    comm: NameId,
}

/// Rows of one request: its own and, where it has one, that of the layer below.
type Rows = (Option<(Layer, OpRow)>, Option<(Layer, OpRow)>);

/// Rows in order of begin: a place is reserved when a request begins and filled when it ends.
#[derive(Default)]
struct Ring {
    first: u64,
    places: VecDeque<Option<Box<Rows>>>,
}

/// A case that is being written.
pub struct CaseSink {
    case_dir: PathBuf,
    writer: SealWriter,
    names: Names,
    host: NameId,
    devices: Vec<NameId>,
    files: Vec<NameId>,
    threads: Vec<NamedThread>,
    rings: [Ring; 3],
    rows: BTreeMap<Layer, u64>,
    /// There is a volume. Its rows have stages of their own.
    stacked: bool,
    observation: Observation,
    losses: Losses,
    error: Option<CaseError>,
}

impl CaseSink {
    /// Begins a case in `case_dir`, which exists and is empty.
    pub fn create(case_dir: &Path, cast: &Cast) -> Result<CaseSink, CaseError> {
        let mut names = Names::default();
        let host = names.id(&cast.host);
        let devices = cast.devices.iter().map(|name| names.id(name)).collect();
        let files = cast.files.iter().map(|name| names.id(name)).collect();
        let threads = cast.threads.iter().map(|thread| NamedThread {
            waited_to_ns: 0,
            pid: thread.pid,
            tid: thread.tid,
            comm: names.id(&thread.comm),
        });
        let threads = threads.collect();
        let writer = SealWriter::create(case_dir)?;
        Ok(CaseSink {
            case_dir: case_dir.to_owned(),
            writer,
            names,
            host,
            devices,
            files,
            threads,
            rings: Default::default(),
            rows: BTreeMap::new(),
            stacked: cast.stacked,
            losses: Losses::new(&Observation::exact(), Rng::new(0, 0)),
            observation: Observation::exact(),
            error: None,
        })
    }

    /// Says what is seen of the run; `local`: system calls are those of the workload itself.
    pub(crate) fn observe(&mut self, observation: Observation, losses: Losses, local: bool) {
        for layer in Layer::ALL {
            let is_seen = match layer {
                Layer::Syscall => observation.syscalls || !local,
                Layer::Device => observation.device,
                Layer::App | Layer::Block => true,
            };
            if is_seen {
                self.writer.declare(layer);
                self.rows.insert(layer, 0);
            }
        }
        (self.observation, self.losses) = (observation, losses);
    }

    /// Reserves the place of a request that begins.
    pub(crate) fn reserve(&mut self, request: &Request) {
        let ring = &mut self.rings[ring_of(request.level)];
        assert_eq!(
            ring.first + ring.places.len() as u64,
            request.slot,
            "requests begin in order"
        );
        ring.places.push_back(None);
        if matches!(request.level, Level::Volume | Level::Block) {
            self.losses.begin(request.op_id, request.start_ns);
        }
    }

    /// Fills the place of a request, and writes what is in order by now.
    pub(crate) fn rows(&mut self, request: &Request, local: bool, open: bool) {
        let ring = &self.rings[ring_of(request.level)];
        let at = request.slot.checked_sub(ring.first).map(|at| at as usize);
        if at.is_none_or(|at| ring.places[at].is_some()) {
            // Complete before the end, but not yet taken by its owner: its row is there already.
            assert!(open, "a request ends twice");
            return;
        }
        let rows = self.make_rows(request, local, open);
        if let (Some((_, upper)), Some((_, lower))) = &rows {
            let (upper, lower) = (upper.op_id, lower.op_id);
            self.link(upper, lower, request.size_bytes, LinkKind::WaitsFor);
        }
        let ring = &mut self.rings[ring_of(request.level)];
        let place = &mut ring.places[at.unwrap_or(0)];
        *place = Some(Box::new(rows));
        while let Some(Some(_)) = ring.places.front() {
            ring.first += 1;
            if let Some(Some(rows)) = ring.places.pop_front() {
                for (layer, row) in [rows.0, rows.1].into_iter().flatten() {
                    *self.rows.entry(layer).or_default() += 1;
                    let result = self.writer.op(layer, &row, &self.names);
                    keep_first(&mut self.error, result);
                }
            }
        }
    }

    pub(crate) fn link(&mut self, parent_id: u64, child_id: u64, bytes: u32, kind: LinkKind) {
        if !self.losses.can_link(parent_id, child_id) {
            return;
        }
        let row = LinkRow {
            parent_id,
            child_id,
            bytes: i64::from(bytes),
            kind,
        };
        let result = self.writer.link(&row);
        keep_first(&mut self.error, result);
    }

    pub(crate) fn event(&mut self, row: EventRow) {
        let result = self.writer.event(&row);
        keep_first(&mut self.error, result);
    }

    pub(crate) fn gap(&mut self, mut row: GapRow) {
        let (start_ns, duration_ns) = (row.start_ns as u64, row.duration_ns as u64);
        row.start_ns = self.observation.moment(start_ns) as i64;
        row.duration_ns = self.observation.length(start_ns, duration_ns) as i64;
        let thread = self.threads.iter().find(|thread| thread.tid == row.tid);
        row.comm = thread.map(|thread| thread.comm);
        let result = self.writer.gap(&row, &self.names);
        keep_first(&mut self.error, result);
    }

    /// What a worker's thread did instead of running; one row however many operations it held up.
    pub(crate) fn wait(&mut self, worker: usize, cpu: usize, start_ns: u64, turn: &Turn) {
        let state = match turn.state {
            "stopped" => WaitState::Stopped,
            "runnable" => WaitState::Runnable,
            _ => return,
        };
        let Some(thread) = self.threads.get_mut(worker) else {
            return;
        };
        let start_ns = start_ns.max(thread.waited_to_ns);
        if turn.running_ns <= start_ns {
            return;
        }
        thread.waited_to_ns = turn.running_ns;
        let (tid, pid, comm) = (thread.tid, thread.pid, thread.comm);
        let (cause, cause_pid) = match state {
            WaitState::Stopped => (STOP_CAUSE, None),
            _ => (OTHER_COMM, Some(OTHER_PID)),
        };
        let row = WaitRow {
            tid,
            pid: Some(pid),
            comm: Some(comm),
            cpu: Some(cpu as i32),
            start_ns: self.observation.moment(start_ns) as i64,
            duration_ns: self.observation.length(start_ns, turn.running_ns - start_ns) as i64,
            state,
            cause: Some(self.names.id(cause)),
            cause_pid,
            waker: None,
            waker_pid: None,
            waker_tid: None,
        };
        let result = self.writer.row(&row, &self.names);
        keep_first(&mut self.error, result);
        if state == WaitState::Stopped {
            let subject = format!("process {pid}");
            for (time_ns, kind) in [(start_ns, EVENT_STOPPED), (turn.running_ns, EVENT_CONTINUED)] {
                self.event(EventRow {
                    time_ns: time_ns as i64,
                    kind: kind.into(),
                    subject: subject.clone(),
                    detail: format!("the thread was {kind} by {cause}"),
                });
            }
        }
    }

    pub(crate) fn handler_run(&mut self, run: HandlerRun) {
        let row = IrqRow {
            host: Some(self.host),
            cpu: run.cpu as i32,
            vector: Some(i32::from(FIRST_VECTOR) + run.vector as i32),
            handler: self.names.id(&run.handler),
            kind: IrqKind::Hard,
            device: run
                .drive
                .and_then(|drive| self.devices.get(drive as usize).copied()),
            start_ns: self.observation.moment(run.start_ns) as i64,
            duration_ns: self.observation.length(run.start_ns, run.duration_ns) as i64,
        };
        let result = self.writer.row(&row, &self.names);
        keep_first(&mut self.error, result);
    }

    pub(crate) fn cache_piece(&mut self, op_id: u64, piece: CachePiece) {
        let row = CacheRow {
            op_id,
            tier: piece.tier.into(),
            file: self.files.get(piece.file as usize).copied(),
            offset_bytes: Some(piece.offset_bytes as i64),
            size_bytes: i64::from(piece.size_bytes),
            wait_ns: piece.wait_ns as i64,
        };
        let result = self.writer.row(&row, &self.names);
        keep_first(&mut self.error, result);
    }

    pub(crate) fn prefetch_window(&mut self, file: u16, start_ns: u64, duration_ns: u64, window: &Account) {
        let Some(file) = self.files.get(file as usize).copied() else {
            return;
        };
        let row = PrefetchRow {
            file,
            start_ns: start_ns as i64,
            duration_ns: duration_ns as i64,
            issued_bytes: window.issued_bytes as i64,
            used_bytes: window.used_bytes as i64,
            wasted_bytes: window.wasted_bytes as i64,
            late_bytes: Some(window.late_bytes as i64),
            missed_bytes: Some(window.missed_bytes as i64),
        };
        let result = self.writer.row(&row, &self.names);
        keep_first(&mut self.error, result);
    }

    pub(crate) fn series(&mut self, now_ns: u64, subject: &str, metric: &'static str, value: f64) {
        let subject = self.names.id(subject);
        let row = SeriesRow {
            time_ns: now_ns as i64,
            host: Some(self.host),
            kind: match self.devices.contains(&subject) {
                true => SubjectKind::Device,
                false => SubjectKind::Component,
            },
            subject,
            metric: self.names.id(metric),
            value,
        };
        let result = self.writer.row(&row, &self.names);
        keep_first(&mut self.error, result);
    }

    /// Seals the case: every place must be filled by now.
    ///
    /// Errors: the operating system refused to write; the first error of the run is the one returned.
    pub fn seal(mut self, about: About) -> Result<(), CaseError> {
        for ring in &self.rings {
            assert!(
                ring.places.is_empty(),
                "conservation: {} requests have no row",
                ring.places.len()
            );
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        for row in self.losses.rows() {
            self.writer.loss(row)?;
        }
        let tables = self.writer.finish()?;
        let mut meta = CaseMeta::new("lab", env!("CARGO_PKG_VERSION"));
        meta.argv = about.argv;
        meta.start_utc = START_UTC.into();
        meta.clock = case::meta::Clock {
            name: "virtual".into(),
            host: about.system.host.clone(),
            start_ns: 0,
            resolution_ns: self.observation.clock_ns,
        };
        meta.duration_ns = Some(about.duration_ns as i64);
        meta.state = case::meta::State::Sealed;
        meta.simulated = true;
        meta.phases = about.phases;
        meta.workload = Some(about.workload);
        meta.not_observed = about.not_observed;
        for (layer, rows) in self.rows {
            let seen = layer_meta(layer, rows, &self.observation, self.stacked);
            meta.layers.insert(layer.name().into(), seen);
        }
        meta.tables = tables;
        about.system.write(&self.case_dir)?;
        let path = self.case_dir.join(TRUTH_JSON);
        std::fs::write(&path, about.truth).map_err(|error| CaseError::io(&path, "write", error))?;
        meta.write(&self.case_dir)
    }
}

/// What `case.json`, `system.json` and `truth.json` say beyond the rows.
pub struct About {
    /// A command that gives these bytes again.
    pub argv: Vec<String>,
    /// Length of the run.
    pub duration_ns: u64,
    /// Ramp and measure.
    pub phases: Vec<Phase>,
    /// Specification and summary.
    pub workload: serde_json::Value,
    /// The modelled machine.
    pub system: SystemMeta,
    /// Text of `truth.json`.
    pub truth: Vec<u8>,
    /// What the model leaves out.
    pub not_observed: Vec<Unseen>,
}

fn keep_first(error: &mut Option<CaseError>, result: Result<(), CaseError>) {
    if let (None, Err(first)) = (error.as_ref(), result) {
        *error = Some(first);
    }
}
