//! Control groups of the hierarchy that I/O is accounted to, by the number that the kernel knows them by.
use crate::host::text;
use std::collections::BTreeMap;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// A host with more groups keeps the first ones that are found: those nearest to the root.
const GROUPS_MAX: usize = 10_000;

/// Number of a group (the inode of its folder) -> path of the folder.
pub(crate) fn io_groups(root: &Path) -> BTreeMap<u64, String> {
    let mut groups = BTreeMap::new();
    let Some(top) = hierarchy(&text(&root.join("proc/self/mounts")).unwrap_or_default()) else {
        return groups;
    };
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let inode =
        |path: &Path| std::fs::metadata(inside(path)).map(|m| std::os::unix::fs::MetadataExt::ino(&m));
    if let Ok(number) = inode(&top) {
        groups.insert(number, top.to_string_lossy().into_owned());
    }
    let mut level = vec![top];
    while !level.is_empty() {
        let mut below = Vec::new();
        for folder in level {
            let Ok(entries) = std::fs::read_dir(inside(&folder)) else {
                continue; // it is gone
            };
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && groups.len() < GROUPS_MAX {
                    let path = folder.join(entry.file_name());
                    groups.insert(entry.ino(), path.to_string_lossy().into_owned());
                    below.push(path);
                }
            }
        }
        level = below;
    }
    groups
}

/// Where the groups of the I/O controller are: its own hierarchy (version 1), else the unified one.
fn hierarchy(mounts: &str) -> Option<PathBuf> {
    let mut unified = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(_source), Some(target), Some(kind), Some(options)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let target = PathBuf::from(crate::host::unescape_octal(target));
        match kind {
            "cgroup" if options.split(',').any(|option| option == "blkio") => return Some(target),
            "cgroup2" => unified = unified.or(Some(target)),
            _ => {}
        }
    }
    unified
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::test_tree::put;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_hierarchy_of_the_io_controller_is_walked() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let v1 = "cgroup2 /cg/unified cgroup2 rw 0 0\ncgroup /cg/blkio cgroup rw,blkio 0 0\n";
        put(root, "proc/self/mounts", v1);
        put(root, "cg/blkio/db/tasks", "");
        put(root, "cg/blkio/db/old one/tasks", "");
        put(root, "cg/unified/other/cgroup.procs", "");
        let groups = io_groups(root);
        let number = |path: &str| std::fs::metadata(root.join(path)).unwrap().ino();
        assert_eq!(groups.len(), 3);
        assert_eq!(groups[&number("cg/blkio")], "/cg/blkio");
        assert_eq!(groups[&number("cg/blkio/db/old one")], "/cg/blkio/db/old one");
        put(root, "proc/self/mounts", "cgroup2 /cg/unified cgroup2 rw 0 0\n");
        assert_eq!(io_groups(root)[&number("cg/unified/other")], "/cg/unified/other");
        put(root, "proc/self/mounts", "proc /proc proc rw 0 0\n");
        assert!(io_groups(root).is_empty());
    }
}
