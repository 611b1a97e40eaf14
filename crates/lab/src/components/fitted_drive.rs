//! A drive that was fitted to a recording: measured quantiles of latency by kind, size and number in flight.
//!
//! A command draws one probability and gets the latency at it, interpolated (logarithms of size, of number in flight and of
//! latency) between the four nearest measured cells. Deeper than measured, latency grows by the power of the depth that
//! the two deepest measured cells show: 0 = the drive takes more at no cost, 1 = it is saturated. What is in flight is counted by
//! the drive itself. Draws are independent: slow episodes of the recording are there in number, not in a row.
use crate::component::{Command, DriveModel, Note, Service};
use crate::error::LabError;
use crate::keys::{key, Key, Kind, Section};
use crate::models::by_depth::{between, mix, ByDepth};
use crate::models::distribution::{unit, Quantiles};
use case::schema::Op;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use workload::rng::Rng;

/// Keys of `[device]` for `kind = "fitted"`.
pub const KEYS: [Key; 2] = [
    key(
        "fitted_table",
        Kind::Text,
        "",
        "A line for each kind, size and depth: `read 4096 8 5000 = 0:61000 0.5:80000 1:900000` = kind, bytes, in flight, samples, then probability:nanoseconds. `whodisk lab fit` writes it.",
    ),
    key(
        "fitted_scale",
        Kind::Number(0.001, 1000.0),
        "1",
        "Multiplies every latency: 0.5 = a drive twice as fast.",
    ),
];

/// Latencies of one kind, size and number in flight.
#[derive(Clone, Debug)]
pub struct Cell {
    /// `read`, `write` or `flush`.
    pub op: Op,
    /// Bytes.
    pub size_bytes: u64,
    /// In flight, this one included.
    pub depth: u32,
    /// How many were measured.
    pub samples: u64,
    /// Nanoseconds.
    pub latency: Quantiles,
}

/// Reads `fitted_table`. Errors name the line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Cell>, LabError> {
    let mut cells = Vec::new();
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    for (n, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let cell = parse_line(line).ok_or_else(|| {
            LabError::key(
                file,
                format!("device.fitted_table, line {n}"),
                "kind bytes in-flight samples = probability:nanoseconds ..., both ascending",
                format!("{line:?}"),
                "correct it, or fit again with whodisk lab fit",
            )
        })?;
        cells.push(cell);
    }
    if !cells.iter().any(|cell| cell.op != Op::Flush) {
        let hint = "whodisk lab fit CASE -o STACK.toml writes one";
        return Err(LabError::key(
            file,
            "device.fitted_table",
            "at least one line for reads or writes",
            "none",
            hint,
        ));
    }
    Ok(cells)
}

fn parse_line(line: &str) -> Option<Cell> {
    let (head, tail) = line.split_once('=')?;
    let mut head = head.split_whitespace();
    let op = match head.next()? {
        "read" => Op::Read,
        "write" => Op::Write,
        "flush" => Op::Flush,
        _ => return None,
    };
    let size_bytes = head.next()?.parse().ok()?;
    let depth = head.next()?.parse().ok().filter(|depth| *depth > 0)?;
    let samples = head.next()?.parse().ok()?;
    let latency = Quantiles::from_text(tail)?;
    Some(Cell {
        op,
        size_bytes,
        depth,
        samples,
        latency,
    })
}

/// The lines of `fitted_table`.
pub fn to_text(cells: &[Cell]) -> String {
    let line = |cell: &Cell| {
        format!(
            "{} {} {} {} = {}\n",
            cell.op.name(),
            cell.size_bytes,
            cell.depth,
            cell.samples,
            cell.latency.to_text()
        )
    };
    cells.iter().map(line).collect()
}

/// Cells of one size.
struct Row {
    size_bytes: u64,
    latency: ByDepth,
}

fn rows_of(cells: &[Cell], op: Op) -> Vec<Row> {
    let mut own: Vec<&Cell> = cells.iter().filter(|cell| cell.op == op).collect();
    own.sort_by_key(|cell| cell.size_bytes);
    let row = |cells: &[&Cell]| {
        let depths = cells.iter().map(|cell| (cell.depth, cell.latency.clone()));
        Some(Row {
            size_bytes: cells[0].size_bytes,
            latency: ByDepth::new(depths.collect())?,
        })
    };
    own.chunk_by(|one, other| one.size_bytes == other.size_bytes)
        .filter_map(row)
        .collect()
}

/// The drive.
pub struct FittedDrive {
    size_bytes: u64,
    rotational: bool,
    reads: Vec<Row>,
    writes: Vec<Row>,
    flushes: Vec<Row>,
    scale: f64,
    /// Ends of the commands inside.
    ends: BinaryHeap<Reverse<u64>>,
    rng: Rng,
}

impl FittedDrive {
    /// Reads the keys above. Errors: the table is wrong.
    pub fn new(file: &str, section: &Section, size_bytes: u64, rng: Rng) -> Result<FittedDrive, LabError> {
        let cells = parse(file, section.text("fitted_table"))?;
        Ok(FittedDrive {
            size_bytes,
            rotational: false,
            reads: rows_of(&cells, Op::Read),
            writes: rows_of(&cells, Op::Write),
            flushes: rows_of(&cells, Op::Flush),
            scale: section.real("fitted_scale"),
            ends: BinaryHeap::new(),
            rng,
        })
    }

    /// Cells of a kind; what was never measured is taken from the other kind.
    fn rows(&self, op: Op) -> &[Row] {
        let (own, other) = match op {
            Op::Read => (&self.reads, &self.writes),
            Op::Flush => (&self.flushes, &self.flushes),
            _ => (&self.writes, &self.reads),
        };
        if own.is_empty() {
            other
        } else {
            own
        }
    }

    fn latency_ns(&self, command: &Command, depth: u32, p: f64) -> f64 {
        let rows = self.rows(command.op);
        let size = u64::from(command.size_bytes);
        let above = rows.partition_point(|row| row.size_bytes < size);
        let ns = match (above.checked_sub(1).map(|at| &rows[at]), rows.get(above)) {
            (Some(low), Some(high)) => {
                let share = between(
                    low.size_bytes.max(1) as f64,
                    high.size_bytes as f64,
                    size.max(1) as f64,
                );
                mix(low.latency.at(depth, p), high.latency.at(depth, p), share)
            }
            (None, Some(only)) => only.latency.at(depth, p),
            // Larger than measured: in proportion, as of one command after the other.
            (Some(only), None) => only.latency.at(depth, p) * size as f64 / only.size_bytes.max(1) as f64,
            // A flush where none was measured.
            (None, None) => 0.0,
        };
        ns * self.scale
    }
}

impl DriveModel for FittedDrive {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn rotational(&self) -> bool {
        self.rotational
    }

    fn slots(&self) -> usize {
        1 << 16
    }

    fn serve(&mut self, now_ns: u64, command: &Command) -> Service {
        while self.ends.peek().is_some_and(|Reverse(end_ns)| *end_ns <= now_ns) {
            self.ends.pop();
        }
        let depth = self.ends.len() as u32 + 1;
        let p = unit(&mut self.rng);
        let done_ns = now_ns + self.latency_ns(command, depth, p) as u64;
        self.ends.push(Reverse(done_ns));
        Service {
            done_ns,
            free_ns: now_ns,
            note: Note::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# a comment\nread 4096 1 10 = 0:100 1:100\nread 4096 4 10 = 0:200 1:200\n\
                         read 65536 1 10 = 0:400 1:400\nwrite 4096 1 10 = 0:50 1:150\n";

    fn drive() -> FittedDrive {
        let table: toml::Table = format!("fitted_table = '''\n{TABLE}'''").parse().expect("TOML");
        let section = Section::parse("f", "device", &KEYS, &table).expect("keys");
        FittedDrive::new("f", &section, 1 << 30, Rng::new(1, 1)).expect("a table")
    }

    fn read(size_bytes: u32) -> Command {
        Command {
            op: Op::Read,
            offset_bytes: 0,
            size_bytes,
        }
    }

    #[test]
    fn measured_cells_come_back_and_others_lie_between_or_beyond() {
        let drive = drive();
        let near =
            |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 1e-9, "{got} for {expected}");
        near(drive.latency_ns(&read(4096), 1, 0.5), 100.0);
        near(drive.latency_ns(&read(4096), 4, 0.5), 200.0);
        // Half-way on both logarithmic scales.
        near(drive.latency_ns(&read(4096), 2, 0.5), 200f64.sqrt() * 10.0);
        near(drive.latency_ns(&read(16_384), 1, 0.5), 200.0);
        // Latency doubled while depth became four times: power 0.5.
        near(drive.latency_ns(&read(4096), 16, 0.5), 400.0);
        near(drive.latency_ns(&read(131_072), 1, 0.5), 800.0);
        near(drive.latency_ns(&read(512), 1, 0.5), 100.0);
    }

    #[test]
    fn the_drive_counts_what_is_in_flight() {
        let mut drive = drive();
        let ends: Vec<u64> = (0..4).map(|_| drive.serve(0, &read(4096)).done_ns).collect();
        assert_eq!((ends[0], ends[3]), (100, 200));
        assert_eq!(drive.serve(1000, &read(4096)).done_ns, 1100);
    }

    #[test]
    fn a_table_is_read_as_it_was_written_and_errors_name_the_line() {
        let cells = parse("f", TABLE).expect("a table");
        let again = parse("f", &to_text(&cells)).expect("a table");
        assert_eq!(to_text(&cells), to_text(&again));
        let error = parse("f", "read 4096 1 10 = 0:100 1:90").expect_err("descending");
        assert!(error.to_string().contains("line 1"), "{error}");
        assert!(parse("f", "").is_err());
    }
}
