//! A probe with programs that send records through one ordinary BPF ring buffer: all that such a probe needs is
//! a [`Design`]. Its C side includes `bpf/probe.h`, which has the ring, the counters and the switch.
use crate::error::RecordError;
use crate::load::{Context, Kernel, SCOPE_CHANGE};
use crate::plain::{bytes_of, read, Plain};
use crate::probe::{Batch, Counts, Finished, Hooks, Log, Need, Probe, Target};
use crate::scope::Change;
use crate::sys::ProgramCounts;
use aya::maps::{MapData, RingBuf};
use aya::{Btf, EbpfLoader};
use case::meta::Unseen;
use case::CaseError;
use std::collections::BTreeMap;

/// What a counter in `.bss.counters` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Events that will be in no row; the reason.
    Lost(&'static str),
    /// The recorder's own operations, left out.
    Own,
    /// Bytes of those.
    OwnBytes,
    /// Events outside of the scope, left out.
    OutOfScope,
    /// Something worth knowing; its name in `case.json`.
    Note(&'static str),
}

/// Values that the loader gives the object.
#[derive(Default)]
pub struct Settings {
    globals: Vec<(&'static str, Vec<u8>)>,
    map_sizes: Vec<(&'static str, u32)>,
}

impl Settings {
    /// Sets a `const volatile` variable of the object; `value` must have its size.
    pub fn global<const BYTES: usize>(mut self, name: &'static str, value: [u8; BYTES]) -> Settings {
        self.globals.push((name, value.to_vec()));
        self
    }

    /// Sets the number of entries of a map (bytes of a ring).
    pub fn map_size(mut self, name: &'static str, entries: u32) -> Settings {
        self.map_sizes.push((name, entries));
        self
    }
}

/// What makes a ring probe.
pub trait Design: Send + 'static {
    /// Name of the probe: its folder, its key in `case.json`.
    const NAME: &'static str;
    /// Its tracepoints.
    const HOOKS: Hooks;
    /// Its counters, in the order of the object's `enum counter`.
    const COUNTERS: &'static [Counter];
    /// Bytes of its ring, a power of two times the page size.
    const RING_BYTES: u32 = 8 << 20;
    /// Those of its tracepoints at which it looks at threads only. The kernel skips a program on a CPU where it runs already, which is then in an
    /// interrupt: nothing of a thread is lost.
    const THREADS_ONLY: &'static [&'static str] = &[];

    /// The compiled object: `include_bytes_aligned!("<name>.bpf.o")`.
    fn object() -> &'static [u8];

    /// Settings that the object gets before it is loaded.
    fn settings(&self, _context: &Context<'_>) -> Settings {
        Settings::default()
    }

    /// Whether a hook is to be attached on this kernel (for alternatives).
    fn wanted(&self, _btf: &Btf, _tracepoint: &str, _need: Need) -> bool {
        true
    }

    /// Attaches what it listens to beside its tracepoints.
    fn attach(&mut self, _context: &Context<'_>, _kernel: &mut Kernel) -> Result<(), RecordError> {
        Ok(())
    }

    /// Begins or ends to listen to that.
    fn set_recording(&mut self, _on: bool) -> Result<(), RecordError> {
        Ok(())
    }

    /// Adds what it has heard there; called as often as [`Probe::drain`].
    fn drain(&mut self, _records: &mut Records) {}

    /// What was lost there, by reason; always the same reasons.
    fn lost(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Creates the streams.
    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError>;

    /// See [`Probe::look_after`].
    fn look_after(&mut self, _kernel: &mut Kernel, _records: &mut Records) -> Result<(), RecordError> {
        Ok(())
    }

    /// See [`Probe::finish`]; what it adds counts as still open.
    fn finish(
        &mut self,
        _kernel: &mut Kernel,
        _records: &mut Records,
        _end_ns: u64,
    ) -> Result<(), RecordError> {
        Ok(())
    }

    /// Adds notes that are not counters of the object (thresholds).
    fn notes(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Records as the programs sent them, one after the other.
#[derive(Default)]
pub struct Records {
    bytes: Vec<u8>,
    count: u64,
}

impl Records {
    /// Adds one.
    pub fn push(&mut self, record: &[u8]) {
        let length = record.len() as u32;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(record);
        self.count += 1;
    }

    /// Adds one that user space made.
    pub fn push_plain<T: Plain>(&mut self, record: &T) {
        self.push(bytes_of(record));
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Each record's bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let length = read::<u32>(rest)? as usize;
            let (record, after) = rest[size_of::<u32>()..].split_at_checked(length)?;
            rest = after;
            Some(record)
        })
    }

    /// The records of a batch that a ring probe gave away.
    pub fn of(batch: Batch) -> Records {
        *batch.data.downcast().expect("a ring probe gives its log records")
    }
}

// SAFETY: any four bytes make a u32.
unsafe impl Plain for u32 {}

/// Reads an object's counters, which are listed in the order of its `enum counter`.
pub fn read_counts(kernel: &Kernel, counters: &[Counter]) -> Result<Counts, RecordError> {
    let mut bytes = vec![0; counters.len() * size_of::<u64>()];
    kernel.read_counters(&mut bytes)?;
    let mut counts = Counts::default();
    for (counter, bytes) in counters.iter().zip(bytes.as_chunks().0) {
        let value = u64::from_ne_bytes(*bytes);
        match counter {
            Counter::Lost(reason) => counts.lost.push((reason, value)),
            Counter::Own => counts.own_excluded = value,
            Counter::OwnBytes => counts.own_excluded_bytes = value,
            Counter::OutOfScope => counts.out_of_scope = value,
            Counter::Note(name) => counts.notes.push((name, value)),
        }
    }
    Ok(counts)
}

/// A loaded and attached [`Design`].
pub struct RingProbe<D: Design> {
    design: D,
    kernel: Kernel,
    ring: RingBuf<MapData>,
    records: Records,
    /// Its programs know whom to look at.
    scoped: bool,
}

impl<D: Design> RingProbe<D> {
    /// Loads and attaches.
    pub fn attach(mut design: D, context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
        let btf = context.btf()?;
        let settings = design.settings(context);
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(btf))
            .map_max_entries("events", context.config.ring(D::RING_BYTES));
        for (name, value) in &settings.globals {
            loader.override_global(name, value.as_slice(), true);
        }
        for (name, entries) in &settings.map_sizes {
            loader.map_max_entries(name, *entries);
        }
        let mut kernel = Kernel::load(D::NAME, D::object(), &mut loader)?;
        let ring = kernel.take_ring("events")?;
        let scoped = kernel.ebpf.program(SCOPE_CHANGE).is_some();
        if scoped {
            kernel.load_runnable(SCOPE_CHANGE)?;
        }
        kernel.attach(context, D::HOOKS, |tracepoint, need| {
            design.wanted(btf, tracepoint, need)
        })?;
        design.attach(context, &mut kernel)?;
        Ok(Box::new(RingProbe {
            design,
            kernel,
            ring,
            records: Records::default(),
            scoped,
        }))
    }
}

impl<D: Design> Probe for RingProbe<D> {
    fn attached(&self) -> &[String] {
        &self.kernel.attached
    }

    fn unseen(&self) -> &[Unseen] {
        &self.kernel.unseen
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        self.design.open_log(target)
    }

    fn follow(&mut self, changes: &[Change]) -> Result<(), RecordError> {
        if self.scoped {
            self.kernel.follow(changes)?;
        }
        Ok(())
    }

    fn forget_ended(&mut self) -> Result<(), RecordError> {
        if self.scoped {
            self.kernel.forget_ended()?;
        }
        Ok(())
    }

    fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        self.design.set_recording(on)?;
        self.kernel.set_recording(on)
    }

    fn drain(&mut self) -> u64 {
        let before = self.records.count;
        while let Some(item) = self.ring.next() {
            self.records.push(&item);
        }
        self.design.drain(&mut self.records);
        self.records.count - before
    }

    fn waiting(&self) -> usize {
        self.records.count as usize
    }

    fn take(&mut self) -> Option<Batch> {
        if self.records.count == 0 {
            return None;
        }
        let room = Vec::with_capacity(self.records.bytes.len());
        let records = std::mem::take(&mut self.records);
        self.records.bytes = room;
        Some(Batch {
            records: records.count,
            bytes: records.bytes.len(),
            data: Box::new(records),
        })
    }

    fn look_after(&mut self) -> Result<(), RecordError> {
        self.design.look_after(&mut self.kernel, &mut self.records)
    }

    fn counts(&mut self) -> Result<Counts, RecordError> {
        let mut counts = read_counts(&self.kernel, D::COUNTERS)?;
        counts.notes.extend(self.design.notes());
        counts.lost.extend(self.design.lost());
        Ok(counts)
    }

    fn program_counts(&self) -> BTreeMap<String, ProgramCounts> {
        let mut counts = self.kernel.program_counts();
        for (tracepoint, program) in &mut counts {
            if D::THREADS_ONLY.contains(&tracepoint.as_str()) {
                program.recursion_misses = 0;
            }
        }
        counts
    }

    fn detach(&mut self) {
        self.kernel.detach();
    }

    fn finish(&mut self, end_ns: u64) -> Result<Finished, RecordError> {
        let before = self.records.count;
        let (kernel, records) = (&mut self.kernel, &mut self.records);
        self.design.finish(kernel, records, end_ns)?;
        let open = self.records.count - before;
        Ok(Finished { events: open, open })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_went_in() {
        let mut records = Records::default();
        for record in [&b"one"[..], b"", b"three!!"] {
            records.push(record);
        }
        let back: Vec<&[u8]> = records.iter().collect();
        assert_eq!(back, [&b"one"[..], b"", b"three!!"]);
        assert_eq!(records.count(), 3);
    }
}
