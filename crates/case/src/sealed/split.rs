//! Numbers with bytes of equal rank side by side (BYTE_STREAM_SPLIT), which compress well: the low bytes of latencies and places are noise, the
//! high ones hardly change.
//!
//! The Parquet crate's own encoder copies the values first and then places byte by byte; here eight values are turned at once.
use arrow_buffer::ScalarBuffer;

/// Bytes of a value.
const BYTES: usize = 8;

/// Makes `streams` the lowest bytes of all values, then the next, and so on.
pub(super) fn split(values: &[ScalarBuffer<i64>], streams: &mut Vec<u8>) {
    let count: usize = values.iter().map(|values| values.len()).sum();
    streams.resize(count * BYTES, 0);
    let mut done = 0;
    for values in values {
        let mut eights = values.chunks_exact(BYTES);
        for eight in &mut eights {
            let turned = turned(std::array::from_fn(|at| eight[at] as u64));
            for (byte, of_all) in turned.into_iter().enumerate() {
                let place = byte * count + done;
                streams[place..place + BYTES].copy_from_slice(&of_all.to_le_bytes());
            }
            done += BYTES;
        }
        for value in eights.remainder() {
            for (byte, of_value) in value.to_le_bytes().into_iter().enumerate() {
                streams[byte * count + done] = of_value;
            }
            done += 1;
        }
    }
}

/// Eight values become their lowest bytes, their next bytes, and so on.
#[inline]
fn turned(mut rows: [u64; BYTES]) -> [u64; BYTES] {
    // Squares of four bytes, of two, of one: what is right above and what is left below change places.
    for (apart, low) in [
        (4, 0x0000_0000_ffff_ffff),
        (2, 0x0000_ffff_0000_ffff),
        (1, 0x00ff_00ff_00ff_00ff_u64),
    ] {
        for at in (0..BYTES).filter(|at| at & apart == 0) {
            let (above, below) = (rows[at], rows[at + apart]);
            rows[at] = above & low | (below & low) << (8 * apart);
            rows[at + apart] = above >> (8 * apart) & low | below & !low;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_is_in_its_stream(
            parts in prop::collection::vec(prop::collection::vec(any::<i64>(), 0..40), 0..4),
        ) {
            let all: Vec<i64> = parts.concat();
            let buffers: Vec<ScalarBuffer<i64>> = parts.into_iter().map(ScalarBuffer::from).collect();
            let mut streams = vec![7; 3];
            split(&buffers, &mut streams);
            prop_assert_eq!(streams.len(), all.len() * BYTES);
            for (at, value) in all.iter().enumerate() {
                let bytes: [u8; BYTES] = std::array::from_fn(|byte| streams[byte * all.len() + at]);
                prop_assert_eq!(i64::from_le_bytes(bytes), *value);
            }
        }
    }
}
