//! `raw/app/workload.json`: what was asked, what was done.
use crate::backend::UringFeatures;
use crate::spec::Spec;
use crate::WorkloadError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Outcome of a run. All moments are CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// As checked, in base units.
    pub spec: Spec,
    /// Process of the engine.
    pub pid: u32,
    /// The rate asked for; None in a closed loop, which offers as much as is taken.
    pub offered_ops_per_s: Option<f64>,
    /// Intended starts inside the measured phase; None in a closed loop.
    pub offered_ops: Option<u64>,
    /// Operations that ended inside the measured phase, per second of it.
    pub achieved_ops_per_s: f64,
    /// Operations logged, those of the ramp and of the drain included.
    pub ops: u64,
    /// Operations that ended inside the measured phase.
    pub ops_measured: u64,
    /// Operations that failed or transferred less than asked.
    pub errors: u64,
    /// Of these, the short ones (logged as EIO, with an event each).
    pub short: u64,
    /// errno -> operations.
    pub errors_by_errno: BTreeMap<i32, u64>,
    /// Bytes of successful reads.
    pub read_bytes: u64,
    /// Bytes of successful writes.
    pub written_bytes: u64,
    /// Successful syncs.
    pub syncs: u64,
    /// Intended starts that came before the end and were never started, since too many operations
    /// were in flight.
    pub missed_slots: u64,
    /// Time workers stood still because the log was behind, summed over workers.
    pub log_stalls_ns: u64,
    /// Events beyond those kept in `events.jsonl`.
    pub events_dropped: u64,
    /// `ramp` (if there is one) and `measure`.
    pub phases: Vec<Phase>,
    /// `duration`, `operations` or `stopped`.
    pub ended_by: &'static str,
    /// Per worker.
    pub workers: Vec<WorkerSummary>,
    /// Per target.
    pub targets: Vec<TargetSummary>,
    /// None for the null target.
    pub io_uring: Option<UringFeatures>,
    /// Doubts about what was measured, in words.
    pub warnings: Vec<String>,
}

/// A part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// `ramp` or `measure`.
    pub name: &'static str,
    /// First moment.
    pub start_ns: u64,
    /// Moment after the last.
    pub end_ns: u64,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerSummary {
    /// Index; its stream is `worker-NNN.arrows`.
    pub worker: u32,
    /// Its thread.
    pub tid: i32,
    /// Rows in its stream.
    pub ops: u64,
    /// Of these, failed or short.
    pub errors: u64,
}

/// One target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetSummary {
    /// Path, or `null`.
    pub name: String,
    /// Part that was used.
    pub size_bytes: u64,
    /// Bytes written before the run to lay it out.
    pub laid_out_bytes: u64,
}

impl Summary {
    /// Replaces `path` at once, so that a reader sees a whole file or none.
    pub(crate) fn write(&self, path: &Path) -> Result<(), WorkloadError> {
        let io_error = |source: std::io::Error| WorkloadError::Io {
            path: path.to_owned(),
            action: "write the summary".into(),
            source,
            hint: "free space or choose another folder".into(),
        };
        let text = serde_json::to_string_pretty(self).map_err(|error| io_error(error.into()))?;
        let partial = path.with_extension("json.partial");
        std::fs::write(&partial, text + "\n").map_err(io_error)?;
        std::fs::rename(&partial, path).map_err(io_error)
    }
}
