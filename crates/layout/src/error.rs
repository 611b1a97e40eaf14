//! What can go wrong with a layout: which file, what was expected, what was found and what to do.
use std::io;
use std::path::{Path, PathBuf};

/// Errors of measuring and moving. Whatever the error, the file is whole.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A file that this cannot be done to.
    #[error("{path}: expected {expected}, found {found}; {hint}")]
    File {
        /// File.
        path: PathBuf,
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: String,
        /// What to do.
        hint: &'static str,
    },
    /// The operating system refused a step.
    #[error("{path}: cannot {action}: {source}{hint}")]
    System {
        /// File.
        path: PathBuf,
        /// Verb phrase.
        action: &'static str,
        /// Cause.
        source: io::Error,
        /// What to do, after `; `; empty where that is not known.
        hint: &'static str,
    },
    /// The contents of a copy or of a moved file are not those that were read before.
    #[error("{path}: expected contents with checksum {before:016x}, found {after:016x} {place}; {hint}")]
    Contents {
        /// File.
        path: PathBuf,
        /// XXH64 before.
        before: u64,
        /// XXH64 after.
        after: u64,
        /// Where they were found.
        place: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// Somebody asked to stop.
    #[error("{path}: stopped; the file is whole, and the same command goes on")]
    Stopped {
        /// File.
        path: PathBuf,
    },
}

impl LayoutError {
    /// Wraps an error of the operating system.
    pub(crate) fn system(path: &Path, action: &'static str, source: io::Error) -> LayoutError {
        let hint = match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => "; free space on this file system",
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => "; do it as the owner of the file, or as root",
            Some(libc::EOPNOTSUPP | libc::ENOTTY) => "; this file system cannot do it",
            Some(libc::ENOENT) => "; check the path",
            _ => "",
        };
        LayoutError::System {
            path: path.to_owned(),
            action,
            source,
            hint,
        }
    }

    /// A file that this cannot be done to.
    pub(crate) fn file(
        path: &Path,
        expected: &'static str,
        found: impl Into<String>,
        hint: &'static str,
    ) -> LayoutError {
        LayoutError::File {
            path: path.to_owned(),
            expected,
            found: found.into(),
            hint,
        }
    }
}
