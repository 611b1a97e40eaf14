//! Reads of the server through its cache: what is there, what is on its way, what must be fetched, what is fetched ahead.
use super::{parent_row, Below, Server};
use crate::component::{Handle, NO_HANDLE};
use crate::components::pages::{CachePiece, PageState, Pages};
use crate::models::prefetch::Prefetch;
use crate::sim::Core;
use case::schema::{flags, Op};

/// A wait for a fetch of somebody else.
pub(super) struct Waiter {
    parent: Handle,
    since_ns: u64,
    offset_bytes: u64,
    size_bytes: u32,
}

impl Server {
    pub(super) fn read_cached(&mut self, handle: Handle, core: &mut Core) {
        let Some(mut pages) = self.pages.take() else {
            return;
        };
        let request = core.get(handle);
        let (file, offset, size) = (request.file, request.offset_bytes, request.size_bytes);
        let op_id = parent_row(request);
        core.get_mut(handle).pending = 1;
        let now_ns = core.now_ns();
        pages.begin_read(file, offset, size, now_ns);
        let mut missing: Option<(u64, u32)> = None;
        let mut hit: Option<(u64, u32)> = None;
        let mut made = std::mem::take(&mut self.fetches);
        let page_bytes = pages.page_bytes();
        for page in pages.pages_of(offset, u64::from(size)) {
            let at = page * page_bytes;
            match pages.look(file, page) {
                PageState::Hit => grow(&mut hit, at, page_bytes),
                PageState::InFlight(fetch) => {
                    core.get_mut(handle).pending += 1;
                    let waiter = Waiter {
                        parent: handle,
                        since_ns: now_ns,
                        offset_bytes: at,
                        size_bytes: page_bytes as u32,
                    };
                    let list = self.waiters.entry(fetch).or_default();
                    match list.last_mut() {
                        // Neighbouring pages of one fetch are one wait.
                        Some(last) if last.parent == handle => {
                            last.size_bytes += page_bytes as u32;
                            core.get_mut(handle).pending -= 1;
                        }
                        _ => list.push(waiter),
                    }
                }
                PageState::Miss => {
                    let follows = missing.is_some_and(|(from, bytes)| {
                        from + u64::from(bytes) == at
                            && u64::from(bytes) + page_bytes <= u64::from(self.costs.max_io_bytes)
                    });
                    if !follows {
                        if let Some((from, bytes)) = missing.take() {
                            self.fetch(&mut pages, file, (from, bytes), handle, &mut made, core);
                        }
                    }
                    grow(&mut missing, at, page_bytes);
                }
            }
        }
        if let Some((from, bytes)) = missing {
            self.fetch(&mut pages, file, (from, bytes), handle, &mut made, core);
        }
        made.clear();
        self.fetches = made;
        if let Some((from, bytes)) = hit {
            core.recorder
                .cache_piece(op_id, piece("ram", file, (from, bytes), 0));
        }
        let file_bytes = self.placement.file_bytes(file);
        for prefetch in pages.prefetch_after(file, offset, size, file_bytes) {
            self.prefetch(&mut pages, prefetch, core);
        }
        self.pages = Some(pages);
        self.write_evicted(core);
        self.piece_done(handle, core);
    }

    /// Fetches pages, for a read that misses them or ahead of need; adds the requests to `made`.
    fn fetch(
        &mut self,
        pages: &mut Pages,
        file: u16,
        (offset, size): (u64, u32),
        parent: Handle,
        made: &mut Vec<Handle>,
        core: &mut Core,
    ) {
        let mut done = 0;
        while done < size {
            let at = offset + u64::from(done);
            let (address, run_bytes) = self.placement.read(file, at, size - done);
            let piece = run_bytes.min(size - done).min(self.costs.max_io_bytes);
            let (below, piece) = pages.tier_of(address, piece, self.below);
            let child = self.request_to(below, address, piece, parent, core);
            let request = core.get_mut(child);
            (request.tag, request.file) = (at, file);
            pages.begin_fetch(file, at, piece, child);
            made.push(child);
            core.send(below.id, child);
            done += piece;
        }
    }

    fn request_to(
        &mut self,
        below: Below,
        address: u64,
        size: u32,
        parent: Handle,
        core: &mut Core,
    ) -> Handle {
        let own = std::mem::replace(&mut self.below, below);
        let extra = if parent == NO_HANDLE { flags::READAHEAD } else { 0 };
        let child = self.request(Op::Read, address, size, parent, extra, core);
        self.below = own;
        child
    }

    /// Fetches pages ahead of need; those that are there or under way are left out.
    fn prefetch(&mut self, pages: &mut Pages, prefetch: Prefetch, core: &mut Core) {
        let file = prefetch.file as u16;
        let page_bytes = pages.page_bytes();
        let max_io = u64::from(self.costs.max_io_bytes);
        let mut fetches = std::mem::take(&mut self.fetches);
        let mut run: Option<(u64, u32)> = None;
        for page in pages.pages_of(prefetch.offset_bytes, prefetch.size_bytes) {
            let wanted = pages.is_absent(file, page);
            let full = run.is_some_and(|(_, bytes)| u64::from(bytes) + page_bytes > max_io);
            if !wanted || full {
                if let Some((from, bytes)) = run.take() {
                    self.fetch(pages, file, (from, bytes), NO_HANDLE, &mut fetches, core);
                }
            }
            if wanted {
                grow(&mut run, page * page_bytes, page_bytes);
            }
        }
        if let Some((from, bytes)) = run {
            self.fetch(pages, file, (from, bytes), NO_HANDLE, &mut fetches, core);
        }
        pages.sent(prefetch, &fetches);
        fetches.clear();
        self.fetches = fetches;
    }

    pub(super) fn tier_name(&self, device: u16) -> &'static str {
        match &self.pages {
            Some(pages) => pages.tier_name(device),
            None => "device",
        }
    }

    pub(super) fn wake_waiters(&mut self, fetch: Handle, core: &mut Core) {
        for waiter in self.waiters.remove(&fetch).unwrap_or_default() {
            let op_id = parent_row(core.get(waiter.parent));
            let file = core.get(waiter.parent).file;
            let wait_ns = core.now_ns() - waiter.since_ns;
            let range = (waiter.offset_bytes, waiter.size_bytes);
            core.recorder
                .cache_piece(op_id, piece("readahead", file, range, wait_ns));
            core.borrow(waiter.parent, fetch, waiter.since_ns);
            self.piece_done(waiter.parent, core);
        }
    }

    /// Copies what came from the volume into the SSD tier, in the background.
    pub(super) fn fill_tier(&mut self, below: Below, address: u64, size: u32, core: &mut Core) {
        let own = std::mem::replace(&mut self.below, below);
        let size = size.min(self.costs.max_io_bytes);
        let child = self.request(Op::Write, address, size, NO_HANDLE, flags::BACKGROUND, core);
        self.below = own;
        core.get_mut(child).file = u16::MAX;
        core.send(below.id, child);
    }
}

pub(super) fn piece(
    tier: &'static str,
    file: u16,
    (offset_bytes, size_bytes): (u64, u32),
    wait_ns: u64,
) -> CachePiece {
    CachePiece {
        tier,
        file,
        offset_bytes,
        size_bytes,
        wait_ns,
    }
}

fn grow(range: &mut Option<(u64, u32)>, at: u64, bytes: u64) {
    match range {
        Some((_, size)) => *size += bytes as u32,
        None => *range = Some((at, bytes as u32)),
    }
}
