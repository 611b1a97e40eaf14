//! `case.json` and `system.json`.
//!
//! `case.json` is written at the start (state `recording`), replaced atomically at the end of the
//! recording (`recorded`) and by sealing (`sealed`). Unknown keys of the same version are kept out
//! of the way: readers ignore them.
use crate::CaseError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Life of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The observer is (or was, when it was killed) at work.
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
}

/// The clock of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `CLOCK_MONOTONIC` (or `virtual` for the lab).
    pub name: String,
    /// Host whose clock it is.
    pub host: String,
    /// Value at the case's start: raw time minus this = sealed time.
    pub start_ns: u64,
    /// Smallest step observed, ns.
    pub resolution_ns: u64,
}

/// `case.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Its pid and exit status in words (`exit 0`, `signal 9`), when it ended.
    pub command_pid: Option<i32>,
    /// See `command_pid`.
    pub command_status: Option<String>,
    /// RFC 3339 UTC.
    pub start_utc: String,
    /// Clock domain.
    pub clock: Clock,
    /// Length of the recording; None until known.
    pub duration_ns: Option<i64>,
    /// Life.
    pub state: State,
    /// True for lab cases.
    pub simulated: bool,
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
}

impl CaseMeta {
    /// Reads `case_dir/case.json`. Errors: missing, not JSON, wrong format, newer version.
    pub fn read(_case_dir: &Path) -> Result<CaseMeta, CaseError> {
        todo!()
    }
    /// Replaces `case_dir/case.json` atomically.
    pub fn write(&self, _case_dir: &Path) -> Result<(), CaseError> {
        todo!()
    }
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

/// `system.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemMeta {
    /// Host name.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
    /// CPU model.
    pub cpu_model: String,
    /// Memory.
    pub memory_bytes: u64,
    /// `kvm`, `none`, ... as far as it can be told.
    pub virtualization: String,
    /// Block devices by name.
    pub devices: BTreeMap<String, DeviceMeta>,
    /// Mounts: target -> [source, type, options].
    pub mounts: BTreeMap<String, [String; 3]>,
    /// Interrupts of block devices: Linux irq number -> [name, smp_affinity_list].
    pub irqs: BTreeMap<String, [String; 2]>,
    /// Changes noticed at the end of the recording.
    pub changes: Vec<String>,
}

impl SystemMeta {
    /// Collects the facts of this host from /proc and /sys; what cannot be read is absent.
    pub fn collect() -> SystemMeta {
        todo!()
    }
    /// Reads `case_dir/system.json`.
    pub fn read(_case_dir: &Path) -> Result<SystemMeta, CaseError> {
        todo!()
    }
    /// Writes `case_dir/system.json` atomically.
    pub fn write(&self, _case_dir: &Path) -> Result<(), CaseError> {
        todo!()
    }
    /// Name of the device with this kernel dev_t.
    pub fn device_name(&self, _dev: u32) -> Option<&str> {
        todo!()
    }
}
