//! Column chunks of strings and numbers out of few. Strings are written from the numbers that they have already.
//!
//! The Parquet crate's own encoder looks every string up in a table of its own and compares it with the least and the
//! greatest so far, row by row; of a table like `series`, with mostly names in its columns, that was a third of all time. Here
//! a string is looked at once in a batch.
use super::chunk::{Chunk, Codes, Described};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use parquet::basic::Encoding;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;
use std::collections::HashMap;
use std::io::Write;

/// A string that is longer is no bound in the statistics.
const BOUND_BYTES_MAX: usize = 64;

/// Keys that are looked up together.
const KEYS: usize = 1024;

/// A string of the batch that was not looked at yet. No file has this many.
const NO_CODE: u32 = u32::MAX;

/// Whether these values are all the same. Each is looked at, which the CPU does many at a time.
fn all_are<V: PartialEq + Copy>(first: V, values: &[V]) -> bool {
    values.iter().fold(true, |same, value| same & (*value == first))
}

/// The array that came last with one value throughout, and its code. Batches share such arrays: who knows one need not look at its values.
#[derive(Default)]
struct Same(Option<(Buffer, u32)>);

impl Same {
    fn of(array: &Buffer, code: u32) -> Same {
        Same(Some((array.clone(), code)))
    }

    fn code_of(&self, array: &Buffer) -> Option<u32> {
        let (known, code) = self.0.as_ref()?;
        known.ptr_eq(array).then_some(*code)
    }
}

/// What is said of a chunk.
fn of_codes(statistics: Option<Statistics>) -> Described {
    Described {
        encodings: vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY],
        statistics,
        ..Described::default()
    }
}

/// One column of strings of one row group.
pub(super) struct Dictionary {
    chunk: Chunk,
    /// Those of the current page, NULL left out.
    codes: Codes,
    /// Strings in the order of first use, and where they are.
    strings: Vec<String>,
    codes_of: HashMap<String, u32>,
    same: Same,
}

impl Dictionary {
    pub(super) fn new(column: ColumnDescPtr) -> Dictionary {
        Dictionary {
            chunk: Chunk::new(column),
            codes: Codes::default(),
            strings: Vec::new(),
            codes_of: HashMap::new(),
            same: Same::default(),
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
            let (first, buffer) = (keys.values()[0], keys.values().inner());
            if let Some(code) = self.same.code_of(buffer) {
                self.codes.repeat(code, keys.len());
            } else if keys.values().chunks(KEYS).all(|keys| all_are(first, keys)) {
                let code = self.code(values, first, &mut codes);
                self.codes.repeat(code, keys.len());
                self.same = Same::of(buffer, code);
            } else {
                self.write_each(keys.values(), values, &mut codes);
            }
            self.chunk.appended(keys.len(), true);
        } else {
            for key in keys {
                if let Some(key) = key {
                    let code = self.code(values, key, &mut codes);
                    self.codes.repeat(code, 1);
                }
                self.chunk.appended(1, key.is_some());
            }
        }
        if self.chunk.is_page_full() {
            self.chunk
                .end_page_of_codes(&mut self.codes, self.strings.len())?;
        }
        Ok(())
    }

    fn write_each(&mut self, keys: &[i32], values: &StringArray, codes: &mut [u32]) {
        for keys in keys.chunks(KEYS) {
            let first = keys[0];
            if all_are(first, keys) {
                let code = self.code(values, first, codes);
                self.codes.repeat(code, keys.len());
                continue;
            }
            let all = self.codes.each();
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
                    let code = self.code(values, *key, codes);
                    self.codes.each().push(code);
                }
            }
        }
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
        self.chunk
            .end_page_of_codes(&mut self.codes, self.strings.len())?;
        let mut values = Vec::new();
        for text in &self.strings {
            values.extend_from_slice(&(text.len() as u32).to_le_bytes());
            values.extend_from_slice(text.as_bytes());
        }
        let statistics = self.statistics();
        let dictionary = Some((values.as_slice(), self.strings.len()));
        self.chunk
            .append_to(dictionary, of_codes(Some(statistics)), group)
    }

    fn statistics(&self) -> Statistics {
        let bound = |text: Option<&String>| {
            text.filter(|text| text.len() <= BOUND_BYTES_MAX)
                .map(|text| ByteArray::from(text.as_bytes().to_vec()))
        };
        let (least, greatest) = (bound(self.strings.iter().min()), bound(self.strings.iter().max()));
        Statistics::byte_array(least, greatest, None, Some(self.chunk.nulls()), false)
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
    /// Those of the current page, NULL left out.
    codes: Codes,
    kind: Numbers,
    /// Numbers in the order of first use, and where they are. Those beyond `used` are in the current page only.
    numbers: Vec<i64>,
    used: usize,
    codes_of: HashMap<i64, u32>,
    small: Box<[u32; SMALL]>,
    /// Bounds of all that were written, also of pages without a dictionary.
    bounds: Option<(i64, i64)>,
    same: Same,
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
            codes: Codes::default(),
            kind,
            numbers: Vec::new(),
            used: 0,
            codes_of: HashMap::new(),
            small: Box::new([NO_CODE; SMALL]),
            bounds: None,
            same: Same::default(),
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
        if self.chunk.is_page_full() {
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
                    self.codes.repeat(code, 1);
                }
                self.chunk.appended(1, number.is_some());
            }
            return;
        }
        self.chunk.appended(array.len(), true);
        let (first, buffer) = (array.values()[0], array.values().inner());
        if let Some(code) = self.same.code_of(buffer) {
            self.codes.repeat(code, array.len());
            return;
        }
        if array.values().chunks(KEYS).all(|numbers| all_are(first, numbers)) {
            let code = self.code(whole(first));
            self.codes.repeat(code, array.len());
            self.same = Same::of(buffer, code);
            return;
        }
        for numbers in array.values().chunks(KEYS) {
            let first = numbers[0];
            if all_are(first, numbers) {
                let code = self.code(whole(first));
                self.codes.repeat(code, numbers.len());
                continue;
            }
            self.codes.each();
            for number in numbers {
                let code = self.code(whole(*number));
                self.codes.all.push(code);
            }
        }
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
            return self.chunk.end_page_of_codes(&mut self.codes, self.used);
        }
        let mut values = Vec::new();
        for code in self.codes.each() {
            plain(self.kind, self.numbers[*code as usize], &mut values);
        }
        for number in self.numbers.drain(self.used..) {
            self.codes_of.remove(&number);
            if let Some(place) = self.small.get_mut(number as usize) {
                *place = NO_CODE;
            }
        }
        self.codes.clear();
        self.same = Same::default();
        self.chunk.end_page(&values, Encoding::PLAIN)
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
        let nulls = Some(self.chunk.nulls());
        let statistics = match self.kind {
            Numbers::Int64 => Some(Statistics::int64(least, most, None, nulls, false)),
            Numbers::Int32 | Numbers::UInt32 => {
                Some(Statistics::int32(narrow(least), narrow(most), None, nulls, false))
            }
            Numbers::Float32 => None,
        };
        let dictionary = Some((values.as_slice(), self.numbers.len()));
        self.chunk.append_to(dictionary, of_codes(statistics), group)
    }
}

/// A number as PLAIN has it.
fn plain(kind: Numbers, number: i64, to: &mut Vec<u8>) {
    match kind {
        Numbers::Int64 => to.extend_from_slice(&number.to_le_bytes()),
        _ => to.extend_from_slice(&(number as u32).to_le_bytes()),
    }
}
