//! Sampled counters from any CSV or Parquet file, by a mapping of its columns.
//!
//! `host=host,device=disk_id,t=ts:s,latency=latency:us,throughput=throughput:B/s` reads: the sample's host is in
//! column `host`, its device in `disk_id`, its moment in `ts` in seconds since 1970, and so on. Each metric column becomes one row
//! per record of the table `series`, converted to base units. A missing value (empty, NULL, `NaN`, `NA`) stays
//! missing: there is no row for it.
mod csv;
mod map;
mod number;
mod parquet;
mod sink;

use crate::{Format, ImportError, Read, Request, Summary};
use case::meta::Unseen;
use case::sealed::{Names, SealWriter};
use map::Mapping;
use sink::Sink;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "series",
    about: "sampled counters: any CSV or Parquet file, with --map 'host=COLUMN,device=COLUMN,t=COLUMN:s,latency=COLUMN:us,...'",
    not_carried: &[(
        "single operations",
        "sampled counters hold averages over a sampling period; outliers inside a period cannot be seen",
    )],
    read: READ,
};

const READ: Read = read;

fn read(
    request: &Request,
    writer: &mut SealWriter,
    names: &mut Names,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, ImportError> {
    let text = request.map.as_deref().ok_or_else(|| {
        ImportError::Use(
            "--map: expected which column is what, e.g. 'host=host,device=disk_id,t=ts:s,latency=latency:us', \
             found none"
                .into(),
        )
    })?;
    let mapping = Mapping::parse(text)?;
    let mut sink = Sink::new(&mapping, writer, names);
    for file in &request.files {
        if is_parquet(file)? {
            parquet::read(file, &mapping, &mut sink, progress)?;
        } else {
            csv::read(file, &mapping, &mut sink, progress)?;
        }
    }
    Ok(summary(&mapping, &sink, request))
}

/// Parquet files begin with `PAR1`, whatever their name is.
fn is_parquet(path: &Path) -> Result<bool, ImportError> {
    let mut file = File::open(path).map_err(|e| ImportError::io(path, "open", e))?;
    let mut begin = [0_u8; 4];
    match file.read_exact(&mut begin) {
        Ok(()) => Ok(&begin == b"PAR1"),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(ImportError::io(path, "read", e)),
    }
}

fn summary(mapping: &Mapping, sink: &Sink, request: &Request) -> Summary {
    let files: Vec<String> = request.files.iter().map(|f| f.display().to_string()).collect();
    let mut not_observed = Vec::new();
    for (metric, missing) in mapping.metrics.iter().zip(&sink.missing) {
        if *missing > 0 {
            not_observed.push(Unseen {
                what: format!("{missing} of {} samples of {}", sink.records, metric.metric),
                because: format!("column {} of {} is empty there", metric.column, files.join(", ")),
            });
        }
    }
    if sink.without_time > 0 {
        not_observed.push(Unseen {
            what: format!("{} of {} records", sink.without_time, sink.records),
            because: format!(
                "column {} is empty there: they have no moment",
                mapping.time.column
            ),
        });
    }
    Summary {
        records: sink.records,
        rows: sink.rows,
        start_unix_ns: sink.start_unix_ns,
        end_ns: sink.end_ns,
        not_observed,
    }
}
