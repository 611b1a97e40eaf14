//! The case format: a directory that holds everything one investigation knows.
//!
//! * [`schema`]: layers, kinds, flags, stages and sealed rows.
//! * [`rows`]: raw rows, as observers append them.
//! * [`raw`]: append-only LZ4 Arrow IPC streams, readable after a crash up to the last batch.
//! * [`sealed`]: tuned Parquet at rest.
//! * [`tables`]: the sealed tables, column by column.
//! * [`meta`]: `case.json` and `system.json`.
//! * [`completeness`]: how much of a layer is missing.
//! * [`redact`]: a copy without names.
//! * [`verify`]: integrity of a case.
pub mod completeness;
pub mod error;
mod groups;
mod host;
mod journals;
pub mod meta;
mod nearest;
pub mod raw;
pub mod redact;
pub mod rows;
pub mod schema;
pub mod sealed;
pub mod servers;
pub mod tables;
pub mod verify;

pub use error::CaseError;
pub use nearest::nearest;
