//! What the app layer's operations lose to waits for a CPU, through the whole join, against the split of system calls.
use crate::children::Child;
use crate::pipeline_tests::{app, block, expected_links, inputs, op_id, recording, run, stage, START_NS};
use crate::stages::{app_times, join_parts, Below};
use crate::stream::Stream;
use crate::syscalls::timeline::Timeline;
use crate::testing::Rows;
use case::rows::{AppRow, BlockRow, SchedRow, SchedState};
use case::schema::{OpRow, Stage};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A wait of worker 0, 1, ... for a CPU.
fn wait(worker: i32, start: u64, end: u64) -> SchedRow {
    SchedRow {
        tid: 101 + worker,
        state: SchedState::Preempted as u8,
        start_ns: START_NS + start,
        end_ns: START_NS + end,
        ..SchedRow::default()
    }
}

/// `app`, `fs`, `reap`, `runqueue`, `unknown`.
fn above(row: &OpRow) -> [Option<i64>; 5] {
    [
        Stage::App,
        Stage::Fs,
        Stage::Reap,
        Stage::Runqueue,
        Stage::Unknown,
    ]
    .map(|which| stage(row, which))
}

fn seal(apps: Vec<AppRow>, blocks: Option<Vec<BlockRow>>, waits: Vec<SchedRow>) -> Vec<OpRow> {
    let (workers, merges, waits) = ([Rows(apps)], Rows(vec![]), Rows(waits));
    let blocks = blocks.map(Rows);
    let mut inputs = inputs(&workers, blocks.as_ref(), &merges);
    inputs.beside.sched = Some(&waits);
    run(&inputs).0.app
}

#[test]
fn waits_are_taken_out_of_app_fs_and_reap() {
    let late = AppRow {
        intended_ns: START_NS,
        ..app(op_id(0, 0), 100, 500, 600)
    };
    let request = block(7, op_id(0, 0), [200, 250, 390, 400]);
    let waits = vec![wait(0, 50, 120), wait(0, 260, 300), wait(0, 380, 590)];
    let rows = seal(vec![late], Some(vec![request]), waits);
    // 50 before the submit, 20 after it, none while the request was in flight, 190 after that.
    assert_eq!(
        above(&rows[0]),
        [Some(50), Some(80), Some(10), Some(260), Some(0)]
    );
    assert_eq!(stage(&rows[0], Stage::Device), Some(140));
}

#[test]
fn waits_are_told_in_steps() {
    let late = AppRow {
        intended_ns: START_NS,
        ..app(op_id(0, 0), 100, 500, 600)
    };
    let request = block(7, op_id(0, 0), [200, 250, 390, 400]);
    let (workers, merges) = ([Rows(vec![late])], Rows(vec![]));
    let (blocks, waits) = (
        Rows(vec![request]),
        Rows(vec![wait(0, 50, 120), wait(0, 380, 590)]),
    );
    let mut inputs = inputs(&workers, Some(&blocks), &merges);
    inputs.beside.sched = Some(&waits);
    inputs.wait_step_ns = 32;
    // 50 before the submit, 20 after it, 190 after the request: 32, 0, 160.
    assert_eq!(
        above(&run(&inputs).0.app[0]),
        [Some(68), Some(100), Some(40), Some(192), Some(0)]
    );
}

#[test]
fn nothing_is_taken_from_what_is_not_known() {
    let rows = |blocks| {
        let op = app(op_id(0, 0), 100, 500, 600);
        seal(vec![op], blocks, vec![wait(0, 50, 550)])
    };
    assert_eq!(
        above(&rows(Some(vec![]))[0]),
        [Some(0), None, Some(50), Some(50), Some(400)]
    );
    assert_eq!(
        above(&rows(None)[0]),
        [Some(0), Some(400), Some(50), Some(50), Some(0)]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_join_equals_the_split_of_system_calls(
        (mut apps, blocks, merges) in recording(),
        waits in prop::collection::vec((0i32..4, 0u64..30_000_000, 1u64..3_000_000, 0u8..8), 0..60),
        late_ns in 0u64..1_000_000,
    ) {
        for row in apps.iter_mut().flat_map(|rows| &mut rows.0) {
            row.intended_ns -= late_ns;
        }
        let mut now = 0;
        let waits: Vec<SchedRow> = waits.into_iter().map(|(worker, pause, length, state)| {
            let begin = now + pause;
            now = begin + length;
            SchedRow { state, ..wait(worker, begin, now) }
        }).collect();
        let stream = Rows(waits.clone());
        let mut inputs = inputs(&apps, Some(&blocks), &merges);
        inputs.beside.sched = Some(&stream as &dyn Stream<SchedRow>);
        let (kept, ..) = run(&inputs);

        let by_key: BTreeMap<u64, &BlockRow> = blocks.0.iter().map(|row| (row.request_key, row)).collect();
        let links = expected_links(&apps, &blocks.0, &merges.0);
        let mut in_order: Vec<(usize, &AppRow)> = apps.iter().enumerate()
            .flat_map(|(worker, rows)| rows.0.iter().map(move |row| (worker, row))).collect();
        in_order.sort_by_key(|(_, row)| (row.intended_ns, row.op_id, row.reap_ns));
        for ((worker, raw), row) in in_order.into_iter().zip(&kept.app) {
            prop_assert_eq!(row.stages.iter().flatten().sum::<i64>(), row.latency_ns);
            let own = links.iter().filter(|(parent, _)| *parent == raw.op_id);
            let mut parts: Vec<_> = own.map(|(_, key)| Child::timed(by_key[key]).part).collect();
            let times = app_times(raw);
            let mut timeline = Timeline::default();
            timeline.add(times.start_ns, times.submit_ns, Stage::App);
            let mut taken_from_ns = times.complete_ns;
            if parts.is_empty() {
                timeline.add(times.submit_ns, times.complete_ns, Stage::Unknown);
            } else {
                let (Below::Joined { end_ns, .. }, _) = join_parts(&times, &mut parts) else { panic!("joined") };
                taken_from_ns = end_ns;
                timeline.add_requests(times.submit_ns, end_ns, &mut parts);
            }
            timeline.add(taken_from_ns, times.reap_ns, Stage::Reap);
            let runnable = [SchedState::Woken, SchedState::Preempted, SchedState::Throttled].map(|s| s as u8);
            let spans: Vec<(u64, u64)> = waits.iter()
                .filter(|wait| wait.tid == 101 + worker as i32 && runnable.contains(&wait.state))
                .map(|wait| (wait.start_ns, wait.end_ns)).collect();
            timeline.move_to(Stage::Runqueue, &[Stage::App, Stage::Fs, Stage::Reap], &spans);
            let expected = timeline.sums();
            for (ns, expected) in row.stages.iter().zip(expected) {
                prop_assert_eq!(ns.unwrap_or(0), expected as i64);
            }
        }
    }
}
