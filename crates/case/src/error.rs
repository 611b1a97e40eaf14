//! What can go wrong with a case, always with the path, what was expected, what was found and what to do.
use std::path::{Path, PathBuf};

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
    #[error(
        "{path}: case format version {found}, this whodisk reads up to {supported}; use a newer whodisk"
    )]
    TooNew {
        /// case.json
        path: PathBuf,
        /// Version in the file.
        found: u32,
        /// `schema::FORMAT_VERSION`.
        supported: u32,
    },
}

impl CaseError {
    /// An operating-system error with the hint that belongs to its errno.
    pub fn io(path: &Path, action: impl Into<String>, source: std::io::Error) -> CaseError {
        let hint = hint_of(&source);
        CaseError::Io {
            path: path.to_owned(),
            action: action.into(),
            source,
            hint,
        }
    }

    /// Content that is not what the format says.
    pub fn format(
        path: &Path,
        at: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: impl Into<String>,
    ) -> CaseError {
        CaseError::Format {
            path: path.to_owned(),
            at: at.into(),
            expected: expected.into(),
            found: found.into(),
            hint: hint.into(),
        }
    }
}

/// What a person can do about an errno; begins with "; ", or is empty where the message says it all.
fn hint_of(source: &std::io::Error) -> String {
    let hint = match source.raw_os_error() {
        Some(libc::ENOSPC) => "free space on that file system, or use another one",
        Some(libc::EDQUOT) => "raise the disk quota of this user, or use another file system",
        Some(libc::EIO) => {
            "the medium below reports an I/O error: see the kernel log, and use another device"
        }
        Some(libc::EROFS) => "that file system is read-only: use another one",
        Some(libc::EACCES | libc::EPERM) => "check the owner and mode of that path, or use another directory",
        Some(libc::EEXIST) => "a case is never overwritten: use a new directory, or remove the old one",
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
        _ => return String::new(),
    };
    format!("; {hint}")
}
