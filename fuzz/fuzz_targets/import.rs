//! A file of a registered format, that may hold anything. `WHODISK_FUZZ_FORMAT` names the format (scripts/fuzz.sh runs one after the other); without
//! it the second byte says which. The first byte says whether bad records are left out, and whether the log is two files.
#![no_main]
use case::sealed::{Names, SealWriter};
use import::{Format, Request, FORMATS};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::sync::LazyLock;

const KEEP_GOING: u8 = 1;
const TWICE: u8 = 2;

/// Of formats that need one.
fn map(format: &str) -> Option<String> {
    let map = match format {
        "series" => "host=host,device=disk,t=ts:s,latency=lat:us,throughput=tp:MB/s",
        "ops" => include_str!("../../crates/import/tests/fixtures/ops/map"),
        "bus" => include_str!("../../crates/import/tests/fixtures/bus/map"),
        "hdr-log" => "unit=us",
        "trace-events" => "block=512",
        "amazon-d0" | "ocp-c3" | "interrupts" | "diskstats" => "every=60s",
        _ => return None,
    };
    Some(map.into())
}

static CHOSEN: LazyLock<Option<&Format>> = LazyLock::new(|| {
    let name = std::env::var("WHODISK_FUZZ_FORMAT").ok()?;
    Some(import::format(&name).expect("a registered format"))
});

/// Inputs that one writer takes. It writes nothing meanwhile: its buffers are larger than what so many inputs hold.
const INPUTS_OF_WRITER: usize = 256;

/// Where rows go. What is written is no business of these readers, and files that are opened for each input take most of the time.
struct Scratch {
    folder: tempfile::TempDir,
    writer: Option<(SealWriter, Names, usize)>,
}

thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
    folder: tempfile::tempdir_in("/dev/shm").expect("room in /dev/shm"),
    writer: None,
}));

fuzz_target!(|data: &[u8]| SCRATCH.with_borrow_mut(|scratch| read(scratch, data)));

fn read(scratch: &mut Scratch, data: &[u8]) {
    let [how, which, content @ ..] = data else { return };
    let format = CHOSEN.unwrap_or(FORMATS[usize::from(*which) % FORMATS.len()]);
    let folder = scratch.folder.path();
    // The name alone says that values are rates.
    let [first, second] = match format.name {
        "fio-rate" => ["input_bw.1.log", "input_iops.1.log"],
        _ => ["input_lat.1.log", "input_clat.1.log"],
    };
    let mut files = vec![folder.join(first)];
    if how & TWICE != 0 {
        files.push(folder.join(second));
    }
    for file in &files {
        std::fs::write(file, content).expect("room in /dev/shm");
    }
    let (mut writer, mut names, inputs) = match scratch.writer.take() {
        Some(before) if before.2 < INPUTS_OF_WRITER => before,
        _ => {
            let case = folder.join("case");
            let _ = std::fs::remove_dir_all(&case);
            std::fs::create_dir(&case).expect("room in /dev/shm");
            let writer = SealWriter::create(&case).expect("room in /dev/shm");
            (writer, Names::default(), 0)
        }
    };
    let request = Request {
        files,
        format: Some(format.name.into()),
        map: map(format.name),
        keep_going: how & KEEP_GOING != 0,
        ..Request::default()
    };
    if let Err(error) = import::import(&request, &mut writer, &mut names, &mut |_| {}) {
        let said = error.to_string();
        assert!(said.contains("input_") || said.contains("--map"), "{said}");
    }
    scratch.writer = Some((writer, names, inputs + 1));
}
