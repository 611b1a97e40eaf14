//! File systems whose journal lies on another device: the external journal of ext4, the log device of XFS.
use crate::host::{attribute, dev_of, names_in};
use crate::meta::JournalMeta;
use std::collections::BTreeMap;
use std::path::Path;

/// How the thread of a journal begins; the device that the journal is on follows, and `-` and its inode if that is the file system's own (fs/jbd2/journal.c).
const JBD2: &str = "jbd2/";
/// Option of XFS.
const LOG_DEVICE: &str = "logdev=";

/// Those that are mounted now; `mounts` as in `SystemMeta`.
pub(crate) fn journals(root: &Path, mounts: &BTreeMap<String, [String; 3]>) -> Vec<JournalMeta> {
    let ext4 = root.join("sys/fs/ext4");
    let of_ext4 = names_in(&ext4).into_iter().filter_map(|name| {
        let pid = attribute(&ext4.join(&name).join("journal_task"))?;
        let thread = attribute(&root.join("proc").join(pid).join("comm"))?;
        let journal = thread.strip_prefix(JBD2)?.to_owned();
        Some((name, journal))
    });
    let of_xfs = mounts
        .values()
        .filter(|[_, kind, _]| kind == "xfs")
        .filter_map(|[source, _, options]| {
            let log = options
                .split(',')
                .find_map(|option| option.strip_prefix(LOG_DEVICE))?;
            Some((kernel_name(root, source), kernel_name(root, log)))
        });
    let mut found: Vec<JournalMeta> = of_ext4
        .chain(of_xfs)
        .filter(|(file_system, journal)| file_system != journal)
        .filter_map(|(file_system, journal)| {
            Some(JournalMeta {
                dev: number_of(root, &file_system)?,
                journal_dev: number_of(root, &journal)?,
                journal_disk: disk_of(root, &journal),
                file_system,
                journal,
            })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// `dm-3` of `/dev/mapper/log`, `sda1` of `/dev/sda1`.
fn kernel_name(root: &Path, node: &str) -> String {
    let path = root.join(node.trim_start_matches('/'));
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn number_of(root: &Path, name: &str) -> Option<u32> {
    dev_of(&attribute(&root.join("sys/class/block").join(name).join("dev"))?)
}

/// The disk that a partition is a part of; of a whole disk itself.
fn disk_of(root: &Path, name: &str) -> String {
    let block = root.join("sys/block");
    let has_it = |disk: &String| block.join(disk).join(name).join("partition").exists();
    names_in(&block)
        .into_iter()
        .find(has_it)
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_on_other_devices_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (path, text) in [
            // A journal on a partition, one inside its file system, one on a logical volume whose thread's name has an inode's form.
            ("sys/fs/ext4/sda1/journal_task", "7\n"),
            ("proc/7/comm", "jbd2/nvme0n1p2\n"),
            ("sys/fs/ext4/sdb/journal_task", "8\n"),
            ("proc/8/comm", "jbd2/sdb-8\n"),
            ("sys/fs/ext4/dm-1/journal_task", "9\n"),
            ("proc/9/comm", "jbd2/dm-1-8\n"),
            ("sys/fs/ext4/features/lazy_itable_init", "supported\n"),
            ("sys/class/block/sda1/dev", "8:1\n"),
            ("sys/class/block/sdb/dev", "8:16\n"),
            ("sys/class/block/dm-1/dev", "253:1\n"),
            ("sys/class/block/nvme0n1p2/dev", "259:2\n"),
            ("sys/class/block/dm-5/dev", "253:5\n"),
            ("sys/block/nvme0n1/nvme0n1p2/partition", "2\n"),
            ("sys/block/dm-5/size", "8\n"),
            ("dev/dm-5", ""),
            ("dev/mapper/none", ""),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::os::unix::fs::symlink("../dm-5", root.join("dev/mapper/log")).unwrap();
        let xfs = |options: &str| ["/dev/sdb".to_owned(), "xfs".to_owned(), options.to_owned()];
        let mounts = BTreeMap::from([
            ("/a".to_owned(), xfs("rw,logdev=/dev/mapper/log,noquota")),
            ("/b".to_owned(), xfs("rw,noquota")),
            // Its device is gone.
            ("/c".to_owned(), xfs("rw,logdev=/dev/sdz")),
        ]);
        let found = journals(root, &mounts);
        let expected = [
            ("sda1", 8 << 20 | 1, "nvme0n1p2", 259 << 20 | 2, "nvme0n1"),
            ("sdb", 8 << 20 | 16, "dm-5", 253 << 20 | 5, "dm-5"),
        ];
        let expected = expected.map(
            |(file_system, dev, journal, journal_dev, journal_disk)| JournalMeta {
                file_system: file_system.into(),
                dev,
                journal: journal.into(),
                journal_dev,
                journal_disk: journal_disk.into(),
            },
        );
        assert_eq!(found, expected);
    }
}
