//! Recording system calls of this process and its children.
use super::{folder_on_disk, read};
use case::rows::{FileRow, SyscallRow};
use record::{Config, ProbeSummary, Recorder, Running};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::TempDir;

/// Number of a system call in `SyscallRow::call`.
pub fn number(call: libc::c_long) -> u16 {
    call as u16
}

/// A file as rows know it.
pub fn file_id(path: &Path) -> (u32, u64) {
    let facts = std::fs::metadata(path).unwrap();
    (kernel_device(facts.dev()), facts.ino())
}

/// Kernel dev_t of a device number.
pub fn kernel_device(number: u64) -> u32 {
    libc::major(number) << 20 | libc::minor(number)
}

/// Probe `syscall` alone, and only this process and its children.
pub fn only_us() -> Config {
    Config {
        command_pid: Some(std::process::id()),
        ..Config::only(&["syscall"])
    }
}

/// A recording of system calls.
pub struct CallRecording {
    folder: TempDir,
    running: Running,
}

/// What it has seen.
pub struct Calls {
    pub summary: ProbeSummary,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub rows: Vec<SyscallRow>,
    pub losses: String,
    /// Device and inode to the last name.
    pub names: HashMap<(u32, u64), String>,
}

impl CallRecording {
    pub fn start(recorder: Recorder) -> CallRecording {
        let folder = folder_on_disk();
        let running = recorder.start(folder.path()).unwrap();
        CallRecording { folder, running }
    }

    /// Ends it and checks what must hold in every recording.
    pub fn stop(self) -> Calls {
        let mut whole = self.running.stop().unwrap();
        assert!(whole.write_error.is_none(), "{whole:?}");
        let summary = whole.probes.remove("syscall").unwrap();
        let rows: Vec<SyscallRow> = read(&self.folder.path().join("syscall/syscall.arrows"));
        let files: Vec<FileRow> = read(&self.folder.path().join("file/file.arrows"));
        assert_eq!(summary.received, rows.len() as u64);
        let losses = std::fs::read_to_string(self.folder.path().join("losses.jsonl")).unwrap();
        let keys: std::collections::HashSet<u64> = rows.iter().map(|row| row.op_key).collect();
        assert_eq!(keys.len(), rows.len(), "keys are unique");
        for row in &rows {
            assert!(row.end_ns == 0 || row.start_ns <= row.end_ns, "{row:?}");
            assert!(row.start_ns > 0 && row.pid > 0 && row.tid > 0, "{row:?}");
        }
        Calls {
            summary,
            begin_ns: whole.begin_ns,
            end_ns: whole.end_ns,
            rows,
            losses,
            names: names(&files),
        }
    }
}

/// Records while `workload` runs; nothing may be lost.
pub fn record_calls(config: Config, workload: impl FnOnce()) -> Calls {
    let recording = CallRecording::start(Recorder::attach(config).unwrap());
    workload();
    let calls = recording.stop();
    assert_eq!((calls.losses.as_str(), calls.summary.lost), ("", 0));
    calls
}

fn names(rows: &[FileRow]) -> HashMap<(u32, u64), String> {
    let mut names = HashMap::new();
    let mut path = Vec::new();
    for row in rows {
        if row.part == 0 {
            path.clear();
        }
        path.extend(row.path.iter().take_while(|byte| **byte != 0));
        if row.part + 1 == row.parts {
            let name = String::from_utf8(path.clone()).unwrap();
            names.insert((row.device, row.inode), name);
        }
    }
    names
}

impl Calls {
    /// Operations on a file.
    pub fn on(&self, path: &Path) -> Vec<SyscallRow> {
        let file = file_id(path);
        let wanted = |row: &&SyscallRow| (row.device, row.inode) == file;
        self.rows.iter().filter(wanted).copied().collect()
    }

    /// How many of these calls are on a file.
    pub fn count_on(&self, path: &Path, call: libc::c_long) -> usize {
        let rows = self.on(path);
        rows.iter()
            .filter(|row| row.via == 0 && row.call == number(call))
            .count()
    }

    /// The name of a file.
    pub fn name(&self, path: &Path) -> &str {
        self.names.get(&file_id(path)).map_or("", String::as_str)
    }
}
