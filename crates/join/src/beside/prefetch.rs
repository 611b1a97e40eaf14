//! `prefetch/`: what readahead did for each file, second by second; no second goes across the begin or end of a phase.
use super::{Streams, Surveys, PAGE_BYTES};
use crate::pipeline::{Out, Row};
use crate::sorted::{Sorted, Timed};
use case::rows::{CacheReadRow, CacheWait, CacheWaitRow, ReadaheadRow, ReadaheadUseRow};
use case::schema::PrefetchRow;
use case::CaseError;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Length of a window that no phase cuts short.
const WINDOW_NS: u64 = 1_000_000_000;
/// Calls that brought pages, remembered for each file, to know the size of the folio that a read waits for.
const BROUGHT_MAX: usize = 64;
/// Files for which they are remembered.
const FILES_MAX: usize = 1 << 14;

impl Timed for CacheReadRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (self.tid as u64, self.inode)
    }
}

impl Timed for CacheWaitRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (self.tid as u64, self.end_ns)
    }
}

impl Timed for ReadaheadRow {
    fn start_ns(&self) -> u64 {
        self.time_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.time_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (self.tid as u64, self.inode ^ self.index << 32)
    }
}

impl Timed for ReadaheadUseRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (self.inode, self.index << 20 ^ self.end_ns)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    issued_pages: u64,
    used_pages: u64,
    wasted_pages: u64,
    late_pages: u64,
    missed_pages: u64,
}

/// The windows that are not written yet, by begin, device and inode.
struct Windows<'a> {
    origin_ns: u64,
    /// Where phases begin and end, in order.
    cuts_ns: &'a [u64],
    open: BTreeMap<(u64, u32, u64), Window>,
}

impl Windows<'_> {
    /// Begin and end of the window that a moment lies in.
    fn bounds(&self, time_ns: u64) -> (u64, u64) {
        let time_ns = time_ns.max(self.origin_ns);
        let second_ns = time_ns - (time_ns - self.origin_ns) % WINDOW_NS;
        let (passed, ahead) = self
            .cuts_ns
            .split_at(self.cuts_ns.partition_point(|cut| *cut <= time_ns));
        let begin_ns = passed.last().map_or(second_ns, |cut| second_ns.max(*cut));
        let end_ns = second_ns + WINDOW_NS;
        (begin_ns, ahead.first().map_or(end_ns, |cut| end_ns.min(*cut)))
    }

    fn at(&mut self, time_ns: u64, device: u32, inode: u64) -> &mut Window {
        let (begin_ns, _) = self.bounds(time_ns);
        self.open.entry((begin_ns, device, inode)).or_default()
    }
}

/// Pages brought lately, by file.
#[derive(Default)]
struct Brought {
    by_file: HashMap<(u32, u64), VecDeque<ReadaheadRow>>,
}

impl Brought {
    fn add(&mut self, row: &ReadaheadRow) {
        if self.by_file.len() >= FILES_MAX {
            self.by_file.clear();
        }
        let rows = self.by_file.entry((row.device, row.inode)).or_default();
        if rows.len() == BROUGHT_MAX {
            rows.pop_front();
        }
        rows.push_back(*row);
    }

    /// Pages of the folio that a read waited for: at least one; those before the read's own are not counted.
    fn pages_waited_for(&self, wait: &CacheWaitRow) -> u64 {
        let rows = self.by_file.get(&(wait.device, wait.inode));
        let row = rows
            .into_iter()
            .flatten()
            .rev()
            .find(|row| (row.index..row.index + u64::from(row.pages)).contains(&wait.waited_index));
        let folio_pages = row.map_or(1, |row| {
            let brought = wait.waited_index + 1 - row.index;
            u64::from(row.folio_pages).clamp(1, brought)
        });
        let asked = (wait.waited_index + 1).saturating_sub(wait.index).max(1);
        folio_pages.min(asked)
    }
}

pub(super) fn write(surveys: &Surveys, streams: &Streams, out: &mut Out) -> Result<(), CaseError> {
    let mut used = Sorted::new(streams.readahead_use, &surveys.readahead_use)?;
    let mut reads = Sorted::new(streams.cache_read, &surveys.cache_read)?;
    let mut waits = Sorted::new(streams.cache_wait, &surveys.cache_wait)?;
    let mut brought = Sorted::new(streams.readahead, &surveys.readahead)?;
    let mut lately = Brought::default();
    let mut windows = Windows {
        origin_ns: out.start_ns,
        cuts_ns: streams.cuts_ns,
        open: BTreeMap::new(),
    };
    loop {
        // Among equals the first: pages are brought before anybody waits for them.
        let next = [
            brought.peek().map(|row| row.time_ns),
            waits.peek().map(|row| row.start_ns),
            reads.peek().map(|row| row.start_ns),
            used.peek().map(|row| row.start_ns),
        ];
        let Some(now_ns) = next.iter().flatten().min().copied() else {
            break;
        };
        flush(&mut windows, now_ns, surveys, streams, out)?;
        match next.iter().position(|ns| *ns == Some(now_ns)) {
            Some(0) => brought.take()?.iter().for_each(|row| lately.add(row)),
            Some(1) => waits.take()?.iter().for_each(|row| {
                if CacheWait::from_raw(row.kind) == Some(CacheWait::InFlight) {
                    windows.at(row.start_ns, row.device, row.inode).late_pages +=
                        lately.pages_waited_for(row);
                }
            }),
            Some(2) => reads.take()?.iter().for_each(|row| {
                windows.at(row.start_ns, row.device, row.inode).missed_pages += row.pages_missed;
            }),
            _ => used.take()?.iter().for_each(|row| {
                let window = windows.at(row.start_ns, row.device, row.inode);
                window.issued_pages += u64::from(row.pages_prefetched);
                window.used_pages += u64::from(row.pages_used);
                window.wasted_pages += u64::from(row.pages_wasted);
            }),
        }
    }
    flush(&mut windows, u64::MAX, surveys, streams, out)
}

/// Writes the windows that have ended. One in which nothing was prefetched and nothing missing is left out.
fn flush(
    windows: &mut Windows,
    now_ns: u64,
    surveys: &Surveys,
    streams: &Streams,
    out: &mut Out,
) -> Result<(), CaseError> {
    while let Some((&(begin_ns, device, inode), _)) = windows.open.first_key_value() {
        let (_, end_ns) = windows.bounds(begin_ns);
        if end_ns > now_ns && now_ns != u64::MAX {
            break;
        }
        let Some((_, window)) = windows.open.pop_first() else {
            break;
        };
        if window.issued_pages + window.late_pages + window.missed_pages == 0 {
            continue;
        }
        let bytes = |pages: u64| (pages * PAGE_BYTES) as i64;
        let sealed = PrefetchRow {
            file: surveys.file(device, inode, end_ns, out),
            start_ns: out.case_ns(begin_ns),
            duration_ns: (end_ns - begin_ns) as i64,
            issued_bytes: bytes(window.issued_pages),
            used_bytes: bytes(window.used_pages),
            wasted_bytes: bytes(window.wasted_pages),
            late_bytes: streams.cache_wait.map(|_| bytes(window.late_pages)),
            missed_bytes: streams.cache_read.map(|_| bytes(window.missed_pages)),
        };
        out.row(Row::Prefetch(sealed))?;
    }
    Ok(())
}
