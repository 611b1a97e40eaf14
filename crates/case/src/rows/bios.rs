//! Raw rows of volumes (dm, md): the bios that they get, and the members' requests that come of them.
use crate::raw::raw_row;

/// A bio that a volume got (`raw/bio/bio.arrows`), appended when it ends, or at the end of the recording if it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BioRow {
    /// Queued to the volume.
    pub queue_ns: u64,
    /// Ended; 0 = still open when the recording ended.
    pub complete_ns: u64,
    /// First sector, 512-byte units of the whole volume.
    pub sector_512: u64,
    /// As in [`crate::rows::BlockRow::op_id`].
    pub op_id: u64,
    /// As in [`crate::rows::BlockRow::owner_key`].
    pub owner_key: u64,
    /// As in [`crate::rows::BlockRow::inode`].
    pub inode: u64,
    /// As in [`crate::rows::BlockRow::file_offset_bytes`].
    pub file_offset_bytes: u64,
    /// As in [`crate::rows::BlockRow::cgroup`].
    pub cgroup: u64,
    /// When a volume above sent it down to this one; 0 = none did.
    pub origin_ns: u64,
    /// Its place there.
    pub origin_sector_512: u64,
    /// That volume.
    pub origin_device: u32,
    /// Bytes of data.
    pub size_bytes: u32,
    /// Kernel `bi_opf` (`REQ_OP_*` in the low 8 bits).
    pub cmd_flags: u32,
    /// Kernel dev_t of the volume.
    pub device: u32,
    /// As in [`crate::rows::BlockRow::file_device`].
    pub file_device: u32,
    /// Process that queued it.
    pub pid: i32,
    /// Thread that queued it.
    pub tid: i32,
    /// Errno (positive), 0 = success.
    pub error: i32,
    /// `block_flags`.
    pub flags: u32,
    /// CPU that queued it.
    pub cpu: u16,
    /// CPU that ended it.
    pub complete_cpu: u16,
    /// Command name of the thread, NUL padded.
    pub comm: [u8; 16],
}

/// A bio inside of a member's request that comes from a volume (`raw/bio_member/bio_member.arrows`), appended when the request
/// is issued; once more when it is issued again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BioMemberRow {
    /// The request was issued: within moments after `BlockRow::issue_first_ns`, or `issue_ns`.
    pub issue_ns: u64,
    /// As in [`crate::rows::BlockRow::sector_512`] of the request.
    pub sector_512: u64,
    /// When the volume sent the bio down.
    pub origin_ns: u64,
    /// Place in the volume that the bio comes from.
    pub origin_sector_512: u64,
    /// The volume.
    pub origin_device: u32,
    /// Bytes of the bio when it was sent down. The member may have split it since.
    pub origin_bytes: u32,
    /// The member's disk.
    pub device: u32,
    /// As in [`crate::rows::BlockRow::size_bytes`] of the request.
    pub request_bytes: u32,
    /// Bytes of this bio.
    pub size_bytes: u32,
    /// As in [`crate::rows::BlockRow::cmd_flags`] of the request.
    pub cmd_flags: u32,
    /// As in [`crate::rows::BlockRow::hctx`] of the request.
    pub hctx: u16,
}

raw_row!(BioRow, "bio", {
    queue_ns: u64,
    complete_ns: u64,
    sector_512: u64,
    op_id: u64,
    owner_key: u64,
    inode: u64,
    file_offset_bytes: u64,
    cgroup: u64,
    origin_ns: u64,
    origin_sector_512: u64,
    origin_device: u32,
    size_bytes: u32,
    cmd_flags: u32,
    device: u32,
    file_device: u32,
    pid: i32,
    tid: i32,
    error: i32,
    flags: u32,
    cpu: u16,
    complete_cpu: u16,
    comm: [u8; 16],
});

raw_row!(BioMemberRow, "bio_member", {
    issue_ns: u64,
    sector_512: u64,
    origin_ns: u64,
    origin_sector_512: u64,
    origin_device: u32,
    origin_bytes: u32,
    device: u32,
    request_bytes: u32,
    size_bytes: u32,
    cmd_flags: u32,
    hctx: u16,
});
