//! Raw streams: round trips, and what a reader keeps of damaged files.
mod common;
use case::raw::{RawReader, RawRow, RawWriter, Truncation, BATCH_ROWS};
use case::rows::{AppRow, BlockMergeRow, BlockRow};
use case::CaseError;
use proptest::prelude::*;
use std::path::Path;
use testing::test;

testing::main!();

fn app_row(n: u64) -> AppRow {
    AppRow {
        op_id: 1 << 56 | n,
        intended_ns: 1_000 * n,
        submit_ns: 1_000 * n + 17,
        complete_ns: 1_000 * n + 90_000 + n.wrapping_mul(0x9e37_79b9) % 40_000,
        reap_ns: 1_000 * n + 140_000,
        offset_bytes: (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) << 12,
        size_bytes: 4096,
        queue_depth: 1 + n as u32 % 16,
        error: if n.is_multiple_of(97) { 5 } else { 0 },
        op: (n % 7) as u8,
        file: (n % 3) as u8,
    }
}

fn block_row(n: u64) -> BlockRow {
    BlockRow {
        request_key: n,
        op_id: 1 << 56 | n,
        queue_ns: 500 * n,
        start_ns: 500 * n + 100,
        complete_ns: 500 * n + 90_000,
        sector_512: n * 8,
        size_bytes: 4096,
        vector: -1,
        cpu: 1,
        comm: *b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ..BlockRow::default()
    }
}

/// Everything a reader gives: rows and the truncation.
fn read_all<R: RawRow>(path: &Path) -> Result<(Vec<R>, Option<Truncation>), CaseError> {
    let mut reader = RawReader::<R>::open(path)?;
    let (mut rows, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch)? {
        rows.extend_from_slice(&batch);
    }
    assert!(!reader.next_batch(&mut batch)?, "the end stays the end");
    Ok((rows, reader.truncation().cloned()))
}

fn write_all<R: RawRow>(path: &Path, batches: &[Vec<R>]) {
    let metadata = [
        ("pid".to_string(), "17".to_string()),
        ("comm".to_string(), "worker-0".to_string()),
    ];
    let mut writer = RawWriter::<R>::create(path, &metadata).unwrap();
    for batch in batches {
        for row in batch {
            writer.push(row).unwrap();
        }
        writer.flush().unwrap();
    }
    let rows: usize = batches.iter().map(Vec::len).sum();
    assert_eq!(writer.rows(), rows as u64);
    assert_eq!(writer.finish().unwrap(), rows as u64);
}

#[test]
fn rows_come_back_over_many_batches() {
    let folder = common::folder();
    let path = folder.path().join("raw/app/worker-000.arrows");
    let rows: Vec<AppRow> = (0..2 * BATCH_ROWS as u64 + 4321).map(app_row).collect();
    let mut writer = RawWriter::create(&path, &[]).unwrap();
    writer.push_many(&rows[..1000]).unwrap();
    for row in &rows[1000..1777] {
        writer.push(row).unwrap();
    }
    writer.push_many(&rows[1777..]).unwrap();
    assert_eq!(writer.finish().unwrap(), rows.len() as u64);
    let (read, truncation) = read_all::<AppRow>(&path).unwrap();
    assert_eq!(truncation, None);
    assert!(read == rows);
}

#[test]
fn metadata_comes_back() {
    let folder = common::folder();
    let path = folder.path().join("a.arrows");
    write_all::<BlockRow>(&path, &[vec![block_row(1)]]);
    let reader = RawReader::<BlockRow>::open(&path).unwrap();
    assert_eq!(reader.metadata("pid"), Some("17"));
    assert_eq!(reader.metadata("nothing"), None);
}

#[test]
fn a_stream_of_another_probe_is_an_error_that_names_the_column() {
    let folder = common::folder();
    let path = folder.path().join("a.arrows");
    write_all::<BlockMergeRow>(&path, &[vec![BlockMergeRow::default()]]);
    let error = RawReader::<BlockRow>::open(&path).err().unwrap().to_string();
    assert!(
        error.contains("schema column 2: expected queue_ns: UInt64, found owner_key: UInt64"),
        "{error}"
    );
}

#[test]
fn a_stream_is_never_overwritten() {
    let folder = common::folder();
    let path = folder.path().join("a.arrows");
    write_all::<AppRow>(&path, &[]);
    let error = RawWriter::<AppRow>::create(&path, &[]).err().unwrap().to_string();
    assert!(
        error.contains("a.arrows") && error.contains("never overwritten"),
        "{error}"
    );
}

#[test]
fn a_dropped_writer_keeps_its_rows_but_has_no_end() {
    let folder = common::folder();
    let path = folder.path().join("a.arrows");
    let mut writer = RawWriter::create(&path, &[]).unwrap();
    writer.push(&app_row(1)).unwrap();
    drop(writer);
    let (rows, cut) = read_all::<AppRow>(&path).unwrap();
    assert_eq!(rows, [app_row(1)]);
    let cut = cut.unwrap();
    assert_eq!(
        (cut.lost_bytes, cut.good_bytes),
        (0, std::fs::metadata(&path).unwrap().len())
    );
}

#[test]
fn rows_that_waited_are_flushed() {
    let folder = common::folder();
    let path = folder.path().join("a.arrows");
    let mut writer = RawWriter::create(&path, &[]).unwrap();
    let minute = std::time::Duration::from_secs(60);
    writer.push(&app_row(1)).unwrap();
    writer.flush_if_older_than(minute).unwrap();
    assert_eq!(read_all::<AppRow>(&path).unwrap().0, []);
    writer.flush_if_older_than(std::time::Duration::ZERO).unwrap();
    assert_eq!(read_all::<AppRow>(&path).unwrap().0, [app_row(1)]);
}

/// A stream of three batches and the file position after each of its messages.
fn three_batches() -> (tempfile::TempDir, std::path::PathBuf, Vec<Vec<AppRow>>, Vec<u64>) {
    let folder = common::folder();
    let path = folder.path().join("a.arrows");
    let batches: Vec<Vec<AppRow>> = vec![
        (0..5).map(app_row).collect(),
        (5..6).map(app_row).collect(),
        (6..23).map(app_row).collect(),
    ];
    let mut writer = RawWriter::create(&path, &[]).unwrap();
    let mut ends = vec![writer.bytes()];
    for batch in &batches {
        writer.push_many(batch).unwrap();
        writer.flush().unwrap();
        ends.push(writer.bytes());
    }
    writer.finish().unwrap();
    (folder, path, batches, ends)
}

#[test]
fn a_file_cut_at_any_byte_keeps_its_whole_batches() {
    let (_folder, path, batches, ends) = three_batches();
    let good = std::fs::read(&path).unwrap();
    for cut in 0..good.len() {
        std::fs::write(&path, &good[..cut]).unwrap();
        let (rows, truncation) = read_all::<AppRow>(&path).unwrap();
        let whole = ends.iter().skip(1).filter(|end| **end <= cut as u64).count();
        assert!(rows == batches[..whole].concat(), "cut at {cut}");
        let truncation = truncation.unwrap_or_else(|| panic!("cut at {cut} went unnoticed"));
        let good_bytes = ends
            .iter()
            .rev()
            .find(|end| **end <= cut as u64)
            .copied()
            .unwrap_or(0);
        assert_eq!(truncation.good_bytes, good_bytes, "cut at {cut}");
        assert_eq!(truncation.lost_bytes, cut as u64 - good_bytes, "cut at {cut}");
    }
}

/// Behind the schema every flipped bit is found, and only batches from there on are lost.
#[test]
fn a_flipped_byte_anywhere_keeps_the_batches_before_it() {
    let (_folder, path, batches, ends) = three_batches();
    let good = std::fs::read(&path).unwrap();
    for at in ends[0] as usize..good.len() {
        let bit = at % 8;
        let mut bad = good.clone();
        bad[at] ^= 1 << bit;
        std::fs::write(&path, &bad).unwrap();
        let (rows, truncation) = read_all::<AppRow>(&path).unwrap();
        let whole = ends.iter().skip(1).filter(|end| **end <= at as u64).count();
        // Some bytes mean nothing (padding, flatbuffer slack): then every row is right.
        if rows != batches.concat() || truncation.is_some() {
            assert!(rows.len() < 23 || truncation.is_some(), "byte {at} bit {bit}");
            assert!(
                batches.concat().starts_with(&rows),
                "byte {at} bit {bit}: wrong rows"
            );
            assert!(
                rows.len() >= batches[..whole].concat().len(),
                "byte {at} bit {bit}: lost too much"
            );
        }
    }
}

#[test]
fn bytes_behind_the_end_mark_are_reported() {
    let (_folder, path, batches, _) = three_batches();
    let mut bytes = std::fs::read(&path).unwrap();
    let good_bytes = bytes.len() as u64;
    bytes.extend_from_slice(&[0; 4096]);
    std::fs::write(&path, &bytes).unwrap();
    let (rows, truncation) = read_all::<AppRow>(&path).unwrap();
    assert!(rows == batches.concat());
    assert_eq!(
        truncation.map(|t| (t.good_bytes, t.lost_bytes)),
        Some((good_bytes, 4096))
    );
}

/// A full disk: /dev/full accepts nothing, so a file system that is really full is mounted where we may.
#[test]
fn a_full_disk_leaves_the_whole_batches() {
    let folder = common::folder();
    let mount = |args: &[&str]| {
        std::process::Command::new("mount")
            .args(args)
            .arg(folder.path())
            .output()
            .is_ok_and(|o| o.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=256k", "none"]) {
        testing::skip("mounting a tmpfs needs root");
    }
    let path = folder.path().join("a.arrows");
    let mut writer = RawWriter::create(&path, &[]).unwrap();
    let mut pushed = 0;
    let error = loop {
        let result = writer.push(&app_row(pushed)).and_then(|()| match pushed % 1000 {
            999 => writer.flush(),
            _ => Ok(()),
        });
        match result {
            Ok(()) => pushed += 1,
            Err(error) => break error.to_string(),
        }
        assert!(pushed < 10_000_000, "256 KiB never full");
    };
    let again = writer.flush().unwrap_err().to_string();
    drop(writer);
    let (rows, truncation) = read_all::<AppRow>(&path).unwrap();
    let unmounted = std::process::Command::new("umount")
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(unmounted.success());
    assert!(
        error.contains("a.arrows") && error.contains("free space"),
        "{error}"
    );
    assert!(again.contains("an earlier write error"), "{again}");
    assert!(
        rows.len() >= 1000 && rows.len() as u64 <= pushed,
        "{} of {pushed}",
        rows.len()
    );
    assert!(rows.iter().enumerate().all(|(n, row)| *row == app_row(n as u64)));
    assert_eq!(truncation.unwrap().lost_bytes, 0, "the half batch was cut off");
}

fn any_app_row() -> impl Strategy<Value = AppRow> {
    (
        any::<[u64; 6]>(),
        any::<[u32; 2]>(),
        any::<i32>(),
        any::<u8>(),
        any::<u8>(),
    )
        .prop_map(|(w, n, error, op, file)| AppRow {
            op_id: w[0],
            intended_ns: w[1],
            submit_ns: w[2],
            complete_ns: w[3],
            reap_ns: w[4],
            offset_bytes: w[5],
            size_bytes: n[0],
            queue_depth: n[1],
            error,
            op,
            file,
        })
}

fn any_block_row() -> impl Strategy<Value = BlockRow> {
    (
        any::<[u64; 15]>(),
        any::<[u32; 5]>(),
        any::<[i32; 4]>(),
        any::<[u16; 5]>(),
        any::<[u8; 16]>(),
    )
        .prop_map(|(w, n, i, s, comm)| BlockRow {
            request_key: w[0],
            op_id: w[1],
            queue_ns: w[2],
            start_ns: w[3],
            insert_ns: w[4],
            issue_first_ns: w[5],
            issue_ns: w[6],
            irq_ns: w[7],
            complete_ns: w[8],
            sector_512: w[9],
            size_bytes: n[0],
            cmd_flags: n[1],
            device: n[2],
            pid: i[0],
            tid: i[1],
            vector: i[2],
            error: i[3],
            cpu: s[0],
            complete_cpu: s[1],
            hctx: s[2],
            requeues: s[3],
            merges: s[4],
            owner_key: w[10],
            stack_key: w[11],
            inode: w[12],
            file_offset_bytes: w[13],
            cgroup: w[14],
            file_device: n[3],
            flags: n[4],
            comm,
        })
}

fn round_trip<R: RawRow + PartialEq + std::fmt::Debug>(batches: &[Vec<R>]) {
    let folder = common::folder();
    let path = folder.path().join("a.arrows");
    write_all(&path, batches);
    let (rows, truncation) = read_all::<R>(&path).unwrap();
    assert_eq!(truncation, None);
    assert_eq!(rows, batches.concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_app_rows_come_back(batches in prop::collection::vec(prop::collection::vec(any_app_row(), 0..300), 0..4)) {
        round_trip(&batches);
    }

    #[test]
    fn any_block_rows_come_back(batches in prop::collection::vec(prop::collection::vec(any_block_row(), 0..300), 0..4)) {
        round_trip(&batches);
    }

    #[test]
    fn garbage_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
        keep in 0usize..3000,
    ) {
        let (_folder, path, batches, _) = three_batches();
        let mut file = std::fs::read(&path).unwrap();
        file.truncate(keep);
        file.extend_from_slice(&bytes);
        std::fs::write(&path, &file).unwrap();
        if let Ok((rows, _)) = read_all::<AppRow>(&path) {
            prop_assert!(batches.concat().starts_with(&rows));
        }
    }
}
