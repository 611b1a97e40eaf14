//! The recorder as a recording of ours sees it.
use case::meta::{ProbeMeta, Unseen};
use record::{
    memory, shortened, Config, FlightConfig, FlightCounts, LeftOut, Level, RecordError, Recorder, Running,
    Scope, Snapshot,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::Receiver;

/// The probes at work.
pub struct Probes {
    running: Running,
}

/// The probes in the kernel, not recording yet.
pub struct Attached {
    recorder: Recorder,
    /// Why the rings between kernel and recorder are smaller than usual, if they are.
    pub little_memory: Option<String>,
}

impl Attached {
    /// Loads and attaches the probes named, or all. `command_pid` is the process that is about to be observed;
    /// `own_engine`: it is our own engine, with operation ids to read. `scope`: what is recorded.
    /// `cpu_budget`: CPU time that the recorder may take, of one CPU, before it samples.
    /// Error: why this host does not let us, in one line.
    pub fn attach(
        probes: Option<Vec<String>>,
        command_pid: Option<i32>,
        own_engine: bool,
        scope: Scope,
        cpu_budget: Option<f64>,
    ) -> Result<Attached, String> {
        let command_pid = command_pid.and_then(|pid| u32::try_from(pid).ok());
        let available = memory::available();
        let config = Config {
            probes,
            command_pid,
            join_tgid: command_pid.filter(|_| own_engine),
            scope,
            cpu_budget,
            ..Config::default()
        }
        .fit(available.as_ref());
        let small = available.filter(|_| config.ring_halvings > 0).map(|available| {
            format!(
                "{} MiB of memory are available ({}): the rings between kernel and recorder have 1/{} of their usual \
                 size, and a burst that fills them is counted as lost",
                available.bytes >> 20,
                available.source.display(),
                1 << config.ring_halvings
            )
        });
        let recorder = Recorder::attach(config).map_err(|error| shortened(&error.to_string()))?;
        Ok(Attached {
            recorder,
            little_memory: small,
        })
    }

    /// What will be missing.
    pub fn unseen(&self) -> &[Unseen] {
        self.recorder.unseen()
    }

    /// Creates the streams and begins to record.
    pub fn start(self, raw: &Path) -> Result<Probes, RecordError> {
        let running = self.recorder.start(raw)?;
        Ok(Probes { running })
    }
}

impl Attached {
    /// Begins to record into memory; see [`Recorder::start_flight`].
    pub fn start_flight(self, config: FlightConfig) -> Result<(Probes, Receiver<Snapshot>), RecordError> {
        let (running, snapshots) = self.recorder.start_flight(config)?;
        Ok((Probes { running }, snapshots))
    }
}

/// What they leave behind.
pub struct Stopped {
    /// When they stopped, CLOCK_MONOTONIC; unknown if that failed.
    pub at_ns: Option<u64>,
    /// The account of each.
    pub probes: BTreeMap<String, ProbeMeta>,
    /// Rows on disk, by stream.
    pub rows: BTreeMap<String, u64>,
    /// Why their events are not all on disk.
    pub failure: Option<String>,
    /// Block requests left out for the CPU budget, by device.
    pub left_out: BTreeMap<u32, LeftOut>,
    /// Operations of programs likewise.
    pub calls_left_out: u64,
}

impl Probes {
    /// Block requests received so far.
    pub fn block_requests(&self) -> u64 {
        self.running.received("block")
    }

    /// Numbers of the flight recorder.
    pub fn flight_counts(&self) -> FlightCounts {
        self.running.flight_counts()
    }

    /// Changes of what is kept since the last call.
    pub fn take_levels(&self) -> Vec<Level> {
        self.running.take_levels()
    }

    /// Detaches and closes the streams.
    pub fn stop(self) -> Stopped {
        match self.running.stop() {
            Ok(summary) => Stopped {
                at_ns: (summary.end_ns > 0).then_some(summary.end_ns),
                failure: summary.write_error.as_ref().map(ToString::to_string),
                probes: summary
                    .probes
                    .iter()
                    .map(|(name, probe)| (name.clone(), probe.meta()))
                    .collect(),
                rows: summary
                    .probes
                    .into_values()
                    .flat_map(|probe| probe.rows)
                    .collect(),
                left_out: summary.left_out,
                calls_left_out: summary.calls_left_out,
            },
            Err(error) => Stopped {
                at_ns: None,
                probes: BTreeMap::new(),
                rows: BTreeMap::new(),
                failure: Some(error.to_string()),
                left_out: BTreeMap::new(),
                calls_left_out: 0,
            },
        }
    }
}
