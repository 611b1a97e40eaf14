//! Writes of the server into its cache, and out again.
use super::{parent_row, Server, COPIED, COPY_NS_PER_KIB, WRITE_BACK};
use crate::component::{Handle, NO_HANDLE};
use crate::sim::Core;
use case::schema::{flags, Op, Stage};

impl Server {
    pub(super) fn write_evicted(&mut self, core: &mut Core) {
        let Some(pages) = &mut self.pages else { return };
        if self.writeback.is_none() {
            return pages.forget_evicted();
        }
        let evicted = pages.take_evicted_dirty();
        for (file, offset, size) in evicted {
            let taken = self
                .writeback
                .as_mut()
                .is_some_and(|writeback| writeback.is_dirty(file, offset));
            if taken {
                self.background_write(file, offset, size, core);
            }
        }
    }

    fn background_write(&mut self, file: u16, offset: u64, size: u32, core: &mut Core) {
        let mut done = 0;
        while done < size {
            let at = offset + u64::from(done);
            let (address, run_bytes) = self.placement.write(file, at, size - done);
            let piece = run_bytes.min(size - done).min(self.costs.max_io_bytes);
            let child = self.request(Op::Write, address, piece, NO_HANDLE, flags::BACKGROUND, core);
            let request = core.get_mut(child);
            (request.tag, request.file) = (at, file);
            if let Some(writeback) = &mut self.writeback {
                let carried = writeback.begin_write(file, at, piece, child);
                let child_id = core.get(child).op_id;
                if let Some(parent_id) = carried {
                    core.recorder.carries(parent_id, child_id, piece);
                }
            }
            core.send(self.below.id, child);
            done += piece;
        }
    }

    pub(super) fn write_cached(&mut self, handle: Handle, core: &mut Core) {
        let (Some(pages), Some(writeback)) = (&mut self.pages, &mut self.writeback) else {
            return;
        };
        if writeback.must_wait() {
            core.enter(handle, Stage::Throttle);
            writeback.wait(handle);
            return;
        }
        let now_ns = core.now_ns();
        let request = core.get(handle);
        let (file, offset, size) = (request.file, request.offset_bytes, request.size_bytes);
        writeback.dirty(file, offset, size, parent_row(request), now_ns);
        pages.written(file, offset, size);
        let copy_ns = u64::from(size) * COPY_NS_PER_KIB / 1024;
        core.get_mut(handle).pending = 1;
        self.write_evicted(core);
        self.write_back(core);
        core.timer(core.now_ns() + copy_ns, COPIED, handle);
    }

    /// Begins what writeback wants to write now, and sets its next timer.
    pub(super) fn write_back(&mut self, core: &mut Core) {
        let now_ns = core.now_ns();
        while let Some((file, offset, size)) = self.writeback.as_mut().and_then(|w| w.next_write(now_ns)) {
            self.background_write(file, offset, size, core);
        }
        if let Some(at_ns) = self.writeback.as_mut().and_then(|w| w.next_timer(now_ns)) {
            core.timer(at_ns, WRITE_BACK, 0);
        }
    }

    pub(super) fn background_write_done(&mut self, child: Handle, core: &mut Core) {
        let Some(writeback) = &mut self.writeback else {
            return;
        };
        let released = writeback.end_write(child);
        for (handle, since_ns) in released.syncs {
            core.borrow(handle, child, since_ns);
            self.piece_done(handle, core);
        }
        for handle in released.writers {
            core.enter(handle, Stage::Fs);
            self.write_cached(handle, core);
        }
    }
}
