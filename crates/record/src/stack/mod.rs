//! The stack probe: bios of volumes (dm, md), and which requests of members come from which.
//!
//! | stream | a row says |
//! |---|---|
//! | `bio` | a bio that a volume got: from `block_bio_queue` to `block_bio_complete` |
//! | `bio_member` | a member's request holds a bio that comes from this place of this volume |
//!
//! A volume without requests of its own (every md, every dm but a request-based multipath) has only bios. Its driver
//! clones them, splits them or copies their data; `block_bio_remap` says of each bio below which place of the volume
//! it comes from. The join finds the volume's bio by place, kind and time, and links nothing where several fit.
//!
//! Nothing is attached before a volume is there: the hooks are those of every request. One that appears during a recording is
//! found within a second (`look_after`), and that second is a loss, `volume_appeared`.
mod layout;
mod log;
mod places;

use crate::error::RecordError;
use crate::load::{refused, Context, Kernel};
use crate::plain::read;
use crate::probe::{Batch, Counts, Finished, Hooks, Log, Need, Probe, Target};
use crate::recorder::Config;
use crate::ring_probe::{Counter, Design, Records, RingProbe, Settings};
use crate::sys::ProgramCounts;
use crate::{block, host, owner};
use aya::include_bytes_aligned;
use aya::maps::HashMap;
use case::meta::Unseen;
use case::CaseError;
use layout::{VolumeBio, BIO_BYTES};
use log::StackLog;
pub use places::volumes;
use std::collections::BTreeMap;

/// Ends before begins.
pub const HOOKS: Hooks = &[
    ("block_bio_complete", Need::Must),
    ("block_rq_issue", Need::Must),
    ("block_bio_remap", Need::Must),
    ("block_bio_queue", Need::Must),
];

/// Loads and attaches the probe, if there is a volume.
pub fn attach(context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    let inner = match volumes().is_empty() {
        true => None,
        false => Some(RingProbe::attach(Stack::now(), context)?),
    };
    Ok(Box::new(StackProbe {
        config: context.config.clone(),
        inner,
        recording: false,
        appeared: 0,
    }))
}

struct Stack {
    majors: [u32; places::MAJORS],
}

impl Stack {
    /// For the drivers that are there now.
    fn now() -> Stack {
        Stack {
            majors: places::majors(),
        }
    }
}

impl Design for Stack {
    const NAME: &'static str = "stack";
    const HOOKS: Hooks = HOOKS;
    const COUNTERS: &'static [Counter] = &[
        Counter::Lost("ring_full"),
        Counter::Lost("map_full"),
        Counter::Lost("no_complete"),
        Counter::Lost("merge_walk_cut"),
        Counter::Own,
        Counter::OwnBytes,
    ];
    /// 100,000 bios with a member each; they come at 200,000 per second at most, and are taken every 20 ms.
    const RING_BYTES: u32 = 16 << 20;

    fn object() -> &'static [u8] {
        include_bytes_aligned!("stack.bpf.o")
    }

    fn settings(&self, context: &Context<'_>) -> Settings {
        let mut majors = [0; size_of::<u32>() * places::MAJORS];
        for (bytes, major) in majors.as_chunks_mut().0.iter_mut().zip(self.majors) {
            *bytes = u32::to_ne_bytes(major);
        }
        let (_, found) = block::join_symbols();
        let join_tgid = block::join_tgid(context.config, &found);
        let numbers = block::bio_globals(&found).into_iter().chain(owner::globals());
        numbers
            .fold(Settings::default(), |settings, (name, value)| {
                settings.global(name, value.to_ne_bytes())
            })
            .global("join_tgid", join_tgid.to_ne_bytes())
            .global("page_shift", host::page_shift().to_ne_bytes())
            .global("volume_majors", majors)
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(StackLog::create(target)?))
    }

    /// Bios that have not ended.
    fn finish(
        &mut self,
        kernel: &mut Kernel,
        records: &mut Records,
        _end_ns: u64,
    ) -> Result<(), RecordError> {
        let volumes: HashMap<_, u64, [u8; BIO_BYTES]> =
            HashMap::try_from(kernel.map("volumes")?).map_err(|error| refused("volumes", &error))?;
        for entry in volumes.iter().filter_map(Result::ok) {
            if let Some(bio) = read::<VolumeBio>(&entry.1) {
                records.push_plain(&bio);
            }
        }
        Ok(())
    }
}

/// The probe, which waits until there is a volume.
struct StackProbe {
    config: Config,
    inner: Option<Box<dyn Probe>>,
    recording: bool,
    /// Times that a volume was there before the programs were.
    appeared: u64,
}

impl StackProbe {
    fn attach_late(&mut self) -> Result<(), RecordError> {
        self.appeared += 1;
        let mut inner = RingProbe::attach(Stack::now(), &Context::new(&self.config))?;
        inner.set_recording(self.recording)?;
        self.inner = Some(inner);
        Ok(())
    }
}

impl Probe for StackProbe {
    fn attached(&self) -> &[String] {
        self.inner.as_ref().map_or(&[], |inner| inner.attached())
    }

    fn unseen(&self) -> &[Unseen] {
        self.inner.as_ref().map_or(&[], |inner| inner.unseen())
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(StackLog::create(target)?))
    }

    fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        self.recording = on;
        let mut inner = self.inner.iter_mut();
        inner.try_for_each(|inner| inner.set_recording(on))
    }

    fn drain(&mut self) -> u64 {
        self.inner.as_mut().map_or(0, |inner| inner.drain())
    }

    fn waiting(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.waiting())
    }

    fn take(&mut self) -> Option<Batch> {
        self.inner.as_mut()?.take()
    }

    fn look_after(&mut self) -> Result<(), RecordError> {
        if self.inner.is_none() && self.appeared == 0 && !volumes().is_empty() {
            // Where that fails the loss says that something was not seen.
            let _ = self.attach_late();
        }
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts, RecordError> {
        let mut counts = match &mut self.inner {
            Some(inner) => inner.counts()?,
            None => Counts::default(),
        };
        // First, because the order of the reasons must not change when the programs come.
        counts.lost.insert(0, ("volume_appeared", self.appeared));
        Ok(counts)
    }

    fn program_counts(&self) -> BTreeMap<String, ProgramCounts> {
        let inner = self.inner.as_ref();
        inner.map_or_else(BTreeMap::new, |inner| inner.program_counts())
    }

    fn detach(&mut self) {
        if let Some(inner) = &mut self.inner {
            inner.detach();
        }
    }

    fn finish(&mut self, end_ns: u64) -> Result<Finished, RecordError> {
        match &mut self.inner {
            Some(inner) => inner.finish(end_ns),
            None => Ok(Finished::default()),
        }
    }
}

/// A bio, as the test of this probe looks at it.
#[doc(hidden)]
#[derive(Debug)]
pub struct SeenBio {
    pub sector_512: u64,
    pub size_bytes: u32,
    pub queue_ns: u64,
    pub complete_ns: u64,
    pub owner_key: u64,
}

/// The bios that this process gives to a disk of this major while `workload` runs: for a test with a disk that has no
/// requests, like a volume, where neither dm nor md is there. Such a test may have to be skipped, so it is in `tests/`.
#[doc(hidden)]
pub fn bios_of(major: u32, workload: impl FnOnce()) -> Result<Vec<SeenBio>, RecordError> {
    let config = Config::default();
    let majors = [major, 0, 0, 0];
    let mut probe = RingProbe::attach(Stack { majors }, &Context::new(&config))?;
    probe.set_recording(true)?;
    workload();
    probe.set_recording(false)?;
    probe.drain();
    let batch = probe.take().expect("records");
    assert!(probe.counts()?.lost.iter().all(|(_, lost)| *lost == 0));
    let pid = std::process::id() as i32;
    let records = Records::of(batch);
    let bios = records
        .iter()
        .filter_map(|record| match layout::Record::of(record)? {
            layout::Record::Bio(bio) if bio.pid == pid => Some(SeenBio {
                sector_512: bio.sector_512,
                size_bytes: bio.owner.size_bytes,
                queue_ns: bio.queue_ns,
                complete_ns: bio.complete_ns,
                owner_key: bio.owner.owner_key,
            }),
            _ => None,
        });
    Ok(bios.collect())
}
