//! Column chunks of strings and numbers out of few. Strings are written from the numbers that they have already.
//!
//! The Parquet crate's own encoder looks every string up in a table of its own and compares it with the least and the
//! greatest so far, row by row; of a table like `series`, with mostly names in its columns, that was a third of all time. Here
//! a string is looked at once in a batch. Source: Apache Parquet, Encodings.md (RLE_DICTIONARY) and data pages v2.
use super::file::{zstd_level, PAGE_ROWS, ZSTD_LEVEL};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use zstd::bulk::Compressor;

/// A string that is longer is no bound in the statistics.
const BOUND_BYTES_MAX: usize = 64;

/// A run of equal values that is shorter is packed.
const RUN_MIN: usize = 8;

/// Keys that are looked up together.
const KEYS: usize = 1024;

/// A string of the batch that was not looked at yet. No file has this many.
const NO_CODE: u32 = u32::MAX;

/// Values that are packed together.
const GROUP: usize = 8;

/// Codes of one page. As long as all are equal they are one and a count: most columns of most pages never need more.
#[derive(Default)]
struct Codes {
    same: Option<(u32, usize)>,
    all: Vec<u32>,
}

impl Codes {
    fn len(&self) -> usize {
        self.same.map_or(self.all.len(), |(_, times)| times)
    }

    fn clear(&mut self) {
        self.same = None;
        self.all.clear();
    }

    /// The same code this many times.
    fn repeat(&mut self, code: u32, times: usize) {
        match &mut self.same {
            Some((same, before)) if *same == code => *before += times,
            None if self.all.is_empty() && times > 0 => self.same = Some((code, times)),
            _ => self.each().extend(std::iter::repeat_n(code, times)),
        }
    }

    /// All of them one by one, to append others.
    fn each(&mut self) -> &mut Vec<u32> {
        if let Some((code, times)) = self.same.take() {
            self.all.extend(std::iter::repeat_n(code, times));
        }
        &mut self.all
    }

    /// Appends them packed: see [`pack`].
    fn pack(&mut self, width: u8, to: &mut Vec<u8>) {
        match self.same {
            Some((code, times)) if times >= RUN_MIN => put_run(code, times, width, to),
            _ => pack(self.each(), width, to),
        }
    }
}

/// Codes of one column of one row group.
struct Chunk {
    column: ColumnDescPtr,
    nullable: bool,
    /// Codes of the current page, NULL left out, and whether there is a value, row by row.
    codes: Codes,
    present: Codes,
    pages: Vec<CompressedPage>,
    rows: u64,
    nulls: u64,
}

impl Chunk {
    fn new(column: ColumnDescPtr) -> Chunk {
        Chunk {
            nullable: column.max_def_level() > 0,
            column,
            codes: Codes::default(),
            present: Codes::default(),
            pages: Vec::new(),
            rows: 0,
            nulls: 0,
        }
    }

    /// Notes `rows` rows appended to `codes`: all of them present, or none.
    fn appended(&mut self, rows: usize, are_present: bool) {
        self.rows += rows as u64;
        self.nulls += if are_present { 0 } else { rows as u64 };
        if self.nullable {
            self.present.repeat(u32::from(are_present), rows);
        }
    }

    fn page_rows(&self) -> usize {
        if self.nullable {
            self.present.len()
        } else {
            self.codes.len()
        }
    }

    /// Ends a page of codes of this many values.
    fn end_page(&mut self, values: usize) -> Result<()> {
        let width = bits(values.saturating_sub(1));
        let mut packed = vec![width];
        self.codes.pack(width, &mut packed);
        self.end_page_of(&packed, Encoding::RLE_DICTIONARY)
    }

    fn end_page_of(&mut self, values: &[u8], encoding: Encoding) -> Result<()> {
        let rows = self.page_rows();
        if rows == 0 {
            return Ok(());
        }
        let mut levels = Vec::new();
        if self.nullable {
            self.present.pack(1, &mut levels);
        }
        let whole = levels.len() + values.len();
        let packed = compress(values)?;
        let is_compressed = packed.len() < values.len();
        let mut buf = levels.clone();
        buf.extend_from_slice(if is_compressed { &packed } else { values });
        let page = Page::DataPageV2 {
            buf: Bytes::from(buf),
            num_values: rows as u32,
            encoding,
            num_nulls: (rows - self.codes.len()) as u32,
            num_rows: rows as u32,
            def_levels_byte_len: levels.len() as u32,
            rep_levels_byte_len: 0,
            is_compressed,
            statistics: None,
        };
        self.pages.push(CompressedPage::new(page, whole));
        self.codes.clear();
        self.present.clear();
        Ok(())
    }

    /// Writes the chunk: the dictionary, with `values` in PLAIN, then the pages.
    fn append_to<W: Write + Send>(
        mut self,
        values: &[u8],
        count: usize,
        statistics: Option<Statistics>,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let dictionary = Page::DictionaryPage {
            buf: Bytes::from(compress(values)?),
            num_values: count as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let dictionary = CompressedPage::new(dictionary, values.len());
        let mut chunk = TrackedWrite::new(Vec::new());
        let (mut whole, mut first_data) = (0, 0);
        {
            let mut writer = SerializedPageWriter::new(&mut chunk);
            let pages = std::mem::take(&mut self.pages);
            for (number, page) in std::iter::once(dictionary).chain(pages).enumerate() {
                let written = writer.write_page(page)?;
                whole += written.uncompressed_size;
                if number == 0 {
                    first_data = written.bytes_written;
                }
            }
        }
        let bytes = Bytes::from(chunk.into_inner()?);
        let mut metadata = ColumnChunkMetaData::builder(self.column.clone())
            .set_compression(Compression::ZSTD(zstd_level()))
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(whole as i64)
            .set_num_values(self.rows as i64)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(first_data as i64);
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
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

/// One column of strings of one row group.
pub(super) struct Dictionary {
    chunk: Chunk,
    /// Strings in the order of first use, and where they are.
    strings: Vec<String>,
    codes_of: HashMap<String, u32>,
}

impl Dictionary {
    pub(super) fn new(column: ColumnDescPtr) -> Dictionary {
        Dictionary {
            chunk: Chunk::new(column),
            strings: Vec::new(),
            codes_of: HashMap::new(),
        }
    }

    /// Appends a column with a dictionary of strings.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let array = array.as_dictionary::<Int32Type>();
        let values = array.values().as_string::<i32>();
        // Keys are those of this batch; few of them may be used.
        let mut codes = vec![NO_CODE; values.len()];
        let keys = array.keys();
        if keys.null_count() == keys.len() {
            self.chunk.appended(keys.len(), false);
        } else if keys.null_count() == 0 {
            for keys in keys.values().chunks(KEYS) {
                let first = keys[0];
                if keys.iter().all(|key| *key == first) {
                    let code = self.code(values, first, &mut codes);
                    self.chunk.codes.repeat(code, keys.len());
                    continue;
                }
                let all = self.chunk.codes.each();
                let (before, mut known) = (all.len(), true);
                all.extend(keys.iter().map(|key| {
                    let code = codes[*key as usize];
                    known &= code != NO_CODE;
                    code
                }));
                if !known {
                    // Seldom: a string is here for the first time in this batch.
                    all.truncate(before);
                    for key in keys {
                        let code = self.code(values, *key, &mut codes);
                        self.chunk.codes.each().push(code);
                    }
                }
            }
            self.chunk.appended(keys.len(), true);
        } else {
            for key in keys {
                if let Some(key) = key {
                    let code = self.code(values, key, &mut codes);
                    self.chunk.codes.repeat(code, 1);
                }
                self.chunk.appended(1, key.is_some());
            }
        }
        if self.chunk.page_rows() >= PAGE_ROWS {
            self.chunk.end_page(self.strings.len())?;
        }
        Ok(())
    }

    /// The code of a key of this batch, new if its string was never seen.
    fn code(&mut self, values: &StringArray, key: i32, codes: &mut [u32]) -> u32 {
        let known = &mut codes[key as usize];
        if *known == NO_CODE {
            let text = values.value(key as usize);
            *known = match self.codes_of.get(text) {
                Some(code) => *code,
                None => {
                    let code = self.strings.len() as u32;
                    self.codes_of.insert(text.to_owned(), code);
                    self.strings.push(text.to_owned());
                    code
                }
            };
        }
        *known
    }

    /// Writes the chunk.
    pub(super) fn append_to<W: Write + Send>(
        mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        self.chunk.end_page(self.strings.len())?;
        let mut values = Vec::new();
        for text in &self.strings {
            values.extend_from_slice(&(text.len() as u32).to_le_bytes());
            values.extend_from_slice(text.as_bytes());
        }
        let statistics = self.statistics();
        self.chunk
            .append_to(&values, self.strings.len(), Some(statistics), group)
    }

    fn statistics(&self) -> Statistics {
        let bound = |text: Option<&String>| {
            text.filter(|text| text.len() <= BOUND_BYTES_MAX)
                .map(|text| ByteArray::from(text.as_bytes().to_vec()))
        };
        let (least, greatest) = (bound(self.strings.iter().min()), bound(self.strings.iter().max()));
        Statistics::byte_array(least, greatest, None, Some(self.chunk.nulls), false)
    }
}

/// Whole numbers from 0 that are looked up in an array.
const SMALL: usize = 256;

/// A dictionary that is larger is no use: the page is written as it is.
const NUMBERS_MAX: usize = 1 << 16;

/// How a number of a column is written, and whether readers look for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Int64,
    Int32,
    UInt32,
    /// By its bits.
    Float32,
}

/// One column of numbers of one row group, few of which are different.
pub(super) struct NumberDictionary {
    chunk: Chunk,
    kind: Numbers,
    /// Numbers in the order of first use, and where they are. Those beyond `used` are in the current page only.
    numbers: Vec<i64>,
    used: usize,
    codes_of: HashMap<i64, u32>,
    small: Box<[u32; SMALL]>,
    /// Bounds of all that were written, also of pages without a dictionary.
    bounds: Option<(i64, i64)>,
}

impl NumberDictionary {
    /// None: a column of this type is written otherwise.
    pub(super) fn new(column: ColumnDescPtr, of: &DataType) -> Option<NumberDictionary> {
        let kind = match of {
            DataType::Int64 => Numbers::Int64,
            DataType::Int32 => Numbers::Int32,
            DataType::UInt32 => Numbers::UInt32,
            DataType::Float32 => Numbers::Float32,
            _ => return None,
        };
        Some(NumberDictionary {
            chunk: Chunk::new(column),
            kind,
            numbers: Vec::new(),
            used: 0,
            codes_of: HashMap::new(),
            small: Box::new([NO_CODE; SMALL]),
            bounds: None,
        })
    }

    /// Appends a column.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<()> {
        match self.kind {
            Numbers::Int64 => self.put(array.as_primitive::<Int64Type>(), |number| number),
            Numbers::Int32 => self.put(array.as_primitive::<Int32Type>(), i64::from),
            Numbers::UInt32 => self.put(array.as_primitive::<UInt32Type>(), i64::from),
            Numbers::Float32 => self.put(array.as_primitive::<Float32Type>(), |number| {
                i64::from(number.to_bits())
            }),
        }
        if self.chunk.page_rows() >= PAGE_ROWS {
            self.end_page()?;
        }
        Ok(())
    }

    fn put<T: ArrowPrimitiveType>(&mut self, array: &PrimitiveArray<T>, whole: impl Fn(T::Native) -> i64) {
        if array.null_count() == array.len() {
            self.chunk.appended(array.len(), false);
            return;
        }
        if array.null_count() > 0 {
            for number in array {
                if let Some(number) = number {
                    let code = self.code(whole(number));
                    self.chunk.codes.repeat(code, 1);
                }
                self.chunk.appended(1, number.is_some());
            }
            return;
        }
        for numbers in array.values().chunks(KEYS) {
            let first = numbers[0];
            if numbers.iter().all(|number| *number == first) {
                let code = self.code(whole(first));
                self.chunk.codes.repeat(code, numbers.len());
                continue;
            }
            self.chunk.codes.each();
            for number in numbers {
                let code = self.code(whole(*number));
                self.chunk.codes.all.push(code);
            }
        }
        self.chunk.appended(array.len(), true);
    }

    #[inline]
    fn code(&mut self, number: i64) -> u32 {
        match self.small.get(number as usize) {
            Some(code) if *code != NO_CODE => *code,
            _ => self.find(number),
        }
    }

    fn find(&mut self, number: i64) -> u32 {
        if let Some(code) = self.codes_of.get(&number) {
            return *code;
        }
        let code = self.numbers.len() as u32;
        self.codes_of.insert(number, code);
        self.numbers.push(number);
        if let Some(place) = self.small.get_mut(number as usize) {
            *place = code;
        }
        let (least, most) = self.bounds.unwrap_or((number, number));
        self.bounds = Some((least.min(number), most.max(number)));
        code
    }

    fn end_page(&mut self) -> Result<()> {
        if self.numbers.len() <= NUMBERS_MAX {
            self.used = self.numbers.len();
            return self.chunk.end_page(self.used);
        }
        let mut values = Vec::new();
        for code in self.chunk.codes.each() {
            plain(self.kind, self.numbers[*code as usize], &mut values);
        }
        for number in self.numbers.drain(self.used..) {
            self.codes_of.remove(&number);
            if let Some(place) = self.small.get_mut(number as usize) {
                *place = NO_CODE;
            }
        }
        self.chunk.end_page_of(&values, Encoding::PLAIN)
    }

    /// Writes the chunk.
    pub(super) fn append_to<W: Write + Send>(
        mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        self.end_page()?;
        let mut values = Vec::new();
        for number in &self.numbers {
            plain(self.kind, *number, &mut values);
        }
        let (least, most) = (
            self.bounds.map(|(least, _)| least),
            self.bounds.map(|(_, most)| most),
        );
        // Unsigned numbers are there as what their bits are signed.
        let narrow = |bound: Option<i64>| bound.map(|bound| bound as u32 as i32);
        let nulls = Some(self.chunk.nulls);
        let statistics = match self.kind {
            Numbers::Int64 => Some(Statistics::int64(least, most, None, nulls, false)),
            Numbers::Int32 | Numbers::UInt32 => {
                Some(Statistics::int32(narrow(least), narrow(most), None, nulls, false))
            }
            Numbers::Float32 => None,
        };
        self.chunk
            .append_to(&values, self.numbers.len(), statistics, group)
    }
}

/// A number as PLAIN has it.
fn plain(kind: Numbers, number: i64, to: &mut Vec<u8>) {
    match kind {
        Numbers::Int64 => to.extend_from_slice(&number.to_le_bytes()),
        _ => to.extend_from_slice(&(number as u32).to_le_bytes()),
    }
}

thread_local! {
    /// One for all columns: to make one takes as long as to compress a short page.
    static ZSTD: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

fn compress(values: &[u8]) -> Result<Vec<u8>> {
    ZSTD.with_borrow_mut(|zstd| {
        let zstd = match zstd {
            Some(zstd) => zstd,
            None => zstd.insert(Compressor::new(ZSTD_LEVEL).map_err(external)?),
        };
        zstd.compress(values).map_err(external)
    })
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
    while at < codes.len() {
        let code = codes[at];
        // Mostly there is no run: what follows need not be counted then.
        if codes.get(at + RUN_MIN - 1) != Some(&code) {
            at += 1;
            continue;
        }
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
fn put_number(mut number: u64, to: &mut Vec<u8>) {
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
                prop_assert_eq!(gathered.len(), codes.len());
                gathered.pack(width, &mut again);
                prop_assert_eq!(again, packed);
            }
        }
    }
}
