//! A file of any registered format, that may hold anything: the first byte says which, and whether bad records are left out.
#![no_main]
use case::sealed::{Names, SealWriter};
use import::{Request, FORMATS};
use libfuzzer_sys::fuzz_target;

const MAP: &str = "host=host,device=disk,t=ts:s,latency=lat:us,throughput=tp:MB/s";

fuzz_target!(|data: &[u8]| {
    let Some((choice, content)) = data.split_first() else { return };
    let format = FORMATS[usize::from(choice >> 1) % FORMATS.len()];
    let folder = tempfile::tempdir_in("/dev/shm").expect("room in /dev/shm");
    let file = folder.path().join("input_lat.1.log");
    std::fs::write(&file, content).expect("room in /dev/shm");
    let case = folder.path().join("case");
    std::fs::create_dir(&case).expect("room in /dev/shm");
    let mut writer = SealWriter::create(&case).expect("room in /dev/shm");
    let request = Request {
        files: vec![file],
        format: Some(format.name.into()),
        map: match format.name {
            "series" => Some(MAP.into()),
            "hdr-log" => Some("unit=us".into()),
            _ => None,
        },
        keep_going: choice & 1 != 0,
        ..Request::default()
    };
    if let Err(error) = import::import(&request, &mut writer, &mut Names::default(), &mut |_| {}) {
        let said = error.to_string();
        assert!(said.contains("input_lat.") || said.contains("--map"), "{said}");
    }
});
