//! Files laid out anew, by the file system's own means where it has some.
use crate::checksum::checksum;
use crate::error::LayoutError;
use crate::fiemap::extents;
use crate::kernel::{self, FileSystem};
use crate::measure::{measure_open, open, Measured};
use crate::replace::{copy_contents, data_from, folder_of, replace};
use crate::score::{Extent, Layout};
use crate::Tell;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that ext4 and btrfs lay out at a time: what is done of a file when the work ends stays done.
const SEGMENT_BYTES: u64 = 1 << 30;
/// Bytes per call.
const STEP_BYTES: u64 = 32 << 20;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Files with a score (runs per 64 blocks) up to this stay as they are.
    pub threshold: f64,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// A copy takes the file's place, whatever the file system.
    pub rewrite: bool,
    /// For the measure.
    pub request_bytes: u64,
}

/// How blocks are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// EXT4_IOC_MOVE_EXT: the file may be in use.
    MoveExtents,
    /// XFS_IOC_SWAPEXT, as xfs_fsr does: the file may be in use, but not change meanwhile.
    SwapExtents,
    /// BTRFS_IOC_DEFRAG_RANGE: the file may be in use.
    Defragment,
    /// A copy takes its place; nobody else may have it open.
    Rewrite,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its score is not over the threshold.
    Fine,
    /// It would be moved (dry run).
    Would,
    /// It shares blocks with other files, which a move would double.
    Shared,
    /// It was moved; its contents are what they were.
    Moved,
    /// It was moved; somebody changed it meanwhile, so contents could not be compared.
    MovedWhileChanged,
    /// Free space is in pieces that are no longer than its own.
    NoSpace,
}

/// A file, before and after.
#[derive(Clone, Debug, Serialize)]
pub struct Reallocated {
    /// What became of it.
    pub outcome: Outcome,
    /// How.
    pub method: Method,
    /// As it lay.
    pub before: Measured,
    /// As it lies; None where nothing was moved.
    pub after: Option<Measured>,
    /// XXH64 of the contents, the same before and after; None where nothing was moved, or somebody changed it.
    pub xxh64: Option<String>,
}

/// Lays out `path` anew if its score is over the threshold. `tell` hears bytes done, and ends it by `false`; then, and after a kill, the
/// file is whole, and the same call goes on.
pub fn reallocate(path: &Path, options: Options, tell: &mut Tell<'_>) -> Result<Reallocated, LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let file = open(path, !options.dry_run)?;
    let before = measure_open(&file, path, options.request_bytes)?;
    let method = match FileSystem::of(&file).map_err(wrap("ask its file system"))? {
        _ if options.rewrite => Method::Rewrite,
        FileSystem::Ext4 => Method::MoveExtents,
        FileSystem::Xfs => Method::SwapExtents,
        FileSystem::Btrfs => Method::Defragment,
        FileSystem::Other(_) => Method::Rewrite,
    };
    let left = |outcome| Reallocated {
        outcome,
        method,
        before: before.clone(),
        after: None,
        xxh64: None,
    };
    if before.layout.runs <= 1 || before.layout.runs_per_64_blocks <= options.threshold {
        return Ok(left(Outcome::Fine));
    }
    if before.layout.shared_bytes > 0 {
        return Ok(left(Outcome::Shared));
    }
    if options.dry_run {
        return Ok(left(Outcome::Would));
    }
    let (outcome, sum) = if method == Method::Rewrite {
        // It must be the only one that has the file open.
        drop(file);
        (
            Outcome::Moved,
            Some(replace(
                path,
                &mut |from, to, size| reserve_data(path, from, to, size),
                true,
                tell,
            )?),
        )
    } else {
        in_place(path, &file, method, &before, options, tell)?
    };
    if outcome == Outcome::NoSpace {
        return Ok(left(outcome));
    }
    // A rewritten file is another one.
    let after = measure_open(&open(path, false)?, path, options.request_bytes)?;
    let xxh64 = sum.map(|sum| format!("{sum:016x}"));
    Ok(Reallocated {
        outcome,
        method,
        before,
        after: Some(after),
        xxh64,
    })
}

fn in_place(
    path: &Path,
    file: &File,
    method: Method,
    before: &Measured,
    options: Options,
    tell: &mut Tell<'_>,
) -> Result<(Outcome, Option<u64>), LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let stopped = || LayoutError::Stopped {
        path: path.to_owned(),
    };
    let seen = file.metadata().map_err(wrap("read its facts"))?;
    let size = seen.len();
    let mut done = 0;
    let mut count = |bytes: u64| {
        done += bytes;
        tell(done, 3 * size)
    };
    let sum = checksum(file, size, &mut count)
        .map_err(wrap("read"))?
        .ok_or_else(stopped)?;
    let moved = match method {
        Method::MoveExtents => move_extents(path, file, before, options, &mut count)?,
        Method::SwapExtents => swap_extents(path, file, before, &mut count)?,
        _ => defragment(path, file, size, &mut count)?,
    };
    if !moved {
        return Ok((Outcome::NoSpace, None));
    }
    // What was written meanwhile is younger, whoever wrote it; moving blocks leaves the time of contents alone.
    let changed = |now: &std::fs::Metadata| {
        (now.mtime(), now.mtime_nsec(), now.len()) != (seen.mtime(), seen.mtime_nsec(), size)
    };
    let now = file.metadata().map_err(wrap("read its facts"))?;
    if changed(&now) {
        return Ok((Outcome::MovedWhileChanged, None));
    }
    let after = checksum(file, size, &mut count)
        .map_err(wrap("read"))?
        .ok_or_else(stopped)?;
    if after == sum {
        return Ok((Outcome::Moved, Some(sum)));
    }
    let now = file.metadata().map_err(wrap("read its facts"))?;
    if changed(&now) {
        return Ok((Outcome::MovedWhileChanged, None));
    }
    Err(LayoutError::Contents {
        path: path.to_owned(),
        before: sum,
        after,
        place: "after its blocks were moved",
        hint: "restore it from a copy, and check the device and the file system (dmesg, fsck)",
    })
}

/// ext4: exchanges blocks with an unnamed file with blocks reserved in one go, GiB by GiB. False: nothing was better than what is.
fn move_extents(
    path: &Path,
    file: &File,
    before: &Measured,
    options: Options,
    count: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let block = before.block_bytes;
    let mut moved_any = false;
    let mut start = 0;
    while start < before.size_bytes {
        let end = (start + SEGMENT_BYTES).min(before.size_bytes.next_multiple_of(block));
        let found = extents(file, start, end).map_err(wrap("list its extents (FIEMAP)"))?;
        let layout = Layout::of(&found, block, options.request_bytes.max(block));
        if layout.runs > 1 && layout.runs_per_64_blocks > options.threshold {
            let donor = kernel::unnamed(folder_of(path)).map_err(wrap("make a file beside it"))?;
            kernel::reserve(&donor, 0, end - start).map_err(wrap("reserve blocks"))?;
            let reserved = extents(&donor, 0, end - start).map_err(wrap("list extents (FIEMAP)"))?;
            if Layout::of(&reserved, block, block).runs < layout.runs {
                // Reading in order has left folios of many fragments each. The first one that is moved makes its folio dirty, and for
                // each further one in it the kernel would first wait for a commit of the journal (try_to_release_page, jbd2_journal_force_commit).
                kernel::forget(file, start, end - start);
                for (from, to) in ranges(&found, start, end) {
                    move_range(
                        path,
                        file,
                        &donor,
                        (from / block, to.div_ceil(block)),
                        start / block,
                        block,
                        count,
                    )?;
                }
                moved_any = true;
            }
        } else if !count(end - start) {
            return Err(LayoutError::Stopped {
                path: path.to_owned(),
            });
        }
        start = end;
    }
    file.sync_all().map_err(wrap("write"))?;
    Ok(moved_any)
}

/// Bytes between holes, inside `[start, end)`: many extents in one call are many times as fast as a call each.
fn ranges(found: &[Extent], start: u64, end: u64) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for extent in found {
        // An extent may begin before its segment and end after it.
        let (from, to) = (
            extent.logical.max(start),
            (extent.logical + extent.length).min(end),
        );
        match ranges.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => ranges.push((from, to)),
        }
    }
    ranges
}

/// Blocks `[range.0, range.1)` of the file, which lie as many blocks earlier in the donor as `shift` says.
fn move_range(
    path: &Path,
    file: &File,
    donor: &File,
    range: (u64, u64),
    shift: u64,
    block: u64,
    count: &mut dyn FnMut(u64) -> bool,
) -> Result<(), LayoutError> {
    let (mut at, end) = range;
    while at < end {
        let wanted = (end - at).min(STEP_BYTES / block);
        let moved = kernel::move_extent(file, donor, at, at - shift, wanted)
            .map_err(|e| LayoutError::system(path, "exchange blocks (EXT4_IOC_MOVE_EXT)", e))?;
        if moved == 0 {
            // What was there has been cut off, or become a hole.
            return Ok(());
        }
        at += moved;
        if !count(moved * block) {
            return Err(LayoutError::Stopped {
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

/// XFS: a copy without a name, and all extents change hands at once, unless the file was changed meanwhile.
fn swap_extents(
    path: &Path,
    file: &File,
    before: &Measured,
    count: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let seen = file.metadata().map_err(wrap("read its facts"))?;
    let copy = kernel::unnamed(folder_of(path)).map_err(wrap("make a file beside it"))?;
    reserve_data(path, file, &copy, seen.len())?;
    let reserved = measure_open(&copy, path, before.block_bytes)?;
    if reserved.layout.runs >= before.layout.runs {
        return Ok(false);
    }
    copy.set_len(seen.len())
        .map_err(wrap("set the length of its copy"))?;
    if !copy_contents(file, &copy, seen.len(), count).map_err(wrap("copy"))? {
        return Err(LayoutError::Stopped {
            path: path.to_owned(),
        });
    }
    copy.sync_all().map_err(wrap("write its copy"))?;
    match kernel::swap_extents(file, &copy, &seen) {
        Ok(()) => {}
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY)) => {
            let hint = "it is as it was; try again when nobody writes to it";
            return Err(LayoutError::file(
                path,
                "a file that nobody changes meanwhile",
                "one that somebody did",
                hint,
            ));
        }
        Err(error) => {
            return Err(LayoutError::system(
                path,
                "exchange extents (XFS_IOC_SWAPEXT; --rewrite does without)",
                error,
            ))
        }
    }
    file.sync_all().map_err(wrap("write"))?;
    Ok(true)
}

fn defragment(
    path: &Path,
    file: &File,
    size: u64,
    count: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let mut start = 0;
    while start < size {
        let length = SEGMENT_BYTES.min(size - start);
        kernel::defragment(file, start, length).map_err(wrap("defragment (BTRFS_IOC_DEFRAG_RANGE)"))?;
        file.sync_all().map_err(wrap("write"))?;
        start += length;
        if !count(length) {
            return Err(LayoutError::Stopped {
                path: path.to_owned(),
            });
        }
    }
    Ok(true)
}

/// Reserves what will hold data, each piece in one go; holes stay holes.
fn reserve_data(path: &Path, file: &File, copy: &File, size: u64) -> Result<(), LayoutError> {
    let wrap = |action| move |error| LayoutError::system(path, action, error);
    let mut at = 0;
    while let Some((start, end)) = data_from(file, at, size).map_err(wrap("look for its holes"))? {
        kernel::reserve(copy, start, end - start).map_err(wrap("reserve blocks"))?;
        at = end;
    }
    Ok(())
}
