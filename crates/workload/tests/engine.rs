//! The engine on real targets: every operation is logged, once, with causal stamps.
use case::raw::RawReader;
use case::rows::AppRow;
use case::schema::{Layer, Op};
use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use testing::test;
use workload::{Progress, RunOptions, Spec, Summary, WorkloadError};

testing::main!();

/// A run in a folder of its own.
struct Ran {
    _folder: TempDir,
    raw_dir: PathBuf,
    summary: Summary,
    rows: Vec<Vec<AppRow>>,
}

impl Ran {
    fn all(&self) -> impl Iterator<Item = &AppRow> {
        self.rows.iter().flatten()
    }

    fn count(&self, op: Op) -> usize {
        self.all().filter(|row| row.op == op as u8).count()
    }
}

/// The file system of the build (a real one, normally).
fn disk_folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder")
}

fn memory_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a temporary folder on tmpfs")
}

fn parse(body: &str, folder: &Path) -> Spec {
    let body = body.replace("DIR", folder.to_str().expect("a UTF-8 path"));
    Spec::parse(&format!("[workload]\n{body}"), "test").unwrap_or_else(|error| panic!("{error}"))
}

fn try_run(
    folder: &TempDir,
    body: &str,
    progress: Option<&dyn Fn(&Progress)>,
) -> Result<Summary, WorkloadError> {
    let stop = AtomicBool::new(false);
    workload::run(
        &parse(body, folder.path()),
        &folder.path().join("raw"),
        RunOptions {
            stop: &stop,
            progress,
        },
    )
}

fn run(folder: TempDir, body: &str) -> Ran {
    let summary = try_run(&folder, body, None).unwrap_or_else(|error| panic!("{error}"));
    ran(folder, summary)
}

/// Reads the log of a finished run and checks what holds for every run.
fn ran(folder: TempDir, summary: Summary) -> Ran {
    let raw_dir = folder.path().join("raw");
    let rows: Vec<Vec<AppRow>> = summary
        .workers
        .iter()
        .map(|worker| read_stream(&raw_dir, worker.worker))
        .collect();
    let ran = Ran {
        _folder: folder,
        raw_dir,
        summary,
        rows,
    };
    check_always(&ran);
    ran
}

fn read_stream(raw_dir: &Path, worker: u32) -> Vec<AppRow> {
    let path = raw_dir.join(format!("app/worker-{worker:03}.arrows"));
    let mut reader = RawReader::<AppRow>::open(&path).expect("a stream");
    assert_eq!(reader.metadata("comm"), Some(format!("worker-{worker}").as_str()));
    for key in [
        "pid",
        "tid",
        "worker",
        "files",
        "direct",
        "loop",
        "queue_depth_max",
    ] {
        assert!(reader.metadata(key).is_some(), "no metadata {key}");
    }
    let (mut rows, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("a batch") {
        rows.append(&mut batch);
    }
    assert_eq!(reader.truncation(), None);
    rows
}

fn check_always(ran: &Ran) {
    let Ran { summary, rows, .. } = ran;
    assert_eq!(ran.all().count() as u64, summary.ops);
    let ids: HashSet<u64> = ran.all().map(|row| row.op_id).collect();
    assert_eq!(ids.len() as u64, summary.ops, "operation ids are unique");
    for (worker, rows) in rows.iter().enumerate() {
        assert_eq!(rows.len() as u64, summary.workers[worker].ops);
        let mut sequence: Vec<u64> = rows.iter().map(|row| row.op_id).collect();
        sequence.sort_unstable();
        let first = Layer::App.op_id_base() | (worker as u64) << 40 | 1;
        assert!(
            sequence.iter().zip(first..).all(|(id, expected)| *id == expected),
            "ids without holes"
        );
        for row in rows {
            let stamps = [row.intended_ns, row.submit_ns, row.complete_ns, row.reap_ns];
            assert!(stamps.is_sorted() && row.intended_ns > 0, "{row:?}");
            assert!(
                (1..=summary.spec.queue_depth).contains(&row.queue_depth),
                "{row:?}"
            );
            let size_bytes = summary.targets[usize::from(row.file)].size_bytes;
            assert!(
                row.offset_bytes + u64::from(row.size_bytes) <= size_bytes,
                "{row:?}"
            );
        }
    }
    let bytes_of = |op: Op| {
        let good = ran.all().filter(|row| row.op == op as u8 && row.error == 0);
        good.map(|row| u64::from(row.size_bytes)).sum::<u64>()
    };
    assert_eq!(bytes_of(Op::Read), summary.read_bytes);
    assert_eq!(bytes_of(Op::Write), summary.written_bytes);
    assert_eq!(
        ran.all().filter(|row| row.error != 0).count() as u64,
        summary.errors
    );
    let text = std::fs::read_to_string(ran.raw_dir.join("app/workload.json")).expect("workload.json");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["ops"], summary.ops);
}

/// Closed loop: submit is the intended start, and at no moment are more than `queue_depth` in flight.
fn check_closed_loop(ran: &Ran) {
    for rows in &ran.rows {
        let mut edges: Vec<(u64, i64)> = Vec::new();
        for row in rows {
            assert_eq!(row.intended_ns, row.submit_ns);
            edges.extend([(row.submit_ns, 1), (row.reap_ns, -1)]);
        }
        edges.sort_unstable();
        let mut in_flight = 0;
        for (_, step) in edges {
            in_flight += step;
            assert!(in_flight <= i64::from(ran.summary.spec.queue_depth));
        }
    }
}

const PRIME: u64 = 10_007;

#[test]
fn exactly_a_prime_number_of_operations_buffered_on_tmpfs() {
    let body = format!(
        "targets = [\"DIR/a\", \"DIR/b\"]\nfile_size = \"4MiB\"\nio = \"buffered\"\nread = \"60%\"\nrandom = \"55%\"\n\
         block_sizes = {{ \"512B\" = \"30%\", \"4KiB\" = \"70%\" }}\nworkers = 3\nqueue_depth = 7\noperations = {PRIME}"
    );
    let ran = run(memory_folder(), &body);
    check_closed_loop(&ran);
    assert_eq!(ran.summary.ops, PRIME);
    assert_eq!((ran.summary.errors, ran.summary.ended_by), (0, "operations"));
    let per_worker: Vec<u64> = ran.summary.workers.iter().map(|worker| worker.ops).collect();
    assert_eq!(per_worker, [3336, 3336, 3335]);
}

#[test]
fn exactly_a_prime_number_of_operations_direct_on_disk() {
    let body = format!(
        "targets = [\"DIR/a\"]\nfile_size = \"8MiB\"\nread = \"60%\"\nqueue_depth = 16\nworkers = 2\noperations = {PRIME}"
    );
    let folder = disk_folder();
    let ran = match try_run(&folder, &body, None) {
        Err(WorkloadError::Io { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
            testing::skip(concat!("no direct I/O under ", env!("CARGO_TARGET_TMPDIR")))
        }
        result => ran(folder, result.unwrap_or_else(|error| panic!("{error}"))),
    };
    check_closed_loop(&ran);
    assert_eq!((ran.summary.ops, ran.summary.errors), (PRIME, 0));
    assert_eq!(ran.summary.read_bytes + ran.summary.written_bytes, PRIME * 4096);
    assert_eq!(ran.summary.targets[0].laid_out_bytes, 8 << 20);
}

#[test]
fn the_null_target_logs_like_any_other() {
    let body = "targets = [\"null\"]\nread = \"60%\"\nrandom = \"55%\"\nqueue_depth = 64\nworkers = 2\noperations = 1000003";
    let ran = run(memory_folder(), body);
    check_closed_loop(&ran);
    assert_eq!(ran.summary.ops, 1_000_003);
    assert!(ran.summary.io_uring.is_none());
    let reads = ran.count(Op::Read) as f64 / 1_000_003.0;
    assert!((reads - 0.6).abs() < 0.0025, "{reads}");
}

#[test]
fn written_data_are_random_and_never_the_same() {
    let body =
        "targets = [\"DIR/a\"]\nfile_size = \"1MiB\"\nio = \"buffered\"\nread = \"0%\"\nrandom = \"0%\"\n\
                block_sizes = \"16KiB\"\nqueue_depth = 4\noperations = 64";
    let ran = run(memory_folder(), body);
    let data = std::fs::read(ran._folder.path().join("a")).expect("the target");
    let pages: HashSet<&[u8]> = data.chunks(4096).collect();
    assert_eq!(pages.len(), data.len() / 4096, "every page differs");
    let zeros = data.iter().filter(|byte| **byte == 0).count() as f64 / data.len() as f64;
    assert!((zeros - 1.0 / 256.0).abs() < 0.002, "share of zero bytes {zeros}");
}

#[test]
fn a_constant_rate_keeps_its_schedule() {
    let body = "targets = [\"null\"]\nrate = \"3000/s\"\nworkers = 3\nqueue_depth = 8\nramp = \"100ms\"\nduration = \"400ms\"";
    let ran = run(memory_folder(), body);
    let start_ns = ran.summary.phases[0].start_ns;
    for (worker, rows) in ran.rows.iter().enumerate() {
        for (n, row) in rows.iter().enumerate() {
            let slot = (n * 3 + worker) as u64;
            assert_eq!(
                row.intended_ns - start_ns,
                slot * 1_000_000_000 / 3000,
                "slot {slot}"
            );
        }
    }
    // 1,500 slots in 500 ms; those that came too late on a busy machine are accounted for.
    assert_eq!(ran.summary.ops + ran.summary.missed_slots, 1500);
    assert_eq!(ran.summary.offered_ops, Some(1200));
    assert_eq!(ran.summary.offered_ops_per_s, Some(3000.0));
    assert_eq!(
        ran.summary.phases.iter().map(|phase| phase.end_ns).max(),
        Some(start_ns + 500_000_000)
    );
}

/// A rate no disk reaches: starts are late, the schedule is not, and nothing is unaccounted for.
#[test]
fn an_overloaded_rate_counts_from_the_intended_start() {
    let body = "targets = [\"DIR/a\"]\nfile_size = \"1MiB\"\nio = \"buffered\"\nread = \"0%\"\nsync_every_writes = 1\n\
                rate = \"1000000/s\"\nqueue_depth = 2\nramp = \"100ms\"\nduration = \"200ms\"";
    let ran = run(disk_folder(), body);
    let start_ns = ran.summary.phases[0].start_ns;
    assert!(ran.summary.missed_slots > 0);
    assert_eq!(ran.summary.ops + ran.summary.missed_slots, 300_000);
    assert_eq!(ran.summary.offered_ops, Some(200_000));
    for (n, row) in ran.rows[0].iter().enumerate() {
        assert_eq!(
            row.op_id & 0xff_ffff,
            n as u64 + 1,
            "depth 1 in effect: rows are in order"
        );
        assert_eq!(row.intended_ns, start_ns + n as u64 * 1000);
    }
    let last = ran.rows[0].last().expect("rows");
    assert!(last.submit_ns - last.intended_ns > 100_000_000, "{last:?}");
}

#[test]
fn syncs_follow_every_nth_write_and_stand_alone() {
    let body = "targets = [\"DIR/a\"]\nfile_size = \"1MiB\"\nio = \"buffered\"\nread = \"20%\"\nsync_every_writes = 5\n\
                sync_kind = \"fdatasync\"\nqueue_depth = 4\noperations = 2003";
    let ran = run(disk_folder(), body);
    let (writes, syncs) = (ran.count(Op::Write), ran.count(Op::Sync));
    // The last operation may be a fifth write with a sync that came too late.
    assert!(
        syncs == writes / 5 || (writes % 5 == 0 && syncs == writes / 5 - 1),
        "{writes}, {syncs}"
    );
    assert_eq!(ran.summary.syncs as usize, syncs);
    assert_eq!(ran.summary.ops, 2003);
    let mut rows = ran.rows[0].clone();
    rows.sort_by_key(|row| row.op_id);
    for (before, sync) in rows
        .iter()
        .zip(&rows[1..])
        .filter(|(_, row)| row.op == Op::Sync as u8)
    {
        assert!(
            before.reap_ns <= sync.submit_ns,
            "a sync waits for what came before"
        );
        assert_eq!((sync.queue_depth, sync.size_bytes, sync.offset_bytes), (1, 0, 0));
    }
    for (sync, after) in rows
        .iter()
        .zip(&rows[1..])
        .filter(|(row, _)| row.op == Op::Sync as u8)
    {
        assert!(
            sync.reap_ns <= after.submit_ns,
            "what comes next waits for the sync"
        );
    }
}

#[test]
fn ramp_and_measure_are_told_apart() {
    let body = "targets = [\"null\"]\nramp = \"50ms\"\nduration = \"50ms\"\nqueue_depth = 4";
    let ran = run(memory_folder(), body);
    let [ramp, measure] = ran.summary.phases.as_slice() else {
        panic!("{:?}", ran.summary.phases)
    };
    assert_eq!((ramp.name, ramp.end_ns - ramp.start_ns), ("ramp", 50_000_000));
    assert_eq!(
        (measure.name, measure.start_ns, measure.end_ns - measure.start_ns),
        ("measure", ramp.end_ns, 50_000_000)
    );
    let inside = |row: &&AppRow| (measure.start_ns..measure.end_ns).contains(&row.complete_ns);
    assert_eq!(ran.all().filter(inside).count() as u64, ran.summary.ops_measured);
    let achieved = ran.summary.ops_measured as f64 / 0.05;
    assert!((ran.summary.achieved_ops_per_s / achieved - 1.0).abs() < 1e-9);
    assert!(ran.all().all(|row| row.submit_ns < measure.end_ns + 50_000_000));
}

#[test]
fn the_stop_flag_drains_and_finishes() {
    let folder = memory_folder();
    let stop = AtomicBool::new(false);
    let progress = |at: &Progress| {
        if at.phase == "measure" && at.ops > 0 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let spec = parse(
        "targets = [\"DIR/a\"]\nfile_size = \"1MiB\"\nio = \"buffered\"\nqueue_depth = 8\nduration = \"1h\"",
        folder.path(),
    );
    let options = RunOptions {
        stop: &stop,
        progress: Some(&progress),
    };
    let summary =
        workload::run(&spec, &folder.path().join("raw"), options).unwrap_or_else(|error| panic!("{error}"));
    let ran = ran(folder, summary);
    assert_eq!(ran.summary.ended_by, "stopped");
    assert!(ran.summary.ops > 0);
}

/// The target loses its second half under the run: reads there are short, are logged, and the run goes on.
#[test]
fn short_reads_are_rows_and_events() {
    let folder = memory_folder();
    let path = folder.path().join("a");
    let progress = |at: &Progress| {
        if at.ops > 0 {
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .expect("the target");
            file.set_len((1 << 19) + 512).expect("truncated");
        }
    };
    let body = "targets = [\"DIR/a\"]\nfile_size = \"1MiB\"\nio = \"buffered\"\nqueue_depth = 8\nduration = \"600ms\"";
    let summary = try_run(&folder, body, Some(&progress)).unwrap_or_else(|error| panic!("{error}"));
    let ran = ran(folder, summary);
    assert!(ran.summary.errors > 0 && ran.summary.errors == ran.summary.short);
    assert_eq!(
        ran.summary.errors_by_errno,
        BTreeMap::from([(libc::EIO, ran.summary.short)])
    );
    for row in ran.all().filter(|row| row.error != 0) {
        assert!(row.offset_bytes + 4096 > (1 << 19) + 512, "{row:?}");
    }
    let events = std::fs::read_to_string(ran.raw_dir.join("events.jsonl")).expect("events.jsonl");
    assert_eq!(
        events.lines().count() as u64 + ran.summary.events_dropped,
        ran.summary.short
    );
    let first: case::schema::EventRow =
        serde_json::from_str(events.lines().next().expect("a line")).expect("an event");
    assert!(
        first.kind == "error" && first.detail.starts_with("short read: "),
        "{first:?}"
    );
}

/// A memory file that is sealed against writing gives EPERM for each write; reads go on.
#[test]
fn failed_writes_carry_their_errno() {
    // SAFETY: the name is a C string; the descriptor is ours until the end of the test.
    let fd = unsafe { libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING) };
    assert!(fd >= 0, "memfd_create");
    // SAFETY: calls on the descriptor just made.
    let sealed = unsafe {
        libc::ftruncate(fd, 1 << 20) == 0 && libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_WRITE) == 0
    };
    assert!(sealed, "{}", std::io::Error::last_os_error());
    let body = format!(
        "targets = [\"/proc/self/fd/{fd}\"]\nallow_overwrite = true\nio = \"buffered\"\nread = \"50%\"\nqueue_depth = 4\noperations = 1009"
    );
    let ran = run(memory_folder(), &body);
    // SAFETY: nobody else uses it.
    unsafe { libc::close(fd) };
    assert!(ran.summary.errors > 400);
    assert_eq!(
        ran.summary.errors_by_errno,
        BTreeMap::from([(libc::EPERM, ran.summary.errors)])
    );
    assert!(ran
        .all()
        .all(|row| (row.error == libc::EPERM) == (row.op == Op::Write as u8)));
    assert_eq!(ran.summary.ops, 1009);
}

#[test]
fn targets_that_must_not_be_written_are_refused() {
    let folder = memory_folder();
    std::fs::write(folder.path().join("precious"), vec![7; 1 << 20]).expect("a file");
    let refused = |body: &str| try_run(&folder, body, None).expect_err(body).to_string();
    let error = refused("targets = [\"DIR/precious\"]\nio = \"buffered\"\nread = \"50%\"\noperations = 10");
    assert!(error.contains("allow_overwrite = true"), "{error}");
    let error =
        refused("targets = [\"DIR/precious\"]\nio = \"buffered\"\nfile_size = \"2MiB\"\noperations = 10");
    assert!(error.contains("2 MiB") && error.contains("1 MiB"), "{error}");
    let error = refused("targets = [\"DIR/absent\"]\noperations = 10");
    assert!(error.contains("absent") && error.contains("file_size"), "{error}");
    let error = refused("targets = [\"DIR\"]\noperations = 10");
    assert!(error.contains("found a folder"), "{error}");
    let error = refused("targets = [\"DIR/no/such\"]\nfile_size = \"1MiB\"\noperations = 10");
    assert!(error.contains("cannot create the target"), "{error}");
    let error = refused("targets = [\"DIR/precious\"]\nblock_sizes = \"2MiB\"\noperations = 10");
    assert!(
        error.contains("at least the largest block size, 2 MiB"),
        "{error}"
    );
    assert_eq!(
        std::fs::read(folder.path().join("precious")).expect("the file"),
        vec![7; 1 << 20]
    );
}

#[test]
fn allowed_and_own_files_are_written() {
    let folder = disk_folder();
    std::fs::write(folder.path().join("old"), vec![7; 1 << 20]).expect("a file");
    let body =
        "targets = [\"DIR/old\"]\nio = \"buffered\"\nread = \"0%\"\noperations = 10\nallow_overwrite = true";
    let summary = try_run(&folder, body, None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((summary.errors, summary.targets[0].laid_out_bytes), (0, 0));
    // Created by the first run, used again by the second, extended by the third.
    for (round, (size, laid_out_bytes)) in [(1, 1 << 20), (1, 0), (2, 1 << 20)].into_iter().enumerate() {
        std::fs::remove_dir_all(folder.path().join("raw")).expect("the last log");
        let body = format!(
            "targets = [\"DIR/own\"]\nio = \"buffered\"\nread = \"0%\"\noperations = 10\nfile_size = \"{size}MiB\""
        );
        match try_run(&folder, &body, None) {
            Ok(summary) => assert_eq!(summary.targets[0].laid_out_bytes, laid_out_bytes, "round {round}"),
            Err(error) if round > 0 && !has_xattrs(&folder.path().join("own")) => {
                testing::skip(format!("no extended attributes here: {error}"))
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// What stands at the name of a file of ours need not be ours any more: `cp photos data.bin` keeps the mark.
#[test]
fn a_file_of_ours_that_somebody_changed_is_theirs() {
    let folder = disk_folder();
    let own = folder.path().join("own");
    let body =
        "targets = [\"DIR/own\"]\nio = \"buffered\"\nread = \"0%\"\noperations = 10\nfile_size = \"1MiB\"";
    let again = || {
        let _ = std::fs::remove_dir_all(folder.path().join("raw"));
        try_run(&folder, body, None)
    };
    again().unwrap_or_else(|error| panic!("{error}"));
    assert!(
        has_xattrs(&own),
        "needs extended attributes on the disk of the build"
    );
    again().unwrap_or_else(|error| panic!("{error}"));
    let precious = vec![7; 1 << 20];
    std::fs::write(&own, &precious).expect("somebody's content");
    let error = again().expect_err("changed").to_string();
    assert!(
        error.contains("copied or changed") && error.contains("allow_overwrite"),
        "{error}"
    );
    assert_eq!(std::fs::read(&own).expect("the file"), precious);
    // A copy with its attributes is another file.
    std::fs::remove_file(&own).expect("the file");
    again().unwrap_or_else(|error| panic!("{error}"));
    let kept = folder.path().join("kept");
    let copied = std::process::Command::new("cp")
        .args([std::ffi::OsStr::new("-a"), own.as_os_str(), kept.as_os_str()])
        .status();
    assert!(copied.expect("cp").success());
    std::fs::rename(&kept, &own).expect("a rename");
    let before = std::fs::read(&own).expect("the copy");
    assert!(again().is_err());
    assert_eq!(std::fs::read(&own).expect("the copy"), before);
}

#[test]
fn a_link_to_nowhere_is_not_followed() {
    let folder = memory_folder();
    let elsewhere = folder.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, folder.path().join("link")).expect("a link");
    let body = "targets = [\"DIR/link\"]\nio = \"buffered\"\nread = \"0%\"\noperations = 10\nfile_size = \"1MiB\"\nallow_overwrite = true";
    let error = try_run(&folder, body, None).expect_err("a link").to_string();
    assert!(error.contains("not even a link"), "{error}");
    assert!(!elsewhere.exists());
}

/// What is checked is what is written, whoever moves names about meanwhile.
#[test]
fn a_link_put_there_after_the_check_is_not_followed() {
    let folder = memory_folder();
    let (target, precious) = (folder.path().join("new"), folder.path().join("precious"));
    std::fs::write(&precious, vec![7; 2 << 20]).expect("a file");
    let swap = |progress: &Progress| {
        if progress.phase == "layout" && !target.is_symlink() {
            std::fs::remove_file(&target).expect("the file that is laid out");
            std::os::unix::fs::symlink(&precious, &target).expect("a link");
        }
    };
    let body =
        "targets = [\"DIR/new\"]\nio = \"buffered\"\nread = \"0%\"\noperations = 10\nfile_size = \"2MiB\"";
    let ran = try_run(&folder, body, Some(&swap));
    assert!(target.is_symlink());
    assert_eq!(
        std::fs::read(&precious).expect("the file"),
        vec![7; 2 << 20],
        "{ran:?}"
    );
    assert_eq!(ran.expect("a run on the file that was made").errors, 0);
}

fn has_xattrs(path: &Path) -> bool {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("the target");
    // SAFETY: valid strings and an open descriptor.
    let result = unsafe {
        libc::fsetxattr(
            file.as_raw_fd(),
            c"user.whodisk.probe".as_ptr(),
            c"1".as_ptr().cast(),
            1,
            0,
        )
    };
    result == 0
}

#[test]
fn a_log_that_exists_is_not_overwritten() {
    let folder = memory_folder();
    let body = "targets = [\"null\"]\noperations = 10";
    try_run(&folder, body, None).unwrap_or_else(|error| panic!("{error}"));
    let error = try_run(&folder, body, None)
        .expect_err("the streams exist")
        .to_string();
    assert!(error.contains("worker-000.arrows"), "{error}");
}

#[test]
fn too_much_memory_is_refused() {
    let body =
        "targets = [\"null\"]\nblock_sizes = \"16MiB\"\nqueue_depth = 4096\nworkers = 256\noperations = 10";
    let error = try_run(&memory_folder(), body, None)
        .expect_err("17 TiB of buffers")
        .to_string();
    assert!(error.contains("lower one of them"), "{error}");
}

/// The same seed gives the same operations, whatever the timing.
#[test]
fn a_seed_repeats_a_run() {
    let body =
        "targets = [\"DIR/a\"]\nfile_size = \"4MiB\"\nio = \"buffered\"\nread = \"60%\"\nrandom = \"55%\"\n\
                workers = 2\nqueue_depth = 8\noperations = 1009\nseed = 99";
    let accesses = |ran: &Ran| {
        let mut rows: Vec<_> = ran
            .all()
            .map(|row| (row.op_id, row.op, row.offset_bytes, row.size_bytes))
            .collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(
        accesses(&run(memory_folder(), body)),
        accesses(&run(memory_folder(), body))
    );
}

/// A loop device over a file; detached at the end.
struct Loop(String);

impl Loop {
    /// Skips the test where it may not make one.
    fn new(file: &Path) -> Loop {
        let made = std::process::Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output();
        match made {
            Ok(made) if made.status.success() => Loop(String::from_utf8_lossy(&made.stdout).trim().into()),
            Ok(made) => testing::skip(format!(
                "no loop device: {}",
                String::from_utf8_lossy(&made.stderr).trim()
            )),
            Err(error) => testing::skip(format!("losetup: {error}")),
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup")
            .args(["--detach", &self.0])
            .status();
    }
}

#[test]
fn a_device_is_written_only_with_permission() {
    let folder = disk_folder();
    std::fs::write(folder.path().join("image"), vec![7; 4 << 20]).expect("an image");
    let device = Loop::new(&folder.path().join("image"));
    let target = format!(
        "targets = [\"{}\"]\nqueue_depth = 8\noperations = 1009\n",
        device.0
    );
    let error = try_run(&folder, &format!("{target}read = \"50%\""), None)
        .expect_err("no permission")
        .to_string();
    assert!(
        error.contains("found a block device") && error.contains("allow_overwrite"),
        "{error}"
    );
    let too_large = format!("{target}file_size = \"8MiB\"");
    let error = try_run(&folder, &too_large, None)
        .expect_err("too large")
        .to_string();
    assert!(error.contains("8 MiB") && error.contains("4 MiB"), "{error}");
    let ran = run(folder, &format!("{target}read = \"50%\"\nallow_overwrite = true"));
    assert_eq!((ran.summary.ops, ran.summary.errors), (1009, 0));
    assert_eq!(ran.summary.targets[0].size_bytes, 4 << 20);
}
