//! The server's RAM cache with what belongs to it: fetches under way, the prefetcher, the SSD tier.
use super::server::Below;
use crate::component::{Access, CacheModel, Handle};
use crate::fast_map::FastMap;
use crate::keys::{key, Key, Kind};
use crate::sim::Core;
use std::collections::BTreeMap;

/// Keys of `[cache]`.
pub const CACHE_KEYS: [Key; 3] = [
    key("policy", Kind::Choice(&["lru", "arc", "s3fifo"]), "lru", "Which page goes when one has to."),
    key("size", Kind::Size(4096, 1 << 44), "4GiB", "RAM for it."),
    key("page", Kind::Size(4096, 1 << 20), "64KiB", "Unit that is kept or thrown out; a power of two."),
];

/// Keys of `[prefetch]`.
pub const PREFETCH_KEYS: [Key; 4] = [
    key("chunk", Kind::Size(4096, 1 << 30), "8MiB", "Most bytes of one prefetch."),
    key("per_read", Kind::Count(1, 64), "1", "Prefetches started per read request."),
    key("streams", Kind::Count(1, 65536), "64", "Sequential readers it can follow at once."),
    key("trigger", Kind::Count(1, 64), "2", "Reads in a row that make a sequential reader."),
];

/// Keys of `[ssd_tier]`.
pub const TIER_KEYS: [Key; 4] = [
    key("size", Kind::Size(1 << 20, 1 << 50), "200GiB", "Capacity of the tier."),
    key("chunk", Kind::Size(4096, 1 << 24), "64KiB", "Unit that is kept or thrown out; a power of two."),
    key("read", Kind::Time(0, 1_000_000_000), "100us", "Service time of a read, without its transfer."),
    key("filled", Kind::Flag, "false", "Whether everything that fits is in it at the beginning."),
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

/// What a prefetcher did for one file in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchWindow {
    /// Fetched ahead.
    pub issued_bytes: u64,
    /// Of those, read later.
    pub used_bytes: u64,
    /// Of those, thrown out unread.
    pub wasted_bytes: u64,
    /// Read while under way.
    pub late_bytes: u64,
    /// Read without having been fetched ahead.
    pub missed_bytes: u64,
}

/// Length of a window of `prefetch/`.
const WINDOW_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct Stream {
    file: u16,
    next_bytes: u64,
    /// Everything before this was asked for.
    ahead_bytes: u64,
    reads: u32,
    used: u64,
}

/// Starts fetches ahead of sequential readers: after each read, from its end (or from the end of what was already asked
/// for), `per_read` chunks at most.
pub struct Prefetcher {
    chunk_bytes: u64,
    per_read: u64,
    trigger: u32,
    streams: Vec<Stream>,
    streams_max: usize,
    clock: u64,
}

impl Prefetcher {
    /// See the keys.
    pub fn new(chunk_bytes: u64, per_read: u64, streams_max: usize, trigger: u32) -> Prefetcher {
        Prefetcher {
            chunk_bytes,
            per_read,
            trigger,
            streams: Vec::new(),
            streams_max,
            clock: 0,
        }
    }

    /// Ranges to fetch after this read.
    fn after_read(&mut self, file: u16, offset_bytes: u64, size_bytes: u32) -> Vec<(u64, u32)> {
        self.clock += 1;
        let end_bytes = offset_bytes + u64::from(size_bytes);
        let found = self
            .streams
            .iter_mut()
            .find(|stream| stream.file == file && stream.next_bytes == offset_bytes);
        let Some(stream) = found else {
            self.begin_stream(file, end_bytes);
            return Vec::new();
        };
        stream.next_bytes = end_bytes;
        stream.reads += 1;
        stream.used = self.clock;
        if stream.reads < self.trigger {
            return Vec::new();
        }
        // Anchored at the end of the read: what it fetches is what the next read of that size needs first.
        (0..self.per_read)
            .map(|n| (end_bytes + n * self.chunk_bytes, self.chunk_bytes as u32))
            .inspect(|(from, bytes)| stream.ahead_bytes = from + u64::from(*bytes))
            .collect()
    }

    fn begin_stream(&mut self, file: u16, end_bytes: u64) {
        let stream = Stream {
            file,
            next_bytes: end_bytes,
            ahead_bytes: end_bytes,
            reads: 1,
            used: self.clock,
        };
        if self.streams.len() < self.streams_max {
            return self.streams.push(stream);
        }
        if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
            *oldest = stream;
        }
    }
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
    in_flight: FastMap<u64, Handle>,
    /// Pages fetched ahead and not yet read.
    unread: FastMap<u64, ()>,
    evicted: Vec<u64>,
    prefetcher: Option<Prefetcher>,
    tier: Option<Tier>,
    spinning: bool,
    windows: BTreeMap<u16, PrefetchWindow>,
    window_ns: u64,
    hits: u64,
    looks: u64,
    ready: Vec<(u16, u64, u64, PrefetchWindow)>,
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
            in_flight: FastMap::default(),
            unread: FastMap::default(),
            evicted: Vec::new(),
            prefetcher,
            tier,
            spinning,
            windows: BTreeMap::new(),
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

    fn key(file: u16, page: u64) -> u64 {
        u64::from(file) << 40 | page
    }

    fn window(&mut self, file: u16) -> &mut PrefetchWindow {
        self.windows.entry(file).or_default()
    }

    /// Looks for a page that is read now.
    pub fn look(&mut self, file: u16, page: u64) -> PageState {
        let key = Self::key(file, page);
        self.looks += 1;
        let bytes = self.page_bytes;
        if let Some(fetch) = self.in_flight.get(&key) {
            let fetch = *fetch;
            if self.unread.remove(&key).is_some() {
                let window = self.window(file);
                window.late_bytes += bytes;
                window.used_bytes += bytes;
            }
            return PageState::InFlight(fetch);
        }
        if self.model.contains(key) {
            self.model.access(key);
            self.hits += 1;
            if self.unread.remove(&key).is_some() {
                self.window(file).used_bytes += bytes;
            }
            return PageState::Hit;
        }
        if self.prefetcher.is_some() {
            self.window(file).missed_bytes += bytes;
        }
        PageState::Miss
    }

    /// Whether a page is neither there nor on its way.
    pub fn is_absent(&self, file: u16, page: u64) -> bool {
        let key = Self::key(file, page);
        !self.in_flight.contains_key(&key) && !self.model.contains(key)
    }

    /// Ranges to prefetch after a read.
    pub fn prefetch_after(&mut self, file: u16, offset: u64, size: u32, now_ns: u64) -> Vec<(u64, u32)> {
        self.turn_window(now_ns);
        match &mut self.prefetcher {
            Some(prefetcher) => prefetcher.after_read(file, offset, size),
            None => Vec::new(),
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
        for page in offset / self.page_bytes..(offset + u64::from(size)).div_ceil(self.page_bytes) {
            self.in_flight.insert(Self::key(file, page), fetch);
        }
    }

    /// A fetch has ended: its pages are in RAM. False if it was no fetch of this cache.
    pub fn end_fetch(
        &mut self,
        file: u16,
        offset: u64,
        size: u32,
        fetch: Handle,
    ) -> bool {
        let mut ours = false;
        for page in offset / self.page_bytes..(offset + u64::from(size)).div_ceil(self.page_bytes) {
            let key = Self::key(file, page);
            if self.in_flight.get(&key) == Some(&fetch) {
                ours = true;
                self.in_flight.remove(&key);
                self.insert(key);
            }
        }
        ours
    }

    /// Notes pages as fetched ahead.
    pub fn note_prefetched(&mut self, file: u16, offset: u64, size: u32) {
        for page in offset / self.page_bytes..(offset + u64::from(size)).div_ceil(self.page_bytes) {
            self.unread.insert(Self::key(file, page), ());
        }
        self.window(file).issued_bytes += u64::from(size);
    }

    fn insert(&mut self, key: u64) {
        if let Some(gone) = self.model.insert(key) {
            self.evict(gone);
        }
    }

    fn evict(&mut self, gone: u64) {
        if self.unread.remove(&gone).is_some() {
            let bytes = self.page_bytes;
            self.window((gone >> 40) as u16).wasted_bytes += bytes;
        }
        self.evicted.push(gone);
    }

    /// Pages written into the cache.
    pub fn written(&mut self, file: u16, offset: u64, size: u32) {
        for page in offset / self.page_bytes..(offset + u64::from(size)).div_ceil(self.page_bytes) {
            let key = Self::key(file, page);
            if let Access::Miss { evicted: Some(gone) } = self.model.access(key) {
                self.evict(gone);
            }
        }
    }

    /// A write went past the cache: what it holds of it is old.
    pub fn written_through(&mut self, file: u16, offset: u64, size: u32) {
        for page in offset / self.page_bytes..(offset + u64::from(size)).div_ceil(self.page_bytes) {
            self.model.remove(Self::key(file, page));
        }
    }

    /// Pages thrown out since the last call: (file, offset, size). Only some were dirty.
    pub fn take_evicted_dirty(&mut self) -> Vec<(u16, u64, u32)> {
        let page_bytes = self.page_bytes;
        let place = |key: u64| ((key >> 40) as u16, (key & ((1 << 40) - 1)) * page_bytes, page_bytes as u32);
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
        let done = std::mem::take(&mut self.windows).into_iter();
        self.ready
            .extend(done.map(|(file, window)| (file, from_ns, length_ns, window)));
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
