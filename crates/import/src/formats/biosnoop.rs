//! biosnoop of bcc, libbpf-tools and bpftrace. The header names the columns; names of programs may hold blanks, so lines are read from both ends.
//!
//! Source: the tools' print statements. bcc and libbpf-tools count from the issue of a request (`-Q`: and from its insertion before), bpftrace
//! from its begin, in whole milliseconds. TIME is that of completion.
use super::block_requests::{device_name, kind_of};
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{integer, last_word, length, sectors, time, word};
use crate::ImportError;
use case::schema::{Layer, Op, OpRow, Stage};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "biosnoop",
    about: "text of biosnoop (bcc, libbpf-tools, bpftrace): block requests",
    not_carried: &[
        ("requests that biosnoop lost", "it says so on stderr only"),
        (
            "where the interrupt began",
            "biosnoop sees completions, which are device and interrupt together",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn is_header(line: &str) -> bool {
    line.starts_with("TIME(") && line.contains("LAT(ms)") && line.contains("PID")
}

fn recognise(head: &Head) -> bool {
    head.filled_lines().take(10).any(is_header)
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut columns: Option<Vec<String>> = None;
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if is_header(text) {
            // `DISK ID` is one column over two, with `MAJOR MINOR` as their second line.
            let names = text.replace("DISK ID", "MAJOR MINOR");
            let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
            begin(&names, sink);
            columns = Some(names);
            return Ok(());
        }
        let Some(columns) = &columns else { return Ok(()) };
        if text.is_empty() || text.starts_with("MAJOR") || text.starts_with("Attach") {
            return Ok(());
        }
        let row = Row::parse(text, columns)?;
        row.write(source.device.as_deref(), sink)?;
        Ok(())
    })
}

fn has(columns: &[String], name: &str) -> bool {
    columns.iter().any(|column| column == name)
}

fn begin(columns: &[String], sink: &mut Sink) {
    if has(columns, "TIME(s)") {
        sink.clock(Clock::own("the first request of biosnoop", 1000));
        let queue = has(columns, "QUE(ms)").then_some((Stage::Queue, "queue"));
        let mut stages = vec![(Stage::Device, "device+interrupt")];
        stages.extend(queue);
        sink.layer(Layer::Block, &stages);
        if queue.is_none() {
            sink.unseen(
                "time before a request was issued",
                "biosnoop tells it with -Q only",
            );
        }
    } else {
        sink.clock(Clock::own("the begin of bpftrace", 1_000_000));
        sink.layer(Layer::Block, &[(Stage::Queue, "queue+device+interrupt")]);
        sink.resolution(1_000_000);
        sink.unseen(
            "latencies below 1 ms",
            "bpftrace's biosnoop tells whole milliseconds",
        );
        sink.unseen(
            "kinds, places and sizes of requests",
            "bpftrace's biosnoop does not print them",
        );
    }
}

#[derive(Default)]
struct Row<'a> {
    end_ns: i64,
    is_ms: bool,
    comm: &'a str,
    pid: Option<i32>,
    disk: String,
    kind: &'a str,
    sector: Option<u64>,
    bytes: Option<i64>,
    queue_ns: Option<i64>,
    latency_ns: i64,
    latency_text: &'a str,
}

impl<'a> Row<'a> {
    fn parse(text: &'a str, columns: &[String]) -> Result<Row<'a>, Bad> {
        let comm_at = columns.iter().position(|column| column == "COMM");
        let comm_at = comm_at.ok_or_else(|| Bad::new("", "a header with COMM", text))?;
        let (mut row, mut rest) = (Row::default(), text);
        let mut numbers = (None, None);
        for column in &columns[..comm_at] {
            let field = word(&mut rest);
            row.field(column, field, &mut numbers)?;
        }
        for column in columns[comm_at + 1..].iter().rev() {
            let before = rest;
            let mut field = last_word(&mut rest);
            // With a pattern column, rows without one leave it blank.
            if column == "PATTERN" && !matches!(field, "R" | "S" | "SEQ" | "RAND") {
                (rest, field) = (before, "");
            }
            row.field(column, field, &mut numbers)?;
        }
        row.comm = rest.trim();
        if let (Some(major), Some(minor)) = numbers {
            row.disk = device_name((major, minor));
        }
        Ok(row)
    }

    fn field(
        &mut self,
        column: &str,
        field: &'a str,
        numbers: &mut (Option<u32>, Option<u32>),
    ) -> Result<(), Bad> {
        match column {
            "TIME(s)" => self.end_ns = time(field, 1_000_000_000, "TIME(s)")?,
            "TIME(ms)" => {
                self.end_ns = time(field, 1_000_000, "TIME(ms)")?;
                self.is_ms = true;
            }
            "PID" => self.pid = Some(integer::<i32>(field, "PID")?).filter(|pid| *pid > 0),
            "DISK" => self.disk = field.to_owned(),
            "MAJOR" => numbers.0 = Some(integer(field, "MAJOR")?),
            "MINOR" => numbers.1 = Some(integer(field, "MINOR")?),
            "T" => self.kind = field,
            // Flushes have none, or -1.
            "SECTOR" => self.sector = field.parse::<u64>().ok().filter(|sector| *sector != u64::MAX),
            "BYTES" => self.bytes = Some(integer(field, "BYTES")?),
            "QUE(ms)" => self.queue_ns = Some(length(field, 1_000_000, "QUE(ms)")?),
            "LAT(ms)" => {
                self.latency_ns = length(field, 1_000_000, "LAT(ms)")?;
                self.latency_text = field;
            }
            _ => {}
        }
        Ok(())
    }

    fn write(&self, device: Option<&str>, sink: &mut Sink) -> Result<(), ImportError> {
        if let Some((_, digits)) = self.latency_text.split_once('.') {
            sink.resolution(1_000_000 / 10_i64.pow(digits.len().min(6) as u32));
        }
        let count = self.bytes.map_or(1, |bytes| bytes.unsigned_abs() / 512);
        let (op, flags) = if self.kind.is_empty() {
            (Op::Other, 0)
        } else {
            kind_of(self.kind.as_bytes(), count)
        };
        let queue_ns = self.queue_ns.unwrap_or(0);
        let whole = queue_ns.saturating_add(self.latency_ns);
        let mut row = OpRow::plain(self.end_ns.saturating_sub(whole), whole, op);
        let stage = if self.is_ms { Stage::Queue } else { Stage::Device };
        row.stages[stage as usize] = Some(self.latency_ns);
        if self.queue_ns.is_some() {
            row.stages[Stage::Queue as usize] = self.queue_ns;
        }
        row.flags = flags;
        row.device = sink.name_if(device.unwrap_or(&self.disk));
        row.comm = sink.name_if(self.comm);
        row.pid = self.pid;
        row.size_bytes = self.bytes;
        row.offset_bytes = if op == Op::Flush {
            None
        } else {
            self.sector.and_then(sectors)
        };
        sink.op(Layer::Block, row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_pattern_leave_its_column_blank() {
        let header = "TIME(s) COMM PID DISK T SECTOR BYTES PATTERN LAT(ms)";
        let columns: Vec<String> = header.split(' ').map(str::to_owned).collect();
        for comm in ["kworker/u8:1", "a b", "\u{fffd}\u{fffd}"] {
            for pattern in ["", "RAND"] {
                let line = format!("0.004183 {comm} 2617 nvme1n1 W 113638 8192 {pattern:7} 5.49");
                let row = Row::parse(&line, &columns).unwrap();
                assert_eq!(
                    (row.comm, row.pid, row.disk.as_str()),
                    (comm, Some(2617), "nvme1n1")
                );
                assert_eq!(
                    (row.sector, row.bytes, row.latency_ns),
                    (Some(113_638), Some(8192), 5_490_000)
                );
            }
        }
    }
}
