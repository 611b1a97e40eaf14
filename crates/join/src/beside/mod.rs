//! Tables beside the operations: what threads waited for, interrupts, samples, prefetching, writeback.
//!
//! Every stream is surveyed in the first pass and read in order of start afterwards ([`crate::sorted`]), so memory is
//! bounded and the rows of a table do not depend on the order in which CPUs delivered them.
mod events;
mod irqs;
mod nvme;
mod prefetch;
mod series;
mod states;
#[cfg(test)]
mod tests;
mod waits;

pub use states::GapStates;
pub(crate) use waits::{end_of, state as wait_state};

use crate::files::Files;
use crate::pipeline::{Out, StreamEnd};
use crate::sorted::{Sorted, Surveyed};
use crate::stream::Stream;
use case::raw::RawRow;
use case::rows::{
    CacheReadRow, CacheWaitRow, FileRow, IrqRow, IrqTotalRow, NvmeRow, ReadaheadRow, ReadaheadUseRow,
    SampleRow, SchedRow, WritebackRow,
};
use case::schema::{GapRow, NameId};
use case::CaseError;
use std::collections::BTreeMap;

/// Bytes of a page: what the kernels that can be recorded use.
pub const PAGE_BYTES: u64 = 4096;

/// Raw streams; those that were not recorded are absent.
#[derive(Clone, Copy, Default)]
pub struct Streams<'a> {
    /// Names of files.
    pub file: Option<&'a dyn Stream<FileRow>>,
    /// What threads waited for.
    pub sched: Option<&'a dyn Stream<SchedRow>>,
    /// Handler runs.
    pub irq: Option<&'a dyn Stream<IrqRow>>,
    /// All handler runs, counted.
    pub irq_total: Option<&'a dyn Stream<IrqTotalRow>>,
    /// Sampled counters.
    pub sample: Option<&'a dyn Stream<SampleRow>>,
    /// Commands to NVMe controllers, and those that failed.
    pub nvme: Option<&'a dyn Stream<NvmeRow>>,
    /// Buffered reads, counted.
    pub cache_read: Option<&'a dyn Stream<CacheReadRow>>,
    /// Waits for pages.
    pub cache_wait: Option<&'a dyn Stream<CacheWaitRow>>,
    /// Pages brought into the cache.
    pub readahead: Option<&'a dyn Stream<ReadaheadRow>>,
    /// What became of them.
    pub readahead_use: Option<&'a dyn Stream<ReadaheadUseRow>>,
    /// Writeback and journals.
    pub writeback: Option<&'a dyn Stream<WritebackRow>>,
    /// Where phases of the workload begin and end, CLOCK_MONOTONIC, in order: what counts within windows of time is cut there.
    pub cuts_ns: &'a [u64],
}

/// What the first pass over [`Streams`] found.
#[derive(Debug)]
pub struct Surveys {
    sched: Surveyed<SchedRow>,
    pub(crate) irq: Surveyed<IrqRow>,
    irq_total: Surveyed<IrqTotalRow>,
    sample: Surveyed<SampleRow>,
    nvme: Surveyed<NvmeRow>,
    cache_read: Surveyed<CacheReadRow>,
    cache_wait: Surveyed<CacheWaitRow>,
    readahead: Surveyed<ReadaheadRow>,
    readahead_use: Surveyed<ReadaheadUseRow>,
    writeback: Surveyed<WritebackRow>,
    files: Files,
    files_end: StreamEnd,
}

impl Surveys {
    /// Reads every stream once.
    pub fn of(streams: &Streams) -> Result<Surveys, CaseError> {
        let (files, files_end) = Files::read(streams.file)?;
        Ok(Surveys {
            sched: Surveyed::of(streams.sched, |_| ())?,
            irq: Surveyed::of(streams.irq, |_| ())?,
            irq_total: Surveyed::of(streams.irq_total, |_| ())?,
            sample: Surveyed::of(streams.sample, |_| ())?,
            nvme: Surveyed::of(streams.nvme, |_| ())?,
            cache_read: Surveyed::of(streams.cache_read, |_| ())?,
            cache_wait: Surveyed::of(streams.cache_wait, |_| ())?,
            readahead: Surveyed::of(streams.readahead, |_| ())?,
            readahead_use: Surveyed::of(streams.readahead_use, |_| ())?,
            writeback: Surveyed::of(streams.writeback, |_| ())?,
            files,
            files_end,
        })
    }

    /// Names of files that were not kept because there were too many.
    pub fn files_dropped(&self) -> u64 {
        self.files.dropped
    }

    /// How each stream ended, by probe.
    pub fn ends(&self) -> BTreeMap<&'static str, StreamEnd> {
        BTreeMap::from([
            (FileRow::PROBE, self.files_end.clone()),
            (SchedRow::PROBE, self.sched.end.clone()),
            (IrqRow::PROBE, self.irq.end.clone()),
            (IrqTotalRow::PROBE, self.irq_total.end.clone()),
            (SampleRow::PROBE, self.sample.end.clone()),
            (NvmeRow::PROBE, self.nvme.end.clone()),
            (CacheReadRow::PROBE, self.cache_read.end.clone()),
            (CacheWaitRow::PROBE, self.cache_wait.end.clone()),
            (ReadaheadRow::PROBE, self.readahead.end.clone()),
            (ReadaheadUseRow::PROBE, self.readahead_use.end.clone()),
            (WritebackRow::PROBE, self.writeback.end.clone()),
        ])
    }

    /// The scheduler's intervals.
    pub(crate) fn sched<'a>(
        &self,
        stream: Option<&'a dyn Stream<SchedRow>>,
    ) -> Result<Sorted<'a, SchedRow>, CaseError> {
        Sorted::new(stream, &self.sched)
    }

    /// Waits for pages.
    pub(crate) fn cache_waits<'a>(
        &self,
        stream: Option<&'a dyn Stream<CacheWaitRow>>,
    ) -> Result<Sorted<'a, CacheWaitRow>, CaseError> {
        Sorted::new(stream, &self.cache_wait)
    }

    /// Writeback and journals.
    pub(crate) fn writeback<'a>(
        &self,
        stream: Option<&'a dyn Stream<WritebackRow>>,
    ) -> Result<Sorted<'a, WritebackRow>, CaseError> {
        Sorted::new(stream, &self.writeback)
    }

    /// Writes the tables, and tells `gaps` what their threads did.
    pub(crate) fn write(
        &self,
        streams: &Streams,
        gaps: &mut [GapRow],
        out: &mut Out,
    ) -> Result<(), CaseError> {
        let mut states = GapStates::new(gaps, out.start_ns);
        waits::write(self, streams, &mut states, out)?;
        states.tell(gaps);
        irqs::write(self, streams, out)?;
        series::write(self, streams, out)?;
        prefetch::write(self, streams, out)?;
        events::write(self, streams, out)?;
        nvme::write(self, streams, out)
    }

    /// Path of a file, or `inode:N`; of a block device without a path its name.
    pub(crate) fn file(&self, device: u32, inode: u64, at_ns: u64, out: &mut Out) -> NameId {
        match (self.files.name(device, inode, at_ns), inode) {
            (Some(path), _) => out.names.id(path),
            (None, 0) => out.device(device),
            (None, _) => out.names.id(&format!("inode:{inode}")),
        }
    }
}

/// Text of a field that is padded with NUL; `None` if it is empty.
pub(crate) fn text(bytes: &[u8]) -> Option<String> {
    let used = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
    (!used.is_empty()).then(|| String::from_utf8_lossy(used).into_owned())
}
