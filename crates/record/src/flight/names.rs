//! Names that outlive the ring: the kernel programs send a file's name once.
use case::rows::FileRow;
use std::collections::BTreeMap;
use std::fs;

/// Rows of names in each of two generations: 20 MiB together.
const ROWS_MAX: usize = 1 << 16;

type Generation = BTreeMap<(u32, u64), Vec<FileRow>>;

/// Names of files seen lately.
#[derive(Default)]
pub struct FileNames {
    young: Generation,
    young_rows: usize,
    old: Generation,
}

impl FileNames {
    /// Remembers names; the pieces of one come in their order.
    pub fn keep(&mut self, rows: &[FileRow]) {
        for row in rows {
            if self.young_rows >= ROWS_MAX && row.part == 0 {
                self.old = std::mem::take(&mut self.young);
                self.young_rows = 0;
            }
            let pieces = self.young.entry((row.device, row.inode)).or_default();
            if row.part == 0 {
                self.young_rows -= pieces.len();
                pieces.clear();
            }
            pieces.push(*row);
            self.young_rows += 1;
        }
    }

    /// All names; newer ones later.
    pub fn rows(&self) -> Vec<FileRow> {
        let both = self.old.values().chain(self.young.values());
        both.flatten().copied().collect()
    }
}

/// Names of a device (kernel dev_t) and of the disk it is on; none if it has no folder in sysfs.
pub fn device_names(device: u32) -> Vec<String> {
    let (major, minor) = (device >> 20, device & 0xf_ffff);
    let Ok(folder) = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")) else {
        return Vec::new();
    };
    let disk = folder.parent().filter(|_| folder.join("partition").exists());
    let folders = [Some(folder.as_path()), disk];
    let names = folders.into_iter().flatten().filter_map(|path| path.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(inode: u64, part: u16, parts: u16) -> FileRow {
        FileRow {
            inode,
            part,
            parts,
            ..FileRow::default()
        }
    }

    #[test]
    fn a_new_name_replaces_the_old_one_and_memory_is_bounded() {
        let mut names = FileNames::default();
        names.keep(&[row(1, 0, 2), row(1, 1, 2), row(2, 0, 1)]);
        names.keep(&[row(1, 0, 1)]);
        assert_eq!(names.rows(), [row(1, 0, 1), row(2, 0, 1)]);
        for inode in 0..4 * ROWS_MAX as u64 {
            names.keep(&[row(inode, 0, 1)]);
        }
        assert!(names.rows().len() <= 2 * ROWS_MAX);
    }
}
