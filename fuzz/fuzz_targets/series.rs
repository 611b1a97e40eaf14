//! A file of sampled series, as CSV or Parquet (the first byte says which), that may hold anything.
#![no_main]
use case::sealed::{Names, SealWriter};
use import::Request;
use libfuzzer_sys::fuzz_target;

const MAP: &str = "host=host,device=disk,t=ts:s,latency=lat:us,throughput=tp:MB/s";

fuzz_target!(|data: &[u8]| {
    let Some((choice, content)) = data.split_first() else { return };
    let folder = tempfile::tempdir_in("/dev/shm").expect("room in /dev/shm");
    let file = folder.path().join(if choice & 1 == 0 { "input.csv" } else { "input.parquet" });
    std::fs::write(&file, content).expect("room in /dev/shm");
    let case = folder.path().join("case");
    std::fs::create_dir(&case).expect("room in /dev/shm");
    let mut writer = SealWriter::create(&case).expect("room in /dev/shm");
    let request = Request { files: vec![file], map: Some(MAP.into()) };
    let read = import::format("series").expect("a known format").read;
    match read(&request, &mut writer, &mut Names::default(), &mut |_| {}) {
        Ok(summary) => assert!(summary.rows <= 2 * summary.records, "a row per metric at most"),
        Err(error) => assert!(error.to_string().contains("input."), "{error}"),
    }
});
