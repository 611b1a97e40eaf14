//! Operations from any CSV or Parquet file, by a mapping of its columns: `--map 'start=ts:us,latency=lat:us,op=type,offset=lba:sectors,size=len:B,device=disk'`.
//!
//! Columns of a file without a header have numbers: `start=#1:filetime`.
//!
//! `start` or `end` gives the moment, `latency` how long. `layer=block` (or app, syscall, device) is no column but the layer; without it `app`.
use super::stamps::stamp_ns;
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, never, Format, Source};
use crate::lines::{find, first_of};
use crate::records::{read_lines, Line, ReadLines};
use crate::series::{for_each_row, is_parquet};
use crate::sink::{one_stage_op, Sink};
use crate::text::{counted, integer, leading_scaled, scaled};
use crate::ImportError;
use case::schema::{Layer, Op, Stage};
use case::sealed::FewColumns;
use std::collections::BTreeSet;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "ops",
    about: "operations: any CSV file with a header or Parquet file, with --map 'start=COLUMN:us,latency=COLUMN:us,op=COLUMN,offset=COLUMN:B,size=COLUMN:B,...'",
    not_carried: &[("columns that --map does not name", "they are left out")],
    recognise: never,
    together: alone,
    read,
};

const KEYS: [&str; 12] = [
    "start", "end", "latency", "op", "offset", "size", "device", "file", "comm", "host", "pid", "layer",
];

/// Moments that are dates and times (`:iso`) have no unit.
const ISO: i64 = 0;
/// Nor have those that Windows counts in 100 ns since 1601 (`:filetime`; FILETIME of its API, as in the traces of MSR Cambridge).
const FILETIME: i64 = -1;
/// 1970 on that clock.
const FILETIME_1970: i64 = 116_444_736_000_000_000;

/// Nanoseconds or bytes of a unit.
fn unit(text: &str, is_time: bool) -> Option<i64> {
    Some(match (text, is_time) {
        ("ns", true) | ("B" | "", false) => 1,
        ("100ns", true) => 100,
        ("us", true) => 1000,
        ("ms", true) => 1_000_000,
        ("s", true) => 1_000_000_000,
        ("sectors", false) => 512,
        ("kB", false) => 1000,
        ("KiB", false) => 1024,
        ("MiB", false) => 1 << 20,
        ("blocks4k", false) => 4096,
        _ => return None,
    })
}

struct Field {
    key: &'static str,
    column: String,
    unit: i64,
}

fn mapping(source: &Source) -> Result<(Vec<Field>, Layer), ImportError> {
    let example = "'start=ts:us,latency=lat:us,op=type,offset=off:B,size=len:B'";
    let wrong = |text: String| ImportError::Use(format!("--map: {text}; e.g. {example}"));
    let map = source
        .map
        .as_deref()
        .ok_or_else(|| wrong("expected which column is what, found none".into()))?;
    let (mut fields, mut layer) = (Vec::new(), Layer::App);
    for part in map.split(',') {
        let (key, value) = part
            .trim()
            .split_once('=')
            .ok_or_else(|| wrong(format!("expected KEY=COLUMN, found '{part}'")))?;
        let key = KEYS.iter().find(|known| **known == key).ok_or_else(|| {
            wrong(format!(
                "expected a key out of {}, found '{key}'",
                KEYS.join(", ")
            ))
        })?;
        if *key == "layer" {
            layer = match value {
                "app" => Layer::App,
                "syscall" => Layer::Syscall,
                "block" => Layer::Block,
                "device" => Layer::Device,
                _ => {
                    return Err(wrong(format!(
                        "expected layer=app, syscall, block or device, found '{value}'"
                    )))
                }
            };
            continue;
        }
        let is_time = matches!(*key, "start" | "end" | "latency");
        let is_bytes = matches!(*key, "offset" | "size");
        let (column, unit_name) = match value.rsplit_once(':') {
            Some((column, unit)) if is_time || is_bytes => (column, unit),
            _ => (value, ""),
        };
        let is_moment = matches!(*key, "start" | "end");
        let unit = match is_time || is_bytes {
            true if is_moment && unit_name == "iso" => ISO,
            true if is_moment && unit_name == "filetime" => FILETIME,
            true => unit(unit_name, is_time).ok_or_else(|| {
                let units = match (is_moment, is_time) {
                    (true, _) => "ns, 100ns, us, ms, s, iso, filetime",
                    (_, true) => "ns, 100ns, us, ms, s",
                    _ => "B, kB, KiB, MiB, sectors, blocks4k",
                };
                wrong(format!(
                    "{key}: expected a unit out of {units}, found '{unit_name}'"
                ))
            })?,
            false => 1,
        };
        fields.push(Field {
            key,
            column: column.to_owned(),
            unit,
        });
    }
    let has = |key: &str| fields.iter().any(|field| field.key == key);
    let has_moment = has("start") || has("end");
    let has_length = has("latency") || has("start") && has("end");
    if !has_moment {
        return Err(wrong("expected start or end, found neither".into()));
    }
    if !has_length {
        let found =
            "a trace without latencies holds no operation to judge; --as series reads what else it holds";
        return Err(wrong(format!(
            "expected latency, or both start and end, found neither: {found}"
        )));
    }
    Ok((fields, layer))
}

/// Fields of a line; quotes may hold the delimiter.
pub fn cells(line: &str, delimiter: char) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            _ if letter == delimiter && !quoted => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            _ => cell.push(letter),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

fn is_missing(cell: &str) -> bool {
    matches!(cell, "" | "NULL" | "NA" | "N/A" | "NaN" | "nan" | "-")
}

fn kind(text: &str) -> Op {
    match text {
        "R" | "READ" | "Read" => return Op::Read,
        "W" | "WRITE" | "Write" => return Op::Write,
        _ => {}
    }
    match text.to_ascii_lowercase().as_str() {
        "r" | "read" | "rd" | "0" => Op::Read,
        "w" | "write" | "wr" | "1" => Op::Write,
        "f" | "flush" => Op::Flush,
        "d" | "discard" | "trim" | "unmap" | "2" => Op::Discard,
        "s" | "sync" | "fsync" | "fdatasync" => Op::Sync,
        "copy" => Op::Copy,
        _ => Op::Other,
    }
}

const UNIX_NS_MIN: i64 = 315_000_000_000_000_000;

/// Keys of numbers, in the order of [`Plain::numbers`].
const NUMBERS: [&str; 5] = ["start", "end", "latency", "offset", "size"];
const START: usize = 0;
const LATENCY: usize = 2;
const OFFSET: usize = 3;
const SIZE: usize = 4;
/// Keys of words, in the order of [`Plain::words`].
const WORDS: [&str; 6] = ["op", "device", "file", "comm", "host", "pid"];
const OP: usize = 0;
const DEVICE: usize = 1;
const FILE: usize = 2;
const COMM: usize = 3;
const HOST: usize = 4;
const PID: usize = 5;

/// What a column of a plain line is.
#[derive(Clone, Copy)]
enum Column {
    /// None that is wanted.
    Other,
    /// Its place in [`NUMBERS`], and its unit.
    Number(usize, i64),
    /// Its place in [`WORDS`].
    Word(usize),
}

/// What a plain line says. Which of it counts is known from the header.
#[derive(Clone, Copy, Default)]
struct Plain {
    numbers: [i64; NUMBERS.len()],
    /// Kind, names, process.
    words: [u32; WORDS.len()],
}

impl Plain {
    /// The words that operations have in common that are handed on together.
    fn others(&self) -> [u32; 4] {
        [FILE, COMM, HOST, PID].map(|word| self.words[word])
    }
}

/// A word of up to eight bytes, zeros after it.
#[derive(Clone, Copy, Default, PartialEq)]
struct Short {
    bytes: u64,
    length: usize,
}

impl Short {
    /// The word before the next delimiter, at most `rest` bytes from the begin of `text`. None: there is none, it is longer, or the text ends soon.
    #[inline]
    fn new(text: &[u8], rest: usize, delimiter: u8) -> Option<Short> {
        let bytes = u64::from_le_bytes(*text.first_chunk()?);
        let length = first_of(bytes, delimiter).unwrap_or(8).min(rest);
        let is_whole = length < 8 || rest == 8 || text.get(8) == Some(&delimiter);
        (length > 0 && is_whole).then(|| Short {
            bytes: bytes << (64 - 8 * length) >> (64 - 8 * length),
            length,
        })
    }

    /// Its place among those that were seen last.
    #[inline]
    fn place(self) -> usize {
        (self.bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize
    }
}

/// The words of one column that were seen last, and what they are.
type Recent = [(Short, u32); 16];

/// The text before the next delimiter.
fn cell(text: &[u8], delimiter: u8) -> &[u8] {
    &text[..find(text, delimiter).unwrap_or(text.len())]
}

/// What a word is in the column of this place among [`WORDS`]. None: it is quoted, missing or wrong.
fn word(place: usize, cell: &[u8], sink: &mut Sink) -> Option<u32> {
    let (first, last) = (cell.first()?, cell.last()?);
    let is_bare = first.is_ascii_graphic() && last.is_ascii_graphic() && !cell.contains(&b'"');
    let cell = std::str::from_utf8(cell).ok()?;
    if !is_bare || is_missing(cell) {
        return None;
    }
    Some(match place {
        OP => kind(cell) as u32,
        PID => cell.parse::<i32>().ok()? as u32,
        _ => sink.name(cell),
    })
}

/// Whether the comma in a number may stand between thousands: three digits behind it, and no nought alone in front (`1,234`).
fn may_divide_thousands(cell: &str) -> bool {
    let Some((whole, rest)) = cell.trim_start_matches('-').split_once(',') else {
        return false;
    };
    rest.len() == 3 && (1..=3).contains(&whole.len()) && whole != "0"
}

/// What a file's rows are read with.
struct Reader {
    fields: Vec<Field>,
    layer: Layer,
    stage: Stage,
    stage_name: &'static str,
    device: Option<String>,
    is_told: bool,
    missing: u64,
    /// A comma inside a cell stands in quotes, and may divide thousands.
    has_commas: bool,
}

impl Reader {
    fn new(source: &Source) -> Result<Reader, ImportError> {
        let (fields, layer) = mapping(source)?;
        let (stage, stage_name) = match layer {
            Layer::App | Layer::Syscall => (Stage::Fs, "fs+queue+device+interrupt+reap"),
            Layer::Block => (Stage::Queue, "queue+device+interrupt"),
            Layer::Device => (Stage::Device, "device+interrupt"),
        };
        Ok(Reader {
            fields,
            layer,
            stage,
            stage_name,
            device: source.device.clone(),
            is_told: false,
            missing: 0,
            has_commas: false,
        })
    }

    /// A row: the text of each field in their order, empty where there is none.
    fn row<'a>(&mut self, cells: impl Iterator<Item = &'a str>, sink: &mut Sink) -> Result<(), RecordError> {
        let mut row = one_stage_op(0, 0, Op::Other, self.stage);
        let (mut start, mut end, mut latency) = (None, None, None);
        for (field, cell) in self.fields.iter().zip(cells) {
            if is_missing(cell) {
                continue;
            }
            let bad = |expected| Bad::new(format!("column {}", field.column), expected, cell);
            let has_commas = self.has_commas;
            let scaled = || {
                if has_commas && may_divide_thousands(cell) {
                    return Err(bad(
                        "a number that says by a point what its comma divides: thousands, or decimals",
                    ));
                }
                scaled(cell, field.unit).ok_or_else(|| match cell.parse::<f64>() {
                    Ok(_) => {
                        bad("a number that fits the unit: it stands for more than 146 years, or an exabyte")
                    }
                    Err(_) => bad("a decimal number"),
                })
            };
            let moment = || match field.unit {
                ISO => stamp_ns(cell).ok_or_else(|| bad("a date and a time, 2026-01-31T23:59:59.5Z")),
                FILETIME => filetime_ns(cell).ok_or_else(|| bad("a whole number of 100 ns since 1601")),
                _ => scaled(),
            };
            match field.key {
                "start" => start = Some(moment()?),
                "end" => end = Some(moment()?),
                "latency" => latency = Some(scaled()?),
                "offset" => row.offset_bytes = Some(scaled()?),
                "size" => row.size_bytes = Some(scaled()?),
                "op" => row.op = kind(cell),
                "device" => row.device = Some(sink.name(cell)),
                "file" => row.file = Some(sink.name(cell)),
                "comm" => row.comm = Some(sink.name(cell)),
                "host" => row.host = Some(sink.name(cell)),
                _ => row.pid = Some(integer(cell, "pid")?),
            }
        }
        let latency_ns = latency.or_else(|| Some(end?.saturating_sub(start?)));
        let (Some(latency_ns), Some(start_ns)) = (
            latency_ns,
            start.or_else(|| Some(end?.saturating_sub(latency_ns?))),
        ) else {
            self.missing += 1;
            sink.record_without_row();
            return Ok(());
        };
        if latency_ns < 0 {
            let found = latency_ns.to_string();
            return Err(Bad::new("latency", "a length of time, not negative", &found).into());
        }
        self.tell(start_ns, sink);
        if row.device.is_none() {
            row.device = self.device.as_deref().map(|device| sink.name(device));
        }
        (row.start_ns, row.latency_ns) = (start_ns, latency_ns);
        row.stages[self.stage as usize] = Some(latency_ns);
        sink.op(self.layer, row)?;
        Ok(())
    }

    /// What the line says that `text` begins with and that ends at `end`, if it has no quotes, no blanks around fields, and nothing that is
    /// missing or wrong. None: it is better looked at field by field.
    #[inline]
    fn plain_row(
        text: &[u8],
        end: usize,
        columns: &Columns,
        recent: &mut [Recent; WORDS.len()],
        sink: &mut Sink,
    ) -> Option<Plain> {
        let delimiter = u8::try_from(columns.delimiter).ok()?;
        let mut row = Plain::default();
        let mut at = 0;
        for (number, column) in columns.plain.iter().enumerate() {
            if number > 0 {
                if at >= end || text[at] != delimiter {
                    return None;
                }
                at += 1;
            }
            match *column {
                Column::Number(place, unit) => {
                    let (value, length) = leading_scaled(text.get(at..)?, unit)?;
                    row.numbers[place] = value;
                    at += length;
                }
                Column::Word(place) => {
                    let Some(short) = Short::new(&text[at..], end - at, delimiter) else {
                        let cell = cell(&text[at..end], delimiter);
                        row.words[place] = word(place, cell, sink)?;
                        at += cell.len();
                        continue;
                    };
                    let (seen, is) = &mut recent[place][short.place()];
                    if *seen != short {
                        *is = word(place, &text[at..at + short.length], sink)?;
                        *seen = short;
                    }
                    row.words[place] = *is;
                    at += short.length;
                }
                Column::Other => {
                    let cell = cell(&text[at..end], delimiter);
                    if cell.contains(&b'"') {
                        return None;
                    }
                    at += cell.len();
                }
            }
        }
        // Quotes after the last column that is wanted do not matter; more of that column does.
        if at < end && (text[at] != delimiter || columns.plain.len() == columns.names) {
            return None;
        }
        let [start_ns, end_ns, latency_ns, ..] = &mut row.numbers;
        if !columns.has_latency {
            *latency_ns = end_ns.checked_sub(*start_ns).filter(|ns| *ns >= 0)?;
        }
        if !columns.has_start {
            *start_ns = *end_ns - *latency_ns;
        }
        Some(row)
    }

    /// Before the first row: its clock and its layer.
    fn tell(&mut self, start_ns: i64, sink: &mut Sink) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let moments = self.fields.iter().filter(|f| matches!(f.key, "start" | "end"));
        let mut step = moments.map(|f| f.unit.max(1)).min().unwrap_or(1);
        // A moment may have decimals. Of one that is nought nothing tells it.
        while step > 1 && (start_ns % step != 0 || start_ns == 0 && step > 1000) {
            step /= 10;
        }
        sink.clock(if start_ns >= UNIX_NS_MIN {
            Clock::unix(step)
        } else {
            Clock::own("the table's own zero", step)
        });
        sink.layer(self.layer, &[(self.stage, self.stage_name)]);
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader::new(source)?;
    if is_parquet(source.path())? {
        let columns: Vec<(String, bool)> = reader
            .fields
            .iter()
            .map(|field| {
                let is_ns = matches!(field.key, "start" | "end") && field.unit == 1;
                (field.column.clone(), is_ns)
            })
            .collect();
        for_each_row(source.path(), &columns, sink, |cells, sink| {
            reader.row(cells.map(String::as_str), sink)
        })?;
    } else {
        read_text(source, &mut reader, sink)?;
    }
    if reader.missing > 0 {
        sink.missing(
            format!(
                "slow ones among {} without a moment or a latency",
                counted(reader.missing, "operation")
            ),
            "the columns are empty there",
        );
    }
    Ok(())
}

fn read_text(source: &Source, reader: &mut Reader, sink: &mut Sink) -> Result<(), ImportError> {
    let columns = None;
    let few = FewColumns::default();
    read_lines(
        source,
        sink,
        &mut TextReader {
            source,
            reader,
            columns,
            recent: Default::default(),
            few,
        },
    )
}

/// Where the fields of a text are.
struct Columns {
    delimiter: char,
    /// How many columns the first line has.
    names: usize,
    /// Of each field of the mapping.
    places: Vec<usize>,
    /// Up to the last that is wanted.
    plain: Vec<Column>,
    /// No column is for two fields, and no field in two columns.
    is_plain: bool,
    keys: BTreeSet<&'static str>,
    has_latency: bool,
    has_start: bool,
}

impl Columns {
    fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }
}

struct TextReader<'a> {
    source: &'a Source,
    reader: &'a mut Reader,
    columns: Option<Columns>,
    recent: [Recent; WORDS.len()],
    few: FewColumns,
}

impl ReadLines for TextReader<'_> {
    fn may_lack_its_end(&self) -> bool {
        true
    }

    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError> {
        if line.text.trim().is_empty() {
            return Ok(());
        }
        let Some(Columns {
            delimiter,
            places,
            names,
            ..
        }) = &self.columns
        else {
            let columns = header(line.text, &self.reader.fields, self.source)?;
            self.reader.has_commas = columns.delimiter == ',';
            self.columns = Some(columns);
            return match self
                .reader
                .fields
                .iter()
                .all(|field| number_of(&field.column).is_some())
            {
                true => self.line(line, sink),
                false => Ok(()),
            };
        };
        let cells = cells(line.text, *delimiter);
        if cells.iter().skip(*names).any(|cell| !cell.is_empty()) {
            let expected = format!(
                "{names} columns as in the header (a cell that holds the mark between columns stands in quotes)"
            );
            return Err(Bad::new("", expected, line.text).into());
        }
        let absent = places.iter().position(|at| *at >= cells.len());
        if let Some(field) = absent.and_then(|at| self.reader.fields.get(at)) {
            let expected = format!("a column '{}' as in the header", field.column);
            return Err(Bad::new("", expected, line.text).into());
        }
        self.reader.row(places.iter().map(|at| cells[*at].as_str()), sink)
    }

    fn plain_lines(&mut self, text: &[u8], sink: &mut Sink) -> Result<(u64, usize), ImportError> {
        let Some(columns) = &self.columns else {
            return Ok((0, 0));
        };
        if !self.reader.is_told || !columns.is_plain {
            return Ok((0, 0));
        }
        let layer = self.reader.layer;
        let mut same = one_stage_op(0, 0, Op::Other, self.reader.stage);
        same.device = self.reader.device.as_deref().map(|device| sink.name(device));
        let has_number = NUMBERS.map(|key| columns.has(key));
        let has_word = WORDS.map(|key| columns.has(key));
        // What operations have that are handed on together, apart from kind and device.
        let has_others = has_word[FILE] || has_word[COMM] || has_word[HOST] || has_word[PID];
        let mut others = None;
        let few = &mut self.few;
        let (mut lines, mut used) = (0, 0);
        while let Some(length) = find(&text[used..], b'\n') {
            let line = &text[used..];
            let end = length - usize::from(length > 0 && line[length - 1] == b'\r');
            let Some(row) = Reader::plain_row(line, end, columns, &mut self.recent, sink) else {
                break;
            };
            lines += 1;
            used += length + 1;
            if few.is_full() {
                sink.ops(layer, &same, few)?;
            }
            if has_others && others != Some(row.others()) {
                sink.ops(layer, &same, few)?;
                others = Some(row.others());
                let name = |word: usize| has_word[word].then_some(row.words[word]);
                (same.file, same.comm, same.host) = (name(FILE), name(COMM), name(HOST));
                same.pid = has_word[PID].then_some(row.words[PID] as i32);
            }
            few.start_ns.push(row.numbers[START]);
            few.latency_ns.push(row.numbers[LATENCY]);
            few.op.push(if has_word[OP] {
                Op::ALL[row.words[OP] as usize]
            } else {
                Op::Other
            });
            few.size_bytes
                .extend(has_number[SIZE].then_some(row.numbers[SIZE]));
            few.offset_bytes
                .extend(has_number[OFFSET].then_some(row.numbers[OFFSET]));
            few.device.extend(has_word[DEVICE].then_some(row.words[DEVICE]));
        }
        sink.ops(layer, &same, &mut self.few)?;
        Ok((lines, used))
    }
}

/// The place of a column that is counted: `#1` is the first.
fn number_of(column: &str) -> Option<usize> {
    column.strip_prefix('#')?.parse::<usize>().ok()?.checked_sub(1)
}

fn filetime_ns(text: &str) -> Option<i64> {
    text.parse::<i64>()
        .ok()?
        .checked_sub(FILETIME_1970)?
        .checked_mul(100)
}

fn header(line: &str, fields: &[Field], source: &Source) -> Result<Columns, ImportError> {
    let delimiter = [',', ';', '\t', '|']
        .into_iter()
        .max_by_key(|d| line.matches(*d).count())
        .unwrap_or(',');
    let names = cells(line.trim_start_matches('\u{feff}'), delimiter);
    let place = |field: &Field| {
        names
            .iter()
            .position(|name| *name == field.column)
            .or_else(|| number_of(&field.column).filter(|at| *at < names.len()))
            .ok_or_else(|| {
                let hint = "name the columns in --map as the header does, or count them where there is none: start=#1:us";
                let (expected, found) = (format!("a column '{}'", field.column), names.join(", "));
                ImportError::content(source.path(), "line 1", expected, found, hint)
            })
    };
    let places = fields.iter().map(place).collect::<Result<Vec<usize>, _>>()?;
    let last = places.iter().max().copied().unwrap_or(0);
    let columns: BTreeSet<usize> = places.iter().copied().collect();
    let keys: BTreeSet<&str> = fields.iter().map(|f| f.key).collect();
    let plain = |column: usize| {
        let field = places.iter().position(|at| *at == column).map(|at| &fields[at]);
        let place = |keys: &[&str]| {
            keys.iter()
                .position(|key| field.is_some_and(|field| field.key == *key))
        };
        match (place(&NUMBERS), place(&WORDS), field) {
            (Some(place), _, Some(field)) => Column::Number(place, field.unit),
            (_, Some(place), _) => Column::Word(place),
            _ => Column::Other,
        }
    };
    Ok(Columns {
        delimiter,
        names: names.len(),
        is_plain: columns.len() == fields.len()
            && keys.len() == fields.len()
            && fields.iter().all(|field| field.unit > 0),
        plain: (0..=last).map(plain).collect(),
        has_latency: keys.contains("latency"),
        has_start: keys.contains("start"),
        keys,
        places,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_file_without_a_header_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        std::fs::write(&path, "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,2822144,12288,14000\n").unwrap();
        let read = |map: &str| {
            let source = Source {
                files: vec![path.clone()],
                map: Some(map.into()),
                device: None,
            };
            let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
            let mut sink = Sink::survey(&mut names, &mut silent, false);
            super::read(&source, &mut sink).map_err(|error| error.to_string())?;
            let seen = sink.surveyed().ops;
            Ok::<_, String>(
                seen.iter()
                    .map(|op| (op.start_ns, op.latency_ns, op.op, op.offset_bytes))
                    .collect::<Vec<_>>(),
            )
        };
        let map = "layer=block,start=#1:filetime,latency=#7:100ns,op=#4,offset=#5:B,size=#6:B,device=#3";
        assert_eq!(
            read(map).unwrap(),
            [
                (1_172_163_600_306_162_900, 41_300, Op::Read, Some(383_496_192)),
                (1_172_163_601_638_215_500, 1_400_000, Op::Write, Some(2_822_144)),
            ]
        );
        assert!(read("start=#1:s,latency=#7:us")
            .unwrap_err()
            .contains("146 years"));
        assert!(read("start=#9:filetime,latency=#7:us")
            .unwrap_err()
            .contains("start=#1:us"));
        assert!(read("start=#2:filetime,latency=#7:us")
            .unwrap_err()
            .contains("since 1601"));
    }

    #[test]
    fn moments_may_be_dates_and_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        let read_with = |map: &str, text: &str| {
            std::fs::write(&path, text).unwrap();
            let source = Source {
                files: vec![path.clone()],
                map: Some(map.into()),
                device: None,
            };
            let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
            let mut sink = Sink::survey(&mut names, &mut silent, false);
            read(&source, &mut sink).map_err(|e| e.to_string())?;
            Ok::<_, String>(crate::testing::moments(sink))
        };
        let begin_ns = 1_603_180_805_000_000_000;
        let rows = "Time;Latency\n2020-10-20 08:00:05;1,5\n2020-10-20T10:00:06.25+02:00;2,5\n2020-10-20 08:00:07,5;3\n";
        let expected = [
            (begin_ns, 1_500_000),
            (begin_ns + 1_250_000_000, 2_500_000),
            (begin_ns + 2_500_000_000, 3_000_000),
        ];
        assert_eq!(
            read_with("start=Time:iso,latency=Latency:ms", rows).unwrap(),
            expected
        );
        let ends = "a,b\n2020-10-20 08:00:05,2020-10-20 08:00:05.002\n";
        assert_eq!(
            read_with("start=a:iso,end=b:iso", ends).unwrap(),
            [(begin_ns, 2_000_000)]
        );
        let error =
            read_with("start=Time:iso,latency=Latency:ms", "Time;Latency\nyesterday;1\n").unwrap_err();
        assert!(
            error.contains("line 2") && error.contains("column Time") && error.contains("a date and a time")
        );
        let error = read_with("start=Time:s,latency=Latency:iso", rows).unwrap_err();
        assert!(
            error.contains("latency: expected a unit out of ns, 100ns, us, ms, s, found 'iso'"),
            "{error}"
        );
    }

    #[test]
    fn a_comma_that_is_no_decimal_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let source = Source {
                files: vec![path.clone()],
                map: Some("start=ts:s,latency=lat:us,op=op".into()),
                device: None,
            };
            let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
            let mut sink = Sink::survey(&mut names, &mut silent, false);
            read(&source, &mut sink).map_err(|e| e.to_string())?;
            Ok::<_, String>(crate::testing::moments(sink))
        };
        let second = 1_795_517_681_000_000_000;
        // Between other marks, or with other than three digits, it is one.
        for (text, latency_ns) in [
            ("ts,lat,op\n1795517681,\"1,5\",R\n", 1_500),
            ("ts,lat,op\n1795517681,\"0,123\",R\n", 123),
            ("ts;lat;op\n1795517681;1,234;R\n", 1_234),
            ("ts,lat,op\n1795517681,7,R,,\n", 7_000),
        ] {
            assert_eq!(read(text).unwrap(), [(second, latency_ns)], "{text}");
        }
        let error = read("ts,lat,op\n1795517681,\"1,234\",R\n").unwrap_err();
        assert!(
            error.contains("line 2") && error.contains("column lat") && error.contains("thousands"),
            "{error}"
        );
        // What is more than the header has moved the columns behind it.
        for rows in ["1795517681,1,5,R\n", "1795517681,2,R\n1795517681,1,5,R\n"] {
            let error = read(&format!("ts,lat,op\n{rows}")).unwrap_err();
            assert!(error.contains("3 columns as in the header"), "{error}");
        }
    }
}
