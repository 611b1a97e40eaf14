//! The server's RAM cache with what belongs to it: fetches under way, the prefetcher, the SSD tier.
use super::server::Below;
use crate::component::{Access, CacheModel, Handle};
use crate::fast_map::FastMap;
use crate::keys::{key, Key, Kind, Section};
use crate::models::prefetch::{Account, Anchor, Order, Prefetch, PrefetchParameters, Prefetcher, State};
use crate::sim::Core;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Keys of `[cache]`.
pub const CACHE_KEYS: [Key; 3] = [
    key(
        "policy",
        Kind::Choice(&["lru", "arc", "s3fifo"]),
        "lru",
        "Which page goes when one has to.",
    ),
    key("size", Kind::Size(4096, 1 << 44), "4GiB", "RAM for it."),
    key(
        "page",
        Kind::Size(4096, 1 << 20),
        "64KiB",
        "Unit that is kept or thrown out; a power of two.",
    ),
];

/// Keys of `[prefetch]`.
pub const PREFETCH_KEYS: [Key; 7] = [
    key(
        "chunk",
        Kind::Size(4096, 1 << 30),
        "8MiB",
        "Most bytes of one prefetch.",
    ),
    key(
        "per_read",
        Kind::Count(0, 64),
        "1",
        "Prefetches started per read request; 0 = off.",
    ),
    key(
        "streams",
        Kind::Count(1, 65536),
        "64",
        "Sequential readers it can follow at once.",
    ),
    key(
        "trigger",
        Kind::Count(1, 64),
        "2",
        "Reads in a row that make a sequential reader.",
    ),
    key(
        "anchor",
        Kind::Choice(&["read_end", "grid"]),
        "read_end",
        "Where chunks begin: at the end of the read, or at the next multiple of the chunk.",
    ),
    key(
        "order",
        Kind::Choice(&["ascending", "descending"]),
        "ascending",
        "In which order the chunks of one read are started.",
    ),
    key(
        "outstanding",
        Kind::Count(1, 65536),
        "256",
        "Prefetches in flight at once; what would be more is not started.",
    ),
];

/// Keys of `[ssd_tier]`.
pub const TIER_KEYS: [Key; 4] = [
    key(
        "size",
        Kind::Size(1 << 20, 1 << 50),
        "200GiB",
        "Capacity of the tier.",
    ),
    key(
        "chunk",
        Kind::Size(4096, 1 << 24),
        "64KiB",
        "Unit that is kept or thrown out; a power of two.",
    ),
    key(
        "read",
        Kind::Time(0, 1_000_000_000),
        "100us",
        "Service time of a read, without its transfer.",
    ),
    key(
        "filled",
        Kind::Flag,
        "false",
        "Whether everything that fits is in it at the beginning.",
    ),
];

/// What became of a page that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// In RAM.
    Hit,
    /// On its way, by this request.
    InFlight(Handle),
    /// Neither.
    Miss,
}

/// A piece of a read and the tier that served it.
#[derive(Clone, Copy, Debug)]
pub struct CachePiece {
    /// `ram`, `readahead`, `ssd`, `hdd`, `device`.
    pub tier: &'static str,
    /// File.
    pub file: u16,
    /// In the file.
    pub offset_bytes: u64,
    /// Bytes.
    pub size_bytes: u32,
    /// 0 = it was there.
    pub wait_ns: u64,
}

/// Length of a window of `prefetch/`.
const WINDOW_NS: u64 = 1_000_000_000;

/// Reads `[prefetch]`.
pub fn prefetch_parameters(section: &Section) -> PrefetchParameters {
    PrefetchParameters {
        chunk_bytes: section.whole("chunk"),
        chunks_per_read: section.whole("per_read") as u32,
        streams: section.whole("streams") as usize,
        trigger_reads: section.whole("trigger") as u32,
        anchor: match section.text("anchor") {
            "grid" => Anchor::Grid,
            _ => Anchor::ReadEnd,
        },
        order: match section.text("order") {
            "descending" => Order::Descending,
            _ => Order::Ascending,
        },
        outstanding_max: section.whole("outstanding") as usize,
    }
}

/// A planned prefetch and how many of its fetches are still under way.
struct Job {
    prefetch: Prefetch,
    left: u32,
}

/// An SSD between RAM and the volume.
pub struct Tier {
    /// Which chunks it holds.
    pub model: Box<dyn CacheModel>,
    /// Where its requests go.
    pub below: Below,
    /// Unit.
    pub chunk_bytes: u64,
}

/// The cache.
pub struct Pages {
    model: Box<dyn CacheModel>,
    page_bytes: u64,
    /// Its logarithm.
    page_shift: u32,
    in_flight: FastMap<u64, Handle>,
    /// Prefetches under way, by fetch and by number.
    job_of: FastMap<u32, u32>,
    jobs: FastMap<u32, Job>,
    next_job: u32,
    /// What of the read under way was never prefetched.
    missed: Vec<(u64, u64)>,
    evicted: Vec<u64>,
    prefetcher: Option<Prefetcher>,
    tier: Option<Tier>,
    spinning: bool,
    window_ns: u64,
    hits: u64,
    looks: u64,
    ready: Vec<(u16, u64, u64, Account)>,
}

impl Pages {
    /// `model` counts pages of `page_bytes`; `spinning`: the volume is made of disks.
    pub fn new(
        model: Box<dyn CacheModel>,
        page_bytes: u64,
        prefetcher: Option<Prefetcher>,
        tier: Option<Tier>,
        spinning: bool,
    ) -> Pages {
        assert!(page_bytes.is_power_of_two(), "a page of {page_bytes} bytes");
        Pages {
            model,
            page_bytes,
            page_shift: page_bytes.trailing_zeros(),
            in_flight: FastMap::default(),
            job_of: FastMap::default(),
            jobs: FastMap::default(),
            next_job: 0,
            missed: Vec::new(),
            evicted: Vec::new(),
            prefetcher,
            tier,
            spinning,
            window_ns: 0,
            hits: 0,
            looks: 0,
            ready: Vec::new(),
        }
    }

    /// Unit of the cache.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Pages that a range touches.
    #[inline]
    pub fn pages_of(&self, offset: u64, size: u64) -> Range<u64> {
        offset >> self.page_shift..(offset + size + self.page_bytes - 1) >> self.page_shift
    }

    fn key(file: u16, page: u64) -> u64 {
        u64::from(file) << 40 | page
    }

    /// A read from here will begin soon.
    #[inline]
    pub fn expect(&mut self, file: u16, offset: u64) {
        self.model.expect(Self::key(file, offset >> self.page_shift));
    }

    /// A read begins: the prefetcher's account of it.
    pub fn begin_read(&mut self, file: u16, offset: u64, size: u32, now_ns: u64) {
        self.turn_window(now_ns);
        self.missed.clear();
        if let Some(prefetcher) = &mut self.prefetcher {
            let pieces = prefetcher.read(u32::from(file), offset, u64::from(size));
            let missed = pieces.iter().filter(|piece| piece.state == State::Missed);
            self.missed
                .extend(missed.map(|piece| (piece.offset_bytes, piece.offset_bytes + piece.size_bytes)));
        }
    }

    /// Looks for a page that is read now.
    pub fn look(&mut self, file: u16, page: u64) -> PageState {
        let key = Self::key(file, page);
        self.looks += 1;
        // A page that is there is there, even if an older copy of it is on its way.
        let found = if self.model.touch(key) {
            self.hits += 1;
            PageState::Hit
        } else if let Some(fetch) = self.in_flight.get(&key) {
            PageState::InFlight(*fetch)
        } else {
            return PageState::Miss;
        };
        if self.missed.is_empty() {
            return found;
        }
        self.forgive(file, page * self.page_bytes);
        found
    }

    /// A page that was never prefetched is here for another reason: the prefetcher missed nothing.
    fn forgive(&mut self, file: u16, at: u64) {
        let end = at + self.page_bytes;
        for (begin, stop) in &self.missed {
            let bytes = end.min(*stop).saturating_sub(at.max(*begin));
            if let (true, Some(prefetcher)) = (bytes > 0, &mut self.prefetcher) {
                prefetcher.was_cached(u32::from(file), bytes);
            }
        }
    }

    /// Whether a page is neither there nor on its way.
    pub fn is_absent(&self, file: u16, page: u64) -> bool {
        let key = Self::key(file, page);
        !self.in_flight.contains_key(&key) && !self.model.contains(key)
    }

    /// What to prefetch after a read of a file of `file_bytes`.
    pub fn prefetch_after(&mut self, file: u16, offset: u64, size: u32, file_bytes: u64) -> Vec<Prefetch> {
        match &mut self.prefetcher {
            Some(prefetcher) => prefetcher.plan(u32::from(file), offset, u64::from(size), file_bytes),
            None => Vec::new(),
        }
    }

    /// A planned prefetch was sent as these fetches; none = everything was there already.
    pub fn sent(&mut self, prefetch: Prefetch, fetches: &[Handle]) {
        let Some(prefetcher) = &mut self.prefetcher else {
            return;
        };
        if fetches.is_empty() {
            return prefetcher.cancel(&prefetch);
        }
        let job = self.next_job;
        self.next_job = self.next_job.wrapping_add(1);
        self.job_of.extend(fetches.iter().map(|fetch| (*fetch, job)));
        let left = fetches.len() as u32;
        self.jobs.insert(job, Job { prefetch, left });
    }

    fn fetch_ended(&mut self, fetch: Handle) {
        let Some(number) = self.job_of.remove(&fetch) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        job.left -= 1;
        if job.left > 0 {
            return;
        }
        let prefetch = job.prefetch;
        self.jobs.remove(&number);
        if let Some(prefetcher) = &mut self.prefetcher {
            prefetcher.arrived(&prefetch);
        }
    }

    /// The tier that serves an address, and how much of the range from there.
    pub fn tier_of(&mut self, address: u64, size: u32, volume: Below) -> (Below, u32) {
        let Some(tier) = &mut self.tier else {
            return (volume, size);
        };
        let chunk_bytes = tier.chunk_bytes;
        let held = tier.model.contains(address / chunk_bytes);
        let mut piece = (chunk_bytes - address % chunk_bytes).min(u64::from(size));
        while piece < u64::from(size) && tier.model.contains((address + piece) / chunk_bytes) == held {
            piece = (piece + chunk_bytes).min(u64::from(size));
        }
        if held {
            for chunk in address / chunk_bytes..(address + piece).div_ceil(chunk_bytes) {
                tier.model.access(chunk);
            }
        }
        (if held { tier.below } else { volume }, piece as u32)
    }

    /// A fetch begins.
    pub fn begin_fetch(&mut self, file: u16, offset: u64, size: u32, fetch: Handle) {
        for page in self.pages_of(offset, u64::from(size)) {
            self.in_flight.insert(Self::key(file, page), fetch);
        }
    }

    /// A fetch has ended: its pages are in RAM. False if it was no fetch of this cache.
    pub fn end_fetch(&mut self, file: u16, offset: u64, size: u32, fetch: Handle) -> bool {
        if self.in_flight.is_empty() && self.job_of.is_empty() {
            return false;
        }
        let mut ours = false;
        for page in self.pages_of(offset, u64::from(size)) {
            let key = Self::key(file, page);
            match self.in_flight.entry(key) {
                Entry::Occupied(entry) if *entry.get() == fetch => {
                    ours = true;
                    entry.remove();
                    self.insert(key);
                }
                _ => {}
            }
        }
        self.fetch_ended(fetch);
        ours
    }

    fn insert(&mut self, key: u64) {
        if let Some(gone) = self.model.insert(key) {
            self.evict(gone);
        }
    }

    fn evict(&mut self, gone: u64) {
        if let Some(prefetcher) = &mut self.prefetcher {
            let at = (gone & ((1 << 40) - 1)) * self.page_bytes;
            prefetcher.evicted((gone >> 40) as u32, at, self.page_bytes);
        }
        self.evicted.push(gone);
    }

    /// Pages written into the cache.
    pub fn written(&mut self, file: u16, offset: u64, size: u32) {
        for page in self.pages_of(offset, u64::from(size)) {
            let key = Self::key(file, page);
            if let Access::Miss { evicted: Some(gone) } = self.model.access(key) {
                self.evict(gone);
            }
        }
    }

    /// A write went past the cache: what it holds of it is old.
    pub fn written_through(&mut self, file: u16, offset: u64, size: u32) {
        for page in self.pages_of(offset, u64::from(size)) {
            self.model.remove(Self::key(file, page));
        }
    }

    /// Nobody asks for what was thrown out since the last call.
    pub fn forget_evicted(&mut self) {
        self.evicted.clear();
    }

    /// Pages thrown out since the last call: (file, offset, size). Only some were dirty.
    pub fn take_evicted_dirty(&mut self) -> Vec<(u16, u64, u32)> {
        let page_bytes = self.page_bytes;
        let place = |key: u64| {
            (
                (key >> 40) as u16,
                (key & ((1 << 40) - 1)) * page_bytes,
                page_bytes as u32,
            )
        };
        self.evicted.drain(..).map(place).collect()
    }

    /// Data came from a device: where a copy should go (the SSD tier, if it came from the volume).
    pub fn fetched_from(&mut self, device: u16, address: u64, size: u32) -> Option<Below> {
        let tier = self.tier.as_mut()?;
        if device == tier.below.device {
            return None;
        }
        for chunk in address / tier.chunk_bytes..(address + u64::from(size)).div_ceil(tier.chunk_bytes) {
            tier.model.insert(chunk);
        }
        Some(tier.below)
    }

    /// Name of the tier a device is.
    pub fn tier_name(&self, device: u16) -> &'static str {
        match &self.tier {
            Some(tier) if tier.below.device == device => "ssd",
            _ if self.spinning => "hdd",
            _ => "device",
        }
    }

    fn turn_window(&mut self, now_ns: u64) {
        if now_ns - self.window_ns >= WINDOW_NS {
            self.close_windows(now_ns);
        }
    }

    fn close_windows(&mut self, now_ns: u64) {
        let (from_ns, length_ns) = (self.window_ns, now_ns - self.window_ns);
        if let Some(prefetcher) = &mut self.prefetcher {
            let done = prefetcher.take_accounts().into_iter();
            self.ready
                .extend(done.map(|(file, account)| (file as u16, from_ns, length_ns, account)));
        }
        self.window_ns = now_ns;
    }

    /// Values for `series/`.
    pub fn sample(&mut self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cache_bytes", self.model.len() as f64 * self.page_bytes as f64);
        if self.looks > 0 {
            put("hit_ratio", self.hits as f64 / self.looks as f64);
        }
        (self.hits, self.looks) = (0, 0);
    }

    /// Writes the prefetch windows.
    pub fn finish(&mut self, core: &mut Core) {
        self.close_windows(core.now_ns());
        if self.prefetcher.is_none() {
            return;
        }
        for (file, from_ns, length_ns, window) in self.ready.drain(..) {
            core.recorder.prefetch_window(file, from_ns, length_ns, &window);
        }
    }
}
