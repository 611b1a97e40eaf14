//! Integrity of a case: what is there, what is missing, what contradicts the format.
use crate::CaseError;
use std::path::Path;

/// One thing verify found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// File, relative to the case.
    pub path: String,
    /// Record or byte.
    pub at: String,
    /// Expected.
    pub expected: String,
    /// Found.
    pub found: String,
    /// What to do.
    pub hint: String,
}

/// What verify says.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Rows checked per table.
    pub rows: std::collections::BTreeMap<String, u64>,
    /// Contradictions: the case fails.
    pub problems: Vec<Problem>,
    /// Honest losses that the case itself declares, or a cut tail: the case is readable, but not whole.
    pub missing: Vec<String>,
}

/// Checks a sealed or unsealed case.
pub fn verify(_case_dir: &Path) -> Result<Report, CaseError> {
    todo!()
}
