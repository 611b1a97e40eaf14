//! Column chunks of what is true or not (RLE): mostly all of a batch is the same.
use super::chunk::{Chunk, Codes, Described};
use arrow_array::cast::AsArray;
use arrow_array::ArrayRef;
use parquet::basic::{Encoding, PageType};
use parquet::errors::Result;
use parquet::file::metadata::PageEncodingStats;
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;

/// One column of one row group.
pub(super) struct Truths {
    chunk: Chunk,
    /// Those of the current page, NULL left out.
    codes: Codes,
    has_false: bool,
    has_true: bool,
}

impl Truths {
    pub(super) fn new(column: ColumnDescPtr) -> Truths {
        Truths {
            chunk: Chunk::new(column),
            codes: Codes::default(),
            has_false: false,
            has_true: false,
        }
    }

    /// Appends a column.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let array = array.as_boolean();
        let (truths, falsehoods) = (array.true_count(), array.false_count());
        self.has_true |= truths > 0;
        self.has_false |= falsehoods > 0;
        if truths == array.len() || falsehoods == array.len() {
            self.codes.repeat(u32::from(truths > 0), array.len());
            self.chunk.appended(array.len(), true);
        } else {
            for value in array {
                if let Some(value) = value {
                    self.codes.repeat(u32::from(value), 1);
                }
                self.chunk.appended(1, value.is_some());
            }
        }
        if self.chunk.is_page_full() {
            self.end_page()?;
        }
        Ok(())
    }

    fn end_page(&mut self) -> Result<()> {
        let mut page = vec![0; LENGTH_BYTES];
        self.codes.pack(1, &mut page);
        self.codes.clear();
        let packed = (page.len() - LENGTH_BYTES) as u32;
        page[..LENGTH_BYTES].copy_from_slice(&packed.to_le_bytes());
        self.chunk.end_page(&page, Encoding::RLE)
    }

    /// Writes the chunk.
    pub(super) fn append_to<W: Write + Send>(
        mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        self.end_page()?;
        let (least, most) = match (self.has_false, self.has_true) {
            (false, false) => (None, None),
            (has_false, has_true) => (Some(!has_false), Some(has_true)),
        };
        let described = Described {
            encodings: vec![Encoding::RLE],
            statistics: Some(Statistics::boolean(
                least,
                most,
                None,
                Some(self.chunk.nulls()),
                false,
            )),
            pages: vec![PageEncodingStats {
                page_type: PageType::DATA_PAGE_V2,
                encoding: Encoding::RLE,
                count: self.chunk.pages() as i32,
            }],
            levels: self.chunk.levels(),
        };
        self.chunk.append_to(None, described, group)
    }
}

/// Before the values stands how many bytes they take.
const LENGTH_BYTES: usize = 4;
