//! Parquet at rest.
use crate::schema::{EventRow, GapRow, Layer, LinkRow, LossRow, NameId, OpRow};
use crate::CaseError;
use std::path::Path;

/// Interner of names that dictionary columns refer to. Order of first use is the order of ids.
#[derive(Debug, Default)]
pub struct Names {}

impl Names {
    /// The id of `name`, new if never seen.
    pub fn id(&mut self, _name: &str) -> NameId {
        todo!()
    }
    /// The name behind an id of this interner.
    pub fn get(&self, _id: NameId) -> &str {
        todo!()
    }
}

/// Writes the Parquet tables of a case. Same rows in the same order give the same bytes.
/// Tables are written under temporary names and renamed by [`SealWriter::finish`], so a killed seal leaves nothing half.
pub struct SealWriter {}

impl SealWriter {
    /// Begins sealing into `case_dir`.
    pub fn create(_case_dir: &Path) -> Result<Self, CaseError> {
        todo!()
    }
    /// Appends to `ops/layer=<layer>/`. Rows should come in order of `start_ns`.
    pub fn op(&mut self, _layer: Layer, _row: &OpRow, _names: &Names) -> Result<(), CaseError> {
        todo!()
    }
    /// Appends to `links/`.
    pub fn link(&mut self, _row: &LinkRow) -> Result<(), CaseError> {
        todo!()
    }
    /// Appends to `gaps/`.
    pub fn gap(&mut self, _row: &GapRow, _names: &Names) -> Result<(), CaseError> {
        todo!()
    }
    /// Appends to `losses/`.
    pub fn loss(&mut self, _row: &LossRow) -> Result<(), CaseError> {
        todo!()
    }
    /// Appends to `events/`.
    pub fn event(&mut self, _row: &EventRow) -> Result<(), CaseError> {
        todo!()
    }
    /// Writes and renames everything; empty tables are written too, with their schema (ops only for layers that were declared with [`SealWriter::declare`] or have rows).
    pub fn finish(self) -> Result<(), CaseError> {
        todo!()
    }
    /// Makes sure `ops/layer=<layer>/` exists even if no row comes.
    pub fn declare(&mut self, _layer: Layer) {
        todo!()
    }
}
