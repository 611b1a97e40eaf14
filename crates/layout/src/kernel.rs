//! Calls that move blocks, each of which leaves the file whole, whenever the process ends.
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

// Numbers of fs/ext4/ext4.h, fs/xfs/libxfs/xfs_fs.h, include/uapi/linux/{btrfs,fs}.h.
const EXT4_IOC_MOVE_EXT: libc::Ioctl = 0xC028_660F_u32 as libc::Ioctl;
const XFS_IOC_SWAPEXT: libc::Ioctl = 0xC0C0_586D_u32 as libc::Ioctl;
const BTRFS_IOC_DEFRAG_RANGE: libc::Ioctl = 0x4030_9410;
const FICLONERANGE: libc::Ioctl = 0x4020_940D;
const FS_IOC_GETFLAGS: libc::Ioctl = 0x8008_6601_u32 as libc::Ioctl;
const FS_IOC_SETFLAGS: libc::Ioctl = 0x4008_6602;

/// Not in every `libc`: include/uapi/asm-generic/fcntl.h.
const F_SETSIG: libc::c_int = 10;

/// Flags of `FS_IOC_GETFLAGS`: nobody may change the file, or only append to it.
pub const FIXED: libc::c_long = 0x10 | 0x20;
/// Flags that a copy takes over: no copy on write, no access times, no dump, synchronous.
pub const TAKEN_OVER: libc::c_long = 0x0080_0000 | 0x80 | 0x40 | 0x08;

/// A file system with means of its own that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 (and ext2, ext3 through the same driver, which cannot exchange blocks of files without extents).
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
    /// Any other: its number.
    Other(i64),
}

impl FileSystem {
    /// Of an open file.
    pub fn of(file: &File) -> io::Result<FileSystem> {
        let mut facts = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the kernel fills the structure if it returns 0.
        let facts = unsafe {
            check(libc::fstatfs(file.as_raw_fd(), facts.as_mut_ptr()))?;
            facts.assume_init()
        };
        Ok(match facts.f_type {
            0xEF53 => FileSystem::Ext4,
            0x5846_5342 => FileSystem::Xfs,
            0x9123_683E => FileSystem::Btrfs,
            other => FileSystem::Other(other),
        })
    }

    /// Its usual name, or its number.
    pub fn name(self) -> String {
        match self {
            FileSystem::Ext4 => "ext4".into(),
            FileSystem::Xfs => "xfs".into(),
            FileSystem::Btrfs => "btrfs".into(),
            FileSystem::Other(number) => format!("file system {number:#x}"),
        }
    }
}

/// Block size of the file system of an open file, bytes.
pub fn block_bytes(file: &File) -> io::Result<u64> {
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel fills the structure if it returns 0.
    let facts = unsafe {
        check(libc::fstatfs(file.as_raw_fd(), facts.as_mut_ptr()))?;
        facts.assume_init()
    };
    Ok((facts.f_bsize as u64).max(512))
}

/// An unnamed file in `folder`, gone with the process that has it open.
pub fn unnamed(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o600)
        .open(folder)
}

/// Gives an unnamed file a name, which nothing may have yet.
pub fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let from = c_path(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
    let to = c_path(path)?;
    let (at, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both are strings that end with NUL.
    check(unsafe { libc::linkat(at, from.as_ptr(), at, to.as_ptr(), follow) })
}

/// Reserves the bytes `[offset, offset + length)`; the file grows if it has to.
pub fn reserve(file: &File, offset: u64, length: u64) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, length as i64) })
}

/// Exchanges blocks of two files of one ext4; the contents stay where they are in `file`. In blocks; returns how many were moved.
/// Either both files hold what they held, or the blocks have changed hands: the journal sees to that. A page that is being written makes
/// the kernel give up (EBUSY): what is dirty is written, and the rest tried again, in ever smaller steps.
pub fn move_extent(
    file: &File,
    donor: &File,
    from_block: u64,
    donor_block: u64,
    blocks: u64,
) -> io::Result<u64> {
    const TRIES: u32 = 12;
    let mut wanted = blocks;
    for tries in 1.. {
        match move_extent_once(file, donor, from_block, donor_block, wanted) {
            (moved, Ok(())) => return Ok(moved),
            // The kernel tells what it had moved before it gave up.
            (moved, Err(error)) if error.raw_os_error() == Some(libc::EBUSY) && moved > 0 => {
                return Ok(moved)
            }
            (_, Err(error)) if error.raw_os_error() == Some(libc::EBUSY) && tries < TRIES => {
                file.sync_all()?;
                std::thread::sleep(Duration::from_millis(1 << tries.min(6)));
                wanted = (wanted / 4).max(1);
            }
            (_, Err(error)) => return Err(error),
        }
    }
    unreachable!("the last try returns")
}

fn move_extent_once(
    file: &File,
    donor: &File,
    from_block: u64,
    donor_block: u64,
    blocks: u64,
) -> (u64, io::Result<()>) {
    #[repr(C)]
    struct MoveExtent {
        reserved: u32,
        donor: u32,
        from: u64,
        donor_from: u64,
        length: u64,
        moved: u64,
    }
    let mut move_extent = MoveExtent {
        reserved: 0,
        donor: donor.as_raw_fd() as u32,
        from: from_block,
        donor_from: donor_block,
        length: blocks,
        moved: 0,
    };
    // SAFETY: a structure of the size that the number of the call says.
    let done = check(unsafe { libc::ioctl(file.as_raw_fd(), EXT4_IOC_MOVE_EXT, &mut move_extent) });
    (move_extent.moved, done)
}

/// Drops what the page cache holds of these bytes (length 0: up to the end) and need not write first.
pub fn forget(file: &File, start: u64, length: u64) {
    // SAFETY: plain numbers. Advice that is not taken costs no correctness.
    unsafe {
        libc::posix_fadvise(
            file.as_raw_fd(),
            start as i64,
            length as i64,
            libc::POSIX_FADV_DONTNEED,
        )
    };
}

/// Exchanges all extents of two files of one XFS, if `file` is still as `seen` says. Atomic.
pub fn swap_extents(file: &File, donor: &File, seen: &std::fs::Metadata) -> io::Result<()> {
    #[repr(C)]
    #[derive(Default)]
    struct Time {
        s: i64,
        ns: i32,
        pad: i32,
    }
    /// struct xfs_bstat: the kernel compares its times alone.
    #[repr(C)]
    #[derive(Default)]
    struct Stat {
        before_times: [u64; 5],
        atime: Time,
        mtime: Time,
        ctime: Time,
        after_times: [u64; 6],
    }
    #[repr(C)]
    struct SwapExtents {
        version: i64,
        target: i64,
        donor: i64,
        offset: i64,
        length: i64,
        pad: [u8; 16],
        stat: Stat,
    }
    const _: () = assert!(size_of::<SwapExtents>() == 192);
    let mut swap = SwapExtents {
        version: 0,
        target: i64::from(file.as_raw_fd()),
        donor: i64::from(donor.as_raw_fd()),
        offset: 0,
        length: seen.size() as i64,
        pad: [0; 16],
        stat: Stat {
            mtime: Time {
                s: seen.mtime(),
                ns: seen.mtime_nsec() as i32,
                pad: 0,
            },
            ctime: Time {
                s: seen.ctime(),
                ns: seen.ctime_nsec() as i32,
                pad: 0,
            },
            ..Stat::default()
        },
    };
    // SAFETY: a structure of the size that the number of the call says.
    check(unsafe { libc::ioctl(file.as_raw_fd(), XFS_IOC_SWAPEXT, &mut swap) })
}

/// Has btrfs write the bytes `[start, start + length)` anew, in extents as long as it can, and starts that.
pub fn defragment(file: &File, start: u64, length: u64) -> io::Result<()> {
    #[repr(C)]
    struct Range {
        start: u64,
        length: u64,
        flags: u64,
        extent_threshold: u32,
        compress: u32,
        unused: [u32; 4],
    }
    const START_IO: u64 = 2;
    let range = Range {
        start,
        length,
        flags: START_IO,
        extent_threshold: 1 << 30,
        compress: 0,
        unused: [0; 4],
    };
    // SAFETY: a structure of the size that the number of the call says.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_DEFRAG_RANGE, &range) })
}

/// Lets `[to, to + length)` of `file` share the blocks of `[from, from + length)` of `source`.
pub fn clone_range(source: &File, from: u64, length: u64, file: &File, to: u64) -> io::Result<()> {
    #[repr(C)]
    struct Range {
        source: i64,
        from: u64,
        length: u64,
        to: u64,
    }
    let range = Range {
        source: i64::from(source.as_raw_fd()),
        from,
        length,
        to,
    };
    // SAFETY: a structure of the size that the number of the call says.
    check(unsafe { libc::ioctl(file.as_raw_fd(), FICLONERANGE, &range) })
}

/// Flags of the inode (chattr); 0 where the file system has none.
pub fn inode_flags(file: &File) -> libc::c_long {
    let mut flags: libc::c_long = 0;
    // SAFETY: the kernel writes an int into a long.
    unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETFLAGS, &mut flags) };
    flags
}

/// Sets flags of the inode.
pub fn set_inode_flags(file: &File, flags: libc::c_long) -> io::Result<()> {
    // SAFETY: the kernel reads an int out of a long.
    check(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_SETFLAGS, &flags) })
}

/// Asks for a signal when anybody opens the file. Error (EAGAIN): somebody has it open. The signal that comes is ignored by default; who
/// opens the file waits until `still_alone` was asked and the file closed, 45 s at most.
pub fn be_alone(file: &File) -> io::Result<()> {
    // SAFETY: plain numbers. SIGURG is ignored by default; the usual signal would end the process.
    unsafe {
        check(libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG))?;
        check(libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK))
    }
}

/// Whether nobody has opened the file since `be_alone`.
pub fn still_alone(file: &File) -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
}

/// Copies extended attributes: ACLs, capabilities, labels among them.
pub fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let mut names = vec![0_u8; 64 << 10];
    // SAFETY: lengths are those of the buffers.
    let listed = unsafe { libc::flistxattr(from.as_raw_fd(), names.as_mut_ptr().cast(), names.len()) };
    if listed < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::EOPNOTSUPP) {
            Ok(())
        } else {
            Err(error)
        };
    }
    let mut value = vec![0_u8; 64 << 10];
    for name in names[..listed as usize].split_inclusive(|byte| *byte == 0) {
        let (fd, name) = (from.as_raw_fd(), name.as_ptr().cast());
        // SAFETY: names end with NUL, lengths are those of the buffers.
        unsafe {
            let length = libc::fgetxattr(fd, name, value.as_mut_ptr().cast(), value.len());
            check(length as i32)?;
            check(libc::fsetxattr(
                to.as_raw_fd(),
                name,
                value.as_ptr().cast(),
                length as usize,
                0,
            ))?;
        }
    }
    Ok(())
}

/// Sets the times of access and change of contents to those of `seen`.
pub fn set_times(file: &File, seen: &std::fs::Metadata) -> io::Result<()> {
    let times = [
        libc::timespec {
            tv_sec: seen.atime(),
            tv_nsec: seen.atime_nsec(),
        },
        libc::timespec {
            tv_sec: seen.mtime(),
            tv_nsec: seen.mtime_nsec(),
        },
    ];
    // SAFETY: two times.
    check(unsafe { libc::futimens(file.as_raw_fd(), times.as_ptr()) })
}

fn c_path(path: &Path) -> io::Result<std::ffi::CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(std::ffi::CString::new(path.as_os_str().as_bytes())?)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
