//! LZ4 frames, straight from the buffer of a column into the message.
//!
//! Written here and not by `lz4_flex::frame`, which allocates its buffers and its table anew for each frame and copies all
//! content once more: with 31 columns per batch that cost as much as the compression. Source: LZ4 Frame Format
//! Description 1.6.
use lz4_flex::block::{compress_into_with_table, get_maximum_output_size, CompressTable};
use std::io::{Error, ErrorKind};
use twox_hash::XxHash32;

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();
/// Version 01, independent blocks, content checksum.
const FLAGS: u8 = 0b0110_0100;
/// Most bytes of a block, and how its descriptor says so. A reader makes room for that much.
const BLOCK_SIZES: [(usize, u8); 4] = [(64 << 10, 4), (256 << 10, 5), (1 << 20, 6), (4 << 20, 7)];
/// In the length of a block: it is not compressed.
const PLAIN: u32 = 1 << 31;
/// Columns are 1, 2, 4, 8 or 16 bytes wide: one that never changes repeats itself after this many.
const PERIOD_BYTES: usize = 16;

/// A column that gets no smaller than this part of itself is stored as it is: clocks and counters, which LZ4 packs slowly and
/// badly.
const PACKED_MAX: f64 = 0.49;
/// Plain frames of it before compression is tried again.
const PLAIN_FRAMES: u32 = 31;

/// Content that repeats its first [`PERIOD_BYTES`], and its frame.
#[derive(Default)]
struct Repeated {
    period: [u8; PERIOD_BYTES],
    bytes: usize,
    frame: Vec<u8>,
}

/// What packing needs, for all columns one after the other: it then stays in the cache.
pub(super) struct Packer {
    table: CompressTable,
    packed: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Packer {
        Packer {
            table: CompressTable::large(),
            packed: Vec::new(),
        }
    }
}

impl Packer {
    /// LZ4 of a block; `None` if that is no shorter.
    fn pack(&mut self, block: &[u8]) -> Result<Option<&[u8]>, Error> {
        let room = get_maximum_output_size(block.len());
        if self.packed.len() < room {
            self.packed.resize(room, 0);
        }
        let length = compress_into_with_table(block, &mut self.packed, &mut self.table)
            .map_err(|error| Error::new(ErrorKind::InvalidData, error.to_string()))?;
        Ok((length < block.len()).then(|| &self.packed[..length]))
    }
}

/// Writes the frames of one column. Keeps the frame of a column that does not change.
#[derive(Default)]
pub(super) struct FrameWriter {
    last: Repeated,
    /// Frames that are not worth packing, from now on.
    plain_frames: u32,
}

impl FrameWriter {
    /// Appends the frame of `content` to `to`.
    pub(super) fn append(
        &mut self,
        content: &[u8],
        packer: &mut Packer,
        to: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(period) = period(content) else {
            return self.pack(content, packer, to);
        };
        if period != self.last.period || content.len() != self.last.bytes {
            let mut frame = std::mem::take(&mut self.last.frame);
            frame.clear();
            self.pack(content, packer, &mut frame)?;
            self.last = Repeated {
                period,
                bytes: content.len(),
                frame,
            };
        }
        to.extend_from_slice(&self.last.frame);
        Ok(())
    }

    fn pack(&mut self, content: &[u8], packer: &mut Packer, to: &mut Vec<u8>) -> Result<(), Error> {
        let fitting = BLOCK_SIZES.iter().find(|(bytes, _)| content.len() <= *bytes);
        let (block_bytes, size) = *fitting.unwrap_or(&BLOCK_SIZES[3]);
        let descriptor = [FLAGS, size << 4];
        to.extend_from_slice(&MAGIC);
        to.extend_from_slice(&descriptor);
        to.push((XxHash32::oneshot(0, &descriptor) >> 8) as u8);
        let before = to.len();
        for block in content.chunks(block_bytes) {
            let data = match self.plain_frames {
                0 => packer.pack(block)?,
                _ => None,
            };
            let (mark, data) = data.map_or((PLAIN, block), |data| (0, data));
            to.extend_from_slice(&(data.len() as u32 | mark).to_le_bytes());
            to.extend_from_slice(data);
        }
        let bad = (to.len() - before) as f64 > PACKED_MAX * content.len() as f64;
        self.plain_frames = match self.plain_frames {
            0 if bad => PLAIN_FRAMES,
            left => left.saturating_sub(1),
        };
        to.extend_from_slice(&[0; 4]);
        to.extend_from_slice(&XxHash32::oneshot(0, content).to_le_bytes());
        Ok(())
    }
}

/// What `content` consists of, if it is nothing but repetitions of it.
fn period(content: &[u8]) -> Option<[u8; PERIOD_BYTES]> {
    let period = *content.first_chunk::<PERIOD_BYTES>()?;
    (content[PERIOD_BYTES..] == content[..content.len() - PERIOD_BYTES]).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lz4_flex::frame::FrameDecoder;
    use proptest::prelude::*;
    use std::io::Read;

    fn read_back(frame: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        FrameDecoder::new(frame).read_to_end(&mut content).unwrap();
        content
    }

    fn content() -> impl Strategy<Value = Vec<u8>> {
        let columns =
            (any::<[u8; PERIOD_BYTES]>(), 0..5000_usize).prop_map(|(value, times)| value.repeat(times));
        let noise = proptest::collection::vec(any::<u8>(), 0..100_000);
        let steps = (0..20_000_u64).prop_map(|n| (0..n).flat_map(|i| (i * 1000).to_le_bytes()).collect());
        prop_oneof![columns, noise, steps]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn frames_are_read_back(contents in proptest::collection::vec(content(), 1..5)) {
            let mut writer = FrameWriter::default();
            for content in contents.iter().flat_map(|content| [content, content]) {
                let mut frame = vec![7];
                writer.append(content, &mut Packer::default(), &mut frame).unwrap();
                prop_assert_eq!(&read_back(&frame[1..]), content);
            }
        }
    }

    #[test]
    fn content_above_a_block_is_several_blocks() {
        let content: Vec<u8> = (0..3_u32 * (4 << 20) / 8)
            .flat_map(|i| i.wrapping_mul(0x9e37_79b1).to_le_bytes())
            .collect();
        let mut frame = Vec::new();
        FrameWriter::default()
            .append(&content, &mut Packer::default(), &mut frame)
            .unwrap();
        assert_eq!(read_back(&frame), content);
    }

    #[test]
    fn a_column_that_never_changes_takes_next_to_nothing() {
        let mut frame = Vec::new();
        FrameWriter::default()
            .append(&[1, 0, 0, 0].repeat(16_384), &mut Packer::default(), &mut frame)
            .unwrap();
        assert!(frame.len() < 300, "{} bytes", frame.len());
    }

    #[test]
    fn a_column_that_hardly_shrinks_is_left_as_it_is_and_tried_again() {
        let clock = |batch: u64| -> Vec<u8> {
            let times = (0..4096_u64).map(|i| (batch << 32) + i.wrapping_mul(0x9e37_79b9) % 1_000_000_007);
            times.flat_map(u64::to_le_bytes).collect()
        };
        let mut writer = FrameWriter::default();
        let plain = |batch: u64, writer: &mut FrameWriter| {
            let (content, mut frame) = (clock(batch), Vec::new());
            writer
                .append(&content, &mut Packer::default(), &mut frame)
                .unwrap();
            assert_eq!(read_back(&frame), content);
            frame.len() > content.len()
        };
        let tried = |frame: u64| frame.is_multiple_of(u64::from(PLAIN_FRAMES + 1));
        for frame in 0..2 * u64::from(PLAIN_FRAMES + 1) {
            assert_eq!(plain(frame, &mut writer), !tried(frame), "frame {frame}");
        }
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let content: Vec<u8> = (0..4000_u64).flat_map(|i| (i * i).to_le_bytes()).collect();
        let mut frame = Vec::new();
        FrameWriter::default()
            .append(&content, &mut Packer::default(), &mut frame)
            .unwrap();
        for byte in [40, frame.len() / 2, frame.len() - 9] {
            let mut flipped = frame.clone();
            flipped[byte] ^= 1;
            let mut read = Vec::new();
            let told = FrameDecoder::new(&flipped[..]).read_to_end(&mut read);
            assert!(told.is_err(), "byte {byte}");
        }
    }
}
