//! What the recorder itself reads of rows, whatever their probe: whether they are in the scope.
use crate::scope::Filter;
use case::raw::RawRow;
use case::rows::{
    BlockMergeRow, BlockRow, CacheReadRow, CacheWaitRow, FileRow, IrqRow, IrqTotalRow, ReadaheadRow,
    ReadaheadUseRow, SampleRow, SchedRow, SyscallRow, WritebackRow,
};

/// A row of any stream.
pub trait Told: RawRow {
    /// Whether it is in the scope. Rows that tell nothing of a program are, and so are those that their log has
    /// judged already.
    fn is_within(&self, _filter: &mut Filter) -> bool {
        true
    }
}

impl Told for BlockRow {}
impl Told for BlockMergeRow {}
impl Told for FileRow {}
impl Told for IrqRow {}
impl Told for IrqTotalRow {}
impl Told for SampleRow {}

impl Told for SyscallRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.admits_call(self)
    }
}

impl Told for SchedRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.admits_wait(self.tid)
    }
}

impl Told for WritebackRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.admits_writeback(self)
    }
}

impl Told for CacheReadRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.admits_file((self.device, self.inode))
    }
}

impl Told for CacheWaitRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.admits_file((self.device, self.inode))
    }
}

impl Told for ReadaheadRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.admits_file((self.device, self.inode))
    }
}

impl Told for ReadaheadUseRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.admits_file((self.device, self.inode))
    }
}
