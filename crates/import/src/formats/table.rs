//! Operations from any CSV or Parquet file, by a mapping of its columns: `--map 'start=ts:us,latency=lat:us,op=type,offset=lba:sectors,size=len:B,device=disk'`.
//!
//! `start` or `end` gives the moment, `latency` how long. `layer=block` (or app, syscall, device) is no column but the layer; without it `app`.
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, never, Format, Source};
use crate::records::each_line;
use crate::series::{for_each_row, is_parquet};
use crate::sink::{one_stage_op, Sink};
use crate::text::{integer, scaled};
use crate::ImportError;
use case::schema::{Layer, Op, Stage};

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

fn kind(text: &str) -> Op {
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
            if matches!(cell, "" | "NULL" | "NA" | "N/A" | "NaN" | "nan" | "-") {
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
    let mut places: Option<(char, Vec<usize>)> = None;
    each_line(source, sink, |line, sink| {
        if line.text.trim().is_empty() {
            return Ok(());
        }
        let Some((delimiter, places)) = &places else {
            places = Some(header(line.text, &reader.fields, source)?);
            return Ok(());
        };
        let cells = cells(line.text, *delimiter);
        let absent = places.iter().position(|at| *at >= cells.len());
        if let Some(field) = absent.and_then(|at| reader.fields.get(at)) {
            let expected = format!("a column '{}' as in the header", field.column);
            return Err(Bad::new("", expected, line.text).into());
        }
        reader.row(places.iter().map(|at| cells[*at].as_str()), sink)
    })
}

fn header(line: &str, fields: &[Field], source: &Source) -> Result<(char, Vec<usize>), ImportError> {
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
    Ok((delimiter, fields.iter().map(place).collect::<Result<_, _>>()?))
}
