//! FS_IOC_FIEMAP: the extents of a file. Source: include/uapi/linux/fiemap.h.
use crate::score::Extent;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
const FIEMAP_FLAG_SYNC: u32 = 1;
const LAST: u32 = 0x1;
/// No address (unknown, delayed), or none of its own (encoded, inline, a tail packed with others).
const NOT_PLACED: u32 = 0x2 | 0x4 | 0x8 | 0x200 | 0x400;
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

/// Extents per call.
const BATCH: usize = 1024;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; BATCH],
}

const _: () = assert!(size_of::<FiemapExtent>() == 56 && size_of::<Fiemap>() == 32 + 56 * BATCH);

/// Extents of the bytes `[start, end)` of `file`, in order, what is dirty written first. Compressed extents of btrfs have no address of
/// their own. Cost: a call per 1,024 extents. Error: those of the file system; EOPNOTSUPP where it has no such call.
pub fn extents(file: &File, start: u64, end: u64) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut map = Box::new(Fiemap {
        start,
        length: 0,
        flags: FIEMAP_FLAG_SYNC,
        mapped_extents: 0,
        extent_count: BATCH as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); BATCH],
    });
    while map.start < end {
        map.length = end - map.start;
        // SAFETY: the kernel writes at most `extent_count` extents, which the structure has.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, std::ptr::from_mut(&mut *map)) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let batch = &map.extents[..map.mapped_extents as usize];
        found.extend(
            batch
                .iter()
                .filter(|e| e.length > 0 && e.logical < end)
                .map(|e| Extent {
                    logical: e.logical,
                    physical: e.physical,
                    length: e.length,
                    placed: e.flags & NOT_PLACED == 0,
                    shared: e.flags & SHARED != 0,
                    unwritten: e.flags & UNWRITTEN != 0,
                }),
        );
        match batch.last() {
            Some(last) if last.flags & LAST == 0 => map.start = last.logical + last.length,
            _ => break,
        }
    }
    Ok(found)
}
