//! What the tests on a real kernel share: skipping, one recorder at a time, loop devices, fio.
pub mod calls;
pub mod crowd;
pub mod uring;

use case::raw::{RawReader, RawRow};
use case::rows::{BlockMergeRow, BlockRow};
use record::{Config, ProbeSummary, Recorder, Running};
use slowdisk::Slowdisk;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub const REQ_OP_MASK: u32 = 0xff;
pub const REQ_OP_READ: u32 = 0;
pub const REQ_OP_WRITE: u32 = 1;
pub const REQ_OP_FLUSH: u32 = 2;

/// Why these tests cannot run here; `None` if they can.
pub fn obstacle() -> Option<String> {
    let failed = record::doctor()
        .into_iter()
        .find(|check| check.verdict == record::Verdict::No);
    if let Some(check) = failed {
        return Some(format!("{}: {}", check.what, check.detail));
    }
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("loop devices need root".into());
    }
    let missing = ["fio", "losetup", "mount"].into_iter().find(|name| {
        !Command::new("sh")
            .args(["-c", &format!("command -v {name} >/dev/null")])
            .status()
            .is_ok_and(|s| s.success())
    });
    missing.map(|name| format!("{name} is not installed"))
}

/// Skips the calling test where it cannot run.
macro_rules! require_kernel {
    () => {
        if let Some(reason) = crate::common::obstacle() {
            testing::skip(reason);
        }
        let _alone = crate::common::alone();
    };
}

/// Held by whoever records in a test, in any process: two recordings at once would share two cores and each other's
/// requests, and these tests count exactly.
pub fn alone() -> File {
    let file = File::create(std::env::temp_dir().join("whodisk-test-recorder.lock")).unwrap();
    // SAFETY: a valid descriptor.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    file
}

/// A folder on the disk of the checkout, not on tmpfs.
pub fn folder_on_disk() -> TempDir {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp");
    std::fs::create_dir_all(&target).unwrap();
    tempfile::tempdir_in(target).unwrap()
}

/// Skips the calling test where a program is not installed.
pub fn require_program(name: &str) {
    if let Err(error) = Command::new(name)
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
    {
        testing::skip(format!("{name}: {error}"));
    }
}

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}{errors}");
    text
}

/// A loop device over a file in memory.
pub struct LoopDevice {
    pub path: String,
    /// Kernel dev_t as in `BlockRow::device`.
    pub device: u32,
    _backing: TempDir,
}

impl LoopDevice {
    pub fn new(size_bytes: u64) -> LoopDevice {
        let backing = tempfile::tempdir_in("/dev/shm").unwrap();
        let image = backing.path().join("image");
        std::fs::write(&image, vec![7u8; size_bytes as usize]).unwrap();
        LoopDevice::over(&["--find", "--show", image.to_str().unwrap()], backing)
    }

    /// Of these options of losetup; `backing` holds the file.
    pub fn over(options: &[&str], backing: TempDir) -> LoopDevice {
        let path = run("losetup", options);
        let number = std::fs::metadata(&path).unwrap().rdev();
        let device = libc::major(number) << 20 | libc::minor(number);
        LoopDevice {
            path,
            device,
            _backing: backing,
        }
    }

    pub fn name(&self) -> &str {
        self.path.strip_prefix("/dev/").unwrap()
    }

    pub fn set_scheduler(&self, scheduler: &str) -> std::io::Result<()> {
        std::fs::write(format!("/sys/block/{}/queue/scheduler", self.name()), scheduler)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

/// A disk with a fault; where none can be made the test is skipped.
pub fn slow_disk(size_bytes: u64, fault: &str) -> Slowdisk {
    if let Err(error) = std::fs::metadata("/dev/fuse") {
        testing::skip(format!("/dev/fuse: {error}"));
    }
    let config = slowdisk::Config {
        size_bytes,
        faults: vec![fault.parse().unwrap()],
        latency_ns: 0,
        seed: 1,
        backing: None,
        log: None,
    };
    Slowdisk::start(config).unwrap()
}

/// A file system mounted until dropped.
pub struct Mount {
    pub path: PathBuf,
    _folder: TempDir,
}

impl Mount {
    pub fn new(arguments: &[&str]) -> Mount {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let mut all = arguments.to_vec();
        all.push(path.to_str().unwrap());
        run("mount", &all);
        Mount {
            path,
            _folder: folder,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
    }
}

/// Runs fio with its own defaults of these tests: direct, io_uring, 4 KiB, depth 32. Returns its pid, which is that of
/// its jobs under `--thread`.
pub fn fio(target: &str, options: &[&str]) -> i32 {
    let file = format!("--filename={target}");
    let mut all = vec![
        "--name=test",
        &file,
        "--direct=1",
        "--ioengine=io_uring",
        "--bs=4k",
    ];
    all.extend([
        "--iodepth=32",
        "--randrepeat=0",
        "--norandommap=1",
        "--output-format=terse",
    ]);
    all.extend(options);
    let output = Stdio::piped();
    let child = Command::new("fio")
        .args(&all)
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id() as i32;
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "fio {all:?}: {output:?}");
    pid
}

/// Records while `workload` runs; nothing may be lost.
pub fn record_whole(config: Config, mut workload: impl FnMut()) -> Seen {
    let recording = Recording::start(config);
    workload();
    recording.stop()
}

/// A recording and where it is.
struct Recording {
    folder: TempDir,
    running: Option<Running>,
}

/// What a recording has seen.
pub struct Seen {
    /// Of the block probe.
    pub summary: ProbeSummary,
    pub unseen: Vec<case::meta::Unseen>,
    pub rows: Vec<BlockRow>,
    pub merges: Vec<BlockMergeRow>,
}

impl Recording {
    fn start(config: Config) -> Recording {
        let folder = folder_on_disk();
        let running = Recorder::attach(config).unwrap().start(folder.path()).unwrap();
        Recording {
            folder,
            running: Some(running),
        }
    }

    /// Ends it and checks what must hold in every recording.
    fn stop(mut self) -> Seen {
        let mut whole = self.running.take().unwrap().stop().unwrap();
        assert!(whole.write_error.is_none(), "{whole:?}");
        let summary = whole.probes.remove("block").unwrap();
        let rows: Vec<BlockRow> = read(&self.folder.path().join("block/block.arrows"));
        let merges = read(&self.folder.path().join("block_merge/block_merge.arrows"));
        assert_eq!(summary.received, rows.len() as u64);
        let losses = std::fs::read_to_string(self.folder.path().join("losses.jsonl")).unwrap();
        assert_eq!((losses.as_str(), summary.lost), ("", 0));
        let keys: std::collections::HashSet<u64> = rows.iter().map(|row| row.request_key).collect();
        assert_eq!(keys.len(), rows.len(), "request keys are unique");
        rows.iter().for_each(check_order);
        Seen {
            summary,
            unseen: whole.unseen,
            rows,
            merges,
        }
    }
}

pub fn read<R: RawRow>(path: &Path) -> Vec<R> {
    let mut reader = RawReader::<R>::open(path).unwrap();
    let (mut rows, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        rows.extend_from_slice(&batch);
    }
    rows
}

/// The moments of a request that were observed never step back.
fn check_order(row: &BlockRow) {
    let moments = [
        row.queue_ns,
        row.start_ns,
        row.issue_first_ns,
        row.issue_ns,
        row.irq_ns,
        row.complete_ns,
    ];
    let observed: Vec<u64> = moments.into_iter().filter(|ns| *ns != 0).collect();
    assert!(observed.is_sorted(), "{row:?}");
    assert!(row.insert_ns == 0 || row.insert_ns >= row.start_ns, "{row:?}");
    assert!(row.vector == -1 || row.irq_ns != 0, "{row:?}");
}

impl Seen {
    /// Requests of a device with this REQ_OP.
    pub fn requests(&self, device: u32, op: u32) -> Vec<BlockRow> {
        let wanted = |row: &&BlockRow| row.device == device && row.cmd_flags & REQ_OP_MASK == op;
        self.rows.iter().filter(wanted).copied().collect()
    }

    /// Reads that fio made from a device.
    pub fn reads_of_fio(&self, device: u32) -> Vec<BlockRow> {
        self.requests(device, REQ_OP_READ)
            .into_iter()
            .filter(is_of_fio)
            .collect()
    }
}

/// Whether fio, or an io_uring worker on its behalf, submitted it.
pub fn is_of_fio(row: &BlockRow) -> bool {
    row.comm.starts_with(b"fio") || row.comm.starts_with(b"iou-wrk")
}

/// Operations of the submitter behind requests: each request is one, and each merged bio another.
pub fn operations(rows: &[BlockRow]) -> u64 {
    rows.iter().map(|row| 1 + u64::from(row.merges)).sum()
}

pub fn bytes(rows: &[BlockRow]) -> u64 {
    rows.iter().map(|row| u64::from(row.size_bytes)).sum()
}
