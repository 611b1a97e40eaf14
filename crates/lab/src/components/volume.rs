//! A volume over several drives: stripes, mirrors, erasure code.
//!
//! Erasure code k+m: a stripe is k data chunks and m parity chunks on k+m of the drives, rotating. A full-stripe write
//! writes all of them and waits for the slowest; a partial one first reads old data and parity, then writes both (RAID 5
//! and 6 read-modify-write). With a missing member its chunk is rebuilt from k others. A hedged read asks for one
//! chunk more after a while and goes on with the first k.
use crate::component::{Component, ComponentId, Handle, Message};
use crate::keys::{key, Key, Kind};
use crate::request::{Level, Request, State};
use crate::sim::Core;
use case::schema::{Op, Stage};

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

/// How data lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Chunks round robin.
    Stripe,
    /// The same on every drive.
    Mirror,
    /// k data and m parity chunks.
    Erasure {
        /// Data chunks.
        data: u64,
        /// Parity chunks.
        parity: u64,
    },
}

/// A request to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    drive: usize,
    op: Op,
    offset_bytes: u64,
    size_bytes: u32,
}

const HEDGE: u16 = 1;

/// Everything that decides where a volume's bytes lie.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// Kind.
    pub shape: Shape,
    /// Number of drives.
    pub drives: usize,
    /// Chunk.
    pub chunk_bytes: u64,
    /// Failed drives: 0..missing.
    pub missing: usize,
}

impl Geometry {
    /// Usable bytes on drives of `drive_bytes`.
    pub fn size_bytes(&self, drive_bytes: u64) -> u64 {
        let whole = drive_bytes / self.chunk_bytes * self.chunk_bytes;
        match self.shape {
            Shape::Stripe => whole * self.drives as u64,
            Shape::Mirror => whole,
            Shape::Erasure { data, parity } => {
                let slots = whole / self.chunk_bytes * self.drives as u64;
                slots / (data + parity) * data * self.chunk_bytes
            }
        }
    }

    /// Bytes of data in a stripe.
    fn stripe_bytes(&self) -> u64 {
        match self.shape {
            Shape::Stripe => self.chunk_bytes * self.drives as u64,
            Shape::Mirror => self.chunk_bytes,
            Shape::Erasure { data, .. } => self.chunk_bytes * data,
        }
    }

    /// Drive and offset of chunk `index` (data first, then parity) of an erasure stripe. Stripes are dealt over all
    /// drives one after the other, so each begins where the last one ended.
    fn erasure_place(&self, stripe: u64, index: u64, width: u64) -> (usize, u64) {
        let slot = stripe * width + index;
        let drives = self.drives as u64;
        ((slot % drives) as usize, slot / drives * self.chunk_bytes)
    }

    /// Splits a range at chunks: (stripe, index in it, offset in the chunk, bytes).
    fn chunks(&self, offset: u64, size: u32) -> impl Iterator<Item = (u64, u64, u64, u32)> + '_ {
        let end = offset + u64::from(size);
        let mut at = offset;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let within = at % self.chunk_bytes;
                let bytes = (self.chunk_bytes - within).min(end - at);
                let stripe = at / self.stripe_bytes();
                let index = at % self.stripe_bytes() / self.chunk_bytes;
                at += bytes;
                (stripe, index, within, bytes as u32)
            })
        })
    }

    /// First and second step of a request: the second begins when the first is done.
    fn plan(
        &self,
        op: Op,
        offset: u64,
        size: u32,
        turn: u64,
        (first, second): (&mut Vec<Part>, &mut Vec<Part>),
    ) {
        if size == 0 {
            let all = self.missing..self.drives;
            first.extend(all.map(|drive| part(drive, op, 0, 0)));
            return;
        }
        match self.shape {
            Shape::Stripe => {
                for (stripe, index, within, bytes) in self.chunks(offset, size) {
                    push(
                        first,
                        part(index as usize, op, stripe * self.chunk_bytes + within, bytes),
                    );
                }
            }
            Shape::Mirror if op == Op::Read => {
                let alive = self.drives - self.missing;
                first.push(part(
                    self.missing + (turn % alive as u64) as usize,
                    op,
                    offset,
                    size,
                ));
            }
            Shape::Mirror => first.extend((self.missing..self.drives).map(|d| part(d, op, offset, size))),
            Shape::Erasure { data, parity } if op == Op::Read => {
                for chunk in self.chunks(offset, size) {
                    self.read_chunk(chunk, data, parity, first);
                }
            }
            Shape::Erasure { data, parity } => {
                self.write_erasure((op, offset, size), (data, parity), first, second);
            }
        }
    }

    /// The parts of a second way to the same bytes, without the drive asked first.
    fn elsewhere(&self, asked: usize, offset: u64, size: u32) -> Vec<Part> {
        let Shape::Erasure { data, parity } = self.shape else {
            let alive = self.drives - self.missing;
            let other = (asked - self.missing + 1) % alive + self.missing;
            return vec![part(other, Op::Read, offset, size)];
        };
        let Some((stripe, _, within, bytes)) = self.chunks(offset, size).next() else {
            return Vec::new();
        };
        let width = data + parity;
        let others = (0..width).map(|other| self.erasure_place(stripe, other, width));
        let alive = others.filter(|(drive, _)| *drive != asked && *drive >= self.missing);
        alive
            .take(data as usize)
            .map(|(drive, base)| part(drive, Op::Read, base + within, bytes))
            .collect()
    }

    fn read_chunk(&self, chunk: (u64, u64, u64, u32), data: u64, parity: u64, parts: &mut Vec<Part>) {
        let (stripe, index, within, bytes) = chunk;
        let width = data + parity;
        let (drive, base) = self.erasure_place(stripe, index, width);
        if drive >= self.missing {
            return push(parts, part(drive, Op::Read, base + within, bytes));
        }
        // Rebuilt from any k of the others.
        let others = (0..width).map(|other| self.erasure_place(stripe, other, width));
        let alive = others
            .filter(|(drive, _)| *drive >= self.missing)
            .take(data as usize);
        alive.for_each(|(drive, base)| parts.push(part(drive, Op::Read, base + within, bytes)));
    }

    fn write_erasure(
        &self,
        (op, offset, size): (Op, u64, u32),
        (data, parity): (u64, u64),
        first: &mut Vec<Part>,
        second: &mut Vec<Part>,
    ) {
        let width = data + parity;
        let mut chunks: Vec<(u64, u64, u64, u32)> = self.chunks(offset, size).collect();
        while let Some(&(stripe, ..)) = chunks.first() {
            let count = chunks.iter().take_while(|chunk| chunk.0 == stripe).count();
            let own: Vec<_> = chunks.drain(..count).collect();
            let bytes: u64 = own.iter().map(|chunk| u64::from(chunk.3)).sum();
            let full = bytes == self.stripe_bytes();
            let low = own.iter().map(|chunk| chunk.2).min().unwrap_or(0);
            let high = own
                .iter()
                .map(|chunk| chunk.2 + u64::from(chunk.3))
                .max()
                .unwrap_or(0);
            let mut put = |(drive, at): (usize, u64), within: u64, bytes: u32| {
                if drive < self.missing {
                    return;
                }
                if full {
                    return first.push(part(drive, op, at + within, bytes));
                }
                first.push(part(drive, Op::Read, at + within, bytes));
                second.push(part(drive, op, at + within, bytes));
            };
            for (stripe, index, within, bytes) in own {
                put(self.erasure_place(stripe, index, width), within, bytes);
            }
            for index in data..width {
                put(self.erasure_place(stripe, index, width), low, (high - low) as u32);
            }
        }
    }
}

fn part(drive: usize, op: Op, offset_bytes: u64, size_bytes: u32) -> Part {
    Part {
        drive,
        op,
        offset_bytes,
        size_bytes,
    }
}

/// Adds a part, or extends the last one on that drive where it follows directly.
fn push(parts: &mut Vec<Part>, next: Part) {
    let last = parts.iter_mut().rev().find(|part| part.drive == next.drive);
    match last {
        Some(last) if last.offset_bytes + u64::from(last.size_bytes) == next.offset_bytes => {
            last.size_bytes += next.size_bytes;
        }
        _ => parts.push(next),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn erasure(drives: usize, missing: usize) -> Geometry {
        Geometry {
            shape: Shape::Erasure { data: 4, parity: 2 },
            drives,
            chunk_bytes: 4096,
            missing,
        }
    }

    fn plan(geometry: &Geometry, op: Op, offset: u64, size: u32) -> (Vec<Part>, Vec<Part>) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        geometry.plan(op, offset, size, 0, (&mut first, &mut second));
        (first, second)
    }

    #[test]
    fn a_full_stripe_is_written_at_once_and_a_part_in_two_steps() {
        let (first, second) = plan(&erasure(8, 0), Op::Write, 0, 4 * 4096);
        assert_eq!((first.len(), second.len()), (6, 0));
        assert!(first
            .iter()
            .all(|part| part.op == Op::Write && part.size_bytes == 4096));
        let (first, second) = plan(&erasure(8, 0), Op::Write, 4096, 512);
        assert_eq!((first.len(), second.len()), (3, 3));
        assert!(first
            .iter()
            .all(|part| part.op == Op::Read && part.size_bytes == 512));
    }

    #[test]
    fn a_missing_chunk_is_read_from_k_others() {
        let (first, _) = plan(&erasure(6, 1), Op::Read, 0, 4096);
        assert_eq!(first.len(), 4);
        assert!(first.iter().all(|part| part.drive != 0));
        let (first, _) = plan(&erasure(6, 1), Op::Read, 4096, 4096);
        assert_eq!(first.len(), 1);
    }

    #[test]
    fn every_byte_has_its_own_place_within_the_drives() {
        let drive_bytes = 10 * 4096;
        for geometry in [
            erasure(7, 0),
            Geometry {
                shape: Shape::Stripe,
                drives: 3,
                chunk_bytes: 4096,
                missing: 0,
            },
        ] {
            let size = geometry.size_bytes(drive_bytes);
            let mut seen = std::collections::BTreeSet::new();
            for offset in (0..size).step_by(512) {
                let (first, _) = plan(&geometry, Op::Read, offset, 512);
                assert_eq!(first.len(), 1);
                assert!(first[0].offset_bytes + 512 <= drive_bytes);
                assert!(seen.insert((first[0].drive, first[0].offset_bytes)));
            }
        }
    }
}
