//! Volumes against streams made by hand, and against their promises for any stream.
use crate::beside::Streams;
use crate::kernel::CmdFlags;
use crate::pipeline::{join, Counts, Inputs};
use crate::testing::{Kept, Rows};
use case::rows::{syscall_flags, BioMemberRow, BioRow, BlockMergeRow, BlockRow, SyscallRow};
use case::schema::{Layer, LinkKind, Op, OpRow, Stage};
use case::sealed::Names;
use proptest::prelude::*;
use std::collections::BTreeMap;

const START_NS: u64 = 1_000_000_000_000;
const DISK: u32 = 8 << 20;
const VOLUME: u32 = 9 << 20;
const UPPER: u32 = 253 << 20;
const SIZE: u32 = 8192;

#[derive(Debug, Default)]
struct Recording {
    syscalls: Vec<SyscallRow>,
    bios: Vec<BioRow>,
    members: Vec<BioMemberRow>,
    blocks: Vec<BlockRow>,
}

impl Recording {
    fn seal(&self) -> (Kept, Counts) {
        let syscalls = Rows(self.syscalls.clone());
        let (bios, members) = (Rows(self.bios.clone()), Rows(self.members.clone()));
        let (blocks, merges) = (Rows(self.blocks.clone()), Rows::<BlockMergeRow>(Vec::new()));
        let names = [(DISK, "sda"), (DISK + 1, "sdb"), (VOLUME, "md0"), (UPPER, "dm-0")];
        let inputs = Inputs {
            wait_step_ns: 1,
            workers: Vec::new(),
            block: Some(&blocks),
            merges: Some(&merges),
            carriers: None,
            bios: Some(&bios),
            bio_members: Some(&members),
            start_ns: START_NS,
            end_ns: Some(START_NS + 1_000_000),
            host: None,
            devices: names.map(|(dev, name)| (dev, name.into())).into(),
            journals: Default::default(),
            cgroups: BTreeMap::new(),
            cmd_flags: CmdFlags::of_kernel("6.1"),
            interrupts_watched: Some(true),
            stops: Default::default(),
            syscall: Some(&syscalls),
            own: None,
            served: None,
            beside: Streams::default(),
            handlers: Vec::new(),
        };
        let (mut kept, mut names) = (Kept::default(), Names::default());
        let counts = join(&inputs, &mut names, &mut kept, &mut |_| ()).unwrap();
        kept.block.sort_by_key(|row| row.op_id);
        (kept, counts)
    }
}

fn call([start, end]: [u64; 2]) -> SyscallRow {
    SyscallRow {
        op_key: 1,
        owner_key: 77,
        start_ns: START_NS + start,
        end_ns: START_NS + end,
        size_bytes: 2 * u64::from(SIZE),
        result: 2 * i64::from(SIZE),
        device: VOLUME,
        pid: 10,
        tid: 11,
        flags: syscall_flags::DIRECT | syscall_flags::BLOCK_DEVICE,
        op: Op::Read as u8,
        ..SyscallRow::default()
    }
}

fn bio(device: u32, sector_512: u64, [queue, complete]: [u64; 2]) -> BioRow {
    BioRow {
        queue_ns: START_NS + queue,
        complete_ns: START_NS + complete,
        sector_512,
        owner_key: 77,
        size_bytes: 2 * SIZE,
        device,
        pid: 10,
        tid: 11,
        ..BioRow::default()
    }
}

fn request(device: u32, sector_512: u64, times: [u64; 4]) -> BlockRow {
    let [queue_ns, issue_ns, irq_ns, complete_ns] = times.map(|ns| START_NS + ns);
    BlockRow {
        request_key: queue_ns,
        queue_ns,
        start_ns: queue_ns,
        issue_first_ns: issue_ns,
        issue_ns,
        irq_ns,
        complete_ns,
        sector_512,
        size_bytes: SIZE,
        device,
        pid: 10,
        tid: 11,
        ..BlockRow::default()
    }
}

/// The bio of `request` that `origin` (volume, sector, time) was sent down as.
fn member(request: &BlockRow, (device, sector, sent): (u32, u64, u64)) -> BioMemberRow {
    BioMemberRow {
        issue_ns: request.issue_first_ns + 1,
        sector_512: request.sector_512,
        origin_ns: START_NS + sent,
        origin_sector_512: sector,
        origin_device: device,
        origin_bytes: SIZE,
        device: request.device,
        request_bytes: request.size_bytes,
        size_bytes: SIZE,
        cmd_flags: request.cmd_flags,
        hctx: request.hctx,
    }
}

fn stages(op: &OpRow) -> Vec<(&'static str, i64)> {
    let all = Stage::ALL.iter().zip(op.stages);
    all.filter_map(|(stage, ns)| Some((stage.column(), ns.filter(|ns| *ns != 0)?)))
        .collect()
}

fn links(kept: &Kept) -> Vec<(u64, u64, LinkKind)> {
    let block = Layer::Block.op_id_base();
    let number = |id: u64| id.wrapping_sub(block);
    let links = kept.links.iter();
    links
        .map(|link| {
            let parent = if link.parent_id >= block {
                number(link.parent_id)
            } else {
                u64::MAX
            };
            (parent, number(link.child_id), link.kind)
        })
        .collect()
}

/// A read of two members: 100 in the volume, members until 700 and 900, back in the volume until 950.
fn striped() -> Recording {
    let first = request(DISK, 500, [200, 220, 680, 700]);
    let second = request(DISK + 1, 500, [210, 230, 880, 900]);
    Recording {
        syscalls: vec![call([50, 1000])],
        bios: vec![bio(VOLUME, 32, [100, 950])],
        members: vec![
            member(&first, (VOLUME, 32, 150)),
            member(&second, (VOLUME, 48, 160)),
        ],
        blocks: vec![first, second],
    }
}

#[test]
fn a_call_waits_for_its_volume_and_the_volume_for_its_members() {
    let (kept, counts) = striped().seal();
    assert_eq!(
        links(&kept),
        [
            (0, 1, LinkKind::Stacked),
            (0, 2, LinkKind::Stacked),
            (u64::MAX, 0, LinkKind::WaitsFor)
        ]
    );
    let volume = &kept.block[0];
    assert_eq!(
        (volume.start_ns, volume.latency_ns, volume.offset_bytes),
        (100, 850, Some(32 * 512))
    );
    let expected = [
        ("fs_ns", 150),
        ("queue_ns", 30),
        ("device_ns", 650),
        ("interrupt_ns", 20),
    ];
    assert_eq!(stages(volume), expected);
    let expected = [
        ("fs_ns", 200),
        ("queue_ns", 30),
        ("device_ns", 650),
        ("interrupt_ns", 20),
        ("reap_ns", 50),
    ];
    assert_eq!(stages(&kept.syscall[0]), expected);
    assert_eq!((counts.volume_rows, counts.members_tied), (1, 2));
    assert_eq!(kept.block[1].stages[Stage::Fs as usize], Some(0));
}

#[test]
fn what_fits_two_bios_is_tied_to_none() {
    let mut recording = striped();
    recording.bios.push(BioRow {
        owner_key: 78,
        ..bio(VOLUME, 32, [110, 960])
    });
    let (kept, counts) = recording.seal();
    assert_eq!(counts.members_ambiguous, 2);
    assert_eq!(links(&kept), [(u64::MAX, 0, LinkKind::WaitsFor)]);
    for volume in &kept.block[..2] {
        assert_eq!(stages(volume), [("unknown_ns", 850)]);
    }
}

#[test]
fn other_kinds_places_and_times_are_not_its() {
    for change in [
        (|bio: &mut BioRow| bio.cmd_flags = 1) as fn(&mut BioRow),
        |bio| bio.sector_512 += 64,
        |bio| bio.queue_ns += 70,
        |bio| bio.complete_ns = START_NS + 140,
        |bio| bio.device += 1,
    ] {
        let mut recording = striped();
        change(&mut recording.bios[0]);
        let (kept, counts) = recording.seal();
        assert_eq!((counts.members_lost, counts.members_tied), (2, 0));
        assert!(kept.links.iter().all(|link| link.kind != LinkKind::Stacked));
    }
}

#[test]
fn a_bio_that_was_merged_into_an_earlier_request_is_tied_later() {
    // The request begins with another bio, before the volume gets this one.
    let shared = request(DISK, 500, [90, 220, 680, 700]);
    let recording = Recording {
        bios: vec![bio(VOLUME, 0, [60, 900]), bio(VOLUME, 32, [100, 950])],
        members: vec![
            member(&shared, (VOLUME, 16, 80)),
            member(&shared, (VOLUME, 32, 150)),
        ],
        blocks: vec![shared],
        ..Recording::default()
    };
    let (kept, _) = recording.seal();
    assert_eq!(
        links(&kept),
        [(0, 1, LinkKind::Stacked), (2, 1, LinkKind::Stacked)]
    );
    assert_eq!(stages(&kept.block[2])[0], ("fs_ns", 250));
}

#[test]
fn a_call_has_the_time_of_a_request_that_was_tied_later() {
    let mut recording = striped();
    // Its second bio was sent down after it had begun, and nothing else happens before the call ends.
    recording.blocks.truncate(1);
    let request = recording.blocks[0];
    recording.members = vec![
        member(&request, (VOLUME, 32, 150)),
        member(&request, (VOLUME, 40, 210)),
    ];
    recording.bios.push(bio(VOLUME, 900, [2000, 3000]));
    let (kept, counts) = recording.seal();
    assert_eq!((counts.members_tied, counts.members_ambiguous), (1, 0));
    assert!(stages(&kept.syscall[0]).contains(&("device_ns", 460)));
}

#[test]
fn a_volume_on_a_volume_has_the_time_of_the_members_below() {
    let below = request(DISK, 500, [200, 220, 680, 700]);
    let lower = BioRow {
        origin_ns: START_NS + 110,
        origin_sector_512: 1000,
        origin_device: UPPER,
        ..bio(VOLUME, 32, [120, 800])
    };
    let recording = Recording {
        syscalls: vec![call([50, 1000])],
        bios: vec![bio(UPPER, 1000, [100, 900]), lower],
        members: vec![member(&below, (VOLUME, 32, 150))],
        blocks: vec![below],
    };
    let (kept, _) = recording.seal();
    assert_eq!(
        links(&kept),
        [
            (0, 1, LinkKind::Stacked),
            (1, 2, LinkKind::Stacked),
            (u64::MAX, 0, LinkKind::WaitsFor)
        ]
    );
    for volume in &kept.block[..2] {
        assert_eq!(stages(volume)[2], ("device_ns", 460));
    }
    assert_eq!(stages(&kept.syscall[0])[2], ("device_ns", 460));
}

/// What MD sends each member for a flush, and a bio of the volume that asks for one.
const FLUSH: u32 = 1 | 1 << 18;

/// A volume that got data once, and then a flush of a bio without data, from 1100 to 1900; its members take until 1500 and 1800.
fn flushed() -> Recording {
    let mut recording = striped();
    recording.bios.push(BioRow {
        cmd_flags: FLUSH,
        size_bytes: 0,
        ..bio(VOLUME, 0, [1100, 1900])
    });
    for (disk, end) in [(DISK, 1500), (DISK + 1, 1800)] {
        recording.blocks.push(BlockRow {
            cmd_flags: FLUSH,
            size_bytes: 0,
            pid: 2,
            ..request(disk, 0, [1200, 1210, end - 10, end])
        });
    }
    recording
}

#[test]
fn a_flush_of_each_member_is_the_volumes() {
    let (kept, counts) = flushed().seal();
    assert_eq!(counts.members_tied, 4);
    let flush: Vec<_> = links(&kept).into_iter().filter(|link| link.0 == 3).collect();
    assert_eq!(flush, [(3, 4, LinkKind::Stacked), (3, 5, LinkKind::Stacked)]);
    let expected = [
        ("fs_ns", 200),
        ("queue_ns", 10),
        ("device_ns", 580),
        ("interrupt_ns", 10),
    ];
    assert_eq!(stages(&kept.block[3]), expected);
}

#[test]
fn a_flush_of_another_disk_or_before_the_volume_asked_is_not_its() {
    for change in [
        (|row: &mut BlockRow| row.device += 7) as fn(&mut BlockRow),
        |row| row.cmd_flags = 1,
        |row| row.queue_ns -= 150,
        |row| row.size_bytes = SIZE,
    ] {
        let mut recording = flushed();
        recording.blocks.truncate(3);
        change(&mut recording.blocks[2]);
        let (kept, counts) = recording.seal();
        assert_eq!(counts.members_tied, 2);
        assert!(
            kept.links
                .iter()
                .filter(|link| link.kind == LinkKind::Stacked)
                .count()
                == 2
        );
    }
}

#[test]
fn an_open_bio_lasts_until_the_end() {
    let mut recording = striped();
    recording.bios[0].complete_ns = 0;
    recording.syscalls[0].end_ns = 0;
    let (kept, _) = recording.seal();
    let volume = &kept.block[0];
    assert!(volume.open && volume.latency_ns == 999_900);
    assert_eq!(volume.stages.iter().flatten().sum::<i64>(), volume.latency_ns);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn stages_of_any_volume_sum_to_its_latency(
        bios in prop::collection::vec((0u64..900, 0u64..400, 0u64..8, any::<bool>()), 0..12),
        requests in prop::collection::vec((prop::collection::vec(0u64..1200, 4), 0u64..8, 0u64..1200), 0..20),
    ) {
        let mut recording = Recording { syscalls: vec![call([10, 990])], ..Recording::default() };
        for (start, length, place, ended) in bios {
            let mut row = bio(VOLUME, place * 16, [start, start + length]);
            if !ended {
                row.complete_ns = 0;
            }
            recording.bios.push(row);
        }
        for (mut times, place, sent) in requests {
            times.sort_unstable();
            let row = request(DISK, place * 16, times.try_into().unwrap());
            recording.members.push(member(&row, (VOLUME, place * 16, sent)));
            recording.blocks.push(row);
        }
        recording.bios.sort_by_key(|row| if row.complete_ns == 0 { u64::MAX } else { row.complete_ns });
        recording.blocks.sort_by_key(|row| row.complete_ns);
        recording.members.sort_by_key(|row| row.issue_ns);
        let (kept, counts) = recording.seal();
        prop_assert_eq!(counts.volume_rows as usize, recording.bios.len());
        prop_assert_eq!(kept.block.len(), recording.bios.len() + recording.blocks.len());
        for row in kept.block.iter().chain(&kept.syscall) {
            prop_assert_eq!(row.stages.iter().flatten().sum::<i64>(), row.latency_ns);
            prop_assert!(row.stages.iter().flatten().all(|ns| *ns >= 0));
        }
        let mut pairs: Vec<_> = kept.links.iter().map(|link| (link.parent_id, link.child_id)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        prop_assert_eq!(pairs.len(), kept.links.len(), "linked twice");
    }
}
