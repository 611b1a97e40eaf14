//! The engine process behind `whodisk run`.
use crate::args::WorkloadArgs;
use crate::failure::Failure;
use std::path::Path;

/// Reads the specification, so that a wrong one is named before a case exists.
pub fn check(_spec: &Path) -> Result<(), Failure> {
    Ok(())
}

/// Runs the engine.
pub fn main(_args: &WorkloadArgs) -> Result<(), Failure> {
    Err(Failure::error("not built in yet"))
}
