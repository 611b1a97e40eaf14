//! Column chunks of numbers with bytes of equal rank side by side (BYTE_STREAM_SPLIT), which compress well: the low bytes of latencies and places
//! are noise, the high ones hardly change.
//!
//! The Parquet crate's own encoder copies the values first and then places byte by byte; here eight values are turned at once.
use super::chunk::{Chunk, Described};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use parquet::basic::{Encoding, PageType};
use parquet::errors::Result;
use parquet::file::metadata::PageEncodingStats;
use parquet::file::statistics::ValueStatistics;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;

/// Bytes of a value.
const BYTES: usize = 8;

/// One column of whole numbers of one row group.
pub(super) struct Split {
    chunk: Chunk,
    /// Values of the current page, NULL left out.
    values: Vec<ScalarBuffer<i64>>,
    bounds: Option<(i64, i64)>,
}

impl Split {
    pub(super) fn new(column: ColumnDescPtr) -> Split {
        Split {
            chunk: Chunk::new(column),
            values: Vec::new(),
            bounds: None,
        }
    }

    /// Appends a column.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let array = array.as_primitive::<Int64Type>();
        if array.null_count() == 0 {
            self.chunk.appended(array.len(), true);
            self.take(array.values().clone());
        } else if array.null_count() == array.len() {
            self.chunk.appended(array.len(), false);
        } else {
            array
                .iter()
                .for_each(|value| self.chunk.appended(1, value.is_some()));
            self.take(array.iter().flatten().collect());
        }
        if self.chunk.is_page_full() {
            self.end_page()?;
        }
        Ok(())
    }

    fn take(&mut self, values: ScalarBuffer<i64>) {
        let (Some(least), Some(most)) = (values.iter().min().copied(), values.iter().max().copied()) else {
            return;
        };
        let (before, after) = self.bounds.unwrap_or((least, most));
        self.bounds = Some((least.min(before), most.max(after)));
        self.values.push(values);
    }

    fn end_page(&mut self) -> Result<()> {
        self.chunk
            .end_page(&split(&self.values), Encoding::BYTE_STREAM_SPLIT)?;
        self.values.clear();
        Ok(())
    }

    /// Writes the chunk.
    pub(super) fn append_to<W: Write + Send>(
        mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        self.end_page()?;
        let nulls = Some(self.chunk.nulls());
        let (least, most) = (
            self.bounds.map(|(least, _)| least),
            self.bounds.map(|(_, most)| most),
        );
        let pages = PageEncodingStats {
            page_type: PageType::DATA_PAGE_V2,
            encoding: Encoding::BYTE_STREAM_SPLIT,
            count: self.chunk.pages() as i32,
        };
        // Bounds of signed numbers are there as readers before Parquet 2 look for them, too.
        let bounds = ValueStatistics::<i64>::new(least, most, None, nulls, false);
        let described = Described {
            encodings: vec![Encoding::RLE, Encoding::BYTE_STREAM_SPLIT],
            statistics: Some(bounds.with_backwards_compatible_min_max(true).into()),
            pages: vec![pages],
            levels: self.chunk.levels(),
        };
        self.chunk.append_to(None, described, group)
    }
}

/// The lowest bytes of all values, then the next, and so on.
fn split(values: &[ScalarBuffer<i64>]) -> Vec<u8> {
    let count: usize = values.iter().map(|values| values.len()).sum();
    let mut streams = vec![0; count * BYTES];
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
    streams
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
            let streams = split(&buffers);
            prop_assert_eq!(streams.len(), all.len() * BYTES);
            for (at, value) in all.iter().enumerate() {
                let bytes: [u8; BYTES] = std::array::from_fn(|byte| streams[byte * all.len() + at]);
                prop_assert_eq!(i64::from_le_bytes(bytes), *value);
            }
        }
    }
}
