//! `record --ring`: the flight recorder. It keeps the last seconds and writes a case around each slow operation.
use crate::args::RecordArgs;
use crate::case_dir::CaseDir;
use crate::child::{look_up, status_words, Change, Gated, Running as Child};
use crate::failure::Failure;
use crate::losses;
use crate::observe::{cannot_execute, new_meta, note_event, recorder, restore, Subject, GRACE, TICK};
use crate::output::{grouped, print_json, say, Progress};
use crate::probe::{Attached, Probes};
use crate::scope::Watched;
use crate::seal;
use crate::signals::Signals;
use crate::time::{rfc3339_ms, wall_ns, Utc};
use case::meta::{CaseMeta, FiredMeta, ProbeMeta, State, SystemMeta};
use clap::Args;
use record::{spoken, Fired, FlightConfig, Measure, Operation, Snapshot, Trigger};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Thread that writes and seals cases; its requests are not recorded.
pub const THREAD: &str = "whodisk-case";

/// The flight recorder's options.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Flight recorder")]
pub struct FlightArgs {
    /// Keep the last TIME in memory, write a case around each trigger, and go on until Ctrl-C.
    #[arg(long = "ring", value_name = "TIME", value_parser = crate::args::parse_duration, requires = "triggers")]
    pub ring: Option<Duration>,
    /// What makes a case, as 'latency > 50ms' or 'age > 1s and device == sda'; repeat it for several.
    #[arg(long = "trigger", value_name = "TRIGGER", value_parser = parse_trigger, requires = "ring")]
    pub triggers: Vec<Trigger>,
    /// How much of what comes after a trigger is in its case.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::args::parse_duration, requires = "ring")]
    pub after: Duration,
    /// A trigger this soon after the one that made a case makes none [default: as long as the ring]
    #[arg(long, value_name = "TIME", value_parser = crate::args::parse_duration, requires = "ring")]
    pub refractory: Option<Duration>,
    /// Most memory for the rows of the ring; beyond, the oldest go, and are counted.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size, requires = "ring")]
    pub ring_memory: usize,
    /// Write at most this many cases; without a command, end then.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "ring")]
    pub max_cases: Option<u64>,
}

fn parse_trigger(text: &str) -> Result<Trigger, String> {
    text.parse::<Trigger>().map_err(|error| error.to_string())
}

fn parse_size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1usize << 30)];
    let whole = units.iter().find_map(|(unit, bytes)| {
        let number: usize = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*bytes)
    });
    whole
        .filter(|bytes| (1 << 20..=1 << 36).contains(bytes))
        .ok_or_else(|| format!("expected a size of 1MiB to 64GiB with its unit, found '{text}'"))
}

impl FlightArgs {
    fn config(&self, ring: Duration) -> FlightConfig {
        let ns = |time: Duration| time.as_nanos() as u64;
        FlightConfig {
            ring_ns: ns(ring),
            after_ns: ns(self.after),
            refractory_ns: ns(self.refractory.unwrap_or(ring)),
            memory_bytes: self.ring_memory,
            triggers: self.triggers.clone(),
            cases_max: self.max_cases,
        }
    }
}

/// `whodisk record --ring TIME`.
pub fn record(args: &RecordArgs, ring: Duration) -> Result<(), Failure> {
    let watched = Watched::open(&args.scope.pids)?;
    let signals = Signals::block().map_err(|e| Failure::error(format!("cannot block signals: {e}")))?;
    let folder = make_folder(args)?;
    let subject = subject(args)?;
    let gated = crate::observe::fork(&subject, &signals)
        .map_err(|error| Failure::error(format!("cannot fork: {error}")))?;
    let command_pid = gated.as_ref().map(|gated| gated.pid);
    let attached = Attached::attach(
        args.probes.probes.clone(),
        command_pid,
        false,
        args.scope.scope(),
        None,
    )
    .map_err(|reason| Failure::error(format!("cannot observe this machine: {reason}")))?;
    let mut template = new_meta("record", &subject, &SystemMeta::collect());
    template.command_pid = command_pid;
    template.scope = args.scope.meta(command_pid);
    template.not_observed.extend(args.scope.unseen(gated.is_some()));
    template
        .not_observed
        .splice(0..0, attached.unseen().iter().cloned());
    if let Some(detail) = &attached.little_memory {
        crate::output::say(detail);
    }
    let (probes, snapshots) = attached
        .start_flight(args.flight.config(ring))
        .map_err(Failure::error)?;
    announce(args, ring, &folder);
    let open = |gated: Gated| {
        gated
            .open()
            .map_err(|error| cannot_execute(&subject.name(), &error))
    };
    let mut flight = Flying {
        args,
        folder,
        template,
        child: gated.map(open).transpose()?,
        writing: None,
        cases: Vec::new(),
        failure: None,
    };
    flight.watch(&signals, &probes, &snapshots, &watched);
    flight.land(probes, &snapshots, &signals)
}

fn make_folder(args: &RecordArgs) -> Result<PathBuf, Failure> {
    let named = || PathBuf::from(format!("whodisk-flight-{}", Utc::now().compact()));
    let folder = args.case.case.clone().unwrap_or_else(named);
    std::fs::create_dir_all(&folder)
        .map_err(|error| crate::failure::io_failure(&folder, "create the folder of the cases", &error))?;
    Ok(folder)
}

fn subject(args: &RecordArgs) -> Result<Subject, Failure> {
    match args.command.first() {
        None => Ok(Subject::Machine),
        Some(name) => Ok(Subject::Command {
            program: look_up(name).map_err(|e| cannot_execute(name, &e))?,
            argv: args.command.clone(),
        }),
    }
}

fn announce(args: &RecordArgs, ring: Duration, folder: &Path) {
    let triggers: Vec<&str> = args.flight.triggers.iter().map(|t| t.text.as_str()).collect();
    let mebibytes = args.flight.ring_memory >> 20;
    say(&format!(
        "keeping the last {ring:?} in at most {mebibytes} MiB of rows (as much again while a case is written, \
         and 64 MiB between threads); a case in {} on {}; Ctrl-C ends it",
        folder.display(),
        triggers.join(" or ")
    ));
}

/// A flight under way.
struct Flying<'a> {
    args: &'a RecordArgs,
    folder: PathBuf,
    /// What all cases have in common.
    template: CaseMeta,
    child: Option<Child>,
    writing: Option<JoinHandle<Result<PathBuf, Failure>>>,
    cases: Vec<PathBuf>,
    failure: Option<Failure>,
}

impl Flying<'_> {
    /// Until a signal, the end of the command or of the processes, the duration, or the last case.
    fn watch(
        &mut self,
        signals: &Signals,
        probes: &Probes,
        snapshots: &Receiver<Snapshot>,
        watched: &Watched,
    ) {
        let begin = Instant::now();
        let mut progress = Progress::new();
        let mut term_sent: Option<Instant> = None;
        loop {
            let arrived = signals.wait(TICK);
            let told: Vec<_> = arrived.iter().filter(|one| one.signal != libc::SIGCHLD).collect();
            if let Some(child) = &self.child {
                let pass_on = told.iter().filter(|one| !one.from_terminal);
                pass_on.for_each(|one| child.signal(one.signal));
            }
            self.reap();
            self.take(snapshots.try_recv().ok());
            let over = self
                .args
                .duration
                .is_some_and(|duration| begin.elapsed() >= duration);
            if over {
                match (&self.child, term_sent) {
                    (Some(child), None) => {
                        child.signal(libc::SIGTERM);
                        term_sent = Some(Instant::now());
                    }
                    (Some(child), Some(at)) if at.elapsed() > GRACE => child.signal(libc::SIGKILL),
                    _ => {}
                }
            }
            let ended = self.args.command.is_empty() && (!told.is_empty() || over || self.has_enough());
            let alone = self.child.is_none();
            if alone && (ended || !self.args.command.is_empty() || watched.have_ended()) {
                break;
            }
            if alone {
                progress.tick(|| self.progress_text(probes, begin.elapsed()));
            }
        }
        progress.clear();
    }

    fn has_enough(&self) -> bool {
        let most = self.args.flight.max_cases;
        self.writing.is_none() && most.is_some_and(|most| self.cases.len() as u64 >= most)
    }

    fn progress_text(&self, probes: &Probes, elapsed: Duration) -> String {
        let received = grouped(probes.block_requests());
        let mebibytes = probes.flight_counts().bytes >> 20;
        let cases = self.cases.len();
        format!(
            "{} s, {received} block requests, {mebibytes} MiB kept, {cases} cases",
            elapsed.as_secs()
        )
    }

    fn reap(&mut self) {
        if let Some(Change::Ended(status)) = self.child.as_ref().and_then(Child::poll) {
            self.template.command_status = Some(status_words(status));
            self.child = None;
        }
    }

    /// Writes a case, one at a time, on a thread of its own; notes the last one when it is done.
    fn take(&mut self, snapshot: Option<Snapshot>) {
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join();
        }
        let Some(snapshot) = snapshot else { return };
        self.join();
        let (folder, template) = (self.folder.clone(), self.template.clone());
        let (no_seal, drop_raw) = (self.args.case.no_seal, self.args.case.drop_raw);
        let write = move || write_case(&folder, template, snapshot, no_seal, drop_raw);
        let spawned = std::thread::Builder::new().name(THREAD.into()).spawn(write);
        match spawned {
            Ok(thread) => self.writing = Some(thread),
            Err(error) => self.fail(Failure::error(format!("cannot start a thread: {error}"))),
        }
    }

    fn join(&mut self) {
        let Some(thread) = self.writing.take() else { return };
        match thread
            .join()
            .unwrap_or_else(|_| Err(Failure::error("the writer of a case panicked")))
        {
            Ok(case) => self.cases.push(case),
            Err(failure) => self.fail(failure),
        }
    }

    /// A case that could not be written does not end the flight.
    fn fail(&mut self, failure: Failure) {
        say(&failure.message);
        self.failure.get_or_insert(failure);
    }

    fn land(
        mut self,
        probes: Probes,
        snapshots: &Receiver<Snapshot>,
        signals: &Signals,
    ) -> Result<(), Failure> {
        self.join();
        let counts = probes.flight_counts();
        let stopped = probes.stop();
        // What had triggered when the end came.
        while let Ok(snapshot) = snapshots.try_recv() {
            self.take(Some(snapshot));
        }
        self.join();
        restore(signals);
        say(&format!(
            "{} cases in {}; {} further slow operations soon after them, {} after the last one allowed; {} rows left \
             the ring early for want of memory",
            self.cases.len(),
            self.folder.display(),
            counts.merged,
            counts.beyond_max,
            grouped(counts.dropped),
        ));
        if self.args.case.json {
            print_json(&serde_json::json!({
                "cases": self.cases,
                "merged_triggers": counts.merged,
                "triggers_beyond_max_cases": counts.beyond_max,
                "rows_dropped": counts.dropped,
                "command_status": self.template.command_status,
            }))?;
        }
        if let Some(error) = stopped.failure {
            return Err(Failure::error(error));
        }
        self.failure
            .map_or(Ok(()), |_| Err(Failure::error("not every case could be written")))
    }
}

/// Writes the case of a window, and seals it.
fn write_case(
    folder: &Path,
    mut meta: CaseMeta,
    snapshot: Snapshot,
    no_seal: bool,
    drop_raw: bool,
) -> Result<PathBuf, Failure> {
    let triggered_ns = wall_ns(
        snapshot
            .fired
            .first()
            .map_or(snapshot.end_ns, |fired| fired.time_ns),
    );
    let path = free_path(folder, &Utc::of_unix(triggered_ns / 1_000_000_000).compact());
    let dir = CaseDir::create(&path)?;
    let recorder = recorder(None);
    let system = SystemMeta {
        recorder,
        ..SystemMeta::collect()
    };
    system.write(&path)?;
    meta.start_utc = rfc3339_ms(wall_ns(snapshot.start_ns));
    meta.clock.start_ns = snapshot.start_ns;
    meta.write(&path)?;
    let rows = snapshot.write(&dir.raw()).map_err(Failure::error)?;
    for (number, fired) in snapshot.fired.iter().enumerate() {
        let more = if number == 0 { snapshot.fired_more } else { 0 };
        note_event(
            &dir.raw(),
            fired.time_ns,
            "trigger",
            &subject_words(fired),
            &reason_words(fired, more),
        );
    }
    let start_ns = snapshot.start_ns;
    meta.fired = snapshot
        .fired
        .iter()
        .map(|fired| fired_meta(fired, start_ns))
        .collect();
    meta.duration_ns = Some((snapshot.end_ns - snapshot.start_ns) as i64);
    for (probe, attached) in &snapshot.attached {
        let lost = snapshot
            .losses
            .iter()
            .filter(|loss| loss.probe.split('/').next() == Some(probe));
        let account = ProbeMeta {
            attached: attached.clone(),
            received: rows.get(probe.as_str()).copied().unwrap_or(0),
            lost: lost.filter_map(|loss| loss.lost).sum(),
            ..ProbeMeta::default()
        };
        meta.probes.insert(probe.clone(), account);
    }
    meta.state = State::Recorded;
    meta.write(&path)?;
    let first = snapshot
        .fired
        .first()
        .map(|fired| format!("{}: {}", subject_words(fired), reason_words(fired, 0)));
    // The rows' memory is free for the next case from here on.
    drop(snapshot);
    drop(dir);
    let sealed = (!no_seal).then(|| seal::seal_case(&path, drop_raw)).transpose()?;
    let lost = sealed.and_then(|sealed| losses::words(&sealed.layers_missing));
    let lost = lost.map_or(String::new(), |words| format!(". {words}"));
    say(&format!(
        "case {}: {}{lost}",
        path.display(),
        first.unwrap_or_default()
    ));
    Ok(path)
}

/// A name in `folder` that is not taken.
fn free_path(folder: &Path, name: &str) -> PathBuf {
    let numbered = (2..).map(|number| folder.join(format!("{name}-{number}.case")));
    let mut names = std::iter::once(folder.join(format!("{name}.case"))).chain(numbered);
    names.find(|path| !path.exists()).expect("numbers do not end")
}

/// What triggered, for those who explain it; `start_ns` is the begin of the case.
fn fired_meta(fired: &Fired, start_ns: u64) -> FiredMeta {
    let operation = &fired.operation;
    FiredMeta {
        trigger: fired.trigger.clone(),
        measure: fired.measure.name().into(),
        limit_ns: fired.limit_ns,
        time_ns: operation.time_ns,
        start_ns: operation.start_ns as i64 - start_ns as i64,
        layer: operation.layer.name().into(),
        op: operation.op.to_string(),
        device: fired.device.clone(),
        pid: operation.pid,
        tid: operation.tid,
        comm: comm_of(operation),
    }
}

fn comm_of(operation: &Operation) -> String {
    let name = operation.comm.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Who did what where: `block read of fio (process 12) on sda`.
fn subject_words(fired: &Fired) -> String {
    let operation = &fired.operation;
    let name = comm_of(operation);
    let who = match operation.pid {
        -1 => String::new(),
        pid => format!(" of {name} (process {pid})"),
    };
    let place = match fired.device.as_str() {
        "" => String::new(),
        device => format!(" on {device}"),
    };
    format!("{} {}{who}{place}", operation.layer.name(), operation.op)
}

/// Why it triggered.
fn reason_words(fired: &Fired, more: u64) -> String {
    let time = spoken(fired.operation.time_ns);
    let what = match fired.measure {
        Measure::Latency => format!("took {time}"),
        Measure::Age => format!("has been in flight for {time}"),
    };
    let more = match more {
        0 => String::new(),
        more => format!("; {more} more operations triggered in this window"),
    };
    format!("{what} (trigger: {}){more}", fired.trigger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_unit_and_a_sane_value() {
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        for bad in ["256", "1KiB", "9999GiB", "MiB", "-1MiB"] {
            assert!(parse_size(bad).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn names_of_cases_do_not_collide() {
        let folder = tempfile::tempdir().unwrap();
        let first = free_path(folder.path(), "t");
        std::fs::create_dir(&first).unwrap();
        let second = free_path(folder.path(), "t");
        assert!(first.ends_with("t.case") && second.ends_with("t-2.case"));
    }
}
