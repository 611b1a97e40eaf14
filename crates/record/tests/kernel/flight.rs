//! The flight recorder on a disk that delays requests on purpose.
use crate::common::crowd::{attempts, in_time};
use crate::common::folder_on_disk;
use case::raw::RawReader;
use case::rows::{BlockRow, FileRow, SyscallRow, Via};
use record::{Config, FlightConfig, Measure, OpLayer, Recorder, Running, Scope, Snapshot};
use slowdisk::Slowdisk;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use testing::test;

const MS: u64 = 1_000_000;
const BLOCK: usize = 4096;

/// A disk of 4,096 blocks, of which some are slow.
fn slow_disk(fault: &str) -> Slowdisk {
    crate::common::slow_disk(4096 * BLOCK as u64, fault)
}

fn fly(device: &Path, triggers: &[&str]) -> (Running, Receiver<Snapshot>) {
    let scope = Scope {
        pids: vec![std::process::id() as i32],
        devices: vec![device.to_owned()],
        ..Scope::default()
    };
    fly_in(scope, triggers)
}

fn fly_in(scope: Scope, triggers: &[&str]) -> (Running, Receiver<Snapshot>) {
    let config = Config {
        scope,
        ..Config::only(&["block", "syscall"])
    };
    let flight = FlightConfig {
        ring_ns: 2000 * MS,
        after_ns: 300 * MS,
        refractory_ns: 1000 * MS,
        memory_bytes: 64 << 20,
        triggers: triggers.iter().map(|text| text.parse().unwrap()).collect(),
        cases_max: None,
    };
    Recorder::attach(config).unwrap().start_flight(flight).unwrap()
}

struct Reader {
    file: File,
    memory: Vec<u8>,
}

impl Reader {
    fn open(device: &Path) -> Reader {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(device)
            .unwrap();
        Reader {
            file,
            memory: vec![0; 2 * BLOCK],
        }
    }

    fn read(&mut self, block: u64) {
        let begin = self.memory.as_ptr().align_offset(BLOCK);
        let place = &mut self.memory[begin..begin + BLOCK];
        self.file.read_exact_at(place, block * BLOCK as u64).unwrap();
    }

    /// Blocks 1 and following, over and over.
    fn read_for(&mut self, time: Duration) -> u64 {
        let begin = Instant::now();
        let mut reads = 0;
        while begin.elapsed() < time {
            self.read(1 + reads % 1000);
            reads += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
        reads
    }
}

struct Window {
    blocks: Vec<BlockRow>,
    calls: Vec<SyscallRow>,
    names: Vec<FileRow>,
}

fn written(snapshot: &Snapshot) -> Window {
    let folder = folder_on_disk();
    let rows = snapshot.write(folder.path()).unwrap();
    let path = |stream: &str| -> PathBuf { folder.path().join(stream).join(format!("{stream}.arrows")) };
    let all = |mut reader: RawReader<SyscallRow>| {
        let (mut rows, mut batch) = (Vec::new(), Vec::new());
        while reader.next_batch(&mut batch).unwrap() {
            rows.extend_from_slice(&batch);
        }
        rows
    };
    let calls = all(RawReader::open(&path("syscall")).unwrap());
    let blocks: Vec<BlockRow> = crate::common::read(&path("block"));
    let names: Vec<FileRow> = crate::common::read(&path("file"));
    assert_eq!(rows["block"], blocks.len() as u64);
    Window { blocks, calls, names }
}

fn slow(window: &Window, limit_ns: u64) -> usize {
    let reads = window
        .calls
        .iter()
        .filter(|row| row.via == Via::Call as u8 && row.op == 0);
    reads
        .filter(|row| row.end_ns.saturating_sub(row.start_ns) > limit_ns)
        .count()
}

#[test]
fn each_slow_read_makes_one_case_with_the_time_before_it() {
    require_kernel!();
    in_time(|| {
        // Block 0 is slow, always; others never.
        let disk = slow_disk("read constant 500ms offset 0..4KiB");
        let device = disk.device().to_owned();
        let mut reader = Reader::open(&device);
        let (running, snapshots) = fly(&device, &["latency > 400ms and op == read"]);
        for _ in 0..2 {
            let before = reader.read_for(Duration::from_millis(1500));
            reader.read(0);
            reader.read_for(Duration::from_millis(600));
            let snapshot = snapshots.recv_timeout(Duration::from_secs(5)).unwrap();
            // The request and the call behind it.
            assert!((1..=2).contains(&snapshot.fired.len()), "{:?}", snapshot.fired);
            let fired = &snapshot.fired[0];
            assert_eq!(fired.measure, Measure::Latency);
            assert!(fired.operation.time_ns > 400 * MS && fired.device.starts_with("loop"));
            let window = written(&snapshot);
            assert_eq!(slow(&window, 400 * MS), 1, "one slow call in each case");
            let earlier = window
                .calls
                .iter()
                .filter(|row| row.op == 0 && row.end_ns < fired.operation.start_ns);
            assert!(earlier.count() as u64 >= before / 2, "what came before is there");
            let ended = window.blocks.iter().filter(|row| row.complete_ns != 0);
            let first_ns = ended.map(|row| row.complete_ns).min().unwrap();
            assert!(first_ns >= snapshot.start_ns && first_ns + 1000 * MS < fired.time_ns);
            assert!(!window.names.is_empty(), "names outlive the ring");
        }
        let counts = running.flight_counts();
        assert_eq!((counts.cases, counts.merged, counts.dropped), (2, 0, 0));
        running.stop().unwrap();
        let again = snapshots.try_recv().map(|snapshot| snapshot.fired.clone());
        assert!(again.is_err(), "no further case: {again:?}");
    });
}

#[test]
fn what_hangs_makes_a_case_before_it_ends() {
    require_kernel!();
    in_time(|| {
        let disk = slow_disk("read constant 2s offset 0..4KiB");
        let device = disk.device().to_owned();
        let (running, snapshots) = fly(&device, &["age > 500ms"]);
        let mut reader = Reader::open(&device);
        reader.read_for(Duration::from_millis(300));
        let begin = Instant::now();
        let hanging = std::thread::spawn(move || reader.read(0));
        let snapshot = snapshots.recv_timeout(Duration::from_secs(5)).unwrap();
        assert!(
            !hanging.is_finished(),
            "the case came after {:?}",
            begin.elapsed()
        );
        let window = written(&snapshot);
        hanging.join().unwrap();
        assert!(begin.elapsed() >= Duration::from_secs(2));
        assert!(snapshot.fired.iter().all(|fired| fired.measure == Measure::Age));
        let open = window.blocks.iter().filter(|row| row.complete_ns == 0);
        assert_eq!(open.count(), 1, "the request is in the case, and open");
        assert!(window.calls.iter().any(|row| row.end_ns == 0 && row.op == 0));
        assert_eq!(running.flight_counts().cases, 1);
        running.stop().unwrap();
        let again = snapshots.try_recv().map(|snapshot| snapshot.fired.clone());
        assert!(again.is_err(), "it fires once: {again:?}");
    });
}

/// Both the call and its request, which only the call's key tells for a path.
#[test("one of make test-long: it waits for what does not come")]
fn what_hangs_outside_of_the_scope_makes_no_case() {
    require_kernel!();
    in_time(|| {
        let hanging = "read constant 900ms offset 0..4KiB";
        let (mine, other) = (slow_disk(hanging), slow_disk(hanging));
        let by_device = Scope {
            devices: vec![mine.device().to_owned()],
            ..Scope::default()
        };
        let by_path = Scope {
            paths: vec![mine.device().to_owned()],
            ..Scope::default()
        };
        let name = mine.device().file_name().unwrap().to_str().unwrap().to_owned();
        for scope in [by_device, by_path] {
            let (running, snapshots) = fly_in(scope, &["age > 300ms"]);
            Reader::open(other.device()).read(0);
            let counts = running.flight_counts();
            let none = snapshots.recv_timeout(Duration::from_millis(600));
            let fired = none.map(|snapshot| snapshot.fired.clone());
            assert!(fired.is_err() && counts.cases == 0, "{fired:?}");
            Reader::open(mine.device()).read(0);
            let snapshot = snapshots.recv_timeout(Duration::from_secs(5)).unwrap();
            running.stop().unwrap();
            assert!(snapshot.fired.iter().all(|fired| fired.device == name));
            let layers = [OpLayer::Block, OpLayer::Syscall];
            let fired = |layer: &OpLayer| snapshot.fired.iter().any(|fired| fired.operation.layer == *layer);
            assert!(layers.iter().all(fired), "{:?}", snapshot.fired);
        }
    });
}

#[test]
fn too_little_memory_costs_the_oldest_rows_and_says_so() {
    require_kernel!();
    in_time(|| {
        let disk = slow_disk("read constant 500ms offset 0..4KiB");
        let device = disk.device().to_owned();
        let config = Config {
            scope: Scope {
                devices: vec![device.clone()],
                ..Scope::default()
            },
            ..Config::only(&["block", "syscall"])
        };
        let flight = FlightConfig {
            ring_ns: 60_000 * MS,
            after_ns: 100 * MS,
            refractory_ns: 1000 * MS,
            memory_bytes: 1 << 20,
            triggers: vec!["latency > 400ms".parse().unwrap()],
            cases_max: Some(1),
        };
        let (running, snapshots) = Recorder::attach(config).unwrap().start_flight(flight).unwrap();
        let mut reader = Reader::open(&device);
        let until = Instant::now() + Duration::from_secs(30);
        while running.flight_counts().dropped == 0 && Instant::now() < until {
            (0..500).for_each(|block| reader.read(1 + block));
            assert!(running.flight_counts().bytes <= 1 << 20);
        }
        assert!(running.flight_counts().dropped > 0);
        reader.read(0);
        let snapshot = snapshots.recv_timeout(Duration::from_secs(5)).unwrap();
        let told = |reason: &str| snapshot.losses.iter().any(|loss| loss.reason == reason);
        assert!(told("ring_memory"), "{:?}", snapshot.losses);
        running.stop().unwrap();
    });
}

#[test]
fn only_a_crowd_is_forgiven() {
    let ran = Cell::new(0);
    let run = |fails: bool, others_cpus: f64| {
        ran.set(0);
        let begin = Instant::now();
        let others_s = || begin.elapsed().as_secs_f64() * others_cpus;
        let test = || {
            ran.set(ran.get() + 1);
            std::thread::sleep(Duration::from_millis(1));
            assert!(!fails, "on purpose");
        };
        let ended = catch_unwind(AssertUnwindSafe(|| attempts(test, others_s)));
        let outcome = match ended {
            Ok(()) => "passed",
            Err(caught) if testing::is_skip(&*caught) => "skipped",
            Err(_) => "failed",
        };
        (outcome, ran.get())
    };
    assert_eq!(run(true, 0.1), ("failed", 1), "a defect fails at once");
    assert_eq!(
        run(true, 1.5),
        ("skipped", 3),
        "in a crowd it is tried again, and skipped"
    );
    assert_eq!(run(false, 1.5), ("passed", 1));
}
