//! Dirty pages of the server's cache: what is dirty, what is being written, who must wait.
//!
//! Source: Linux `mm/page-writeback.c`: background writing begins above a share of memory or after an age, writers are
//! held above a higher share; a sync writes its file's dirty pages and waits for those already on their way.
use crate::component::Handle;
use crate::fast_map::FastMap;
use crate::keys::{key, Key, Kind};
use std::collections::{BTreeMap, VecDeque};

/// Keys of `[writeback]`.
pub const KEYS: [Key; 6] = [
    key(
        "background",
        Kind::Size(4096, 1 << 44),
        "400MiB",
        "Dirty bytes above which background writing begins.",
    ),
    key(
        "limit",
        Kind::Size(8192, 1 << 44),
        "800MiB",
        "Dirty bytes above which writers are held (dirty throttling).",
    ),
    key(
        "age",
        Kind::Time(1_000_000, 3_600_000_000_000),
        "30s",
        "A dirty page is written when it is older.",
    ),
    key(
        "interval",
        Kind::Time(1_000_000, 600_000_000_000),
        "5s",
        "How often ages are looked at.",
    ),
    key(
        "depth",
        Kind::Count(1, 4096),
        "32",
        "Background writes in flight at once.",
    ),
    key(
        "cluster",
        Kind::Size(4096, 1 << 26),
        "1MiB",
        "Most contiguous bytes in one background write.",
    ),
];

struct Dirty {
    since_ns: u64,
    /// Row of the operation that dirtied it last.
    by: u64,
}

/// Who may go on after a write has ended.
#[derive(Default)]
pub struct Released {
    /// Syncs that waited for it: (request, since).
    pub syncs: Vec<(Handle, u64)>,
    /// Held writers.
    pub writers: Vec<Handle>,
}

/// The dirty pages of all files.
pub struct Writeback {
    page_bytes: u64,
    background_bytes: u64,
    limit_bytes: u64,
    age_ns: u64,
    interval_ns: u64,
    depth: usize,
    cluster_pages: u64,
    /// (file, page), in order of place.
    dirty: BTreeMap<(u16, u64), Dirty>,
    /// Writes under way: file and bytes.
    writing: FastMap<u32, (u16, u32)>,
    writing_bytes: u64,
    /// Syncs by the write they wait for.
    syncs: FastMap<u32, Vec<(Handle, u64)>>,
    held: VecDeque<Handle>,
    /// Where background writing goes on.
    cursor: (u16, u64),
    aged: bool,
    next_look_ns: u64,
    timer_ns: u64,
    now_ns: u64,
}

/// Sizes and times of the keys.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Background writing above.
    pub background_bytes: u64,
    /// Writers held above.
    pub limit_bytes: u64,
    /// Age.
    pub age_ns: u64,
    /// Interval of looks.
    pub interval_ns: u64,
    /// Writes in flight.
    pub depth: usize,
    /// Largest write.
    pub cluster_bytes: u64,
}

impl Writeback {
    /// `page_bytes` as in the cache.
    pub fn new(page_bytes: u64, limits: Limits) -> Writeback {
        Writeback {
            page_bytes,
            background_bytes: limits.background_bytes,
            limit_bytes: limits.limit_bytes,
            age_ns: limits.age_ns,
            interval_ns: limits.interval_ns,
            depth: limits.depth,
            cluster_pages: (limits.cluster_bytes / page_bytes).max(1),
            dirty: BTreeMap::new(),
            writing: FastMap::default(),
            writing_bytes: 0,
            syncs: FastMap::default(),
            held: VecDeque::new(),
            cursor: (0, 0),
            aged: false,
            next_look_ns: limits.interval_ns,
            timer_ns: 0,
            now_ns: 0,
        }
    }

    /// Dirty, or being written.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.len() as u64 * self.page_bytes + self.writing_bytes
    }

    /// Whether a writer has to be held now.
    pub fn must_wait(&self) -> bool {
        self.dirty_bytes() > self.limit_bytes && !self.writing.is_empty()
    }

    /// Holds a writer.
    pub fn wait(&mut self, handle: Handle) {
        self.held.push_back(handle);
    }

    /// Bytes were written into the cache.
    pub fn dirty(&mut self, file: u16, offset: u64, size: u32, by: u64, now_ns: u64) {
        self.now_ns = now_ns;
        for page in offset / self.page_bytes..(offset + u64::from(size)).div_ceil(self.page_bytes) {
            self.dirty
                .entry((file, page))
                .and_modify(|dirty| dirty.by = by)
                .or_insert(Dirty { since_ns: now_ns, by });
        }
    }

    /// The dirty ranges of a file, which the caller writes now.
    pub fn take_file(&mut self, file: u16) -> Vec<(u64, u32)> {
        let mut ranges: Vec<(u64, u32)> = Vec::new();
        let pages: Vec<u64> = self
            .dirty
            .range((file, 0)..=(file, u64::MAX))
            .map(|((_, page), _)| *page)
            .collect();
        for page in pages {
            self.dirty.remove(&(file, page));
            let at = page * self.page_bytes;
            match ranges.last_mut() {
                Some((from, bytes))
                    if *from + u64::from(*bytes) == at
                        && u64::from(*bytes) < self.cluster_pages * self.page_bytes =>
                {
                    *bytes += self.page_bytes as u32;
                }
                _ => ranges.push((at, self.page_bytes as u32)),
            }
        }
        ranges
    }

    /// Lets a sync wait for the writes of its file that are under way; each counts as pending.
    pub fn wait_for_file(&mut self, file: u16, handle: Handle, core: &mut crate::sim::Core) {
        let mut writes: Vec<u32> = self
            .writing
            .iter()
            .filter(|(_, (of, _))| *of == file)
            .map(|(write, _)| *write)
            .collect();
        writes.sort_unstable();
        for write in writes {
            core.get_mut(handle).pending += 1;
            self.syncs.entry(write).or_default().push((handle, core.now_ns()));
        }
    }

    /// Whether the page at this offset is dirty.
    pub fn is_dirty(&self, file: u16, offset: u64) -> bool {
        self.dirty.contains_key(&(file, offset / self.page_bytes))
    }

    /// A write begins; the row of the operation that dirtied its first page.
    pub fn begin_write(&mut self, file: u16, offset: u64, size: u32, write: Handle) -> Option<u64> {
        let mut by = None;
        for page in offset / self.page_bytes..(offset + u64::from(size)).div_ceil(self.page_bytes) {
            let dirty = self.dirty.remove(&(file, page));
            by = by.or(dirty.map(|dirty| dirty.by));
        }
        self.writing.insert(write, (file, size));
        self.writing_bytes += u64::from(size);
        by
    }

    /// A write has ended.
    pub fn end_write(&mut self, write: Handle) -> Released {
        let mut released = Released::default();
        let Some((_, bytes)) = self.writing.remove(&write) else {
            return released;
        };
        self.writing_bytes -= u64::from(bytes);
        released.syncs = self.syncs.remove(&write).unwrap_or_default();
        if !self.must_wait() {
            released.writers.extend(self.held.pop_front());
            if self.writing.is_empty() {
                released.writers.extend(self.held.drain(..));
            }
        }
        released
    }

    /// The next range to write in the background, if there is reason to.
    pub fn next_write(&mut self, now_ns: u64) -> Option<(u16, u64, u32)> {
        self.now_ns = now_ns;
        if now_ns >= self.next_look_ns {
            self.next_look_ns = now_ns + self.interval_ns;
            self.aged = true;
        }
        let above = self.dirty.len() as u64 * self.page_bytes > self.background_bytes;
        if self.writing.len() >= self.depth || !(above || self.aged) {
            return None;
        }
        let old_ns = now_ns.saturating_sub(self.age_ns);
        let wanted = |dirty: &Dirty| above || dirty.since_ns <= old_ns;
        let from = self.cursor;
        let ahead = self.dirty.range(from..).find(|(_, dirty)| wanted(dirty));
        let found = ahead.or_else(|| self.dirty.range(..from).find(|(_, dirty)| wanted(dirty)));
        let Some((&(file, first), _)) = found else {
            self.aged = false;
            return None;
        };
        let mut pages = 1;
        while pages < self.cluster_pages && self.dirty.contains_key(&(file, first + pages)) {
            pages += 1;
        }
        self.cursor = (file, first + pages);
        Some((file, first * self.page_bytes, (pages * self.page_bytes) as u32))
    }

    /// When to look again; None if that timer is set already, or nothing is dirty.
    pub fn next_timer(&mut self, now_ns: u64) -> Option<u64> {
        if self.dirty.is_empty() || self.timer_ns > now_ns {
            return None;
        }
        self.timer_ns = self.next_look_ns.max(now_ns + 1);
        Some(self.timer_ns)
    }
}
