//! Raw streams: round trips, and what a reader keeps of damaged files.
use case::raw::{RawReader, RawRow, RawWriter, Truncation, BATCH_ROWS};
use case::rows::{AppRow, BlockMergeRow, BlockRow};
use case::CaseError;
use proptest::prelude::*;
use std::path::Path;

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
        error: if n % 97 == 0 { 5 } else { 0 },
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
    let folder = tempfile::tempdir().unwrap();
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    write_all::<BlockRow>(&path, &[vec![block_row(1)]]);
    let reader = RawReader::<BlockRow>::open(&path).unwrap();
    assert_eq!(reader.metadata("pid"), Some("17"));
    assert_eq!(reader.metadata("nothing"), None);
}
