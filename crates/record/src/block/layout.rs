//! Twins of the structs in `block.bpf.c`, byte for byte, and what becomes of them.
use case::rows::{BlockMergeRow, BlockRow};

/// A finished (or, at the end of a recording, an open) request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRecord {
    pub queue_ns: u64,
    pub start_ns: u64,
    pub insert_ns: u64,
    pub issue_first_ns: u64,
    pub issue_ns: u64,
    pub irq_ns: u64,
    pub complete_ns: u64,
    pub sector_512: u64,
    pub op_id: u64,
    pub merge_key: u64,
    pub size_bytes: u32,
    pub cmd_flags: u32,
    pub device: u32,
    pub pid: i32,
    pub tid: i32,
    pub vector: i32,
    pub cpu: u16,
    pub complete_cpu: u16,
    pub hctx: u16,
    pub requeues: u16,
    pub merges: u16,
    pub status: u8,
    pub pad: u8,
    pub own: u32,
    pub comm: [u8; 16],
}

/// A bio beyond the first of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeRecord {
    pub merge_key: u64,
    pub op_id: u64,
    pub size_bytes: u32,
    pub pad: u32,
}

/// An entry of the table of requests in flight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    pub request: u64,
    pub record: BlockRecord,
    pub pad: [u64; 6],
}

const _: () = assert!(size_of::<BlockRecord>() == 136);
const _: () = assert!(size_of::<MergeRecord>() == 24);
const _: () = assert!(size_of::<Slot>() == 192);

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
}

/// Types of plain integers that may be read from any bytes of their size.
///
/// # Safety
/// Implement only for `repr(C)` types whose every bit pattern is valid.
pub unsafe trait Plain: Copy {}
unsafe impl Plain for BlockRecord {}
unsafe impl Plain for MergeRecord {}
unsafe impl Plain for Slot {}
unsafe impl Plain for Counters {}

/// Reads a value from the begin of `bytes`; `None` if they are too few.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: enough bytes, and `Plain` accepts any of them; read_unaligned needs no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Merge keys have this bit once they are request keys, so they never equal a counted key.
const MERGED_KEY: u64 = 1 << 63;

impl BlockRecord {
    /// The row; `sequence` makes its key unique unless merge records refer to it.
    pub fn row(&self, sequence: u64) -> BlockRow {
        let request_key =
            if self.merge_key == 0 { sequence } else { MERGED_KEY | self.merge_key };
        BlockRow {
            request_key,
            op_id: self.op_id,
            queue_ns: self.queue_ns,
            start_ns: self.start_ns,
            insert_ns: self.insert_ns,
            issue_first_ns: self.issue_first_ns,
            issue_ns: self.issue_ns,
            irq_ns: self.irq_ns,
            complete_ns: self.complete_ns,
            sector_512: self.sector_512,
            size_bytes: self.size_bytes,
            cmd_flags: self.cmd_flags,
            device: self.device,
            pid: self.pid,
            tid: self.tid,
            vector: self.vector,
            error: errno(self.status),
            cpu: self.cpu,
            complete_cpu: self.complete_cpu,
            hctx: self.hctx,
            requeues: self.requeues,
            merges: self.merges,
            comm: self.comm,
        }
    }
}

impl MergeRecord {
    /// The row.
    pub fn row(&self) -> BlockMergeRow {
        BlockMergeRow {
            request_key: MERGED_KEY | self.merge_key,
            op_id: self.op_id,
            size_bytes: self.size_bytes,
        }
    }
}

impl Slot {
    /// The record of a request still open, as it stood. Facts that only a completion gives are absent.
    pub fn open_record(&self) -> BlockRecord {
        BlockRecord { irq_ns: 0, complete_ns: 0, vector: -1, complete_cpu: 0, ..self.record }
    }
}

/// Errno behind a `blk_status_t` (`blk_errors[]` of block/blk-core.c). Numbers up to 13 have been the same
/// since 4.13; later ones moved between kernels and, like unknown ones, become EIO.
fn errno(status: u8) -> i32 {
    match status {
        0 => 0,
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

    #[test]
    fn short_records_are_refused() {
        assert!(read::<BlockRecord>(&[0; 135]).is_none());
        assert_eq!(read::<MergeRecord>(&[0; 24]), Some(MergeRecord::default()));
    }

    #[test]
    fn a_merged_request_and_its_bios_share_a_key_that_no_counted_key_equals() {
        let request = BlockRecord { merge_key: 7, ..Default::default() };
        let bio = MergeRecord { merge_key: 7, op_id: 9, size_bytes: 4096, pad: 0 };
        assert_eq!(request.row(3).request_key, bio.row().request_key);
        assert_ne!(request.row(3).request_key, BlockRecord::default().row(7).request_key);
    }

    #[test]
    fn unknown_status_is_an_error() {
        assert_eq!(errno(0), 0);
        assert_eq!(errno(10), libc::EIO);
        assert_eq!(errno(250), libc::EIO);
    }

    #[test]
    fn an_open_request_has_no_completion() {
        let record = BlockRecord { complete_ns: 5, vector: 3, issue_ns: 4, ..Default::default() };
        let open = Slot { request: 1, record, pad: [0; 6] }.open_record();
        assert_eq!((open.complete_ns, open.vector, open.issue_ns), (0, -1, 4));
    }
}
