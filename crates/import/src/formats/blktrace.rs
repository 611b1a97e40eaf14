//! Binary traces of blktrace: one file per device and CPU, or one stream (`-o -`). Versions 7 (48 bytes a record) and 8 (64).
//!
//! Source: linux/blktrace_api.h. Numbers are in the byte order of the machine that recorded; what follows a remap or a split is big endian.
use super::block_requests::{Event, Requests, What, NOT_TRACED};
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{Format, Head, Source};
use crate::input::{open, Input};
use crate::records::bad_record;
use crate::sink::Sink;
use crate::ImportError;
use case::schema::{flags, NameId, Op};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "blktrace",
    about: "binary traces of blktrace (versions 7 and 8), a file per CPU or one stream: block requests",
    not_carried: NOT_TRACED,
    recognise,
    together,
    read,
};

/// Records that are held back to put them in the order of time: CPUs write buffers, not records.
const HELD_MAX: usize = 1 << 16;
const NOTIFY: u64 = 1 << 10;

fn recognise(head: &Head) -> bool {
    // A CPU that saw nothing has an empty file.
    magic(&head.bytes).is_some() || head.bytes.is_empty() && head.name.contains(".blktrace.")
}

/// Byte order (true = big) and version.
fn magic(bytes: &[u8]) -> Option<(bool, u8)> {
    let begin: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    [
        (false, u32::from_le_bytes(begin)),
        (true, u32::from_be_bytes(begin)),
    ]
    .into_iter()
    .find(|(_, magic)| magic >> 8 == 0x0065_6174 && matches!(magic & 0xff, 7 | 8))
    .map(|(is_big, magic)| (is_big, magic as u8))
}

/// `sda.blktrace.0`, `sda.blktrace.1`: one log.
fn together(path: &Path) -> Option<PathBuf> {
    Some(path.with_file_name(stem(path)?))
}

fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.split_once(".blktrace.")?.0.to_owned())
}

/// CPUs of which no file is among those of the others, in words; blktrace writes a file for every CPU that is online.
fn missing_cpus(files: &[PathBuf]) -> Option<String> {
    let number = |path: &PathBuf| {
        path.file_name()?
            .to_str()?
            .split_once(".blktrace.")?
            .1
            .parse::<u32>()
            .ok()
    };
    let there: BTreeSet<u32> = files.iter().map(number).collect::<Option<_>>()?;
    // Of one file nothing tells how many there were.
    let last = *there.last().filter(|last| there.len() > 1 && **last < 1 << 16)?;
    let missing: Vec<String> = (0..last)
        .filter(|cpu| !there.contains(cpu))
        .map(|cpu| cpu.to_string())
        .collect();
    let more = missing.len().saturating_sub(CPUS_SHOWN_MAX);
    let shown = missing[..missing.len() - more].join(", ");
    match (missing.len(), more) {
        (0, _) => None,
        (1, _) => Some(format!("the file of CPU {shown} is missing")),
        (_, 0) => Some(format!("the files of CPUs {shown} are missing")),
        _ => Some(format!("the files of CPUs {shown} and {more} more are missing")),
    }
}

const CPUS_SHOWN_MAX: usize = 8;

struct Record {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    pid: u32,
    device: u32,
    cpu: u32,
    error: u16,
    payload: Vec<u8>,
    is_big: bool,
}

struct Stream<'a> {
    path: &'a Path,
    file: BufReader<Input>,
    at: u64,
    last_ns: u64,
}

impl Stream<'_> {
    /// Fills the buffer; how many bytes there were.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, ImportError> {
        let mut done = 0;
        while done < buffer.len() {
            match self
                .file
                .read(&mut buffer[done..])
                .map_err(|e| ImportError::io(self.path, "read", e))?
            {
                0 => break,
                read => done += read,
            }
        }
        self.at += done as u64;
        Ok(done)
    }

    fn next(&mut self, sink: &mut Sink) -> Result<Option<Record>, ImportError> {
        let begin = self.at;
        let place = format!("byte {begin}");
        let mut head = [0_u8; 64];
        let got = self.fill(&mut head[..48])?;
        if got == 0 {
            return Ok(None);
        }
        let cut = |sink: &mut Sink, got: usize, whole: usize| {
            let bad = Bad::new("", "a whole record", &format!("{got} of {whole} bytes"));
            sink.cut(self.path, &place, &bad);
        };
        if got < 48 {
            cut(sink, got, 48);
            return Ok(None);
        }
        let Some((is_big, version)) = magic(&head) else {
            let found = format!("{:02x} {:02x} {:02x} {:02x}", head[0], head[1], head[2], head[3]);
            let bad = Bad::new("", "the magic number 0x65617407 or 0x65617408", &found);
            // Nothing tells where the next record begins: the rest of this file is left out.
            bad_record(self.path, &place, bad, sink)?;
            return Ok(None);
        };
        if version == 8 {
            let more = self.fill(&mut head[48..64])?;
            if more < 16 {
                cut(sink, 48 + more, 64);
                return Ok(None);
            }
        }
        let u16_at = |at: usize| {
            let two = [head[at], head[at + 1]];
            if is_big {
                u16::from_be_bytes(two)
            } else {
                u16::from_le_bytes(two)
            }
        };
        let u32_at = |at: usize| {
            let four: [u8; 4] = head[at..at + 4].try_into().expect("four bytes");
            if is_big {
                u32::from_be_bytes(four)
            } else {
                u32::from_le_bytes(four)
            }
        };
        let u64_at = |at: usize| {
            let eight: [u8; 8] = head[at..at + 8].try_into().expect("eight bytes");
            if is_big {
                u64::from_be_bytes(eight)
            } else {
                u64::from_le_bytes(eight)
            }
        };
        let mut record = Record {
            time_ns: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action: 0,
            pid: 0,
            device: 0,
            cpu: 0,
            error: 0,
            payload: Vec::new(),
            is_big,
        };
        let payload;
        if version == 7 {
            record.action = u64::from(u32_at(28));
            (record.pid, record.device, record.cpu) = (u32_at(32), u32_at(36), u32_at(40));
            (record.error, payload) = (u16_at(44), u16_at(46));
        } else {
            (record.pid, record.action) = (u32_at(28), u64_at(32));
            (record.device, record.cpu) = (u32_at(40), u32_at(44));
            (record.error, payload) = (u16_at(48), u16_at(50));
        }
        record.payload = vec![0; usize::from(payload)];
        let mut buffer = std::mem::take(&mut record.payload);
        let got = self.fill(&mut buffer)?;
        if got < buffer.len() {
            let bad = Bad::new(
                "",
                "a whole record",
                &format!("{got} of {} bytes of its payload", buffer.len()),
            );
            sink.cut(self.path, &place, &bad);
            return Ok(None);
        }
        record.payload = buffer;
        self.last_ns = record.time_ns;
        sink.progress(sink.bytes_done() + self.at - begin);
        Ok(Some(record))
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut streams = Vec::new();
    for path in &source.files {
        let file = open(path)?;
        streams.push(Stream {
            path,
            file: BufReader::with_capacity(1 << 17, file),
            at: 0,
            last_ns: 0,
        });
    }
    let device = source.device.clone().or_else(|| stem(source.path()));
    let mut reader = Reader {
        requests: Requests::new(device),
        comms: HashMap::new(),
        clock_told: false,
    };
    if let Some(missing) = missing_cpus(&source.files) {
        reader.requests.lacks_completions(missing);
    }
    let mut held: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
    let mut records: Vec<Option<Record>> = Vec::new();
    let (mut free, mut arrived) = (Vec::new(), 0);
    // Always the file that is behind is read next.
    while let Some(at) = (0..streams.len()).min_by_key(|&at| streams[at].last_ns) {
        let Some(record) = streams[at].next(sink)? else {
            streams.swap_remove(at);
            continue;
        };
        if record.action >> 16 & NOTIFY != 0 {
            reader.notice(&record, sink);
            continue;
        }
        let time_ns = record.time_ns;
        let slot = free.pop().unwrap_or_else(|| {
            records.push(None);
            records.len() - 1
        });
        records[slot] = Some(record);
        held.push(Reverse((time_ns, arrived, slot)));
        arrived += 1;
        if held.len() > HELD_MAX {
            reader.take(&mut held, &mut records, &mut free, sink)?;
        }
    }
    while !held.is_empty() {
        reader.take(&mut held, &mut records, &mut free, sink)?;
    }
    reader.requests.end(sink)
}

struct Reader {
    requests: Requests,
    comms: HashMap<u32, Option<NameId>>,
    clock_told: bool,
}

impl Reader {
    fn take(
        &mut self,
        held: &mut BinaryHeap<Reverse<(u64, u64, usize)>>,
        records: &mut [Option<Record>],
        free: &mut Vec<usize>,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        let Some(Reverse((_, _, slot))) = held.pop() else {
            return Ok(());
        };
        free.push(slot);
        match records[slot].take() {
            Some(record) => self.event(&record, sink),
            None => Ok(()),
        }
    }

    /// What the tracer says beside events: names of programs, the time of day.
    fn notice(&mut self, record: &Record, sink: &mut Sink) {
        match record.action & 0xff {
            0 => {
                let name = record.payload.split(|byte| *byte == 0).next().unwrap_or(&[]);
                let name = sink.name_if(&String::from_utf8_lossy(name));
                self.comms.insert(record.pid, name);
            }
            1 if !self.clock_told && record.payload.len() >= 8 => {
                let part = |at: usize| {
                    let four: [u8; 4] = record.payload[at..at + 4].try_into().expect("four bytes");
                    i64::from(if record.is_big {
                        u32::from_be_bytes(four)
                    } else {
                        u32::from_le_bytes(four)
                    })
                };
                let unix_ns = part(0) * 1_000_000_000 + part(4);
                let mut clock = Clock::boot(1);
                clock.zero_unix_ns = i64::try_from(record.time_ns)
                    .ok()
                    .map(|time_ns| unix_ns.saturating_sub(time_ns));
                sink.clock(clock);
                self.clock_told = true;
            }
            _ => {}
        }
    }

    fn event(&mut self, record: &Record, sink: &mut Sink) -> Result<(), ImportError> {
        if !self.clock_told {
            sink.clock(Clock::boot(1));
            self.clock_told = true;
        }
        let skipped = if record.action & 1 << 8 != 0 { 8 } else { 0 };
        let what = match record.action & 0xff {
            1 => What::Queue,
            6 => What::Requeue,
            7 => What::Issue,
            8 => What::Complete,
            13 => match record.payload.get(skipped..skipped + 8) {
                Some(eight) => What::Split(u64::from_be_bytes(eight.try_into().expect("eight bytes"))),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        let has = |bit: u32| record.action >> (16 + bit) & 1 != 0;
        let op = match () {
            () if has(2) && record.bytes == 0 => Op::Flush,
            () if has(13) => Op::Discard,
            () if has(1) => Op::Write,
            () if has(0) => Op::Read,
            () if has(2) => Op::Flush,
            () => Op::Other,
        };
        let mut set = 0;
        for (bit, flag) in [
            (3, flags::SYNC),
            (12, flags::META),
            (11, flags::READAHEAD),
            (15, flags::FUA),
        ] {
            set |= if has(bit) { flag } else { 0 };
        }
        let event = Event {
            time_ns: i64::try_from(record.time_ns)
                .unwrap_or(i64::MAX / 2)
                .min(i64::MAX / 2),
            what,
            device: (record.device >> 20, record.device & 0xf_ffff),
            op,
            flags: set,
            sector: record.sector,
            count: u64::from(record.bytes / 512),
            cpu: i32::try_from(record.cpu).ok(),
            pid: i32::try_from(record.pid).ok().filter(|pid| *pid > 0),
            comm: self.comms.get(&record.pid).copied().flatten(),
            error: i32::from(record.error as i16).abs(),
        };
        self.requests.event(event, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_cpus_that_are_missing_are_named() {
        let missing = |names: &[&str]| {
            let files: Vec<PathBuf> = names.iter().map(|name| PathBuf::from("/x").join(name)).collect();
            missing_cpus(&files)
        };
        assert_eq!(missing(&["sda.blktrace.0", "sda.blktrace.1"]), None);
        assert_eq!(missing(&["sda.blktrace.3"]), None);
        assert_eq!(missing(&["sda.blktrace.0", "merged.bin"]), None);
        let one = missing(&["sda.blktrace.0", "sda.blktrace.2"]);
        assert_eq!(one.as_deref(), Some("the file of CPU 1 is missing"));
        let many = missing(&["sda.blktrace.0", "sda.blktrace.12"]);
        assert_eq!(
            many.as_deref(),
            Some("the files of CPUs 1, 2, 3, 4, 5, 6, 7, 8 and 3 more are missing")
        );
    }
}
