//! The block probe, as the recording sees it.
use case::meta::{ProbeMeta, SystemMeta, Unseen};
use std::collections::BTreeMap;
use std::path::Path;

/// The probe at work.
pub struct Probe {}

/// What it leaves behind.
pub struct Stopped {
    /// Accounts by probe name.
    pub probes: BTreeMap<String, ProbeMeta>,
    /// What it could not see.
    pub not_observed: Vec<Unseen>,
    /// Why its events are not all on disk.
    pub failure: Option<String>,
}

impl Probe {
    /// Attaches. Error: why this host does not let us, and what to do.
    pub fn start(_raw: &Path, _system: &SystemMeta, _join_tgid: Option<i32>) -> Result<Probe, String> {
        Err("not built in yet".into())
    }

    /// Events received and lost so far.
    pub fn counts(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Why the probe had to stop writing, if it had to.
    pub fn failed(&self) -> Option<String> {
        None
    }

    /// Detaches and closes the streams.
    pub fn stop(self) -> Stopped {
        Stopped {
            probes: BTreeMap::new(),
            not_observed: Vec::new(),
            failure: None,
        }
    }
}

/// Loads and attaches for a moment.
pub fn try_out() -> Result<(), String> {
    Err("not built in yet".into())
}
