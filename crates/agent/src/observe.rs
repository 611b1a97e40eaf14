//! `record` and `run`: observe something from before its first instruction to its end, and seal the case.
use crate::args::{CaseArgs, RecordArgs, RunArgs};
use crate::case_dir::CaseDir;
use crate::child::{look_up, status_words, Change, Gated, Running};
use crate::failure::Failure;
use crate::output::{grouped, print_json, say, Progress};
use crate::probe::{Attached, Probe};
use crate::seal;
use crate::signals::{Arrived, Signals};
use crate::time::{monotonic_ns, monotonic_resolution_ns, Utc};
use case::meta::{CaseMeta, Clock, State, SystemMeta, Unseen};
use case::schema::{EventRow, FORMAT_VERSION};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a command may take to end after SIGTERM at the end of `--duration`.
const GRACE: Duration = Duration::from_secs(5);
/// How often the loop looks around when nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// What is observed.
enum Subject {
    /// Everything on this machine, until told to stop.
    Machine,
    /// A command of the user.
    Command { program: PathBuf, argv: Vec<OsString> },
    /// Our own engine, in a process of its own, so that stopping it does not stop the recorder.
    Engine { program: PathBuf, argv: Vec<OsString> },
}

/// `whodisk record`.
pub fn record(args: RecordArgs) -> Result<(), Failure> {
    let subject = match args.command.first() {
        None => Subject::Machine,
        Some(name) => Subject::Command {
            program: look_up(name).map_err(|e| cannot_execute(name, &e))?,
            argv: args.command.clone(),
        },
    };
    observe("record", &subject, &args.case, args.duration, true)
}

/// `whodisk run`.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    crate::workload::check(&args.spec)?;
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
    observe("run", &subject, &case, None, !args.app_only)
}

fn case_path(args: &CaseArgs) -> PathBuf {
    args.case
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("whodisk-{}", Utc::now().compact())))
}

fn cannot_execute(name: &std::ffi::OsStr, error: &std::io::Error) -> Failure {
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

fn observe(
    observer: &str,
    subject: &Subject,
    args: &CaseArgs,
    duration: Option<Duration>,
    block: bool,
) -> Result<(), Failure> {
    let signals = Signals::block().map_err(|e| Failure::error(format!("cannot block signals: {e}")))?;
    let dir = CaseDir::create(&case_path(args))?;
    let recording = match Recording::begin(dir, observer, subject, &signals, block) {
        Ok(recording) => recording,
        Err((dir, failure)) => {
            dir.remove();
            return Err(failure);
        }
    };
    recording.watch(&signals, duration).finish(args, &signals)
}

/// A recording under way.
struct Recording {
    dir: CaseDir,
    meta: CaseMeta,
    system: SystemMeta,
    probe: Option<Probe>,
    child: Option<Running>,
    own_engine: bool,
    ended: Option<i32>,
}

impl Recording {
    /// Everything up to the first instruction of what is observed. On failure nothing was executed.
    fn begin(
        dir: CaseDir,
        observer: &str,
        subject: &Subject,
        signals: &Signals,
        block: bool,
    ) -> Result<Recording, (CaseDir, Failure)> {
        let system = SystemMeta::collect();
        let mut meta = new_meta(observer, subject, &system);
        if let Err(error) = system.write(&dir.path).and_then(|()| meta.write(&dir.path)) {
            return Err((dir, error.into()));
        }
        let gated = match fork(subject, signals) {
            Ok(gated) => gated,
            Err(error) => return Err((dir, Failure::error(format!("cannot fork: {error}")))),
        };
        let own_engine = matches!(subject, Subject::Engine { .. });
        let attached = if block {
            let join_tgid = gated.as_ref().map(|g| g.pid).filter(|_| own_engine);
            Attached::attach(join_tgid)
        } else {
            Err("the recording was asked for without it (--app-only)".to_string())
        };
        let attached = match attached {
            Ok(attached) => Some(attached),
            Err(reason) if own_engine => {
                say(&format!("recording without the block layer: {reason}"));
                meta.not_observed
                    .push(unseen("block requests (layer block)", &reason));
                None
            }
            Err(reason) => {
                if let Some(gated) = gated {
                    gated.give_up();
                }
                return Err((
                    dir,
                    Failure::error(format!("cannot observe block requests: {reason}")),
                ));
            }
        };
        // Attaching takes a while; the case begins with the first moment that can be recorded.
        meta.clock.start_ns = monotonic_ns();
        let probe = match attached
            .map(|attached| Probe::start(attached, &dir.raw()))
            .transpose()
        {
            Ok(probe) => probe,
            Err(error) => {
                if let Some(gated) = gated {
                    gated.give_up();
                }
                return Err((dir, Failure::error(error)));
            }
        };
        let child = match gated {
            None => {
                if let Err(error) = meta.write(&dir.path) {
                    return Err((dir, error.into()));
                }
                None
            }
            Some(gated) => {
                meta.command_pid = Some(gated.pid);
                if let Err(error) = meta.write(&dir.path) {
                    gated.give_up();
                    return Err((dir, error.into()));
                }
                match gated.open() {
                    Ok(running) => Some(running),
                    Err(error) => return Err((dir, cannot_execute(&subject.name(), &error))),
                }
            }
        };
        Ok(Recording {
            dir,
            meta,
            system,
            probe,
            child,
            own_engine,
            ended: None,
        })
    }

    /// Waits for the end: the command's, the duration's, or a signal's.
    fn watch(mut self, signals: &Signals, duration: Option<Duration>) -> Recording {
        self.announce();
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
            self.reap();
            if self.ended.is_some() || (self.child.is_none() && interruptions > 0) {
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
        self
    }

    fn announce(&self) {
        let path = self.dir.path.display();
        match &self.child {
            None => say(&format!(
                "recording all block requests into {path}; Ctrl-C ends it"
            )),
            Some(child) => say(&format!("recording into {path}; process {}", child.pid)),
        }
    }

    fn progress_text(&self, elapsed: Duration) -> String {
        let received = self.probe.as_ref().map_or(0, Probe::received);
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
    fn reap(&mut self) {
        while let Some(change) = self.child.as_ref().and_then(Running::poll) {
            let pid = self.child.as_ref().map_or(0, |c| c.pid);
            match change {
                Change::Ended(status) => {
                    self.ended = Some(status);
                    return;
                }
                Change::Stopped(signal) => self.event(pid, &format!("stopped by signal {signal}")),
                Change::Continued => self.event(pid, "continued"),
            }
        }
    }

    fn event(&self, pid: i32, detail: &str) {
        let row = EventRow {
            time_ns: monotonic_ns() as i64,
            kind: "signal".into(),
            subject: format!("process {pid}"),
            detail: detail.into(),
        };
        let Ok(mut line) = serde_json::to_string(&row) else {
            return;
        };
        line.push('\n');
        let path = self.dir.raw().join("events.jsonl");
        let written = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            say(&format!(
                "{}: cannot append to raw/events.jsonl: {error}",
                self.dir.path.display()
            ));
        }
    }

    /// Closes the case, seals it, and says how it went.
    fn finish(mut self, args: &CaseArgs, signals: &Signals) -> Result<(), Failure> {
        let duration_ns = (monotonic_ns() - self.meta.clock.start_ns) as i64;
        self.meta.duration_ns = Some(duration_ns);
        self.meta.command_status = self.ended.map(status_words);
        let probe_failure = self.stop_probe();
        self.note_changes()?;
        let engine_failure = self.engine_failure();
        if engine_failure.is_some() && !self.has_app_rows() {
            self.dir.remove();
            return Err(engine_failure.unwrap_or_else(Failure::check));
        }
        if let Some(error) = probe_failure {
            let _ = self.meta.write(&self.dir.path);
            let path = self.dir.path.display();
            return Err(Failure::error(format!(
                "{error}\nwhodisk: {path}: readable up to the last batch that was written; \
                 `whodisk seal {path}` turns it into tables"
            )));
        }
        self.meta.state = State::Recorded;
        self.meta.write(&self.dir.path)?;
        self.summarize(duration_ns);
        let path = self.dir.path.clone();
        let status = self.meta.command_status.clone();
        drop(self);
        // From here on Ctrl-C only interrupts the sealing, which leaves the raw events as they are.
        restore(signals);
        let sealed = if args.no_seal {
            None
        } else {
            Some(seal::seal_case(&path, args.drop_raw)?)
        };
        say(&format!(
            "case {}{}",
            path.display(),
            if sealed.is_some() {
                ""
            } else {
                " (raw events only)"
            }
        ));
        if args.json {
            print_json(&serde_json::json!({
                "case": path, "command_status": status, "duration_ns": duration_ns, "sealed": sealed,
            }))?;
        }
        engine_failure.map_or(Ok(()), Err)
    }

    fn stop_probe(&mut self) -> Option<String> {
        let stopped = self.probe.take()?.stop();
        self.meta.probes.insert("block".into(), stopped.meta);
        self.meta.not_observed.splice(0..0, stopped.not_observed);
        stopped.failure
    }

    /// Compares the settings of the machine with those at the start.
    fn note_changes(&mut self) -> Result<(), Failure> {
        let changes = system_changes(&self.system, &SystemMeta::collect());
        if !changes.is_empty() {
            self.system.changes = changes;
            self.system.write(&self.dir.path)?;
        }
        Ok(())
    }

    /// Our own engine must end well; a user's command may end as it likes.
    fn engine_failure(&self) -> Option<Failure> {
        let status = self.ended.filter(|status| self.own_engine && *status != 0)?;
        let message = if libc::WIFEXITED(status) {
            // The engine has said why on stderr.
            String::new()
        } else {
            format!(
                "{}: the workload process ended with {}",
                self.dir.path.display(),
                status_words(status)
            )
        };
        Some(Failure {
            code: crate::failure::ERROR,
            message,
        })
    }

    fn has_app_rows(&self) -> bool {
        let worker = self.dir.raw().join("app/worker-000.arrows");
        worker.metadata().is_ok_and(|m| m.len() > 0)
    }

    fn summarize(&self, duration_ns: i64) {
        let mut text = format!("recorded {:.1} s", duration_ns as f64 / 1e9);
        if let Some(probe) = self.meta.probes.get("block") {
            let (received, lost) = (grouped(probe.received), grouped(probe.lost));
            text.push_str(&format!(": {received} block requests, {lost} lost"));
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

impl Subject {
    fn name(&self) -> OsString {
        match self {
            Subject::Machine => OsString::new(),
            Subject::Command { argv, .. } => argv[0].clone(),
            Subject::Engine { program, .. } => program.clone().into_os_string(),
        }
    }
}

fn fork(subject: &Subject, signals: &Signals) -> std::io::Result<Option<Gated>> {
    let (program, argv, own) = match subject {
        Subject::Machine => return Ok(None),
        Subject::Command { program, argv } => (program, argv, false),
        Subject::Engine { program, argv } => (program, argv, true),
    };
    Gated::fork(program, argv, &signals.original_mask, own).map(Some)
}

fn restore(signals: &Signals) {
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

fn new_meta(observer: &str, subject: &Subject, system: &SystemMeta) -> CaseMeta {
    let lossy = |words: &[OsString]| words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let command = match subject {
        Subject::Machine => Vec::new(),
        Subject::Command { argv, .. } | Subject::Engine { argv, .. } => lossy(argv),
    };
    CaseMeta {
        format: "whodisk-case".into(),
        version: FORMAT_VERSION,
        observer: observer.into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        argv: lossy(&std::env::args_os().collect::<Vec<_>>()),
        command,
        command_pid: None,
        command_status: None,
        start_utc: Utc::now().rfc3339(),
        clock: Clock {
            name: "CLOCK_MONOTONIC".into(),
            host: system.host.clone(),
            resolution_ns: monotonic_resolution_ns(),
            start_ns: monotonic_ns(),
        },
        duration_ns: None,
        state: State::Recording,
        simulated: false,
        tables: Default::default(),
        layers: Default::default(),
        probes: Default::default(),
        phases: Vec::new(),
        workload: None,
        not_observed: always_unseen(matches!(subject, Subject::Engine { .. })),
        not_carried: Vec::new(),
        open_questions: Vec::new(),
    }
}

/// What this version never observes. Every entry that a later probe makes untrue goes with that probe.
fn always_unseen(own_engine: bool) -> Vec<Unseen> {
    let no_probe = |what: &str, consequence: &str| {
        unseen(
            what,
            &format!("this version of whodisk has no probe for it; {consequence}"),
        )
    };
    let mut list = vec![
        no_probe(
            "system calls (layer syscall)",
            "time above the block layer is one stage, whatever the kernel did there",
        ),
        no_probe(
            "run queue and steal time",
            "a submitter that waits for a CPU counts as app, fs or reap time",
        ),
        no_probe(
            "page cache",
            "hits, readahead and writeback show only as block requests",
        ),
        no_probe(
            "I/O controllers and writeback throttling",
            "time held back on purpose counts as fs or queue time",
        ),
        no_probe(
            "interrupt handlers of other devices",
            "time they take inside an interrupt is not told apart",
        ),
        no_probe(
            "bios on stacked devices (dm, md)",
            "only requests at the devices below are seen",
        ),
        no_probe(
            "inside of the drive (layer device)",
            "device time includes driver, bus and firmware",
        ),
    ];
    if !own_engine {
        list.push(unseen(
            "intentions of the program (layer app)",
            "only `whodisk run` knows when an operation was meant to start",
        ));
    }
    list
}

/// Differences that matter, in words.
fn system_changes(before: &SystemMeta, after: &SystemMeta) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, old) in &before.devices {
        let Some(new) = after.devices.get(name) else {
            changes.push(format!("device {name} is gone"));
            continue;
        };
        for (key, value) in &old.queue {
            let now = new.queue.get(key);
            if now != Some(value) {
                let now = now.map_or("absent", String::as_str);
                changes.push(format!("device {name}: {key} was '{value}', is '{now}'"));
            }
        }
    }
    let appeared = after
        .devices
        .keys()
        .filter(|name| !before.devices.contains_key(*name));
    changes.extend(appeared.map(|name| format!("device {name} appeared")));
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
    use case::meta::DeviceMeta;

    #[test]
    fn changes_are_named() {
        let device = |scheduler: &str| DeviceMeta {
            name: "vda".into(),
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
