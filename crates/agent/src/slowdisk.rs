//! `whodisk slowdisk`.
use crate::args::SlowdiskArgs;
use crate::failure::Failure;

/// Serves the device until a signal comes.
pub fn main(_args: &SlowdiskArgs) -> Result<(), Failure> {
    Err(Failure::error("not built in yet"))
}
