//! The account of a recording.
use crate::sampling::LeftOut;
use case::meta::{ProbeMeta, Unseen};
use case::CaseError;
use std::collections::BTreeMap;

/// The account of one probe.
#[derive(Clone, Debug, Default)]
pub struct ProbeSummary {
    /// Hooks or files that it listened to.
    pub attached: Vec<String>,
    /// Events received, those still open at the end included.
    pub received: u64,
    /// Of those, still open at the end.
    pub open: u64,
    /// Events lost for whatever reason; `losses.jsonl` has the windows.
    pub lost: u64,
    /// The recorder's own operations, left out.
    pub own_excluded: u64,
    /// Bytes of those.
    pub own_excluded_bytes: u64,
    /// Events that were left out because they are not in the scope.
    pub out_of_scope: u64,
    /// Refused nested runs, over all its programs.
    pub recursion_misses: u64,
    /// Rows written, by stream.
    pub rows: BTreeMap<String, u64>,
    /// What else the probe counted.
    pub counts: BTreeMap<String, u64>,
}

impl ProbeSummary {
    /// One of the probe's own counts; zero if it has none of that name.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// The part that goes into `case.json`.
    pub fn meta(&self) -> ProbeMeta {
        ProbeMeta {
            attached: self.attached.clone(),
            received: self.received,
            lost: self.lost,
            recursion_misses: self.recursion_misses,
            own_excluded: self.own_excluded,
            own_excluded_bytes: self.own_excluded_bytes,
            out_of_scope: self.out_of_scope,
            counts: self.counts.clone(),
        }
    }
}

/// The account of a recording.
#[derive(Debug, Default)]
pub struct Summary {
    /// `CLOCK_MONOTONIC` at which recording began.
    pub begin_ns: u64,
    /// And ended.
    pub end_ns: u64,
    /// By name of the probe.
    pub probes: BTreeMap<String, ProbeSummary>,
    /// Facts that this host, or the choice of probes, did not let us see.
    pub unseen: Vec<Unseen>,
    /// What ended the writing early (a full disk); `lost` has the rows that came after.
    pub write_error: Option<CaseError>,
    /// Runs and time in ns by `probe/program`; zero unless kernel.bpf_stats_enabled is 1.
    pub program_runs: BTreeMap<String, (u64, u64)>,
    /// Block requests that were left out for the CPU budget, by device.
    pub left_out: BTreeMap<u32, LeftOut>,
    /// Operations of programs likewise.
    pub calls_left_out: u64,
}
