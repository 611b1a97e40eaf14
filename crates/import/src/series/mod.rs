//! Sampled counters from any CSV or Parquet file, by a mapping of its columns.
//!
//! `host=host,device=disk_id,t=ts:s,latency=latency:us,throughput=throughput:B/s` reads: the sample's host is in
//! column `host`, its device in `disk_id`, its moment in `ts` in seconds since 1970, and so on. Each metric column becomes one row
//! per record of the table `series`, converted to base units. A missing value (empty, NULL, `NaN`, `NA`) stays
//! missing: there is no row for it. Without a column of devices the file is of one: `--device` names it, else the file does.
mod csv;
mod map;
mod parquet;
mod sink;

pub(crate) use parquet::for_each_row;

use crate::clock::Clock;
use crate::format::{alone, never};
use crate::input::open;
use crate::{Format, ImportError, Sink, Source};
use map::Mapping;
use sink::Records;
use std::io::Read as _;
use std::path::Path;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "series",
    about: "sampled counters: any CSV or Parquet file, with --map 'host=COLUMN,device=COLUMN,t=COLUMN:s,latency=COLUMN:us,...'; without a column of devices, of --device or of the file's name",
    not_carried: &[(
        "single operations",
        "sampled counters hold averages over a sampling period; outliers inside a period cannot be seen",
    )],
    recognise: never,
    together: alone,
    read,
};

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let text = source.map.as_deref().ok_or_else(|| {
        ImportError::Use(
            "--map: expected which column is what, e.g. 'host=host,device=disk_id,t=ts:s,latency=latency:us', \
             found none"
                .into(),
        )
    })?;
    let mapping = Mapping::parse(text)?;
    sink.clock(Clock::unix(1));
    let path = source.path();
    let unnamed = match &mapping.subject {
        Some(_) => String::new(),
        None => device_of(source, sink),
    };
    let mut records = Records::new(&mapping, &unnamed, sink);
    if is_parquet(path)? {
        parquet::read(path, &mapping, &mut records)?;
    } else {
        csv::read(path, &mapping, &mut records)?;
    }
    tell_missing(&mapping, &mut records, path);
    Ok(())
}

/// The device that a file without a column of devices is of: `--device`; else the file's name without its end (with its folders, where files of several
/// folders are called alike), as who exports a panel per drive calls them.
fn device_of(source: &Source, sink: &Sink) -> String {
    let named = |name: &str| Path::new(name).with_extension("").display().to_string();
    match (&source.device, sink.label()) {
        (Some(device), _) => device.clone(),
        (None, Some(label)) => named(label),
        (None, None) => named(&source.name()),
    }
}

/// Parquet files begin with `PAR1`, whatever their name is.
pub(crate) fn is_parquet(path: &Path) -> Result<bool, ImportError> {
    let mut file = open(path)?;
    let mut begin = [0_u8; 4];
    match file.read_exact(&mut begin) {
        Ok(()) => Ok(&begin == b"PAR1"),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(ImportError::io(path, "read", e)),
    }
}

fn tell_missing(mapping: &Mapping, records: &mut Records, path: &Path) {
    let all = records.records;
    for (metric, missing) in mapping.metrics.iter().zip(records.missing.clone()) {
        if missing > 0 {
            let what = format!("{missing} of {all} samples of {}", metric.metric);
            let because = format!("column {} of {} is empty there", metric.column, path.display());
            records.unseen(what, because);
        }
    }
    if records.without_time > 0 {
        let what = format!("{} of {all} records", records.without_time);
        let column = &mapping.time.column;
        let because = format!("column {column} is empty there: they have no moment");
        records.unseen(what, because);
    }
}
