//! Rows per second and bytes per row of the raw writer, on one core. Usage: raw_rate FOLDER [ROWS]
use case::raw::{RawReader, RawWriter};
use case::rows::AppRow;
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = std::path::PathBuf::from(args.next().expect("FOLDER"));
    let rows: u64 = args.next().map_or(10_000_000, |n| n.parse().expect("ROWS"));
    let path = folder.join("raw_rate.arrows");
    let mut random = 1u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let source: Vec<AppRow> = (0..1u64 << 18)
        .map(|n| {
            let submit_ns = 1_700_000_000_000 + n * 450 + next() % 400;
            let complete_ns = submit_ns + 20_000 + next() % 60_000;
            AppRow {
                op_id: 1 << 56 | 2 << 40 | n,
                intended_ns: submit_ns,
                submit_ns,
                complete_ns,
                reap_ns: complete_ns + next() % 4_000,
                offset_bytes: (next() % (1 << 22)) << 12,
                size_bytes: 4096,
                queue_depth: 64 - (next() % 8) as u32,
                error: 0,
                op: (next() % 10 > 5) as u8,
                file: 0,
            }
        })
        .collect();
    let mut writer = RawWriter::create(&path, &[]).expect("a new file in FOLDER");
    let start = Instant::now();
    let mut written = 0;
    while written < rows {
        for chunk in source.chunks(64) {
            writer.push_many(chunk).expect("room in FOLDER");
        }
        written += source.len() as u64;
    }
    let bytes = writer.bytes();
    writer.finish().expect("room in FOLDER");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "write: {:.2} M rows/s, {:.1} bytes per row",
        written as f64 / seconds / 1e6,
        bytes as f64 / written as f64
    );
    let start = Instant::now();
    let mut reader = RawReader::<AppRow>::open(&path).expect("the file just written");
    let (mut batch, mut read, mut sum) = (Vec::new(), 0u64, 0u64);
    while reader.next_batch(&mut batch).expect("the file just written") {
        read += batch.len() as u64;
        sum = batch.iter().fold(sum, |sum, row| sum.wrapping_add(row.reap_ns));
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "read: {:.2} M rows/s (check {sum:x})",
        read as f64 / seconds / 1e6
    );
    assert_eq!(read, written);
    std::fs::remove_file(&path).expect("remove the file");
}
