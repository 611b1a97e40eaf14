//! What can go wrong with a case, always with the path, what was expected, what was found and what to do.
use std::path::PathBuf;

/// Errors of reading and writing cases.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}{hint}")]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Verb phrase ("create", "write raw batch 12").
        action: String,
        /// Cause.
        source: std::io::Error,
        /// What to do, beginning with "; ", or empty.
        hint: String,
    },
    /// The content is not what the format says.
    #[error("{path}: {at}: expected {expected}, found {found}; {hint}")]
    Format {
        /// File.
        path: PathBuf,
        /// Place: "byte 4096", "record 17", "key layers.app".
        at: String,
        /// What the format wants.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        hint: String,
    },
    /// Written by a newer whodisk.
    #[error("{path}: case format version {found}, this whodisk reads up to {supported}; use a newer whodisk")]
    TooNew {
        /// case.json
        path: PathBuf,
        /// Version in the file.
        found: u32,
        /// `schema::FORMAT_VERSION`.
        supported: u32,
    },
}
