//! What can go wrong with a workload before it runs; errors of single operations are rows, not errors.
use std::path::PathBuf;

/// Errors of reading a specification and of setting a workload up.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The specification is not what `docs/how-to/workload.md` says.
    #[error("{file}: {at}: expected {expected}, found {found}; {hint}")]
    Spec {
        /// File or name of the specification.
        file: String,
        /// `line 3, column 1, key workload.queue_depth`.
        at: String,
        /// What the key accepts.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        hint: String,
    },
    /// A target cannot be used as the specification asks.
    #[error("{path}: expected {expected}, found {found}; {hint}")]
    Target {
        /// The target.
        path: PathBuf,
        /// What the workload needs.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        hint: String,
    },
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}; {hint}")]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Verb phrase.
        action: String,
        /// Cause.
        source: std::io::Error,
        /// What to do.
        hint: String,
    },
    /// io_uring is absent, forbidden, or out of resources.
    #[error("io_uring: cannot {action}: {source}; {hint}")]
    Uring {
        /// Verb phrase.
        action: String,
        /// Cause.
        source: std::io::Error,
        /// What to do.
        hint: String,
    },
    /// The log of operations could not be written. The operations already flushed are kept.
    #[error(transparent)]
    Case(Box<case::CaseError>),
}

impl From<case::CaseError> for WorkloadError {
    fn from(error: case::CaseError) -> Self {
        WorkloadError::Case(Box::new(error))
    }
}
