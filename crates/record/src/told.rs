//! What the recorder itself reads of rows, whatever their probe: whether they are in the scope, and how long it took.
use crate::flight::{OpLayer, Operation};
use crate::scope::Filter;
use case::raw::RawRow;
use case::rows::{
    BioMemberRow, BioRow, BlockCarrierRow, BlockMergeRow, BlockRow, CacheReadRow, CacheWaitRow, FileRow,
    IrqRow, IrqTotalRow, NvmeRow, ReadaheadRow, ReadaheadUseRow, SampleRow, SchedRow, SyscallRow, Via,
    WritebackRow,
};
use case::schema::Op;

/// A row of any stream.
pub trait Told: RawRow + Sync {
    /// Whether it is in the scope. Rows that tell nothing of a program are, and so are those that their log has
    /// judged already.
    fn is_within(&self, _filter: &mut Filter) -> bool {
        true
    }

    /// When what it tells of ended; `u64::MAX` if it has not, or if rows of its kind are no operations.
    fn end_ns(&self) -> u64 {
        u64::MAX
    }

    /// The operation that it tells of, if it has ended and took longer than `limit_ns`.
    fn slow_operation(&self, _limit_ns: u64) -> Option<Operation> {
        None
    }
}

const REQ_OP_MASK: u32 = 0xff;

/// Name of a block request's operation by its `cmd_flags` (`enum req_op`).
pub fn request_op(cmd_flags: u32) -> &'static str {
    match cmd_flags & REQ_OP_MASK {
        0 => "read",
        1 => "write",
        2 => "flush",
        3 | 5 | 9 => "discard",
        _ => "other",
    }
}

/// Name of an operation of a program.
pub fn call_op(op: u8) -> &'static str {
    Op::from_raw(op).map_or("other", Op::name)
}

impl Told for BlockRow {
    fn end_ns(&self) -> u64 {
        if self.complete_ns == 0 {
            u64::MAX
        } else {
            self.complete_ns
        }
    }

    fn slow_operation(&self, limit_ns: u64) -> Option<Operation> {
        let begins = [self.queue_ns, self.start_ns, self.issue_first_ns];
        let start_ns = begins.into_iter().find(|ns| *ns != 0)?;
        let time_ns = self.complete_ns.checked_sub(start_ns)?;
        (time_ns > limit_ns).then(|| Operation {
            layer: OpLayer::Block,
            op: request_op(self.cmd_flags),
            start_ns,
            time_ns,
            device: self.device,
            pid: self.pid,
            tid: self.tid,
            comm: self.comm,
        })
    }
}

impl Told for BlockMergeRow {}

impl Told for BlockCarrierRow {}

impl Told for BioRow {
    fn end_ns(&self) -> u64 {
        if self.complete_ns == 0 {
            u64::MAX
        } else {
            self.complete_ns
        }
    }

    fn slow_operation(&self, limit_ns: u64) -> Option<Operation> {
        let time_ns = self.complete_ns.checked_sub(self.queue_ns)?;
        (time_ns > limit_ns).then(|| Operation {
            layer: OpLayer::Block,
            op: request_op(self.cmd_flags),
            start_ns: self.queue_ns,
            time_ns,
            device: self.device,
            pid: self.pid,
            tid: self.tid,
            comm: self.comm,
        })
    }
}

impl Told for BioMemberRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.uses_disk(self.device)
    }
}

impl Told for FileRow {}
impl Told for IrqRow {}
impl Told for IrqTotalRow {}
impl Told for SampleRow {}
impl Told for NvmeRow {}

impl Told for SyscallRow {
    fn is_within(&self, filter: &mut Filter) -> bool {
        filter.admits_call(self)
    }

    fn end_ns(&self) -> u64 {
        if self.end_ns == 0 {
            u64::MAX
        } else {
            self.end_ns
        }
    }

    fn slow_operation(&self, limit_ns: u64) -> Option<Operation> {
        if self.start_ns == 0 || self.via == Via::Wait as u8 {
            return None;
        }
        let time_ns = self.end_ns.checked_sub(self.start_ns)?;
        (time_ns > limit_ns).then(|| Operation {
            layer: OpLayer::Syscall,
            op: call_op(self.op),
            start_ns: self.start_ns,
            time_ns,
            device: self.device,
            pid: self.pid,
            tid: self.tid,
            comm: self.comm,
        })
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
