//! A file in as many pieces as asked for, each somewhere else: real fragmentation of a real file system, without filling it up.
//!
//! On ext4 the copy's reserved blocks change their places piece by piece, in a random order, through an unnamed file of one piece; contents
//! come after. On btrfs the pieces are reserved in a random order: it hands out places front to back. (Sharing would do as well, but many
//! references to one extent look as if another file shared it.) On XFS, which looks for a place near the piece before, the contents go
//! into an unnamed file in that order, and the copy shares its pieces in the right one; the unnamed file is gone then.
use crate::error::LayoutError;
use crate::kernel::{self, FileSystem};
use crate::measure::{measure, measure_open, Measured};
use crate::replace::{folder_of, replace};
use crate::Tell;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Fragmented {
    /// Whether the file was made; else it was there.
    pub made: bool,
    /// Pieces that were asked for.
    pub pieces: u64,
    /// XXH64 of the contents, the same before and after.
    pub xxh64: String,
    /// As it lay before.
    pub before: Measured,
    /// As it lies now.
    pub after: Measured,
}

impl Fragmented {
    /// Whether the file system did what was asked: nine of ten pieces are runs of their own.
    pub fn is_as_asked(&self) -> bool {
        self.after.layout.runs * 10 >= self.pieces * 9
    }
}

/// Fragments `path` into pieces of `piece_bytes`. A file that is not there is made, `pieces` long, with contents that do not compress;
/// one that is there keeps its contents, and `pieces`, if given, must fit its length.
pub fn fragment(
    path: &Path,
    pieces: Option<u64>,
    piece_bytes: u64,
    seed: u64,
    request_bytes: u64,
    tell: &mut Tell<'_>,
) -> Result<Fragmented, LayoutError> {
    let made = !path.exists();
    if made {
        let Some(pieces) = pieces else {
            return Err(LayoutError::file(
                path,
                "a file",
                "none",
                "--pieces says how long a new one shall be",
            ));
        };
        make(path, pieces * piece_bytes, seed, tell)?;
    }
    let before = measure(path, request_bytes)?;
    let pieces = checked(path, &before, pieces, piece_bytes)?;
    let slots = slots(pieces, seed);
    let is_copied = before.file_system == "xfs";
    let mut lay_out = |file: &File, copy: &File, size: u64| match FileSystem::of(copy) {
        Ok(FileSystem::Ext4) => exchange(path, copy, &slots, piece_bytes, before.block_bytes),
        Ok(FileSystem::Btrfs) => reserve_in_turn(path, copy, &slots, piece_bytes),
        _ => share(path, file, copy, size, &slots, piece_bytes),
    };
    let sum = replace(path, &mut lay_out, !is_copied, tell)?;
    let file = File::open(path).map_err(|e| LayoutError::system(path, "open", e))?;
    // XFS gives blocks that were shared back in the background.
    file.sync_all()
        .map_err(|e| LayoutError::system(path, "write", e))?;
    let after = measure_open(&file, path, request_bytes)?;
    Ok(Fragmented {
        made,
        pieces,
        xxh64: format!("{sum:016x}"),
        before,
        after,
    })
}

fn checked(path: &Path, found: &Measured, pieces: Option<u64>, piece_bytes: u64) -> Result<u64, LayoutError> {
    if !matches!(found.file_system.as_str(), "ext4" | "xfs" | "btrfs") {
        let hint = "use a file there";
        return Err(LayoutError::file(
            path,
            "ext4, xfs or btrfs",
            found.file_system.clone(),
            hint,
        ));
    }
    if piece_bytes == 0 || !piece_bytes.is_multiple_of(found.block_bytes.max(4096)) {
        let (expected, hint) = (
            "pieces of whole blocks (4 KiB, or the file system's)",
            "e.g. --piece 64KiB",
        );
        return Err(LayoutError::file(
            path,
            expected,
            format!("{piece_bytes} bytes"),
            hint,
        ));
    }
    let there = found.size_bytes.div_ceil(piece_bytes);
    if found.size_bytes == 0 || pieces.is_some_and(|pieces| pieces != there) {
        let found = format!("{} bytes, which are {there} pieces", found.size_bytes);
        let hint = "leave --pieces out, or change --piece; a file that is not there is made as long as asked";
        return Err(LayoutError::file(
            path,
            "a file as long as --pieces says",
            found,
            hint,
        ));
    }
    Ok(there)
}

/// A new file of `size` bytes that look like noise, whole or not there.
fn make(path: &Path, size: u64, seed: u64, tell: &mut Tell<'_>) -> Result<(), LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let file = kernel::unnamed(folder_of(path)).map_err(wrap("make it"))?;
    let mut out = io::BufWriter::with_capacity(1 << 20, &file);
    let mut random = Random(seed);
    let mut left = size;
    while left > 0 {
        let bytes = random.next().to_le_bytes();
        let wanted = bytes.len().min(left as usize);
        out.write_all(&bytes[..wanted]).map_err(wrap("write"))?;
        left -= wanted as u64;
        if left.is_multiple_of(1 << 20) && !tell(0, size) {
            return Err(LayoutError::Stopped {
                path: path.to_owned(),
            });
        }
    }
    out.flush().map_err(wrap("write"))?;
    drop(out);
    file.sync_all().map_err(wrap("write"))?;
    kernel::give_name(&file, path).map_err(wrap("name"))
}

/// ext4: reserved blocks change their places in the copy, through a file of one piece, so that the copy takes no more of the device than
/// a contiguous one. A piece in hand goes where it belongs, what was there is in hand then, and so on until a circle of the order closes.
fn exchange(
    path: &Path,
    copy: &File,
    slots: &[u64],
    piece_bytes: u64,
    block_bytes: u64,
) -> Result<(), LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let hand = kernel::unnamed(folder_of(path)).map_err(wrap("make a file beside it"))?;
    kernel::reserve(copy, 0, slots.len() as u64 * piece_bytes).map_err(wrap("reserve blocks"))?;
    kernel::reserve(&hand, 0, piece_bytes).map_err(wrap("reserve blocks"))?;
    let blocks = piece_bytes / block_bytes;
    for piece in order_of_exchanges(slots) {
        let mut done = 0;
        while done < blocks {
            let moved = kernel::move_extent(copy, &hand, piece * blocks + done, done, blocks - done)
                .map_err(wrap("exchange blocks (EXT4_IOC_MOVE_EXT)"))?;
            if moved == 0 {
                let error = io::Error::other("the kernel moved nothing");
                return Err(LayoutError::system(
                    path,
                    "exchange blocks (EXT4_IOC_MOVE_EXT)",
                    error,
                ));
            }
            done += moved;
        }
    }
    Ok(())
}

/// Pieces that change with what is in hand, one after the other, so that each ends in its slot and the hand holds what it held.
fn order_of_exchanges(slots: &[u64]) -> Vec<u64> {
    let pieces = by_slot(slots);
    let mut is_done = vec![false; slots.len()];
    let mut order = Vec::with_capacity(slots.len() + slots.len() / 8);
    for first in 0..slots.len() as u64 {
        if is_done[first as usize] || slots[first as usize] == first {
            continue;
        }
        order.push(first);
        let mut at = pieces[first as usize];
        while at != first {
            order.push(at);
            is_done[at as usize] = true;
            at = pieces[at as usize];
        }
        order.push(first);
    }
    order
}

/// btrfs: pieces are reserved in the order of their places.
fn reserve_in_turn(path: &Path, copy: &File, slots: &[u64], piece_bytes: u64) -> Result<(), LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    copy.set_len(slots.len() as u64 * piece_bytes)
        .map_err(wrap("set the length of its copy"))?;
    for piece in by_slot(slots) {
        kernel::reserve(copy, piece * piece_bytes, piece_bytes).map_err(wrap("reserve blocks"))?;
    }
    Ok(())
}

/// The pieces in the order of their places on the device.
fn by_slot(slots: &[u64]) -> Vec<u64> {
    let mut pieces = vec![0_u64; slots.len()];
    for (piece, slot) in slots.iter().enumerate() {
        pieces[*slot as usize] = piece as u64;
    }
    pieces
}

/// XFS: contents are written in another order, and shared in the right one.
fn share(
    path: &Path,
    file: &File,
    copy: &File,
    size: u64,
    slots: &[u64],
    piece_bytes: u64,
) -> Result<(), LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let source = kernel::unnamed(folder_of(path)).map_err(wrap("make a file beside it"))?;
    kernel::reserve(&source, 0, slots.len() as u64 * piece_bytes).map_err(wrap("reserve blocks"))?;
    let mut buffer = vec![0_u8; piece_bytes as usize];
    // Front to back on the device.
    for (slot, piece) in by_slot(slots).into_iter().enumerate() {
        let at = piece * piece_bytes;
        let wanted = piece_bytes.min(size - at) as usize;
        buffer[wanted..].fill(0);
        file.read_exact_at(&mut buffer[..wanted], at)
            .map_err(wrap("read"))?;
        source
            .write_all_at(&buffer, slot as u64 * piece_bytes)
            .map_err(wrap("write a copy"))?;
    }
    source.sync_all().map_err(wrap("write a copy"))?;
    for (piece, slot) in slots.iter().enumerate() {
        let (from, to) = (slot * piece_bytes, piece as u64 * piece_bytes);
        kernel::clone_range(&source, from, piece_bytes, copy, to).map_err(wrap("share pieces (reflink)"))?;
    }
    Ok(())
}

/// Which place each piece gets: a random order in which no piece lies behind the one before it.
fn slots(pieces: u64, seed: u64) -> Vec<u64> {
    let mut random = Random(seed ^ 0x5EED);
    let mut slots: Vec<u64> = (0..pieces).collect();
    for i in (1..slots.len()).rev() {
        slots.swap(i, random.below(i as u64 + 1) as usize);
    }
    let follows = |slots: &[u64], i: usize| i > 0 && i < slots.len() && slots[i] == slots[i - 1] + 1;
    // A swap may make new neighbours, so look again until there are none; three pieces and more can always be laid so.
    for _ in 0..100 {
        let wrong: Vec<usize> = (1..slots.len()).filter(|i| follows(&slots, *i)).collect();
        if wrong.is_empty() {
            break;
        }
        for i in wrong {
            slots.swap(i, random.below(pieces) as usize);
        }
    }
    slots
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_place_is_given_once_and_no_piece_lies_behind_the_one_before(pieces in 1_u64..300, seed: u64) {
            let slots = slots(pieces, seed);
            let mut sorted = slots.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..pieces).collect::<Vec<_>>());
            prop_assert!(slots.windows(2).all(|pair| pair[1] != pair[0] + 1));
        }

        #[test]
        fn exchanges_bring_every_piece_into_its_slot(pieces in 1_u64..300, seed: u64) {
            let slots = slots(pieces, seed);
            let mut blocks: Vec<u64> = (0..pieces).collect();
            let mut hand = u64::MAX;
            for piece in order_of_exchanges(&slots) {
                std::mem::swap(&mut hand, &mut blocks[piece as usize]);
            }
            prop_assert_eq!(hand, u64::MAX);
            prop_assert_eq!(blocks, slots);
        }
    }
}
