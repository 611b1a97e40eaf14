//! `case.json` and `system.json`.
//!
//! `case.json` is written at the start (state `recording`), replaced atomically at the end of the
//! recording (`recorded`) and by sealing (`sealed`). Unknown keys of the same version are kept out
//! of the way: readers ignore them.
use crate::schema::FORMAT_VERSION;
use crate::CaseError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Name of the file that makes a directory a case.
pub const CASE_JSON: &str = "case.json";

/// Name of the file with the host's facts.
pub const SYSTEM_JSON: &str = "system.json";

/// What `CaseMeta::format` says.
pub const FORMAT_NAME: &str = "whodisk-case";

/// Life of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The observer is (or was, when it was killed) at work.
    #[default]
    Recording,
    /// The observer ended properly; raw streams are whole.
    Recorded,
    /// Parquet tables are complete.
    Sealed,
}

/// What one layer of this case covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerMeta {
    /// Rows sealed.
    pub rows: u64,
    /// Stage column -> printed name of what it covers here, e.g. `fs_ns` -> `fs+queue+device` where the
    /// boundaries below were not observed. Columns that are absent here are NULL in every row.
    pub stages: BTreeMap<String, String>,
    /// How operations were tied to the layer below: `exact (user_data)`, `none`.
    pub join: String,
    /// Only operations that took longer are in the layer: whoever logged them left out the others. None: nothing is known of such a cut-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_than_ns: Option<i64>,
    /// Operations that were due and never began, since they were late already: whoever asked for them says how many. They are no rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// Operations that failed, of which the log has no time. They are no rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Operations whose end is not in the log, though others that began later ended. They are no rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_end: Option<u64>,
}

/// One thing that could not be seen, and why; verdicts repeat it under `cannot_exclude`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// What.
    pub what: String,
    /// Why, and where possible what to do about it.
    pub because: String,
}

/// A named part of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// `ramp`, `measure`.
    pub name: String,
    /// Since case start.
    pub start_ns: i64,
    /// Since case start.
    pub end_ns: i64,
}

/// A probe's account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeMeta {
    /// Kernel hooks it attached to.
    pub attached: Vec<String>,
    /// Events received.
    pub received: u64,
    /// Events lost, all reasons.
    pub lost: u64,
    /// `recursion_misses` over its programs.
    pub recursion_misses: u64,
    /// The recorder's own requests, left out.
    pub own_excluded: u64,
    /// Bytes of those.
    pub own_excluded_bytes: u64,
    /// Events left out because they are not in the recording's `scope`. Calls count before it is known whether they
    /// are on storage.
    #[serde(default)]
    pub out_of_scope: u64,
    /// What else it counted, and the thresholds below which it wrote no rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
}

/// A change of what a recording with a CPU budget kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplingLevel {
    /// From when on, since the case's start.
    pub start_ns: i64,
    /// The recorder kept one typical operation in this many; a power of two, 1 = all.
    pub one_in: u32,
    /// CPU time that the recorder had taken in the second before, as a part of one CPU.
    pub cpu_share: f64,
}

/// What was left out of a device's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutMeta {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How a recording kept to its CPU budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplingMeta {
    /// CPU time that the recorder was to take at most, as a part of one CPU.
    pub cpu_budget: f64,
    /// Changes in order of time. Before the first, everything was kept.
    pub levels: Vec<SamplingLevel>,
    /// Block requests that were left out, by device.
    pub left_out: BTreeMap<String, LeftOutMeta>,
    /// Operations of programs that were left out.
    pub calls_left_out: u64,
}

/// What a recording was limited to: processes (any of those), and places (any of those); both where both are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeMeta {
    /// Processes and their descendants, the observed command among them.
    pub pids: Vec<i32>,
    /// Folders of control groups.
    pub cgroups: Vec<String>,
    /// Block devices.
    pub devices: Vec<String>,
    /// Files and folders.
    pub paths: Vec<String>,
}

/// The clock of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `CLOCK_MONOTONIC` (or `virtual` for the lab).
    pub name: String,
    /// Host that the clock belongs to.
    pub host: String,
    /// Value at the case's start: raw time minus this = sealed time.
    pub start_ns: u64,
    /// Smallest step observed, ns.
    pub resolution_ns: u64,
}

/// One sealed file, as the seal wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableMeta {
    /// Rows.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// XXH64 (seed 0) of the whole file, 16 hexadecimal digits: Parquet itself has no checksum that every
    /// writer and reader knows.
    pub xxh64: String,
}

/// An operation that made a flight recorder write this case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiredMeta {
    /// The trigger, as it was given.
    pub trigger: String,
    /// What of it was too long: `latency`, or `age` of what had not ended.
    pub measure: String,
    /// What it had to exceed, ns.
    pub limit_ns: u64,
    /// How long it took, or how old it was, ns.
    pub time_ns: u64,
    /// Its begin, since the case's start; a request's is when it came to the device's queue.
    pub start_ns: i64,
    /// Layer: `block` or `syscall`.
    pub layer: String,
    /// Kind, as in the tables.
    pub op: String,
    /// Its device; empty if not known.
    pub device: String,
    /// Submitting process; -1 if not known.
    pub pid: i32,
    /// Submitting thread.
    pub tid: i32,
    /// Its command name.
    pub comm: String,
}

/// `case.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseMeta {
    /// Always `whodisk-case`.
    pub format: String,
    /// `schema::FORMAT_VERSION`.
    pub version: u32,
    /// `record`, `run`, `import`, `lab`.
    pub observer: String,
    /// Version of the tool.
    pub tool_version: String,
    /// Command line of the observer.
    pub argv: Vec<String>,
    /// The observed command, if there was one.
    pub command: Vec<String>,
    /// What the recording was limited to; None: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeMeta>,
    /// How it kept to a CPU budget; None: it had none, and kept everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingMeta>,
    /// Its pid and exit status in words (`exit 0`, `signal 9`), when it ended.
    pub command_pid: Option<i32>,
    /// See `command_pid`.
    pub command_status: Option<String>,
    /// RFC 3339 UTC.
    pub start_utc: String,
    /// Clock domain.
    pub clock: Clock,
    /// Of a flight recorder's case the operations that triggered, the first one first; at most sixteen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fired: Vec<FiredMeta>,
    /// Length of the recording; None until known.
    pub duration_ns: Option<i64>,
    /// Life.
    pub state: State,
    /// True for lab cases.
    pub simulated: bool,
    /// Names were replaced by tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// Layers by name.
    pub layers: BTreeMap<String, LayerMeta>,
    /// Probes by name.
    pub probes: BTreeMap<String, ProbeMeta>,
    /// Phases; statistics use `measure` where it exists.
    pub phases: Vec<Phase>,
    /// The workload's specification and its summary (offered and achieved rate), for `run`.
    pub workload: Option<serde_json::Value>,
    /// What could not be observed.
    pub not_observed: Vec<Unseen>,
    /// What an import could not carry over.
    pub not_carried: Vec<Unseen>,
    /// Questions this case leaves open.
    pub open_questions: Vec<String>,
    /// Sealed files by path inside the case; what `SealWriter::finish` returned. Empty until sealed.
    #[serde(default)]
    pub tables: BTreeMap<String, TableMeta>,
}

impl CaseMeta {
    /// An otherwise empty description of a case that begins now.
    pub fn new(observer: &str, tool_version: &str) -> CaseMeta {
        CaseMeta {
            format: FORMAT_NAME.into(),
            version: FORMAT_VERSION,
            observer: observer.into(),
            tool_version: tool_version.into(),
            ..CaseMeta::default()
        }
    }

    /// Reads `case_dir/case.json`. Errors: missing, not JSON, wrong format, newer version.
    pub fn read(case_dir: &Path) -> Result<CaseMeta, CaseError> {
        let path = case_dir.join(CASE_JSON);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(not_a_case(case_dir)),
            Err(e) => return Err(CaseError::io(&path, "read", e)),
        };
        CaseMeta::parse(&text, &path)
    }

    /// Reads the text of a `case.json`; `path` is for errors only. The version is checked before any
    /// other key, because a newer version may have changed them.
    pub fn parse(text: &[u8], path: &Path) -> Result<CaseMeta, CaseError> {
        let value: serde_json::Value = parse_json(text, path)?;
        let hint = "it is damaged, or not written by whodisk";
        let format = value.get("format");
        if format.and_then(|f| f.as_str()) != Some(FORMAT_NAME) {
            let expected = format!("\"{FORMAT_NAME}\"");
            return Err(CaseError::format(
                path,
                "key format",
                expected,
                or_none(format),
                hint,
            ));
        }
        let version = value.get("version");
        let Some(found) = version
            .and_then(|v| v.as_u64())
            .and_then(|v| u32::try_from(v).ok())
        else {
            return Err(CaseError::format(
                path,
                "key version",
                "a number",
                or_none(version),
                hint,
            ));
        };
        if found > FORMAT_VERSION {
            return Err(CaseError::TooNew {
                path: path.into(),
                found,
                supported: FORMAT_VERSION,
            });
        }
        if found == 0 {
            let expected = format!("1 to {FORMAT_VERSION}");
            return Err(CaseError::format(path, "key version", expected, "0", hint));
        }
        parse_json(text, path)
    }

    /// The text of `case.json`.
    pub fn to_json(&self) -> Vec<u8> {
        json_text(self)
    }

    /// Replaces `case_dir/case.json` atomically.
    pub fn write(&self, case_dir: &Path) -> Result<(), CaseError> {
        write_json(&case_dir.join(CASE_JSON), &self.to_json())
    }
}

fn or_none(value: Option<&serde_json::Value>) -> String {
    value.map_or_else(|| "no such key".into(), |v| v.to_string())
}

fn not_a_case(case_dir: &Path) -> CaseError {
    let (found, hint) = match std::fs::metadata(case_dir) {
        Err(_) => ("no such directory", "check the path"),
        Ok(m) if !m.is_dir() => ("a file", "give the directory that holds case.json"),
        Ok(_) => (
            "a directory without case.json",
            "give a directory that whodisk record or run wrote",
        ),
    };
    CaseError::format(case_dir, "not a case", "a directory with case.json", found, hint)
}

/// Parses JSON; an error names line and column, and serde says which key was expected there.
fn parse_json<T: DeserializeOwned>(text: &[u8], path: &Path) -> Result<T, CaseError> {
    serde_json::from_slice(text).map_err(|error| {
        let at = format!("line {} column {}", error.line(), error.column());
        let (expected, hint) = match error.classify() {
            serde_json::error::Category::Data => (
                "the keys of the case format",
                "it was edited or written by another version",
            ),
            _ => ("JSON", "it is damaged; restore it from a copy of the case"),
        };
        let text = error.to_string();
        let found = text.split(" at line ").next().unwrap_or(&text).to_owned();
        CaseError::format(path, at, expected, found, hint)
    })
}

fn json_text(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("our own types have a JSON form");
    text.push(b'\n');
    text
}

/// Replaces a file atomically: a reader sees the old or the new content, also after a crash.
fn write_json(path: &Path, text: &[u8]) -> Result<(), CaseError> {
    let temp = path.with_extension("json.tmp");
    let io = |e| CaseError::io(path, "write", e);
    let written = File::create(&temp).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // Best effort: a half temporary file would only take space.
        let _ = std::fs::remove_file(&temp);
        return Err(io(error));
    }
    std::fs::rename(&temp, path).map_err(io)?;
    sync_folder_of(path)
}

/// Makes the directory entry of `path` durable.
pub(crate) fn sync_folder_of(path: &Path) -> Result<(), CaseError> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| CaseError::io(folder, "make the folder durable", e))
}

/// One block device of `system.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceMeta {
    /// Kernel name.
    pub name: String,
    /// Kernel dev_t: `major << 20 | minor`.
    pub dev: u32,
    /// Size.
    pub size_bytes: u64,
    /// Everything of `/sys/block/NAME/queue/` worth knowing, as text (`scheduler`, `nr_requests`, `read_ahead_kb`, `max_sectors_kb`, `rotational`, `write_cache`, ...).
    pub queue: BTreeMap<String, String>,
    /// Model, serial, firmware, NUMA node, slot, PCIe link, backing file of a loop device, where known.
    pub facts: BTreeMap<String, String>,
}

/// A file system whose journal lies on another device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JournalMeta {
    /// Kernel name of the device or partition that the file system is on.
    pub file_system: String,
    /// Its kernel dev_t: `major << 20 | minor`.
    pub dev: u32,
    /// Kernel name of the device or partition that the journal is on.
    pub journal: String,
    /// Its kernel dev_t.
    pub journal_dev: u32,
    /// The disk that this is a part of, or itself.
    pub journal_disk: String,
}

/// `system.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemMeta {
    /// Host name.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
    /// NUMA node -> its CPUs, as the kernel lists them (`0-7,16-23`). Absent where the kernel tells no nodes, and in cases of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numa_nodes: BTreeMap<String, String>,
    /// CPU model.
    pub cpu_model: String,
    /// Memory.
    pub memory_bytes: u64,
    /// `kvm`, `none`, ... as far as it is known.
    pub virtualization: String,
    /// Block devices by name.
    pub devices: BTreeMap<String, DeviceMeta>,
    /// Mounts: target -> [source, type, options].
    pub mounts: BTreeMap<String, [String; 3]>,
    /// File systems that spread over several devices (btrfs): the devices of each. Absent where there are none, and in cases of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Vec<String>>,
    /// File systems whose journal lies on another device. Absent where there are none, and in cases of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journals: Vec<JournalMeta>,
    /// Devices and files that memory is swapped out to. Absent where there are none, and in cases of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swaps: Vec<String>,
    /// Limits of dirty pages: `dirty_bytes`, `dirty_background_bytes` (0: the ratio counts), `dirty_ratio`, `dirty_background_ratio` (% of memory), as
    /// /proc/sys/vm has them. Absent in cases of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dirty_limits: BTreeMap<String, u64>,
    /// Interrupts of block devices: Linux irq number -> [handler names, smp_affinity_list].
    pub irqs: BTreeMap<String, [String; 2]>,
    /// Programs that serve storage from user space (FUSE, ublk, and nbd and iSCSI on this host): process id -> block devices and mount points. Absent in
    /// cases of earlier versions.
    #[serde(default)]
    pub servers: BTreeMap<String, Vec<String>>,
    /// Names of the kernel's own threads, at the begin or the end of the recording, with `#` for each number: `kworker/u#:#`. Absent in
    /// cases of earlier versions.
    #[serde(default)]
    pub kernel_threads: BTreeSet<String>,
    /// Processes with several threads, at the begin or the end of the recording: process id -> its name. A thread may be called otherwise. Absent in cases of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<String, String>,
    /// The recorder itself: process id -> names of its own threads there. They separate the waits that it caused from those that
    /// a program caused. Absent where nothing was recorded (imports, the lab) and in cases of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recorder: BTreeMap<String, BTreeSet<String>>,
    /// Control groups of the I/O controller's hierarchy, at the begin or the end of the recording: inode number of the folder
    /// (what the kernel calls its id) -> path of the folder. Absent in cases of earlier versions.
    #[serde(default)]
    pub cgroups: BTreeMap<u64, String>,
    /// Changes noticed at the end of the recording.
    pub changes: Vec<String>,
}

impl SystemMeta {
    /// Collects the facts of this host from /proc and /sys; what cannot be read is absent.
    pub fn collect() -> SystemMeta {
        crate::host::collect(Path::new("/"))
    }

    /// Reads `case_dir/system.json`.
    pub fn read(case_dir: &Path) -> Result<SystemMeta, CaseError> {
        let path = case_dir.join(SYSTEM_JSON);
        let text = std::fs::read(&path).map_err(|e| CaseError::io(&path, "read", e))?;
        SystemMeta::parse(&text, &path)
    }

    /// Reads the text of a `system.json`; `path` is for errors only.
    pub fn parse(text: &[u8], path: &Path) -> Result<SystemMeta, CaseError> {
        parse_json(text, path)
    }

    /// Writes `case_dir/system.json` atomically.
    pub fn write(&self, case_dir: &Path) -> Result<(), CaseError> {
        write_json(&case_dir.join(SYSTEM_JSON), &json_text(self))
    }

    /// Name of the device with this kernel dev_t.
    pub fn device_name(&self, dev: u32) -> Option<&str> {
        self.devices
            .values()
            .find(|device| device.dev == dev)
            .map(|device| device.name.as_str())
    }
}
