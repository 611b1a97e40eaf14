//! Where the bytes of files lie on the volume: one after the other, or in pieces in random order.
use workload::rng::Rng;

/// Alignment of the begin of every file.
const ALIGN_BYTES: u64 = 1 << 20;

/// How far a partition begins after a multiple of the physical block: seven sectors, as with 63 sectors to a track.
pub const MISPLACED_BY: u64 = 7 * 512;

/// The placement of all files.
pub struct Placement {
    /// Per file: (address of its first byte as if in one piece, size).
    files: Vec<(u64, u64)>,
    first_byte: u64,
    used_bytes: u64,
    pieces: Option<Pieces>,
    /// Files from this one on lie `MISPLACED_BY` bytes further.
    misplaced_from: usize,
}

/// A permutation of equal pieces: piece p lies where piece `p * step + shift` would.
struct Pieces {
    bytes: u64,
    count: u64,
    step: u64,
    shift: u64,
}

impl Placement {
    /// Files of these sizes, in order, from `first_byte` on. `piece_bytes`: 0 = in one piece each; else rounded up to a power of two.
    pub fn new(sizes_bytes: &[u64], first_byte: u64, piece_bytes: u64, rng: &mut Rng) -> Placement {
        let piece_bytes = match piece_bytes {
            0 => 0,
            bytes => bytes.next_power_of_two(),
        };
        let mut at = first_byte;
        let mut files = Vec::with_capacity(sizes_bytes.len());
        for size in sizes_bytes {
            files.push((at, *size));
            at += size.next_multiple_of(ALIGN_BYTES.max(piece_bytes));
        }
        let count = (at - first_byte).checked_div(piece_bytes).unwrap_or(0);
        let pieces = (count > 1).then(|| Pieces {
            bytes: piece_bytes,
            count,
            step: coprime(count, rng),
            shift: rng.below(count),
        });
        Placement {
            files,
            first_byte,
            used_bytes: at - first_byte,
            pieces,
            misplaced_from: usize::MAX,
        }
    }

    /// The same with the last `files` in a partition that is not aligned.
    pub fn misplacing(mut self, files: usize) -> Placement {
        self.misplaced_from = self.files.len() - files;
        self
    }

    /// Bytes of the volume that are used.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Size of a file.
    pub fn file_bytes(&self, file: u16) -> u64 {
        self.files[file as usize].1
    }

    /// Where a byte of a file is, and how many of the next `size` bytes follow it there.
    #[inline]
    pub fn read(&self, file: u16, offset_bytes: u64, size_bytes: u32) -> (u64, u32) {
        let (begin, length) = self.files[file as usize];
        assert!(
            offset_bytes + u64::from(size_bytes) <= length.next_multiple_of(ALIGN_BYTES),
            "byte {offset_bytes} and {size_bytes} more of a file of {length} bytes"
        );
        let shift = match usize::from(file) >= self.misplaced_from {
            true => MISPLACED_BY,
            false => 0,
        };
        let Some(pieces) = &self.pieces else {
            return (begin + offset_bytes + shift, size_bytes);
        };
        let place = begin - self.first_byte + offset_bytes;
        let (piece, within) = (place / pieces.bytes, place % pieces.bytes);
        let product = u128::from(piece) * u128::from(pieces.step) + u128::from(pieces.shift);
        let moved = (product % u128::from(pieces.count)) as u64;
        let run_bytes = u64::from(size_bytes).min(pieces.bytes - within);
        (
            self.first_byte + moved * pieces.bytes + within + shift,
            run_bytes as u32,
        )
    }

    /// Where a byte goes that is written now.
    #[inline]
    pub fn write(&mut self, file: u16, offset_bytes: u64, size_bytes: u32) -> (u64, u32) {
        self.read(file, offset_bytes, size_bytes)
    }
}

/// A random number without a common divisor with `count`.
fn coprime(count: u64, rng: &mut Rng) -> u64 {
    loop {
        let step = 1 + rng.below(count);
        let (mut a, mut b) = (count, step);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        if a == 1 {
            return step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pieces_are_a_permutation() {
        let placement = Placement::new(&[3 << 20, 5 << 20], 4096, 65536, &mut Rng::new(3, 3));
        let mut seen = BTreeSet::new();
        for (file, size) in [(0u16, 3u64 << 20), (1, 5 << 20)] {
            for offset in (0..size).step_by(65536) {
                let (at, run) = placement.read(file, offset, 65536);
                assert_eq!((run, (at - 4096) % 65536), (65536, 0));
                assert!(at < 4096 + placement.used_bytes() && seen.insert(at));
            }
        }
        assert_eq!(placement.read(0, 65536 - 4096, 65536).1, 4096);
        assert_eq!(seen.len(), 128);
    }
}
