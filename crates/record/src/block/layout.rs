//! Twins of the structs in `block.bpf.c`, byte for byte, and what becomes of them.
use crate::flight::{OpLayer, Operation};
use crate::kernel;
use crate::plain::Plain;
use crate::told::request_op;
use case::rows::{block_flags, BlockCarrierRow, BlockMergeRow, BlockRow};
use std::sync::LazyLock;

/// What is known of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub queue_ns: u64,
    pub start_ns: u64,
    pub insert_ns: u64,
    pub issue_first_ns: u64,
    pub issue_ns: u64,
    pub sector_512: u64,
    pub size_bytes: u32,
    pub cmd_flags: u32,
    pub device: u32,
    pub pid: i32,
    pub tid: i32,
    pub cpu: u16,
    pub hctx: u16,
    pub requeues: u16,
    pub merges: u16,
    pub status: u8,
    pub flags: u8,
    pub index: u16,
    pub comm: [u8; 16],
    pub op_id: u64,
    pub merge_key: u64,
}

/// A request in flight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub request: u64,
    pub active: u64,
    pub facts: Facts,
}

/// A request that has no slot in the table, and who is behind it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverflowSlot {
    pub slot: Slot,
    pub owner: Owner,
}

/// In [`BlockRecord::vector`]: nobody saw how it completed.
pub const VECTOR_UNSEEN: i32 = -2;

/// `SLOT_OWN`: the recorder's own.
pub const SLOT_OWN: u8 = 1;
/// `SLOT_THROTTLED`: its bio was held back before it was queued.
pub const SLOT_THROTTLED: u8 = 2;
/// `SLOT_SCOPED`: a process in the scope submitted it.
pub const SLOT_SCOPED: u8 = 4;
/// `SLOT_KERNEL`: a thread of the kernel submitted it.
pub const SLOT_KERNEL: u8 = 8;

/// What is behind a bio.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub op_id: u64,
    pub owner_key: u64,
    pub stack_key: u64,
    pub inode: u64,
    pub file_offset_bytes: u64,
    pub cgroup: u64,
    pub file_device: u32,
    pub size_bytes: u32,
}

/// A finished (or, at the end of a recording, an open) request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRecord {
    pub irq_ns: u64,
    pub complete_ns: u64,
    pub facts: Facts,
    pub owner: Owner,
    pub vector: i32,
    pub complete_cpu: u16,
    /// Errno, where the completion was not seen and `facts.status` does not know.
    pub error: u16,
}

/// A request with a completion that passed unseen, some time before `before_ns`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    pub slot: Slot,
    pub before_ns: u64,
    pub owner: Owner,
}

/// A bio beyond the first of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeRecord {
    pub merge_key: u64,
    pub owner: Owner,
}

/// What a carrier waited for in the flush machinery: its data, or a flush command.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarrierRecord {
    pub carrier_key: u64,
    pub flush_key: u64,
    pub issue_ns: u64,
    pub irq_ns: u64,
    pub done_ns: u64,
}

const _: () = assert!(size_of::<BlockRecord>() == 192);
const _: () = assert!(size_of::<Unfinished>() == 192);
const _: () = assert!(size_of::<MergeRecord>() == 64);
const _: () = assert!(size_of::<Slot>() == 128);
const _: () = assert!(size_of::<OverflowSlot>() == 184);

/// `enum counter`, in its order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub ring_full: u64,
    pub merge_ring_full: u64,
    pub map_full: u64,
    pub no_state: u64,
    pub no_complete: u64,
    pub walk_cut: u64,
    pub own_requests: u64,
    pub own_bytes: u64,
    pub requests_merged: u64,
    pub partial: u64,
    pub overflow: u64,
    pub queue_unseen: u64,
    pub scope_full: u64,
    pub carrier_ring_full: u64,
    pub carriers_cut: u64,
}

// SAFETY: integers and bytes without padding between them.
unsafe impl Plain for BlockRecord {}
unsafe impl Plain for MergeRecord {}
// SAFETY: as above.
unsafe impl Plain for CarrierRecord {}
// SAFETY: as above.
unsafe impl Plain for Slot {}
// SAFETY: as above.
unsafe impl Plain for OverflowSlot {}
// SAFETY: as above.
unsafe impl Plain for Owner {}
// SAFETY: as above.
unsafe impl Plain for Unfinished {}
// SAFETY: as above.
unsafe impl Plain for Counters {}

/// Keys that the kernel programs gave have this bit once they are request keys, so they never equal a counted key.
const GIVEN_KEY: u64 = 1 << 63;

/// The request key for a key that the kernel programs gave; 0 stays 0.
fn given(key: u64) -> u64 {
    match key {
        0 => 0,
        key => GIVEN_KEY | key,
    }
}

impl BlockRecord {
    /// The row; `sequence` makes its key unique unless other records refer to it.
    pub fn row(&self, sequence: u64) -> BlockRow {
        let facts = &self.facts;
        let request_key = match facts.merge_key {
            0 => sequence,
            key => given(key),
        };
        BlockRow {
            request_key,
            op_id: facts.op_id,
            queue_ns: facts.queue_ns,
            start_ns: facts.start_ns,
            insert_ns: facts.insert_ns,
            issue_first_ns: facts.issue_first_ns,
            issue_ns: facts.issue_ns,
            irq_ns: self.irq_ns,
            complete_ns: self.complete_ns,
            sector_512: facts.sector_512,
            size_bytes: facts.size_bytes,
            cmd_flags: facts.cmd_flags,
            device: facts.device,
            pid: facts.pid,
            tid: facts.tid,
            vector: self.vector.max(-1),
            error: match self.error {
                0 => errno(facts.status),
                error => i32::from(error),
            },
            cpu: facts.cpu,
            complete_cpu: self.complete_cpu,
            hctx: facts.hctx,
            requeues: facts.requeues,
            merges: facts.merges,
            owner_key: self.owner.owner_key,
            stack_key: self.owner.stack_key,
            inode: self.owner.inode,
            file_offset_bytes: self.owner.file_offset_bytes,
            cgroup: self.owner.cgroup,
            file_device: self.owner.file_device,
            flags: self.flags(),
            comm: facts.comm,
        }
    }
}

impl BlockRecord {
    fn flags(&self) -> u32 {
        let throttled = match self.facts.flags & SLOT_THROTTLED {
            0 => 0,
            _ => block_flags::THROTTLED,
        };
        let unseen = match self.vector {
            VECTOR_UNSEEN => block_flags::INTERRUPT_UNSEEN,
            _ => 0,
        };
        let kernel = match self.facts.flags & SLOT_KERNEL {
            0 => 0,
            _ => block_flags::KERNEL,
        };
        throttled | unseen | kernel
    }
}

impl MergeRecord {
    /// The row.
    pub fn row(&self) -> BlockMergeRow {
        BlockMergeRow {
            request_key: given(self.merge_key),
            op_id: self.owner.op_id,
            owner_key: self.owner.owner_key,
            inode: self.owner.inode,
            file_offset_bytes: self.owner.file_offset_bytes,
            file_device: self.owner.file_device,
            size_bytes: self.owner.size_bytes,
        }
    }
}

impl CarrierRecord {
    /// The row.
    pub fn row(&self) -> BlockCarrierRow {
        BlockCarrierRow {
            carrier_key: given(self.carrier_key),
            flush_key: given(self.flush_key),
            issue_ns: self.issue_ns,
            irq_ns: self.irq_ns,
            done_ns: self.done_ns,
        }
    }
}

impl Slot {
    /// The request as triggers see it: in flight at `now_ns`.
    pub fn operation(&self, now_ns: u64) -> Operation {
        Operation {
            layer: OpLayer::Block,
            op: request_op(self.facts.cmd_flags),
            start_ns: self.active,
            time_ns: now_ns.saturating_sub(self.active),
            device: self.facts.device,
            pid: self.facts.pid,
            tid: self.facts.tid,
            comm: self.facts.comm,
        }
    }

    /// The record of a request that is still open.
    pub fn open_record(self, owner: Owner) -> BlockRecord {
        BlockRecord {
            facts: self.facts,
            vector: -1,
            owner,
            ..Default::default()
        }
    }
}

/// Errno behind a `blk_status_t` (`blk_errors[]` of block/blk-core.c). Numbers up to 13 have been the same
/// since 4.13; later ones moved between kernels and, like unknown ones, become EIO. So do all on a kernel that is not among
/// [`kernel::STATUSES`], and the recorder says so once.
pub fn errno(status: u8) -> i32 {
    static KNOWN: LazyLock<bool> = LazyLock::new(|| kernel::known(&kernel::STATUSES).is_ok());
    match status {
        0 => 0,
        _ if !*KNOWN => libc::EIO,
        1 => libc::EOPNOTSUPP,
        2 => libc::ETIMEDOUT,
        3 => libc::ENOSPC,
        4 => libc::ENOLINK,
        5 => libc::EREMOTEIO,
        6 => libc::EBADE,
        7 => libc::ENODATA,
        8 => libc::EILSEQ,
        9 => libc::ENOMEM,
        12 => libc::EAGAIN,
        13 => libc::EBUSY,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::read;

    #[test]
    fn short_records_are_refused() {
        assert!(read::<Slot>(&[0; 127]).is_none());
        assert_eq!(read::<MergeRecord>(&[0; 64]), Some(MergeRecord::default()));
    }

    #[test]
    fn a_merged_request_and_its_bios_share_a_key_that_no_counted_key_equals() {
        let facts = Facts {
            merge_key: 7,
            ..Default::default()
        };
        let request = BlockRecord {
            facts,
            ..Default::default()
        };
        let bio = MergeRecord {
            merge_key: 7,
            owner: Owner::default(),
        };
        assert_eq!(request.row(3).request_key, bio.row().request_key);
        assert_ne!(
            request.row(3).request_key,
            BlockRecord::default().row(7).request_key
        );
    }

    #[test]
    fn unknown_status_is_an_error() {
        assert_eq!(errno(0), 0);
        assert_eq!(errno(10), libc::EIO);
        assert_eq!(errno(250), libc::EIO);
    }

    #[test]
    fn an_open_request_has_no_completion() {
        let facts = Facts {
            issue_ns: 4,
            ..Default::default()
        };
        let row = Slot {
            facts,
            ..Default::default()
        }
        .open_record(Owner::default())
        .row(1);
        assert_eq!(
            (row.complete_ns, row.irq_ns, row.vector, row.issue_ns),
            (0, 0, -1, 4)
        );
    }
}
