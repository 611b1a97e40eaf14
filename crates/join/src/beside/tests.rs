//! Golden rows of every table beside the operations, from streams made by hand.
use super::*;
use crate::kernel::CmdFlags;
use crate::pipeline::{join, Counts, Inputs, Row};
use crate::testing::{Kept, Rows};
use case::rows::{CacheWait, Readahead, SchedState, Writeback, NO_CAUSE};
use case::schema::{IrqKind, PrefetchRow, WaitState};
use case::sealed::Names;
use proptest::prelude::*;

const START_NS: u64 = 1_000_000_000_000;
const MS: u64 = 1_000_000;
const FS: u32 = 8 << 20 | 1;

fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

fn sealed(beside: Streams) -> (Kept, Counts, Names) {
    let inputs = Inputs {
        wait_step_ns: 1,
        workers: Vec::new(),
        block: None,
        merges: None,
        carriers: None,
        bios: None,
        bio_members: None,
        start_ns: START_NS,
        end_ns: Some(START_NS + 5_000 * MS),
        host: Some("host".into()),
        devices: BTreeMap::from([(8 << 20, "sda".into())]),
        journals: Default::default(),
        cgroups: BTreeMap::new(),
        cmd_flags: CmdFlags::of_kernel("6.18.44"),
        interrupts_watched: Some(true),
        stops: Default::default(),
        syscall: None,
        own: None,
        served: None,
        beside,
        handlers: vec![("nvme0q".into(), "nvme0n1".into())],
    };
    let (mut kept, mut names) = (Kept::default(), Names::default());
    let counts = join(&inputs, &mut names, &mut kept, &mut |_| ()).unwrap();
    (kept, counts, names)
}

fn wait(tid: i32, state: SchedState, [from, until]: [u64; 2], by: &str) -> SchedRow {
    SchedRow {
        start_ns: START_NS + from * MS,
        end_ns: if until == 0 { 0 } else { START_NS + until * MS },
        tid,
        pid: 7,
        by_pid: if state == SchedState::Woken { 99 } else { 0 },
        cpu: 1,
        state: state as u8,
        reason: 1,
        comm: padded("reader"),
        by: padded(by),
        ..SchedRow::default()
    }
}

#[test]
fn waits_of_scheduler_and_writeback() {
    let sched = Rows(vec![
        wait(7, SchedState::Woken, [20, 30], "hog"),
        SchedRow {
            waker_tid: 71,
            waker_pid: 70,
            waker: padded("holder"),
            ..wait(7, SchedState::Sleeping, [5, 40], "")
        },
        wait(8, SchedState::Frozen, [50, 0], ""),
        wait(8, SchedState::Throttled, [41, 42], ""),
    ]);
    let writeback = Rows(vec![
        WritebackRow {
            start_ns: START_NS + 10 * MS,
            end_ns: START_NS + 12 * MS,
            pid: 7,
            tid: 7,
            kind: Writeback::Throttled as u8,
            comm: padded("writer"),
            ..WritebackRow::default()
        },
        WritebackRow {
            start_ns: START_NS + 9 * MS,
            end_ns: START_NS + 13 * MS,
            transaction: 4,
            bytes: 8192,
            device: 8 << 20,
            pid: 300,
            kind: Writeback::Commit as u8,
            cause: NO_CAUSE,
            comm: padded("jbd2/sda-8"),
            ..WritebackRow::default()
        },
        // Of a thread that had ended when its event was read.
        WritebackRow {
            start_ns: START_NS + 60 * MS,
            end_ns: START_NS + 61 * MS,
            device: 8 << 20,
            pid: -1,
            kind: Writeback::LogForce as u8,
            cause: NO_CAUSE,
            comm: padded("dd"),
            ..WritebackRow::default()
        },
    ]);
    let (kept, counts, names) = sealed(Streams {
        sched: Some(&sched),
        writeback: Some(&writeback),
        ..Streams::default()
    });
    let told: Vec<_> = kept
        .beside
        .iter()
        .map(|row| match row {
            Row::Wait(w) => (
                w.tid,
                w.start_ns / MS as i64,
                w.duration_ns / MS as i64,
                w.state,
                w.cause.map(|cause| names.get(cause)),
                w.cause_pid,
                w.waker.map(|waker| (names.get(waker), w.waker_pid, w.waker_tid)),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            (
                7,
                5,
                35,
                WaitState::Blocked,
                Some("io"),
                None,
                Some(("holder", Some(70), Some(71)))
            ),
            (7, 10, 2, WaitState::Blocked, Some("dirty throttling"), None, None),
            (7, 20, 10, WaitState::Runnable, Some("hog"), Some(99), None),
            (8, 41, 1, WaitState::Throttled, Some("io"), None, None),
            (
                8,
                50,
                4950,
                WaitState::Stopped,
                Some("__refrigerator"),
                None,
                None
            ),
        ]
    );
    let [commit, forced] = &kept.events[..] else {
        panic!("{:?}", kept.events)
    };
    assert_eq!(
        (commit.kind.as_str(), commit.subject.as_str()),
        ("journal_commit", "sda")
    );
    assert_eq!(
        commit.detail,
        "duration_ns 4000000 bytes 8192 transaction 4 by jbd2/sda-8 (pid 300)"
    );
    assert_eq!(forced.detail, "duration_ns 1000000 by dd (pid not known)");
    assert_eq!(counts.beside_ends["sched"].last_ns, START_NS + 50 * MS);
}

#[test]
fn handlers_and_samples() {
    let irq = |start: u64, vector, handler: &str| IrqRow {
        start_ns: START_NS + start,
        end_ns: START_NS + start + 500,
        vector,
        cpu: 3,
        kind: u8::from(vector < 0),
        handler: padded(handler),
    };
    let irqs = Rows(vec![irq(10, 41, "nvme0q1"), irq(9, -1, "BLOCK")]);
    let total = Rows(vec![IrqTotalRow {
        start_ns: START_NS,
        end_ns: START_NS + 1000 * MS,
        runs: 50,
        busy_ns: 10 * MS,
        vector: 41,
        cpu: 3,
        kind: 0,
        handler: padded("nvme0q1"),
    }]);
    let sample = |time: u64, value| SampleRow {
        time_ns: START_NS + time,
        value,
        kind: 0,
        subject: padded("sda"),
        metric: padded("busy_ratio"),
    };
    let samples = Rows(vec![sample(7, 0.5), sample(8, f64::NAN)]);
    let (kept, _, names) = sealed(Streams {
        irq: Some(&irqs),
        irq_total: Some(&total),
        sample: Some(&samples),
        ..Streams::default()
    });
    let mut told = Vec::new();
    for row in &kept.beside {
        told.push(match row {
            Row::Irq(i) => format!(
                "{} {} {:?} {:?} {:?} {}",
                i.start_ns,
                names.get(i.handler),
                i.vector,
                i.kind,
                i.device.map(|device| names.get(device)),
                i.duration_ns
            ),
            Row::Series(s) => format!(
                "{} {} {} {}",
                s.time_ns,
                names.get(s.subject),
                names.get(s.metric),
                s.value
            ),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(
        told,
        [
            format!("9 BLOCK None {:?} None 500", IrqKind::Soft),
            format!("10 nvme0q1 Some(41) {:?} Some(\"nvme0n1\") 500", IrqKind::Hard),
            "0 cpu3 irq_nvme0q1_busy_ratio 0.01".into(),
            "0 cpu3 irq_nvme0q1_runs_per_s 50".into(),
            "7 sda busy_ratio 0.5".into(),
        ]
    );
}

#[test]
fn prefetching_by_file_and_second() {
    let file = FileRow {
        time_ns: START_NS,
        inode: 5,
        device: FS,
        path: padded("/data/a"),
        ..FileRow::default()
    };
    let used = |start: u64, inode, [prefetched, used, wasted]: [u32; 3]| ReadaheadUseRow {
        start_ns: START_NS + start * MS,
        end_ns: START_NS + 4000 * MS,
        inode,
        device: FS,
        pages_prefetched: prefetched,
        pages_used: used,
        pages_wasted: wasted,
        ..ReadaheadUseRow::default()
    };
    let wait = |start: u64, kind: CacheWait| CacheWaitRow {
        start_ns: START_NS + start * MS,
        end_ns: START_NS + (start + 1) * MS,
        inode: 5,
        index: 32,
        waited_index: 63,
        last_index: 100,
        device: FS,
        kind: kind as u8,
        ..CacheWaitRow::default()
    };
    let brought = ReadaheadRow {
        time_ns: START_NS + 90 * MS,
        inode: 5,
        index: 32,
        pages: 64,
        folio_pages: 16,
        device: FS,
        kind: Readahead::Sync as u8,
        ..ReadaheadRow::default()
    };
    let read = CacheReadRow {
        start_ns: START_NS + 1200 * MS,
        end_ns: START_NS + 2200 * MS,
        inode: 6,
        pages_asked: 10,
        pages_missed: 9,
        device: FS,
        ..CacheReadRow::default()
    };
    let (files, uses) = (
        Rows(vec![file]),
        Rows(vec![
            used(100, 5, [32, 30, 1]),
            used(900, 5, [10, 10, 0]),
            used(1500, 6, [4, 0, 4]),
        ]),
    );
    let waits = Rows(vec![wait(100, CacheWait::InFlight), wait(101, CacheWait::Missed)]);
    let (brought, reads) = (Rows(vec![brought]), Rows(vec![read]));
    let streams = Streams {
        file: Some(&files),
        readahead_use: Some(&uses),
        cache_wait: Some(&waits),
        readahead: Some(&brought),
        cache_read: Some(&reads),
        ..Streams::default()
    };
    let (kept, _, names) = sealed(streams);
    let row = |file: NameId, [start_ms, end_ms]: [u64; 2], pages: [i64; 5]| {
        let [issued, used, wasted, late, missed] = pages.map(|pages| pages * PAGE_BYTES as i64);
        Row::Prefetch(PrefetchRow {
            file,
            start_ns: (start_ms * MS) as i64,
            duration_ns: ((end_ms - start_ms) * MS) as i64,
            issued_bytes: issued,
            used_bytes: used,
            wasted_bytes: wasted,
            late_bytes: Some(late),
            missed_bytes: Some(missed),
        })
    };
    let id = |name: &str| {
        (0..names.len() as NameId)
            .find(|id| names.get(*id) == name)
            .unwrap()
    };
    assert_eq!(
        kept.beside,
        [
            row(id("/data/a"), [0, 1000], [42, 40, 1, 16, 0]),
            row(id("inode:6"), [1000, 2000], [4, 0, 4, 0, 9]),
        ]
    );
    // Phases from 101 to 900 and to 1400 ms: each event in its own.
    let cuts = [101, 900, 1400].map(|ms| START_NS + ms * MS);
    let (kept, _, _) = sealed(Streams {
        cuts_ns: &cuts,
        ..streams
    });
    assert_eq!(
        kept.beside,
        [
            row(id("/data/a"), [0, 101], [32, 30, 1, 16, 0]),
            row(id("/data/a"), [900, 1000], [10, 10, 0, 0, 0]),
            row(id("inode:6"), [1000, 1400], [0, 0, 0, 0, 9]),
            row(id("inode:6"), [1400, 2000], [4, 0, 4, 0, 0]),
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_order_of_arrival_does_not_matter(
        waits in prop::collection::vec((1i32..4, 0u8..8, 0u64..800, 1u64..400), 0..300),
        swaps in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
    ) {
        let rows: Vec<SchedRow> = waits.iter().map(|(tid, state, from, length)| SchedRow {
            state: *state, ..wait(*tid, SchedState::Woken, [*from, from + length], "x")
        }).collect();
        let mut shuffled = rows.clone();
        for (at, to) in swaps.iter().enumerate().take(rows.len()) {
            shuffled.swap(at, to.index(rows.len()));
        }
        let tables = |rows: Vec<SchedRow>| {
            let rows = Rows(rows);
            let (kept, _, names) = sealed(Streams { sched: Some(&rows), ..Streams::default() });
            let keys: Vec<_> = kept.beside.iter().map(|row| match row {
                Row::Wait(w) => (w.start_ns, w.tid, w.duration_ns, w.state.name(), w.cause.map(|c| names.get(c).to_owned())),
                other => panic!("{other:?}"),
            }).collect();
            assert!(keys.is_sorted_by_key(|key| key.0));
            keys
        };
        prop_assert_eq!(tables(rows), tables(shuffled));
    }
}
