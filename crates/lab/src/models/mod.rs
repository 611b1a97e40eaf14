//! Pure models: what a part of the stack does, without queues, events or clocks of their own.
//!
//! | model | its real counterpart |
//! |---|---|
//! | [`allocator`] | a copy-on-write allocator: checkpoints, ageing of free space, layout score, reallocation |
//! | [`cache`] | replacement policies: LRU, ARC, S3-FIFO |
//! | [`by_depth`] | durations that depend on how many operations are in flight, as measured |
//! | [`distribution`] | how long something takes, when it is not worth a mechanism |
//! | [`guest_fs`] | where the pieces of a guest's file lie on its virtual disk |
//! | [`hdd`] | a disk: arm, platter, zones, write cache, command reordering |
//! | [`prefetch`] | an array's prefetcher, with the account of what it was good for |
//! | [`presets`] | drives by name |
//! | [`ssd`] | a flash drive: channels, dies, mapping, garbage collection, write buffer |
//!
//! Time comes in as `now_ns`, randomness as a `workload::rng::Rng`; the same calls give the same answers.
//! Parameters are plain structs with units in the field names; a constructor refuses what is out of range
//! with a [`ParameterError`].
pub mod allocator;
pub mod by_depth;
pub mod cache;
pub mod distribution;
pub mod guest_fs;
pub mod hdd;
pub mod prefetch;
pub mod presets;
pub mod ssd;

/// A parameter is out of range; scenario files put the table's name in front of the key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key}: expected {expected}, found {found}")]
pub struct ParameterError {
    /// The field, as a scenario file writes it.
    pub key: &'static str,
    /// The legal range, with its unit.
    pub expected: &'static str,
    /// What was there.
    pub found: String,
}

/// `Ok` if `legal`, else an error that names `key`, what was `expected` and the `found` value.
pub(crate) fn require(
    legal: bool,
    key: &'static str,
    expected: &'static str,
    found: impl std::fmt::Display,
) -> Result<(), ParameterError> {
    let found = found.to_string();
    if legal {
        Ok(())
    } else {
        Err(ParameterError { key, expected, found })
    }
}
