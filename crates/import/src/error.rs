//! What can go wrong with a foreign file: where, what was expected, what was found, what to do.
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Errors of importing.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Wrong use; the text says it all.
    #[error("{0}")]
    Use(String),
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}; check the path and its permissions")]
    Io {
        /// File.
        path: PathBuf,
        /// Verb.
        action: &'static str,
        /// Cause.
        source: std::io::Error,
    },
    /// The content is not what was promised.
    #[error("{}: {at}: expected {expected}, found {found}; {hint}", path.display())]
    Content {
        /// File.
        path: Box<Path>,
        /// "line 17, column latency", "row group 3, column ts".
        at: String,
        /// What was expected there.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        hint: String,
    },
    /// The case could not be written.
    #[error(transparent)]
    Case(Box<case::CaseError>),
    /// Not an error: whoever looked at the begin of a file has seen enough of it. Never leaves this crate.
    #[error("enough was read")]
    Enough,
}

impl ImportError {
    /// An error of the operating system.
    pub fn io(path: &Path, action: &'static str, source: std::io::Error) -> ImportError {
        ImportError::Io {
            path: path.into(),
            action,
            source,
        }
    }

    /// Content that is not what was promised.
    pub fn content(
        path: &Path,
        at: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: impl Into<String>,
    ) -> ImportError {
        ImportError::Content {
            path: path.into(),
            at: at.into(),
            expected: expected.into(),
            found: found.into(),
            hint: hint.into(),
        }
    }
}

impl From<case::CaseError> for ImportError {
    fn from(error: case::CaseError) -> ImportError {
        ImportError::Case(Box::new(error))
    }
}

/// What is wrong with one record; who reads the file knows where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Bad {
    /// Part of the record: a column's name; empty = the whole record.
    pub part: Cow<'static, str>,
    /// What was expected.
    pub expected: Cow<'static, str>,
    /// What is there; cut if long.
    pub found: String,
}

/// Longest piece of a bad record that an error shows.
const FOUND_CHARS_MAX: usize = 80;

impl Bad {
    /// A wrong part of a record.
    pub fn new(
        part: impl Into<Cow<'static, str>>,
        expected: impl Into<Cow<'static, str>>,
        found: &str,
    ) -> Bad {
        let cut: String = found.chars().take(FOUND_CHARS_MAX).collect();
        let rest = if cut.len() < found.len() { "..." } else { "" };
        Bad {
            part: part.into(),
            expected: expected.into(),
            found: format!("'{}{rest}'", cut.escape_debug()),
        }
    }

    /// A part that is not there.
    pub fn none(part: impl Into<Cow<'static, str>>, expected: impl Into<Cow<'static, str>>) -> Bad {
        Bad {
            found: "none".into(),
            ..Bad::new(part, expected, "")
        }
    }
}

/// Why a record could not be taken.
#[derive(Debug)]
pub enum RecordError {
    /// It is not as its format says: `--keep-going` leaves it out.
    Bad(Bad),
    /// Nothing more can be read or written.
    Fatal(ImportError),
}

impl From<Bad> for RecordError {
    fn from(bad: Bad) -> RecordError {
        RecordError::Bad(bad)
    }
}

impl From<ImportError> for RecordError {
    fn from(error: ImportError) -> RecordError {
        RecordError::Fatal(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_cut_and_shown_as_text() {
        let bad = Bad::new("column x", "a number", "a\tb");
        assert_eq!(bad.found, "'a\\tb'");
        let long = Bad::new("", "a number", &"é".repeat(500));
        assert!(long.found.ends_with("...'") && long.found.chars().count() == FOUND_CHARS_MAX + 5);
    }
}
