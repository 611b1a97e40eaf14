//! The probe `sampler`: counters that the kernel shows in `/proc` and `/sys`, once a second. It needs no privileges.
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
use sources::{Reading, Source};
use std::collections::BTreeMap;

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
        before: BTreeMap::new(),
        before_ns: 0,
        samples: Vec::new(),
    }))
}

struct Sampler {
    sources: Vec<Source>,
    attached: Vec<String>,
    unseen: Vec<Unseen>,
    /// The last reading of every counter.
    before: BTreeMap<(String, &'static str), f64>,
    before_ns: u64,
    samples: Vec<SampleRow>,
}

impl Sampler {
    fn sample(&mut self) {
        let readings: Vec<Reading> = self
            .sources
            .iter()
            .flat_map(|source| (source.read)(&source.path))
            .collect();
        let now_ns = sys::monotonic_ns();
        let seconds = now_ns.saturating_sub(self.before_ns) as f64 / 1e9;
        for reading in readings {
            if let Some(value) = self.value(&reading, seconds) {
                self.samples.push(row(&reading, now_ns, value));
            }
        }
        self.before_ns = now_ns;
    }

    /// A gauge's value as it is; a counter's growth per second since the sample before, which the first sample
    /// of a recording does not have. A counter that went back was replaced by another one.
    fn value(&mut self, reading: &Reading, seconds: f64) -> Option<f64> {
        if !reading.counter {
            return Some(reading.value);
        }
        let key = (reading.subject.clone(), reading.metric);
        let before = self.before.insert(key, reading.value)?;
        let grown = reading.value - before;
        (self.before_ns != 0 && grown >= 0.0 && seconds > 0.0).then(|| grown * reading.scale / seconds)
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
        Ok(())
    }

    /// Sampling is done by `look_after`.
    fn drain(&mut self) -> u64 {
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
            before: BTreeMap::new(),
            before_ns: 5,
            samples: Vec::new(),
        };
        assert_eq!(sampler.value(&reading(10.0, true), 1.0), None);
        assert_eq!(sampler.value(&reading(30.0, true), 2.0), Some(10.0));
        assert_eq!(sampler.value(&reading(1.0, true), 1.0), None, "went back");
        assert_eq!(sampler.value(&reading(4.0, false), 1.0), Some(4.0));
    }
}
