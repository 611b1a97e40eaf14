//! Foreign logs become cases: one file (or folder) per format in [`formats`], and a line in [`FORMATS`].
//!
//! * [`format`](Format): what a format says of itself;
//! * `import`: recognising, bringing clocks together, reading, tying;
//! * `input`: opening files and pipes;
//! * `records`, `lines`, `text`, `number`: reading, where errors are said with their place;
//! * [`Sink`]: where records go.
//!
//! An importer streams: its memory does not grow with its input (documents, JSON and XML, are read whole). It never invents a value, and
//! what it could not carry over it declares ([`Format::not_carried`], [`Summary`]).
mod clock;
mod error;
mod format;
mod formats;
mod import;
mod input;
mod lines;
mod number;
mod order;
mod prefix;
mod records;
mod series;
mod sink;
#[cfg(test)]
mod testing;
mod text;
mod tie;
mod unread;

pub use clock::Alignment;
pub use error::ImportError;
pub use format::{Format, Head, Source, HEAD_BYTES};
pub use import::{import, recognise, Read, Request, Summary};
pub use sink::Sink;

/// Every format, in the order in which they are listed.
pub const FORMATS: &[&Format] = &[
    &formats::amazon_d0::FORMAT,
    &formats::biolatency::FORMAT,
    &formats::biosnoop::FORMAT,
    &formats::blkparse::FORMAT,
    &formats::blktrace::FORMAT,
    &formats::db_bench::FORMAT,
    &formats::diskspd::FORMAT,
    &formats::diskstats::FORMAT,
    &formats::fio_hist::FORMAT,
    &formats::fio_json::FORMAT,
    &formats::fio_lat::FORMAT,
    &formats::fio_rate::FORMAT,
    &formats::fsslower::FORMAT,
    &formats::hardirqs::FORMAT,
    &formats::hdr_log::FORMAT,
    &formats::interrupts::FORMAT,
    &formats::iometer::FORMAT,
    &formats::iostat::FORMAT,
    &formats::netapp_reallocate::FORMAT,
    &formats::netapp_sysstat::FORMAT,
    &formats::ocp_c3::FORMAT,
    &formats::pgbench::FORMAT,
    &formats::rocksdb_block_cache::FORMAT,
    &formats::rocksdb_log::FORMAT,
    &formats::rocksdb_queries::FORMAT,
    &formats::smart_json::FORMAT,
    &formats::strace::FORMAT,
    &formats::sysstat_json::FORMAT,
    &formats::trace_events::FORMAT,
    &formats::ycsb::FORMAT,
    &formats::ycsb_raw::FORMAT,
    &formats::bus::FORMAT,
    &formats::table::FORMAT,
    &series::FORMAT,
];

/// The format of this name. Error: there is none; the message lists those there are.
pub fn format(name: &str) -> Result<&'static Format, ImportError> {
    let names = || FORMATS.iter().map(|format| format.name);
    let meant =
        || case::nearest(name, names()).map_or(String::new(), |near| format!("did you mean {near}? "));
    FORMATS
        .iter()
        .copied()
        .find(|format| format.name == name)
        .ok_or_else(|| {
            ImportError::Use(format!(
                "format: expected one of {}, found '{name}'; {}see whodisk import --list",
                names().collect::<Vec<_>>().join(", "),
                meant()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_name_only() {
        for known in FORMATS {
            assert!(!known.about.is_empty() && !known.not_carried.is_empty());
            assert_eq!(format(known.name).unwrap().name, known.name);
        }
        let message = format("blkparse9").err().unwrap().to_string();
        assert!(
            message.contains("series") && message.contains("blkparse9"),
            "{message}"
        );
        let message = format("serise").err().unwrap().to_string();
        assert!(message.contains("did you mean series?"), "{message}");
    }
}
