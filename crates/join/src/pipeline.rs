//! Raw rows in, sealed rows out: two passes over all streams, in bounded memory.
//!
//! The first pass reads times only (see [`crate::reorder`]). The second reads the block stream, puts it
//! in order of start, numbers its requests, and hands those of our own operations to the join; an app
//! row is taken up as soon as every request that began before it was reaped has its number.
//!
//! Held at any time: what [`crate::reorder`] holds of each stream, the requests of operations that are not reaped
//! yet, the look-ahead of [`crate::merges`], and a rhythm per thread ([`crate::gaps`]).
use crate::app_side::AppSide;
use crate::beside::{Streams, Surveys};
use crate::block_side::BlockSide;
use crate::children::{Child, Children};
use crate::foreign::ForeignHandlers;
use crate::gaps::{Silence, Thread};
use crate::held_back::HeldBack;
use crate::journals::Journals;
use crate::kernel::CmdFlags;
use crate::own_side::OwnSide;
use crate::reorder::{Plan, Scan, STRAGGLERS_MAX};
use crate::served::Served;
use crate::sorted::Surveyed;
use crate::stages::block_entry_ns;
use crate::stops::Stops;
use crate::stream::Stream;
use crate::syscalls::{Share, SyscallSide, Watched, CLASSES};
use crate::volumes::VolumeSurvey;
use case::raw::{RawRow, Truncation};
use case::rows::{
    AppRow, BioMemberRow, BioRow, BlockCarrierRow, BlockMergeRow, BlockRow, OwnRow, SyscallRow,
};
use case::schema::{
    CacheRow, EventRow, GapRow, IrqRow, Layer, LinkRow, NameId, OpRow, PrefetchRow, SeriesRow, WaitRow,
};
use case::sealed::{Names, SealWriter};
use case::CaseError;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How far a seal has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, as a person would say it.
    pub step: &'static str,
    /// Rows read so far, over both passes.
    pub rows_done: u64,
    /// Rows that will have been read at the end; `None` until the first pass has counted them.
    pub rows_total: Option<u64>,
}

/// A row of a table beside the operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// `waits/`.
    Wait(WaitRow),
    /// `irqs/`.
    Irq(IrqRow),
    /// `series/`.
    Series(SeriesRow),
    /// `prefetch/`.
    Prefetch(PrefetchRow),
    /// `cache/`.
    Cache(CacheRow),
}

/// Where sealed rows go.
pub trait Sink {
    /// See [`SealWriter::op`].
    fn op(&mut self, layer: Layer, row: &OpRow, names: &Names) -> Result<(), CaseError>;
    /// See [`SealWriter::link`].
    fn link(&mut self, row: &LinkRow) -> Result<(), CaseError>;
    /// See [`SealWriter::gap`].
    fn gap(&mut self, row: &GapRow, names: &Names) -> Result<(), CaseError>;
    /// See [`SealWriter::event`].
    fn event(&mut self, row: &EventRow) -> Result<(), CaseError>;
    /// See [`SealWriter::row`].
    fn row(&mut self, row: &Row, names: &Names) -> Result<(), CaseError>;
}

impl Sink for SealWriter {
    fn op(&mut self, layer: Layer, row: &OpRow, names: &Names) -> Result<(), CaseError> {
        SealWriter::op(self, layer, row, names)
    }
    fn link(&mut self, row: &LinkRow) -> Result<(), CaseError> {
        SealWriter::link(self, row)
    }
    fn gap(&mut self, row: &GapRow, names: &Names) -> Result<(), CaseError> {
        SealWriter::gap(self, row, names)
    }
    fn event(&mut self, row: &EventRow) -> Result<(), CaseError> {
        SealWriter::event(self, row)
    }
    fn row(&mut self, row: &Row, names: &Names) -> Result<(), CaseError> {
        match row {
            Row::Wait(row) => SealWriter::row(self, row, names),
            Row::Irq(row) => SealWriter::row(self, row, names),
            Row::Series(row) => SealWriter::row(self, row, names),
            Row::Prefetch(row) => SealWriter::row(self, row, names),
            Row::Cache(row) => SealWriter::row(self, row, names),
        }
    }
}

/// What an engine worker is: the metadata of its stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worker {
    /// Number: bits 40-55 of its operation ids.
    pub number: u16,
    /// Process.
    pub pid: Option<i32>,
    /// Thread.
    pub tid: Option<i32>,
    /// Command name.
    pub comm: Option<String>,
    /// Paths, by index.
    pub files: Vec<String>,
    /// Direct I/O: its operations reach the block layer as requests of their own.
    pub direct: bool,
    /// The engine's null target: its operations never enter the kernel.
    pub null: bool,
    /// Fixed rate instead of a closed loop.
    pub rate: bool,
}

/// The streams of a recording and what must be known to read them.
pub struct Inputs<'a> {
    /// Engine workers in order of their number; empty without an app layer.
    pub workers: Vec<(Worker, &'a dyn Stream<AppRow>)>,
    /// Block requests, if they were recorded.
    pub block: Option<&'a dyn Stream<BlockRow>>,
    /// Merged bios of own operations.
    pub merges: Option<&'a dyn Stream<BlockMergeRow>>,
    /// What carriers of flushes waited for.
    pub carriers: Option<&'a dyn Stream<BlockCarrierRow>>,
    /// Bios of volumes.
    pub bios: Option<&'a dyn Stream<BioRow>>,
    /// Which requests of members come from which place of a volume.
    pub bio_members: Option<&'a dyn Stream<BioMemberRow>>,
    /// CLOCK_MONOTONIC of the case's start.
    pub start_ns: u64,
    /// CLOCK_MONOTONIC of the recording's end; the last event where it is not known.
    pub end_ns: Option<u64>,
    /// Host name.
    pub host: Option<String>,
    /// Device names by dev_t.
    pub devices: BTreeMap<u32, String>,
    /// Where journals lie that are on another device than their file systems.
    pub journals: Journals,
    /// Folders of control groups by number.
    pub cgroups: BTreeMap<u64, String>,
    /// Decoder of request flags.
    pub cmd_flags: CmdFlags,
    /// Whether the recording saw interrupts, so that their absence means something. `None` if nobody
    /// wrote it down (a killed recorder): then they were watched if any request has one.
    pub interrupts_watched: Option<bool>,
    /// When the observed process was stopped.
    pub stops: Stops,
    /// Operations of programs.
    pub syscall: Option<&'a dyn Stream<SyscallRow>>,
    /// What a program says of its own operations.
    pub own: Option<&'a dyn Stream<OwnRow>>,
    /// A server did these operations. Its system calls may have been recorded, too.
    pub served: Option<Served>,
    /// Everything else.
    pub beside: Streams<'a>,
    /// How names of interrupt handlers begin, and the device that they serve.
    pub handlers: Vec<(String, String)>,
    /// The case stores the engine's waits for a CPU in such steps, rounded down.
    pub wait_step_ns: u64,
}

/// What the join counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of `ops/layer=app/`.
    pub app_rows: u64,
    /// Rows of `ops/layer=block/`.
    pub block_rows: u64,
    /// Of those, bios of volumes.
    pub volume_rows: u64,
    /// Requests of members that were tied to a bio of a volume.
    pub members_tied: u64,
    /// Bios of members that fitted several bios of a volume, and so were tied to none.
    pub members_ambiguous: u64,
    /// Bios of members that fitted no bio of a volume.
    pub members_lost: u64,
    /// Rows of `ops/layer=syscall/`.
    pub syscall_rows: u64,
    /// Their times, by class (`CLASSES`).
    pub syscall_shares: [Share; CLASSES.len()],
    /// How the stream of system calls ended.
    pub syscall_end: StreamEnd,
    /// Rows of `links/`.
    pub links: u64,
    /// Rows of `gaps/`.
    pub gaps: u64,
    /// Events the join added (errors, requeues).
    pub events: u64,
    /// App operations with known requests.
    pub joined: u64,
    /// Calls of a server that were tied to an operation of its client.
    pub served_tied: u64,
    /// Calls of a server that fitted several operations of its client, and so were tied to none.
    pub served_ambiguous: u64,
    /// Calls of a server on the same files that fitted no operation, though some were in flight.
    pub served_alone: u64,
    /// Direct reads and writes without any request, though the block layer was watched.
    pub unjoined_direct: u64,
    /// Syncs: their requests carry no id.
    pub unjoined_sync: u64,
    /// Operations through the page cache: their requests carry no id.
    pub unjoined_buffered: u64,
    /// Operations on the engine's null target, which has no requests.
    pub unjoined_null: u64,
    /// Requests that carry an id of ours which no app stream has.
    pub unclaimed_requests: u64,
    /// Merge rows with a request that is not in the block stream.
    pub orphan_merges: u64,
    /// Rows of what a carrier waited for, with a request that is not in the block stream.
    pub orphan_carriers: u64,
    /// Operations and requests with stamps that contradicted each other.
    pub clamped: u64,
    /// First and last of those, CLOCK_MONOTONIC.
    pub clamped_span_ns: Option<(u64, u64)>,
    /// Threads of which some gaps were dropped because there were too many.
    pub threads_with_dropped_gaps: u64,
    /// Most rows held in memory at once, all structures together.
    pub rows_held_max: usize,
    /// CLOCK_MONOTONIC of the recording's end.
    pub end_ns: u64,
    /// Whether the completing interrupts were watched.
    pub interrupts_watched: bool,
    /// How each app stream ended, in order of the workers.
    pub worker_ends: Vec<StreamEnd>,
    /// How the block stream ended.
    pub block_end: StreamEnd,
    /// How the merge stream ended; its rows carry no time.
    pub merges_end: StreamEnd,
    /// How the streams beside the operations ended, by probe.
    pub beside_ends: BTreeMap<&'static str, StreamEnd>,
    /// Names of files that were not kept because there were too many.
    pub file_names_dropped: u64,
}

impl Counts {
    /// How a stream of system calls, or beside the operations, ended.
    pub fn stream_end(&self, probe: &str) -> Option<&StreamEnd> {
        if probe == SyscallRow::PROBE {
            Some(&self.syscall_end)
        } else {
            self.beside_ends.get(probe)
        }
    }
}

/// How a raw stream ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// CLOCK_MONOTONIC of its last row; 0 if there is none.
    pub last_ns: u64,
    /// `Some` if it was cut.
    pub truncation: Option<Truncation>,
}

/// Rows between two calls of the progress function.
const PROGRESS_ROWS: u64 = 1 << 16;

struct Meter<'a> {
    call: &'a mut dyn FnMut(Progress),
    now: Progress,
}

impl Meter<'_> {
    fn row(&mut self) {
        self.now.rows_done += 1;
        if self.now.rows_done.is_multiple_of(PROGRESS_ROWS) {
            (self.call)(self.now);
        }
    }

    fn step(&mut self, step: &'static str) {
        self.now.step = step;
        (self.call)(self.now);
    }
}

/// What the first pass found.
struct Plans {
    workers: Vec<Plan<AppRow>>,
    block: Plan<BlockRow>,
    /// Requests of the straggling operations, their ids not yet known.
    children: HashMap<u64, Vec<Child>>,
    worker_ends: Vec<StreamEnd>,
    block_end: StreamEnd,
    merges_end: StreamEnd,
    carriers_end: StreamEnd,
    interrupts_watched: bool,
    beside: Surveys,
    syscall: Surveyed<SyscallRow>,
    own: Surveyed<OwnRow>,
    volumes: VolumeSurvey,
}

/// Joins and writes everything except losses and the events of the recording itself.
pub fn join(
    inputs: &Inputs,
    names: &mut Names,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Counts, CaseError> {
    let first = Progress {
        step: "reading times",
        rows_done: 0,
        rows_total: None,
    };
    let mut meter = Meter {
        call: progress,
        now: first,
    };
    let plans = first_pass(inputs, &mut meter)?;
    meter.now.rows_total = Some(2 * meter.now.rows_done);
    meter.step("joining");
    second_pass(inputs, plans, names, sink, &mut meter)
}

/// How long an app row stays away from its place in order of start. (The time between the intended start
/// and the submit does not count: operations are submitted in the order in which they were meant.)
pub(crate) fn app_span_ns(row: &AppRow) -> u64 {
    row.reap_ns.saturating_sub(row.submit_ns)
}

/// The same for a request.
pub(crate) fn block_span_ns(row: &BlockRow) -> u64 {
    match row.complete_ns {
        0 => u64::MAX,
        complete_ns => complete_ns.saturating_sub(block_entry_ns(row)),
    }
}

fn first_pass(inputs: &Inputs, meter: &mut Meter) -> Result<Plans, CaseError> {
    let stragglers_max = STRAGGLERS_MAX / inputs.workers.len().max(1);
    let mut workers = Vec::new();
    let mut worker_ends = Vec::new();
    let mut children: HashMap<u64, Vec<Child>> = HashMap::new();
    for (_, stream) in &inputs.workers {
        let mut scan = Scan::new(|row: &AppRow| row.intended_ns, stragglers_max);
        let mut last_ns = 0;
        let truncation = each_row(*stream, |row| {
            scan.push(row, row.reap_ns, app_span_ns(row));
            last_ns = row.reap_ns.max(last_ns);
            meter.row();
        })?;
        let plan = scan.finish();
        children.extend(plan.stragglers.iter().map(|row| (row.op_id, Vec::new())));
        workers.push(plan);
        worker_ends.push(StreamEnd { last_ns, truncation });
    }
    let (merged, merges_end) = first_pass_merges(inputs.merges, &children)?;
    let mut scan = Scan::new(block_entry_ns, STRAGGLERS_MAX);
    let mut block_end = StreamEnd::default();
    let mut interrupt_seen = false;
    if let Some(stream) = inputs.block {
        let mut last_ns = 0;
        block_end.truncation = each_row(stream, |row: &BlockRow| {
            let place_ns = if row.complete_ns == 0 {
                last_ns
            } else {
                row.complete_ns
            };
            scan.push(row, place_ns, block_span_ns(row));
            last_ns = last_ns.max(place_ns).max(row.issue_ns).max(block_entry_ns(row));
            interrupt_seen |= row.irq_ns != 0;
            give_to_stragglers(row, &merged, &mut children);
            meter.row();
        })?;
        block_end.last_ns = last_ns;
    }
    let interrupts_watched = inputs.interrupts_watched.unwrap_or(interrupt_seen);
    let block = scan.finish();
    let mut carriers_end = StreamEnd::default();
    if let Some(stream) = inputs.carriers {
        let mut last_ns = 0;
        carriers_end.truncation =
            each_row(stream, |row: &BlockCarrierRow| last_ns = row.done_ns.max(last_ns))?;
        carriers_end.last_ns = last_ns;
    }
    let beside = Surveys::of(&inputs.beside)?;
    let syscall = Surveyed::of(inputs.syscall, |_| ())?;
    let own = Surveyed::of(inputs.own, |_| ())?;
    let volumes = VolumeSurvey::of(inputs.bios, inputs.bio_members)?;
    Ok(Plans {
        volumes,
        workers,
        block,
        children,
        worker_ends,
        block_end,
        merges_end,
        carriers_end,
        interrupts_watched,
        beside,
        syscall,
        own,
    })
}

/// Operations by the request that they were merged into.
type Merged = HashMap<u64, BTreeSet<u64>>;

fn give_to_stragglers(row: &BlockRow, merged: &Merged, children: &mut HashMap<u64, Vec<Child>>) {
    if children.is_empty() {
        return;
    }
    let others = merged
        .get(&row.request_key)
        .into_iter()
        .flatten()
        .filter(|op_id| **op_id != row.op_id);
    for op_id in std::iter::once(&row.op_id).chain(others) {
        if let Some(children) = children.get_mut(op_id) {
            children.push(Child::timed(row));
        }
    }
}

/// Into which requests one of `operations` was merged.
fn first_pass_merges(
    stream: Option<&dyn Stream<BlockMergeRow>>,
    operations: &HashMap<u64, Vec<Child>>,
) -> Result<(Merged, StreamEnd), CaseError> {
    let mut merged = Merged::new();
    let mut end = StreamEnd::default();
    if let Some(stream) = stream {
        end.truncation = each_row(stream, |row: &BlockMergeRow| {
            if operations.contains_key(&row.op_id) {
                merged.entry(row.request_key).or_default().insert(row.op_id);
            }
        })?;
    }
    Ok((merged, end))
}

pub(crate) fn each_row<R>(
    stream: &dyn Stream<R>,
    mut see: impl FnMut(&R),
) -> Result<Option<Truncation>, CaseError> {
    let mut source = stream.open()?;
    let mut batch = Vec::new();
    while source.next_batch(&mut batch)? {
        batch.iter().for_each(&mut see);
    }
    Ok(source.truncation().cloned())
}

/// Where the second pass writes to, and what it counts.
pub(crate) struct Out<'o> {
    pub(crate) names: &'o mut Names,
    pub(crate) sink: &'o mut dyn Sink,
    pub(crate) start_ns: u64,
    pub(crate) stops: &'o Stops,
    pub(crate) host: Option<NameId>,
    pub(crate) counts: Counts,
    device_names: &'o BTreeMap<u32, String>,
    devices: HashMap<u32, NameId>,
    cgroup_names: &'o BTreeMap<u64, String>,
    cgroups: HashMap<u64, NameId>,
    /// The one before: often the next one is the same.
    cgroup_before: Option<(u64, NameId)>,
    handlers: &'o [(String, String)],
}

/// The thread with the silences that [`Out::gaps`] writes.
pub(crate) struct Silent {
    /// Where the silence was seen.
    pub(crate) layer: Layer,
    /// Its process, if known.
    pub(crate) pid: Option<i32>,
    pub(crate) tid: i32,
    pub(crate) comm: Option<NameId>,
    /// Whether it is known to have meant to submit.
    pub(crate) meant_busy: bool,
}

impl<'o> Out<'o> {
    fn new(inputs: &'o Inputs, plans: &mut Plans, names: &'o mut Names, sink: &'o mut dyn Sink) -> Out<'o> {
        let mut beside_ends = plans.beside.ends();
        beside_ends.insert(BlockCarrierRow::PROBE, plans.carriers_end.clone());
        beside_ends.insert(OwnRow::PROBE, plans.own.end.clone());
        beside_ends.insert(BioRow::PROBE, plans.volumes.bios.end.clone());
        beside_ends.insert(BioMemberRow::PROBE, plans.volumes.members.end.clone());
        let ends = plans.worker_ends.iter().chain([&plans.block_end]);
        let last_ns = ends
            .chain(beside_ends.values())
            .chain([&plans.syscall.end])
            .map(|end| end.last_ns)
            .max()
            .unwrap_or(0);
        Out {
            host: inputs.host.as_deref().map(|host| names.id(host)),
            names,
            sink,
            start_ns: inputs.start_ns,
            stops: &inputs.stops,
            device_names: &inputs.devices,
            devices: HashMap::new(),
            cgroup_names: &inputs.cgroups,
            cgroups: HashMap::new(),
            cgroup_before: None,
            handlers: &inputs.handlers,
            counts: Counts {
                end_ns: inputs.end_ns.unwrap_or(0).max(last_ns).max(inputs.start_ns),
                worker_ends: std::mem::take(&mut plans.worker_ends),
                block_end: std::mem::take(&mut plans.block_end),
                merges_end: std::mem::take(&mut plans.merges_end),
                interrupts_watched: plans.interrupts_watched,
                file_names_dropped: plans.beside.files_dropped(),
                beside_ends,
                syscall_end: plans.syscall.end.clone(),
                ..Counts::default()
            },
        }
    }

    /// CLOCK_MONOTONIC to nanoseconds since the start of the case.
    pub(crate) fn case_ns(&self, mono_ns: u64) -> i64 {
        mono_ns.wrapping_sub(self.start_ns) as i64
    }

    /// The name of a device; `major:minor` where the system facts do not have it.
    pub(crate) fn device(&mut self, dev: u32) -> NameId {
        if let Some(id) = self.devices.get(&dev) {
            return *id;
        }
        let id = match self.device_names.get(&dev) {
            Some(name) => self.names.id(name),
            None => self.names.id(&format!("{}:{}", dev >> 20, dev & 0xf_ffff)),
        };
        self.devices.insert(dev, id);
        id
    }

    /// The folder of a control group; `id N` where the system facts do not have it. 0 means that it was not seen.
    pub(crate) fn cgroup(&mut self, number: u64) -> Option<NameId> {
        if number == 0 {
            return None;
        }
        if let Some((_, id)) = self.cgroup_before.filter(|(before, _)| *before == number) {
            return Some(id);
        }
        let (names, folders) = (&mut *self.names, self.cgroup_names);
        let id = *self
            .cgroups
            .entry(number)
            .or_insert_with(|| match folders.get(&number) {
                Some(folder) => names.id(folder),
                None => names.id(&format!("id {number}")),
            });
        self.cgroup_before = Some((number, id));
        Some(id)
    }

    /// The device that an interrupt handler serves, as far as its name tells.
    pub(crate) fn device_of_handler(&mut self, handler: &str) -> Option<NameId> {
        let mut devices = self
            .handlers
            .iter()
            .filter(|(prefix, _)| handler.starts_with(prefix.as_str()));
        let (_, device) = devices.next()?;
        devices.next().is_none().then(|| self.names.id(device))
    }

    pub(crate) fn row(&mut self, row: Row) -> Result<(), CaseError> {
        self.sink.row(&row, self.names)
    }

    pub(crate) fn link(&mut self, row: &LinkRow) -> Result<(), CaseError> {
        self.counts.links += 1;
        self.sink.link(row)
    }

    pub(crate) fn event(&mut self, row: &EventRow) -> Result<(), CaseError> {
        self.counts.events += 1;
        self.sink.event(row)
    }

    /// The gaps among the silences of one thread, as rows; counts it if it dropped some.
    pub(crate) fn gaps(&mut self, silent: &Silent, silences: &Thread) -> Vec<GapRow> {
        self.counts.threads_with_dropped_gaps += u64::from(silences.dropped_below_ns().is_some());
        let row = |silence: Silence| {
            let state = self
                .stops
                .state(silent.pid, silence.start_ns, silence.duration_ns);
            GapRow {
                layer: silent.layer,
                tid: silent.tid,
                comm: silent.comm,
                start_ns: self.case_ns(silence.start_ns.max(self.start_ns)),
                duration_ns: silence.duration_after(self.start_ns) as i64,
                state: state.into(),
                meant_busy: silent.meant_busy,
            }
        };
        silences.gaps().into_iter().map(row).collect()
    }

    /// Notes an operation with stamps that had to be put in order.
    pub(crate) fn clamped(&mut self, at_ns: u64) {
        let (first_ns, last_ns) = self.counts.clamped_span_ns.unwrap_or((at_ns, at_ns));
        self.counts.clamped_span_ns = Some((first_ns.min(at_ns), last_ns.max(at_ns)));
        self.counts.clamped += 1;
    }
}

fn second_pass(
    inputs: &Inputs,
    mut plans: Plans,
    names: &mut Names,
    sink: &mut dyn Sink,
    meter: &mut Meter,
) -> Result<Counts, CaseError> {
    let mut out = Out::new(inputs, &mut plans, names, sink);
    let mut children = Children::new(inputs.workers.iter().map(|(about, _)| about.number));
    let handlers = ForeignHandlers::new(&inputs.beside, &plans.beside)?;
    let held_back = match inputs.beside.sched {
        Some(_) => Some(HeldBack::new(
            plans.beside.sched(inputs.beside.sched)?,
            out.counts.end_ns,
        )),
        None => None,
    };
    let mut block = BlockSide::new(
        inputs,
        &mut plans.block,
        handlers,
        held_back,
        &plans.volumes,
        &out.counts,
    )?;
    let mut app = AppSide::new(
        inputs,
        plans.workers,
        plans.children,
        &plans.beside,
        &mut out,
        &mut children,
    )?;
    let watched = Watched {
        block: inputs.block.is_some(),
        interrupts: out.counts.interrupts_watched,
        sched: inputs.beside.sched.is_some(),
        cache: inputs.beside.cache_wait.is_some(),
        writeback: inputs.beside.writeback.is_some(),
    };
    let own = OwnSide::new(
        inputs.own,
        &plans.own,
        inputs.syscall.is_some(),
        watched.sched,
        watched.interrupts,
        inputs.served.as_ref(),
    )?;
    let mut syscalls = SyscallSide::new(
        inputs.syscall,
        &plans.syscall,
        &inputs.beside,
        &plans.beside,
        watched,
        &inputs.journals,
        own,
    )?;
    let mut taken_up_ns = None;
    let mut ended = false;
    while !ended {
        ended = !block.read()?;
        // Between two watermarks neither side has anything new to say to the other.
        let watermark_ns = block.watermark_ns();
        if ended || taken_up_ns != Some(watermark_ns) {
            let block_rows_held = block.rows_held() + syscalls.rows_held();
            block.emit(watermark_ns, &mut out, &mut children, &mut syscalls)?;
            let children_held = children.held();
            app.take_up(watermark_ns, &mut out, &mut children, &mut || meter.row())?;
            let held = block_rows_held + children_held + app.rows_held_max();
            out.counts.rows_held_max = out.counts.rows_held_max.max(held);
            taken_up_ns = Some(watermark_ns);
        }
        if !ended {
            meter.row();
        }
    }
    syscalls.advance(u64::MAX, &mut out)?;
    meter.step("writing");
    out.counts.unclaimed_requests = children.unclaimed();
    let mut gaps = app.gaps(&mut out);
    gaps.extend(block.finish(&mut out)?);
    gaps.sort_by_key(|gap| (gap.start_ns, gap.layer, gap.tid));
    plans.beside.write(&inputs.beside, &mut gaps, &mut out)?;
    for gap in &gaps {
        out.sink.gap(gap, out.names)?;
    }
    out.counts.gaps = gaps.len() as u64;
    Ok(out.counts)
}
