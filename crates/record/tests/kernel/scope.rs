//! Limited recordings: what is in the scope is there, exactly; of the rest, nothing that identifies its owner.
use crate::common::{calls::file_id, crowd::in_time, fio, folder_on_disk, read, LoopDevice};
use case::raw::RawRow;
use case::rows::{block_flags, BlockRow, FileRow, SchedRow, SyscallRow, Via};
use record::{Config, Recorder, Scope, Summary};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testing::test;

/// Primes: no other number of ours gives them by accident.
const MINE: u64 = 2003;
const THEIRS: u64 = 1511;

/// What a limited recording has left on disk.
struct Stored {
    folder: TempDir,
    summary: Summary,
}

impl Stored {
    fn rows<R: RawRow>(&self) -> Vec<R> {
        let stream = self.folder.path().join(R::PROBE);
        read(&stream.join(format!("{}.arrows", R::PROBE)))
    }

    fn blocks(&self) -> Vec<BlockRow> {
        self.rows()
    }

    fn calls(&self) -> Vec<SyscallRow> {
        let rows: Vec<SyscallRow> = self.rows();
        rows.into_iter()
            .filter(|row| row.via != Via::Wait as u8)
            .collect()
    }

    fn names(&self) -> Vec<(u32, u64)> {
        let rows: Vec<FileRow> = self.rows();
        rows.iter().map(|row| (row.device, row.inode)).collect()
    }

    fn out_of_scope(&self, probe: &str) -> u64 {
        self.summary.probes[probe].out_of_scope
    }
}

fn record(scope: Scope, command: Option<u32>, workload: impl FnOnce()) -> Stored {
    let config = Config {
        scope,
        command_pid: command,
        ..Config::only(&["block", "syscall", "sched"])
    };
    let folder = folder_on_disk();
    let running = Recorder::attach(config).unwrap().start(folder.path()).unwrap();
    workload();
    let summary = running.stop().unwrap();
    Stored { folder, summary }
}

fn data(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let file = std::fs::File::create(&path).unwrap();
    std::io::copy(&mut std::io::repeat(5).take_bytes(8 << 20), &mut &file).unwrap();
    file.sync_all().unwrap();
    path
}

trait TakeBytes: std::io::Read + Sized {
    fn take_bytes(self, bytes: u64) -> std::io::Take<Self> {
        self.take(bytes)
    }
}

impl<R: std::io::Read> TakeBytes for R {}

/// A fio that reads `count` blocks; one thread, so its process submits.
fn reader(path: &Path, count: u64, further: &[&str]) -> Child {
    let file = format!("--filename={}", path.display());
    let count = format!("--number_ios={count}");
    let mut options = vec![
        "--name=scope",
        &file,
        &count,
        "--rw=randread",
        "--bs=4k",
        "--direct=1",
        "--thread",
    ];
    options.extend([
        "--ioengine=psync",
        "--size=8m",
        "--norandommap",
        "--output-format=terse",
    ]);
    options.extend(further);
    Command::new("fio")
        .args(options)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn reads(rows: &[SyscallRow], pid: i32, file: (u32, u64)) -> u64 {
    let mine = |row: &&SyscallRow| row.pid == pid && (row.device, row.inode) == file && row.op == 0;
    rows.iter().filter(mine).count() as u64
}

/// Begins on command, so that the recording is at work before it.
fn gated(path: &Path, count: u64) -> (Child, impl FnOnce(&mut Child)) {
    let script = format!(
        "read line; exec fio --name=scope --filename={} --number_ios={count} --rw=randread --bs=4k --direct=1 \
         --thread --ioengine=psync --size=8m --norandommap --output-format=terse >/dev/null",
        path.display()
    );
    let child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let open = |child: &mut Child| {
        use std::io::Write;
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    };
    (child, open)
}

/// Nothing in a case shows what a process does, but for those that may be there. The case names who uses the same disk.
fn tells_only_of(stored: &Stored, pids: &[i32], files: &[(u32, u64)]) {
    for row in stored.calls() {
        assert!(pids.contains(&row.pid), "{row:?}");
    }
    for row in stored.rows::<SchedRow>() {
        assert!(pids.contains(&row.pid), "{row:?}");
    }
    for row in stored.blocks() {
        let other = row.pid > 0 && row.tid == -1;
        let nobody = row.owner_key == 0 && row.inode == 0 && row.cgroup == 0;
        let flush =
            row.cmd_flags & crate::common::REQ_OP_MASK == crate::common::REQ_OP_FLUSH && row.comm == [0; 16];
        // A thread of the kernel tells of no program.
        let kernel = row.flags & block_flags::KERNEL != 0;
        assert!(
            pids.contains(&row.pid) || (other || flush || kernel) && nobody,
            "{row:?}"
        );
    }
    for (device, inode) in stored.names() {
        assert!(
            !files.contains(&(device, inode)),
            "the name of a file outside of the scope"
        );
    }
}

#[test]
fn of_two_programs_only_one_is_stored() {
    require_kernel!();
    let folder = folder_on_disk();
    let (mine, theirs) = (data(folder.path(), "mine"), data(folder.path(), "theirs"));
    let (mut child, open) = gated(&mine, MINE);
    let pid = child.id() as i32;
    let scope = Scope {
        pids: vec![pid],
        ..Scope::default()
    };
    let mut their_pid = 0;
    let stored = record(scope, None, || {
        let mut other = reader(&theirs, THEIRS, &[]);
        their_pid = other.id() as i32;
        open(&mut child);
        assert!(child.wait().unwrap().success() && other.wait().unwrap().success());
    });
    assert_eq!(reads(&stored.calls(), pid, file_id(&mine)), MINE);
    assert_eq!(reads(&stored.calls(), their_pid, file_id(&theirs)), 0);
    let blocks = stored.blocks();
    let bytes: u64 = blocks
        .iter()
        .filter(|row| row.pid == pid && row.owner_key != 0 && row.complete_ns != 0)
        .map(|row| u64::from(row.size_bytes))
        .sum();
    assert_eq!(bytes, MINE * 4096);
    tells_only_of(&stored, &[pid], &[file_id(&theirs)]);
    let competing = blocks
        .iter()
        .filter(|row| row.pid == their_pid && row.tid == -1)
        .count() as u64;
    let skipped = stored.out_of_scope("block");
    assert!(competing + skipped >= THEIRS, "{competing} and {skipped}");
    // Threads of the kernel keep their names, and some of them work for the scope.
    let is_kernel = |row: &&BlockRow| row.flags & block_flags::KERNEL != 0;
    let of_kernel = blocks.iter().filter(is_kernel).count() as u64;
    // Whoever else uses that disk meanwhile competes, too. A flush command has no program, whomever it serves.
    let others = blocks.iter().filter(|row| row.pid > 0 && row.tid == -1).count() as u64;
    let nobodys = blocks.iter().filter(|row| row.pid <= 0 && row.tid == -1).count() as u64;
    let counted = stored.summary.probes["block"].count("competing");
    assert!(
        (others..=others + nobodys + of_kernel).contains(&counted),
        "{counted} of {others}, {nobodys} and {of_kernel}"
    );
    assert!(stored.out_of_scope("syscall") >= THEIRS);
}

#[test]
fn what_runs_already_is_attached_to_with_its_children() {
    require_kernel!();
    in_time(|| {
        let folder = folder_on_disk();
        let path = data(folder.path(), "data");
        // A shell that runs already, and starts one reader after the other.
        let script = format!(
            "while :; do dd if={} of=/dev/null bs=4k count=7 iflag=direct 2>/dev/null; done",
            path.display()
        );
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let scope = Scope {
            pids: vec![shell.id() as i32],
            ..Scope::default()
        };
        let stored = record(scope, None, || std::thread::sleep(Duration::from_millis(700)));
        shell.kill().unwrap();
        shell.wait().unwrap();
        let calls = stored.calls();
        let of_file = |row: &&SyscallRow| (row.device, row.inode) == file_id(&path) && row.size_bytes == 4096;
        let whole: Vec<&SyscallRow> = calls.iter().filter(of_file).collect();
        let children: std::collections::BTreeSet<i32> = whole.iter().map(|row| row.pid).collect();
        assert!(children.len() >= 2, "{} children", children.len());
        assert!(whole.len() > 14);
    });
}

#[test]
fn a_device_has_all_requests_and_no_other_device_any() {
    require_kernel!();
    let (mine, other) = (LoopDevice::new(16 << 20), LoopDevice::new(16 << 20));
    let scope = Scope {
        devices: vec![PathBuf::from(&mine.path)],
        ..Scope::default()
    };
    let count = format!("--number_ios={MINE}");
    let stored = record(scope, None, || {
        fio(&mine.path, &["--rw=randread", "--size=16m", "--thread", &count]);
        fio(&other.path, &["--rw=randread", "--size=16m", "--thread", &count]);
    });
    let blocks = stored.blocks();
    assert!(blocks.iter().all(|row| row.device == mine.device));
    let data = blocks
        .iter()
        .filter(|row| row.cmd_flags & crate::common::REQ_OP_MASK == crate::common::REQ_OP_READ);
    let bytes: u64 = data.map(|row| u64::from(row.size_bytes)).sum();
    assert!(bytes >= MINE * 4096, "{bytes}");
    assert!(stored.calls().iter().all(|row| row.device == mine.device));
    let reads = |row: &&SyscallRow| row.op == 0 && row.via == Via::Uring as u8;
    assert_eq!(stored.calls().iter().filter(reads).count() as u64, MINE);
    assert!(stored.out_of_scope("block") > 0 && stored.out_of_scope("syscall") >= MINE);
}

#[test]
fn a_path_has_its_files_only() {
    require_kernel!();
    in_time(|| {
        let folder = folder_on_disk();
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let (mine, theirs) = (data(&inside, "mine"), data(folder.path(), "theirs"));
        for scoped in [inside, mine.clone()] {
            let scope = Scope {
                paths: vec![scoped],
                ..Scope::default()
            };
            let stored = record(scope, None, || {
                for (path, count) in [(&mine, MINE), (&theirs, THEIRS)] {
                    assert!(reader(path, count, &[]).wait().unwrap().success());
                }
            });
            let calls = stored.calls();
            assert!(calls.iter().all(|row| (row.device, row.inode) == file_id(&mine)));
            let data = calls.iter().filter(|row| row.op == 0 && row.size_bytes == 4096);
            assert_eq!(data.count() as u64, MINE);
            assert_eq!(
                stored
                    .names()
                    .iter()
                    .filter(|file| **file != file_id(&mine))
                    .count(),
                0
            );
            let within = stored
                .blocks()
                .into_iter()
                .filter(|row| !row.comm.starts_with(b"other\0"));
            let bytes: u64 = within
                .filter(|row| row.owner_key != 0)
                .map(|row| u64::from(row.size_bytes))
                .sum();
            assert_eq!(bytes, MINE * 4096);
        }
    });
}

/// A control group of cgroup v1, of any controller that is mounted; removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let parents = ["blkio", "cpu", "memory", "pids"].map(|name| Path::new("/sys/fs/cgroup").join(name));
        let parent = parents
            .into_iter()
            .find(|path| path.join("cgroup.procs").exists())?;
        let path = parent.join(format!("whodisk-scope-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        Some(Group(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_control_group_has_who_is_in_it_and_who_comes() {
    require_kernel!();
    in_time(|| {
        let Some(group) = Group::new() else {
            testing::skip("no control group of cgroup v1 can be made here");
        };
        let folder = folder_on_disk();
        let (mine, theirs) = (data(folder.path(), "mine"), data(folder.path(), "theirs"));
        let (mut child, open) = gated(&mine, MINE);
        let pid = child.id() as i32;
        let scope = Scope {
            cgroups: vec![group.0.clone()],
            ..Scope::default()
        };
        let stored = record(scope, None, || {
            // Comes into the group while the recording lasts, and is found there by the next look.
            std::fs::write(group.0.join("cgroup.procs"), pid.to_string()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            let mut other = reader(&theirs, THEIRS, &[]);
            open(&mut child);
            assert!(child.wait().unwrap().success() && other.wait().unwrap().success());
        });
        assert_eq!(reads(&stored.calls(), pid, file_id(&mine)), MINE);
        tells_only_of(&stored, &[pid], &[file_id(&theirs)]);
    });
}

/// More than the table of who is in the scope holds at once.
const CHILDREN: u32 = 70_000;

#[test("minutes on a busy machine")]
fn a_program_that_starts_very_many_others_stays_in_the_scope() {
    require_kernel!();
    in_time(|| {
        let folder = folder_on_disk();
        let mine = data(folder.path(), "mine");
        let scope = Scope {
            pids: vec![std::process::id() as i32],
            ..Scope::default()
        };
        let mut last = 0;
        let stored = record(scope, None, || {
            for _ in 0..CHILDREN {
                // SAFETY: the child does nothing but end, and the parent waits for it.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        libc::_exit(0);
                    }
                    assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
                }
            }
            let mut child = reader(&mine, MINE, &[]);
            last = child.id() as i32;
            assert!(child.wait().unwrap().success());
        });
        assert_eq!(reads(&stored.calls(), last, file_id(&mine)), MINE);
        for (name, probe) in &stored.summary.probes {
            assert_eq!(probe.lost, 0, "{name}");
        }
    });
}
