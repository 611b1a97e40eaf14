//! Twins of the structs in `stack.bpf.c`, byte for byte, and what becomes of them.
use crate::block::{errno, Owner, SLOT_THROTTLED};
use crate::plain::{read, Plain};
use case::rows::{block_flags, BioMemberRow, BioRow};

/// Where a bio comes from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub time_ns: u64,
    pub sector_512: u64,
    pub device: u32,
    pub size_bytes: u32,
}

/// A bio that a volume got.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeBio {
    pub kind: u32,
    pub device: u32,
    pub queue_ns: u64,
    pub complete_ns: u64,
    pub sector_512: u64,
    pub owner: Owner,
    pub origin: Origin,
    pub comm: [u8; 16],
    pub cmd_flags: u32,
    pub pid: i32,
    pub tid: i32,
    pub cpu: u16,
    pub complete_cpu: u16,
    pub status: u8,
    pub flags: u8,
    pub pad: [u8; 6],
}

/// A bio of a member's request that comes from a volume.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub kind: u32,
    pub device: u32,
    pub issue_ns: u64,
    pub sector_512: u64,
    pub origin: Origin,
    pub request_bytes: u32,
    pub size_bytes: u32,
    pub cmd_flags: u32,
    pub hctx: u16,
    pub pad: u16,
}

/// Bytes of a [`VolumeBio`].
pub const BIO_BYTES: usize = size_of::<VolumeBio>();

const _: () = assert!(BIO_BYTES == 152 && size_of::<Member>() == 64);

// SAFETY: integers and bytes without padding between them.
unsafe impl Plain for VolumeBio {}
// SAFETY: as above.
unsafe impl Plain for Member {}

/// What the programs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// `KIND_BIO`.
    Bio(VolumeBio),
    /// `KIND_MEMBER`.
    Member(Member),
}

impl Record {
    /// Reads a record; `None` if it is neither.
    pub fn of(bytes: &[u8]) -> Option<Record> {
        match read::<u32>(bytes)? {
            1 => read(bytes).map(Record::Bio),
            2 => read(bytes).map(Record::Member),
            _ => None,
        }
    }
}

impl VolumeBio {
    /// The row.
    pub fn row(&self) -> BioRow {
        BioRow {
            queue_ns: self.queue_ns,
            complete_ns: self.complete_ns,
            sector_512: self.sector_512,
            op_id: self.owner.op_id,
            owner_key: self.owner.owner_key,
            inode: self.owner.inode,
            file_offset_bytes: self.owner.file_offset_bytes,
            cgroup: self.owner.cgroup,
            origin_ns: self.origin.time_ns,
            origin_sector_512: self.origin.sector_512,
            origin_device: self.origin.device,
            size_bytes: self.owner.size_bytes,
            cmd_flags: self.cmd_flags,
            device: self.device,
            file_device: self.owner.file_device,
            pid: self.pid,
            tid: self.tid,
            error: errno(self.status),
            flags: match self.flags & SLOT_THROTTLED {
                0 => 0,
                _ => block_flags::THROTTLED,
            },
            cpu: self.cpu,
            complete_cpu: self.complete_cpu,
            comm: self.comm,
        }
    }
}

impl Member {
    /// The row.
    pub fn row(&self) -> BioMemberRow {
        BioMemberRow {
            issue_ns: self.issue_ns,
            sector_512: self.sector_512,
            origin_ns: self.origin.time_ns,
            origin_sector_512: self.origin.sector_512,
            origin_device: self.origin.device,
            origin_bytes: self.origin.size_bytes,
            device: self.device,
            request_bytes: self.request_bytes,
            size_bytes: self.size_bytes,
            cmd_flags: self.cmd_flags,
            hctx: self.hctx,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::bytes_of;

    #[test]
    fn records_are_told_by_their_kind() {
        let bio = VolumeBio {
            kind: 1,
            flags: SLOT_THROTTLED,
            ..VolumeBio::default()
        };
        let member = Member {
            kind: 2,
            ..Member::default()
        };
        assert_eq!(Record::of(bytes_of(&bio)), Some(Record::Bio(bio)));
        assert_eq!(Record::of(bytes_of(&member)), Some(Record::Member(member)));
        assert_eq!(Record::of(&[7; 200]), None);
        assert_eq!(Record::of(&bytes_of(&bio)[..20]), None);
        assert_eq!(bio.row().flags, block_flags::THROTTLED);
    }
}
