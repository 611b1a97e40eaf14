//! What can go wrong with a slow disk: where, what was expected, what was found and what to do.
use std::path::PathBuf;

/// A fault text that does not follow the grammar of [`crate::FAULT_HELP`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--fault '{text}': word {word}: expected {expected}, found {found}; e.g. 'read tail 0.001 30ms'")]
pub struct FaultError {
    /// The whole text.
    pub text: String,
    /// Number of the word, from 1.
    pub word: usize,
    /// What the grammar wants there.
    pub expected: String,
    /// What is there, quoted, or "the end".
    pub found: String,
}

/// Errors of starting and stopping a slow disk.
#[derive(Debug, thiserror::Error)]
pub enum SlowdiskError {
    /// A fault text that cannot be parsed.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// An option with a value that cannot be used.
    #[error("{option} {found}: expected {expected}; {hint}")]
    Option {
        /// The option, e.g. `--size`.
        option: &'static str,
        /// Its value.
        found: String,
        /// What is allowed.
        expected: String,
        /// What to do.
        hint: String,
    },
    /// The machine lacks something that a slow disk needs.
    #[error("slowdisk: expected {expected}, found {found}; {hint}")]
    Machine {
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: String,
        /// What to do.
        hint: &'static str,
    },
    /// The backing file or the log cannot be used.
    #[error("{path}: cannot {action}: {source}; {hint}")]
    File {
        /// File.
        path: PathBuf,
        /// Verb phrase.
        action: &'static str,
        /// Cause.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// The operating system refused a step.
    #[error("slowdisk: cannot {action}: {source}; {hint}")]
    System {
        /// Verb phrase.
        action: &'static str,
        /// Cause.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
}
