//! Operations of programs against streams made by hand, and against their promises for any stream.
use crate::beside::Streams;
use crate::journals::Journals;
use crate::kernel::CmdFlags;
use crate::pipeline::{join, Counts, Inputs, Row};
use crate::served::Served;
use crate::stream::Stream;
use crate::syscalls::{META_FLAG, READAHEAD_FLAG};
use crate::testing::{Kept, Rows};
use case::meta::{DeviceMeta, JournalMeta, SystemMeta};
use case::rows::{
    block_flags, syscall_flags, BlockMergeRow, BlockRow, CacheWait, CacheWaitRow, FileRow, OwnRow, SchedRow,
    SchedState, SyscallRow, Via, Writeback, WritebackRow,
};
use case::schema::{flags, Layer, LinkKind, Op, OpRow, Stage};
use case::sealed::Names;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const START_NS: u64 = 1_000_000_000_000;
const DISK: u32 = 8 << 20;

#[derive(Debug, Default)]
struct Recording {
    syscalls: Vec<SyscallRow>,
    blocks: Vec<BlockRow>,
    merges: Vec<BlockMergeRow>,
    sched: Vec<SchedRow>,
    waits: Vec<CacheWaitRow>,
    writeback: Vec<WritebackRow>,
    own: Vec<OwnRow>,
    files: Vec<FileRow>,
    served: Option<Served>,
    journals: Journals,
    /// The kernel does not tell what reads wait for.
    waits_unseen: bool,
}

impl Recording {
    fn seal(&self) -> (Kept, Counts) {
        let (syscalls, blocks) = (Rows(self.syscalls.clone()), Rows(self.blocks.clone()));
        let (merges, sched) = (Rows(self.merges.clone()), Rows(self.sched.clone()));
        let (waits, writeback) = (Rows(self.waits.clone()), Rows(self.writeback.clone()));
        let (own, files) = (Rows(self.own.clone()), Rows(self.files.clone()));
        let inputs = Inputs {
            wait_step_ns: 1,
            workers: Vec::new(),
            block: Some(&blocks as &dyn Stream<BlockRow>),
            merges: Some(&merges),
            carriers: None,
            bios: None,
            bio_members: None,
            start_ns: START_NS,
            end_ns: Some(START_NS + 1_000_000),
            host: None,
            devices: BTreeMap::from([(DISK, "sda".into())]),
            journals: self.journals.clone(),
            cgroups: BTreeMap::new(),
            cmd_flags: CmdFlags::of_kernel("6.18.44"),
            interrupts_watched: Some(true),
            stops: Default::default(),
            syscall: Some(&syscalls),
            own: (!self.own.is_empty()).then_some(&own as &dyn Stream<OwnRow>),
            served: self.served.clone(),
            beside: Streams {
                file: Some(&files),
                sched: Some(&sched),
                cache_wait: (!self.waits_unseen).then_some(&waits as &dyn Stream<CacheWaitRow>),
                writeback: Some(&writeback),
                ..Streams::default()
            },
            handlers: Vec::new(),
        };
        let (mut kept, mut names) = (Kept::default(), Names::default());
        let counts = join(&inputs, &mut names, &mut kept, &mut |_| ()).unwrap();
        (kept, counts)
    }
}

fn call(op_key: u64, op: Op, flags: u32, [start, end]: [u64; 2]) -> SyscallRow {
    SyscallRow {
        op_key,
        owner_key: if flags & syscall_flags::DIRECT != 0 { 77 } else { 0 },
        start_ns: START_NS + start,
        end_ns: START_NS + end,
        offset_bytes: 8192,
        size_bytes: 8192,
        result: 8192,
        inode: 5,
        device: DISK,
        pid: 10,
        tid: 11,
        flags,
        op: op as u8,
        ..SyscallRow::default()
    }
}

fn request(request_key: u64, tid: i32, times: [u64; 4]) -> BlockRow {
    let [queue_ns, issue_ns, irq_ns, complete_ns] = times.map(|ns| START_NS + ns);
    BlockRow {
        request_key,
        queue_ns,
        start_ns: queue_ns,
        issue_first_ns: issue_ns,
        issue_ns,
        irq_ns,
        complete_ns,
        size_bytes: 8192,
        device: DISK,
        pid: tid,
        tid,
        ..BlockRow::default()
    }
}

fn stages(op: &OpRow) -> Vec<(&'static str, i64)> {
    let all = Stage::ALL.iter().zip(op.stages);
    all.filter_map(|(stage, ns)| Some((stage.column(), ns.filter(|ns| *ns != 0)?)))
        .collect()
}

fn stages_us(op: &OpRow) -> Vec<(&'static str, i64)> {
    let stages = stages(op).into_iter();
    stages.map(|(name, ns)| (name, ns / 1000)).collect()
}

/// A sleep of a thread of process 10, us, that another thread ended.
fn slept_for(tid: i32, [start, end]: [u64; 2], waker_tid: i32, waker_pid: i32) -> SchedRow {
    SchedRow {
        start_ns: START_NS + start * 1000,
        end_ns: START_NS + end * 1000,
        tid,
        pid: 10,
        state: SchedState::Sleeping as u8,
        waker_tid,
        waker_pid,
        ..SchedRow::default()
    }
}

fn own(op: Op, tid: i32, [start, submit, end]: [u64; 3]) -> OwnRow {
    OwnRow {
        start_ns: START_NS + start,
        submit_ns: START_NS + submit,
        end_ns: START_NS + end,
        tid,
        op: op as u8,
        ..OwnRow::default()
    }
}

/// A commit of thread 11 that was due at 50: a write of 100 ns, a sync of 500 ns of which 300 were its request's at the
/// device, 20 ns without a CPU between them; and others with a thread that made no call, or is not known.
fn commit() -> Recording {
    let plain = |key, op, times| SyscallRow {
        result: 0,
        ..call(key, op, 0, times)
    };
    Recording {
        syscalls: vec![
            plain(1, Op::Write, [200, 300]),
            plain(2, Op::Sync, [400, 900]),
            // Of the same thread, after it, and of another thread.
            plain(3, Op::Write, [1000, 1100]),
            SyscallRow {
                tid: 12,
                ..plain(4, Op::Write, [250, 2000])
            },
        ],
        blocks: vec![request(1, 11, [450, 500, 800, 810])],
        sched: vec![SchedRow {
            start_ns: START_NS + 320,
            end_ns: START_NS + 340,
            tid: 11,
            state: SchedState::Woken as u8,
            ..SchedRow::default()
        }],
        own: vec![
            own(Op::Commit, 11, [50, 150, 950]),
            own(Op::Read, 13, [500, 500, 560]),
            own(Op::Read, 0, [600, 610, 700]),
        ],
        ..Recording::default()
    }
}

#[test]
fn a_programs_operation_has_the_stages_of_its_threads_calls() {
    let (kept, counts) = commit().seal();
    let [commit, other, unknown] = &kept.app[..] else {
        panic!("{:?}", kept.app)
    };
    let expected = [
        ("app_ns", 100 + 50 + 80 + 50),
        ("fs_ns", 100 + 50 + 90),
        ("queue_ns", 50),
        ("device_ns", 300),
        ("interrupt_ns", 10),
        ("runqueue_ns", 20),
    ];
    assert_eq!(stages(commit), expected);
    assert_eq!(
        (commit.start_ns, commit.latency_ns, commit.op, commit.pid),
        (50, 900, Op::Commit, Some(10))
    );
    assert_eq!(stages(other), [("app_ns", 60)]);
    assert_eq!(stages(unknown), [("app_ns", 10), ("unknown_ns", 90)]);
    let links: Vec<u64> = kept
        .links
        .iter()
        .filter(|link| link.parent_id == commit.op_id)
        .map(|link| link.child_id)
        .collect();
    let calls: Vec<u64> = [0, 2].map(|number| Layer::Syscall.op_id_base() + number).to_vec();
    assert_eq!((links, counts.app_rows, counts.joined), (calls, 3, 2));
}

/// Thread 11 syncs for two commits; the one of thread 12, which slept until then, has the sync's stages meanwhile, and so has one that slept for it in turn,
/// but not what slept for a thread that has no operations of its own.
#[test]
fn an_operation_that_slept_for_another_ones_call_has_its_stages() {
    let us = |times: [u64; 2]| times.map(|us| us * 1000);
    let plain = |key, op, times| SyscallRow {
        result: 0,
        ..call(key, op, 0, us(times))
    };
    let slept = |tid, times, waker_tid| slept_for(tid, times, waker_tid, 10);
    let op = |tid, times: [u64; 3]| own(Op::Commit, tid, times.map(|us| us * 1000));
    let recording = Recording {
        syscalls: vec![
            plain(2, Op::Sync, [400, 900]),
            SyscallRow {
                tid: 20,
                ..plain(3, Op::Sync, [400, 900])
            },
        ],
        blocks: vec![request(1, 11, [450, 500, 800, 810].map(|us| us * 1000))],
        sched: vec![
            slept(12, [500, 910], 11),
            slept(13, [600, 920], 12),
            slept(14, [500, 910], 20),
        ],
        own: vec![
            op(11, [300, 300, 950]),
            op(12, [350, 350, 950]),
            op(13, [350, 350, 950]),
            op(14, [350, 350, 950]),
        ],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let of = |tid| kept.app.iter().find(|op| op.tid == Some(tid)).unwrap();
    let us_of = |tid| stages_us(of(tid));
    let expected = |app, fs, device| {
        [
            ("app_ns", app),
            ("fs_ns", fs),
            ("device_ns", device),
            ("interrupt_ns", 10),
        ]
    };
    assert_eq!(us_of(12), expected(200, 90, 300));
    assert_eq!(us_of(13), expected(300, 90, 200));
    assert_eq!(us_of(14), [("app_ns", 600)]);
    let sync = kept.syscall.iter().find(|op| op.tid == Some(11)).unwrap().op_id;
    for tid in [11, 12, 13] {
        let links = kept.links.iter().filter(|link| link.parent_id == of(tid).op_id);
        assert_eq!(
            links.map(|link| link.child_id).collect::<Vec<_>>(),
            [sync],
            "{tid}"
        );
        assert_eq!(of(tid).device, of(11).device);
    }
}

/// Thread 12 wants the lock of the file that thread 11 holds while it waits for the disk, and thread 13 stands behind it; what it waits for is the disk. Who
/// waits for a thread of another process waits in the file system.
#[test]
fn a_call_that_slept_for_another_ones_has_its_stages() {
    let us = |times: [u64; 2]| times.map(|us| us * 1000);
    let write = |key, tid, times| SyscallRow {
        tid,
        result: 0,
        ..call(key, Op::Write, 0, us(times))
    };
    let recording = Recording {
        syscalls: vec![
            write(1, 11, [100, 920]),
            write(2, 12, [200, 950]),
            write(3, 13, [300, 960]),
            write(4, 14, [300, 960]),
        ],
        blocks: vec![request(1, 11, [150, 200, 800, 800].map(|us| us * 1000))],
        sched: vec![
            slept_for(12, [210, 900], 11, 10),
            slept_for(13, [310, 940], 12, 10),
            slept_for(14, [310, 940], 11, 30),
        ],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let of = |tid| kept.syscall.iter().find(|op| op.tid == Some(tid)).unwrap();
    let us_of = |tid| stages_us(of(tid));
    assert_eq!(us_of(11), [("fs_ns", 170), ("queue_ns", 50), ("device_ns", 600)]);
    assert_eq!(us_of(12), [("fs_ns", 160), ("device_ns", 590)]);
    assert_eq!(us_of(13), [("fs_ns", 170), ("device_ns", 490)]);
    assert_eq!(us_of(14), [("fs_ns", 660)]);
    let below = |tid| -> Vec<u64> {
        let links = kept.links.iter().filter(|link| link.parent_id == of(tid).op_id);
        links.map(|link| link.child_id).collect()
    };
    assert_eq!(below(12), [of(11).op_id]);
    assert_eq!(below(13), [of(12).op_id]);
    assert_eq!((below(14).len(), of(14).device), (0, None));
    assert_eq!((of(12).device, of(13).device), (of(11).device, of(11).device));
}

/// A call that outlasts all that may be held is passed over and written when it ends; nothing after it is lost, nor a program's own operation.
#[test]
fn a_call_longer_than_what_may_be_held_loses_nothing() {
    let others = super::HELD_MAX as u64 + 1000;
    let short = |number: u64| {
        let start = 100 + 20 * number;
        SyscallRow {
            result: 0,
            ..call(2 + number, Op::Read, 0, [start, start + 10])
        }
    };
    // It ends before the last thousand begin.
    let end = 100 + 20 * (others - 500);
    let long = SyscallRow {
        tid: 12,
        result: 0,
        ..call(1, Op::Write, 0, [50, end])
    };
    let after = [end + 1000, end + 1000, end + 2000];
    let recording = Recording {
        syscalls: std::iter::once(long).chain((0..others).map(short)).collect(),
        own: vec![own(Op::Commit, 11, [200, 200, 300]), own(Op::Commit, 11, after)],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    assert_eq!((kept.syscall.len() as u64, kept.app.len()), (others + 1, 2));
}

/// Two READs and an OFFLOAD_WRITE at once, then a FLUSH, on files 5 (source) and 6 (destination) of a server.
fn served() -> Recording {
    let file = |inode, text: &str| {
        let mut row = FileRow {
            inode,
            device: DISK,
            parts: 1,
            ..FileRow::default()
        };
        row.path[..text.len()].copy_from_slice(text.as_bytes());
        row
    };
    let place = |op, tid, times, offset_bytes| OwnRow {
        offset_bytes,
        size_bytes: 8192,
        ..own(op, tid, times)
    };
    let by_server = |key, op, inode, offset_bytes, times| SyscallRow {
        inode,
        offset_bytes,
        tid: 90 + key as i32,
        ..call(key, op, 0, times)
    };
    Recording {
        own: vec![
            place(Op::Read, 11, [100, 100, 500], 0),
            place(Op::Read, 12, [100, 100, 600], 8192),
            place(Op::Write, 13, [100, 100, 700], 16384),
            own(Op::Sync, 11, [800, 800, 900]),
        ],
        syscalls: vec![
            by_server(1, Op::Read, 5, 8192, [150, 250]),
            // Of both READs.
            by_server(2, Op::Read, 5, 4096, [300, 340]),
            // What a token stands for, read and written.
            by_server(3, Op::Read, 5, 16384, [350, 400]),
            by_server(4, Op::Write, 6, 16384, [400, 450]),
            // A file that is none of both, a write to the source, and what nobody asked for.
            by_server(5, Op::Read, 7, 0, [460, 480]),
            by_server(6, Op::Write, 5, 0, [460, 480]),
            by_server(7, Op::Read, 5, 0, [750, 760]),
            by_server(8, Op::Sync, 6, 0, [820, 890]),
        ],
        files: vec![
            file(5, "/share/a.bin"),
            file(6, "/share/b.bin"),
            file(7, "/share/c.bin"),
        ],
        served: Served::of(&serde_json::json!({"server": "h", "source": "a.bin", "destination": "b.bin"})),
        ..Recording::default()
    }
}

#[test]
fn calls_of_a_server_belong_to_the_operation_that_alone_fits_them() {
    let (kept, counts) = served().seal();
    let number = |id: u64| id & 0xff;
    let links: Vec<_> = kept
        .links
        .iter()
        .map(|link| {
            (
                number(link.parent_id),
                number(link.child_id),
                link.bytes,
                link.kind,
            )
        })
        .collect();
    let waits = LinkKind::WaitsFor;
    assert_eq!(
        links,
        [
            (1, 0, 8192, waits),
            (2, 2, 8192, waits),
            (2, 3, 8192, waits),
            (3, 7, 0, waits)
        ]
    );
    assert_eq!(
        (counts.served_tied, counts.served_ambiguous, counts.served_alone),
        (4, 1, 1)
    );
    let [first, second, write, sync] = &kept.app[..] else {
        panic!("{:?}", kept.app)
    };
    assert_eq!(stages(first), [("app_ns", 360), ("unknown_ns", 40)]);
    // The server's read never came to a request, so it waited for nothing.
    assert_eq!(
        stages(second),
        [("app_ns", 360), ("fs_ns", 100), ("unknown_ns", 40)]
    );
    assert_eq!(stages(write), [("app_ns", 500), ("fs_ns", 100)]);
    assert_eq!(stages(sync), [("app_ns", 30), ("fs_ns", 70)]);
    assert_eq!(counts.joined, 3);
    let (without, counts) = Recording {
        served: None,
        ..served()
    }
    .seal();
    assert!(without.links.is_empty() && counts.served_tied + counts.served_alone == 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_programs_operations_come_in_order_and_their_stages_sum(
        spans in prop::collection::vec((0u64..900, 0u64..80, 0u64..300, 0i32..4), 0..60),
        calls in prop::collection::vec((0u64..900, 0u64..200, 1i32..4), 0..60),
    ) {
        let recording = Recording {
            syscalls: calls.iter().enumerate().map(|(key, (start, length, tid))| SyscallRow {
                tid: *tid,
                result: 0,
                ..call(key as u64, Op::Write, 0, [*start, start + length])
            }).collect(),
            own: spans.iter().map(|(start, late, length, tid)| own(Op::File, *tid, [*start, start + late, start + late + length])).collect(),
            ..Recording::default()
        };
        let (kept, counts) = recording.seal();
        prop_assert_eq!((kept.app.len(), counts.app_rows), (spans.len(), spans.len() as u64));
        prop_assert!(kept.app.is_sorted_by_key(|op| op.start_ns));
        for (number, op) in kept.app.iter().enumerate() {
            prop_assert_eq!(op.op_id, Layer::App.op_id_base() + number as u64);
            prop_assert_eq!(op.stages.iter().flatten().sum::<i64>(), op.latency_ns);
        }
    }
}

#[test]
fn direct_io_finds_its_request_by_key() {
    let recording = Recording {
        syscalls: vec![call(1, Op::Read, syscall_flags::DIRECT, [100, 1000])],
        blocks: vec![
            BlockRow {
                owner_key: 77,
                flags: block_flags::THROTTLED,
                ..request(1, 500, [300, 400, 800, 850])
            },
            // The same key again, long after.
            BlockRow {
                owner_key: 77,
                ..request(2, 500, [3000, 4000, 8000, 8500])
            },
        ],
        sched: vec![SchedRow {
            start_ns: START_NS + 900,
            end_ns: START_NS + 930,
            tid: 11,
            state: SchedState::Woken as u8,
            ..SchedRow::default()
        }],
        ..Recording::default()
    };
    let (kept, counts) = recording.seal();
    let [op] = &kept.syscall[..] else { panic!() };
    assert_eq!(
        stages(op),
        [
            ("throttle_ns", 200),
            ("queue_ns", 100),
            ("device_ns", 400),
            ("interrupt_ns", 50),
            ("reap_ns", 120),
            ("runqueue_ns", 30),
        ]
    );
    assert_eq!(
        (op.flags, op.latency_ns, op.queue_depth),
        (flags::DIRECT, 900, Some(1))
    );
    assert_eq!(op.op_id, Layer::Syscall.op_id_base());
    let [link] = &kept.links[..] else {
        panic!("{:?}", kept.links)
    };
    assert_eq!(
        (link.child_id, link.kind, link.bytes),
        (Layer::Block.op_id_base(), LinkKind::WaitsFor, 8192)
    );
    assert_eq!((counts.syscall_rows, counts.syscall_shares[0].unknown_ns), (1, 0));
}

#[test]
fn direct_io_through_the_page_cache_waits_for_what_a_worker_asks_for_at_its_place() {
    let of_file = |request_key, offset_bytes, times| BlockRow {
        cmd_flags: 1,
        inode: 5,
        file_device: DISK,
        file_offset_bytes: offset_bytes,
        ..request(request_key, 900, times)
    };
    let recording = Recording {
        syscalls: vec![SyscallRow {
            via: Via::Uring as u8,
            ..call(1, Op::Write, syscall_flags::DIRECT, [100, 600])
        }],
        // Its bytes, and others of the same file.
        blocks: vec![
            of_file(1, 8192, [150, 160, 480, 490]),
            of_file(2, 1 << 20, [150, 160, 580, 590]),
        ],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    assert_eq!(kept.syscall[0].stages[Stage::Unknown as usize], Some(0));
    assert_eq!(kept.syscall[0].stages[Stage::Device as usize], Some(320));
    assert_eq!(kept.links.len(), 1);
}

#[test]
fn direct_io_without_a_request_is_unknown() {
    let recording = Recording {
        syscalls: vec![call(1, Op::Write, syscall_flags::DIRECT, [100, 1000])],
        blocks: vec![request(1, 500, [300, 400, 800, 850])],
        ..Recording::default()
    };
    let (kept, counts) = recording.seal();
    assert_eq!(stages(&kept.syscall[0]), [("unknown_ns", 900)]);
    assert_eq!((counts.syscall_shares[0].unknown_ns, kept.links.len()), (900, 0));
}

/// btrfs reads through the page cache where it cannot read directly.
#[test]
fn direct_io_waits_for_what_its_own_thread_asks_for_within_the_call() {
    let metadata = BlockRow {
        cmd_flags: META_FLAG,
        ..request(1, 11, [150, 160, 300, 310])
    };
    let read_ahead = BlockRow {
        cmd_flags: READAHEAD_FLAG,
        ..request(2, 11, [400, 420, 900, 910])
    };
    let recording = Recording {
        syscalls: vec![call(1, Op::Read, syscall_flags::DIRECT, [100, 1000])],
        blocks: vec![metadata, read_ahead],
        ..Recording::default()
    };
    let (kept, counts) = recording.seal();
    assert_eq!(
        stages(&kept.syscall[0]),
        [
            ("fs_ns", 140),
            ("queue_ns", 30),
            ("device_ns", 620),
            ("interrupt_ns", 20),
            ("reap_ns", 90)
        ]
    );
    assert_eq!((counts.syscall_shares[0].unknown_ns, kept.links.len()), (0, 2));
}

#[test]
fn a_bio_merged_into_an_older_request_is_found() {
    let recording = Recording {
        syscalls: vec![call(1, Op::Read, syscall_flags::DIRECT, [350, 1000])],
        blocks: vec![BlockRow {
            merges: 1,
            ..request(1, 500, [300, 400, 800, 850])
        }],
        merges: vec![BlockMergeRow {
            request_key: 1,
            owner_key: 77,
            size_bytes: 4096,
            ..BlockMergeRow::default()
        }],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let expected = [
        ("queue_ns", 50),
        ("device_ns", 400),
        ("interrupt_ns", 50),
        ("reap_ns", 150),
    ];
    assert_eq!(stages(&kept.syscall[0]), expected);
    assert_eq!(
        (kept.links[0].kind, kept.links[0].bytes),
        (LinkKind::Merged, 4096)
    );
}

fn page_wait(kind: CacheWait, waited_index: u64, [start, end]: [u64; 2]) -> CacheWaitRow {
    CacheWaitRow {
        start_ns: START_NS + start,
        end_ns: START_NS + end,
        wait_ns: end - start,
        inode: 5,
        index: 2,
        waited_index,
        last_index: 3,
        device: DISK,
        pid: 10,
        tid: 11,
        kind: kind as u8,
    }
}

#[test]
fn a_buffered_read_waits_for_readahead_begun_before() {
    let readahead = BlockRow {
        inode: 5,
        file_device: DISK,
        file_offset_bytes: 12288,
        ..request(1, 500, [20, 40, 500, 510])
    };
    let other_place = BlockRow {
        file_offset_bytes: 1 << 20,
        request_key: 2,
        ..readahead
    };
    let recording = Recording {
        syscalls: vec![call(1, Op::Read, 0, [100, 600])],
        blocks: vec![readahead, other_place],
        waits: vec![page_wait(CacheWait::InFlight, 3, [200, 550])],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let expected = [("fs_ns", 100 + 40 + 50), ("device_ns", 300), ("interrupt_ns", 10)];
    assert_eq!(stages(&kept.syscall[0]), expected);
    assert_eq!(kept.links.len(), 1);
    let pieces: Vec<_> = kept
        .beside
        .iter()
        .filter_map(|row| match row {
            Row::Cache(c) => Some((c.tier.as_str(), c.offset_bytes, c.size_bytes, c.wait_ns)),
            _ => None,
        })
        .collect();
    assert_eq!(
        pieces,
        [
            ("ram", Some(8192), 4096, 0),
            ("readahead", Some(12288), 4096, 350)
        ]
    );
}

/// It waits for pages as a read does, and its thread reads metadata of what it writes to.
#[test]
fn who_waits_for_a_page_waits_for_all_pieces_of_its_bio() {
    // Read around a page of 4 KiB, three pieces in any order: the page is in the first, the last piece takes longest, one is of another bio.
    let piece = |request_key, offset_bytes, done| BlockRow {
        inode: 5,
        file_device: DISK,
        file_offset_bytes: offset_bytes,
        cmd_flags: READAHEAD_FLAG,
        ..request(request_key, 11, [120, 130, done, done + 10])
    };
    let pieces = vec![
        piece(1, 8192, 200),
        piece(2, 24576, 700),
        piece(3, 16384, 300),
        piece(4, 1 << 20, 900),
    ];
    for waits_unseen in [false, true] {
        let recording = Recording {
            syscalls: vec![SyscallRow {
                size_bytes: 4096,
                result: 4096,
                ..call(1, Op::Read, 0, [100, 750])
            }],
            blocks: pieces.clone(),
            waits: vec![page_wait(CacheWait::Missed, 2, [140, 720])],
            waits_unseen,
            ..Recording::default()
        };
        let (kept, _) = recording.seal();
        let device_ns = kept.syscall[0].stages[Stage::Device as usize].unwrap();
        assert!((550..=590).contains(&device_ns), "{:?}", stages(&kept.syscall[0]));
        assert_eq!(kept.links.len(), 3);
        assert!(
            kept.links.iter().all(|link| link.child_id & 0xff != 3),
            "{:?}",
            kept.links
        );
    }
}

#[test]
fn a_copy_waits_for_the_pages_that_it_reads_and_for_what_it_needs_in_order_to_write() {
    let held_back = BlockRow {
        inode: 5,
        file_device: DISK,
        file_offset_bytes: 8192,
        cmd_flags: READAHEAD_FLAG,
        flags: block_flags::THROTTLED,
        ..request(1, 500, [300, 310, 500, 510])
    };
    let not_waited_for = BlockRow {
        inode: 5,
        file_device: DISK,
        file_offset_bytes: 16384,
        cmd_flags: READAHEAD_FLAG,
        ..request(2, 11, [510, 520, 700, 710])
    };
    let bitmap = request(3, 11, [600, 610, 690, 700]);
    let recording = Recording {
        syscalls: vec![SyscallRow {
            size_bytes: 16384,
            result: 16384,
            ..call(1, Op::Copy, 0, [100, 800])
        }],
        blocks: vec![held_back, not_waited_for, bitmap],
        waits: vec![page_wait(CacheWait::Missed, 2, [150, 520])],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let expected = [
        ("fs_ns", 50 + 10 + 80 + 100),
        ("throttle_ns", 150),
        ("queue_ns", 10 + 10),
        ("device_ns", 190 + 80),
        ("interrupt_ns", 10 + 10),
    ];
    assert_eq!(stages(&kept.syscall[0]), expected);
    let waited_for: BTreeSet<u64> = kept.links.iter().map(|link| link.child_id).collect();
    let ids: Vec<u64> = [0, 2].map(|number| Layer::Block.op_id_base() + number).to_vec();
    assert_eq!(waited_for.into_iter().collect::<Vec<_>>(), ids);
}

#[test]
fn a_buffered_read_whose_waits_are_unseen_waits_for_the_requests_of_its_pages_in_order() {
    let of_file = |request_key, offset_bytes, size_bytes, times| BlockRow {
        inode: 5,
        file_device: DISK,
        file_offset_bytes: offset_bytes,
        size_bytes,
        ..request(request_key, 11, times)
    };
    let recording = Recording {
        syscalls: vec![SyscallRow {
            size_bytes: 20480,
            result: 20480,
            ..call(1, Op::Read, 0, [100, 900])
        }],
        blocks: vec![
            // Begun before; the first of its two pages is the second of the read's.
            of_file(1, 12288, 8192, [20, 40, 290, 300]),
            // Of the same time, complete before its page is wanted.
            of_file(2, 20480, 4096, [120, 130, 280, 290]),
            // The rest, asked for after the others were there; and a page that nobody waits for.
            of_file(3, 24576, 4096, [400, 410, 790, 800]),
            of_file(4, 1 << 20, 4096, [400, 410, 850, 860]),
        ],
        waits_unseen: true,
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let expected = [
        ("fs_ns", 100 + 100),
        ("queue_ns", 10),
        ("device_ns", 190 + 380),
        ("interrupt_ns", 10 + 10),
    ];
    assert_eq!(stages(&kept.syscall[0]), expected);
    let parents: Vec<_> = kept.links.iter().map(|link| link.parent_id).collect();
    assert_eq!(parents.len(), 2);
    let pieces: Vec<_> = kept
        .beside
        .iter()
        .filter_map(|row| match row {
            Row::Cache(c) => Some((c.tier.as_str(), c.offset_bytes, c.size_bytes, c.wait_ns)),
            _ => None,
        })
        .collect();
    assert_eq!(
        pieces,
        [
            ("ram", Some(8192), 4096, 0),
            ("readahead", Some(12288), 8192, 200),
            ("ram", Some(20480), 4096, 0),
            ("device", Some(24576), 4096, 400)
        ]
    );
}

#[test]
fn a_buffered_read_whose_waits_are_unseen_waits_for_the_controller_that_holds_its_request() {
    let held_back = BlockRow {
        inode: 5,
        file_device: DISK,
        file_offset_bytes: 8192,
        size_bytes: 16384,
        flags: block_flags::THROTTLED,
        ..request(1, 500, [600, 610, 790, 800])
    };
    let recording = Recording {
        syscalls: vec![SyscallRow {
            size_bytes: 16384,
            result: 16384,
            ..call(1, Op::Read, 0, [100, 900])
        }],
        blocks: vec![held_back],
        waits_unseen: true,
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let expected = [
        ("fs_ns", 100),
        ("throttle_ns", 500),
        ("queue_ns", 10),
        ("device_ns", 180),
        ("interrupt_ns", 10),
    ];
    assert_eq!(stages(&kept.syscall[0]), expected);
}

#[test]
fn a_wait_without_a_request_is_unknown_and_a_hit_is_the_cache() {
    let recording = Recording {
        syscalls: vec![call(1, Op::Read, 0, [100, 600]), call(2, Op::Read, 0, [700, 710])],
        waits: vec![page_wait(CacheWait::Missed, 2, [200, 550])],
        ..Recording::default()
    };
    let (kept, counts) = recording.seal();
    assert_eq!(stages(&kept.syscall[0]), [("fs_ns", 150), ("unknown_ns", 350)]);
    assert_eq!(stages(&kept.syscall[1]), [("fs_ns", 10)]);
    assert_eq!(
        (
            counts.syscall_shares[1].total_ns,
            counts.syscall_shares[1].unknown_ns
        ),
        (510, 350)
    );
}

#[test]
fn who_was_ready_to_run_waited_for_a_cpu_even_where_it_is_not_known_for_what_before() {
    let recording = Recording {
        syscalls: vec![call(1, Op::Read, 0, [100, 600])],
        waits: vec![page_wait(CacheWait::Missed, 2, [200, 550])],
        sched: vec![SchedRow {
            start_ns: START_NS + 400,
            end_ns: START_NS + 560,
            tid: 11,
            state: SchedState::Woken as u8,
            ..SchedRow::default()
        }],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let expected = [("fs_ns", 140), ("runqueue_ns", 160), ("unknown_ns", 200)];
    assert_eq!(stages(&kept.syscall[0]), expected);
}

#[test]
fn a_page_that_is_marked_late_was_not_waited_for_below() {
    let recording = Recording {
        syscalls: vec![call(1, Op::Read, 0, [100, 600])],
        blocks: vec![BlockRow {
            inode: 5,
            file_device: DISK,
            file_offset_bytes: 8192,
            ..request(1, 500, [20, 40, 80, 90])
        }],
        waits: vec![page_wait(CacheWait::InFlight, 2, [200, 550])],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    assert_eq!(stages(&kept.syscall[0]), [("fs_ns", 500)]);
    assert_eq!(kept.links.len(), 0);
}

#[test]
fn a_sync_waits_for_its_data_and_the_journal() {
    let data = request(1, 11, [120, 130, 190, 200]);
    let journal = BlockRow {
        cmd_flags: 1,
        file_device: DISK,
        ..request(2, 300, [250, 260, 400, 410])
    };
    let foreign = BlockRow {
        cmd_flags: 1,
        inode: 9,
        file_device: DISK,
        ..request(3, 301, [400, 450, 480, 490])
    };
    let recording = Recording {
        syscalls: vec![call(1, Op::Sync, 0, [100, 500])],
        blocks: vec![data, journal, foreign],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let expected = [
        ("fs_ns", 20 + 50 + 90),
        ("queue_ns", 20),
        ("device_ns", 200),
        ("interrupt_ns", 20),
    ];
    assert_eq!(stages(&kept.syscall[0]), expected);
    assert_eq!(kept.links.len(), 2);
}

#[test]
fn a_sync_waits_for_the_journal_on_another_device() {
    const LOG_DISK: u32 = 8 << 20 | 16;
    const LOG: u32 = LOG_DISK | 1;
    let write = |op_key, file_device, times| BlockRow {
        cmd_flags: 1 | META_FLAG,
        device: LOG_DISK,
        file_device,
        ..request(op_key, 300, times)
    };
    // Of ext4, of XFS, and of a file system on another partition there.
    let blocks = vec![
        write(1, LOG, [120, 130, 190, 200]),
        write(2, 0, [210, 220, 290, 300]),
        write(3, LOG + 1, [310, 320, 390, 400]),
    ];
    let recording = |system: &SystemMeta| Recording {
        syscalls: vec![call(1, Op::Sync, 0, [100, 500])],
        blocks: blocks.clone(),
        journals: Journals::of(system),
        ..Recording::default()
    };
    let mut system = SystemMeta {
        journals: vec![JournalMeta {
            dev: DISK,
            journal_dev: LOG,
            journal_disk: "sdb".into(),
            ..JournalMeta::default()
        }],
        ..SystemMeta::default()
    };
    system.devices.insert(
        "sdb".into(),
        DeviceMeta {
            dev: LOG_DISK,
            ..DeviceMeta::default()
        },
    );
    let (kept, _) = recording(&system).seal();
    assert_eq!(kept.syscall[0].stages[Stage::Device as usize], Some(60 + 70));
    assert_eq!(kept.links.len(), 2);
    let (kept, _) = recording(&SystemMeta::default()).seal();
    assert_eq!(
        (kept.syscall[0].stages[Stage::Device as usize], kept.links.len()),
        (Some(0), 0)
    );
}

#[test]
fn a_sync_on_a_file_system_on_top_of_another_waits_for_the_journal_below() {
    // The first writes its data itself, as a file of the file system below; of the second only a worker's commit is seen.
    let overlay = |op_key, times| SyscallRow {
        device: 55,
        ..call(op_key, Op::Sync, 0, times)
    };
    let data = BlockRow {
        cmd_flags: 1,
        inode: 9,
        file_device: DISK,
        ..request(1, 11, [120, 130, 190, 200])
    };
    let journal = BlockRow {
        cmd_flags: 1 | 1 << 17,
        ..request(2, 300, [650, 660, 800, 810])
    };
    let recording = Recording {
        syscalls: vec![overlay(1, [100, 300]), overlay(2, [600, 900])],
        blocks: vec![data, journal],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    assert_eq!(kept.syscall[0].stages[Stage::Device as usize], Some(60));
    assert_eq!(kept.syscall[1].stages[Stage::Device as usize], Some(140));
    assert_eq!(kept.links.len(), 2);
}

#[test]
fn a_buffered_write_is_carried_later_and_not_charged() {
    let writeback = BlockRow {
        cmd_flags: 1,
        inode: 5,
        file_device: DISK,
        file_offset_bytes: 12288,
        ..request(1, 500, [5000, 5100, 5200, 5300])
    };
    let recording = Recording {
        syscalls: vec![call(1, Op::Write, 0, [100, 500])],
        blocks: vec![writeback],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    assert_eq!(stages(&kept.syscall[0]), [("fs_ns", 400)]);
    let [link] = &kept.links[..] else {
        panic!("{:?}", kept.links)
    };
    assert_eq!((link.kind, link.bytes), (LinkKind::Carries, 4096));
}

#[test]
fn dirty_throttling_is_taken_out_of_a_write() {
    let recording = Recording {
        syscalls: vec![call(1, Op::Write, 0, [100, 500])],
        writeback: vec![WritebackRow {
            start_ns: START_NS + 200,
            end_ns: START_NS + 450,
            tid: 11,
            kind: Writeback::Throttled as u8,
            ..WritebackRow::default()
        }],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    assert_eq!(stages(&kept.syscall[0]), [("fs_ns", 150), ("throttle_ns", 250)]);
}

#[test]
fn waits_for_completions_are_no_operations_and_open_ones_end_with_the_recording() {
    let wait = SyscallRow {
        via: Via::Wait as u8,
        ..call(1, Op::Other, 0, [100, 600])
    };
    let open = SyscallRow {
        end_ns: 0,
        ..call(2, Op::Read, 0, [400, 400])
    };
    let early = SyscallRow {
        start_ns: 0,
        flags: syscall_flags::BEGIN_UNSEEN,
        ..call(3, Op::Read, 0, [0, 300])
    };
    let recording = Recording {
        syscalls: vec![wait, early, open],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let told: Vec<_> = kept
        .syscall
        .iter()
        .map(|op| (op.start_ns, op.latency_ns, op.open))
        .collect();
    assert_eq!(told, [(0, 300, true), (400, 999_600, true)]);
}

fn recording() -> impl Strategy<Value = Recording> {
    let span = || (1u64..3000, 0u64..800);
    let syscalls = prop::collection::vec((span(), 0u8..7, 0u32..4, 0i32..3, 0u64..3), 0..60);
    let blocks = prop::collection::vec(
        (prop::array::uniform4(1u64..900), 0u64..3000, 0u64..4, 0i32..3),
        0..60,
    );
    let waits = prop::collection::vec((span(), 0i32..3, 2u64..4, 0u8..3), 0..40);
    let sched = prop::collection::vec((span(), 0i32..3, 0u8..8), 0..40);
    (syscalls, blocks, waits, sched).prop_map(|(syscalls, blocks, waits, sched)| {
        let syscall = |(key, ((start, length), op, flags, tid, owner))| SyscallRow {
            op_key: key as u64,
            owner_key: owner,
            flags,
            op,
            tid: 10 + tid,
            ..call(0, Op::Read, 0, [start, start + length])
        };
        let block = |(key, (mut times, start, owner, tid)): (usize, ([u64; 4], u64, u64, i32))| {
            times.sort_unstable();
            BlockRow {
                owner_key: owner,
                inode: 5 * (owner % 2),
                file_device: DISK,
                file_offset_bytes: 4096 * owner,
                cmd_flags: owner as u32 & 1,
                flags: owner as u32 >> 1,
                ..request(key as u64, 10 + tid, times.map(|t| t + start))
            }
        };
        let mut recording = Recording {
            syscalls: syscalls.into_iter().enumerate().map(syscall).collect(),
            blocks: blocks.into_iter().enumerate().map(block).collect(),
            ..Recording::default()
        };
        for ((start, length), tid, page, kind) in waits {
            recording.waits.push(CacheWaitRow {
                tid: 10 + tid,
                kind,
                ..page_wait(CacheWait::Missed, page, [start, start + length])
            });
        }
        for ((start, length), tid, state) in sched {
            recording.sched.push(SchedRow {
                start_ns: START_NS + start,
                end_ns: START_NS + start + length,
                tid: 10 + tid,
                state,
                ..SchedRow::default()
            });
        }
        recording
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn stages_sum_links_exist_and_the_order_of_arrival_does_not_matter(
        recording in recording(),
        seed in any::<prop::sample::Index>(),
    ) {
        let (kept, counts) = recording.seal();
        // A fault that slept more than once is one operation.
        let faults = recording.waits.iter().filter(|wait| wait.kind == CacheWait::Fault as u8);
        let faults: BTreeSet<_> = faults.map(|wait| (wait.start_ns, wait.tid)).collect();
        prop_assert_eq!(kept.syscall.len(), recording.syscalls.len() + faults.len());
        prop_assert!(kept.syscall.is_sorted_by_key(|op| op.start_ns));
        for op in &kept.syscall {
            prop_assert!(op.stages.iter().flatten().all(|ns| *ns >= 0));
            prop_assert_eq!(op.stages.iter().flatten().sum::<i64>(), op.latency_ns);
        }
        let ids = |ops: &[OpRow]| ops.iter().map(|op| op.op_id).collect::<BTreeSet<_>>();
        let (parents, children) = (ids(&kept.syscall), ids(&kept.block));
        prop_assert!(kept.links.iter().all(|l| parents.contains(&l.parent_id) && children.contains(&l.child_id)));
        let total: u64 = counts.syscall_shares.iter().map(|share| share.operations).sum();
        prop_assert_eq!(total, counts.syscall_rows);

        let mut turned = recording;
        fn turn<T>(rows: &mut [T], seed: prop::sample::Index) {
            if !rows.is_empty() {
                rows.rotate_left(seed.index(rows.len()));
            }
        }
        turn(&mut turned.syscalls, seed);
        turn(&mut turned.blocks, seed);
        let (again, _) = turned.seal();
        prop_assert_eq!(kept.syscall, again.syscall);
        prop_assert_eq!(kept.links, again.links);
    }
}

/// XFS: who makes a file finds its inode in a log that is being written, and waits for that write, which another thread's sync asked for.
#[test]
fn a_call_that_waits_for_a_commit_of_others_waits_for_the_journals_writes() {
    const PREFLUSH_FUA: u32 = 1 << 18 | 1 << 17;
    let log = |request_key, times| BlockRow {
        cmd_flags: 1 | PREFLUSH_FUA,
        ..request(request_key, 500, times)
    };
    let mut by = [0u8; 32];
    by[..18].copy_from_slice(b"xlog_wait_on_iclog");
    let asleep = |[start, end]: [u64; 2], by| SchedRow {
        start_ns: START_NS + start,
        end_ns: START_NS + end,
        tid: 11,
        state: SchedState::Uninterruptible as u8,
        by,
        ..SchedRow::default()
    };
    let open = SyscallRow {
        result: 3,
        ..call(1, Op::Open, 0, [100, 1000])
    };
    let sealed = |by| {
        let recording = Recording {
            syscalls: vec![open],
            // One that was in flight when it fell asleep, one that came then, one that it did not wait for.
            blocks: vec![
                log(1, [150, 160, 390, 400]),
                log(2, [420, 430, 890, 900]),
                log(3, [950, 960, 1090, 1100]),
            ],
            sched: vec![asleep([200, 910], by)],
            ..Recording::default()
        };
        recording.seal().0
    };
    let kept = sealed(by);
    let expected = [
        ("fs_ns", 50 + 20 + 100),
        ("queue_ns", 20),
        ("device_ns", 230 + 460),
        ("interrupt_ns", 20),
    ];
    assert_eq!(stages(&kept.syscall[0]), expected);
    assert_eq!(kept.links.len(), 2);
    // Whoever sleeps in anything else waits for nothing of that.
    assert_eq!(stages(&sealed([0; 32]).syscall[0]), [("fs_ns", 900)]);
}

#[test]
fn the_size_of_a_copy_is_what_it_copied() {
    let copy = |number: u64, result: i64| SyscallRow {
        size_bytes: i64::MAX as u64,
        result,
        ..call(number, Op::Copy, 0, [number * 100, number * 100 + 10])
    };
    let recording = Recording {
        syscalls: vec![copy(1, 8192), copy(2, 0), copy(3, -18)],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let sizes: Vec<_> = kept.syscall.iter().map(|op| op.size_bytes).collect();
    assert_eq!(sizes, [Some(8192), Some(0), None]);
}

/// The page's request, asked for after the look for it, and metadata before that; the thread slept twice, and waited for a CPU in between.
#[test]
fn a_page_fault_that_waited_is_an_operation() {
    let page = BlockRow {
        inode: 5,
        file_device: DISK,
        file_offset_bytes: 12288,
        size_bytes: 4096,
        ..request(1, 11, [350, 360, 500, 510])
    };
    let metadata = request(2, 11, [120, 130, 290, 300]);
    let mut comm = [0u8; 16];
    comm[..6].copy_from_slice(b"reader");
    let fault = |times| page_wait(CacheWait::Fault, 3, times);
    let recording = Recording {
        blocks: vec![page, metadata],
        waits: vec![fault([100, 310]), fault([100, 530])],
        sched: vec![SchedRow {
            start_ns: START_NS + 310,
            end_ns: START_NS + 330,
            tid: 11,
            state: SchedState::Preempted as u8,
            comm,
            ..SchedRow::default()
        }],
        ..Recording::default()
    };
    let (kept, counts) = recording.seal();
    let [op] = &kept.syscall[..] else {
        panic!("{:?}", kept.syscall);
    };
    assert_eq!((op.op, op.start_ns, op.latency_ns), (Op::Fault, 100, 430));
    assert_eq!((op.offset_bytes, op.size_bytes), (Some(12288), Some(4096)));
    assert_eq!((op.tid, op.cpu, op.open), (Some(11), None, false));
    assert!(op.comm.is_some());
    let expected = [
        ("fs_ns", 20 + 50 - 20 + 20),
        ("queue_ns", 20),
        ("device_ns", 160 + 140),
        ("interrupt_ns", 20),
        ("runqueue_ns", 20),
    ];
    assert_eq!(stages(op), expected);
    assert_eq!((kept.links.len(), counts.syscall_rows), (2, 1));
    let tiers: Vec<_> = kept
        .beside
        .iter()
        .filter_map(|row| match row {
            Row::Cache(c) => Some((c.tier.as_str(), c.offset_bytes, c.size_bytes)),
            _ => None,
        })
        .collect();
    // Both waits stand there; the page came once.
    assert_eq!(tiers, [("device", Some(12288), 4096), ("device", Some(16384), 0)]);
}

/// `io_submit` of buffered writes does them; what comes then, until `io_getevents` has them, is reaping, whatever their thread does.
#[test]
fn buffered_operations_of_libaio_are_done_when_io_submit_returns() {
    let submit = SyscallRow {
        via: Via::Wait as u8,
        call: 209,
        ..call(1, Op::Other, 0, [100, 130])
    };
    let aio = |op_key, op, flags| SyscallRow {
        via: Via::Aio as u8,
        flags: flags | syscall_flags::END_IS_REAP,
        ..call(op_key, op, flags, [100, 900])
    };
    let others = SyscallRow {
        start_ns: START_NS + 140,
        ..aio(5, Op::Write, 0)
    };
    let recording = Recording {
        syscalls: vec![
            submit,
            aio(2, Op::Write, 0),
            aio(3, Op::Sync, 0),
            aio(4, Op::Write, syscall_flags::DIRECT),
            others,
        ],
        sched: vec![SchedRow {
            start_ns: START_NS + 200,
            end_ns: START_NS + 210,
            tid: 11,
            state: SchedState::Preempted as u8,
            ..SchedRow::default()
        }],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let told: Vec<_> = kept.syscall.iter().map(stages).collect();
    assert_eq!(told[0], [("fs_ns", 30), ("reap_ns", 760), ("runqueue_ns", 10)]);
    let reaped = |op: &Vec<(&str, i64)>| op.iter().any(|(stage, _)| *stage == "reap_ns");
    assert!(!told[1..].iter().any(reaped), "{told:?}");
}

/// On btrfs whoever commits writes trees into a file of their own, and superblocks through the disk's cache; the others wait for that.
#[test]
fn a_sync_on_btrfs_waits_for_the_trees_and_superblocks_of_others() {
    const FS: u32 = 42;
    const META: u32 = 1 << 12;
    let sync = SyscallRow {
        device: FS,
        ..call(1, Op::Sync, 0, [100, 600])
    };
    let write = |key, inode, file_device, cmd_flags, times| BlockRow {
        inode,
        file_device,
        cmd_flags: 1 | cmd_flags,
        ..request(key, 99, times)
    };
    // Data tell on which disk the file system lies.
    let data = write(1, 7, FS, 0, [110, 111, 119, 120]);
    let trees = write(2, 1, FS, META, [130, 131, 299, 300]);
    let superblock = write(3, 0, DISK, META | 1 << 17, [310, 311, 589, 590]);
    let others = write(4, 1, FS + 1, META, [592, 593, 597, 598]);
    let recording = Recording {
        syscalls: vec![sync],
        blocks: vec![data, trees, superblock, others],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    let told = stages(&kept.syscall[0]);
    assert_eq!(
        told,
        [
            ("fs_ns", 50),
            ("queue_ns", 2),
            ("device_ns", 446),
            ("interrupt_ns", 2)
        ]
    );
}
