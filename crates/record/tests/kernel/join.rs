//! Our own operations are found again behind the block requests, by their ids, without exception.
use crate::common::uring::{read_sequentially, OP_ID_BASE};
use crate::common::*;
use case::rows::BlockRow;
use record::Config;
use std::collections::HashMap;
use std::path::Path;
use testing::test;

const MIB: u64 = 1 << 20;

/// Bytes that block requests moved for each of our operations.
fn bytes_by_operation(seen: &Seen) -> HashMap<u64, u64> {
    let mut further: HashMap<u64, u64> = HashMap::new();
    let mut bytes: HashMap<u64, u64> = HashMap::new();
    for merge in seen.merges.iter().filter(|merge| merge.op_id != 0) {
        *further.entry(merge.request_key).or_default() += u64::from(merge.size_bytes);
        *bytes.entry(merge.op_id).or_default() += u64::from(merge.size_bytes);
    }
    let joined = |row: &&BlockRow| row.op_id != 0;
    for row in seen.rows.iter().filter(joined) {
        let first_bio = u64::from(row.size_bytes) - further.remove(&row.request_key).unwrap_or(0);
        *bytes.entry(row.op_id).or_default() += first_bio;
    }
    assert!(further.is_empty(), "merged bios of requests that are not there");
    bytes
}

/// Every operation is found with exactly its bytes. Returns how many bios were merged.
fn check_join(path: &Path, count: u64, size: u64, file_bytes: u64) -> usize {
    let config = Config {
        join_tgid: Some(std::process::id()),
        ..Config::only(&["block"])
    };
    let seen = record_whole(config, || read_sequentially(path, count, size, file_bytes));
    let unseen = seen
        .unseen
        .iter()
        .any(|unseen| unseen.what.contains("which operation"));
    assert!(!unseen, "{:?}", seen.unseen);
    let bytes = bytes_by_operation(&seen);
    let wanted: HashMap<u64, u64> = (0..count).map(|n| (OP_ID_BASE | n, size)).collect();
    let wrong: Vec<_> = wanted
        .iter()
        .filter(|(id, size)| bytes.get(id) != Some(size))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} operations wrong, {:?} ...",
        wrong.len(),
        &wrong[..wrong.len().min(3)]
    );
    assert_eq!(bytes.len() as u64, count, "ids that we never gave");
    assert!(seen.summary.count("joined") >= count);
    seen.merges.len()
}

fn check_all_sizes(path: &Path, file_bytes: u64) {
    let merged = check_join(path, 10_007, 4096, file_bytes);
    println!("{}: {merged} of 10007 merged", path.display());
    assert!(merged > 0, "nothing merged: the test shows nothing");
    check_join(path, 127, MIB, file_bytes);
    check_join(path, 31, 8 * MIB, file_bytes);
}

fn on_file_system(make: &str) {
    require_program(make);
    let device = LoopDevice::new(512 * MIB);
    run(make, &["-q", &device.path]);
    let mount = Mount::new(&[&device.path]);
    let file = mount.path.join("data");
    std::fs::write(&file, vec![5u8; 64 << 20]).unwrap();
    run("sync", &["--file-system", file.to_str().unwrap()]);
    check_all_sizes(&file, 64 * MIB);
}

#[test]
fn on_a_raw_device() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    check_all_sizes(Path::new(&device.path), 64 * MIB);
}

#[test]
fn on_ext4() {
    require_kernel!();
    on_file_system("mkfs.ext4");
}

#[test("one of make test-long: on ext4 it is looked at each time")]
fn on_xfs() {
    require_kernel!();
    on_file_system("mkfs.xfs");
}

#[test]
fn under_a_scheduler_that_merges_requests() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    device
        .set_scheduler("bfq")
        .or_else(|_| device.set_scheduler("mq-deadline"))
        .unwrap();
    check_all_sizes(Path::new(&device.path), 64 * MIB);
}

#[test]
fn only_the_chosen_process_is_joined() {
    require_kernel!();
    let device = LoopDevice::new(64 * MIB);
    let path = Path::new(&device.path);
    let config = Config {
        join_tgid: Some(1),
        ..Config::only(&["block"])
    };
    let seen = record_whole(config, || read_sequentially(path, 1_009, 4096, 64 * MIB));
    assert!(operations(&seen.requests(device.device, REQ_OP_READ)) >= 1_009);
    assert!(seen.rows.iter().all(|row| row.op_id == 0));
    assert!(seen.merges.iter().all(|bio| bio.op_id == 0));
    assert_eq!(seen.summary.count("joined"), 0);
}
