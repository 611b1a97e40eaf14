//! Exact counts on a real kernel: a known, prime number of operations goes in, the same number comes out.
use crate::common::*;
use record::{Config, Recorder};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use testing::test;

/// linux/blk_types.h
const REQ_META: u32 = 1 << 12;
const REQ_RAHEAD: u32 = 1 << 19;

const MIB: u64 = 1 << 20;

/// fio's `io_size` for this many 4 KiB operations; `number_ios` does not end a run exactly.
fn io_size(operations: u64) -> String {
    format!("--io_size={}", operations * 4096)
}

fn count_reads(operations_wanted: u64, config: Config, options: &[&str]) -> Seen {
    let device = LoopDevice::new(64 * MIB);
    count_reads_on(&device, operations_wanted, config, options)
}

fn count_reads_on(device: &LoopDevice, wanted: u64, config: Config, options: &[&str]) -> Seen {
    let size = io_size(wanted);
    let mut all = vec!["--rw=randread", size.as_str()];
    all.extend(options);
    let seen = record_whole(config, || {
        fio(&device.path, &all);
    });
    let reads = seen.reads_of_fio(device.device);
    assert_eq!(operations(&reads), wanted);
    assert_eq!(bytes(&reads), wanted * 4096);
    assert!(reads
        .iter()
        .all(|row| row.complete_ns > 0 && row.error == 0 && row.start_ns > 0));
    assert!(reads.iter().all(|row| row.pid > 0 && row.tid > 0));
    let queue_unseen = reads.iter().filter(|row| row.queue_ns == 0).count();
    assert!(
        queue_unseen * 1000 <= reads.len(),
        "{queue_unseen} of {} without queue_ns",
        reads.len()
    );
    seen
}

#[test]
fn full_speed_on_memory() {
    require_kernel!();
    count_reads(300_007, Config::only(&["block"]), &[]);
}

#[test]
fn four_threads() {
    require_kernel!();
    // io_size is for each job. With io_uring a read that would wait for a free request is submitted by a worker,
    // which bears its program's name; with libaio each job submits its own reads.
    let device = LoopDevice::new(64 * MIB);
    let options = [
        "--ioengine=libaio",
        "--rw=randread",
        "--thread",
        "--numjobs=4",
        &io_size(20_011),
    ];
    let seen = record_whole(Config::only(&["block"]), || {
        fio(&device.path, &options);
    });
    let reads = seen.reads_of_fio(device.device);
    assert_eq!(operations(&reads), 4 * 20_011);
    let threads: std::collections::HashSet<i32> = reads.iter().map(|row| row.tid).collect();
    assert_eq!(threads.len(), 4);
}

fn reads_are_counted_with_scheduler(scheduler: &str) {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    if let Err(error) = device.set_scheduler(scheduler) {
        testing::skip(format!("scheduler {scheduler}: {error}"));
    }
    let seen = count_reads_on(&device, 20_021, Config::only(&["block"]), &[]);
    let reads = seen.requests(device.device, REQ_OP_READ);
    let inserted = reads.iter().filter(|row| row.insert_ns > 0).count();
    if scheduler != "none" {
        assert!(
            inserted * 10 > reads.len() * 9,
            "{scheduler}: {inserted} of {}",
            reads.len()
        );
    }
}

#[test]
fn without_a_scheduler() {
    reads_are_counted_with_scheduler("none");
}

#[test]
fn scheduler_mq_deadline() {
    reads_are_counted_with_scheduler("mq-deadline");
}

#[test]
fn scheduler_bfq() {
    reads_are_counted_with_scheduler("bfq");
}

#[test]
fn scheduler_kyber() {
    reads_are_counted_with_scheduler("kyber");
}

#[test]
fn sequential_batches_merge_and_still_count() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let batch = [
        "--iodepth=64",
        "--iodepth_batch_submit=16",
        "--iodepth_batch_complete_min=16",
    ];
    let options = ["--rw=read", &io_size(10_007), batch[0], batch[1], batch[2]];
    let seen = record_whole(Config::only(&["block"]), || {
        fio(&device.path, &options);
    });
    let reads = seen.reads_of_fio(device.device);
    assert!(
        reads.iter().any(|row| row.merges > 0),
        "nothing merged: the test shows nothing"
    );
    assert_eq!(operations(&reads), 10_007);
    assert_eq!(bytes(&reads), 10_007 * 4096);
}

#[test]
fn large_operations_are_split_and_every_piece_knows_its_queueing() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let options = ["--rw=read", "--bs=8m", "--iodepth=2", "--io_size=184m"];
    let seen = record_whole(Config::only(&["block"]), || {
        fio(&device.path, &options);
    });
    let reads = seen.reads_of_fio(device.device);
    assert_eq!(bytes(&reads), 23 * 8 * MIB);
    assert!(reads.len() > 23, "nothing was split: the test shows nothing");
    assert!(reads.iter().all(|row| row.queue_ns > 0));
}

#[test]
fn starved_of_tags_the_queueing_is_still_seen() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let depth = format!("/sys/block/{}/queue/nr_requests", device.name());
    device.set_scheduler("mq-deadline").unwrap();
    std::fs::write(depth, "4").unwrap();
    let threads = ["--ioengine=psync", "--thread", "--numjobs=32"];
    let options = [
        "--rw=randread",
        &io_size(1_009),
        threads[0],
        threads[1],
        threads[2],
    ];
    let seen = record_whole(Config::only(&["block"]), || {
        fio(&device.path, &options);
    });
    let reads = seen.reads_of_fio(device.device);
    assert_eq!(operations(&reads), 32 * 1_009);
    let unseen = reads.iter().filter(|row| row.queue_ns == 0).count();
    assert!(
        unseen * 100 <= reads.len(),
        "{unseen} of {} without queue_ns",
        reads.len()
    );
    let waited = reads
        .iter()
        .filter(|row| row.start_ns - row.queue_ns.max(1) > 20_000)
        .count();
    assert!(
        waited * 10 > reads.len(),
        "only {waited} of {} waited for a tag",
        reads.len()
    );
}

#[test]
fn flushes_are_seen_as_what_they_are() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let options = ["--rw=randwrite", "--fsync=1", "--iodepth=1", &io_size(1_009)];
    let seen = record_whole(Config::only(&["block"]), || {
        fio(&device.path, &options);
    });
    let writes = seen.requests(device.device, REQ_OP_WRITE);
    let (data, flushes): (Vec<_>, Vec<_>) = writes.into_iter().partition(|row| row.size_bytes > 0);
    assert_eq!(operations(&data), 1_009);
    // None after the last write.
    assert!(
        (1_008..=1_012).contains(&flushes.len()),
        "{} flushes asked for",
        flushes.len()
    );
    assert!(flushes
        .iter()
        .all(|row| row.start_ns > 0 && row.issue_ns == 0 && row.complete_ns > 0));
    let machinery = seen.requests(device.device, REQ_OP_FLUSH);
    assert!(
        (1..=flushes.len()).contains(&machinery.len()),
        "{}",
        machinery.len()
    );
    assert!(machinery
        .iter()
        .all(|row| row.start_ns == 0 && row.pid == -1 && row.complete_ns > 0));
}

#[test]
fn writes_with_forced_unit_access_complete_once() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let options = ["--rw=randwrite", "--sync=dsync", "--iodepth=8", &io_size(1_013)];
    let seen = record_whole(Config::only(&["block"]), || {
        fio(&device.path, &options);
    });
    let writes = seen.requests(device.device, REQ_OP_WRITE);
    let data: Vec<_> = writes.into_iter().filter(|row| row.size_bytes > 0).collect();
    assert_eq!(operations(&data), 1_013);
    assert_eq!(bytes(&data), 1_013 * 4096);
    // The loop device cannot force unit access: a flush follows each write before it is complete.
    let machinery = seen.requests(device.device, REQ_OP_FLUSH);
    assert!(!machinery.is_empty(), "no flush: the test shows nothing");
}

#[test]
fn buffered_writes_arrive_whole() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let out = format!("of={}", device.path);
    let options = [
        "if=/dev/zero",
        &out,
        "bs=1M",
        "count=64",
        "conv=fsync",
        "status=none",
    ];
    let seen = record_whole(Config::only(&["block"]), || drop(run("dd", &options)));
    let writes = seen.requests(device.device, REQ_OP_WRITE);
    assert_eq!(bytes(&writes), 64 * MIB);
}

#[test]
fn full_speed_on_the_system_disk() {
    require_kernel!();
    let folder = folder_on_disk();
    let file = folder.path().join("data");
    std::fs::write(&file, vec![3u8; 64 << 20]).unwrap();
    run("sync", &[file.to_str().unwrap()]);
    let options = ["--rw=randread", "--thread", "--size=64m", &io_size(100_019)];
    let mut pid = 0;
    let seen = record_whole(Config::only(&["block"]), || {
        pid = fio(file.to_str().unwrap(), &options)
    });
    // fio also reads its own program, with read-ahead or metadata flags.
    let kept = |row: &&case::rows::BlockRow| {
        row.pid == pid && row.cmd_flags & (REQ_OP_MASK | REQ_META | REQ_RAHEAD) == REQ_OP_READ
    };
    let reads: Vec<_> = seen.rows.iter().filter(kept).copied().collect();
    assert_eq!(operations(&reads), 100_019);
    assert_eq!(bytes(&reads), 100_019 * 4096);
}

#[test]
fn without_block_io_start_the_start_comes_from_getrq() {
    require_kernel!();
    let config = Config {
        start_at_getrq: true,
        ..Config::only(&["block"])
    };
    let seen = count_reads(20_011, config, &[]);
    assert!(seen.summary.attached.iter().any(|name| name == "block_getrq"));
    assert!(!seen.summary.attached.iter().any(|name| name == "block_io_start"));
}

#[test]
fn own_requests_are_left_out_and_counted() {
    require_kernel!();
    let device = LoopDevice::new(8 * MIB);
    let write = |path: String| {
        let file = std::fs::File::options()
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(path);
        let buffer = std::alloc::Layout::from_size_align(4096, 4096).unwrap();
        // SAFETY: a fresh page, aligned for O_DIRECT, never freed: 4 KiB in a test.
        let page = unsafe { std::slice::from_raw_parts(std::alloc::alloc_zeroed(buffer), 4096) };
        for index in 0..101 {
            std::os::unix::fs::FileExt::write_at(file.as_ref().unwrap(), page, index * 4096).unwrap();
        }
    };
    let seen = record_whole(Config::only(&["block"]), || {
        let path = device.path.clone();
        let thread = std::thread::Builder::new().name("whodisk-test".into());
        thread.spawn(move || write(path)).unwrap().join().unwrap();
    });
    assert_eq!(seen.requests(device.device, REQ_OP_WRITE), []);
    assert!(seen.summary.own_excluded >= 101);
    assert!(seen.summary.own_excluded_bytes >= 101 * 4096);
}

#[test]
fn a_full_disk_ends_the_writing_but_not_the_counting() {
    require_kernel!();
    let small = Mount::new(&["-t", "tmpfs", "-o", "size=300k", "none"]);
    let device = LoopDevice::new(64 * MIB);
    let raw = small.path.join("raw");
    let running = Recorder::attach(Config::only(&["block"]))
        .unwrap()
        .start(&raw)
        .unwrap();
    fio(&device.path, &["--rw=randread", &io_size(100_003)]);
    let mut whole = running.stop().unwrap();
    assert!(whole.write_error.is_some());
    let summary = whole.probes.remove("block").unwrap();
    assert!(
        summary.received >= 100_003 - summary.count("requests_merged"),
        "{summary:?}"
    );
    let written: u64 = summary.rows.values().sum();
    // Rows of merged bios are lost beside the requests.
    let lost = summary.lost;
    assert!(
        lost >= summary.received - written && lost < summary.received + 1000,
        "{summary:?}"
    );
    let rows: Vec<case::rows::BlockRow> = read(&raw.join("block/block.arrows"));
    assert_eq!(rows.len() as u64, summary.rows["block"]);
}

#[test]
fn a_ring_too_small_loses_visibly() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let folder = folder_on_disk();
    let config = Config {
        ring_bytes: 64 << 10,
        ..Config::only(&["block"])
    };
    let running = Recorder::attach(config).unwrap().start(folder.path()).unwrap();
    fio(
        &device.path,
        &["--rw=randread", "--iodepth=64", &io_size(300_007)],
    );
    let summary = running.stop().unwrap().probes.remove("block").unwrap();
    let rows: Vec<case::rows::BlockRow> = read(&folder.path().join("block/block.arrows"));
    let of_device: Vec<_> = rows
        .into_iter()
        .filter(|row| row.device == device.device)
        .collect();
    let of_fio: Vec<_> = of_device.into_iter().filter(is_of_fio).collect();
    // What is not there was counted; the lost may also be other requests of the machine.
    assert!(operations(&of_fio) + summary.lost >= 300_007, "{summary:?}");
    if summary.lost == 0 {
        testing::skip("even 1024 requests per CPU were drained in time");
    }
    let losses = std::fs::read_to_string(folder.path().join("losses.jsonl")).unwrap();
    let lines: Vec<case::schema::LossRow> = losses
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines.iter().map(|loss| loss.lost.unwrap()).sum::<u64>(),
        summary.lost
    );
    assert!(lines
        .iter()
        .all(|loss| loss.end_ns - loss.start_ns < 3_000_000_000));
}

#[test]
fn a_killed_recorder_loses_at_most_the_last_second() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let folder = folder_on_disk();
    let example = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .join("../examples/rec");
    let mut recorder = std::process::Command::new(example)
        .arg(folder.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_line(&mut recorder);
    // 1000 reads per second for 2 s.
    let rate = ["--rate_iops=1000", "--iodepth=1", "--time_based", "--runtime=2"];
    fio(
        &device.path,
        &["--rw=randread", rate[0], rate[1], rate[2], rate[3]],
    );
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let rows: Vec<case::rows::BlockRow> = read(&folder.path().join("block/block.arrows"));
    let of_fio = rows
        .iter()
        .filter(|row| row.device == device.device && is_of_fio(row));
    let count = of_fio.count();
    assert!((1_000..=2_010).contains(&count), "{count} of about 2000 reads");
    check_kernel_tracing_is_left_clean(recorder.id());
}

/// The next recorder removes what a killed one left in the kernel's event tracing, and a recorder that ends its own.
fn check_kernel_tracing_is_left_clean(killed: u32) {
    let ours = |pid: u32| {
        let instances = std::fs::read_dir("/sys/kernel/tracing/instances")?.flatten();
        let names = instances.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let prefix = format!("whodisk-{pid}-");
        Ok::<usize, std::io::Error>(names.filter(|name| name.starts_with(&prefix)).count())
    };
    match ours(killed) {
        Err(error) => testing::skip(format!("no event tracing to look at: {error}")),
        Ok(left) => assert_eq!(left, 2, "nothing was left: the test shows nothing"),
    }
    let recorder = Recorder::attach(Config::only(&["block"])).unwrap();
    assert_eq!(ours(killed).unwrap(), 0);
    // Completions, and what process 1 starts.
    assert_eq!(ours(std::process::id()).unwrap(), 2);
    drop(recorder);
    assert_eq!(ours(std::process::id()).unwrap(), 0);
}

/// The recorder says so when it records.
fn wait_for_line(child: &mut std::process::Child) {
    use std::io::BufRead;
    let mut line = String::new();
    std::io::BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "recording\n");
    std::thread::sleep(Duration::from_millis(1));
}
