//! The whole join against a slow model, and its memory against millions of rows.
use crate::children::Child;
use crate::kernel::CmdFlags;
use crate::pipeline::{join, Counts, Inputs, Progress, Row, Sink, Worker};
use crate::stages::{app_times, block_entry_ns, block_times, join_parts, Below};
use crate::stream::{Source, Stream};
use crate::testing::{Kept, Rows};
use case::raw::Truncation;
use case::rows::{sampled, AppRow, BlockMergeRow, BlockRow};
use case::schema::{flags, EventRow, GapRow, Layer, LinkKind, LinkRow, Op, OpRow, Stage};
use case::sealed::Names;
use case::CaseError;
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(crate) const START_NS: u64 = 1_000_000_000_000;
const MS: u64 = 1_000_000;

pub(crate) fn inputs<'a>(
    workers: &'a [Rows<AppRow>],
    block: Option<&'a Rows<BlockRow>>,
    merges: &'a Rows<BlockMergeRow>,
) -> Inputs<'a> {
    let worker = |number: usize| Worker {
        number: number as u16,
        pid: Some(100),
        tid: Some(101 + number as i32),
        comm: Some(format!("worker-{number}")),
        files: vec!["/data".into()],
        direct: true,
        null: false,
        rate: false,
    };
    Inputs {
        wait_step_ns: 1,
        workers: workers
            .iter()
            .enumerate()
            .map(|(number, rows)| (worker(number), rows as &dyn Stream<AppRow>))
            .collect(),
        block: block.map(|rows| rows as &dyn Stream<BlockRow>),
        merges: Some(merges),
        carriers: None,
        bios: None,
        bio_members: None,
        start_ns: START_NS,
        end_ns: None,
        host: Some("host".into()),
        devices: BTreeMap::from([(8 << 20, "sda".into())]),
        journals: Default::default(),
        cgroups: BTreeMap::from([(7, "/sys/fs/cgroup/db".into())]),
        cmd_flags: CmdFlags::of_kernel("6.18.44"),
        interrupts_watched: Some(true),
        stops: Default::default(),
        syscall: None,
        own: None,
        served: None,
        beside: Default::default(),
        handlers: Vec::new(),
    }
}

pub(crate) fn run(inputs: &Inputs) -> (Kept, Counts, Names) {
    let (mut kept, mut names) = (Kept::default(), Names::default());
    let counts = join(inputs, &mut names, &mut kept, &mut |_| ()).unwrap();
    (kept, counts, names)
}

pub(crate) fn op_id(worker: u64, sequence: u64) -> u64 {
    Layer::App.op_id_base() | worker << 40 | sequence
}

pub(crate) fn app(op_id: u64, submit: u64, complete: u64, reap: u64) -> AppRow {
    AppRow {
        op_id,
        intended_ns: START_NS + submit,
        submit_ns: START_NS + submit,
        complete_ns: START_NS + complete,
        reap_ns: START_NS + reap,
        offset_bytes: 4096,
        size_bytes: 4096,
        queue_depth: 1,
        ..AppRow::default()
    }
}

pub(crate) fn block(request_key: u64, op_id: u64, times: [u64; 4]) -> BlockRow {
    let [queue_ns, issue_ns, irq_ns, complete_ns] = times.map(|ns| START_NS + ns);
    BlockRow {
        request_key,
        op_id,
        queue_ns,
        start_ns: queue_ns,
        issue_first_ns: issue_ns,
        issue_ns,
        irq_ns,
        complete_ns,
        size_bytes: 4096,
        device: 8 << 20,
        pid: 100,
        tid: 101,
        vector: 36,
        comm: *b"worker-0\0\0\0\0\0\0\0\0",
        ..BlockRow::default()
    }
}

pub(crate) fn stage(row: &OpRow, stage: Stage) -> Option<i64> {
    row.stages[stage as usize]
}

#[test]
fn one_joined_operation() {
    let workers = [Rows(vec![app(op_id(0, 0), 10, 105, 110)])];
    let requests = Rows(vec![block(7, op_id(0, 0), [20, 30, 90, 100])]);
    let merges = Rows(vec![]);
    let (kept, counts, names) = run(&inputs(&workers, Some(&requests), &merges));
    let row = &kept.app[0];
    assert_eq!(
        (row.start_ns, row.latency_ns, row.flags),
        (10, 100, flags::DIRECT)
    );
    let expected = [
        Some(0),
        Some(10),
        Some(0),
        Some(10),
        Some(60),
        Some(10),
        Some(10),
        None,
        Some(0),
    ];
    assert_eq!(row.stages, expected);
    assert_eq!(row.device.map(|device| names.get(device)), Some("sda"));
    let child_id = Layer::Block.op_id_base();
    assert_eq!(kept.block[0].op_id, child_id);
    assert_eq!(kept.block[0].comm.map(|comm| names.get(comm)), Some("worker-0"));
    let link = LinkRow {
        parent_id: op_id(0, 0),
        child_id,
        bytes: 4096,
        kind: LinkKind::WaitsFor,
    };
    assert_eq!(kept.links, [link]);
    assert_eq!((counts.joined, counts.unjoined_direct, counts.clamped), (1, 0, 0));
}

#[test]
fn without_the_block_layer_the_kernel_is_one_stage() {
    let workers = [Rows(vec![app(op_id(0, 0), 10, 105, 110)])];
    let merges = Rows(vec![]);
    let (kept, ..) = run(&inputs(&workers, None, &merges));
    let expected = [Some(0), Some(95), None, None, None, None, Some(5), None, Some(0)];
    assert_eq!(kept.app[0].stages, expected);
}

#[test]
fn an_operation_without_requests_is_unknown() {
    let mut sync = app(op_id(0, 1), 200, 300, 305);
    sync.op = Op::Sync as u8;
    let workers = [Rows(vec![app(op_id(0, 0), 10, 105, 110), sync])];
    let (requests, merges) = (Rows(vec![]), Rows(vec![]));
    let (kept, counts, _) = run(&inputs(&workers, Some(&requests), &merges));
    assert_eq!(stage(&kept.app[0], Stage::Unknown), Some(95));
    assert_eq!(stage(&kept.app[0], Stage::Device), None);
    assert_eq!(
        (kept.app[0].offset_bytes, kept.app[1].offset_bytes),
        (Some(4096), None)
    );
    assert_eq!(
        (counts.joined, counts.unjoined_direct, counts.unjoined_sync),
        (0, 1, 1)
    );
}

#[test]
fn a_merged_bio_waits_for_the_request_of_another() {
    let workers = [Rows(vec![
        app(op_id(0, 0), 10, 104, 110),
        app(op_id(0, 1), 40, 104, 112),
    ])];
    let mut request = block(7, op_id(0, 0), [20, 60, 90, 100]);
    request.size_bytes = 8192;
    request.merges = 1;
    let requests = Rows(vec![request]);
    let merges = Rows(vec![BlockMergeRow {
        request_key: 7,
        op_id: op_id(0, 1),
        size_bytes: 4096,
        ..BlockMergeRow::default()
    }]);
    let (kept, counts, _) = run(&inputs(&workers, Some(&requests), &merges));
    let kinds: Vec<_> = kept
        .links
        .iter()
        .map(|l| (l.parent_id, l.bytes, l.kind))
        .collect();
    let expected = [
        (op_id(0, 0), 4096, LinkKind::WaitsFor),
        (op_id(0, 1), 4096, LinkKind::Merged),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(stage(&kept.app[1], Stage::Queue), Some(20)); // from its own submit
    assert_eq!(kept.block[0].flags & flags::MERGED, flags::MERGED);
    assert_eq!((counts.joined, counts.orphan_merges), (2, 0));
}

#[test]
fn queue_depth_counts_what_is_in_flight_on_the_device() {
    let mut other = block(3, 0, [15, 16, 50, 50]);
    other.device = 9 << 20;
    let open = BlockRow {
        irq_ns: 0,
        complete_ns: 0,
        ..block(9, 0, [5, 6, 0, 0])
    };
    let rows = vec![
        block(1, 0, [10, 11, 20, 20]),
        block(2, 0, [12, 13, 40, 40]),
        other,
        block(4, 0, [20, 21, 60, 60]), // the first one ends at this moment
        block(5, 0, [20, 21, 70, 70]),
        open,
    ];
    let (requests, merges) = (Rows(rows), Rows(vec![]));
    let (kept, counts, names) = run(&inputs(&[], Some(&requests), &merges));
    let depths: Vec<_> = kept.block.iter().map(|row| row.queue_depth.unwrap()).collect();
    assert_eq!(depths, [1, 2, 3, 1, 3, 4]);
    assert_eq!((kept.block[0].open, kept.block[0].latency_ns), (true, 65));
    assert_eq!(kept.block[3].device.map(|device| names.get(device)), Some("9:0"));
    assert_eq!(counts.end_ns, START_NS + 70);
}

#[test]
fn a_submitter_that_nobody_saw_is_null() {
    let flush = BlockRow {
        cmd_flags: 2,
        queue_ns: 0,
        start_ns: 0,
        pid: -1,
        tid: -1,
        comm: [0; 16],
        ..block(1, 0, [10, 11, 20, 20])
    };
    let (requests, merges) = (Rows(vec![flush]), Rows(vec![]));
    let (kept, ..) = run(&inputs(&[], Some(&requests), &merges));
    let row = &kept.block[0];
    assert_eq!(
        (row.pid, row.tid, row.cpu, row.comm, row.offset_bytes),
        (None, None, None, None, None)
    );
    assert_eq!(
        (row.op, row.open, row.start_ns, row.hctx),
        (Op::Flush, false, 11, Some(0))
    );
}

#[test]
fn control_groups_have_the_names_of_their_folders() {
    let of_group = |key: u64, cgroup: u64| BlockRow {
        cgroup,
        ..block(key, 0, [10 * key, 10 * key + 1, 10 * key + 5, 10 * key + 6])
    };
    let requests = Rows(vec![
        of_group(1, 7),
        of_group(2, 7),
        of_group(3, 8),
        of_group(4, 0),
        of_group(5, 7),
    ]);
    let merges = Rows(vec![]);
    let (kept, _, names) = run(&inputs(&[], Some(&requests), &merges));
    let groups: Vec<Option<&str>> = kept
        .block
        .iter()
        .map(|row| row.cgroup.map(|id| names.get(id)))
        .collect();
    let db = Some("/sys/fs/cgroup/db");
    assert_eq!(groups, [db, db, Some("id 8"), None, db]);
}

#[test]
fn interrupts_that_nobody_watched_are_null() {
    let requests = Rows(vec![BlockRow {
        irq_ns: 0,
        ..block(1, op_id(0, 0), [10, 20, 0, 50])
    }]);
    let workers = [Rows(vec![app(op_id(0, 0), 5, 60, 60)])];
    let merges = Rows(vec![]);
    let mut inputs = inputs(&workers, Some(&requests), &merges);
    for (watched, expected) in [(Some(true), Some(0)), (Some(false), None), (None, None)] {
        inputs.interrupts_watched = watched;
        let (kept, ..) = run(&inputs);
        for row in [&kept.app[0], &kept.block[0]] {
            assert_eq!(
                (stage(row, Stage::Device), stage(row, Stage::Interrupt)),
                (Some(30), expected)
            );
        }
    }
}

#[test]
fn gaps_of_workers_and_of_other_programs() {
    let mut rows = Vec::new();
    let mut requests = Vec::new();
    let mut now = 0;
    for i in 0..300u64 {
        now += if i == 200 { 80 * MS } else { 110_000 };
        rows.push(app(op_id(0, i), now, now + 100_000, now + 101_000));
        requests.push(block(
            2 * i,
            op_id(0, i),
            [now + 1, now + 2, now + 90_000, now + 90_000],
        ));
        let foreign = block(2 * i + 1, 0, [now + 2, now + 3, now + 90_000, now + 90_000]);
        requests.push(BlockRow {
            pid: 555,
            tid: 555,
            comm: *b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0",
            ..foreign
        });
    }
    let (workers, requests, merges) = ([Rows(rows)], Rows(requests), Rows(vec![]));
    let (kept, counts, _) = run(&inputs(&workers, Some(&requests), &merges));
    let gaps: Vec<_> = kept
        .gaps
        .iter()
        .map(|g| (g.layer, g.tid, g.meant_busy, g.duration_ns / 1_000_000))
        .collect();
    assert_eq!(
        gaps,
        [(Layer::App, 101, true, 79), (Layer::Block, 555, false, 79)]
    );
    assert_eq!((counts.gaps, counts.joined), (2, 300));
}

#[test]
fn rows_of_a_sample_carry_their_weight_and_depth() {
    let marked = |key, times, mark| BlockRow {
        flags: mark,
        ..block(key, 0, times)
    };
    let long_ns = sampled::LONG_NS + 100;
    let rows = vec![
        marked(1, [10, 11, 20, 20], sampled::mark(4, Some(7), false)),
        // Always kept, and in no other row's bits: counted as long as it is in flight.
        marked(2, [5, 6, long_ns, long_ns], sampled::mark(0, Some(3), false)),
        marked(3, [30, 31, 40, 40], sampled::mark(4, Some(2), false)),
        marked(4, [31, 32, 40, 40], sampled::mark(0, None, false)),
        block(5, 0, [long_ns + 1, long_ns + 2, long_ns + 9, long_ns + 9]),
    ];
    let (requests, merges) = (Rows(rows), Rows(vec![]));
    let (kept, _, _) = run(&inputs(&[], Some(&requests), &merges));
    let told: Vec<_> = kept
        .block
        .iter()
        .map(|row| (row.weight, row.queue_depth))
        .collect();
    let expected = [
        (1.0, Some(4)),
        (16.0, Some(8)),
        (16.0, Some(3)),
        (1.0, None),
        (1.0, Some(1)),
    ];
    assert_eq!(told, expected);
}

#[test]
fn no_gap_is_made_up_between_rows_of_a_sample_and_none_is_lost() {
    let foreign = |key: u64, start_ns: u64, mark: u32| BlockRow {
        pid: 555,
        tid: 555,
        flags: mark,
        ..block(
            key,
            0,
            [start_ns, start_ns + 1, start_ns + 90_000, start_ns + 90_000],
        )
    };
    // One of 32 is kept, which is every 3.2 ms; once there is a silence of 40 ms, the rows around which were kept.
    let mut rows: Vec<_> = (0..100)
        .map(|i| foreign(i, i * 3_200_000, sampled::mark(5, Some(1), false)))
        .collect();
    let begin_ns = 100 * 3_200_000;
    rows.push(foreign(100, begin_ns, sampled::mark(0, Some(1), false)));
    rows.push(foreign(101, begin_ns + 40 * MS, sampled::mark(0, Some(1), true)));
    rows.push(foreign(102, begin_ns + 50 * MS, sampled::mark(5, Some(1), false)));
    let (requests, merges) = (Rows(rows), Rows(vec![]));
    let (kept, _, _) = run(&inputs(&[], Some(&requests), &merges));
    let gaps: Vec<_> = kept.gaps.iter().map(|gap| (gap.tid, gap.duration_ns)).collect();
    assert_eq!(gaps, [(555, 40 * MS as i64 - 90_000)]);
}

#[test]
fn a_killed_engine_leaves_requests_that_nobody_claims() {
    let workers = [Rows(vec![app(op_id(0, 0), 10, 105, 110)])];
    let late = |i: u64| block(10 + i, op_id(0, 1 + i), [200 + i, 210 + i, 300 + i, 300 + i]);
    let requests = Rows((0..5).map(late).collect());
    let merges = Rows(vec![]);
    let (_, counts, _) = run(&inputs(&workers, Some(&requests), &merges));
    assert_eq!((counts.unclaimed_requests, counts.block_rows), (5, 5));
}

#[test]
fn errors_and_requeues_become_events() {
    let failed = BlockRow {
        error: 5,
        requeues: 2,
        ..block(1, 0, [10, 20, 50, 50])
    };
    let (requests, merges) = (Rows(vec![failed]), Rows(vec![]));
    let (kept, counts, _) = run(&inputs(&[], Some(&requests), &merges));
    let told: Vec<_> = kept
        .events
        .iter()
        .map(|e| (e.time_ns, e.kind.as_str(), e.subject.as_str()))
        .collect();
    assert_eq!(told, [(50, "error", "sda"), (20, "requeue", "sda")]);
    assert_eq!((counts.events, kept.block[0].error), (2, 5));
}

/// Random recordings: operations of several workers with zero to three requests each, merges, foreign
/// requests, stragglers of many seconds, open requests.
pub(crate) fn recording() -> impl Strategy<Value = (Vec<Rows<AppRow>>, Rows<BlockRow>, Rows<BlockMergeRow>)> {
    let latency = prop_oneof![8 => 1_000u64..2_000_000, 1 => 0u64..6_000_000_000];
    let operation = (0usize..3, 0u64..3_000_000, latency, 0usize..4, any::<u64>());
    prop::collection::vec(operation, 1..250).prop_map(|operations| {
        let mut apps = vec![Vec::new(), Vec::new(), Vec::new()];
        let mut blocks = Vec::new();
        let mut merges = Vec::new();
        let mut now = 0;
        for (i, (worker, pause, latency, requests, seed)) in operations.into_iter().enumerate() {
            now += pause;
            let id = op_id(worker as u64, i as u64);
            apps[worker].push(app(id, now, now + latency, now + latency + seed % 3000));
            for part in 0..requests as u64 {
                let at = |n: u64| now + latency * ((seed >> (n + 13 * part)) % 64) / 64;
                let mut times = [at(0), at(3), at(6), at(9)];
                times.sort_unstable();
                let key = blocks.len() as u64 + 1;
                let foreign = seed >> (part + 40) & 7 == 0;
                let mut row = block(key, if foreign { 0 } else { id }, times);
                row.device = (8 + (seed >> 50 & 1) as u32) << 20;
                if seed >> (part + 30) & 15 == 0 {
                    (row.complete_ns, row.irq_ns) = (0, 0);
                }
                if seed >> (part + 20) & 3 == 0 && i > 0 {
                    row.merges = 2;
                    for other in [i as u64 - 1, i as u64] {
                        merges.push((
                            times[0],
                            BlockMergeRow {
                                request_key: key,
                                op_id: op_id(worker as u64, other),
                                size_bytes: 512,
                                ..BlockMergeRow::default()
                            },
                        ));
                    }
                }
                blocks.push(row);
            }
        }
        for rows in &mut apps {
            rows.sort_by_key(|row| row.reap_ns);
        }
        blocks.sort_by_key(|row| {
            if row.complete_ns == 0 {
                u64::MAX
            } else {
                row.complete_ns
            }
        });
        merges.sort_by_key(|(at, _)| *at);
        (
            apps.into_iter().map(Rows).collect(),
            Rows(blocks),
            Rows(merges.into_iter().map(|m| m.1).collect()),
        )
    })
}

/// The links of a recording by brute force: (operation, request key).
pub(crate) fn expected_links(
    apps: &[Rows<AppRow>],
    blocks: &[BlockRow],
    merges: &[BlockMergeRow],
) -> Vec<(u64, u64)> {
    let mut links = Vec::new();
    for row in blocks {
        let merged = merges
            .iter()
            .filter(|m| m.request_key == row.request_key)
            .map(|m| m.op_id);
        for id in std::iter::once(row.op_id).chain(merged) {
            if apps
                .iter()
                .flat_map(|rows| &rows.0)
                .any(|op| op.op_id == id && block_entry_ns(row) <= op.reap_ns)
            {
                links.push((id, row.request_key));
            }
        }
    }
    links.sort_unstable();
    links.dedup();
    links
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_join_equals_the_model((apps, blocks, merges) in recording()) {
        let inputs = inputs(&apps, Some(&blocks), &merges);
        let (kept, counts, _) = run(&inputs);

        // Nothing lost, everything in order, every row sums up.
        prop_assert_eq!(kept.block.len(), blocks.0.len());
        prop_assert_eq!(kept.app.len(), apps.iter().map(|rows| rows.0.len()).sum::<usize>());
        for rows in [&kept.app, &kept.block] {
            prop_assert!(rows.is_sorted_by_key(|row| row.start_ns));
            for row in rows {
                prop_assert_eq!(row.stages.iter().flatten().sum::<i64>(), row.latency_ns);
                prop_assert!(row.stages.iter().flatten().all(|ns| *ns >= 0));
            }
        }

        // Block rows: the order of start, by brute force; depth, by brute force.
        let mut sorted = blocks.0.clone();
        sorted.sort_by_key(|row| (block_entry_ns(row), row.complete_ns, row.request_key));
        for (n, (raw, row)) in sorted.iter().zip(&kept.block).enumerate() {
            prop_assert_eq!(row.op_id, Layer::Block.op_id_base() + n as u64);
            let times = block_times(raw, counts.end_ns);
            prop_assert_eq!(row.start_ns, (times.entry_ns - START_NS) as i64);
            prop_assert_eq!(row.latency_ns, (times.end_ns - times.entry_ns) as i64);
            let in_flight = sorted[..n].iter().filter(|earlier| {
                earlier.device == raw.device
                    && (earlier.complete_ns == 0
                        || block_times(earlier, counts.end_ns).end_ns > times.entry_ns)
            });
            prop_assert_eq!(row.queue_depth, Some(in_flight.count() as i32 + 1));
        }

        // App rows are numbered in the order of their start.
        let mut in_order: Vec<&AppRow> = apps.iter().flat_map(|rows| &rows.0).collect();
        in_order.sort_by_key(|row| (row.intended_ns, row.op_id, row.reap_ns));
        for (n, row) in kept.app.iter().enumerate() {
            prop_assert_eq!(row.op_id, Layer::App.op_id_base() + n as u64);
        }
        let raw_of = |op_id: u64| in_order[(op_id - Layer::App.op_id_base()) as usize];

        // Links: every operation and every request that belong together, once.
        let mut links: Vec<_> = kept
            .links
            .iter()
            .map(|link| {
                let n = (link.child_id - Layer::Block.op_id_base()) as usize;
                (raw_of(link.parent_id).op_id, sorted[n].request_key)
            })
            .collect();
        links.sort_unstable();
        let expected = expected_links(&apps, &blocks.0, &merges.0);
        prop_assert_eq!(links, expected.clone());
        prop_assert_eq!(counts.links, expected.len() as u64);

        // App rows, stragglers among them, know their requests and where their time went.
        let by_key: BTreeMap<u64, &BlockRow> = blocks.0.iter().map(|row| (row.request_key, row)).collect();
        for row in &kept.app {
            let raw = raw_of(row.op_id);
            let own = expected.iter().filter(|(parent, _)| *parent == raw.op_id);
            let mut parts: Vec<_> = own.map(|(_, key)| Child::timed(by_key[key]).part).collect();
            if parts.is_empty() {
                prop_assert_eq!(stage(row, Stage::Device), None);
                prop_assert!(stage(row, Stage::Unknown).is_some());
                continue;
            }
            let (below, _) = join_parts(&app_times(raw), &mut parts);
            let Below::Joined { kernel, .. } = below else { panic!("joined") };
            let expected = [kernel.fs_ns, kernel.queue_ns, kernel.device_ns, kernel.interrupt_ns];
            let found = [Stage::Fs, Stage::Queue, Stage::Device, Stage::Interrupt].map(|s| stage(row, s));
            prop_assert_eq!(found, expected.map(|ns| Some(ns as i64)));
        }

        // The same again is the same.
        let (again, again_counts, _) = run(&inputs);
        prop_assert_eq!(kept, again);
        prop_assert_eq!(counts, again_counts);
    }
}

type AnyApp = ([u64; 8], u8);

fn garbage() -> impl Strategy<Value = (Vec<AnyApp>, Vec<([u64; 9], u16)>)> {
    let stamp = || {
        prop_oneof![
            Just(0u64),
            START_NS..START_NS + 9_000,
            any::<u64>(),
            Just(u64::MAX)
        ]
    };
    let app = (prop::array::uniform8(stamp()), any::<u8>());
    let block = (prop::array::uniform9(stamp()), 0u16..3);
    (
        prop::collection::vec(app, 0..40),
        prop::collection::vec(block, 0..40),
    )
}

proptest! {
    /// Rows that no kernel writes: nothing to be right about, but nothing to fall over, and nothing lost.
    #[test]
    fn garbage_is_sealed_as_it_is((apps, blocks) in garbage()) {
        let app_row = |([id, intended, submit, complete, reap, offset, size, depth], op): &AnyApp| AppRow {
            op_id: if id % 3 == 0 { *id } else { op_id(0, id % 8) },
            intended_ns: *intended, submit_ns: *submit, complete_ns: *complete, reap_ns: *reap,
            offset_bytes: *offset, size_bytes: *size as u32, queue_depth: *depth as u32,
            error: *size as i32, op: *op, file: *op,
        };
        let block_row = |(v, merges): &([u64; 9], u16)| BlockRow {
            request_key: v[0], op_id: op_id(0, v[0] % 8), queue_ns: v[1], start_ns: v[2], issue_first_ns: v[3],
            issue_ns: v[4], irq_ns: v[5], complete_ns: v[6], sector_512: v[7], size_bytes: v[8] as u32,
            cmd_flags: v[8] as u32, device: v[7] as u32, pid: v[8] as i32, tid: v[7] as i32,
            vector: v[6] as i32, error: i32::MIN, merges: *merges, ..BlockRow::default()
        };
        let workers = [Rows(apps.iter().map(app_row).collect::<Vec<_>>())];
        let blocks = Rows(blocks.iter().map(block_row).collect::<Vec<_>>());
        let merge = |row: &BlockRow| BlockMergeRow { request_key: row.request_key, op_id: op_id(0, 3), size_bytes: 1, ..BlockMergeRow::default() };
        let merges = Rows(blocks.0.iter().map(merge).collect());
        let (kept, ..) = run(&inputs(&workers, Some(&blocks), &merges));
        prop_assert_eq!((kept.app.len(), kept.block.len()), (workers[0].0.len(), blocks.0.len()));
        for row in kept.app.iter().chain(&kept.block) {
            let sum = row.stages.iter().flatten().fold(0i64, |sum, ns| sum.wrapping_add(*ns));
            prop_assert_eq!(sum, row.latency_ns);
        }
    }
}

/// Generates rows instead of holding them: a closed loop of `depth` operations per worker at
/// `step_ns` each, one request per operation, and now and then one that takes `straggler_ns`.
struct Synthetic {
    rows: u64,
    step_ns: u64,
    latency_ns: u64,
    straggler_every: u64,
    straggler_ns: u64,
}

impl Synthetic {
    /// Rows in order of completion: a straggler appears when it completes. Calls `emit(i, start, end)`.
    fn generate(&self, worker: u64) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let mut late = std::collections::VecDeque::new();
        let mut next = 0;
        std::iter::from_fn(move || loop {
            let start = START_NS + next * self.step_ns + worker;
            let end = start + self.latency_ns;
            if late
                .front()
                .is_some_and(|(_, _, late_end)| *late_end <= end || next >= self.rows)
            {
                return late.pop_front();
            }
            if next >= self.rows {
                return None;
            }
            let i = next;
            next += 1;
            if i % self.straggler_every == self.straggler_every - 1 {
                late.push_back((i, start, start + self.straggler_ns));
                continue;
            }
            return Some((i, start, end));
        })
    }
}

type RowsOnce<'a, R> = Box<dyn Iterator<Item = R> + 'a>;
struct Generated<'a, R>(Box<dyn Fn() -> RowsOnce<'a, R> + 'a>);
struct GeneratedSource<'a, R>(RowsOnce<'a, R>);

impl<R> Source<R> for GeneratedSource<'_, R> {
    fn next_batch(&mut self, into: &mut Vec<R>) -> Result<bool, CaseError> {
        into.clear();
        into.extend(self.0.by_ref().take(16_384));
        Ok(!into.is_empty())
    }
    fn truncation(&self) -> Option<&Truncation> {
        None
    }
}

impl<R> Stream<R> for Generated<'_, R> {
    fn open(&self) -> Result<Box<dyn Source<R> + '_>, CaseError> {
        Ok(Box::new(GeneratedSource((self.0)())))
    }
}

/// Checks order and sums, keeps nothing.
#[derive(Default)]
struct Checked {
    last_start_ns: BTreeMap<Layer, i64>,
    rows: u64,
    links: u64,
}

impl Sink for Checked {
    fn op(&mut self, layer: Layer, row: &OpRow, _names: &Names) -> Result<(), CaseError> {
        let last_ns = self.last_start_ns.entry(layer).or_insert(i64::MIN);
        assert!(
            *last_ns <= row.start_ns,
            "{layer:?} {} before {}",
            *last_ns,
            row.start_ns
        );
        *last_ns = row.start_ns;
        assert_eq!(row.stages.iter().flatten().sum::<i64>(), row.latency_ns);
        self.rows += 1;
        Ok(())
    }
    fn link(&mut self, _row: &LinkRow) -> Result<(), CaseError> {
        self.links += 1;
        Ok(())
    }
    fn gap(&mut self, _row: &GapRow, _names: &Names) -> Result<(), CaseError> {
        Ok(())
    }
    fn row(&mut self, _row: &Row, _names: &Names) -> Result<(), CaseError> {
        Ok(())
    }
    fn event(&mut self, _row: &EventRow) -> Result<(), CaseError> {
        Ok(())
    }
}

/// Joins `rows` operations of each of two workers, at 100,000 a second together.
fn stream_millions(rows: u64, straggler_every: u64, straggler_ns: u64) -> (Counts, Checked) {
    let about = Synthetic {
        rows,
        step_ns: 20_000,
        latency_ns: 2 * MS,
        straggler_every,
        straggler_ns,
    };
    let about = &about;
    let app_rows = |worker: u64| -> RowsOnce<AppRow> {
        Box::new(about.generate(worker).map(move |(i, start, end)| {
            let (submit, end) = (start - START_NS, end - START_NS);
            app(op_id(worker, i), submit, end + 3000, end + 5000)
        }))
    };
    let block_row = |worker: u64, (i, start, end): (u64, u64, u64)| {
        let (start, end) = (start - START_NS, end - START_NS);
        let times = [start + 1000, start + 3000, end - 3000, end];
        BlockRow {
            tid: 101 + worker as i32,
            ..block(2 * i + worker, op_id(worker, i), times)
        }
    };
    let block_rows = || -> RowsOnce<BlockRow> {
        let mut sides = [about.generate(0).peekable(), about.generate(1).peekable()];
        Box::new(std::iter::from_fn(move || {
            let ends = [0, 1].map(|w: usize| sides[w].peek().map_or(u64::MAX, |row| row.2));
            let worker = usize::from(ends[1] < ends[0]);
            sides[worker].next().map(|row| block_row(worker as u64, row))
        }))
    };
    let workers = [0, 1].map(|worker| Generated(Box::new(move || app_rows(worker))));
    let requests = Generated(Box::new(block_rows));
    let merges = Rows(vec![]);
    let mut inputs = inputs(&[], None, &merges);
    inputs.block = Some(&requests);
    for (number, stream) in workers.iter().enumerate() {
        let about = Worker {
            number: number as u16,
            direct: true,
            ..Worker::default()
        };
        inputs.workers.push((about, stream));
    }
    let (mut checked, mut names) = (Checked::default(), Names::default());
    let mut last = None;
    let counts = join(&inputs, &mut names, &mut checked, &mut |progress: Progress| {
        last = Some(progress)
    })
    .unwrap();
    let last = last.unwrap();
    assert_eq!((Some(last.rows_done), last.step), (last.rows_total, "writing"));
    (counts, checked)
}

/// The peak of our own structures does not grow with the number of rows: neither without stragglers nor
/// with one operation in 500 that takes three seconds (300,000 rows long at this rate).
#[test]
fn memory_does_not_grow_with_the_recording() {
    for (straggler_every, straggler_ns, bound) in [(u64::MAX, 0, 40_000), (500, 3_000 * MS, 60_000)] {
        let (counts, checked) = stream_millions(2_000_000, straggler_every, straggler_ns);
        assert_eq!(
            (counts.joined, checked.rows, checked.links),
            (4_000_000, 8_000_000, 4_000_000)
        );
        assert_eq!((counts.clamped, counts.unclaimed_requests), (0, 0));
        assert!(counts.rows_held_max < bound, "{} rows held", counts.rows_held_max);
    }
}

/// `cargo test --release -p whodisk-join -- --ignored --nocapture speed`
#[test]
#[ignore = "a measurement, not a check"]
fn speed_without_files() {
    let begin = std::time::Instant::now();
    let (_, checked) = stream_millions(5_000_000, 100_000, 3_000 * MS);
    let ns = begin.elapsed().as_nanos() as f64 / checked.rows as f64;
    println!("{ns:.0} ns per sealed row, generated rows, nothing written");
}
