//! The command `slowdisk`: options as text, a disk until it is told to stop, and what it did.
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::device::{Config, Slowdisk, Stats};
use crate::error::SlowdiskError;
use crate::fault::Fault;
use crate::model::Model;
use crate::units::{
    format_duration_ns, format_size, parse_duration_ns, parse_size, SIZE_EXPECTED, TIME_EXPECTED,
};

/// Options of the command, as given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// `--size`, e.g. `1GiB`.
    pub size: String,
    /// `--fault`, each in the grammar of [`crate::FAULT_HELP`].
    pub faults: Vec<String>,
    /// `--latency`, e.g. `100us`: what every read and write takes; None: as fast as it can.
    pub latency: Option<String>,
    /// `--seed`.
    pub seed: u64,
    /// `--backing`: file for the data; None: memory.
    pub backing: Option<PathBuf>,
    /// `--log`: file for one JSON line per injected fault.
    pub log: Option<PathBuf>,
    /// `--duration`, e.g. `60s`; None: until stopped.
    pub duration: Option<String>,
}

impl Options {
    /// Parses the texts.
    pub fn config(&self) -> Result<Config, SlowdiskError> {
        let faults = self
            .faults
            .iter()
            .map(|text| Fault::parse(text))
            .collect::<Result<_, _>>()?;
        let size_bytes =
            parse_size(&self.size).ok_or_else(|| bad_option("--size", &self.size, SIZE_EXPECTED))?;
        Ok(Config {
            size_bytes,
            faults,
            latency_ns: parse_time("--latency", self.latency.as_deref())?.unwrap_or(0),
            seed: self.seed,
            backing: self.backing.clone(),
            log: self.log.clone(),
        })
    }
}

/// Runs a disk, as slow as faults and `model` make it, until `stop` is set or the duration is over.
///
/// The first line on `out` is the path of the device, ready for use. At the end it writes what the disk did, and
/// on stderr what is left to do (a device that is still open).
pub fn serve(
    options: &Options,
    model: Option<Box<dyn Model>>,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<Stats, SlowdiskError> {
    let duration = parse_time("--duration", options.duration.as_deref())?.map(Duration::from_nanos);
    let disk = Slowdisk::start_as(options.config()?, model)?;
    let begin = Instant::now();
    writeln!(out, "{}", disk.device().display())
        .and_then(|()| out.flush())
        .map_err(cannot_print)?;
    while !stop.load(Relaxed) && duration.is_none_or(|duration| begin.elapsed() < duration) {
        thread::sleep(Duration::from_millis(20));
    }
    let stats = disk.stats();
    for warning in disk.stop() {
        eprintln!("whodisk: {warning}");
    }
    out.write_all(describe(&stats).as_bytes())
        .and_then(|()| out.flush())
        .map_err(cannot_print)?;
    Ok(stats)
}

/// What a disk did, a line per subject.
pub fn describe(stats: &Stats) -> String {
    let Stats {
        reads,
        writes,
        flushes,
        discards,
        lateness,
        ..
    } = stats;
    let (read_size, write_size) = (format_size(stats.read_bytes), format_size(stats.write_bytes));
    let mut text =
        format!("reads {reads} ({read_size}), writes {writes} ({write_size}), flushes {flushes}, discards {discards}\n");
    for fault in &stats.faults {
        let (hits, matched) = (fault.hits, fault.matched);
        let added = format_duration_ns(fault.delay_sum_ns / 1000 * 1000);
        text += &format!(
            "fault '{}': hit {hits} of {matched} requests, added {added} in all\n",
            fault.fault
        );
    }
    if let Some(mean_ns) = lateness.sum_ns.checked_div(lateness.count) {
        let mean_us = mean_ns / 1000;
        text += &format!(
            "timers were late by {mean_us} us on average, {} us at most\n",
            lateness.max_ns / 1000
        );
    }
    text
}

fn parse_time(option: &'static str, text: Option<&str>) -> Result<Option<u64>, SlowdiskError> {
    let parse = |text| parse_duration_ns(text).ok_or_else(|| bad_option(option, text, TIME_EXPECTED));
    text.map(parse).transpose()
}

fn bad_option(option: &'static str, found: &str, expected: &str) -> SlowdiskError {
    SlowdiskError::Option {
        option,
        found: format!("'{found}'"),
        expected: expected.into(),
        hint: "add the unit without a space".into(),
    }
}

fn cannot_print(source: io::Error) -> SlowdiskError {
    SlowdiskError::System {
        action: "print",
        source,
        hint: "keep the output open while the disk runs",
    }
}
