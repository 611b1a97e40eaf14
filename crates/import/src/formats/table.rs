//! Operations from any CSV or Parquet file, by a mapping of its columns: `--map 'start=ts:us,latency=lat:us,op=type,offset=lba:sectors,size=len:B,device=disk'`.
//!
//! `start` or `end` gives the moment, `latency` how long. `layer=block` (or app, syscall, device) is no column but the layer; without it `app`.
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, never, Format, Source};
use crate::lines::find;
use crate::records::{read_lines, Line, ReadLines};
use crate::series::{for_each_row, is_parquet};
use crate::sink::{one_stage_op, Sink};
use crate::text::{integer, leading_scaled, scaled};
use crate::ImportError;
use case::schema::{Layer, NameId, Op, OpRow, Stage};
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

/// Nanoseconds or bytes of a unit.
fn unit(text: &str, is_time: bool) -> Option<i64> {
    Some(match (text, is_time) {
        ("ns", true) | ("B" | "", false) => 1,
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
    /// Of time or bytes.
    is_number: bool,
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
        let unit = match is_time || is_bytes {
            true => unit(unit_name, is_time).ok_or_else(|| {
                let units = if is_time {
                    "ns, us, ms, s"
                } else {
                    "B, kB, KiB, MiB, sectors, blocks4k"
                };
                wrong(format!(
                    "{key}: expected a unit out of {units}, found '{unit_name}'"
                ))
            })?,
            false => 1,
        };
        fields.push(Field {
            key,
            is_number: is_time || is_bytes,
            column: column.to_owned(),
            unit,
        });
    }
    let has = |key: &str| fields.iter().any(|field| field.key == key);
    let has_moment = has("start") || has("end");
    let has_length = has("latency") || has("start") && has("end");
    if !has_moment || !has_length {
        return Err(wrong(
            "expected start or end, and latency (or both start and end), found not".into(),
        ));
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

/// What a plain line says.
#[derive(Clone, Copy)]
struct Plain {
    start_ns: i64,
    latency_ns: i64,
    op: Op,
    offset_bytes: Option<i64>,
    size_bytes: Option<i64>,
    host: Option<NameId>,
    device: Option<NameId>,
    file: Option<NameId>,
    comm: Option<NameId>,
    pid: Option<i32>,
}

impl Default for Plain {
    fn default() -> Plain {
        Plain {
            start_ns: 0,
            latency_ns: 0,
            op: Op::Other,
            offset_bytes: None,
            size_bytes: None,
            host: None,
            device: None,
            file: None,
            comm: None,
            pid: None,
        }
    }
}

impl Plain {
    /// What operations have that are handed on together.
    fn names(&self) -> ([Option<NameId>; 3], Option<i32>) {
        ([self.host, self.file, self.comm], self.pid)
    }

    fn others(&self, stage: Stage) -> OpRow {
        let mut row = one_stage_op(0, 0, Op::Other, stage);
        (row.host, row.device, row.file, row.comm, row.pid) =
            (self.host, self.device, self.file, self.comm, self.pid);
        row
    }
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
            let scaled = || {
                scaled(cell, field.unit)
                    .ok_or_else(|| Bad::new(format!("column {}", field.column), "a decimal number", cell))
            };
            match field.key {
                "start" => start = Some(scaled()?),
                "end" => end = Some(scaled()?),
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

    /// The row of a line without quotes, blanks around fields, and anything that is missing or wrong. None: it is better looked at field by field.
    #[inline]
    fn plain_row(&self, line: &[u8], columns: &Columns, mut row: Plain, sink: &mut Sink) -> Option<Plain> {
        let delimiter = u8::try_from(columns.delimiter).ok()?;
        let (mut start, mut end, mut latency) = (None, None, None);
        let mut rest = line;
        for (column, field) in columns.fields.iter().enumerate() {
            if column > 0 {
                rest = rest.strip_prefix(&[delimiter])?;
            }
            let field = field.map(|field| &self.fields[field]);
            let length = match field.filter(|field| field.is_number) {
                Some(field) => {
                    let (value, length) = leading_scaled(rest, field.unit)?;
                    match field.key {
                        "start" => start = Some(value),
                        "end" => end = Some(value),
                        "latency" => latency = Some(value),
                        "offset" => row.offset_bytes = Some(value),
                        _ => row.size_bytes = Some(value),
                    }
                    length
                }
                None => {
                    let length = rest
                        .iter()
                        .position(|byte| *byte == delimiter)
                        .unwrap_or(rest.len());
                    let cell = &rest[..length];
                    if cell.contains(&b'"') {
                        return None;
                    }
                    if let Some(field) = field {
                        let (first, last) = (cell.first()?, cell.last()?);
                        let is_bare = first.is_ascii_graphic() && last.is_ascii_graphic();
                        let cell = std::str::from_utf8(cell).ok()?;
                        if !is_bare || matches!(first, b'N' | b'n' | b'-') && is_missing(cell) {
                            return None;
                        }
                        match field.key {
                            "op" => row.op = kind(cell),
                            "device" => row.device = Some(sink.name(cell)),
                            "file" => row.file = Some(sink.name(cell)),
                            "comm" => row.comm = Some(sink.name(cell)),
                            "host" => row.host = Some(sink.name(cell)),
                            _ => row.pid = Some(cell.parse().ok()?),
                        }
                    }
                    length
                }
            };
            rest = &rest[length..];
        }
        // Quotes after the last column that is wanted do not matter; more of that column does.
        if !rest.is_empty() && rest[0] != delimiter {
            return None;
        }
        row.latency_ns = match (latency, start, end) {
            (Some(latency), ..) => latency,
            (None, Some(start), Some(end)) => end.checked_sub(start).filter(|latency| *latency >= 0)?,
            _ => return None,
        };
        row.start_ns = start.or(end.map(|end| end - row.latency_ns))?;
        Some(row)
    }

    /// Before the first row: its clock and its layer.
    fn tell(&mut self, start_ns: i64, sink: &mut Sink) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let moments = self.fields.iter().filter(|f| matches!(f.key, "start" | "end"));
        let step = moments.map(|f| f.unit).min().unwrap_or(1);
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
        sink.unseen(
            format!("{} operations without a moment or a latency", reader.missing),
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
            few,
        },
    )
}

/// Where the fields of a text are.
struct Columns {
    delimiter: char,
    /// Of each field of the mapping.
    places: Vec<usize>,
    /// The field of each column up to the last that is wanted.
    fields: Vec<Option<usize>>,
    /// No column is for two fields, and no field in two columns.
    is_plain: bool,
}

struct TextReader<'a> {
    source: &'a Source,
    reader: &'a mut Reader,
    columns: Option<Columns>,
    few: FewColumns,
}

impl ReadLines for TextReader<'_> {
    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError> {
        if line.text.trim().is_empty() {
            return Ok(());
        }
        let Some(Columns {
            delimiter, places, ..
        }) = &self.columns
        else {
            self.columns = Some(header(line.text, &self.reader.fields, self.source)?);
            return Ok(());
        };
        let cells = cells(line.text, *delimiter);
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
        if !self.reader.is_told || !columns.is_plain || sink.is_survey() {
            return Ok((0, 0));
        }
        let (layer, stage) = (self.reader.layer, self.reader.stage);
        let mut said = Plain {
            device: self.reader.device.as_deref().map(|device| sink.name(device)),
            ..Plain::default()
        };
        let mut same = said.others(stage);
        let (mut lines, mut used) = (0, 0);
        while let Some(length) = find(&text[used..], b'\n') {
            let line = &text[used..used + length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(row) = self.reader.plain_row(line, columns, said, sink) else {
                break;
            };
            lines += 1;
            used += length + 1;
            let few = &mut self.few;
            if few.is_full() {
                sink.ops(layer, &same, few)?;
            }
            if row.names() != said.names() {
                sink.ops(layer, &same, few)?;
                said = row;
                same = said.others(stage);
            }
            few.start_ns.push(row.start_ns);
            few.latency_ns.push(row.latency_ns);
            few.op.push(row.op);
            few.size_bytes.extend(row.size_bytes);
            few.offset_bytes.extend(row.offset_bytes);
            few.device.extend(row.device);
        }
        sink.ops(layer, &same, &mut self.few)?;
        Ok((lines, used))
    }
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
            .ok_or_else(|| {
                let hint = "name the columns in --map as the header does";
                let (expected, found) = (format!("a column '{}'", field.column), names.join(", "));
                ImportError::content(source.path(), "line 1", expected, found, hint)
            })
    };
    let places = fields.iter().map(place).collect::<Result<Vec<usize>, _>>()?;
    let last = places.iter().max().copied().unwrap_or(0);
    let columns: BTreeSet<usize> = places.iter().copied().collect();
    let keys: BTreeSet<&str> = fields.iter().map(|f| f.key).collect();
    Ok(Columns {
        delimiter,
        is_plain: columns.len() == fields.len() && keys.len() == fields.len(),
        fields: (0..=last)
            .map(|column| places.iter().position(|at| *at == column))
            .collect(),
        places,
    })
}
