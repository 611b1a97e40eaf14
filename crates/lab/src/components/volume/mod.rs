//! A volume over several drives: stripes, mirrors, erasure code.
//!
//! Erasure code k+m: a stripe is k data chunks and m parity chunks on k+m of the drives, rotating. A full-stripe write
//! writes all of them and waits for the slowest; a partial one first reads old data and parity, then writes both (RAID 5
//! and 6 read-modify-write). With a missing member its chunk is rebuilt from k others. A hedged read asks for one
//! chunk more after a while and goes on with the first k.
mod geometry;

use crate::component::{Component, ComponentId, Handle, Message};
use crate::keys::{key, Key, Kind};
use crate::request::{Level, Request, State};
use crate::sim::Core;
use case::schema::{Op, Stage};
use geometry::Part;
pub use geometry::{Geometry, Shape};

/// Keys of `[volume]`.
pub const KEYS: [Key; 7] = [
    key(
        "kind",
        Kind::Choice(&["stripe", "mirror", "erasure"]),
        "stripe",
        "How data lie on the drives.",
    ),
    key("name", Kind::Text, "md0", "Its name in the case."),
    key(
        "chunk",
        Kind::Size(4096, 1 << 26),
        "64KiB",
        "Contiguous bytes on one drive.",
    ),
    key(
        "data",
        Kind::Count(1, 512),
        "8",
        "k: data chunks of a stripe (erasure).",
    ),
    key(
        "parity",
        Kind::Count(1, 8),
        "2",
        "m: parity chunks of a stripe (erasure).",
    ),
    key(
        "missing",
        Kind::Count(0, 8),
        "0",
        "Drives that have failed, the first ones (erasure, mirror).",
    ),
    key(
        "hedge",
        Kind::Time(0, 60_000_000_000),
        "0s",
        "A read asks elsewhere after this; 0 = never (erasure, mirror).",
    ),
];

const HEDGE: u16 = 1;

/// The volume.
pub struct Volume {
    name: String,
    geometry: Geometry,
    drives: Vec<ComponentId>,
    hedge_ns: u64,
    held: usize,
    first: Vec<Part>,
    second: Vec<Part>,
}

impl Volume {
    /// `drives` are the members, in order.
    pub fn new(name: &str, geometry: Geometry, drives: Vec<ComponentId>, hedge_ns: u64) -> Volume {
        Volume {
            name: name.into(),
            geometry,
            drives,
            hedge_ns,
            held: 0,
            first: Vec::new(),
            second: Vec::new(),
        }
    }

    fn send(&mut self, parent: Handle, parts: &[Part], hedge: bool, core: &mut Core) {
        let now_ns = core.now_ns();
        for part in parts {
            let from = core.get_mut(parent);
            from.pending += 1;
            let (flags, thread, cpu, file) = (from.flags, from.thread, from.cpu, from.file);
            // Tells a late leg of a hedged read that its parent is gone, although its place is taken again.
            let tag = from.op_id << 1 | u64::from(hedge);
            let (op, offset_bytes, size_bytes) = (part.op, part.offset_bytes, part.size_bytes);
            let level = Level::Block;
            let handle = core.create(Request::new(
                level,
                op,
                offset_bytes,
                size_bytes,
                now_ns,
                Stage::Queue,
            ));
            let child = core.get_mut(handle);
            (child.flags, child.thread, child.cpu, child.file) = (flags, thread, cpu, file);
            (child.submit_ns, child.parent, child.tag) = (0, parent, tag);
            child.device = part.drive as u16;
            core.send(self.drives[part.drive], handle);
        }
    }

    /// Fills `first` and `second` for a request.
    fn plan(&mut self, handle: Handle, core: &Core) {
        let request = core.get(handle);
        self.first.clear();
        self.second.clear();
        self.geometry.plan(
            request.op,
            request.offset_bytes,
            request.size_bytes,
            handle_turn(request),
            (&mut self.first, &mut self.second),
        );
    }

    fn arrive(&mut self, handle: Handle, core: &mut Core) {
        self.held += 1;
        core.get_mut(handle).depth = self.held as u32;
        self.plan(handle, core);
        if !self.second.is_empty() {
            core.get_mut(handle).work |= SECOND_STEP;
        }
        let parts = std::mem::take(&mut self.first);
        self.send(handle, &parts, false, core);
        let redundant = self.geometry.shape != Shape::Stripe;
        if self.hedge_ns > 0 && parts.len() == 1 && core.get(handle).op == Op::Read && redundant {
            let due_ns = core.now_ns() + self.hedge_ns;
            core.get_mut(handle).drive_done_ns = due_ns;
            core.timer(due_ns, HEDGE, handle);
        }
        self.first = parts;
    }

    /// A hedged read has waited long enough: the same bytes from elsewhere.
    fn hedge(&mut self, handle: Handle, core: &mut Core) {
        let request = core.get(handle);
        let waits = request.state == State::Active && request.holder == core.me() && request.work == 0;
        if !waits || request.drive_done_ns != core.now_ns() {
            return;
        }
        let (offset, size) = (request.offset_bytes, request.size_bytes);
        self.plan(handle, core);
        let asked = self.first.first().map_or(0, |part| part.drive);
        let parts = self.geometry.elsewhere(asked, offset, size);
        core.get_mut(handle).work = (parts.len() as u64) << HEDGE_SHIFT;
        self.send(handle, &parts, true, core);
    }

    fn child_done(&mut self, child: Handle, core: &mut Core) {
        let request = core.get(child);
        let (parent, hedge) = (request.parent, request.tag & 1 == 1);
        let up = core.get(parent);
        if up.state != State::Active || up.op_id != request.tag >> 1 || up.holder != core.me() {
            // The other leg of a hedged read was faster.
            return core.release(child);
        }
        core.attach(parent, child);
        let up = core.get_mut(parent);
        up.pending -= 1;
        let legs = up.work >> HEDGE_SHIFT;
        if legs > 0 && hedge {
            up.work -= 1 << HEDGE_SHIFT;
            if legs > 1 {
                return;
            }
        } else if legs == 0 && up.pending > 0 {
            return;
        }
        if up.work & SECOND_STEP != 0 {
            up.work &= !SECOND_STEP;
            self.plan(parent, core);
            let parts = std::mem::take(&mut self.second);
            self.send(parent, &parts, false, core);
            self.second = parts;
            return;
        }
        core.get_mut(parent).work = 0;
        core.absorb(parent);
        self.held -= 1;
        core.complete(parent);
    }
}

/// Mirrors read from their members in turn, by place, so that neighbours stay together.
fn handle_turn(request: &Request) -> u64 {
    request.offset_bytes >> 16
}

const SECOND_STEP: u64 = 1;
const HEDGE_SHIFT: u32 = 8;

impl Component for Volume {
    fn name(&self) -> &str {
        &self.name
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(handle) => self.arrive(handle, core),
            Message::Done(child) => self.child_done(child, core),
            Message::Timer { arg, .. } => self.hedge(arg, core),
        }
    }

    fn depth(&self) -> usize {
        self.held
    }
}
