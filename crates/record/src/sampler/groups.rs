//! Control groups whose memory is limited, of either version: the limit, what is used of it, and what was read again since it was evicted.
//!
//! Who reads much more than its group may keep has a slow disk to look at, and a fast one that is asked for the same pages again and again.
//! Sources: Documentation/admin-guide/cgroup-v2.rst, Documentation/admin-guide/cgroup-v1/memory.rst, mm/workingset.c.
use super::sources::{Reading, PAGE_BYTES};
use case::rows::NAME_BYTES;
use case::schema::SubjectKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Groups that are looked at, at most: a machine of containers has hundreds, and each costs three files a second.
const GROUPS_MAX: usize = 128;
/// Folders that are looked into for them.
const FOLDERS_MAX: usize = 8192;
/// What stands for the begin of a path that does not fit.
const CUT: &str = "…";

/// The hierarchy that limits memory, and how its files are called.
#[derive(Clone, Debug, PartialEq)]
pub struct Hierarchy {
    mount: PathBuf,
    /// Each may be the word `max`, or beyond all machines, where there is no limit.
    limits: &'static [&'static str],
    usage: &'static str,
    /// Line of memory.stat with the pages of this group and those below.
    refaults: &'static str,
}

const SECOND_VERSION: (&[&str], &str, &str) = (
    &["memory.max", "memory.high"],
    "memory.current",
    "workingset_refault_file ",
);
const FIRST_VERSION: (&[&str], &str, &str) = (
    &["memory.limit_in_bytes"],
    "memory.usage_in_bytes",
    "total_workingset_refault_file ",
);

impl Hierarchy {
    /// The one of this machine; `None` where no group can be limited.
    pub fn find() -> Option<Hierarchy> {
        Hierarchy::of(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Where the first version has the controller, the second has not.
    fn of(mounts: &str) -> Option<Hierarchy> {
        let first = mount_of(mounts, Some("memory")).map(|mount| (mount, FIRST_VERSION));
        let found = first.or_else(|| Some((mount_of(mounts, None)?, SECOND_VERSION)));
        found.map(|(mount, (limits, usage, refaults))| Hierarchy {
            mount: mount.into(),
            limits,
            usage,
            refaults,
        })
    }

    /// The groups that have a limit below what the machine has.
    pub fn limited(&self, machine_bytes: f64) -> Vec<PathBuf> {
        let mut found = Vec::new();
        // Two of one name would share their counters.
        let mut names = BTreeSet::new();
        let mut left = vec![self.mount.clone()];
        for _ in 0..FOLDERS_MAX {
            let Some(folder) = left.pop() else { break };
            let is_limited = self.limit(&folder).is_some_and(|bytes| bytes < machine_bytes);
            if is_limited && names.insert(self.name(&folder)) {
                found.push(folder.clone());
                if found.len() == GROUPS_MAX {
                    break;
                }
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            left.extend(entries.filter(is_folder).map(|entry| entry.path()));
        }
        found
    }

    fn limit(&self, group: &Path) -> Option<f64> {
        let limits = self.limits.iter().filter_map(|name| number(&group.join(name)));
        limits.reduce(f64::min)
    }

    /// What a group says now; nothing if it is gone.
    pub fn read(&self, group: &Path) -> Vec<Reading> {
        let (Some(limit), Some(used)) = (self.limit(group), number(&group.join(self.usage))) else {
            return Vec::new();
        };
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let pages = stat
            .lines()
            .find_map(|line| line.strip_prefix(self.refaults)?.parse::<f64>().ok());
        let subject = self.name(group);
        let reading = |metric, value, counter, scale| Reading {
            kind: SubjectKind::Cgroup,
            subject: subject.clone(),
            metric,
            value,
            counter,
            scale,
        };
        let mut readings = vec![
            reading("memory_limit_bytes", limit, false, 1.0),
            reading("memory_used_bytes", used, false, 1.0),
        ];
        readings.extend(pages.map(|pages| reading("refaulted_file_bytes_per_s", pages, true, PAGE_BYTES)));
        readings
    }

    /// The path below the mount, or its end: that is what tells groups apart.
    fn name(&self, group: &Path) -> String {
        let below = group.strip_prefix(&self.mount).unwrap_or(group);
        let path = format!("/{}", below.display());
        if path.len() <= NAME_BYTES {
            return path;
        }
        let least = path.len() - (NAME_BYTES - CUT.len());
        let begin = (least..path.len()).find(|at| path.is_char_boundary(*at));
        format!("{CUT}{}", &path[begin.unwrap_or(path.len())..])
    }
}

/// Where the first version's hierarchy with this controller is mounted, or, without one, the second version's; of `/proc/self/mountinfo`.
pub fn mount_of<'a>(mounts: &'a str, controller: Option<&str>) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let is_it = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        is_it.then(|| before.split(' ').nth(4)).flatten()
    })
}

fn number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Memory of the machine.
pub fn machine_bytes() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(f64::INFINITY, |kib| kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str =
        "30 25 0:26 / /cg/memory rw - cgroup cgroup rw,memory\n31 25 0:27 / /cg/unified rw - cgroup2 none rw\n";

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn values(readings: &[Reading]) -> Vec<(&str, f64)> {
        let value = |reading: &Reading| reading.value * reading.scale;
        readings.iter().map(|one| (one.metric, value(one))).collect()
    }

    #[test]
    fn the_first_version_counts_where_it_has_the_controller() {
        let both = Hierarchy::of(MOUNTS).unwrap();
        assert_eq!(
            (both.mount.to_str(), both.usage),
            (Some("/cg/memory"), FIRST_VERSION.1)
        );
        let second = Hierarchy::of(MOUNTS.lines().nth(1).unwrap()).unwrap();
        assert_eq!(
            (second.mount.to_str(), second.usage),
            (Some("/cg/unified"), SECOND_VERSION.1)
        );
        assert_eq!(Hierarchy::of(""), None);
    }

    #[test]
    fn groups_with_a_limit_are_found_and_read() {
        let root = tempfile::tempdir().unwrap();
        let mut hierarchy = Hierarchy::of("31 25 0:27 / /x rw - cgroup2 none rw\n").unwrap();
        hierarchy.mount = root.path().into();
        let group = root.path().join("kube/db");
        write(&root.path().join("kube/memory.max"), "max\n");
        write(&root.path().join("other/memory.max"), "9000000\n");
        write(&group.join("memory.max"), "2000\n");
        write(&group.join("memory.high"), "1000\n");
        write(&group.join("memory.current"), "900\n");
        write(
            &group.join("memory.stat"),
            "anon 5\nworkingset_refault_anon 9\nworkingset_refault_file 3\n",
        );
        assert_eq!(hierarchy.limited(1e6), std::slice::from_ref(&group));
        let readings = hierarchy.read(&group);
        let expected = [
            ("memory_limit_bytes", 1000.0),
            ("memory_used_bytes", 900.0),
            ("refaulted_file_bytes_per_s", 3.0 * PAGE_BYTES),
        ];
        assert_eq!(values(&readings), expected);
        assert!(readings.iter().all(|one| one.subject == "/kube/db"));
        assert_eq!(hierarchy.read(&root.path().join("gone")), []);
    }

    #[test]
    fn of_a_long_path_the_end_is_kept() {
        let hierarchy = Hierarchy::of(MOUNTS).unwrap();
        // The cut falls into a letter of two bytes.
        let end = "0123456789012345678901234567";
        let group = format!("/cg/memory/kubepods/burstable/é{end}");
        let name = hierarchy.name(Path::new(&group));
        assert_eq!(name, format!("{CUT}{end}"));
        assert!(name.len() <= NAME_BYTES);
        assert_eq!(hierarchy.name(Path::new("/cg/memory")), "/");
    }
}
