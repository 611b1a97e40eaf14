//! What prefetching was good for: accuracy, coverage, timeliness, waste.

/// Bytes since the last reset. A prefetched byte is counted once as issued, and later once as used or as
/// wasted, if at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Prefetches started.
    pub issued_bytes: u64,
    /// Prefetched and then read, late ones included.
    pub used_bytes: u64,
    /// Part of `used_bytes`: read while still in flight, so the reader waited.
    pub late_bytes: u64,
    /// Prefetched and evicted unread.
    pub wasted_bytes: u64,
    /// Read but never prefetched.
    pub missed_bytes: u64,
    /// Chunks not started because too many were in flight.
    pub refused_chunks: u64,
}

impl Account {
    /// Part of what was decided on that was read: `used / (used + wasted)`. None before anything was decided.
    pub fn accuracy(&self) -> Option<f64> {
        part(self.used_bytes, self.used_bytes + self.wasted_bytes)
    }

    /// Part of what was read that had been prefetched: `used / (used + missed)`.
    pub fn coverage(&self) -> Option<f64> {
        part(self.used_bytes, self.used_bytes + self.missed_bytes)
    }

    /// Part of what was used that had arrived in time: `1 - late / used`.
    pub fn timeliness(&self) -> Option<f64> {
        part(self.used_bytes - self.late_bytes, self.used_bytes)
    }

    /// Part of what was issued that was thrown away unread: `wasted / issued`.
    pub fn waste(&self) -> Option<f64> {
        part(self.wasted_bytes, self.issued_bytes)
    }
}

fn part(of: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| of as f64 / whole as f64)
}
