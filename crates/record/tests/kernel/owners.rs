//! Who is behind a block request, on a real kernel: operation, file, control group, and the device above.
use crate::common::*;
use case::rows::{block_flags, BlockRow};
use record::Config;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use testing::test;

const MIB: u64 = 1 << 20;

/// A kernel dev_t as in `BlockRow::device`.
fn device_number(number: u64) -> u32 {
    libc::major(number) << 20 | libc::minor(number)
}

/// 1009 reads of 4 KiB each, by these options of fio; what the device saw.
fn direct_reads(options: &[&str]) -> Vec<BlockRow> {
    direct_reads_by(block_only(), options)
}

fn direct_reads_by(config: Config, options: &[&str]) -> Vec<BlockRow> {
    let device = LoopDevice::new(64 * MIB);
    let mut all = vec!["--rw=randread", "--io_size=4132864", "--thread"];
    all.extend(options);
    let seen = record_whole(config, || {
        fio(&device.path, &all);
    });
    let reads = seen.reads_of_fio(device.device);
    let unowned = reads.iter().filter(|row| row.owner_key == 0).count();
    assert_eq!(unowned, 0, "of {}", reads.len());
    assert!(reads.iter().all(|row| row.cgroup != 0 && row.inode == 0));
    reads
}

fn block_only() -> Config {
    Config::only(&["block"])
}

#[test]
fn a_synchronous_call_has_one_owner_per_thread() {
    require_kernel!();
    let reads = direct_reads(&["--ioengine=psync", "--numjobs=4"]);
    assert_eq!(operations(&reads), 4 * 1_009);
    let by_thread: HashSet<(i32, u64)> = reads.iter().map(|row| (row.tid, row.owner_key)).collect();
    let keys: HashSet<u64> = reads.iter().map(|row| row.owner_key).collect();
    assert_eq!((by_thread.len(), keys.len()), (4, 4));
}

#[test]
fn a_request_that_finds_no_place_in_the_table_keeps_its_owner() {
    require_kernel!();
    let config = Config {
        table_taken: true,
        ..block_only()
    };
    let reads = direct_reads_by(config, &["--ioengine=psync", "--numjobs=4"]);
    assert_eq!(operations(&reads), 4 * 1_009);
    let by_thread: HashSet<(i32, u64)> = reads.iter().map(|row| (row.tid, row.owner_key)).collect();
    let keys: HashSet<u64> = reads.iter().map(|row| row.owner_key).collect();
    assert_eq!((by_thread.len(), keys.len()), (4, 4));
}

/// Requests in flight at the same time have different owners.
fn check_unique_in_flight(reads: &[BlockRow]) {
    let mut busy_until_ns: HashMap<u64, u64> = HashMap::new();
    let mut by_start: Vec<&BlockRow> = reads.iter().collect();
    by_start.sort_by_key(|row| row.start_ns);
    for row in by_start {
        let until_ns = busy_until_ns.insert(row.owner_key, row.complete_ns).unwrap_or(0);
        assert!(until_ns <= row.start_ns, "{row:?}");
    }
    assert!(busy_until_ns.len() > 1, "one key for all: the test shows nothing");
}

#[test]
fn an_io_uring_request_owns_its_block_request() {
    require_kernel!();
    let reads = direct_reads(&["--ioengine=io_uring", "--iodepth=16"]);
    assert_eq!(operations(&reads), 1_009);
    check_unique_in_flight(&reads);
}

#[test]
fn a_libaio_control_block_owns_its_block_request() {
    require_kernel!();
    let reads = direct_reads(&["--ioengine=libaio", "--iodepth=16"]);
    assert_eq!(operations(&reads), 1_009);
    check_unique_in_flight(&reads);
}

#[test]
fn merged_operations_are_told_apart() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let batch = "--iodepth_batch_submit=16";
    let options = [
        "--rw=read",
        "--iodepth=64",
        batch,
        "--iodepth_batch_complete_min=16",
        "--io_size=40988672",
    ];
    let seen = record_whole(block_only(), || {
        fio(&device.path, &options);
    });
    let reads = seen.reads_of_fio(device.device);
    let mut further: BTreeMap<u64, u64> = BTreeMap::new();
    for bio in &seen.merges {
        *further.entry(bio.request_key).or_default() += 1;
        assert!(bio.owner_key != 0 || bio.inode != 0, "{bio:?}");
    }
    assert!(
        reads.iter().any(|row| row.merges > 0),
        "nothing merged: the test shows nothing"
    );
    for row in &reads {
        let named = further.get(&row.request_key).copied().unwrap_or(0);
        assert_eq!(named, u64::from(row.merges), "{row:?}");
    }
}

/// Bytes of a file that requests carried, by the place that request and merged bios name.
fn bytes_by_place(seen: &Seen, device: u32, file: &std::fs::Metadata, op: u32) -> BTreeMap<u64, u64> {
    let of_file = |inode: u64, number: u32| inode == file.ino() && number == device_number(file.dev());
    let mut further: HashMap<u64, u64> = HashMap::new();
    let mut places = BTreeMap::new();
    for bio in &seen.merges {
        *further.entry(bio.request_key).or_default() += u64::from(bio.size_bytes);
        if of_file(bio.inode, bio.file_device) {
            places.insert(bio.file_offset_bytes, u64::from(bio.size_bytes));
        }
    }
    for row in seen.requests(device, op) {
        if of_file(row.inode, row.file_device) {
            let first = u64::from(row.size_bytes) - further.get(&row.request_key).copied().unwrap_or(0);
            places.insert(row.file_offset_bytes, first);
        }
    }
    places
}

/// The places follow each other from the file's begin to its end.
fn check_whole(places: &BTreeMap<u64, u64>, size_bytes: u64) {
    let mut end = 0;
    for (offset, bytes) in places {
        assert_eq!(*offset, end, "{places:?}");
        end += bytes;
    }
    assert_eq!(end, size_bytes, "{places:?}");
}

fn cached_file_is_named(make: &str) {
    require_program(make);
    let device = LoopDevice::new(512 * MIB);
    run(make, &["-q", &device.path]);
    let mount = Mount::new(&[&device.path]);
    let file = mount.path.join("data");
    let write = || {
        std::fs::write(&file, vec![5u8; 16 << 20]).unwrap();
        run("sync", &[file.to_str().unwrap()]);
    };
    let seen = record_whole(block_only(), write);
    let meta = std::fs::metadata(&file).unwrap();
    check_whole(
        &bytes_by_place(&seen, device.device, &meta, REQ_OP_WRITE),
        16 * MIB,
    );
    let nocache = format!("if={}", file.display());
    run("dd", &[&nocache, "iflag=nocache", "count=0", "status=none"]);
    let seen = record_whole(block_only(), || drop(std::fs::read(&file).unwrap()));
    check_whole(
        &bytes_by_place(&seen, device.device, &meta, REQ_OP_READ),
        16 * MIB,
    );
}

#[test]
fn cached_reads_and_writes_name_their_place_on_ext4() {
    require_kernel!();
    cached_file_is_named("mkfs.ext4");
}

#[test("one of make test-long: on ext4 it is looked at each time")]
fn cached_reads_and_writes_name_their_place_on_xfs() {
    require_kernel!();
    cached_file_is_named("mkfs.xfs");
}

/// A group of the I/O controller (cgroup v1) with one limit; removed when dropped.
struct LimitedGroup(PathBuf);

impl LimitedGroup {
    /// `None` where the host has no such controller.
    fn new(device: u32, reads_per_s: u32) -> Option<LimitedGroup> {
        let group = Path::new("/sys/fs/cgroup/blkio").join(format!("whodisk-test-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        let group = LimitedGroup(group);
        let limit = format!("{}:{} {reads_per_s}", device >> 20, device & 0xfffff);
        std::fs::write(group.0.join("blkio.throttle.read_iops_device"), limit).ok()?;
        Some(group)
    }

    /// Puts the calling thread into it.
    fn enter(&self) {
        // SAFETY: no arguments, cannot fail.
        let thread = unsafe { libc::gettid() };
        std::fs::write(self.0.join("tasks"), thread.to_string()).unwrap();
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let all = self.0.parent().map(|parent| parent.join("tasks"));
        let tasks = std::fs::read_to_string(self.0.join("tasks")).unwrap_or_default();
        for (task, all) in tasks.lines().zip(all.iter().cycle()) {
            let _ = std::fs::write(all, task);
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Those that the controller held back: more than half of all.
fn mostly_held_back(reads: &[BlockRow]) -> Vec<&BlockRow> {
    let held: Vec<&BlockRow> = reads
        .iter()
        .filter(|row| row.flags & block_flags::THROTTLED != 0)
        .collect();
    assert!(
        held.len() * 2 > reads.len(),
        "{} of {} held back",
        held.len(),
        reads.len()
    );
    held
}

#[test]
fn what_the_io_controller_held_back_keeps_its_owner() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let Some(group) = LimitedGroup::new(device.device, 200) else {
        testing::skip("this host has no I/O controller of cgroup v1");
    };
    let id = std::fs::metadata(&group.0).unwrap().ino();
    let config = Config {
        join_tgid: Some(std::process::id()),
        ..block_only()
    };
    let seen = record_whole(config, || {
        let work = || {
            group.enter();
            uring::read_sequentially(Path::new(&device.path), 211, 4096, 64 * MIB);
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    });
    let reads: Vec<BlockRow> = seen.requests(device.device, REQ_OP_READ);
    let held = mostly_held_back(&reads);
    for row in &held {
        assert!(row.comm.starts_with(b"kworker"), "{row:?}");
        assert_eq!(row.cgroup, id);
        assert!(row.owner_key != 0 && row.op_id != 0, "{row:?}");
    }
    let further = seen.merges.iter().map(|bio| bio.op_id);
    let ids: HashSet<u64> = reads.iter().map(|row| row.op_id).chain(further).collect();
    let wanted: HashSet<u64> = (0..211).map(|n| uring::OP_ID_BASE | n).collect();
    assert!(
        wanted.is_subset(&ids),
        "{} of 211",
        wanted.intersection(&ids).count()
    );
}

/// A large bio is split, and what is left of it goes through the controller again: it is queued when it is released, piece by piece.
#[test]
fn pieces_that_the_io_controller_held_back_are_queued_when_they_are_released() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let Some(group) = LimitedGroup::new(device.device, 40) else {
        testing::skip("this host has no I/O controller of cgroup v1");
    };
    let largest = format!("/sys/block/{}/queue/max_sectors_kb", device.name());
    std::fs::write(largest, "64").unwrap();
    let input = format!("if={}", device.path);
    let seen = record_whole(block_only(), || {
        let work = || {
            group.enter();
            run(
                "dd",
                &[
                    &input,
                    "of=/dev/null",
                    "bs=1M",
                    "count=2",
                    "iflag=direct",
                    "status=none",
                ],
            );
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    });
    let reads: Vec<BlockRow> = seen.requests(device.device, REQ_OP_READ);
    assert_eq!(
        reads.iter().map(|row| u64::from(row.size_bytes)).sum::<u64>(),
        2 * MIB
    );
    let held = mostly_held_back(&reads);
    let releases: HashSet<u64> = held.iter().map(|row| row.queue_ns).collect();
    assert!(
        releases.len() * 4 > held.len(),
        "{} releases of {} pieces",
        releases.len(),
        held.len()
    );
    for row in &held {
        assert!(
            row.queue_ns <= row.start_ns && row.start_ns <= row.issue_first_ns,
            "{row:?}"
        );
    }
}

#[test]
fn requests_below_a_loop_device_name_the_one_above() {
    require_kernel!();
    let folder = folder_on_disk();
    let image = folder.path().join("image");
    std::fs::write(&image, vec![9u8; 16 << 20]).unwrap();
    run("sync", &[image.to_str().unwrap()]);
    let options = ["--direct-io=on", "--find", "--show", image.to_str().unwrap()];
    let device = LoopDevice::over(&options, folder);
    let dio = format!("/sys/block/{}/loop/dio", device.name());
    if std::fs::read_to_string(dio).unwrap().trim() != "1" {
        testing::skip("the disk of the checkout allows no direct I/O of 512 bytes");
    }
    let options = ["--rw=randread", "--io_size=4132864", "--size=16m"];
    let seen = record_whole(block_only(), || {
        fio(&device.path, &options);
    });
    let above = seen.reads_of_fio(device.device);
    assert_eq!(operations(&above), 1_009);
    let mut below: HashMap<u64, Vec<&BlockRow>> = HashMap::new();
    for row in seen.rows.iter().filter(|row| row.device != device.device) {
        below.entry(row.owner_key).or_default().push(row);
    }
    for row in &above {
        assert_ne!(row.stack_key, 0);
        let within =
            |child: &&&BlockRow| child.start_ns >= row.issue_ns && child.complete_ns <= row.complete_ns;
        let carried = below.get(&row.stack_key).into_iter().flatten().filter(within);
        let bytes: u64 = carried.map(|child| u64::from(child.size_bytes)).sum();
        assert_eq!(bytes, u64::from(row.size_bytes), "{row:?}");
    }
}
