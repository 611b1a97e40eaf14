//! Where the bytes of a volume lie, and which parts a request to it has.
use case::schema::Op;

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
pub(super) struct Part {
    pub drive: usize,
    pub op: Op,
    pub offset_bytes: u64,
    pub size_bytes: u32,
}

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
    pub(super) fn plan(
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
    pub(super) fn elsewhere(&self, asked: usize, offset: u64, size: u32) -> Vec<Part> {
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
