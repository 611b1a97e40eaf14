//! A recording of several probes, sealed: operations of programs beside block requests, and tables beside operations.
use case::meta::{CaseMeta, Clock, State, SystemMeta};
use case::raw::{RawRow, RawWriter};
use case::rows::{syscall_flags, BlockRow, FileRow, SchedRow, SchedState, SyscallRow};
use case::schema::Op;
use join::{seal, SealSummary};
use std::collections::BTreeMap;
use std::path::Path;

const START_NS: u64 = 5_000_000_000_000;
const OPERATIONS: u64 = 1009;
const DISK: u32 = 8 << 20;

fn write_all<R: RawRow>(dir: &Path, rows: impl Iterator<Item = R>, whole: bool) {
    let path = dir.join(format!("raw/{0}/{0}.arrows", R::PROBE));
    let mut writer = RawWriter::<R>::create(&path, &[]).unwrap();
    rows.for_each(|row| writer.push(&row).unwrap());
    writer.flush().unwrap();
    if whole {
        writer.finish().unwrap();
    }
}

/// A direct reader; each operation takes 100 us, of which its request takes 60 us and a wait for a CPU 20 us.
fn write_case(dir: &Path, whole: bool) {
    SystemMeta::default().write(dir).unwrap();
    let mut meta = CaseMeta::new("record", "0.1.0");
    meta.clock = Clock {
        name: "CLOCK_MONOTONIC".into(),
        host: "host".into(),
        start_ns: START_NS,
        resolution_ns: 1,
    };
    meta.state = State::Recorded;
    meta.duration_ns = Some(1_000_000_000);
    meta.write(dir).unwrap();
    let start = |i: u64| START_NS + 1000 + i * 200_000;
    let syscall = |i| SyscallRow {
        op_key: i,
        owner_key: 1 + i % 3,
        start_ns: start(i),
        end_ns: start(i) + 100_000,
        size_bytes: 4096,
        result: 4096,
        inode: 5,
        device: DISK,
        pid: 10,
        tid: 10,
        flags: syscall_flags::DIRECT,
        op: Op::Read as u8,
        ..SyscallRow::default()
    };
    let block = |i| BlockRow {
        request_key: i,
        owner_key: 1 + i % 3,
        queue_ns: start(i) + 10_000,
        start_ns: start(i) + 10_000,
        issue_first_ns: start(i) + 20_000,
        issue_ns: start(i) + 20_000,
        irq_ns: start(i) + 60_000,
        complete_ns: start(i) + 70_000,
        size_bytes: 4096,
        device: DISK,
        pid: 10,
        tid: 10,
        ..BlockRow::default()
    };
    let sched = |i| SchedRow {
        start_ns: start(i) + 75_000,
        end_ns: start(i) + 95_000,
        tid: 10,
        pid: 10,
        state: SchedState::Woken as u8,
        ..SchedRow::default()
    };
    let mut name = FileRow {
        time_ns: START_NS,
        inode: 5,
        device: DISK,
        ..FileRow::default()
    };
    name.path[..5].copy_from_slice(b"/data");
    write_all(dir, (0..OPERATIONS).map(syscall), true);
    write_all(dir, (0..OPERATIONS).map(block), true);
    write_all(dir, (0..OPERATIONS).map(sched), whole);
    write_all(dir, std::iter::once(name), true);
}

fn seal_quietly(dir: &Path) -> SealSummary {
    let summary = seal(dir, &mut |_| ()).unwrap();
    let report = case::verify::verify(dir).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    summary
}

fn tables(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let meta = CaseMeta::read(dir).unwrap();
    let bytes = |path: &String| (path.clone(), std::fs::read(dir.join(path)).unwrap());
    meta.tables.keys().map(bytes).collect()
}

#[test]
fn operations_of_a_program_are_joined_with_their_requests() {
    let dir = tempfile::tempdir().unwrap();
    write_case(dir.path(), true);
    let summary = seal_quietly(dir.path());
    assert_eq!(
        (summary.rows["syscall"], summary.rows["block"]),
        (OPERATIONS, OPERATIONS)
    );
    let counts = summary.counts.unwrap();
    let direct = counts.syscall_shares[0];
    assert_eq!(
        (direct.operations, direct.total_ns),
        (OPERATIONS, OPERATIONS * 100_000)
    );
    assert_eq!((direct.unknown_ns, counts.links), (0, OPERATIONS));
    let meta = CaseMeta::read(dir.path()).unwrap();
    let stages: Vec<&str> = meta.layers["syscall"]
        .stages
        .values()
        .map(String::as_str)
        .collect();
    let named = [
        "device",
        "fs",
        "interrupt",
        "queue",
        "reap",
        "runqueue",
        "throttle",
        "unknown",
    ];
    assert_eq!(stages, named);
    assert_eq!(meta.tables["waits/part-0.parquet"].rows, OPERATIONS);
    assert!(meta.open_questions.is_empty(), "{:?}", meta.open_questions);

    let copy = tempfile::tempdir().unwrap();
    write_case(copy.path(), true);
    seal_quietly(copy.path());
    assert_eq!(tables(dir.path()), tables(copy.path()));
}

#[test]
fn a_stream_that_was_cut_is_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    write_case(dir.path(), false);
    let summary = seal_quietly(dir.path());
    assert_eq!(summary.truncated, ["raw/sched/sched.arrows"]);
    assert_eq!(summary.rows["syscall"], OPERATIONS);
    let meta = CaseMeta::read(dir.path()).unwrap();
    assert_eq!(meta.tables["losses/part-0.parquet"].rows, 1);
}
