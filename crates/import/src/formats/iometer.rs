//! Results CSV of Iometer (1.1.0 and older): a row per access specification and manager, worker or disk. The header names the columns.
//!
//! Built from Iometer's sources (80 columns in 1.1.0, with 21 latency bins); older versions have `MBps` and no bins.
use super::bins::{values, Bins};
use super::table::cells;
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::number;
use crate::ImportError;
use case::schema::{NameId, SubjectKind};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "iometer",
    about: "results CSV of Iometer: rates, mean and largest response times and bins per target, as samples",
    not_carried: &[
        (
            "single operations",
            "Iometer tells means, largest values and bins over a run, not when the slow ones were",
        ),
        (
            "when the runs were",
            "moments of its results are local and per run; runs are put one second apart, in the order of the file",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn is_header(line: &str) -> bool {
    line.trim_start_matches('\'')
        .starts_with("Target Type,Target Name,Access Specification Name")
}

fn recognise(head: &Head) -> bool {
    head.has_line(is_header) || head.has_line(|line| line.starts_with("'Iometer") && line.contains("results"))
}

/// Metric of a column, and what one is in it.
fn metric(column: &str) -> Option<(&'static str, f64)> {
    Some(match column {
        "IOps" => ("operations_per_s", 1.0),
        "Read IOps" => ("read_operations_per_s", 1.0),
        "Write IOps" => ("write_operations_per_s", 1.0),
        // Binary megabytes, unless the header says decimal.
        "MBps" | "MBps (Binary)" | "MiBps (Binary)" => ("throughput_bytes_per_s", 1_048_576.0),
        "MBps (Decimal)" => ("throughput_bytes_per_s", 1e6),
        "Read MBps" | "Read MBps (Binary)" | "Read MiBps (Binary)" => {
            ("read_throughput_bytes_per_s", 1_048_576.0)
        }
        "Write MBps" | "Write MBps (Binary)" | "Write MiBps (Binary)" => {
            ("write_throughput_bytes_per_s", 1_048_576.0)
        }
        "Average Response Time" => ("latency_ns", 1e6),
        "Average Read Response Time" => ("read_latency_ns", 1e6),
        "Average Write Response Time" => ("write_latency_ns", 1e6),
        "Maximum Response Time" => ("latency_max_ns", 1e6),
        "Maximum Read Response Time" => ("read_latency_max_ns", 1e6),
        "Maximum Write Response Time" => ("write_latency_max_ns", 1e6),
        "Errors" => ("errors", 1.0),
        "Queue Depth" => ("queue_depth", 1.0),
        "% CPU Utilization" | "% CPU Utilization (total)" => ("cpu_busy_ratio", 0.01),
        _ => return None,
    })
}

/// `0 to 50 uS`, `>= 10 s`: the middle of a bin, nanoseconds; of the open one its begin.
fn bin_ns(column: &str) -> Option<u64> {
    let words: Vec<&str> = column.split_whitespace().collect();
    let unit = match words.last()?.to_ascii_lowercase().as_str() {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let ns = |text: &str| text.parse::<f64>().ok().map(|value| value * unit);
    Some(match words[..] {
        [low, "to", high, _] => ((ns(low)? + ns(high)?) / 2.0) as u64,
        [">=", low, _] => ns(low)? as u64,
        _ => return None,
    })
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    sink.clock(Clock::own("the first result", 1_000_000_000));
    let (mut columns, mut runs, mut last_run) = (Vec::<String>::new(), 0_i64, String::new());
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if is_header(text) {
            columns = cells(text.trim_start_matches('\''), ',');
            return Ok(());
        }
        let is_row = ["ALL,", "MANAGER,", "PROCESSOR,", "WORKER,", "DISK,", "NETWORK,"]
            .iter()
            .any(|kind| text.starts_with(kind));
        // `'Time Stamp` and the other sections stand between the results.
        if columns.is_empty() || text.starts_with('\'') || !is_row {
            return Ok(());
        }
        let cells = cells(text, ',');
        if cells.len() < columns.len().min(10) {
            let expected = format!("{} columns, as the header says", columns.len());
            return Err(Bad::new("", expected, text).into());
        }
        let of = |name: &str| -> &str {
            let at = columns.iter().position(|column| column == name);
            at.and_then(|at| cells.get(at)).map_or("", String::as_str)
        };
        let (kind, name, specification) = (
            of("Target Type"),
            of("Target Name"),
            of("Access Specification Name"),
        );
        if kind == "ALL" || (!specification.is_empty() && specification != last_run) {
            // Every run begins with the row of all managers.
            runs += 1;
            last_run = specification.to_owned();
        }
        let (mut row, mut bins): (Vec<(NameId, f64)>, Bins) = (Vec::new(), Vec::new());
        for (column, cell) in columns.iter().zip(&cells) {
            if cell.is_empty() {
                continue;
            }
            if let Some((name, factor)) = metric(column) {
                row.push((sink.name(name), number(cell, "of a result")? * factor));
            } else if let Some(ns) = bin_ns(column) {
                bins.push((ns, number(cell, "of a bin")?.clamp(0.0, 1e15) as u64));
            }
        }
        // The largest value has an exact column of its own.
        for (metric, value) in values("", &bins, sink) {
            if !row.iter().any(|(known, _)| *known == metric) {
                row.push((metric, value));
            }
        }
        let shown = match name {
            "" => kind.to_ascii_lowercase(),
            name => name.to_owned(),
        };
        let kind = if kind == "DISK" {
            SubjectKind::Device
        } else {
            SubjectKind::Process
        };
        let subject = sink.name(&format!("{shown} ({last_run})"));
        sink.sample((runs - 1).max(0) * 1_000_000_000, None, kind, subject, &row)?;
        Ok(())
    })
}
