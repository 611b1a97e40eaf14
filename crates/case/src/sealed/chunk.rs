//! Column chunks: pages of values that are encoded already, and the codes of dictionaries. Source: Apache Parquet, Encodings.md
//! (RLE_DICTIONARY) and data pages v2.
use super::file::{zstd_level, PAGE_ROWS, ZSTD_LEVEL};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::cell::RefCell;
use std::io::Write;
use zstd::bulk::Compressor;

/// A run of equal values that is shorter is packed.
const RUN_MIN: usize = 8;

/// What stands before a page, at most about.
const PAGE_HEAD_BYTES: usize = 64;

/// Values that are packed together.
const GROUP: usize = 8;

/// Codes of one page. As long as all are equal they are one and a count: most columns of most pages never need more.
#[derive(Default)]
pub(super) struct Codes {
    same: Option<(u32, usize)>,
    pub(super) all: Vec<u32>,
}

impl Codes {
    pub(super) fn clear(&mut self) {
        self.same = None;
        self.all.clear();
    }

    /// The same code this many times.
    pub(super) fn repeat(&mut self, code: u32, times: usize) {
        match &mut self.same {
            Some((same, before)) if *same == code => *before += times,
            None if self.all.is_empty() && times > 0 => self.same = Some((code, times)),
            _ => self.each().extend(std::iter::repeat_n(code, times)),
        }
    }

    /// All of them one by one, to append others.
    pub(super) fn each(&mut self) -> &mut Vec<u32> {
        if let Some((code, times)) = self.same.take() {
            self.all.extend(std::iter::repeat_n(code, times));
        }
        &mut self.all
    }

    /// Appends them packed: see [`pack`].
    pub(super) fn pack(&mut self, width: u8, to: &mut Vec<u8>) {
        match self.same {
            Some((code, times)) if times >= RUN_MIN => put_run(code, times, width, to),
            _ => pack(self.each(), width, to),
        }
    }
}

/// What the file says of a chunk beside where it is.
#[derive(Default)]
pub(super) struct Described {
    pub(super) encodings: Vec<Encoding>,
    pub(super) statistics: Option<Statistics>,
    /// Of each kind of page, how many there are.
    pub(super) pages: Vec<PageEncodingStats>,
    /// Rows without and with a value.
    pub(super) levels: Option<Vec<i64>>,
}

/// The values of a page, compressed where that makes them shorter.
#[derive(Default)]
pub(super) struct PageValues {
    bytes: Vec<u8>,
    /// Bytes before.
    whole: usize,
}

impl PageValues {
    pub(super) fn new(values: &[u8]) -> Result<PageValues> {
        let packed = compress(values)?;
        Ok(PageValues {
            whole: values.len(),
            bytes: if packed.len() < values.len() {
                packed
            } else {
                values.into()
            },
        })
    }
}

/// The pages of one column of one row group.
pub(super) struct Chunk {
    column: ColumnDescPtr,
    nullable: bool,
    /// Whether there is a value, row by row of the current page.
    present: Codes,
    page_rows: usize,
    page_nulls: usize,
    pages: Vec<CompressedPage>,
    rows: u64,
    nulls: u64,
}

impl Chunk {
    pub(super) fn new(column: ColumnDescPtr) -> Chunk {
        Chunk {
            nullable: column.max_def_level() > 0,
            column,
            present: Codes::default(),
            page_rows: 0,
            page_nulls: 0,
            pages: Vec::new(),
            rows: 0,
            nulls: 0,
        }
    }

    /// Notes rows that were appended: all of them present, or none.
    pub(super) fn appended(&mut self, rows: usize, are_present: bool) {
        let nulls = if are_present { 0 } else { rows };
        self.rows += rows as u64;
        self.nulls += nulls as u64;
        self.page_rows += rows;
        self.page_nulls += nulls;
        if self.nullable {
            self.present.repeat(u32::from(are_present), rows);
        }
    }

    /// Whether the page is long enough.
    pub(super) fn is_page_full(&self) -> bool {
        self.page_rows >= PAGE_ROWS
    }

    /// Rows without a value.
    pub(super) fn nulls(&self) -> u64 {
        self.nulls
    }

    /// Pages that were ended.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Rows without and with a value; None where all have one.
    pub(super) fn levels(&self) -> Option<Vec<i64>> {
        self.nullable
            .then(|| vec![self.nulls as i64, (self.rows - self.nulls) as i64])
    }

    /// Ends a page of codes of this many values.
    pub(super) fn end_page_of_codes(&mut self, codes: &mut Codes, values: usize) -> Result<()> {
        let width = bits(values.saturating_sub(1));
        let mut packed = vec![width];
        codes.pack(width, &mut packed);
        codes.clear();
        self.end_page(&packed, Encoding::RLE_DICTIONARY)
    }

    /// Ends a page of these values, NULL left out.
    pub(super) fn end_page(&mut self, values: &[u8], encoding: Encoding) -> Result<()> {
        self.end_packed_page(&PageValues::new(values)?, encoding)
    }

    /// The same of values that were compressed already.
    pub(super) fn end_packed_page(&mut self, values: &PageValues, encoding: Encoding) -> Result<()> {
        let rows = std::mem::take(&mut self.page_rows);
        let nulls = std::mem::take(&mut self.page_nulls);
        if rows == 0 {
            return Ok(());
        }
        let mut levels = Vec::new();
        if self.nullable {
            self.present.pack(1, &mut levels);
        }
        let whole = levels.len() + values.whole;
        let levels_bytes = levels.len();
        let is_compressed = values.bytes.len() < values.whole;
        let mut buf = levels;
        buf.extend_from_slice(&values.bytes);
        let page = Page::DataPageV2 {
            buf: Bytes::from(buf),
            num_values: rows as u32,
            encoding,
            num_nulls: nulls as u32,
            num_rows: rows as u32,
            def_levels_byte_len: levels_bytes as u32,
            rep_levels_byte_len: 0,
            is_compressed,
            statistics: None,
        };
        self.pages.push(CompressedPage::new(page, whole));
        self.present.clear();
        Ok(())
    }

    /// Writes the chunk: the dictionary, if it has one, with so many values in PLAIN; then the pages.
    pub(super) fn append_to<W: Write + Send>(
        mut self,
        dictionary: Option<(&[u8], usize)>,
        described: Described,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let mut pages = Vec::with_capacity(self.pages.len() + 1);
        if let Some((values, count)) = dictionary {
            let page = Page::DictionaryPage {
                buf: Bytes::from(compress(values)?),
                num_values: count as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            pages.push(CompressedPage::new(page, values.len()));
        }
        pages.append(&mut self.pages);
        let held: usize = pages.iter().map(CompressedPage::compressed_size).sum();
        let mut chunk = TrackedWrite::new(Vec::with_capacity(held + pages.len() * PAGE_HEAD_BYTES));
        let (mut whole, mut first_data) = (0, 0);
        {
            let mut writer = SerializedPageWriter::new(&mut chunk);
            for page in pages {
                let written = writer.write_page(page)?;
                whole += written.uncompressed_size;
                if written.page_type == PageType::DICTIONARY_PAGE {
                    first_data = written.bytes_written;
                }
            }
        }
        let bytes = Bytes::from(chunk.into_inner()?);
        let mut metadata = ColumnChunkMetaData::builder(self.column.clone())
            .set_compression(Compression::ZSTD(zstd_level()))
            .set_encodings(described.encodings)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(whole as i64)
            .set_num_values(self.rows as i64)
            .set_dictionary_page_offset(dictionary.map(|_| 0))
            .set_data_page_offset(first_data as i64);
        if let Some(statistics) = described.statistics {
            metadata = metadata.set_statistics(statistics);
        }
        if !described.pages.is_empty() {
            metadata = metadata.set_page_encoding_stats(described.pages);
        }
        if let Some(levels) = described.levels {
            metadata = metadata.set_definition_level_histogram(Some(levels.into()));
        }
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        group.append_column(&bytes, close)
    }
}

thread_local! {
    /// One for all columns: to make one takes as long as to compress a short page.
    static ZSTD: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

fn with_zstd<R>(run: impl FnOnce(&mut Compressor<'static>) -> std::io::Result<R>) -> Result<R> {
    ZSTD.with_borrow_mut(|zstd| {
        let zstd = match zstd {
            Some(zstd) => zstd,
            None => zstd.insert(Compressor::new(ZSTD_LEVEL).map_err(external)?),
        };
        run(zstd).map_err(external)
    })
}

fn compress(values: &[u8]) -> Result<Vec<u8>> {
    with_zstd(|zstd| zstd.compress(values))
}

fn external(error: std::io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Bits that a number takes.
fn bits(number: usize) -> u8 {
    (usize::BITS - number.leading_zeros()) as u8
}

/// Appends `codes` of `width` bits: runs of equal ones as such, the others packed in groups of eight.
fn pack(codes: &[u32], width: u8, to: &mut Vec<u8>) {
    let (mut packed, mut at) = (0, 0);
    while let Some(next) = codes[at..].first_chunk::<RUN_MIN>() {
        // Mostly there is no run. It can begin where the last of these differs from the one before.
        let changes = (1..RUN_MIN).fold(0_u32, |changes, place| {
            changes | u32::from(next[place] != next[place - 1]) << place
        });
        if changes != 0 {
            at += changes.ilog2() as usize;
            continue;
        }
        let code = next[0];
        let run = codes[at..].iter().take_while(|next| **next == code).count();
        // Only whole groups may stand before a run.
        let aligned = run - ((at - packed).next_multiple_of(GROUP) - (at - packed)).min(run);
        if aligned < RUN_MIN {
            at += run;
            continue;
        }
        pack_groups(&codes[packed..at + run - aligned], width, to);
        put_run(code, aligned, width, to);
        at += run;
        packed = at;
    }
    pack_groups(&codes[packed..], width, to);
}

/// A run of equal codes.
fn put_run(code: u32, times: usize, width: u8, to: &mut Vec<u8>) {
    put_number((times as u64) << 1, to);
    to.extend_from_slice(&code.to_le_bytes()[..usize::from(width.div_ceil(8))]);
}

/// Groups of eight, the last one filled up with zeros.
fn pack_groups(codes: &[u32], width: u8, to: &mut Vec<u8>) {
    if codes.is_empty() {
        return;
    }
    put_number((codes.len().div_ceil(GROUP) as u64) << 1 | 1, to);
    if width <= 8 {
        for group in codes.chunks(GROUP) {
            let place = |at: usize| at as u32 * u32::from(width);
            let packed = group
                .iter()
                .enumerate()
                .fold(0_u64, |packed, (at, code)| packed | u64::from(*code) << place(at));
            to.extend_from_slice(&packed.to_le_bytes()[..usize::from(width)]);
        }
        return;
    }
    let missing = codes.len().next_multiple_of(GROUP) - codes.len();
    let (mut waiting, mut count) = (0_u64, 0);
    for code in codes.iter().chain(std::iter::repeat_n(&0, missing)) {
        waiting |= u64::from(*code) << count;
        count += u32::from(width);
        if count >= 32 {
            to.extend_from_slice(&(waiting as u32).to_le_bytes());
            waiting >>= 32;
            count -= 32;
        }
    }
    // Eight codes of any width end on a whole byte.
    to.extend_from_slice(&waiting.to_le_bytes()[..(count / 8) as usize]);
}

/// ULEB128.
pub(super) fn put_number(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a reader of the format makes of it.
    fn unpack(mut from: &[u8], width: u8, count: usize) -> Vec<u32> {
        let mut codes = Vec::new();
        while !from.is_empty() {
            let (mut head, mut shift) = (0_u64, 0);
            loop {
                let byte = from[0];
                from = &from[1..];
                head |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let number = (head >> 1) as usize;
            if head & 1 == 0 {
                let (code, rest) = from.split_at(usize::from(width.div_ceil(8)));
                let code = code
                    .iter()
                    .rev()
                    .fold(0, |code, byte| code << 8 | u32::from(*byte));
                codes.extend(std::iter::repeat_n(code, number));
                from = rest;
            } else {
                let (group, rest) = from.split_at(number * usize::from(width));
                let bit = |at: usize| u32::from(group[at / 8] >> (at % 8) & 1);
                let code = |index: usize| {
                    (0..usize::from(width))
                        .fold(0, |code, at| code | bit(index * usize::from(width) + at) << at)
                };
                codes.extend((0..number * GROUP).map(code));
                from = rest;
            }
        }
        codes.truncate(count);
        codes
    }

    #[test]
    fn a_long_run_takes_few_bytes() {
        let mut packed = Vec::new();
        pack(&[5; 100_000], 3, &mut packed);
        assert!(packed.len() <= 4, "{packed:?}");
    }

    proptest! {
        #[test]
        fn codes_come_back(runs in prop::collection::vec((0_u32..2000, 1_usize..40), 0..60)) {
            let codes: Vec<u32> = runs.iter().flat_map(|(code, run)| std::iter::repeat_n(*code, *run)).collect();
            for width in [bits(codes.iter().max().copied().unwrap_or(0) as usize), 11, 20] {
                let mut packed = Vec::new();
                pack(&codes, width, &mut packed);
                prop_assert_eq!(&unpack(&packed, width, codes.len()), &codes);
                let (mut gathered, mut again) = (Codes::default(), Vec::new());
                for (code, run) in &runs {
                    gathered.repeat(*code, *run);
                }
                gathered.pack(width, &mut again);
                prop_assert_eq!(again, packed);
            }
        }
    }
}
