//! Carriers through the whole join.
use crate::pipeline_tests::{block, inputs, run, stage, START_NS};
use crate::stream::Stream;
use crate::testing::Rows;
use case::rows::{block_flags, BlockCarrierRow, BlockRow};
use case::schema::{flags, Layer, LinkKind, Op, Stage};

/// Two writes with a flush, the second too late for the first flush command: requests in the order of completion.
fn two_carriers() -> (Vec<BlockRow>, Vec<BlockCarrierRow>) {
    let flush = |key, issue, irq, done| BlockRow {
        queue_ns: 0,
        start_ns: 0,
        cmd_flags: 2 | 1 << 18,
        size_bytes: 0,
        pid: -1,
        tid: -1,
        comm: [0; 16],
        ..block(key, 0, [0, issue, irq, done])
    };
    let carrier = |key, queue, done| BlockRow {
        issue_first_ns: 0,
        issue_ns: 0,
        size_bytes: 0,
        cmd_flags: 1 | 1 << 18,
        ..block(key, 0, [queue, 0, done, done])
    };
    let served = |carrier_key, flush_key, issue, irq, done| BlockCarrierRow {
        carrier_key,
        flush_key,
        issue_ns: START_NS + issue,
        irq_ns: START_NS + irq,
        done_ns: START_NS + done,
    };
    let of_kernel = BlockRow {
        flags: block_flags::KERNEL,
        ..carrier(3, 20, 101)
    };
    let rows = vec![
        flush(2, 15, 52, 55),
        carrier(1, 10, 56),
        flush(4, 60, 95, 100),
        of_kernel,
    ];
    (rows, vec![served(1, 2, 15, 52, 55), served(3, 4, 60, 95, 100)])
}

#[test]
fn a_carrier_waits_for_its_flush_and_behind_the_one_before() {
    let (rows, served) = two_carriers();
    let (requests, merges, served) = (Rows(rows), Rows(vec![]), Rows(served));
    let mut inputs = inputs(&[], Some(&requests), &merges);
    inputs.carriers = Some(&served as &dyn Stream<BlockCarrierRow>);
    let (kept, counts, _) = run(&inputs);
    let told: Vec<_> = kept
        .block
        .iter()
        .map(|row| {
            let ns = |which| stage(row, which).unwrap();
            let stages = (ns(Stage::Queue), ns(Stage::Device), ns(Stage::Interrupt));
            (
                row.op,
                row.start_ns,
                row.latency_ns,
                stages,
                row.flags & !flags::PREFLUSH,
            )
        })
        .collect();
    let kernel = flags::FLUSH | flags::KERNEL;
    assert_eq!(
        told,
        [
            (Op::Write, 10, 46, (5, 37, 4), flags::FLUSH),
            (Op::Flush, 15, 40, (0, 37, 3), 0),
            (Op::Write, 20, 81, (40, 35, 6), kernel),
            (Op::Flush, 60, 40, (0, 35, 5), 0),
        ]
    );
    let id = |number| Layer::Block.op_id_base() + number;
    let links: Vec<_> = kept
        .links
        .iter()
        .map(|link| (link.parent_id, link.child_id, link.kind))
        .collect();
    assert_eq!(
        links,
        [
            (id(0), id(1), LinkKind::WaitsFor),
            (id(2), id(1), LinkKind::QueuedBehind),
            (id(2), id(3), LinkKind::WaitsFor),
        ]
    );
    assert_eq!((counts.orphan_carriers, counts.clamped), (0, 0));
}

#[test]
fn without_the_stream_nothing_is_known_of_carriers() {
    let (rows, _) = two_carriers();
    let (requests, merges) = (Rows(rows), Rows(vec![]));
    let (kept, ..) = run(&inputs(&[], Some(&requests), &merges));
    assert!(kept.links.is_empty());
    assert_eq!(
        stage(&kept.block[0], Stage::Queue),
        Some(46),
        "as version 1 had it"
    );
    assert!(kept.block.iter().all(|row| row.flags & flags::FLUSH == 0));
}
