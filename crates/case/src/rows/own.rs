//! Raw rows of what a program says of itself.
use crate::raw::raw_row;

/// An operation as the program itself saw it (`raw/own/own.arrows`): out of its own log, written when it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnRow {
    /// When it was due; `submit_ns` where nothing was due.
    pub start_ns: u64,
    /// When the program began with it; at least `start_ns`.
    pub submit_ns: u64,
    /// When it had ended; at least `submit_ns`.
    pub end_ns: u64,
    /// Thread that made its system calls; 0 = not known.
    pub tid: i32,
    /// `schema::Op` discriminant.
    pub op: u8,
    /// Place in its file; 0 where `size_bytes` is.
    pub offset_bytes: u64,
    /// Bytes asked for; 0 = not known.
    pub size_bytes: u64,
    /// 0 or errno (positive).
    pub error: i32,
}

raw_row!(OwnRow, "own", {
    start_ns: u64,
    submit_ns: u64,
    end_ns: u64,
    tid: i32,
    op: u8,
    offset_bytes: u64,
    size_bytes: u64,
    error: i32,
});
