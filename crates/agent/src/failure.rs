//! Errors as a person sees them: one or two plain lines and an exit code.
use std::fmt::{self, Display};

/// Exit code of a requested check that failed (`verify`).
pub const CHECK_FAILED: u8 = 1;
/// Exit code of wrong use or an error.
pub const ERROR: u8 = 2;

/// What the binary says before it ends with an exit code other than 0.
#[derive(Clone, Debug)]
pub struct Failure {
    /// [`CHECK_FAILED`], [`ERROR`], or of a signal; 0 where the rest of the output is not wanted any more.
    pub code: u8,
    /// Printed after `whodisk: `; empty if everything was said already.
    pub message: String,
}

impl Failure {
    /// Wrong use, or something went wrong: exit code 2.
    pub fn error(message: impl Display) -> Failure {
        Failure {
            code: ERROR,
            message: message.to_string(),
        }
    }

    /// Whoever read stdout had enough: nothing more to do, and nothing wrong.
    pub fn nobody_reads() -> Failure {
        Failure {
            code: 0,
            message: String::new(),
        }
    }

    /// A signal ended it, as shells count: 128 and its number.
    pub fn interrupted(signal: i32) -> Failure {
        Failure {
            code: 128 + signal as u8,
            message: "interrupted".to_owned(),
        }
    }

    /// A check that was asked for failed, and its result was printed: exit code 1.
    pub fn check() -> Failure {
        Failure {
            code: CHECK_FAILED,
            message: String::new(),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<case::CaseError> for Failure {
    fn from(error: case::CaseError) -> Failure {
        Failure::error(error)
    }
}

/// Builds the failure of a system call on a path, with what to do where that is known.
pub fn io_failure(path: &std::path::Path, action: &str, error: &std::io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "; free space there, or use another place",
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => "; use a writable place",
        Some(libc::ENOENT) => "; check the path",
        _ => "",
    };
    Failure::error(format!("{}: cannot {action}: {error}{hint}", path.display()))
}
