//! Control groups of the hierarchy that I/O is accounted to, by the number that the kernel knows them by.
use std::collections::BTreeMap;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A host with more groups keeps the first ones that are found: those nearest to the root.
const GROUPS_MAX: usize = 10_000;

/// Number of a group (the inode of its folder) -> path of the folder; `mounts` as in `SystemMeta`.
pub(crate) fn io_groups(root: &Path, mounts: &BTreeMap<String, [String; 3]>) -> BTreeMap<u64, String> {
    let mut groups = BTreeMap::new();
    let Some(top) = hierarchy(mounts) else {
        return groups;
    };
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let inode = |path: &Path| std::fs::metadata(inside(path)).map(|folder| folder.ino());
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
fn hierarchy(mounts: &BTreeMap<String, [String; 3]>) -> Option<PathBuf> {
    let own = |[_, kind, options]: &[String; 3]| {
        kind == "cgroup" && options.split(',').any(|option| option == "blkio")
    };
    let unified = |[_, kind, _]: &[String; 3]| kind == "cgroup2";
    let found = mounts.iter().find(|(_, mount)| own(mount));
    let found = found.or_else(|| mounts.iter().find(|(_, mount)| unified(mount)));
    found.map(|(target, _)| PathBuf::from(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::test_tree::put;

    fn mounted(entries: &[(&str, &str, &str)]) -> BTreeMap<String, [String; 3]> {
        let mount = |(target, kind, options): &(&str, &str, &str)| {
            (
                target.to_string(),
                [kind, kind, options].map(|text| text.to_string()),
            )
        };
        entries.iter().map(mount).collect()
    }

    #[test]
    fn the_hierarchy_of_the_io_controller_is_walked() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "cg/blkio/db/tasks", "");
        put(root, "cg/blkio/db/old one/tasks", "");
        put(root, "cg/unified/other/cgroup.procs", "");
        let v2 = ("/cg/unified", "cgroup2", "rw");
        let groups = io_groups(root, &mounted(&[v2, ("/cg/blkio", "cgroup", "rw,blkio")]));
        let number = |path: &str| std::fs::metadata(root.join(path)).unwrap().ino();
        assert_eq!(groups.len(), 3);
        assert_eq!(groups[&number("cg/blkio")], "/cg/blkio");
        assert_eq!(groups[&number("cg/blkio/db/old one")], "/cg/blkio/db/old one");
        let groups = io_groups(root, &mounted(&[v2]));
        assert_eq!(groups[&number("cg/unified/other")], "/cg/unified/other");
        assert!(io_groups(root, &mounted(&[("/proc", "proc", "rw")])).is_empty());
    }
}
