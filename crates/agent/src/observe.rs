//! `record` and `run`: observe something from before its first instruction to its end, and seal the case.
use crate::args::{CaseArgs, RecordArgs, RunArgs};
use crate::case_dir::CaseDir;
use crate::child::{look_up, status_words, Change, Gated, Running};
use crate::failure::Failure;
use crate::losses;
use crate::output::{grouped, print_json, say, Progress};
use crate::probe::{Attached, Probes};
use crate::sampling::{self, EVENT_SAMPLING};
use crate::scope::{ScopeArgs, Watched};
use crate::seal;
use crate::signals::{Arrived, Signals};
use crate::time::{monotonic_ns, monotonic_resolution_ns, rfc3339_ms, wall_ns, Utc};
use case::completeness::{self, Account, Missing};
use case::meta::{CaseMeta, Clock, DeviceMeta, State, SystemMeta, Unseen};
use case::raw::read_lines;
use case::schema::{EventRow, LossRow, EVENT_CONTINUED, EVENT_STOPPED, FORMAT_VERSION};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a command may take to end after SIGTERM at the end of `--duration`.
pub const GRACE: Duration = Duration::from_secs(5);
/// How often the loop looks around when nothing happens.
pub const TICK: Duration = Duration::from_millis(100);
/// Event: a recording takes less memory than usual.
const EVENT_LITTLE_MEMORY: &str = "little_memory";

/// What is observed.
pub enum Subject {
    /// Everything on this machine, until told to stop.
    Machine,
    /// A command of the user.
    Command { program: PathBuf, argv: Vec<OsString> },
    /// Our own engine, in a process of its own, so that stopping it does not stop the recorder.
    Engine { program: PathBuf, argv: Vec<OsString> },
}

/// What is recorded of it, and for how long.
#[derive(Default)]
struct Plan {
    duration: Option<Duration>,
    probes: Option<Vec<String>>,
    scope: ScopeArgs,
    cpu_budget: Option<f64>,
}

/// `whodisk record`.
pub fn record(args: RecordArgs) -> Result<(), Failure> {
    args.case.sharing.take();
    if let Some(ring) = args.flight.ring {
        return crate::flight::record(&args, ring);
    }
    let subject = match args.command.first() {
        None => Subject::Machine,
        Some(name) => Subject::Command {
            program: look_up(name).map_err(|e| cannot_execute(name, &e))?,
            argv: args.command.clone(),
        },
    };
    let plan = Plan {
        duration: args.duration,
        probes: args.probes.probes,
        scope: args.scope,
        cpu_budget: args.cpu_budget,
    };
    let observer = if args.of_program { "run" } else { "record" };
    observe(observer, &subject, &args.case, plan)
}

/// `whodisk run`.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    args.case.sharing.take();
    crate::workload::check(&args.spec)?;
    if args.check {
        return Ok(());
    }
    let case = case_path(&args.case);
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let argv = [
        "whodisk-agent".into(),
        "workload".into(),
        args.spec.clone().into_os_string(),
        "--raw".into(),
        case.join("raw").into_os_string(),
    ];
    let subject = Subject::Engine {
        program,
        argv: argv.to_vec(),
    };
    let case = CaseArgs {
        case: Some(case),
        ..args.case
    };
    let probes = if args.app_only {
        Some(Vec::new())
    } else {
        args.probes.probes
    };
    let plan = Plan {
        probes,
        ..Plan::default()
    };
    observe("run", &subject, &case, plan)
}

fn case_path(args: &CaseArgs) -> PathBuf {
    args.case
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("whodisk-{}", Utc::now().compact())))
}

/// Why a program cannot be executed.
pub fn cannot_execute(name: &std::ffi::OsStr, error: &std::io::Error) -> Failure {
    let found = match error.raw_os_error() {
        Some(libc::ENOENT) => "no such program".to_string(),
        Some(libc::EACCES) => "a file that may not be executed".to_string(),
        _ => error.to_string(),
    };
    let name = name.to_string_lossy();
    Failure::error(format!(
        "command '{name}': expected an executable program, found {found}; check its name and PATH"
    ))
}

fn observe(observer: &str, subject: &Subject, args: &CaseArgs, plan: Plan) -> Result<(), Failure> {
    let watched = Watched::open(&plan.scope.pids)?;
    let duration = plan.duration;
    let signals = Signals::block().map_err(|e| Failure::error(format!("cannot block signals: {e}")))?;
    let dir = CaseDir::create(&case_path(args))?;
    match Recording::begin(&dir, observer, subject, &signals, plan) {
        Ok(mut recording) => {
            recording.watch(&dir, &signals, duration, &watched);
            recording.finish(dir, args, &signals)
        }
        Err(failure) => {
            dir.remove();
            Err(failure)
        }
    }
}

/// A recording under way.
struct Recording {
    meta: CaseMeta,
    system: SystemMeta,
    probes: Option<Probes>,
    /// Rows on disk by stream, when the probes have stopped.
    rows: BTreeMap<String, u64>,
    child: Option<Running>,
    own_engine: bool,
    ended: Option<i32>,
}

impl Recording {
    /// Everything up to the first instruction of what is observed. On failure nothing was executed.
    fn begin(
        dir: &CaseDir,
        observer: &str,
        subject: &Subject,
        signals: &Signals,
        plan: Plan,
    ) -> Result<Recording, Failure> {
        let mut system = SystemMeta::collect();
        let mut meta = new_meta(observer, subject, &system);
        meta.write(&dir.path)?;
        let gated =
            fork(subject, signals).map_err(|error| Failure::error(format!("cannot fork: {error}")))?;
        meta.command_pid = gated.as_ref().map(|gated| gated.pid);
        system.recorder = recorder(meta.command_pid.filter(|_| subject.is_engine()));
        system.write(&dir.path)?;
        meta.scope = plan.scope.meta(meta.command_pid);
        meta.not_observed.extend(plan.scope.unseen(gated.is_some()));
        meta.sampling = plan.cpu_budget.map(sampling::begun);
        let attached = attach(subject, plan.probes, plan.scope.scope(), &mut meta)?;
        // Attaching takes a while; the case begins with the first moment that can be recorded.
        meta.clock.start_ns = monotonic_ns();
        meta.start_utc = rfc3339_ms(wall_ns(meta.clock.start_ns));
        let little_memory = attached
            .as_ref()
            .and_then(|attached| attached.little_memory.clone());
        let start = |attached: Attached| attached.start(&dir.raw()).map_err(Failure::error);
        let probes = attached.map(start).transpose()?;
        if let Some(detail) = little_memory {
            say(&detail);
            note_event(
                &dir.raw(),
                meta.clock.start_ns,
                EVENT_LITTLE_MEMORY,
                "recorder",
                &detail,
            );
        }
        meta.write(&dir.path)?;
        let open = |gated: Gated| {
            gated
                .open()
                .map_err(|error| cannot_execute(&subject.name(), &error))
        };
        Ok(Recording {
            child: gated.map(open).transpose()?,
            meta,
            system,
            probes,
            rows: BTreeMap::new(),
            own_engine: subject.is_engine(),
            ended: None,
        })
    }

    /// Waits for the end: the command's, the processes', the duration's, or a signal's.
    fn watch(&mut self, dir: &CaseDir, signals: &Signals, duration: Option<Duration>, watched: &Watched) {
        self.announce(dir);
        let begin = Instant::now();
        let mut progress = Progress::new();
        let mut interruptions = 0;
        let mut term_sent: Option<Instant> = None;
        loop {
            for arrived in signals.wait(TICK) {
                if arrived.signal != libc::SIGCHLD {
                    interruptions += 1;
                    self.pass_on(arrived, interruptions);
                }
            }
            self.reap(dir);
            self.note_levels(&dir.raw());
            let alone = self.child.is_none();
            if self.ended.is_some() || (alone && (interruptions > 0 || watched.have_ended())) {
                break;
            }
            if duration.is_some_and(|d| begin.elapsed() >= d) {
                let Some(child) = &self.child else { break };
                match term_sent {
                    None => {
                        child.signal(libc::SIGTERM);
                        term_sent = Some(Instant::now());
                    }
                    Some(at) if at.elapsed() > GRACE => child.signal(libc::SIGKILL),
                    Some(_) => {}
                }
            }
            // A command writes to the terminal itself, and so does our engine: no scribbling in between.
            if self.child.is_none() {
                progress.tick(|| self.progress_text(begin.elapsed()));
            }
        }
        progress.clear();
    }

    /// Notes in the case which part of typical operations is kept from now on.
    fn note_levels(&mut self, raw: &Path) {
        let (Some(probes), Some(sampling)) = (&self.probes, &mut self.meta.sampling) else {
            return;
        };
        for level in probes.take_levels() {
            let (subject, detail) = sampling::told(&level);
            note_event(raw, level.time_ns, EVENT_SAMPLING, subject, &detail);
            sampling::add(sampling, &level, self.meta.clock.start_ns);
        }
    }

    fn announce(&self, dir: &CaseDir) {
        let path = dir.path.display();
        match &self.child {
            None => say(&format!(
                "recording {} into {path}; Ctrl-C ends it",
                what_is_recorded(&self.meta)
            )),
            Some(child) => say(&format!("recording into {path}; process {}", child.pid)),
        }
    }

    fn progress_text(&self, elapsed: Duration) -> String {
        let received = self.probes.as_ref().map_or(0, Probes::block_requests);
        format!("{} s, {} block requests", elapsed.as_secs(), grouped(received))
    }

    fn pass_on(&self, arrived: Arrived, count: u32) {
        let Some(child) = &self.child else { return };
        if count >= 3 {
            child.signal(libc::SIGKILL);
        } else if !arrived.from_terminal {
            child.signal(arrived.signal);
        }
    }

    /// Takes note of what became of the child.
    fn reap(&mut self, dir: &CaseDir) {
        while let Some(change) = self.child.as_ref().and_then(Running::poll) {
            let pid = self.child.as_ref().map_or(0, |c| c.pid);
            match change {
                Change::Ended(status) => {
                    self.ended = Some(status);
                    return;
                }
                Change::Stopped(signal) => note(dir, pid, EVENT_STOPPED, &format!("by signal {signal}")),
                Change::Continued => note(dir, pid, EVENT_CONTINUED, ""),
            }
        }
    }

    /// Closes the case, seals it, and says how it went.
    fn finish(mut self, dir: CaseDir, args: &CaseArgs, signals: &Signals) -> Result<(), Failure> {
        let path = dir.path.clone();
        let engine_failure = self.engine_failure(&path);
        let closed = self.close(&path, engine_failure.is_none());
        if let Some(failure) = engine_failure.as_ref().filter(|_| !has_app_rows(&dir)) {
            dir.remove();
            return Err(failure.clone());
        }
        let missing = self.missing(&path);
        closed.map_err(|failure| with_advice(&failure, &path, &missing))?;
        self.summarize();
        drop(dir);
        // From here on Ctrl-C ends the sealing, which leaves the raw events as they are.
        restore(signals);
        let seal = || {
            seal::seal_case(&path, args.drop_raw).map_err(|failure| with_advice(&failure, &path, &missing))
        };
        let sealed = (!args.no_seal).then(seal).transpose()?;
        if args.redaction.redact {
            crate::redact::in_place(&path, &args.redaction)?;
        }
        say(&case_words(&path, args.no_seal, &missing));
        let summary = || {
            print_json(&serde_json::json!({
                "case": path,
                "command_status": self.meta.command_status,
                "duration_ns": self.meta.duration_ns,
                "layers_missing": missing,
                "sealed": sealed,
            }))
        };
        let printed = if args.json { summary() } else { Ok(()) };
        engine_failure.map_or(printed, Err)
    }

    /// Stops the probes and completes `case.json` and `system.json`. Only a recording without trouble
    /// becomes `recorded`; any other stays what a kill would have left.
    fn close(&mut self, case: &Path, engine_well: bool) -> Result<(), Failure> {
        self.note_levels(&case.join("raw"));
        let (trouble, stopped_ns) = self.stop_probes();
        // What was in flight then ended later, which nobody saw: it must not count as in flight while the recorder was putting things away.
        let end_ns = stopped_ns.unwrap_or_else(monotonic_ns);
        self.meta.duration_ns = Some(end_ns.saturating_sub(self.meta.clock.start_ns) as i64);
        self.meta.command_status = self.ended.map(status_words);
        if trouble.is_none() && engine_well {
            self.meta.state = State::Recorded;
        }
        self.meta.write(case)?;
        let now = SystemMeta::collect();
        let changes = system_changes(&self.system, &now);
        let named =
            |system: &SystemMeta| system.cgroups.len() + system.kernel_threads.len() + system.processes.len();
        let known = named(&self.system);
        // Those that are gone keep their names.
        self.system.cgroups.extend(now.cgroups);
        self.system.kernel_threads.extend(now.kernel_threads);
        self.system.processes.extend(now.processes);
        if !changes.is_empty() || named(&self.system) > known {
            self.system.changes = changes;
            self.system.write(case)?;
        }
        trouble.map_or(Ok(()), |error| Err(Failure::error(error)))
    }

    /// Layers of which operations were lost, as far as this was written down.
    fn missing(&self, case: &Path) -> Vec<Missing> {
        let Ok(losses) = read_lines::<LossRow>(&case.join("raw/losses.jsonl")) else {
            return Vec::new();
        };
        let is_of = |stream: &str, layer| completeness::LAYER_OF.contains(&(stream, layer));
        let there = |layer| {
            let rows = self.rows.iter().filter(|(stream, _)| is_of(stream, layer));
            rows.map(|(_, rows)| rows).sum::<u64>() + completeness::left_out(&self.meta, layer)
        };
        Account::of(&losses.0).missing(there)
    }

    /// Why not all of their events are on disk, if so; and when they stopped.
    fn stop_probes(&mut self) -> (Option<String>, Option<u64>) {
        let Some(probes) = self.probes.take() else {
            return (None, None);
        };
        let stopped = probes.stop();
        self.meta.probes = stopped.probes;
        self.rows = stopped.rows;
        if let Some(sampling) = &mut self.meta.sampling {
            let devices = self.system.devices.values();
            let names = devices.map(|device| (device.dev, device.name.as_str())).collect();
            sampling::finish(sampling, &stopped.left_out, stopped.calls_left_out, &names);
            self.meta.not_observed.extend(sampling::unseen(sampling));
        }
        (stopped.failure, stopped.at_ns)
    }

    /// Our own engine must end well; a user's command may end as it likes.
    fn engine_failure(&self, case: &Path) -> Option<Failure> {
        let status = self.ended.filter(|status| self.own_engine && *status != 0)?;
        if libc::WIFEXITED(status) {
            // The engine has said why on stderr.
            return Some(Failure::error(""));
        }
        let words = status_words(status);
        Some(Failure::error(format!(
            "{}: the workload process ended with {words}",
            case.display()
        )))
    }

    fn summarize(&self) {
        let mut text = format!(
            "recorded {:.1} s",
            self.meta.duration_ns.unwrap_or(0) as f64 / 1e9
        );
        if let Some(probe) = self.meta.probes.get("block") {
            let (received, lost) = (grouped(probe.received), grouped(probe.lost));
            text.push_str(&format!(": {received} block requests, {lost} lost"));
        }
        let left_out = self.meta.sampling.as_ref().map_or(0, sampling::requests_left_out);
        if left_out > 0 {
            text.push_str(&format!(", {} left out of the sample", grouped(left_out)));
        }
        if let Some(status) = &self.meta.command_status {
            text.push_str(&format!("; the command ended with {status}"));
        }
        say(&text);
        for change in &self.system.changes {
            say(&format!("changed during the recording: {change}"));
        }
    }
}

/// Attaches the probes that were asked for, where that is possible; what cannot be seen goes into the case.
/// Error: there is nothing else to record.
fn attach(
    subject: &Subject,
    probes: Option<Vec<String>>,
    scope: record::Scope,
    meta: &mut CaseMeta,
) -> Result<Option<Attached>, Failure> {
    let nothing_asked = probes.as_ref().is_some_and(Vec::is_empty);
    if nothing_asked {
        let because = "the recording was asked for without it (--app-only)";
        meta.not_observed.splice(0..0, record::all_unseen(because));
        return Ok(None);
    }
    let budget = meta.sampling.as_ref().map(|sampling| sampling.cpu_budget);
    match Attached::attach(probes, meta.command_pid, subject.is_engine(), scope, budget) {
        Ok(attached) => {
            meta.not_observed.splice(0..0, attached.unseen().iter().cloned());
            Ok(Some(attached))
        }
        Err(reason) if subject.is_engine() => {
            say(&format!("recording without the block layer: {reason}"));
            meta.not_observed.splice(0..0, record::all_unseen(&reason));
            Ok(None)
        }
        Err(reason) => Err(Failure::error(format!("cannot observe this machine: {reason}"))),
    }
}

fn what_is_recorded(meta: &CaseMeta) -> &'static str {
    match meta.scope {
        None => "all block requests",
        Some(_) => "what is in the scope",
    }
}

fn has_app_rows(dir: &CaseDir) -> bool {
    let worker = dir.raw().join("app/worker-000.arrows");
    worker.metadata().is_ok_and(|m| m.len() > 0)
}

/// Adds what is left of the case and what to do with it.
fn with_advice(failure: &Failure, case: &Path, missing: &[Missing]) -> Failure {
    let path = case.display();
    let lost = losses::words(missing).map_or(String::new(), |words| format!(". {words}"));
    Failure::error(format!(
        "{failure}\nwhodisk: {path}: what was recorded until then is in raw/; \
         `whodisk seal {path}` turns it into tables, for which it needs about as much room again{lost}"
    ))
}

/// The last line of a recording: where the case is, and whether it can be relied on.
fn case_words(case: &Path, unsealed: bool, missing: &[Missing]) -> String {
    let state = if unsealed { " (not sealed)" } else { "" };
    let lost = losses::words(missing).map_or(String::new(), |words| format!(": {words}"));
    format!("case {}{state}{lost}", case.display())
}

/// Notes in the case what became of the observed process.
fn note(dir: &CaseDir, pid: i32, kind: &str, detail: &str) {
    note_event(
        &dir.raw(),
        monotonic_ns(),
        kind,
        &format!("process {pid}"),
        detail,
    );
}

/// Appends an event to the raw events of a case that is not sealed yet.
pub fn note_event(raw: &Path, time_ns: u64, kind: &str, subject: &str, detail: &str) {
    let row = EventRow {
        time_ns: time_ns as i64,
        kind: kind.into(),
        subject: subject.into(),
        detail: detail.into(),
    };
    let Ok(mut line) = serde_json::to_string(&row) else {
        return;
    };
    line.push('\n');
    let path = raw.join("events.jsonl");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        say(&format!("{}: cannot append: {error}", path.display()));
    }
}

impl Subject {
    fn is_engine(&self) -> bool {
        matches!(self, Subject::Engine { .. })
    }

    /// What is executed.
    pub fn name(&self) -> OsString {
        match self {
            Subject::Machine => OsString::new(),
            Subject::Command { argv, .. } => argv[0].clone(),
            Subject::Engine { program, .. } => program.clone().into_os_string(),
        }
    }
}

/// Forks what is to be observed, which then waits to be let go.
pub fn fork(subject: &Subject, signals: &Signals) -> std::io::Result<Option<Gated>> {
    let (program, argv, own) = match subject {
        Subject::Machine => return Ok(None),
        Subject::Command { program, argv } => (program, argv, false),
        Subject::Engine { program, argv } => (program, argv, true),
    };
    Gated::fork(program, argv, &signals.original_mask, own).map(Some)
}

/// Gives this thread its signals back.
pub fn restore(signals: &Signals) {
    // SAFETY: restores the mask that this thread had before.
    unsafe {
        libc::pthread_sigmask(
            libc::SIG_SETMASK,
            &raw const signals.original_mask,
            std::ptr::null_mut(),
        )
    };
}

fn unseen(what: &str, because: &str) -> Unseen {
    Unseen {
        what: what.into(),
        because: because.into(),
    }
}

/// `case.json` of a recording that begins now.
pub fn new_meta(observer: &str, subject: &Subject, system: &SystemMeta) -> CaseMeta {
    let lossy = |words: &[OsString]| words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let command = match subject {
        Subject::Machine => Vec::new(),
        Subject::Command { argv, .. } | Subject::Engine { argv, .. } => lossy(argv),
    };
    let start_ns = monotonic_ns();
    CaseMeta {
        format: "whodisk-case".into(),
        version: FORMAT_VERSION,
        observer: observer.into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        argv: lossy(&std::env::args_os().collect::<Vec<_>>()),
        command,
        command_pid: None,
        scope: None,
        sampling: None,
        command_status: None,
        start_utc: rfc3339_ms(wall_ns(start_ns)),
        clock: Clock {
            name: "CLOCK_MONOTONIC".into(),
            host: system.host.clone(),
            resolution_ns: monotonic_resolution_ns(),
            start_ns,
        },
        fired: Vec::new(),
        duration_ns: None,
        state: State::Recording,
        simulated: false,
        redacted: false,
        tables: Default::default(),
        layers: Default::default(),
        probes: Default::default(),
        phases: Vec::new(),
        workload: None,
        not_observed: always_unseen(subject.is_engine() || observer == "run"),
        not_carried: Vec::new(),
        open_questions: Vec::new(),
    }
}

/// What no probe can observe.
fn always_unseen(intentions_known: bool) -> Vec<Unseen> {
    if intentions_known {
        return Vec::new();
    }
    vec![unseen(
        "intentions of the program (layer app)",
        "only `whodisk run` knows when an operation was meant to start",
    )]
}

/// Threads that are ours: all of this process, and of the engine's those that write its log.
pub fn recorder(engine: Option<i32>) -> BTreeMap<String, BTreeSet<String>> {
    let names = |threads: &[&str]| threads.iter().map(|name| (*name).to_owned()).collect();
    let mut ours: BTreeSet<String> = names(&record::THREADS);
    ours.insert(crate::flight::THREAD.to_owned());
    // The first thread is called as the program is.
    let first = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    ours.extend(Some(first.trim_end().to_owned()).filter(|name| !name.is_empty()));
    let engine = engine.map(|pid| (pid.to_string(), names(&[workload::LOG_THREAD])));
    engine
        .into_iter()
        .chain([(std::process::id().to_string(), ours)])
        .collect()
}

/// Differences that matter, in words.
fn system_changes(before: &SystemMeta, after: &SystemMeta) -> Vec<String> {
    // A loop device without a file has no size: it is there, and yet it is none.
    let present =
        |system: &SystemMeta, name: &String| system.devices.get(name).is_some_and(|d| d.size_bytes > 0);
    let names: BTreeSet<&String> = before.devices.keys().chain(after.devices.keys()).collect();
    let mut changes = Vec::new();
    for name in names {
        match (present(before, name), present(after, name)) {
            (true, false) => changes.push(format!("device {name} is gone")),
            (false, true) => changes.push(format!("device {name} appeared")),
            (true, true) => changes.extend(device_changes(&before.devices[name], &after.devices[name])),
            (false, false) => {}
        }
    }
    for (target, old) in &before.mounts {
        match after.mounts.get(target) {
            None => changes.push(format!("{target} was unmounted")),
            Some(new) if new != old => {
                changes.push(format!("{target} was mounted anew with {}", new.join(" ")))
            }
            Some(_) => {}
        }
    }
    for (irq, [name, affinity]) in &before.irqs {
        if let Some([_, now]) = after.irqs.get(irq).filter(|new| new[1] != *affinity) {
            changes.push(format!(
                "interrupt {irq} ({name}): affinity was {affinity}, is {now}"
            ));
        }
    }
    changes
}

fn device_changes(old: &DeviceMeta, new: &DeviceMeta) -> Vec<String> {
    let name = &old.name;
    let mut changes = Vec::new();
    if old.size_bytes != new.size_bytes {
        changes.push(format!(
            "device {name}: size was {} bytes, is {}",
            old.size_bytes, new.size_bytes
        ));
    }
    for (key, value) in &old.queue {
        let now = new.queue.get(key).map_or("absent", String::as_str);
        if now != value {
            changes.push(format!("device {name}: {key} was '{value}', is '{now}'"));
        }
    }
    // What can change under a drive that stays: an update without a reset, a link that was trained anew.
    for key in ["firmware", "pcie_link"] {
        let (was, is) = (old.facts.get(key), new.facts.get(key));
        if let (Some(was), Some(is)) = (was, is) {
            if was != is {
                changes.push(format!("device {name}: {key} was '{was}', is '{is}'"));
            }
        }
    }
    changes
}

/// Whether `path` looks like a case.
pub fn require_case(path: &Path) -> Result<(), Failure> {
    if path.join("case.json").is_file() {
        return Ok(());
    }
    Err(Failure::error(format!(
        "{}: expected a case (a directory with case.json), found none; check the path",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named() {
        let device = |scheduler: &str| DeviceMeta {
            name: "vda".into(),
            size_bytes: 1 << 30,
            queue: [("scheduler".to_string(), scheduler.to_string())].into(),
            ..Default::default()
        };
        let system = |scheduler: &str| SystemMeta {
            devices: [("vda".to_string(), device(scheduler))].into(),
            ..Default::default()
        };
        let before = system("none");
        assert_eq!(system_changes(&before, &before), Vec::<String>::new());
        let changed = system_changes(&before, &system("mq-deadline"));
        assert_eq!(changed, ["device vda: scheduler was 'none', is 'mq-deadline'"]);
        assert_eq!(
            system_changes(&before, &SystemMeta::default()),
            ["device vda is gone"]
        );
        assert_eq!(
            system_changes(&SystemMeta::default(), &before),
            ["device vda appeared"]
        );
    }
}
