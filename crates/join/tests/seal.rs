//! Sealing real directories: whole, killed, cut, twice.
use case::meta::{CaseMeta, Clock, DeviceMeta, Phase, ProbeMeta, State, SystemMeta};
use case::raw::RawWriter;
use case::rows::{AppRow, BlockMergeRow, BlockRow};
use case::schema::{Layer, Op};
use join::{seal, JoinError, SealSummary};
use std::collections::BTreeMap;
use std::path::Path;
use testing::test;

testing::main!();

const START_NS: u64 = 5_000_000_000_000;
const OPERATIONS: u64 = 10_007;
const WORKERS: u64 = 2;

fn op_id(worker: u64, sequence: u64) -> u64 {
    Layer::App.op_id_base() | worker << 40 | sequence
}

fn write_meta(dir: &Path, state: State) {
    let mut system = SystemMeta {
        host: "host".into(),
        kernel: "6.18.44".into(),
        ..SystemMeta::default()
    };
    let device = DeviceMeta {
        name: "sda".into(),
        dev: 8 << 20,
        ..DeviceMeta::default()
    };
    system.devices.insert("sda".into(), device);
    system.write(dir).unwrap();
    let mut meta = CaseMeta::new("run", "0.1.0");
    meta.clock = Clock {
        name: "CLOCK_MONOTONIC".into(),
        host: "host".into(),
        start_ns: START_NS,
        resolution_ns: 1,
    };
    meta.state = state;
    meta.command = vec!["whodisk-agent".into(), "workload".into()];
    if state == State::Recorded {
        meta.duration_ns = Some(3_000_000_000);
        meta.command_status = Some("exit 0".into());
        let attached = ["block_rq_complete", "irq_handler_entry"]
            .map(str::to_owned)
            .to_vec();
        meta.probes.insert(
            "block".into(),
            ProbeMeta {
                attached,
                ..ProbeMeta::default()
            },
        );
    }
    meta.write(dir).unwrap();
}

/// A closed loop of two workers; every 16th operation is merged into its neighbour's request, every
/// 1000th is a sync.
fn write_raw(dir: &Path, whole: bool) {
    write_operations(dir, whole, OPERATIONS);
}

fn write_operations(dir: &Path, whole: bool, operations: u64) {
    let raw = dir.join("raw");
    let mut block = RawWriter::<BlockRow>::create(&raw.join("block/block.arrows"), &[]).unwrap();
    let mut merges =
        RawWriter::<BlockMergeRow>::create(&raw.join("block_merge/block_merge.arrows"), &[]).unwrap();
    let mut workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let metadata = [
                ("pid", "100".into()),
                ("tid", (101 + worker).to_string()),
                ("comm", format!("worker-{worker}")),
                ("worker", worker.to_string()),
                ("files", r#"["/data/a", "/data/b"]"#.into()),
                ("direct", "true".into()),
                ("loop", "closed".into()),
                ("queue_depth_max", "1".into()),
            ]
            .map(|(key, value): (&str, String)| (key.to_owned(), value));
            RawWriter::<AppRow>::create(&raw.join(format!("app/worker-{worker:03}.arrows")), &metadata)
                .unwrap()
        })
        .collect();
    for i in 0..operations {
        for worker in 0..WORKERS {
            let start_ns = START_NS + 1_000_000 + i * 200_000 + worker * 1000;
            let sync = i % 1000 == 999;
            let row = AppRow {
                op_id: op_id(worker, i),
                intended_ns: start_ns,
                submit_ns: start_ns,
                complete_ns: start_ns + 150_000,
                reap_ns: start_ns + 151_000,
                offset_bytes: i * 4096,
                size_bytes: if sync { 0 } else { 4096 },
                queue_depth: 1,
                op: if sync { Op::Sync } else { Op::Read } as u8,
                file: (i % 2) as u8,
                ..AppRow::default()
            };
            workers[worker as usize].push(&row).unwrap();
            let merged = worker == 1 && i % 16 == 0;
            if sync {
                continue;
            }
            if merged {
                let row = BlockMergeRow {
                    request_key: i * WORKERS,
                    op_id: row.op_id,
                    size_bytes: 4096,
                    ..BlockMergeRow::default()
                };
                merges.push(&row).unwrap();
                continue;
            }
            let carries = worker == 0 && i % 16 == 0;
            let request = BlockRow {
                request_key: i * WORKERS + worker,
                op_id: row.op_id,
                queue_ns: start_ns + 5000,
                start_ns: start_ns + 5500,
                issue_first_ns: start_ns + 9000,
                issue_ns: start_ns + 9000,
                irq_ns: start_ns + 140_000,
                complete_ns: start_ns + 145_000,
                size_bytes: if carries { 8192 } else { 4096 },
                merges: u16::from(carries),
                device: 8 << 20,
                pid: 100,
                tid: 101 + worker as i32,
                vector: 36,
                comm: *b"worker-0\0\0\0\0\0\0\0\0",
                ..BlockRow::default()
            };
            block.push(&request).unwrap();
        }
    }
    if !whole {
        for writer in &mut workers {
            writer.flush().unwrap();
        }
        block.flush().unwrap();
        merges.flush().unwrap();
        return; // dropped without an end mark, as by a kill
    }
    for writer in workers {
        writer.finish().unwrap();
    }
    block.finish().unwrap();
    merges.finish().unwrap();
    let phases = format!(
        r#"{{"phases": [{{"name": "ramp", "start_ns": {START_NS}, "end_ns": {}}},
            {{"name": "measure", "start_ns": {0}, "end_ns": {}}}], "ops": 20014}}"#,
        START_NS + 1_000_000,
        START_NS + 2_000_000_000
    );
    std::fs::write(raw.join("app/workload.json"), phases).unwrap();
    let loss = format!(
        r#"{{"probe":"block","start_ns":{START_NS},"end_ns":{},"lost":3,"reason":"ring_full"}}"#,
        START_NS + 9
    );
    std::fs::write(raw.join("losses.jsonl"), loss + "\n").unwrap();
}

fn seal_quietly(dir: &Path) -> SealSummary {
    seal(dir, &mut |_| ()).unwrap()
}

fn assert_verified(dir: &Path) -> case::verify::Report {
    let report = case::verify::verify(dir).unwrap();
    assert_eq!(report.problems, []);
    report
}

/// Every sealed byte, `case.json` included.
fn sealed_bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let meta = CaseMeta::read(dir).unwrap();
    let mut files: BTreeMap<_, _> = meta
        .tables
        .keys()
        .map(|path| (path.clone(), std::fs::read(dir.join(path)).unwrap()))
        .collect();
    files.insert("case.json".into(), std::fs::read(dir.join("case.json")).unwrap());
    files
}

#[test]
fn a_recorded_case() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_meta(dir, State::Recorded);
    write_raw(dir, true);
    let summary = seal_quietly(dir);
    let counts = summary.counts.unwrap();
    let syncs = WORKERS * (OPERATIONS / 1000);
    let data = WORKERS * OPERATIONS - syncs;
    let merged = OPERATIONS.div_ceil(16);
    assert_eq!(
        (counts.app_rows, counts.block_rows),
        (WORKERS * OPERATIONS, data - merged)
    );
    assert_eq!(
        (counts.joined, counts.unjoined_sync, counts.unjoined_direct),
        (data, syncs, 0)
    );
    assert_eq!((counts.links, counts.clamped, counts.orphan_merges), (data, 0, 0));
    assert_eq!(summary.truncated, [""; 0]);
    assert_verified(dir);

    let meta = CaseMeta::read(dir).unwrap();
    assert_eq!(
        (meta.state, meta.duration_ns),
        (State::Sealed, Some(3_000_000_000))
    );
    let phase = |name: &str, start_ns, end_ns| Phase {
        name: name.into(),
        start_ns,
        end_ns,
    };
    assert_eq!(
        meta.phases,
        [
            phase("ramp", 0, 1_000_000),
            phase("measure", 1_000_000, 2_000_000_000)
        ]
    );
    assert_eq!(meta.workload.unwrap()["ops"], 20014);
    assert_eq!(meta.layers["app"].join, "exact (user_data)");
    assert_eq!(meta.layers["app"].stages["fs_ns"], "fs");
    assert_eq!(meta.layers["app"].stages["throttle_ns"], "throttle");
    assert_eq!(meta.layers["block"].stages["interrupt_ns"], "interrupt");
    assert!(meta.probes.contains_key("block"));
}

#[test]
fn sealing_again_does_nothing_and_sealing_a_copy_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_meta(dir, State::Recorded);
    write_raw(dir, true);
    seal_quietly(dir);
    let first = sealed_bytes(dir);
    assert_eq!(first.len(), 12);
    let again = seal_quietly(dir);
    assert!(again.already_sealed && again.rows["app"] == WORKERS * OPERATIONS);
    assert_eq!(sealed_bytes(dir), first);

    // Only the state is set back: everything that sealing added must come out the same.
    let mut meta = CaseMeta::read(dir).unwrap();
    meta.state = State::Recorded;
    meta.write(dir).unwrap();
    for path in first.keys().filter(|path| *path != "case.json") {
        std::fs::remove_file(dir.join(path)).unwrap();
    }
    seal_quietly(dir);
    assert_eq!(sealed_bytes(dir), first);
}

/// Seals a case and gives every sealed byte of it.
fn sealed_case(dir: &Path, state: State) -> BTreeMap<String, Vec<u8>> {
    write_meta(dir, state);
    write_raw(dir, state == State::Recorded);
    seal_quietly(dir);
    sealed_bytes(dir)
}

#[test]
fn what_is_damaged_is_built_again_with_the_same_bytes() {
    for state in [State::Recorded, State::Recording] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let good = sealed_case(dir, state);
        let block = dir.join("ops/layer=block/part-0.parquet");
        std::fs::write(&block, &good["ops/layer=block/part-0.parquet"][..1000]).unwrap();
        std::fs::remove_file(dir.join("links/part-0.parquet")).unwrap();
        let summary = seal_quietly(dir);
        assert!(!summary.already_sealed);
        let told: Vec<_> = summary
            .rebuilt
            .iter()
            .map(|file| {
                (
                    file.path.as_str(),
                    file.found.as_str(),
                    file.rows == file.rows_before,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("ops/layer=block/part-0.parquet", "1000 bytes", true),
                ("links/part-0.parquet", "no such file", true),
            ]
        );
        assert_eq!(sealed_bytes(dir), good, "{state:?}");

        // All of ops/, and a byte that only the checksum shows.
        std::fs::remove_dir_all(dir.join("ops")).unwrap();
        let events = dir.join("events/part-0.parquet");
        let mut bytes = std::fs::read(&events).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&events, bytes).unwrap();
        assert_eq!(seal_quietly(dir).rebuilt.len(), 3);
        assert_eq!(sealed_bytes(dir), good, "{state:?}");
        assert!(seal_quietly(dir).already_sealed);
        assert_verified(dir);
    }
}

#[test]
fn what_cannot_be_built_again_is_said_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let good = sealed_case(dir, State::Recorded);
    let links = dir.join("links/part-0.parquet");
    std::fs::write(&links, b"PAR1").unwrap();

    // A stream was cut since: tables that are whole must not lose rows for it.
    let stream = dir.join("raw/block/block.arrows");
    let raw = std::fs::read(&stream).unwrap();
    std::fs::write(&stream, &raw[..raw.len() / 2]).unwrap();
    let refused = |expected: &[&str]| {
        let error = seal(dir, &mut |_| ()).unwrap_err().to_string();
        for part in [
            "links/part-0.parquet: byte 4: expected",
            "found 4 bytes",
            "restore it from a copy",
        ]
        .iter()
        .chain(expected)
        {
            assert!(error.contains(part), "expected {part} in {error}");
        }
        let mut now = sealed_bytes(dir);
        assert_eq!(
            now.insert(
                "links/part-0.parquet".into(),
                good["links/part-0.parquet"].clone()
            )
            .unwrap(),
            b"PAR1"
        );
        assert_eq!(now, good);
        assert!(!dir.join("ops/layer=block/part-0.parquet.tmp").exists());
    };
    refused(&[
        "raw events are damaged, too",
        "ops/layer=block/part-0.parquet, which is whole",
    ]);

    std::fs::remove_file(&stream).unwrap();
    refused(&["no stream of layer block"]);

    std::fs::remove_dir_all(dir.join("raw")).unwrap();
    refused(&["there are no raw events in"]);
}

#[test]
fn a_damaged_table_gets_what_a_damaged_stream_still_has() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sealed_case(dir, State::Recorded);
    for table in [
        "ops/layer=block",
        "ops/layer=app",
        "links",
        "irqs",
        "gaps",
        "waits",
    ] {
        std::fs::remove_file(dir.join(table).join("part-0.parquet")).unwrap();
    }
    let stream = dir.join("raw/block/block.arrows");
    let raw = std::fs::read(&stream).unwrap();
    std::fs::write(&stream, &raw[..raw.len() / 2]).unwrap();
    let summary = seal_quietly(dir);
    assert_eq!(summary.truncated, ["raw/block/block.arrows"]);
    let block = &summary
        .rebuilt
        .iter()
        .find(|file| file.path.contains("layer=block"))
        .unwrap();
    assert!(
        block.rows.unwrap() > 0 && block.rows < block.rows_before,
        "{block:?}"
    );
    let report = assert_verified(dir);
    assert!(report.missing.iter().any(|text| text.contains("truncated_raw")));
}

#[test]
fn losses_are_counted_by_layer() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_meta(dir, State::Recorded);
    write_raw(dir, true);
    let loss = |probe: &str, lost: u64, reason: &str| {
        format!(
            r#"{{"probe":"{probe}","start_ns":{START_NS},"end_ns":{START_NS},"lost":{lost},"reason":"{reason}"}}"#
        ) + "\n"
    };
    let text = loss("block", 90_000, "ring_full")
        + &loss("block_merge", 70_000, "ring_full")
        + &loss("sched", 80_000, "ring_full")
        + &loss("block", 1000, "write_failed: /disk: No space left on device");
    std::fs::write(dir.join("raw/losses.jsonl"), text).unwrap();
    let summary = seal_quietly(dir);
    let report = case::verify::verify(dir).unwrap();
    assert_eq!(summary.missing, report.layers_missing);
    let [block] = &summary.missing[..] else {
        panic!("{:?}", summary.missing)
    };
    assert_eq!(
        (block.layer, block.lost, block.there),
        ("block", 91_000, summary.rows["block"])
    );
    assert!(block.is_too_much());
    assert_eq!(block.reasons["write_failed"], 1000);
}

#[test]
fn a_killed_recording() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_meta(dir, State::Recording);
    write_raw(dir, false);
    let summary = seal_quietly(dir);
    assert_eq!(summary.rows["app"], WORKERS * OPERATIONS);
    assert_eq!(summary.truncated.len(), 4);
    let report = assert_verified(dir);
    assert!(
        report.missing.iter().any(|text| text.contains("truncated_raw")),
        "{:?}",
        report.missing
    );
    let meta = CaseMeta::read(dir).unwrap();
    let last_ns = 1_000_000 + (OPERATIONS - 1) * 200_000 + (WORKERS - 1) * 1000 + 151_000;
    assert_eq!(meta.duration_ns, Some(last_ns as i64));
    assert_eq!(meta.command_status.as_deref(), Some("unknown"));
    assert!(
        meta.not_observed.iter().any(|u| u.what.contains("never reaped")),
        "{:?}",
        meta.not_observed
    );
    // Nobody wrote down whether interrupts were watched, but there are some.
    assert_eq!(meta.layers["block"].stages["interrupt_ns"], "interrupt");
}

#[test]
fn a_stream_cut_anywhere_keeps_its_good_rows() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_meta(dir, State::Recorded);
    write_raw(dir, true);
    let path = dir.join("raw/app/worker-001.arrows");
    let whole = std::fs::read(&path).unwrap();
    for keep in [0, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..keep]).unwrap();
        let mut meta = CaseMeta::read(dir).unwrap();
        meta.state = State::Recorded;
        meta.write(dir).unwrap();
        let summary = seal_quietly(dir);
        assert_eq!(summary.truncated, ["raw/app/worker-001.arrows"], "{keep} bytes");
        let rows = summary.rows["app"];
        assert!(
            (OPERATIONS..=WORKERS * OPERATIONS).contains(&rows),
            "{keep} bytes: {rows} rows"
        );
        let counts = summary.counts.unwrap();
        assert_eq!(
            counts.links + counts.unclaimed_requests,
            WORKERS * (OPERATIONS - OPERATIONS / 1000)
        );
        assert_verified(dir);
    }
}

#[test]
fn without_the_block_layer() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_meta(dir, State::Recorded);
    write_raw(dir, true);
    for probe in ["block", "block_merge"] {
        std::fs::remove_dir_all(dir.join("raw").join(probe)).unwrap();
    }
    seal_quietly(dir);
    assert_verified(dir);
    let meta = CaseMeta::read(dir).unwrap();
    assert_eq!(meta.layers.keys().collect::<Vec<_>>(), ["app"]);
    assert_eq!(
        meta.layers["app"].stages["fs_ns"],
        "fs+throttle+queue+device+interrupt"
    );
    assert_eq!(meta.layers["app"].join, "none");
    assert!(!dir.join("ops/layer=block").exists());
}

#[test]
fn nothing_to_seal() {
    let dir = tempfile::tempdir().unwrap();
    write_meta(dir.path(), State::Recorded);
    let error = seal(dir.path(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, JoinError::NoRaw { .. }));
    assert!(error.to_string().contains("expected raw streams"), "{error}");
}

#[test]
fn damaged_inputs_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_meta(dir, State::Recorded);
    write_raw(dir, true);
    let workload = dir.join("raw/app/workload.json");
    for (text, expected) in [
        ("{", "expected JSON"),
        (r#"{"phases": [{"name": 1}]}"#, "phases[0]"),
    ] {
        std::fs::write(&workload, text).unwrap();
        let error = seal(dir, &mut |_| ()).unwrap_err().to_string();
        assert!(
            error.contains("workload.json") && error.contains(expected),
            "{error}"
        );
        assert_eq!(CaseMeta::read(dir).unwrap().state, State::Recorded);
    }
    std::fs::remove_file(&workload).unwrap();
    // A killed writer leaves half a line.
    let losses = dir.join("raw/losses.jsonl");
    let text = std::fs::read_to_string(&losses).unwrap();
    std::fs::write(&losses, text + r#"{"probe":"blo"#).unwrap();
    assert_eq!(seal_quietly(dir).truncated, ["raw/losses.jsonl"]);
    let report = assert_verified(dir);
    assert!(
        report.missing.iter().any(|text| text.contains("3 events lost")),
        "{:?}",
        report.missing
    );
}

/// `cargo test --release -p whodisk-join --test seal -- --ignored --nocapture`
#[test("a measurement, not a check")]
fn speed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_meta(dir, State::Recorded);
    write_operations(dir, true, 1_000_000);
    let begin = std::time::Instant::now();
    let summary = seal_quietly(dir);
    let seconds = begin.elapsed().as_secs_f64();
    let rows: u64 = summary.rows.values().sum();
    let held = summary.counts.unwrap().rows_held_max;
    println!(
        "{rows} operations sealed in {seconds:.2} s: {:.0} ns each, at most {held} held",
        seconds * 1e9 / rows as f64
    );
}
