//! What can go wrong with a scenario before it runs.

/// Errors of reading a scenario and of writing its case. A broken assertion of the simulation is a panic: our bug.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario is not what `docs/reference/lab.md` says.
    #[error("{file}: key {key}: expected {expected}, found {found}; {hint}")]
    Scenario {
        /// File of the scenario, or `--set`.
        file: String,
        /// `device.count`.
        key: String,
        /// What the key accepts.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        hint: String,
    },
    /// The scenario cannot be read.
    #[error(
        "{file}: cannot read the scenario: {source}; name a readable TOML file, or one of `whodisk lab list`"
    )]
    Read {
        /// File.
        file: String,
        /// Cause.
        source: std::io::Error,
    },
    /// Neither a file nor one of the scenarios that come with whodisk.
    #[error("{name}: expected a scenario (a TOML file, or a name of `whodisk lab list`), found no such file and no such name; {hint}")]
    NoScenario {
        /// As it was given.
        name: String,
        /// What to do.
        hint: String,
    },
    /// A file or directory beside the scenario cannot be used.
    #[error("{path}: cannot {doing}: {source}; check the path and its permissions")]
    Io {
        /// Path.
        path: std::path::PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Cause.
        source: std::io::Error,
    },
    /// A case does not hold what is needed of it.
    #[error("{what}: expected {expected}, found {found}; {hint}")]
    Recording {
        /// The case, or one of its tables.
        what: String,
        /// What is needed.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        hint: String,
    },
    /// Its access specification is wrong.
    #[error(transparent)]
    Workload(Box<workload::WorkloadError>),
    /// The case cannot be written.
    #[error(transparent)]
    Case(Box<case::CaseError>),
}

impl From<case::CaseError> for LabError {
    fn from(error: case::CaseError) -> LabError {
        LabError::Case(Box::new(error))
    }
}

impl From<workload::WorkloadError> for LabError {
    fn from(error: workload::WorkloadError) -> LabError {
        LabError::Workload(Box::new(error))
    }
}

impl LabError {
    /// A key with the wrong value.
    pub fn key(
        file: &str,
        key: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: impl Into<String>,
    ) -> LabError {
        LabError::Scenario {
            file: file.into(),
            key: key.into(),
            expected: expected.into(),
            found: found.into(),
            hint: hint.into(),
        }
    }
}
