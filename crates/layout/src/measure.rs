//! The layout of a file, or of all below a folder.
use crate::error::LayoutError;
use crate::fiemap::extents;
use crate::kernel::{block_bytes, FileSystem};
use crate::score::Layout;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How one file lies.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// File.
    pub path: PathBuf,
    /// Its length.
    pub size_bytes: u64,
    /// Name of its file system.
    pub file_system: String,
    /// Its block size.
    pub block_bytes: u64,
    /// What was found.
    #[serde(flatten)]
    pub layout: Layout,
}

/// Measures a regular file; what is dirty of it is written first. `request_bytes`: the largest request that its device takes.
pub fn measure(path: &Path, request_bytes: u64) -> Result<Measured, LayoutError> {
    let file = open(path, false)?;
    measure_open(&file, path, request_bytes)
}

/// The same of an open file.
pub(crate) fn measure_open(file: &File, path: &Path, request_bytes: u64) -> Result<Measured, LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let size_bytes = file.metadata().map_err(wrap("read its size"))?.len();
    let block_bytes = block_bytes(file).map_err(wrap("ask its file system"))?;
    let found = extents(file, 0, size_bytes).map_err(wrap("list its extents (FIEMAP)"))?;
    Ok(Measured {
        path: path.to_owned(),
        size_bytes,
        file_system: FileSystem::of(file).map_err(wrap("ask its file system"))?.name(),
        block_bytes,
        layout: Layout::of(&found, block_bytes, request_bytes.max(block_bytes)),
    })
}

/// Opens a regular file itself, not what a link points to.
pub(crate) fn open(path: &Path, write: bool) -> Result<File, LayoutError> {
    let found = fs::symlink_metadata(path).map_err(|e| LayoutError::system(path, "open", e))?;
    if !found.is_file() {
        let kind = if found.is_dir() {
            "a directory"
        } else {
            "something else"
        };
        return Err(LayoutError::file(
            path,
            "a regular file",
            kind,
            "name the file itself",
        ));
    }
    OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(|e| LayoutError::system(path, "open", e))
}

/// `path` itself, or all regular files below it on the same file system, in order of their names. Links are not followed; files with
/// several names come once. What cannot be read is handed to `told` and left out.
pub fn files_below(path: &Path, told: &mut dyn FnMut(LayoutError)) -> Result<Vec<PathBuf>, LayoutError> {
    let facts = fs::symlink_metadata(path).map_err(|e| LayoutError::system(path, "open", e))?;
    if !facts.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                told(LayoutError::system(&folder, "list", error));
                continue;
            }
        };
        for entry in entries.flatten() {
            let Ok(entry_facts) = entry.metadata() else {
                continue;
            };
            if entry_facts.dev() != facts.dev() {
                continue;
            }
            if entry_facts.is_dir() {
                folders.push(entry.path());
            } else if entry_facts.is_file() && (entry_facts.nlink() == 1 || seen.insert(entry_facts.ino())) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The largest request that the device below `path` takes (`max_sectors_kb`); None where that is not known, as on btrfs: its files
/// have the number of no device.
pub fn request_bytes_of(path: &Path) -> Option<u64> {
    let dev = fs::metadata(path).ok()?.dev();
    let node = PathBuf::from(format!(
        "/sys/dev/block/{}:{}",
        libc::major(dev),
        libc::minor(dev)
    ));
    // A partition's queue is that of its disk.
    let queues = [node.join("queue"), node.join("../queue")];
    let text = queues
        .iter()
        .find_map(|queue| fs::read_to_string(queue.join("max_sectors_kb")).ok())?;
    Some(text.trim().parse::<u64>().ok()? << 10)
}
