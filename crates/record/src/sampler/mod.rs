//! The probe `sampler`: counters that the kernel shows in `/proc` and `/sys`, once a second. It needs no privileges.
//!
//! Where a hypervisor ever took CPU time from this machine, the steal time of all CPUs together is looked at more often: it comes in
//! bursts, and operations are late by less than a second.
mod groups;
mod sources;

use crate::error::RecordError;
use crate::load::Context;
use crate::plain::padded;
use crate::probe::{Batch, Counts, Finished, Log, Probe, Target};
use crate::streams::{Out, Stream};
use crate::sys;
use case::meta::Unseen;
use case::rows::SampleRow;
use case::schema::SubjectKind;
use case::CaseError;
use groups::Hierarchy;
use sources::{Reading, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at the steal time; the counter itself goes in steps of 10 ms per CPU.
const STEAL_PAUSE: Duration = Duration::from_millis(100);
/// Looking takes at most this part of the time: with hundreds of CPUs /proc/stat takes the kernel milliseconds.
const STEAL_LOOK_PART: u32 = 200;
const STAT: &str = "/proc/stat";
/// Looks after which control groups are searched anew: a command may make its own.
const LOOKS_PER_SEARCH: u32 = 5;

/// Attaches the probe: finds out which files there are.
pub fn attach(context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    let sources = sources::all(context.config.command_pid);
    let (sources, absent): (Vec<Source>, Vec<Source>) = sources
        .into_iter()
        .partition(|source| !(source.read)(&source.path).is_empty());
    let unseen = |source: &Source| Unseen {
        what: source.what.into(),
        because: format!("{} cannot be read", source.path.display()),
    };
    Ok(Box::new(Sampler {
        attached: sources
            .iter()
            .map(|source| source.path.display().to_string())
            .collect(),
        unseen: absent.iter().map(unseen).collect(),
        sources,
        has_steal: sources::whole_machine(Path::new(STAT)).is_some_and(|machine| machine.steal > 0.0),
        steal_due: None,
        hierarchy: Hierarchy::find(),
        groups: Vec::new(),
        looks: 0,
        before: BTreeMap::new(),
        samples: Vec::new(),
    }))
}

struct Sampler {
    sources: Vec<Source>,
    attached: Vec<String>,
    unseen: Vec<Unseen>,
    /// The hypervisor took CPU time since the boot.
    has_steal: bool,
    /// When steal time is looked at next; `None`: never.
    steal_due: Option<Instant>,
    /// Where memory of control groups is limited, and which of them are.
    hierarchy: Option<Hierarchy>,
    groups: Vec<PathBuf>,
    looks: u32,
    /// The last reading of every counter, and when that was.
    before: BTreeMap<(String, &'static str), (u64, f64)>,
    samples: Vec<SampleRow>,
}

impl Sampler {
    fn sample(&mut self) {
        let readings: Vec<Reading> = self
            .sources
            .iter()
            .flat_map(|source| (source.read)(&source.path))
            .collect();
        self.add(&readings);
        self.sample_groups();
    }

    fn sample_groups(&mut self) {
        let Some(hierarchy) = &self.hierarchy else { return };
        if self.looks.is_multiple_of(LOOKS_PER_SEARCH) {
            self.groups = hierarchy.limited(groups::machine_bytes());
        }
        self.looks = self.looks.wrapping_add(1);
        let readings: Vec<Reading> = self
            .groups
            .iter()
            .flat_map(|group| hierarchy.read(group))
            .collect();
        self.add(&readings);
    }

    fn sample_steal(&mut self) {
        let begin = Instant::now();
        let machine = sources::whole_machine(Path::new(STAT));
        self.add(&machine.map(|machine| machine.readings()).unwrap_or_default());
        self.steal_due = Some(begin + STEAL_PAUSE.max(begin.elapsed() * STEAL_LOOK_PART));
    }

    fn add(&mut self, readings: &[Reading]) {
        let now_ns = sys::monotonic_ns();
        for reading in readings {
            if let Some(value) = self.value(reading, now_ns) {
                self.samples.push(row(reading, now_ns, value));
            }
        }
    }

    /// A gauge's value as it is; a counter's growth per second since the sample before, which the first sample
    /// of a recording does not have. A counter that went back was replaced by another one.
    fn value(&mut self, reading: &Reading, now_ns: u64) -> Option<f64> {
        if !reading.counter {
            return Some(reading.value);
        }
        let key = (reading.subject.clone(), reading.metric);
        let (before_ns, before) = self.before.insert(key, (now_ns, reading.value))?;
        let seconds = now_ns.saturating_sub(before_ns) as f64 / 1e9;
        let grown = reading.value - before;
        (grown >= 0.0 && seconds > 0.0).then(|| grown * reading.scale / seconds)
    }
}

fn row(reading: &Reading, time_ns: u64, value: f64) -> SampleRow {
    let kind = SubjectKind::ALL.iter().position(|kind| *kind == reading.kind);
    SampleRow {
        time_ns,
        value,
        kind: kind.unwrap_or(0) as u8,
        subject: padded(reading.subject.as_bytes()),
        metric: padded(reading.metric.as_bytes()),
    }
}

impl Probe for Sampler {
    fn attached(&self) -> &[String] {
        &self.attached
    }

    fn unseen(&self) -> &[Unseen] {
        &self.unseen
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        let samples = Out::create(target, &[])?;
        Ok(Box::new(SamplerLog { samples }))
    }

    fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        if on {
            self.sample();
        }
        self.steal_due = (on && self.has_steal).then(Instant::now);
        Ok(())
    }

    /// All but steal time is sampled by `look_after`.
    fn drain(&mut self) -> u64 {
        if self.steal_due.is_some_and(|due| Instant::now() >= due) {
            self.sample_steal();
        }
        0
    }

    fn waiting(&self) -> usize {
        self.samples.len()
    }

    fn take(&mut self) -> Option<Batch> {
        if self.samples.is_empty() {
            return None;
        }
        let samples = std::mem::take(&mut self.samples);
        Some(Batch {
            records: samples.len() as u64,
            bytes: size_of_val(&samples[..]),
            data: Box::new(samples),
        })
    }

    fn look_after(&mut self) -> Result<(), RecordError> {
        self.sample();
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts, RecordError> {
        Ok(Counts::default())
    }

    fn detach(&mut self) {}

    fn finish(&mut self, _end_ns: u64) -> Result<Finished, RecordError> {
        Ok(Finished::default())
    }
}

/// The stream `sample`.
struct SamplerLog {
    samples: Out<SampleRow>,
}

impl Log for SamplerLog {
    fn write(&mut self, batch: Batch) {
        let samples: Box<Vec<SampleRow>> = batch.data.downcast().expect("the sampler's own samples");
        self.samples.push_many(&samples);
    }

    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.samples]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: f64, counter: bool) -> Reading {
        Reading {
            kind: SubjectKind::Device,
            subject: "vda".into(),
            metric: "reads_per_s",
            value,
            counter,
            scale: 1.0,
        }
    }

    #[test]
    fn counters_become_rates_and_gauges_stay() {
        let mut sampler = Sampler {
            sources: Vec::new(),
            attached: Vec::new(),
            unseen: Vec::new(),
            has_steal: false,
            steal_due: None,
            hierarchy: None,
            groups: Vec::new(),
            looks: 0,
            before: BTreeMap::new(),
            samples: Vec::new(),
        };
        const SECOND_NS: u64 = 1_000_000_000;
        assert_eq!(sampler.value(&reading(10.0, true), SECOND_NS), None);
        assert_eq!(sampler.value(&reading(30.0, true), 3 * SECOND_NS), Some(10.0));
        assert_eq!(
            sampler.value(&reading(1.0, true), 4 * SECOND_NS),
            None,
            "went back"
        );
        assert_eq!(sampler.value(&reading(4.0, false), 5 * SECOND_NS), Some(4.0));
    }
}
