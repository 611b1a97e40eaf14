//! Opens targets: checks what they are, lays files out, refuses to destroy what is not ours.
use crate::rng::Rng;
use crate::spec::{Spec, SyncKind, Targets};
use crate::units::format_size;
use crate::WorkloadError;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Marks files that whodisk created, so that a later run may write to them without being told.
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
            warning: None,
        }]),
        Targets::Paths(paths) => paths.iter().map(|path| open(spec, path, progress)).collect(),
    }
}

fn open(
    spec: &Spec,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Target, WorkloadError> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return create(spec, path, progress),
        Err(source) => {
            return Err(io_error(
                path,
                "look at the target",
                source,
                "check the path and its permissions",
            ))
        }
    };
    let kind = found.file_type();
    if kind.is_block_device() {
        return open_device(spec, path);
    }
    if !kind.is_file() {
        let what = if kind.is_dir() {
            "a folder"
        } else {
            "something else"
        };
        let hint = "name a file in it, or \"null\"";
        return Err(refuse(path, "a file or a block device", what, hint));
    }
    let ours = is_marked(path);
    if spec.writes() && !ours && !spec.allow_overwrite {
        return Err(refuse(
            path,
            "a file that whodisk created, since this workload writes",
            "an existing file that it did not create",
            "name a new file, or say allow_overwrite = true if its content may be destroyed",
        ));
    }
    let size_bytes = spec.file_size_bytes.unwrap_or(found.len());
    let too_short = found.len() < size_bytes;
    if too_short && !ours && !spec.allow_overwrite {
        let hint = "lower file_size, name a new file, or say allow_overwrite = true to extend it";
        let expected = format!("at least file_size, {}", format_size(size_bytes));
        return Err(refuse(path, &expected, &format_size(found.len()), hint));
    }
    if too_short {
        lay_out(spec, path, found.len(), size_bytes, progress)?;
    }
    let mut target = finish(spec, path, size_bytes, 0)?;
    target.laid_out_bytes = size_bytes.saturating_sub(found.len());
    if !too_short && found.blocks() * 512 < size_bytes / 10 * 9 {
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
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let file = file.map_err(|error| {
        io_error(
            path,
            "create the target",
            error,
            "choose a folder that can be written",
        )
    })?;
    mark(&file);
    drop(file);
    lay_out(spec, path, 0, size_bytes, progress)?;
    finish(spec, path, size_bytes, size_bytes)
}

fn open_device(spec: &Spec, path: &Path) -> Result<Target, WorkloadError> {
    if spec.writes() && !spec.allow_overwrite {
        return Err(refuse(
            path,
            "permission to destroy its content, since this workload writes",
            "a block device",
            "say allow_overwrite = true if nothing on it is needed, or read = \"100%\"",
        ));
    }
    let size_bytes = device_size_bytes(path)?;
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
    finish(spec, path, wanted_bytes, 0)
}

fn device_size_bytes(path: &Path) -> Result<u64, WorkloadError> {
    use std::io::Seek;
    File::open(path)
        .and_then(|mut file| file.seek(std::io::SeekFrom::End(0)))
        .map_err(|error| {
            io_error(
                path,
                "open the device",
                error,
                "run as root or join the group that owns it",
            )
        })
}

/// Opens a target that is ready.
fn finish(spec: &Spec, path: &Path, size_bytes: u64, laid_out_bytes: u64) -> Result<Target, WorkloadError> {
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
    let is_device = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    if is_device && spec.writes() {
        // Exclusive: the kernel then refuses a device that is mounted or part of another.
        flags |= libc::O_EXCL;
    }
    let options = |flags| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(spec.writes())
            .custom_flags(flags)
            .to_owned()
    };
    let file = options(flags)
        .open(path)
        .map_err(|error| open_error(path, spec, error))?;
    check_alignment(spec, path, &file)?;
    let name = path.display().to_string();
    Ok(Target {
        name,
        file: Some(file),
        size_bytes,
        laid_out_bytes,
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
    from_bytes: u64,
    to_bytes: u64,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), WorkloadError> {
    let no_room = |error| io_error(path, "lay the target out", error, "free space or lower file_size");
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|error| open_error(path, spec, error))?;
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

/// Best effort: on a file system without extended attributes the next run must be told.
fn mark(file: &File) {
    let value = b"1";
    // SAFETY: name and value are valid for their lengths.
    unsafe {
        libc::fsetxattr(
            file.as_raw_fd(),
            MARK.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
}

fn is_marked(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both strings end in NUL; no buffer is given, only the length is asked for.
    unsafe { libc::getxattr(path.as_ptr(), MARK.as_ptr(), std::ptr::null_mut(), 0) >= 0 }
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
