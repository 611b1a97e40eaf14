//! Opens targets: checks what they are, lays files out, refuses to destroy what is not ours.
use crate::rng::Rng;
use crate::spec::{Spec, SyncKind, Targets};
use crate::units::format_size;
use crate::WorkloadError;
use std::ffi::{CStr, CString};
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Extended attribute of files that whodisk created, so that a later run may write to them without `allow_overwrite`.
const MARK: &CStr = c"user.whodisk.created";

/// Written in pieces of this size when a file is laid out.
const LAYOUT_BYTES: usize = 1 << 20;

/// Size of the null target where the specification names none.
const NULL_BYTES: u64 = 1 << 30;

/// An open target.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// None for the null target.
    pub(crate) file: Option<File>,
    /// Part that is used.
    pub(crate) size_bytes: u64,
    /// Laid out (wholly or in part) by this run.
    pub(crate) laid_out_bytes: u64,
    /// A file that whodisk created.
    pub(crate) is_ours: bool,
    /// Doubts about what will be measured.
    pub(crate) warning: Option<String>,
}

/// Opens all targets. `progress(bytes done, bytes in all)` is called while a file is laid out and
/// ends the layout early by returning false (the run then ends before its first operation).
pub(crate) fn open_all(
    spec: &Spec,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Vec<Target>, WorkloadError> {
    match &spec.targets {
        Targets::Null => Ok(vec![Target {
            name: "null".into(),
            file: None,
            size_bytes: spec
                .file_size_bytes
                .unwrap_or(NULL_BYTES)
                .max(u64::from(spec.block_size_max())),
            laid_out_bytes: 0,
            is_ours: false,
            warning: None,
        }]),
        Targets::Paths(paths) => paths.iter().map(|path| open(spec, path, progress)).collect(),
    }
}

/// What stands at a path. Found once: whatever is put there later, the checks and the workload mean the same file.
struct Place<'p> {
    path: &'p Path,
    /// Only a handle: neither reads nor writes, and opening it has no effect on what it names.
    handle: File,
    found: Metadata,
}

impl<'p> Place<'p> {
    /// None where nothing is.
    fn find(path: &'p Path) -> Result<Option<Place<'p>>, WorkloadError> {
        let handle = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
            .open(path);
        match handle.and_then(|handle| Ok((handle.metadata()?, handle))) {
            Ok((found, handle)) => Ok(Some(Place { path, handle, found })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let hint = "check the path and its permissions";
                Err(io_error(path, "look at the target", error, hint))
            }
        }
    }

    /// Opens the same file for use.
    fn open(&self, options: &OpenOptions) -> std::io::Result<File> {
        options.open(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))
    }

    fn is_device(&self) -> bool {
        self.found.file_type().is_block_device()
    }
}

fn open(
    spec: &Spec,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Target, WorkloadError> {
    let Some(place) = Place::find(path)? else {
        return create(spec, path, progress);
    };
    if place.is_device() {
        return open_device(spec, &place);
    }
    let found = &place.found;
    if !found.is_file() {
        let what = if found.is_dir() {
            "a folder"
        } else {
            "something else"
        };
        let hint = "name a file in it, or \"null\"";
        return Err(refuse(path, "a file or a block device", what, hint));
    }
    let mark = Mark::read(&place);
    let is_ours = mark == Some(Mark::of(found));
    if spec.writes() && !is_ours && !spec.allow_overwrite {
        let what = match mark {
            None => "an existing file that it did not create",
            Some(_) => {
                "one that was copied or changed since, or that is in use by a run (or was, when that was killed)"
            }
        };
        return Err(refuse(
            path,
            "a file that whodisk created and nobody else changed, since this workload writes",
            what,
            "name a new file, or say allow_overwrite = true if its content may be destroyed",
        ));
    }
    let size_bytes = spec.file_size_bytes.unwrap_or(found.len());
    let is_short = found.len() < size_bytes;
    if is_short && !is_ours && !spec.allow_overwrite {
        let hint = "lower file_size, name a new file, or say allow_overwrite = true to extend it";
        let expected = format!("at least file_size, {}", format_size(size_bytes));
        return Err(refuse(path, &expected, &format_size(found.len()), hint));
    }
    if is_short {
        let file = place.open(OpenOptions::new().write(true));
        let file = file.map_err(|error| open_error(path, spec, error))?;
        lay_out(spec, path, &file, found.len(), size_bytes, progress)?;
    }
    let mut target = finish(spec, &place, size_bytes, size_bytes.saturating_sub(found.len()))?;
    target.is_ours = is_ours;
    if !is_short && found.blocks() * 512 < size_bytes / 10 * 9 {
        target.warning = Some(format!(
            "{}: sparse ({} of {} are allocated): reads of holes do not reach the device",
            path.display(),
            format_size(found.blocks() * 512),
            format_size(found.len()),
        ));
    }
    Ok(target)
}

fn create(
    spec: &Spec,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Target, WorkloadError> {
    let Some(size_bytes) = spec.file_size_bytes else {
        return Err(refuse(
            path,
            "an existing target, or a file_size to create it with",
            "no such file",
            "add file_size = \"1GiB\" or correct the path",
        ));
    };
    let hint = "choose a folder that can be written, and a name that nothing has, not even a link";
    let fail = |error| io_error(path, "create the target", error, hint);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(fail)?;
    let place = Place {
        path,
        found: file.metadata().map_err(fail)?,
        handle: file,
    };
    let laid_out = lay_out(spec, path, &place.handle, 0, size_bytes, progress);
    Mark::write(&place.handle);
    laid_out?;
    let mut target = finish(spec, &place, size_bytes, size_bytes)?;
    target.is_ours = true;
    Ok(target)
}

fn open_device(spec: &Spec, place: &Place) -> Result<Target, WorkloadError> {
    let path = place.path;
    if spec.writes() && !spec.allow_overwrite {
        return Err(refuse(
            path,
            "permission to destroy its content, since this workload writes",
            "a block device",
            "say allow_overwrite = true if nothing on it is needed, or read = \"100%\"",
        ));
    }
    let size_bytes = device_size_bytes(place)?;
    let wanted_bytes = spec.file_size_bytes.unwrap_or(size_bytes);
    if wanted_bytes > size_bytes {
        let expected = format!("at least file_size, {}", format_size(wanted_bytes));
        return Err(refuse(
            path,
            &expected,
            &format_size(size_bytes),
            "lower or remove file_size",
        ));
    }
    finish(spec, place, wanted_bytes, 0)
}

fn device_size_bytes(place: &Place) -> Result<u64, WorkloadError> {
    use std::io::Seek;
    let file = place.open(OpenOptions::new().read(true));
    file.and_then(|mut file| file.seek(std::io::SeekFrom::End(0)))
        .map_err(|error| {
            let hint = "run as root or join the group that owns it";
            io_error(place.path, "open the device", error, hint)
        })
}

/// Opens a target that is ready.
fn finish(spec: &Spec, place: &Place, size_bytes: u64, laid_out_bytes: u64) -> Result<Target, WorkloadError> {
    let path = place.path;
    let largest = u64::from(spec.block_size_max());
    if size_bytes < largest {
        let expected = format!("at least the largest block size, {}", format_size(largest));
        return Err(refuse(
            path,
            &expected,
            &format_size(size_bytes),
            "set file_size or lower block_sizes",
        ));
    }
    let mut flags = libc::O_CLOEXEC;
    if spec.direct {
        flags |= libc::O_DIRECT;
    }
    flags |= match spec.sync_kind {
        SyncKind::ODsync => libc::O_DSYNC,
        SyncKind::OSync => libc::O_SYNC,
        SyncKind::Fsync | SyncKind::Fdatasync => 0,
    };
    if place.is_device() && spec.writes() {
        // Exclusive: the kernel then refuses a device that is mounted or part of another.
        flags |= libc::O_EXCL;
    }
    let file = place
        .open(
            OpenOptions::new()
                .read(true)
                .write(spec.writes())
                .custom_flags(flags),
        )
        .map_err(|error| open_error(path, spec, error))?;
    check_alignment(spec, path, &file)?;
    let name = path.display().to_string();
    Ok(Target {
        name,
        file: Some(file),
        size_bytes,
        laid_out_bytes,
        is_ours: false,
        warning: None,
    })
}

fn open_error(path: &Path, spec: &Spec, error: std::io::Error) -> WorkloadError {
    let hint = match error.raw_os_error() {
        Some(libc::EINVAL) if spec.direct => "this file system has no direct I/O: say io = \"buffered\"",
        Some(libc::EBUSY) => "the device is in use (mounted, or part of another): use one that is free",
        Some(libc::EACCES | libc::EPERM) => "check its permissions",
        Some(libc::EROFS) => "the file system is read-only: choose another, or read = \"100%\"",
        _ => "check the path",
    };
    io_error(path, "open the target", error, hint)
}

/// Direct I/O needs offsets and sizes that are multiples of what the device can address.
fn check_alignment(spec: &Spec, path: &Path, file: &File) -> Result<(), WorkloadError> {
    if !spec.direct {
        return Ok(());
    }
    let Some(unit) = direct_unit_bytes(file) else {
        return Ok(());
    };
    let odd = spec
        .blocks
        .iter()
        .map(|block| u64::from(block.size_bytes))
        .find(|size| size % unit != 0);
    let odd = odd.or(Some(spec.align_bytes).filter(|align| align % unit != 0));
    match odd {
        None => Ok(()),
        Some(size) => {
            let expected = format!("block_sizes and align in multiples of {unit} B for direct I/O here");
            Err(refuse(
                path,
                &expected,
                &format_size(size),
                "round it, or say io = \"buffered\"",
            ))
        }
    }
}

/// Offset alignment for direct I/O, where the kernel tells it (statx since Linux 6.1).
fn direct_unit_bytes(file: &File) -> Option<u64> {
    // SAFETY: all-zero is a valid `statx`; the path is an empty C string; the descriptor is open.
    let (result, found) = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let empty = c"".as_ptr();
        let result = libc::statx(
            file.as_raw_fd(),
            empty,
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &mut found,
        );
        (result, found)
    };
    let known = result == 0 && found.stx_mask & libc::STATX_DIOALIGN != 0;
    (known && found.stx_dio_offset_align > 0).then_some(u64::from(found.stx_dio_offset_align))
}

/// Writes random data from `from_bytes` to `to_bytes` and drops it from the page cache.
fn lay_out(
    spec: &Spec,
    path: &Path,
    file: &File,
    from_bytes: u64,
    to_bytes: u64,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), WorkloadError> {
    let no_room = |error| io_error(path, "lay the target out", error, "free space or lower file_size");
    let mut rng = Rng::new(spec.seed, from_bytes | 1 << 63);
    let mut piece = vec![0; LAYOUT_BYTES];
    let mut at_bytes = from_bytes;
    while at_bytes < to_bytes {
        if !progress(at_bytes - from_bytes, to_bytes - from_bytes) {
            return Ok(());
        }
        let len = (to_bytes - at_bytes).min(LAYOUT_BYTES as u64) as usize;
        rng.fill(&mut piece[..len]);
        file.write_all_at(&piece[..len], at_bytes).map_err(no_room)?;
        at_bytes += len as u64;
    }
    file.sync_all().map_err(no_room)?;
    // Only advice: a run that reads then begins with a cold cache.
    // SAFETY: a call on an open descriptor.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    Ok(())
}

/// What a file was when whodisk was done with it. A copy has another inode; what somebody else wrote, another time.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    inode: u64,
    size_bytes: u64,
    modified_ns: i128,
}

impl Mark {
    fn of(found: &Metadata) -> Mark {
        Mark {
            inode: found.ino(),
            size_bytes: found.len(),
            modified_ns: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
        }
    }

    /// Best effort: on a file system without extended attributes the next run needs `allow_overwrite`.
    fn write(file: &File) {
        let Ok(found) = file.metadata() else { return };
        let mark = Mark::of(&found);
        let text = format!("{} {} {}", mark.inode, mark.size_bytes, mark.modified_ns);
        // SAFETY: name and value are valid for their lengths.
        unsafe {
            libc::fsetxattr(
                file.as_raw_fd(),
                MARK.as_ptr(),
                text.as_ptr().cast(),
                text.len(),
                0,
            )
        };
    }

    /// None where there is none; one that cannot be read is nobody's.
    fn read(place: &Place) -> Option<Mark> {
        let path = CString::new(format!("/proc/self/fd/{}", place.handle.as_raw_fd())).ok()?;
        let mut text = [0u8; 96];
        // SAFETY: the strings end in NUL; the buffer is valid for its length.
        let length =
            unsafe { libc::getxattr(path.as_ptr(), MARK.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
        let text = text.get(..usize::try_from(length).ok()?)?;
        let mut words = std::str::from_utf8(text).unwrap_or_default().split(' ');
        let mut next = || words.next().and_then(|word| word.parse::<i128>().ok());
        let (inode, size_bytes, modified_ns) = (next(), next(), next());
        Some(Mark {
            inode: inode.and_then(|n| n.try_into().ok()).unwrap_or(0),
            size_bytes: size_bytes.and_then(|n| n.try_into().ok()).unwrap_or(0),
            modified_ns: modified_ns.unwrap_or(-1),
        })
    }
}

/// Says in each file that whodisk created how this run left it, so that a later run knows it again.
pub(crate) fn mark_all(targets: &[Target]) {
    let ours = targets.iter().filter(|target| target.is_ours);
    ours.filter_map(|target| target.file.as_ref())
        .for_each(Mark::write);
}

fn refuse(path: &Path, expected: &str, found: &str, hint: &str) -> WorkloadError {
    WorkloadError::Target {
        path: path.to_owned(),
        expected: expected.into(),
        found: found.into(),
        hint: hint.into(),
    }
}

fn io_error(path: &Path, action: &str, source: std::io::Error, hint: &str) -> WorkloadError {
    WorkloadError::Io {
        path: path.to_owned(),
        action: action.into(),
        source,
        hint: hint.into(),
    }
}
