//! A complete copy of a file takes its place at once: before and after, and whenever the process ends, there is one whole file.
use crate::checksum::{checksum, CHUNK_BYTES};
use crate::error::LayoutError;
use crate::kernel;
use crate::measure::open;
use crate::Tell;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What lays out the copy: gets the empty copy and the length of the file, and reserves its blocks.
pub(crate) type LayOut<'a> = dyn FnMut(&File, &File, u64) -> Result<(), LayoutError> + 'a;

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Replaces `path` by a copy of the same contents, owner, mode, times and attributes. `lay_out` sees to its blocks; it may have
/// written contents already, all that is not yet equal is written here. Returns the checksum of the contents. Needs to be the only one
/// that has the file open, and a file with one name. What stays out: holes may be filled where `lay_out` reserved them.
pub(crate) fn replace(
    path: &Path,
    lay_out: &mut LayOut<'_>,
    fill: bool,
    tell: &mut Tell<'_>,
) -> Result<u64, LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let stopped = || LayoutError::Stopped {
        path: path.to_owned(),
    };
    let file = open(path, true)?;
    let seen = file.metadata().map_err(wrap("read its facts"))?;
    refuse(path, &file, &seen)?;
    let size = seen.len();
    let total = 3 * size;
    let mut done = 0;
    let mut count = |bytes: u64| {
        done += bytes;
        kernel::still_alone(&file) && tell(done, total)
    };
    let before = checksum(&file, size, &mut count)
        .map_err(wrap("read"))?
        .ok_or_else(stopped)?;
    let copy = kernel::unnamed(folder_of(path)).map_err(wrap("make a copy beside it"))?;
    take_over_flags(&file, &copy);
    lay_out(&file, &copy, size)?;
    if fill && !copy_contents(&file, &copy, size, &mut count).map_err(wrap("copy"))? {
        return Err(stopped());
    }
    copy.set_len(size).map_err(wrap("set the length of its copy"))?;
    let after = checksum(&copy, size, &mut count)
        .map_err(wrap("read its copy"))?
        .ok_or_else(stopped)?;
    if before != after {
        return Err(LayoutError::Contents {
            path: path.to_owned(),
            before,
            after,
            place: "in its copy",
            hint: "the file is as it was; check the device (dmesg)",
        });
    }
    take_over_facts(&file, &copy, &seen)
        .map_err(wrap("give its copy the same owner, mode, attributes and times"))?;
    copy.sync_all().map_err(wrap("write its copy"))?;
    let now = file.metadata().map_err(wrap("read its facts"))?;
    if !kernel::still_alone(&file)
        || (now.mtime(), now.mtime_nsec(), now.len()) != (seen.mtime(), seen.mtime_nsec(), size)
    {
        return Err(somebody(path));
    }
    put_in_place(&copy, path).map_err(wrap("put the copy in its place"))?;
    Ok(after)
}

/// Names an unnamed file, over what has that name.
fn put_in_place(copy: &File, path: &Path) -> io::Result<()> {
    let name = temporary_name(path);
    kernel::give_name(copy, &name)?;
    fs::rename(&name, path).inspect_err(|_| {
        let _ = fs::remove_file(&name);
    })?;
    File::open(folder_of(path))?.sync_all()
}

/// What a copy is called for the moment between its name and the rename. After a kill in just that moment it stays.
fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.whodisk-layout-{}", std::process::id()))
}

fn refuse(path: &Path, file: &File, seen: &Metadata) -> Result<(), LayoutError> {
    if seen.nlink() != 1 {
        let found = format!("{} names", seen.nlink());
        return Err(LayoutError::file(
            path,
            "a file with one name",
            found,
            "a copy would part its hard links",
        ));
    }
    if kernel::inode_flags(file) & kernel::FIXED != 0 {
        let hint = "chattr -i -a takes the flag away";
        return Err(LayoutError::file(
            path,
            "a file that may be changed",
            "an immutable or append-only one",
            hint,
        ));
    }
    kernel::be_alone(file).map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EBUSY) => somebody(path),
        _ => LayoutError::system(path, "make sure that nobody else has it open (F_SETLEASE)", error),
    })
}

fn somebody(path: &Path) -> LayoutError {
    let hint = "it is as it was; stop what uses it (fuser shows that), and try again";
    LayoutError::file(
        path,
        "a file that nobody else has open",
        "one that somebody has",
        hint,
    )
}

/// Before there are contents: copy on write can be switched off for empty files only.
fn take_over_flags(file: &File, copy: &File) {
    let flags = kernel::inode_flags(file) & kernel::TAKEN_OVER;
    if flags != 0 {
        // A flag that cannot be set is no matter of contents.
        let _ = kernel::set_inode_flags(copy, kernel::inode_flags(copy) | flags);
    }
}

fn take_over_facts(file: &File, copy: &File, seen: &Metadata) -> io::Result<()> {
    // The owner first: it takes away set-user-id and capabilities.
    let own = copy.metadata()?;
    if (own.uid(), own.gid()) != (seen.uid(), seen.gid()) {
        std::os::unix::fs::fchown(copy, Some(seen.uid()), Some(seen.gid()))?;
    }
    kernel::copy_attributes(file, copy)?;
    copy.set_permissions(fs::Permissions::from_mode(seen.mode() & 0o7777))?;
    kernel::set_times(copy, seen)
}

/// Copies what holds data; holes stay holes. False: asked to stop.
pub(crate) fn copy_contents(
    file: &File,
    copy: &File,
    size: u64,
    count: &mut dyn FnMut(u64) -> bool,
) -> io::Result<bool> {
    let mut buffer = vec![0_u8; CHUNK_BYTES];
    let mut at = 0;
    while let Some((start, end)) = data_from(file, at, size)? {
        at = start;
        while at < end {
            let wanted = buffer.len().min((end - at) as usize);
            file.read_exact_at(&mut buffer[..wanted], at)?;
            copy.write_all_at(&buffer[..wanted], at)?;
            at += wanted as u64;
            if !count(wanted as u64) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The next piece that holds data from `at` on.
pub(crate) fn data_from(file: &File, at: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= size {
        return Ok(None);
    }
    // SAFETY: plain numbers; the position of the file is not used otherwise.
    let start = unsafe { libc::lseek(file.as_raw_fd(), at as i64, libc::SEEK_DATA) };
    if start < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENXIO) {
            Ok(None)
        } else {
            Err(error)
        };
    }
    // SAFETY: as above.
    let end = unsafe { libc::lseek(file.as_raw_fd(), start, libc::SEEK_HOLE) };
    if end < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Some((start as u64, (end as u64).min(size))))
}
