//! What can go wrong with a foreign file: where, what was expected, what was found, what to do.
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
