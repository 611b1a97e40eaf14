//! From the directory of a recorded or crashed case to a sealed one.
use crate::beside::Streams;
use crate::journals::Journals;
use crate::kernel::CmdFlags;
use crate::pipeline::{self, Counts, Inputs, Progress, StreamEnd, Worker};
use crate::served::Served;
use crate::stops::Stops;
use crate::stream::{FileStream, Stream};
use crate::syscalls::{observed, Watched, CLASSES};
use case::completeness::{self, Account, Missing};
use case::meta::{CaseMeta, LayerMeta, Phase, State, SystemMeta, Unseen};
use case::raw::{read_lines, RawReader, RawRow};
use case::rows::{AppRow, BioMemberRow, BioRow, BlockCarrierRow, BlockMergeRow, BlockRow};
use case::rows::{
    CacheReadRow, CacheWaitRow, FileRow, IrqRow, IrqTotalRow, NvmeRow, OwnRow, ReadaheadRow, ReadaheadUseRow,
    SampleRow, SchedRow, SyscallRow, WritebackRow,
};
use case::schema::{EventRow, Layer, LossRow, Stage, FORMAT_VERSION};
use case::sealed::{ClosedTables, Names, SealWriter};
use case::verify::{self, Problem};
use case::CaseError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of a kernel stage below which nothing was observed.
const FS_AND_BELOW: &str = "fs+throttle+queue+device+interrupt";
/// Name of the time of an operation on a server in which no call of the server was at work for it.
const CLIENT_AND_NETWORK: &str = "app+network+server";
/// Name of the time of a volume's bio in which nothing of it was at a member.
const VOLUME: &str = "volume";
/// Hook that is present if completing interrupts were watched.
const INTERRUPT_HOOK: &str = "irq_handler_entry";
/// The same for what reads wait for in the page cache (Linux 6.9 or so).
const PAGES_HOOK: &str = "mm_filemap_get_pages";

/// Streams of system calls and of the tables beside the operations.
const BESIDE: [&str; 16] = [
    OwnRow::PROBE,
    BlockCarrierRow::PROBE,
    BioRow::PROBE,
    BioMemberRow::PROBE,
    SyscallRow::PROBE,
    FileRow::PROBE,
    SchedRow::PROBE,
    IrqRow::PROBE,
    IrqTotalRow::PROBE,
    SampleRow::PROBE,
    NvmeRow::PROBE,
    CacheReadRow::PROBE,
    CacheWaitRow::PROBE,
    ReadaheadRow::PROBE,
    ReadaheadUseRow::PROBE,
    WritebackRow::PROBE,
];

/// Operations of one batch wait for a CPU together, each for another part of its time. Stored to the nanosecond that took two of
/// the 19 bytes that a row may have (DESIGN 10).
const WAIT_STEP_NS: u64 = 1024;

/// Whether a probe had a hook; `None` if nobody wrote that down (a killed recorder).
fn attached(meta: &CaseMeta, probe: &str, hook: &str) -> Option<bool> {
    let probe = meta.probes.get(probe)?;
    Some(probe.attached.iter().any(|name| name.contains(hook)))
}

/// Why a case could not be sealed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The case's files.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// There is nothing to seal.
    #[error("{path}: expected raw streams (app/*.arrows or block/block.arrows), found none; nothing of this recording is left to seal")]
    NoRaw {
        /// The folder of raw streams.
        path: PathBuf,
    },
    /// A sealed case is damaged, and its raw streams cannot make it whole.
    #[error("{path}: {at}: expected {expected}, found {found}; it cannot be built again, because {because}; restore it from a copy of the case")]
    Beyond {
        /// The first damaged file.
        path: PathBuf,
        /// Place in it.
        at: String,
        /// What should be there.
        expected: String,
        /// What is there, and how many other files are damaged.
        found: String,
        /// What the raw streams lack.
        because: String,
    },
}

/// A file of a sealed case that was damaged and is whole again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rebuilt {
    /// Inside the case.
    pub path: String,
    /// What was wrong with it.
    pub found: String,
    /// Rows now; `None` for `case.json`.
    pub rows: Option<u64>,
    /// Rows that it had had, if `case.json` says so.
    pub rows_before: Option<u64>,
}

/// What a seal did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealSummary {
    /// The case was sealed before and is whole: nothing was done, and `counts` is `None`.
    pub already_sealed: bool,
    /// The case was sealed before and was damaged: what was built again from the raw streams.
    pub rebuilt: Vec<Rebuilt>,
    /// Rows by layer.
    pub rows: BTreeMap<String, u64>,
    /// Raw streams that were cut, relative to the case.
    pub truncated: Vec<String>,
    /// Layers of which operations were lost. Empty where nothing was done.
    pub missing: Vec<Missing>,
    /// What the join counted.
    pub counts: Option<Counts>,
}

/// Seals a recorded or crashed case: raw streams to Parquet, `case.json` to state `sealed`.
///
/// Does nothing to a sealed case that is whole; what is damaged or missing of one is built again. The same raw streams
/// give the same bytes. A seal that is killed leaves the raw streams and no half tables. Reads every stream twice. Memory is bounded by what the machine
/// has in flight within about a second, not by the length of the recording.
/// The caller makes sure that nobody writes to or seals the case at the same time.
pub fn seal(case_dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<SealSummary, JoinError> {
    let mut meta = CaseMeta::read(case_dir)?;
    let damage = verify::damage(case_dir, &meta);
    if meta.state == State::Sealed && damage.is_empty() {
        return Ok(SealSummary {
            already_sealed: true,
            rows: rows_by_layer(&meta),
            ..SealSummary::default()
        });
    }
    let repair = Repair {
        case_dir,
        before: meta.clone(),
        damage,
    };
    let raw = Raw::find(case_dir, meta.clock.start_ns).map_err(|error| repair.without_raw(error))?;
    repair.check_layers(&raw)?;
    let system = read_system(case_dir)?;
    let clock_start_ns = meta.clock.start_ns;
    let (losses, losses_cut) = read_lines::<LossRow>(&raw.dir.join("losses.jsonl"))?;
    let (events, events_cut) = read_lines::<EventRow>(&raw.dir.join("events.jsonl"))?;
    let noted_ns = losses
        .iter()
        .map(|loss| loss.end_ns)
        .chain(events.iter().map(|event| event.time_ns))
        .max();
    let inputs = raw.inputs(&meta, &system, noted_ns, &events);

    let mut writer = SealWriter::create(case_dir)?;
    for layer in raw.layers() {
        writer.declare(layer);
    }
    let mut names = Names::default();
    for event in &events {
        writer.event(&EventRow {
            time_ns: to_case_ns(event.time_ns, clock_start_ns),
            ..event.clone()
        })?;
    }
    let counts = pipeline::join(&inputs, &mut names, &mut writer, progress)?;
    drop(inputs);
    for loss in &losses {
        let [start_ns, end_ns] = [loss.start_ns, loss.end_ns].map(|ns| to_case_ns(ns, clock_start_ns));
        writer.loss(&LossRow {
            start_ns,
            end_ns,
            ..loss.clone()
        })?;
    }
    let mut truncated = raw.write_truncations(&counts, clock_start_ns, &mut writer)?;
    for (name, cut) in [("losses.jsonl", losses_cut), ("events.jsonl", events_cut)] {
        if cut {
            truncated.push(format!("raw/{name}"));
            writer.loss(&cut_line(name, counts.end_ns, clock_start_ns))?;
        }
    }
    if let Some(event) = clock_order(&counts, clock_start_ns) {
        writer.event(&event)?;
    }
    let closed = writer.close()?;
    if let Err(refused) = repair.check_rows(&closed) {
        closed.discard()?;
        return Err(refused);
    }
    meta.tables = closed.publish()?;
    describe(&mut meta, &raw, &counts);
    meta.write(case_dir)?;
    let there = |layer: Layer| meta.layers.get(layer.name()).map_or(0, |layer| layer.rows);
    let missing = Account::of(&losses).missing(|layer| there(layer) + completeness::left_out(&meta, layer));
    Ok(SealSummary {
        already_sealed: false,
        rebuilt: repair.done(&meta),
        rows: rows_by_layer(&meta),
        truncated,
        missing,
        counts: Some(counts),
    })
}

fn rows_by_layer(meta: &CaseMeta) -> BTreeMap<String, u64> {
    let rows = |(name, layer): (&String, &LayerMeta)| (name.clone(), layer.rows);
    meta.layers.iter().map(rows).collect()
}

/// What is to be made whole again; nothing, if the case was not sealed.
struct Repair<'a> {
    case_dir: &'a Path,
    before: CaseMeta,
    damage: Vec<Problem>,
}

impl Repair<'_> {
    /// Why it cannot be, with the first of the damaged files.
    fn beyond(&self, first: &Problem, because: String) -> JoinError {
        let found = match self.damage.len() {
            1 => first.found.clone(),
            files => format!("{} (and {} more damaged files)", first.found, files - 1),
        };
        JoinError::Beyond {
            path: self.case_dir.join(&first.path),
            at: first.at.clone(),
            expected: first.expected.clone(),
            found,
            because,
        }
    }

    /// The streams were dropped after sealing, or never were there.
    fn without_raw(&self, error: JoinError) -> JoinError {
        match (&error, self.damage.first()) {
            (JoinError::NoRaw { path }, Some(first)) => {
                self.beyond(first, format!("there are no raw events in {}", path.display()))
            }
            _ => error,
        }
    }

    /// A layer with a stream that is gone since cannot be built again, and must not vanish.
    fn check_layers(&self, raw: &Raw) -> Result<(), JoinError> {
        let Some(first) = self.damage.first() else {
            return Ok(());
        };
        let layers = raw.layers();
        let is_there = |name: &String| layers.iter().any(|layer| layer.name() == name);
        match self.before.layers.keys().find(|name| !is_there(name)) {
            None => Ok(()),
            Some(name) => Err(self.beyond(
                first,
                format!("{} has no stream of layer {name}", raw.dir.display()),
            )),
        }
    }

    /// Streams that were damaged since may not take the place of a table that is whole.
    fn check_rows(&self, tables: &ClosedTables) -> Result<(), JoinError> {
        let Some(first) = self.damage.first() else {
            return Ok(());
        };
        let is_whole = |path: &String| self.damage.iter().all(|problem| problem.path != *path);
        for (path, listed) in self.before.tables.iter().filter(|(path, _)| is_whole(path)) {
            let rows = tables.rows(path).unwrap_or(0);
            if rows < listed.rows {
                let because = format!(
                    "the raw events are damaged, too: they give {rows} rows of {path}, which is whole and has {}",
                    listed.rows
                );
                return Err(self.beyond(first, because));
            }
        }
        Ok(())
    }

    fn done(self, now: &CaseMeta) -> Vec<Rebuilt> {
        let rebuilt = |problem: Problem| Rebuilt {
            rows: now.tables.get(&problem.path).map(|table| table.rows),
            rows_before: self.before.tables.get(&problem.path).map(|table| table.rows),
            path: problem.path,
            found: problem.found,
        };
        self.damage.into_iter().map(rebuilt).collect()
    }
}

fn to_case_ns(mono_ns: i64, clock_start_ns: u64) -> i64 {
    mono_ns.wrapping_sub(clock_start_ns as i64)
}

/// A host without facts (a recorder killed at its very start) is unknown, not an error.
fn read_system(case_dir: &Path) -> Result<SystemMeta, CaseError> {
    if case_dir.join("system.json").exists() {
        SystemMeta::read(case_dir)
    } else {
        Ok(SystemMeta::default())
    }
}

fn cut_line(name: &str, end_ns: u64, clock_start_ns: u64) -> LossRow {
    let end_ns = to_case_ns(end_ns as i64, clock_start_ns);
    LossRow {
        probe: name.into(),
        start_ns: 0,
        end_ns,
        lost: None,
        reason: "truncated_raw".into(),
    }
}

/// Nothing is lost where stamps contradict each other, but somebody should know.
fn clock_order(counts: &Counts, clock_start_ns: u64) -> Option<EventRow> {
    let (first_ns, last_ns) = counts.clamped_span_ns?;
    let [first_ns, last_ns] = [first_ns, last_ns].map(|ns| to_case_ns(ns as i64, clock_start_ns));
    Some(EventRow {
        time_ns: first_ns,
        kind: "clock_order".into(),
        subject: "join".into(),
        detail: format!(
            "{} operations or requests until {last_ns} ns have stamps that contradict each other; they were put in order",
            counts.clamped
        ),
    })
}

/// The raw streams of a case.
struct Raw {
    dir: PathBuf,
    workers: Vec<(Worker, FileStream)>,
    block: Option<FileStream>,
    merges: Option<FileStream>,
    /// Streams beside the operations, by probe.
    beside: BTreeMap<&'static str, FileStream>,
    workload: Option<serde_json::Value>,
    phases: Vec<Phase>,
    /// Where they begin and end, CLOCK_MONOTONIC, in order.
    cuts_ns: Vec<u64>,
}

impl Raw {
    fn find(case_dir: &Path, clock_start_ns: u64) -> Result<Raw, JoinError> {
        let dir = case_dir.join("raw");
        let engine_path = dir.join("app/workload.json");
        let workload_path = match engine_path.is_file() {
            true => engine_path,
            false => dir.join("own/workload.json"),
        };
        let workload = read_workload(&workload_path)?;
        let phases = phases(&workload_path, workload.as_ref(), clock_start_ns)?;
        let stream = |path: PathBuf| path.is_file().then_some(FileStream { path });
        let raw = Raw {
            workers: find_workers(&dir.join(AppRow::PROBE))?,
            block: stream(dir.join("block/block.arrows")),
            merges: stream(dir.join("block_merge/block_merge.arrows")),
            beside: BESIDE
                .into_iter()
                .filter_map(|probe| Some((probe, stream(dir.join(format!("{probe}/{probe}.arrows")))?)))
                .collect(),
            cuts_ns: cuts(&phases, clock_start_ns),
            phases,
            workload,
            dir,
        };
        let nothing = raw.workers.is_empty() && raw.block.is_none();
        let has = |probe: &str| raw.beside.contains_key(probe);
        if nothing && !has(SyscallRow::PROBE) && !has(OwnRow::PROBE) {
            return Err(JoinError::NoRaw { path: raw.dir });
        }
        Ok(raw)
    }

    fn layers(&self) -> Vec<Layer> {
        let own = self.beside.contains_key(OwnRow::PROBE);
        let app = (own || !self.workers.is_empty()).then_some(Layer::App);
        let block = self.block.is_some().then_some(Layer::Block);
        let syscall = self
            .beside
            .contains_key(SyscallRow::PROBE)
            .then_some(Layer::Syscall);
        app.into_iter().chain(syscall).chain(block).collect()
    }

    fn inputs<'a>(
        &'a self,
        meta: &CaseMeta,
        system: &SystemMeta,
        noted_ns: Option<i64>,
        events: &[EventRow],
    ) -> Inputs<'a> {
        let start_ns = meta.clock.start_ns;
        let recorded_ns = meta.duration_ns.map(|ns| start_ns.saturating_add_signed(ns));
        let noted_ns = noted_ns.and_then(|ns| u64::try_from(ns).ok());
        let host = if system.host.is_empty() {
            &meta.clock.host
        } else {
            &system.host
        };
        Inputs {
            wait_step_ns: WAIT_STEP_NS,
            workers: self
                .workers
                .iter()
                .map(|(about, stream)| (about.clone(), stream as &dyn Stream<AppRow>))
                .collect(),
            block: self.block.as_ref().map(|stream| stream as &dyn Stream<BlockRow>),
            merges: self
                .merges
                .as_ref()
                .map(|stream| stream as &dyn Stream<BlockMergeRow>),
            carriers: self.beside(),
            bios: self.beside(),
            bio_members: self.beside(),
            start_ns,
            end_ns: recorded_ns.or(noted_ns),
            host: (!host.is_empty()).then(|| host.clone()),
            devices: system
                .devices
                .values()
                .map(|device| (device.dev, device.name.clone()))
                .collect(),
            journals: Journals::of(system),
            cgroups: system.cgroups.clone(),
            cmd_flags: CmdFlags::of_kernel(&system.kernel),
            interrupts_watched: attached(meta, BlockRow::PROBE, INTERRUPT_HOOK),
            stops: Stops::of(events, recorded_ns.or(noted_ns).unwrap_or(u64::MAX)),
            syscall: self.beside(),
            own: self.beside(),
            served: self.workload.as_ref().and_then(Served::of),
            beside: Streams {
                file: self.beside(),
                sched: self.beside(),
                irq: self.beside(),
                irq_total: self.beside(),
                sample: self.beside(),
                nvme: self.beside(),
                cache_read: self.beside(),
                cache_wait: self
                    .beside()
                    .filter(|_| attached(meta, "cache", PAGES_HOOK) != Some(false)),
                readahead: self.beside(),
                readahead_use: self.beside(),
                writeback: self.beside(),
                cuts_ns: &self.cuts_ns,
            },
            handlers: handlers(system),
        }
    }

    fn beside<R: RawRow>(&self) -> Option<&dyn Stream<R>> {
        self.beside.get(R::PROBE).map(|stream| stream as &dyn Stream<R>)
    }

    /// Files, what the losses call them, and how they ended.
    fn ends<'a>(&'a self, counts: &'a Counts) -> Vec<(&'a Path, String, &'a StreamEnd)> {
        let workers = self
            .workers
            .iter()
            .zip(&counts.worker_ends)
            .map(|((about, stream), end)| {
                (
                    stream.path.as_path(),
                    format!("app/worker-{:03}", about.number),
                    end,
                )
            });
        let block = self
            .block
            .iter()
            .map(|s| (s.path.as_path(), "block".to_owned(), &counts.block_end));
        let merges = self
            .merges
            .iter()
            .map(|s| (s.path.as_path(), "block_merge".to_owned(), &counts.merges_end));
        let beside = self.beside.iter().filter_map(|(probe, stream)| {
            Some((
                stream.path.as_path(),
                (*probe).to_owned(),
                counts.beside_ends.get(probe)?,
            ))
        });
        workers.chain(block).chain(merges).chain(beside).collect()
    }

    /// A loss and an event for each stream without a proper end.
    fn write_truncations(
        &self,
        counts: &Counts,
        clock_start_ns: u64,
        writer: &mut SealWriter,
    ) -> Result<Vec<String>, CaseError> {
        let mut truncated = Vec::new();
        for (path, probe, end) in self.ends(counts) {
            let Some(cut) = &end.truncation else { continue };
            let start_ns = match end.last_ns {
                0 => 0,
                last_ns => to_case_ns(last_ns as i64, clock_start_ns),
            };
            let end_ns = to_case_ns(counts.end_ns as i64, clock_start_ns).max(start_ns);
            let reason = "truncated_raw".to_owned();
            writer.loss(&LossRow {
                probe,
                start_ns,
                end_ns,
                lost: None,
                reason,
            })?;
            let subject = self.relative(path);
            let detail = format!(
                "good up to byte {}; {} bytes after it are not readable: found {}",
                cut.good_bytes, cut.lost_bytes, cut.found
            );
            let kind = "truncated_raw".to_owned();
            writer.event(&EventRow {
                time_ns: start_ns,
                kind,
                subject: subject.clone(),
                detail,
            })?;
            truncated.push(subject);
        }
        Ok(truncated)
    }

    fn relative(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.dir).unwrap_or(path);
        format!("raw/{}", inside.display())
    }
}

/// How names of interrupt handlers begin, by device.
fn handlers(system: &SystemMeta) -> Vec<(String, String)> {
    let of_device = |device: &case::meta::DeviceMeta| {
        let prefixes = device.facts.get("irq_prefixes").cloned().unwrap_or_default();
        let name = device.name.clone();
        let pair = move |prefix: &str| (prefix.to_owned(), name.clone());
        prefixes
            .split(' ')
            .filter(|p| !p.is_empty())
            .map(pair)
            .collect::<Vec<_>>()
    };
    system.devices.values().flat_map(of_device).collect()
}

/// The engine's streams, `worker-NNN.arrows`, in order of their numbers.
fn find_workers(dir: &Path) -> Result<Vec<(Worker, FileStream)>, CaseError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CaseError::io(dir, "list", error)),
    };
    let mut workers = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|error| CaseError::io(dir, "list", error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name
            .strip_prefix("worker-")
            .and_then(|rest| rest.strip_suffix(".arrows"));
        if let Some(number) = number.and_then(|number| number.parse::<u16>().ok()) {
            workers.insert(number, entry.path());
        }
    }
    workers
        .into_iter()
        .map(|(number, path)| Ok((read_worker(number, &path)?, FileStream { path })))
        .collect()
}

/// The metadata of a stream; of one that was cut within its header, only the number is known.
fn read_worker(number: u16, path: &Path) -> Result<Worker, CaseError> {
    let reader = RawReader::<AppRow>::open(path)?;
    let integer = |key| reader.metadata(key).and_then(|value| value.parse::<i32>().ok());
    let files: Vec<String> = match reader.metadata("files") {
        None => Vec::new(),
        Some(json) => serde_json::from_str(json).map_err(|error| {
            let hint = "the stream was not written by whodisk's engine";
            CaseError::format(
                path,
                "schema key files",
                "a JSON list of paths",
                error.to_string(),
                hint,
            )
        })?,
    };
    // A file of that name is "./null".
    let null = files == ["null"];
    Ok(Worker {
        number,
        null,
        pid: integer("pid"),
        tid: integer("tid"),
        comm: reader.metadata("comm").map(str::to_owned),
        files,
        direct: !null && reader.metadata("direct") == Some("true"),
        rate: reader.metadata("loop") == Some("rate"),
    })
}

/// The engine's closing record. It is replaced atomically, so a damaged one is an error, not a crash's trace.
fn read_workload(path: &Path) -> Result<Option<serde_json::Value>, CaseError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CaseError::io(path, "read", error)),
    };
    let hint = "it is damaged; move it away to seal the case without the workload's summary";
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| CaseError::format(path, "the whole file", "JSON", error.to_string(), hint))
}

/// Phases of the engine, CLOCK_MONOTONIC, to case time.
fn phases(
    path: &Path,
    workload: Option<&serde_json::Value>,
    clock_start_ns: u64,
) -> Result<Vec<Phase>, CaseError> {
    let list = workload
        .and_then(|workload| workload.get("phases"))
        .and_then(|phases| phases.as_array());
    let list = list.map_or(&[][..], Vec::as_slice);
    let convert = |(at, phase): (usize, &serde_json::Value)| {
        let moment = |key| phase.get(key).and_then(|ns| ns.as_i64());
        match (
            phase.get("name").and_then(|name| name.as_str()),
            moment("start_ns"),
            moment("end_ns"),
        ) {
            (Some(name), Some(start_ns), Some(end_ns)) => Ok(Phase {
                name: name.to_owned(),
                start_ns: to_case_ns(start_ns, clock_start_ns),
                end_ns: to_case_ns(end_ns, clock_start_ns),
            }),
            _ => Err(CaseError::format(
                path,
                format!("key phases[{at}]"),
                "name, start_ns, end_ns",
                phase.to_string(),
                "it was not written by this version's engine",
            )),
        }
    };
    list.iter().enumerate().map(convert).collect()
}

/// Begins and ends of phases, CLOCK_MONOTONIC, in order; those before the case's start bound nothing.
fn cuts(phases: &[Phase], clock_start_ns: u64) -> Vec<u64> {
    let both = phases.iter().flat_map(|phase| [phase.start_ns, phase.end_ns]);
    let mut cuts: Vec<u64> = both
        .filter(|ns| *ns > 0)
        .map(|ns| clock_start_ns.saturating_add_signed(ns))
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Everything that `case.json` learns from the join.
fn describe(meta: &mut CaseMeta, raw: &Raw, counts: &Counts) {
    let clock_start_ns = meta.clock.start_ns;
    let killed = meta.state == State::Recording;
    // Nothing may lie outside of the recording, whatever its end was taken to be.
    let last_ns = to_case_ns(counts.end_ns as i64, clock_start_ns);
    meta.duration_ns = Some(meta.duration_ns.unwrap_or(0).max(last_ns));
    meta.version = FORMAT_VERSION;
    meta.layers = layers(raw, counts);
    if let Some(workload) = &raw.workload {
        meta.phases = raw.phases.clone();
        meta.workload = Some(workload.clone());
    }
    if killed && !meta.command.is_empty() && meta.command_status.is_none() {
        meta.command_status = Some("unknown".into());
    }
    for unseen in unseen(raw, counts, killed) {
        if !meta.not_observed.contains(&unseen) {
            meta.not_observed.push(unseen);
        }
    }
    for question in open_questions(counts) {
        if !meta.open_questions.contains(&question) {
            meta.open_questions.push(question);
        }
    }
    meta.state = State::Sealed;
}

fn layers(raw: &Raw, counts: &Counts) -> BTreeMap<String, LayerMeta> {
    let device_and_interrupt: &[(Stage, &str)] = if counts.interrupts_watched {
        &[(Stage::Device, "device"), (Stage::Interrupt, "interrupt")]
    } else {
        &[(Stage::Device, "device+interrupt")]
    };
    let named = |stages: &[(Stage, &str)]| {
        stages
            .iter()
            .map(|(stage, name)| (stage.column().to_owned(), (*name).to_owned()))
            .collect()
    };
    let mut layers = BTreeMap::new();
    if raw.beside.contains_key(SyscallRow::PROBE) {
        layers.insert(Layer::Syscall.name().to_owned(), syscall_layer(raw, counts));
    }
    if raw.block.is_some() {
        let mut stages = [&[(Stage::Queue, "queue")], device_and_interrupt].concat();
        if raw.beside.contains_key(SchedRow::PROBE) {
            stages.push((Stage::Throttle, "throttle"));
        }
        if counts.volume_rows > 0 {
            stages.extend([(Stage::Fs, VOLUME), (Stage::Unknown, "unknown")]);
        }
        let layer = LayerMeta {
            rows: counts.block_rows,
            stages: named(&stages),
            join: "none".into(),
            ..LayerMeta::default()
        };
        layers.insert(Layer::Block.name().to_owned(), layer);
    }
    if raw.beside.contains_key(OwnRow::PROBE) {
        layers.insert(Layer::App.name().to_owned(), own_layer(raw, counts));
    }
    if !raw.workers.is_empty() {
        let mut stages = vec![
            (Stage::App, "app"),
            (Stage::Reap, "reap"),
            (Stage::Unknown, "unknown"),
        ];
        if raw.block.is_none() {
            stages.push((Stage::Fs, FS_AND_BELOW));
        } else if counts.joined > 0 {
            stages.extend([
                (Stage::Fs, "fs"),
                (Stage::Throttle, "throttle"),
                (Stage::Queue, "queue"),
            ]);
            stages.extend(device_and_interrupt);
        }
        if raw.beside.contains_key(SchedRow::PROBE) {
            stages.push((Stage::Runqueue, "runqueue"));
        }
        let join = if counts.joined > 0 {
            "exact (user_data)"
        } else {
            "none"
        };
        let layer = LayerMeta {
            rows: counts.app_rows,
            stages: named(&stages),
            join: join.into(),
            ..LayerMeta::default()
        };
        layers.insert(Layer::App.name().to_owned(), layer);
    }
    layers
}

/// What the stages of a program's own operations cover: those of its calls, and its own time.
fn own_layer(raw: &Raw, counts: &Counts) -> LayerMeta {
    let mut stages = BTreeMap::new();
    if raw.beside.contains_key(SyscallRow::PROBE) {
        stages = syscall_layer(raw, counts).stages;
    }
    let served = raw
        .workload
        .as_ref()
        .is_some_and(|about| Served::of(about).is_some());
    let own_time = if served { CLIENT_AND_NETWORK } else { "app" };
    for (stage, name) in [(Stage::App, own_time), (Stage::Unknown, "unknown")] {
        stages.insert(stage.column().to_owned(), name.to_owned());
    }
    let join = match (counts.joined, served) {
        (0, _) => "none",
        (_, false) => "calls of the same thread at the same time",
        (_, true) => "calls of the server by file, offset, size and time",
    };
    LayerMeta {
        rows: counts.app_rows,
        stages,
        join: join.into(),
        ..LayerMeta::default()
    }
}

/// What the stages of system calls cover.
fn syscall_layer(raw: &Raw, counts: &Counts) -> LayerMeta {
    let has = |probe: &str| raw.beside.contains_key(probe);
    let watched = Watched {
        block: raw.block.is_some(),
        interrupts: counts.interrupts_watched,
        sched: has(SchedRow::PROBE),
        cache: has(CacheWaitRow::PROBE),
        writeback: has(WritebackRow::PROBE),
    };
    let name = |stage: Stage| match stage {
        Stage::Fs if !watched.block => FS_AND_BELOW,
        Stage::Device if !watched.interrupts => "device+interrupt",
        stage => stage.column().trim_end_matches("_ns"),
    };
    LayerMeta {
        rows: counts.syscall_rows,
        stages: observed(watched)
            .into_iter()
            .filter(|(_, seen)| *seen)
            .map(|(stage, _)| (stage.column().to_owned(), name(stage).to_owned()))
            .collect(),
        join: if watched.block {
            "direct I/O exact (owner_key); page cache by file, place and wait; syncs by thread, file and journal"
        } else {
            "none"
        }
        .into(),
        ..LayerMeta::default()
    }
}

fn unseen(raw: &Raw, counts: &Counts, killed: bool) -> Vec<Unseen> {
    let mut list = Vec::new();
    let mut add = |what: &str, because: &str| {
        list.push(Unseen {
            what: what.to_owned(),
            because: because.to_owned(),
        });
    };
    if killed {
        add(
            "the end of the recording",
            "the recorder was killed; the last good batch of each stream is its end",
        );
    }
    let is_program = raw
        .workload
        .as_ref()
        .is_some_and(|workload| workload.get("program").is_some());
    if is_program && !raw.beside.contains_key(OwnRow::PROBE) {
        add(
            "operations as the program saw them (layer app)",
            "it has no log of them, or was ended before it wrote it",
        );
    }
    if !raw.workers.is_empty() && raw.workload.is_none() {
        add(
            "operations that were submitted but never reaped",
            "the engine ended without its closing record; their number is unknown",
        );
    }
    if counts.unjoined_buffered > 0 && raw.block.is_some() {
        add(
            "where buffered operations spent their time in the kernel",
            "requests of the page cache carry no operation id; that time is unknown_ns",
        );
    }
    if counts.unjoined_sync > 0 && raw.block.is_some() {
        add(
            "where syncs spent their time in the kernel",
            "requests of a sync carry no operation id; that time is unknown_ns",
        );
    }
    list
}

fn open_questions(counts: &Counts) -> Vec<String> {
    let direct = counts.joined + counts.unjoined_direct;
    let served = counts.served_tied + counts.served_ambiguous + counts.served_alone;
    let texts = [
        (counts.unjoined_direct, format!(
            "{} of {direct} direct operations have no block request of their own; their time in the kernel is unknown_ns",
            counts.unjoined_direct
        )),
        (counts.unclaimed_requests, format!(
            "{} block requests carry the id of an operation that is in no app stream: it was never reaped, or its row was lost",
            counts.unclaimed_requests
        )),
        (counts.orphan_merges, format!(
            "{} merged bios belong to requests that are not in the block stream",
            counts.orphan_merges
        )),
        (counts.orphan_carriers, format!(
            "{} records of what a write waited for in the flush machinery belong to requests that are not in the block stream",
            counts.orphan_carriers
        )),
        (counts.members_ambiguous, format!(
            "{} bios at members of volumes fitted several operations of their volume, and were tied to none; what those waited for is not known",
            counts.members_ambiguous
        )),
        (counts.members_lost, format!(
            "{} bios at members of volumes fitted no operation of their volume (parity, or begun before the recording)",
            counts.members_lost
        )),
        (counts.served_ambiguous, format!(
            "{} of {served} calls of the server on the files of the copy fitted several operations of the client, and were tied to none; their time is unknown_ns",
            counts.served_ambiguous
        )),
        (counts.served_alone, format!(
            "{} of {served} calls of the server on the files of the copy fitted no operation of the client that was in flight",
            counts.served_alone
        )),
        (counts.clamped, format!(
            "{} operations or requests have time stamps that contradict each other; they were put in order",
            counts.clamped
        )),
        (counts.file_names_dropped, format!(
            "{} names of files were too many to keep; those files are called by their inode",
            counts.file_names_dropped
        )),
        (counts.threads_with_dropped_gaps, format!(
            "{} threads had more silences than the table gaps keeps; the shorter ones were dropped",
            counts.threads_with_dropped_gaps
        )),
    ];
    let unknown = CLASSES.iter().zip(&counts.syscall_shares).map(|(class, share)| {
        let percent = 100.0 * share.unknown_ns as f64 / share.total_ns.max(1) as f64;
        let text = format!(
            "{percent:.2} % of the time of {} system calls ({class}) could not be attributed (unknown_ns)",
            share.operations
        );
        (share.unknown_ns, text)
    });
    texts
        .into_iter()
        .chain(unknown)
        .filter(|(count, _)| *count > 0)
        .map(|(_, text)| text)
        .collect()
}
