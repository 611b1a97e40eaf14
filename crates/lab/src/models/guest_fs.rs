//! Where the pieces of a guest's file lie on its virtual disk.
//!
//! A guest that reads its file in order sends the array requests wherever the pieces are; an array that
//! places data by the guest's block addresses knows nothing of the file. A request that spans two pieces is
//! split.

use super::{require, ParameterError};
use crate::memory::fetch;
use workload::rng::Rng;

/// A piece of a file on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// On the virtual disk.
    pub disk_offset_bytes: u64,
    /// Never 0.
    pub size_bytes: u64,
}

/// A file: pieces of one size, the last one shorter where need be, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFile {
    /// Place of each piece on the disk, in pieces behind `first_byte`.
    places: Vec<u32>,
    piece_bytes: u64,
    first_byte: u64,
    size_bytes: u64,
}

impl GuestFile {
    /// One piece.
    pub fn contiguous(disk_offset_bytes: u64, size_bytes: u64) -> GuestFile {
        GuestFile {
            places: vec![0],
            piece_bytes: size_bytes.max(1),
            first_byte: disk_offset_bytes,
            size_bytes,
        }
    }

    /// Pieces of `piece_bytes`, scattered at random over the first `region_bytes` of the disk, none over
    /// another: what a fragmenting tool leaves. The region must have room for the file.
    pub fn fragmented(
        size_bytes: u64,
        piece_bytes: u64,
        region_bytes: u64,
        rng: &mut Rng,
    ) -> Result<GuestFile, ParameterError> {
        require(piece_bytes >= 4096, "piece_bytes", "4 KiB or more", piece_bytes)?;
        let count = size_bytes.div_ceil(piece_bytes);
        let slots = region_bytes / piece_bytes;
        require(
            slots >= count,
            "region_bytes",
            "at least the file, in whole pieces",
            region_bytes,
        )?;
        require(
            slots <= u64::from(u32::MAX),
            "piece_bytes",
            "at most 2^32 pieces in the region",
            piece_bytes,
        )?;
        let mut order: Vec<u32> = (0..slots as u32).collect();
        for i in 0..count as usize {
            let other = i + rng.below(slots - i as u64) as usize;
            order.swap(i, other);
        }
        order.truncate(count as usize);
        Ok(GuestFile {
            places: order,
            piece_bytes,
            first_byte: 0,
            size_bytes,
        })
    }

    /// Size of the file.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Pieces of the file; neighbours that happen to follow each other on the disk count as one.
    pub fn extents(&self) -> usize {
        let follows = |pair: &&[u32]| pair[1] == pair[0] + 1;
        self.places.len() - self.places.windows(2).filter(follows).count()
    }

    /// A place will be asked for soon: a hint.
    #[inline]
    pub fn expect(&self, offset_bytes: u64) {
        if let Some(place) = self.places.get((offset_bytes / self.piece_bytes) as usize) {
            fetch(place);
        }
    }

    /// Where `offset_bytes..offset_bytes + size_bytes` of the file lies, cut at its end; one item per
    /// request.
    #[inline]
    pub fn map(&self, offset_bytes: u64, size_bytes: u64) -> impl Iterator<Item = Placed> + '_ {
        let end = (offset_bytes + size_bytes).min(self.size_bytes);
        let mut at = offset_bytes;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (begin, mut index) = (at, (at / self.piece_bytes) as usize);
            let disk_offset_bytes =
                self.first_byte + u64::from(self.places[index]) * self.piece_bytes + at % self.piece_bytes;
            at = (index as u64 + 1) * self.piece_bytes;
            while at < end && self.places[index + 1] == self.places[index] + 1 {
                index += 1;
                at += self.piece_bytes;
            }
            at = at.min(end);
            Some(Placed {
                disk_offset_bytes,
                size_bytes: at - begin,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use workload::rng::Rng;

    #[test]
    fn a_file_in_250_000_pieces_splits_few_small_requests() {
        let (size, piece) = (16_000_000_000, 64_000);
        let file = GuestFile::fragmented(size, piece, 40_000_000_000, &mut Rng::new(1, 0)).unwrap();
        assert!(
            (249_000..=250_000).contains(&file.extents()),
            "{}",
            file.extents()
        );
        let mut rng = Rng::new(2, 0);
        let requests = (0..20_000).map(|_| file.map(rng.below(size / 4096) * 4096, 4096).count());
        let split = requests.filter(|count| *count > 1).count();
        // A 4 KiB request crosses an end of a 64,000 byte piece unless it lies at one: about 1 in 16.
        assert!((800..1_500).contains(&split), "{split} of 20000");
    }

    #[test]
    fn a_contiguous_file_is_one_request() {
        let file = GuestFile::contiguous(1 << 20, 1 << 30);
        let placed = Placed {
            disk_offset_bytes: (1 << 20) + 4096,
            size_bytes: 1 << 20,
        };
        assert!(file.map(4096, 1 << 20).eq([placed]));
        assert_eq!(file.extents(), 1);
        assert_eq!(file.map(1 << 30, 4096).count(), 0);
    }

    #[test]
    fn a_region_too_small_is_refused() {
        assert!(GuestFile::fragmented(1 << 20, 65_536, 1 << 19, &mut Rng::new(1, 0)).is_err());
    }

    proptest! {
        /// Every byte of the file has one place, and no place is used twice.
        #[test]
        fn bytes_are_placed_once(size in 1..2_000_000u64, pages in 1..20u64, seed in any::<u64>()) {
            let piece = pages * 4096;
            let region = size.next_multiple_of(piece) * 2;
            let file = GuestFile::fragmented(size, piece, region, &mut Rng::new(seed, 0)).unwrap();
            let mut all: Vec<Placed> = file.map(0, size + 5).collect();
            prop_assert_eq!(all.iter().map(|p| p.size_bytes).sum::<u64>(), size);
            all.sort_unstable_by_key(|p| p.disk_offset_bytes);
            let end = |placed: &Placed| placed.disk_offset_bytes + placed.size_bytes;
            let disjoint = |pair: &[Placed]| end(&pair[0]) <= pair[1].disk_offset_bytes;
            prop_assert!(all.windows(2).all(disjoint));
            let whole = file.map(size / 3, size / 3).map(|p| p.size_bytes).sum::<u64>();
            prop_assert_eq!(whole, size / 3);
        }
    }
}
