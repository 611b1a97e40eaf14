//! Numbers as differences to the one before (DELTA_BINARY_PACKED): moments in order. Source: Apache Parquet, Encodings.md.
//!
//! The Parquet crate's own encoder copies the values first, and packs them bit by bit; here whole words are written.
use super::chunk::put_number;
use arrow_buffer::ScalarBuffer;

/// Differences that have one least difference, and those of them that have one width. The crate's sizes.
const BLOCK: usize = 256;
const MINI: usize = 64;

/// Makes `page` the differences of these values.
pub(super) fn delta(values: &[ScalarBuffer<i64>], page: &mut Vec<u8>) {
    page.clear();
    let count: usize = values.iter().map(|values| values.len()).sum();
    let first = values.iter().find_map(|values| values.first()).copied();
    put_number(BLOCK as u64, page);
    put_number((BLOCK / MINI) as u64, page);
    put_number(count as u64, page);
    put_number(zigzag(first.unwrap_or(0)), page);
    let (mut block, mut filled) = ([0_i64; BLOCK], 0);
    let mut before = first.unwrap_or(0);
    // The first value is in the head.
    let mut passed = 1;
    for values in values {
        let mut rest = &values[passed.min(values.len())..];
        passed -= passed.min(values.len());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(BLOCK - filled));
            for (difference, value) in block[filled..].iter_mut().zip(now) {
                *difference = value.wrapping_sub(before);
                before = *value;
            }
            (filled, rest) = (filled + now.len(), later);
            if filled == BLOCK {
                put_block(&block, page);
                filled = 0;
            }
        }
    }
    if filled > 0 {
        put_block(&block[..filled], page);
    }
}

/// The least difference, a width per 64, and what each is above the least.
fn put_block(differences: &[i64], page: &mut Vec<u8>) {
    let least = differences.iter().fold(i64::MAX, |least, of| least.min(*of));
    put_number(zigzag(least), page);
    let widths = page.len();
    page.extend_from_slice(&[0; BLOCK / MINI]);
    for (number, differences) in differences.chunks(MINI).enumerate() {
        // What is missing of the last ones is filled up with zeros.
        let mut above = [0_u64; MINI];
        let mut bits = 0;
        for (above, difference) in above.iter_mut().zip(differences) {
            *above = difference.wrapping_sub(least) as u64;
            bits |= *above;
        }
        let width = u64::BITS - bits.leading_zeros();
        page[widths + number] = width as u8;
        put_packed(&above, width, page);
    }
}

/// The lowest `width` bits of each.
fn put_packed(values: &[u64; MINI], width: u32, page: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut word, mut filled) = (0, 0);
    for value in values {
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            page.extend_from_slice(&word.to_le_bytes());
            filled -= u64::BITS;
            word = if filled > 0 { value >> (width - filled) } else { 0 };
        }
    }
}

/// Small numbers of either sign become small ones.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(from: &mut &[u8]) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = from[0];
            *from = &from[1..];
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    fn signed(from: &mut &[u8]) -> i64 {
        let number = number(from);
        (number >> 1) as i64 ^ -((number & 1) as i64)
    }

    /// What a reader of the format makes of it.
    fn undo(mut page: &[u8]) -> Vec<i64> {
        let (block, minis) = (number(&mut page) as usize, number(&mut page) as usize);
        let count = number(&mut page) as usize;
        let mut values = vec![signed(&mut page)];
        while values.len() < count {
            let least = signed(&mut page);
            let (widths, rest) = page.split_at(minis);
            page = rest;
            for width in widths {
                if values.len() >= count {
                    break;
                }
                let (packed, rest) = page.split_at(block / minis * usize::from(*width) / 8);
                page = rest;
                let bit = |at: usize| u64::from(packed[at / 8] >> (at % 8) & 1);
                for place in 0..block / minis {
                    let first = place * usize::from(*width);
                    let above = (0..usize::from(*width)).fold(0, |above, at| above | bit(first + at) << at);
                    let before = values[values.len() - 1];
                    values.push(before.wrapping_add(least).wrapping_add(above as i64));
                }
            }
        }
        assert!(page.is_empty());
        values.truncate(count);
        values
    }

    proptest! {
        #[test]
        fn values_come_back(
            parts in prop::collection::vec(prop::collection::vec(any::<i64>(), 0..400), 0..4),
            narrow in 0_u32..64,
        ) {
            let parts: Vec<Vec<i64>> =
                parts.into_iter().map(|part| part.into_iter().map(|value| value >> narrow).collect()).collect();
            let all = parts.concat();
            let buffers: Vec<ScalarBuffer<i64>> = parts.into_iter().map(ScalarBuffer::from).collect();
            let mut page = vec![7; 3];
            delta(&buffers, &mut page);
            prop_assert_eq!(undo(&page), all);
        }
    }
}
