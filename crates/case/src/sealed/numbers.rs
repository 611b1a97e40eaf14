//! Column chunks of whole numbers, most of which are different: bytes of equal rank side by side, or differences.
use super::chunk::{Chunk, Described, PageValues};
use super::delta::delta;
use super::split::split;
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
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Write;

/// How the values of a page are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// See [`split`].
    Split,
    /// See [`delta`].
    Delta,
}

impl Written {
    fn encoding(self) -> Encoding {
        match self {
            Written::Split => Encoding::BYTE_STREAM_SPLIT,
            Written::Delta => Encoding::DELTA_BINARY_PACKED,
        }
    }
}

/// One column of whole numbers of one row group.
pub(super) struct Numbers {
    chunk: Chunk,
    written: Written,
    /// Values of the current page, NULL left out.
    values: Vec<ScalarBuffer<i64>>,
    bounds: Option<(i64, i64)>,
}

/// The pages that were ended last. A stage that takes all of each operation's latency has the same pages as the latency itself.
#[derive(Default)]
struct Recent {
    pages: VecDeque<(Vec<ScalarBuffer<i64>>, PageValues)>,
    /// A page before it is compressed; its memory is used again.
    page: Vec<u8>,
}

/// How many are remembered: between an operation's latency and its stages only places stand.
const RECENT: usize = 3;

thread_local! {
    static RECENT_PAGES: RefCell<Recent> = RefCell::default();
}

impl Numbers {
    pub(super) fn new(column: ColumnDescPtr, written: Written) -> Numbers {
        Numbers {
            chunk: Chunk::new(column),
            written,
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
        let Some((least, most)) = bounds_of(&values) else {
            return;
        };
        let (before, after) = self.bounds.unwrap_or((least, most));
        self.bounds = Some((least.min(before), most.max(after)));
        self.values.push(values);
    }

    fn end_page(&mut self) -> Result<()> {
        let values = std::mem::take(&mut self.values);
        RECENT_PAGES.with_borrow_mut(|recent| {
            if self.written == Written::Delta {
                delta(&values, &mut recent.page);
                return self.chunk.end_page(&recent.page, self.written.encoding());
            }
            let at = match recent.pages.iter().position(|(of, _)| *of == values) {
                Some(at) => at,
                None => {
                    split(&values, &mut recent.page);
                    recent.pages.truncate(RECENT - 1);
                    recent.pages.push_front((values, PageValues::new(&recent.page)?));
                    0
                }
            };
            self.chunk
                .end_packed_page(&recent.pages[at].1, self.written.encoding())
        })
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
            encoding: self.written.encoding(),
            count: self.chunk.pages() as i32,
        };
        // Bounds of signed numbers are there as readers before Parquet 2 look for them, too.
        let bounds = ValueStatistics::<i64>::new(least, most, None, nulls, false);
        let described = Described {
            encodings: vec![Encoding::RLE, self.written.encoding()],
            statistics: Some(bounds.with_backwards_compatible_min_max(true).into()),
            pages: vec![pages],
            levels: self.chunk.levels(),
        };
        self.chunk.append_to(None, described, group)
    }
}

/// The least and the greatest. Four at a time: one comparison need not wait for the one before.
fn bounds_of(values: &[i64]) -> Option<(i64, i64)> {
    let first = *values.first()?;
    let (mut least, mut most) = ([first; 4], [first; 4]);
    let fours = values.chunks_exact(4);
    let rest = fours.remainder();
    for four in fours {
        for lane in 0..4 {
            least[lane] = least[lane].min(four[lane]);
            most[lane] = most[lane].max(four[lane]);
        }
    }
    for value in rest {
        least[0] = least[0].min(*value);
        most[0] = most[0].max(*value);
    }
    least.into_iter().min().zip(most.into_iter().max())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bounds_are_those_of_all(values in prop::collection::vec(any::<i64>(), 0..30)) {
            let expected = values.iter().copied().min().zip(values.iter().copied().max());
            prop_assert_eq!(bounds_of(&values), expected);
        }
    }
}
