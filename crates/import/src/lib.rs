//! Foreign logs become cases: one file (or folder) per format, and a line in [`FORMATS`].
//!
//! An importer streams: its memory does not grow with its input. It never invents a value, and what it could not carry
//! over it declares ([`Format::not_carried`], [`Summary`]).
mod error;
pub mod series;

pub use error::ImportError;

use case::meta::Unseen;
use case::sealed::{Names, SealWriter};
use std::path::PathBuf;

/// What an importer is asked to do.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The files, in the order given.
    pub files: Vec<PathBuf>,
    /// `--map`, for formats that need one.
    pub map: Option<String>,
}

/// What an importer found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Records of the input.
    pub records: u64,
    /// Rows written.
    pub rows: u64,
    /// Moment that is 0 in the case, nanoseconds since 1970; None without any record.
    pub start_unix_ns: Option<i64>,
    /// Last moment, nanoseconds since the start of the case.
    pub end_ns: i64,
    /// What this input did not hold.
    pub not_observed: Vec<Unseen>,
}

/// A foreign format.
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What it can never carry over, and why.
    pub not_carried: &'static [(&'static str, &'static str)],
    /// Reads the files into the tables of a case. The last argument is told the bytes (or rows) done.
    pub read: Read,
}

/// See [`Format::read`].
pub type Read =
    fn(&Request, &mut SealWriter, &mut Names, &mut dyn FnMut(u64)) -> Result<Summary, ImportError>;

/// Every format.
pub const FORMATS: &[Format] = &[series::FORMAT];

/// The format of this name. Error: there is none; the message lists those there are.
pub fn format(name: &str) -> Result<&'static Format, ImportError> {
    let names = || FORMATS.iter().map(|format| format.name);
    let meant =
        || case::nearest(name, names()).map_or(String::new(), |near| format!("did you mean {near}? "));
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
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
