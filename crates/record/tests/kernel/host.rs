//! Waits, interrupts and samples on a real kernel: known events go in, and other accounts of the kernel agree.
use crate::common::*;
use case::raw::RawRow;
use case::rows::{IrqRow, IrqTotalRow, SampleRow, SchedRow, SchedState};
use record::{Config, ProbeSummary, Recorder};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testing::test;

/// Records while `workload` runs. `child` is in scope from the beginning, as an observed command is.
struct Seen {
    probe: ProbeSummary,
    waits: Vec<SchedRow>,
    runs: Vec<IrqRow>,
    totals: Vec<IrqTotalRow>,
    samples: Vec<SampleRow>,
}

fn record(probe: &str, command: Option<&Child>, workload: impl FnOnce()) -> Seen {
    record_behind(&[], probe, command, workload)
}

/// The same with other probes, which come before it where they have the same tracepoints.
fn record_behind(others: &[&str], probe: &str, command: Option<&Child>, workload: impl FnOnce()) -> Seen {
    let config = Config {
        command_pid: command.map(Child::id),
        ..Config::only(&[others, &[probe]].concat())
    };
    let folder = folder_on_disk();
    let running = Recorder::attach(config).unwrap().start(folder.path()).unwrap();
    workload();
    let mut summary = running.stop().unwrap();
    let probe = summary.probes.remove(probe);
    let probe = probe.unwrap_or_else(|| panic!("not attached: {:?}", summary.unseen));
    let path = |stream: &str| folder.path().join(stream).join(format!("{stream}.arrows"));
    Seen {
        probe,
        waits: read_if_there(&path("sched")),
        runs: read_if_there(&path("irq")),
        totals: read_if_there(&path("irq_total")),
        samples: read_if_there(&path("sample")),
    }
}

/// The rows of a stream; none if its probe was not asked for.
fn read_if_there<R: RawRow>(path: &Path) -> Vec<R> {
    if path.is_file() {
        read(path)
    } else {
        Vec::new()
    }
}

/// A process that ends with the test, whatever happens.
struct Guarded(Child);

impl Guarded {
    fn spawn(program: &str, arguments: &[&str]) -> Guarded {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stdin(Stdio::piped());
        Guarded(command.spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// The kernel's state letter.
    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit(')').next().unwrap().trim().chars().next().unwrap()
    }

    fn wait_for_state(&self, wanted: char) {
        for _ in 0..5000 {
            if self.state() == wanted {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("process {} is {}, not {wanted}", self.pid(), self.state());
    }

    /// Time that it waited for a CPU, by the kernel's own account.
    fn run_delay_ns(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid())).unwrap();
        text.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Waits until it has been given a CPU this many times more: a wait that began before the recording is over.
    fn wait_for_runs(&self, wanted: u64) {
        let runs = || -> u64 {
            let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid())).unwrap();
            text.split_whitespace().nth(2).unwrap().parse().unwrap()
        };
        let before = runs();
        for _ in 0..5000 {
            if runs() >= before + wanted {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("process {} does not run", self.pid());
    }

    fn pin(&self, cpu: usize) {
        // SAFETY: a set of CPUs of the right size.
        unsafe {
            let mut cpus: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut cpus);
            assert_eq!(libc::sched_setaffinity(self.pid(), size_of_val(&cpus), &cpus), 0);
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn of_state(seen: &Seen, pid: i32, states: &[SchedState]) -> Vec<SchedRow> {
    let wanted = |row: &&SchedRow| {
        row.pid == pid
            && states
                .iter()
                .any(|state| SchedState::from_raw(row.state) == Some(*state))
    };
    seen.waits.iter().filter(wanted).copied().collect()
}

fn duration_ns(rows: &[SchedRow]) -> u64 {
    rows.iter().map(|row| row.end_ns - row.start_ns).sum()
}

#[test]
fn every_stop_is_seen_with_its_length() {
    require_kernel!();
    let child = Guarded::spawn("sh", &["-c", "while :; do :; done"]);
    let seen = record("sched", Some(&child.0), || {
        // It must have left its CPU once to be known.
        child.wait_for_runs(3);
        for _ in 0..23 {
            child.signal(libc::SIGSTOP);
            child.wait_for_state('T');
            std::thread::sleep(Duration::from_millis(7));
            child.signal(libc::SIGCONT);
            child.wait_for_state('R');
        }
    });
    let stops = of_state(&seen, child.pid(), &[SchedState::Stopped]);
    assert_eq!(stops.len(), 23, "{:?}", seen.probe);
    assert!(stops.iter().all(|row| row.end_ns - row.start_ns >= 7_000_000));
}

#[test]
fn every_sleep_is_seen_with_its_place() {
    require_kernel!();
    check_sleeps(&[]);
}

#[test]
fn the_last_of_several_programs_at_a_tracepoint_sees_all() {
    require_kernel!();
    check_sleeps(&["block", "cache", "writeback"]);
    check_totals(&["block"]);
}

fn check_sleeps(others: &[&str]) {
    let child = Guarded::spawn(
        "sh",
        &["-c", "read go; for i in $(seq 11); do sleep 0.02; done; read go"],
    );
    let mut sleeps = 0;
    let seen = record_behind(others, "sched", Some(&child.0), || {
        use std::io::Write;
        child.0.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
        std::thread::sleep(Duration::from_millis(200));
        // The shell waits in read(2) again when all eleven have ended.
        for _ in 0..500 {
            let wchan = std::fs::read_to_string(format!("/proc/{}/wchan", child.pid())).unwrap();
            if wchan.contains("pipe_read") {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut placed = 0;
    for row in &seen.waits {
        let of_descendant = row.comm.starts_with(b"sleep") && row.pid != child.pid();
        // One that has no end is the thread's last.
        let lasted_ns = row.end_ns.saturating_sub(row.start_ns);
        if of_descendant && row.state == SchedState::Sleeping as u8 && lasted_ns >= 19_000_000 {
            sleeps += 1;
            // No place is looked up within a millisecond of the last look, which a page fault of the program's start may be.
            let at = row.by.split(|byte| *byte == 0).next().unwrap();
            assert!(at.is_empty() || at == b"hrtimer_nanosleep", "{row:?}");
            placed += usize::from(!at.is_empty());
        }
    }
    assert!(placed > 5, "{:?}", seen.waits);
    assert_eq!(sleeps, 11, "{:?}", seen.probe);
}

/// A shell that waits for its `sleep`, and one that waits for the first one's lines: threads wake both. Timers wake `sleep`, which is nobody's doing.
#[test]
fn who_ends_a_sleep_is_seen_and_an_interrupt_is_nobody() {
    require_kernel!();
    let child = Guarded::spawn(
        "sh",
        &[
            "-c",
            "read go; for i in $(seq 12); do sleep 0.02; echo; done | while read line; do :; done; read go",
        ],
    );
    let seen = record("sched", Some(&child.0), || {
        use std::io::Write;
        child.0.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
        std::thread::sleep(Duration::from_millis(1500));
    });
    let name =
        |padded: &[u8]| String::from_utf8_lossy(padded.split(|byte| *byte == 0).next().unwrap()).into_owned();
    let (mut timers, mut lines, mut ends) = (0, 0, 0);
    for row in &seen.waits {
        if row.end_ns.saturating_sub(row.start_ns) < 15_000_000 || row.state != SchedState::Sleeping as u8 {
            assert!(
                row.waker_tid == 0 || row.end_ns - row.start_ns >= 100_000,
                "{row:?}"
            );
            continue;
        }
        let at = name(&row.by);
        match (name(&row.comm).as_str(), at.as_str()) {
            ("sleep", _) => {
                assert_eq!((row.waker_tid, row.waker), (0, [0; 16]), "{row:?}");
                timers += 1;
            }
            ("sh", _) if at.contains("pipe_read") && row.pid != child.pid() => {
                assert_eq!(name(&row.waker), "sh", "{row:?}");
                assert!(
                    row.waker_tid == row.waker_pid && row.waker_pid != row.pid,
                    "{row:?}"
                );
                lines += 1;
            }
            ("sh", "do_wait") if row.pid != child.pid() => {
                assert_eq!(name(&row.waker), "sleep", "{row:?}");
                ends += 1;
            }
            _ => {}
        }
    }
    assert_eq!(timers, 12, "{:?}", seen.probe);
    assert!(
        lines > 6 && ends > 6,
        "{lines} lines, {ends} ends of sleep: {:?}",
        seen.waits
    );
}

/// Runs a program on CPU 0 ahead of all others there, to its end.
fn run_ahead(command: &mut Command) {
    // SAFETY: two system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let mut cpus: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut cpus);
            libc::sched_setaffinity(0, size_of_val(&cpus), &cpus);
            let priority = libc::sched_param { sched_priority: 10 };
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority);
            Ok(())
        })
    };
    assert!(command.status().unwrap().success());
}

/// A process keeps its CPU while it executes one program after the other, and nobody else gets it in between.
#[test]
fn who_has_the_cpu_is_called_by_the_program_that_it_executed_last() {
    require_kernel!();
    let child = Guarded::spawn("sh", &["-c", "while :; do :; done"]);
    child.pin(0);
    let seen = record("sched", Some(&child.0), || {
        child.wait_for_runs(3);
        let copy = "exec nice -n 0 dd if=/dev/zero of=/dev/null bs=1M count=3000 status=none";
        run_ahead(Command::new("sh").args(["-c", copy]));
        std::thread::sleep(Duration::from_millis(20));
    });
    let waits = of_state(&seen, child.pid(), &[SchedState::Preempted, SchedState::Woken]);
    let longest = waits
        .iter()
        .max_by_key(|row| row.end_ns.saturating_sub(row.start_ns));
    let by = longest.map(|row| row.by).unwrap();
    assert!(by.starts_with(b"dd\0"), "{waits:?}");
}

#[test]
fn a_hog_of_higher_priority_is_named_and_the_delay_is_the_kernels() {
    require_kernel!();
    let child = Guarded::spawn("sh", &["-c", "while :; do :; done"]);
    child.pin(0);
    let hog = "for n in 1 2 3 4 5; do i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.01; done";
    let mut delay_ns = 0;
    let seen = record("sched", Some(&child.0), || {
        child.wait_for_runs(3);
        let before = child.run_delay_ns();
        let mut command = Command::new("sh");
        command.args(["-c", hog]);
        run_ahead(&mut command);
        std::thread::sleep(Duration::from_millis(20));
        delay_ns = child.run_delay_ns() - before;
    });
    let states = [SchedState::Preempted, SchedState::Woken];
    let mut waited = of_state(&seen, child.pid(), &states);
    waited.retain(|row| row.end_ns != 0);
    let waited_ns = duration_ns(&waited) + seen.probe.count("waits_below_min_ns");
    println!(
        "waited {waited_ns} ns; the kernel says {delay_ns} ns; {:?}",
        seen.probe
    );
    // The account of the kernel covers a little less time than the recording, in which others may run as well.
    assert!(waited_ns as f64 >= 0.97 * delay_ns as f64);
    assert!(
        delay_ns > 20_000_000,
        "the hog did not disturb it: the test shows nothing"
    );
    let by_hog: Vec<SchedRow> = waited
        .iter()
        .filter(|row| row.by.starts_with(b"sh\0") && row.by_pid != child.pid())
        .copied()
        .collect();
    assert!(!by_hog.is_empty(), "nobody is blamed: {waited:?}");
}

/// A control group of the first version's CPU controller, removed at the end.
struct CpuGroup(PathBuf);

impl CpuGroup {
    fn new(quota_us: u32, period_us: u32) -> Result<CpuGroup, String> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/cpu/whodisk-test-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = CpuGroup(path);
        let set = |file: &str, value: u32| std::fs::write(group.0.join(file), value.to_string());
        set("cpu.cfs_period_us", period_us)
            .and_then(|()| set("cpu.cfs_quota_us", quota_us))
            .map_err(|error| format!("no CPU controller (v1): {error}"))?;
        Ok(group)
    }

    fn add(&self, pid: i32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn stat(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn throttled_time_is_the_controllers() {
    require_kernel!();
    let group = match CpuGroup::new(10_000, 50_000) {
        Ok(group) => group,
        Err(reason) => testing::skip(reason),
    };
    let child = Guarded::spawn("sh", &["-c", "while :; do :; done"]);
    let mut periods = 0;
    let mut throttled_ns = 0;
    let seen = record("sched", Some(&child.0), || {
        group.add(child.pid());
        std::thread::sleep(Duration::from_millis(1500));
        (periods, throttled_ns) = (group.stat("nr_throttled "), group.stat("throttled_time "));
    });
    let mut waits = of_state(&seen, child.pid(), &[SchedState::Throttled]);
    waits.retain(|row| row.end_ns != 0);
    let seen_ns = duration_ns(&waits);
    println!(
        "{} waits, {seen_ns} ns; the controller says {periods}, {throttled_ns} ns",
        waits.len()
    );
    assert!(periods > 5, "it was not throttled: the test shows nothing");
    // One may have begun before the account was read and another ended after it.
    assert!((waits.len() as i64 - periods as i64).abs() <= 2);
    let ratio = seen_ns as f64 / throttled_ns as f64;
    assert!((0.8..1.35).contains(&ratio), "{ratio}");
}

/// Handler runs of all interrupts that /proc/interrupts counts for devices, by number.
fn interrupts() -> std::collections::BTreeMap<i32, u64> {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap();
    let cpus = text.lines().next().unwrap().split_whitespace().count();
    let line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let counts = rest.split_whitespace().take(cpus).map(|n| n.parse::<u64>().ok());
        Some((number.trim().parse().ok()?, counts.sum::<Option<u64>>()?))
    };
    text.lines().skip(1).filter_map(line).collect()
}

#[test]
fn totals_of_handlers_agree_with_proc_interrupts() {
    require_kernel!();
    check_totals(&[]);
}

fn check_totals(others: &[&str]) {
    let folder = folder_on_disk();
    let file = folder.path().join("data");
    std::fs::write(&file, vec![3u8; 16 << 20]).unwrap();
    run("sync", &[file.to_str().unwrap()]);
    let (mut within, mut around) = (Default::default(), interrupts());
    let seen = record_behind(others, "irq", None, || {
        let before = interrupts();
        fio(
            file.to_str().unwrap(),
            &["--rw=randread", "--size=16m", "--io_size=40988672"],
        );
        within = difference(&before, &interrupts());
    });
    around = difference(&around, &interrupts());
    assert_eq!(seen.probe.lost, 0, "{:?}", seen.probe);
    let mut seen_by_vector: std::collections::BTreeMap<i32, u64> = Default::default();
    for row in &seen.totals {
        if row.kind == 0 {
            *seen_by_vector.entry(row.vector).or_default() += row.runs;
        }
        assert!(
            row.busy_ns <= row.end_ns - row.start_ns + 1_000_000_000,
            "{row:?}"
        );
    }
    let busiest = within.iter().max_by_key(|(_, count)| **count).unwrap();
    assert!(*busiest.1 > 100, "no interrupts: the test shows nothing");
    for (vector, least) in &within {
        let found = seen_by_vector.get(vector).copied().unwrap_or(0);
        // Some kernels run no program while certain tasks are current, so some runs are not shown.
        let enough = vector != busiest.0 || found * 100 >= least * 90;
        assert!(
            enough && found <= around[vector],
            "interrupt {vector}: {found}, the kernel counts {least} to {}",
            around[vector]
        );
    }
    let min_ns = seen.probe.count("min_ns");
    assert!(seen.runs.iter().all(|row| row.end_ns - row.start_ns >= min_ns));
}

type Counts = std::collections::BTreeMap<i32, u64>;

fn difference(before: &Counts, after: &Counts) -> Counts {
    after
        .iter()
        .map(|(vector, count)| (*vector, count - before.get(vector).copied().unwrap_or(0)))
        .collect()
}

#[test]
fn samples_come_once_a_second() {
    require_kernel!();
    let seen = record("sampler", None, || {
        std::thread::sleep(Duration::from_millis(3300))
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
    let idle: Vec<&SampleRow> = seen
        .samples
        .iter()
        .filter(|row| text(&row.subject) == "cpu0" && text(&row.metric) == "steal_ratio")
        .collect();
    assert!((3..=4).contains(&idle.len()), "{idle:?}");
    assert!(
        idle.iter().all(|row| (0.0..=1.1).contains(&row.value)),
        "{idle:?}"
    );
    assert!(idle.is_sorted_by_key(|row| row.time_ns));
}
