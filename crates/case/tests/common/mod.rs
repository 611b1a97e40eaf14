//! A tiny case that uses every table, every layer that has rows, and every kind, flag and stage.
#![allow(dead_code)] // Each test uses its part.
use case::meta::{CaseMeta, Clock, DeviceMeta, LayerMeta, Phase, ProbeMeta, State, SystemMeta, Unseen};
use case::raw::RawWriter;
use case::rows::{AppRow, BlockCarrierRow, BlockMergeRow, BlockRow};
use case::schema::*;
use case::sealed::{Names, SealWriter};
use std::path::Path;

/// A folder of its own, in memory where possible: on a disk, rewriting a small file thousands of times
/// costs a flush each.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Operations per layer: a prime, so that no batch or page size divides it.
pub const OPS: u64 = 23;

/// CLOCK_MONOTONIC at the start of the tiny case.
pub const CLOCK_START_NS: u64 = 7_000_000_000;

pub const DURATION_NS: i64 = 1_000_000_000;

pub fn app_row(n: u64) -> AppRow {
    let start = CLOCK_START_NS + n * 10_000_000;
    AppRow {
        op_id: Layer::App.op_id_base() | ((n % 2) << 40) | (n / 2),
        intended_ns: start,
        submit_ns: start + 11,
        complete_ns: start + 5_000,
        reap_ns: start + 6_000 + n,
        offset_bytes: n * 4096,
        size_bytes: 4096,
        queue_depth: 1 + n as u32 % 4,
        error: if n == 5 { 5 } else { 0 },
        op: (n % 7) as u8,
        file: 0,
    }
}

pub fn block_row(n: u64) -> BlockRow {
    let start = CLOCK_START_NS + n * 10_000_000 + 100;
    BlockRow {
        request_key: n + 1,
        op_id: app_row(n).op_id,
        queue_ns: start,
        start_ns: start + 10,
        insert_ns: 0,
        issue_first_ns: start + 20,
        issue_ns: start + 20,
        irq_ns: start + 4_000,
        complete_ns: start + 4_500,
        sector_512: n * 8 + 2048,
        size_bytes: 4096,
        cmd_flags: 0x800,
        device: 254 << 20,
        pid: 100,
        tid: 101,
        vector: 36,
        error: 0,
        cpu: 0,
        complete_cpu: 1,
        hctx: 0,
        requeues: 0,
        merges: 0,
        comm: *b"worker-0\0\0\0\0\0\0\0\0",
        ..BlockRow::default()
    }
}

pub fn write_raw(dir: &Path) {
    let metadata = [
        ("pid".to_string(), "100".to_string()),
        ("comm".to_string(), "worker-0".to_string()),
    ];
    let mut app = RawWriter::create(&dir.join("raw/app/worker-000.arrows"), &metadata).unwrap();
    let mut block = RawWriter::create(&dir.join("raw/block/block.arrows"), &[]).unwrap();
    for n in 0..OPS {
        app.push(&app_row(n)).unwrap();
        block.push(&block_row(n)).unwrap();
        if n == 7 {
            app.flush().unwrap();
            block.flush().unwrap();
        }
    }
    let mut merge = RawWriter::create(&dir.join("raw/block_merge/block_merge.arrows"), &[]).unwrap();
    merge
        .push(&BlockMergeRow {
            request_key: 3,
            op_id: app_row(4).op_id,
            size_bytes: 4096,
            ..BlockMergeRow::default()
        })
        .unwrap();
    let mut carrier = RawWriter::create(&dir.join("raw/block_carrier/block_carrier.arrows"), &[]).unwrap();
    carrier
        .push(&BlockCarrierRow {
            carrier_key: 3,
            flush_key: 4,
            issue_ns: CLOCK_START_NS + 1,
            irq_ns: 0,
            done_ns: CLOCK_START_NS + 9,
        })
        .unwrap();
    assert_eq!(carrier.finish().unwrap(), 1);
    assert_eq!(app.finish().unwrap(), OPS);
    assert_eq!(block.finish().unwrap(), OPS);
    assert_eq!(merge.finish().unwrap(), 1);
}

/// Sealed rows of the tiny case, in order.
pub fn ops(layer: Layer, names: &mut Names) -> Vec<OpRow> {
    let (host, device, file) = (names.id("golden"), names.id("vda"), names.id("/data/<b>.dat"));
    let comm = names.id("worker-0");
    let row = |n: u64| {
        let mut stages = [None; 9];
        let mut set = |stage: Stage, ns: i64| stages[stage as usize] = Some(ns);
        set(Stage::Queue, 20);
        set(Stage::Device, 3_980);
        set(Stage::Interrupt, 500);
        if layer == Layer::App {
            set(Stage::App, 11);
            set(Stage::Fs, 89);
            set(Stage::Reap, 1_400 + n as i64);
        }
        let block = layer == Layer::Block;
        let op = Op::ALL[n as usize % 7];
        let place = !matches!(op, Op::Flush | Op::Sync);
        OpRow {
            op_id: if block {
                layer.op_id_base() | n
            } else {
                app_row(n).op_id
            },
            start_ns: n as i64 * 10_000_000 + if block { 100 } else { 0 },
            latency_ns: stages.iter().flatten().sum(),
            open: n == OPS - 1,
            op,
            flags: 1 << (n % flags::NAMES.len() as u64),
            host: Some(host),
            device: block.then_some(device),
            file: (!block).then_some(file),
            comm: Some(comm),
            cgroup: None,
            offset_bytes: place.then_some(n as i64 * 4096),
            size_bytes: Some(if place { 4096 } else { 0 }),
            queue_depth: Some(1 + n as i32 % 4),
            pid: Some(100),
            tid: Some(101),
            cpu: block.then_some(0),
            complete_cpu: block.then_some(1),
            hctx: block.then_some(0),
            vector: block.then_some(36),
            error: if n == 5 { 5 } else { 0 },
            weight: 1.0,
            stages,
            foreign_handler_ns: (block && n.is_multiple_of(3)).then_some(40),
        }
    };
    (0..OPS).map(row).collect()
}

pub fn seal(dir: &Path, meta: &mut CaseMeta) {
    let mut names = Names::default();
    let mut seal = SealWriter::create(dir).unwrap();
    for layer in [Layer::App, Layer::Block] {
        for row in ops(layer, &mut names) {
            seal.op(layer, &row, &names).unwrap();
        }
    }
    for n in 0..OPS {
        let kind = LinkKind::ALL[n as usize % LinkKind::ALL.len()];
        let parent_id = app_row(n).op_id;
        let child_id = Layer::Block.op_id_base() | n;
        seal.link(&LinkRow {
            parent_id,
            child_id,
            bytes: 4096,
            kind,
        })
        .unwrap();
    }
    let gap = GapRow {
        layer: Layer::App,
        tid: 101,
        comm: Some(names.id("worker-0")),
        start_ns: 300_000_000,
        duration_ns: 100_000_000,
        state: "stopped".into(),
        meant_busy: true,
    };
    seal.gap(&gap, &names).unwrap();
    let unnamed = GapRow {
        comm: None,
        state: "unobserved".into(),
        meant_busy: false,
        ..gap
    };
    seal.gap(&unnamed, &names).unwrap();
    for lost in [Some(412), None] {
        let reason = "ring_full".into();
        seal.loss(&LossRow {
            probe: "block".into(),
            start_ns: 1_000,
            end_ns: 2_000,
            lost,
            reason,
        })
        .unwrap();
    }
    let event = EventRow {
        time_ns: 50_000_000,
        kind: "error".into(),
        subject: "vda".into(),
        detail: "EIO at byte 20480".into(),
    };
    seal.event(&event).unwrap();
    seal_others(&mut seal, &mut names);
    meta.tables = seal.finish().unwrap();
    meta.state = State::Sealed;
}

/// One or two rows of every further table.
fn seal_others(seal: &mut SealWriter, names: &mut Names) {
    let (host, device, file) = (names.id("golden"), names.id("vda"), names.id("/data/<b>.dat"));
    for kind in IrqKind::ALL {
        let hard = kind == IrqKind::Hard;
        let row = IrqRow {
            host: Some(host),
            cpu: 1,
            vector: hard.then_some(36),
            handler: names.id(if hard { "virtio0-req.0" } else { "BLOCK" }),
            kind,
            device: hard.then_some(device),
            start_ns: 12_000,
            duration_ns: 800,
        };
        seal.row(&row, names).unwrap();
    }
    for (tier, wait_ns) in [("ram", 0), ("device", 4_000)] {
        let row = CacheRow {
            op_id: app_row(0).op_id,
            tier: tier.into(),
            file: Some(file),
            offset_bytes: (wait_ns > 0).then_some(4096),
            size_bytes: 4096,
            wait_ns,
        };
        seal.row(&row, names).unwrap();
    }
    let prefetch = PrefetchRow {
        file,
        start_ns: 0,
        duration_ns: 1_000_000_000,
        issued_bytes: 131_072,
        used_bytes: 126_976,
        wasted_bytes: 4096,
        late_bytes: Some(0),
        missed_bytes: None,
    };
    seal.row(&prefetch, names).unwrap();
    for state in WaitState::ALL {
        let row = WaitRow {
            tid: 101,
            pid: Some(100),
            comm: Some(names.id("worker-0")),
            cpu: Some(0),
            start_ns: 300_000_000,
            duration_ns: 100_000_000,
            state,
            cause: (state == WaitState::Runnable).then(|| names.id("hog")),
            cause_pid: (state == WaitState::Runnable).then_some(99),
            waker: (state == WaitState::Blocked).then(|| names.id("writer")),
            waker_pid: (state == WaitState::Blocked).then_some(98),
            waker_tid: (state == WaitState::Blocked).then_some(98),
        };
        seal.row(&row, names).unwrap();
    }
    for kind in SubjectKind::ALL {
        let row = SeriesRow {
            time_ns: 1_000_000,
            host: Some(host),
            kind,
            subject: device,
            metric: names.id("latency_ns"),
            value: 210_000.5,
        };
        seal.row(&row, names).unwrap();
    }
}

pub fn case_meta() -> CaseMeta {
    let stages = |stages: &[Stage]| {
        stages
            .iter()
            .map(|s| (s.column().to_string(), s.name().to_string()))
            .collect()
    };
    let block = [Stage::Queue, Stage::Device, Stage::Interrupt];
    let app = [
        Stage::App,
        Stage::Fs,
        Stage::Queue,
        Stage::Device,
        Stage::Interrupt,
        Stage::Reap,
    ];
    let layer = |stages, join: &str| LayerMeta {
        rows: OPS,
        stages,
        join: join.into(),
        ..LayerMeta::default()
    };
    CaseMeta {
        argv: ["whodisk-agent", "run", "vm-server.toml"]
            .map(String::from)
            .to_vec(),
        start_utc: "2026-01-02T03:04:05.000000000Z".into(),
        clock: Clock {
            name: "CLOCK_MONOTONIC".into(),
            host: "golden".into(),
            start_ns: CLOCK_START_NS,
            resolution_ns: 1,
        },
        duration_ns: Some(DURATION_NS),
        layers: [
            ("app".to_string(), layer(stages(&app), "exact (user_data)")),
            ("block".to_string(), layer(stages(&block), "none")),
        ]
        .into(),
        probes: [(
            "block".to_string(),
            ProbeMeta {
                attached: vec!["tp_btf/block_rq_issue".into()],
                received: OPS,
                lost: 412,
                ..ProbeMeta::default()
            },
        )]
        .into(),
        phases: vec![Phase {
            name: "measure".into(),
            start_ns: 0,
            end_ns: DURATION_NS,
        }],
        not_observed: vec![Unseen {
            what: "run queue".into(),
            because: "no scheduler probe in this version".into(),
        }],
        ..CaseMeta::new("run", "0.1.0")
    }
}

pub fn system_meta() -> SystemMeta {
    let mut system = SystemMeta {
        host: "golden".into(),
        kernel: "6.12.0".into(),
        cpus: 2,
        ..SystemMeta::default()
    };
    let vda = DeviceMeta {
        name: "vda".into(),
        dev: 254 << 20,
        size_bytes: 1 << 30,
        ..DeviceMeta::default()
    };
    system.devices.insert("vda".into(), vda);
    system
}

/// Writes the whole tiny case, sealed, with its raw streams.
pub fn write_case(dir: &Path) -> CaseMeta {
    let mut meta = case_meta();
    system_meta().write(dir).unwrap();
    write_raw(dir);
    seal(dir, &mut meta);
    meta.write(dir).unwrap();
    meta
}

/// Every file under `dir` by relative path, sorted.
pub fn files(dir: &Path) -> Vec<String> {
    fn walk(dir: &Path, prefix: &str, files: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.file_type().unwrap().is_dir() {
                true => walk(&entry.path(), &format!("{name}/"), files),
                false => files.push(name),
            }
        }
    }
    let mut all = Vec::new();
    walk(dir, "", &mut all);
    all.sort();
    all
}
