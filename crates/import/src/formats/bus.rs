//! CSV of a bus analyzer that watched an NVMe drive, by a mapping of its columns and of the queue's addresses; transactions are paired into command latencies.
//!
//! `--map 'time=Time:ns,address=Address,payload=Data,submit=0x1008,complete=0x7f3000-0x7f3fff,fetch=0x7e0000-0x7e0fff,block=512'`: a write of the
//! submission doorbell announces commands (its payload is the new tail), an entry written to the completion queue ends one. Where the fetched entries are
//! in the log, they say the command's number, kind and place; without them a command can be paired while it is the only one in flight, else not. Payloads
//! are hexadecimal bytes in the order of the bus. Source: NVM Express base specification, queue entries.
use super::table::cells;
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, never, Format, Source};
use crate::records::each_line;
use crate::sink::{one_stage_op, Sink};
use crate::text::{counted, time};
use crate::ImportError;
use case::schema::{Layer, Op, Stage};
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "bus",
    about: "a bus analyzer's CSV of an NVMe queue, with --map 'time=COLUMN:ns,address=COLUMN,payload=COLUMN,submit=ADDRESS,complete=FROM-TO,fetch=FROM-TO,block=512'",
    not_carried: &[
        (
            "what the host did before the doorbell and after the completion entry",
            "the analyzer sees the bus",
        ),
        (
            "other queues than the one with the addresses that are given",
            "import each queue by itself",
        ),
    ],
    recognise: never,
    together: alone,
    read,
};

const EXAMPLE: &str =
    "'time=Time:ns,address=Address,payload=Data,submit=0x1008,complete=0x7f3000-0x7f3fff,fetch=0x7e0000-0x7e0fff,block=512'";
/// Entries of a submission queue, at most (the specification's limit).
const QUEUE_MAX: u64 = 1 << 16;
const FETCH_BYTES: usize = 64;
const COMPLETION_BYTES: usize = 16;

struct Mapping {
    time: (String, i64),
    address: String,
    payload: String,
    submit: u64,
    complete: RangeInclusive<u64>,
    fetch: Option<RangeInclusive<u64>>,
    block_bytes: Option<i64>,
    depth: Option<u64>,
}

fn hex(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    let digits: String = digits.chars().filter(|c| !matches!(c, '_' | ':' | ' ')).collect();
    u64::from_str_radix(&digits, 16).ok()
}

fn mapping(source: &Source) -> Result<Mapping, ImportError> {
    let wrong = |text: String| ImportError::Use(format!("--map: {text}; e.g. {EXAMPLE}"));
    let map = source
        .map
        .as_deref()
        .ok_or_else(|| wrong("expected columns and addresses, found none".into()))?;
    let mut said: HashMap<&str, &str> = HashMap::new();
    for part in map.split(',') {
        let (key, value) = part
            .trim()
            .split_once('=')
            .ok_or_else(|| wrong(format!("expected KEY=VALUE, found '{part}'")))?;
        let keys = [
            "time", "address", "payload", "submit", "complete", "fetch", "block", "depth",
        ];
        if !keys.contains(&key) {
            return Err(wrong(format!(
                "expected a key out of {}, found '{key}'",
                keys.join(", ")
            )));
        }
        said.insert(key, value);
    }
    let needed = |key: &str| {
        said.get(key)
            .copied()
            .ok_or_else(|| wrong(format!("expected {key}=, found none")))
    };
    let range = |key: &str| -> Result<RangeInclusive<u64>, ImportError> {
        let text = needed(key)?;
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        match (hex(low), hex(high)) {
            (Some(low), Some(high)) if low <= high => Ok(low..=high),
            _ => Err(wrong(format!(
                "{key}: expected FROM-TO in hexadecimal, found '{text}'"
            ))),
        }
    };
    let whole = |key: &str| -> Result<Option<i64>, ImportError> {
        said.get(key)
            .map(|text| {
                let number = text.parse().ok().filter(|number| (1..=1 << 20).contains(number));
                number.ok_or_else(|| wrong(format!("{key}: expected a whole number, found '{text}'")))
            })
            .transpose()
    };
    let (column, unit) = needed("time")?.rsplit_once(':').unwrap_or((needed("time")?, ""));
    let unit_ns = match unit {
        "ns" => 1,
        "us" => 1000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => {
            return Err(wrong(format!(
                "time: expected a unit out of ns, us, ms, s, found '{unit}'"
            )))
        }
    };
    Ok(Mapping {
        time: (column.to_owned(), unit_ns),
        address: needed("address")?.to_owned(),
        payload: needed("payload")?.to_owned(),
        submit: *range("submit")?.start(),
        complete: range("complete")?,
        fetch: if said.contains_key("fetch") {
            Some(range("fetch")?)
        } else {
            None
        },
        block_bytes: whole("block")?,
        depth: whole("depth")?.map(|depth| depth as u64),
    })
}

/// Bytes of a payload: hexadecimal, with or without spaces.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let text = text.trim().trim_start_matches("0x");
    let digits: Vec<u8> = text
        .bytes()
        .filter(|b| !matches!(b, b' ' | b'_' | b':'))
        .collect();
    let digit = |byte: u8| (byte as char).to_digit(16).map(|value| value as u8);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |four| u32::from_le_bytes(four.try_into().expect("four bytes")))
}

/// A command in flight.
struct Command {
    submit_ns: i64,
    op: Op,
    offset_bytes: Option<i64>,
    size_bytes: Option<i64>,
}

#[derive(Default)]
struct Queue {
    tail: Option<u64>,
    /// Moments of commands that were announced and not fetched (or, without fetches, not completed).
    announced: VecDeque<i64>,
    by_number: HashMap<u16, Command>,
    ambiguous: u64,
    unmatched: u64,
    is_told: bool,
}

impl Queue {
    fn submit(&mut self, time_ns: i64, payload: &[u8], map: &Mapping) -> Result<(), Bad> {
        if payload.len() < 2 {
            return Err(Bad::new(
                "column payload",
                "the new tail, two bytes or more",
                &format!("{payload:02x?}"),
            ));
        }
        let tail = u64::from(u16::from_le_bytes([payload[0], payload[1]]));
        // The first doorbell tells where the queue is, and that one command at least was announced.
        let many = match (self.tail, map.depth) {
            (None, _) => 1,
            (Some(before), _) if tail > before => tail - before,
            (Some(before), Some(depth)) if tail < before => {
                (depth.min(QUEUE_MAX) + tail).saturating_sub(before)
            }
            // The queue began anew, and how long it is was not said: what is certain is one.
            (Some(_), _) => 1,
        };
        self.tail = Some(tail);
        for _ in 0..many {
            self.announced.push_back(time_ns);
        }
        // Commands that are never completed do not pile up.
        while self.announced.len() as u64 > QUEUE_MAX {
            self.announced.pop_front();
            self.unmatched += 1;
        }
        Ok(())
    }

    fn fetch(&mut self, payload: &[u8], map: &Mapping) {
        for entry in payload.chunks_exact(FETCH_BYTES) {
            let Some(submit_ns) = self.announced.pop_front() else {
                self.unmatched += 1;
                continue;
            };
            let first = u32_at(entry, 0);
            let (opcode, number) = (first & 0xff, (first >> 16) as u16);
            let op = match opcode {
                0 => Op::Flush,
                1 => Op::Write,
                2 => Op::Read,
                8 | 9 => Op::Discard,
                _ => Op::Other,
            };
            let has_place = matches!(op, Op::Read | Op::Write);
            let block = map.block_bytes.filter(|_| has_place);
            let lba = i64::from(u32_at(entry, 40)) | i64::from(u32_at(entry, 44) & 0x7fff_ffff) << 32;
            let blocks = i64::from(u32_at(entry, 48) & 0xffff) + 1;
            let command = Command {
                submit_ns,
                op,
                offset_bytes: block.and_then(|block| lba.checked_mul(block)),
                size_bytes: block.map(|block| blocks * block),
            };
            self.by_number.insert(number, command);
        }
    }

    fn complete(
        &mut self,
        time_ns: i64,
        payload: &[u8],
        has_fetches: bool,
        device: Option<&str>,
        sink: &mut Sink,
    ) -> Result<(), RecordError> {
        for entry in payload.chunks_exact(COMPLETION_BYTES) {
            let last = u32_at(entry, 12);
            let command = if has_fetches {
                self.by_number.remove(&(last as u16))
            } else if self.announced.len() == 1 {
                self.announced.pop_front().map(|submit_ns| Command {
                    submit_ns,
                    op: Op::Other,
                    offset_bytes: None,
                    size_bytes: None,
                })
            } else {
                self.ambiguous += u64::from(!self.announced.is_empty());
                self.announced.pop_front();
                None
            };
            let Some(command) = command else {
                self.unmatched += u64::from(has_fetches);
                sink.record_without_row();
                continue;
            };
            if !std::mem::replace(&mut self.is_told, true) {
                sink.layer(Layer::Device, &[(Stage::Device, "device")]);
            }
            let latency_ns = (time_ns - command.submit_ns).max(0);
            let mut row = one_stage_op(command.submit_ns, latency_ns, command.op, Stage::Device);
            (row.offset_bytes, row.size_bytes) = (command.offset_bytes, command.size_bytes);
            row.device = device.map(|device| sink.name(device));
            // Status without the phase bit.
            row.error = ((last >> 17) & 0x7ff) as i32;
            sink.op(Layer::Device, row)?;
        }
        Ok(())
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let map = mapping(source)?;
    sink.clock(Clock::own("the analyzer's own zero", map.time.1));
    let mut places: Option<(char, [usize; 3])> = None;
    let mut queue = Queue::default();
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        let Some((delimiter, [time_at, address_at, payload_at])) = places else {
            // Analyzers print a few lines of their own before the header.
            places = header(text, &map);
            return Ok(());
        };
        if text.is_empty() {
            return Ok(());
        }
        let cells = cells(text, delimiter);
        let needed = time_at.max(address_at).max(payload_at) + 1;
        // What carries no data may leave the last columns away.
        if cells.len() < needed
            && time(cells.get(time_at).map_or("", String::as_str), map.time.1, "time").is_err()
        {
            return Err(Bad::new("", format!("{needed} columns, as the header says"), text).into());
        }
        let of = |at: usize| cells.get(at).map_or("", String::as_str);
        let payload = of(payload_at);
        let Some(address) = hex(of(address_at)).filter(|_| !payload.is_empty()) else {
            sink.record_without_row();
            return Ok(());
        };
        let is_fetch = map.fetch.as_ref().is_some_and(|range| range.contains(&address));
        if address != map.submit && !map.complete.contains(&address) && !is_fetch {
            sink.record_without_row();
            return Ok(());
        }
        let payload =
            bytes(payload).ok_or_else(|| Bad::new("column payload", "hexadecimal bytes", payload))?;
        let time_ns = time(of(time_at), map.time.1, "time")?;
        if address == map.submit {
            queue.submit(time_ns, &payload, &map)?;
            sink.record_without_row();
        } else if is_fetch {
            queue.fetch(&payload, &map);
            sink.record_without_row();
        } else {
            queue.complete(
                time_ns,
                &payload,
                map.fetch.is_some(),
                source.device.as_deref(),
                sink,
            )?;
        }
        Ok(())
    })?;
    if places.is_none() {
        let expected = format!(
            "a header with {}, {} and {}",
            map.time.0, map.address, map.payload
        );
        return Err(ImportError::content(
            source.path(),
            "header",
            expected,
            "none",
            "name the columns in --map",
        ));
    }
    if queue.ambiguous > 0 {
        sink.missing(
            format!("which command {} ended", counted(queue.ambiguous, "completion")),
            "several were in flight, and the fetched entries are not in the log: give fetch=FROM-TO",
        );
    }
    if queue.unmatched > 0 {
        sink.missing(
            format!(
                "slow ones among {} of which a part is not in the log",
                counted(queue.unmatched, "command")
            ),
            "they were begun before it, or the analyzer missed a transaction",
        );
    }
    Ok(())
}

fn header(text: &str, map: &Mapping) -> Option<(char, [usize; 3])> {
    let delimiter = [',', ';', '\t', '|']
        .into_iter()
        .max_by_key(|d| text.matches(*d).count())?;
    let names = cells(text.trim_start_matches('\u{feff}'), delimiter);
    let place = |wanted: &str| names.iter().position(|name| name == wanted);
    Some((
        delimiter,
        [place(&map.time.0)?, place(&map.address)?, place(&map.payload)?],
    ))
}
