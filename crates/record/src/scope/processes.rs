//! Which processes are in the scope: found in `/proc` and in the folders of control groups.
//!
//! What a process in the scope starts is followed by the kernel programs. Who enters a control group otherwise is found
//! by looking at the group now and then: what such a process does before it is found is not recorded.
use super::{not_there, wrong};
use crate::error::RecordError;
use crate::recorder::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Looks at the processes of the scope when the recording begins: each finds who slipped through the one before.
const FIRST_LOOKS: u32 = 10;

/// A process that comes into the scope, or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Process.
    pub pid: i32,
    /// Whether it is in the scope from now on.
    pub within: bool,
}

/// Where to look, and who was found there.
#[derive(Debug)]
pub struct Processes {
    /// Roots of trees of processes.
    roots: Vec<i32>,
    /// The observed command: it is about to begin, and what it has started before is not of it.
    command: Option<i32>,
    cgroups: Vec<PathBuf>,
    /// Found in the trees; the kernel follows them from then on.
    of_trees: BTreeSet<i32>,
    /// Found in the control groups at the last look.
    of_cgroups: BTreeSet<i32>,
}

impl Processes {
    /// `None` if every process is in the scope. Errors: a process or control group that is not there.
    pub fn resolve(config: &Config) -> Result<Option<Processes>, RecordError> {
        let scope = &config.scope;
        let given = scope.pids.iter().map(|pid| process_of(*pid));
        let roots = given.collect::<Result<Vec<i32>, _>>()?;
        for folder in &scope.cgroups {
            fs::read(folder.join("cgroup.procs")).map_err(|error| {
                let expected = "the folder of a control group (with a file cgroup.procs)";
                wrong("cgroup", expected, not_there(folder, &error))
            })?;
        }
        Ok(config.follows_processes().then(|| Processes {
            roots,
            command: config.command_pid.map(|pid| pid as i32),
            cgroups: scope.cgroups.clone(),
            of_trees: BTreeSet::new(),
            of_cgroups: BTreeSet::new(),
        }))
    }

    /// Looks for all of them, and tells `follow` who is new, until nobody is.
    pub fn find(
        &mut self,
        mut follow: impl FnMut(&[Change]) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        for _ in 0..FIRST_LOOKS {
            let mut changes = self.look_at_cgroups();
            changes.extend(self.look_at_trees());
            if changes.is_empty() {
                break;
            }
            follow(&changes)?;
        }
        Ok(())
    }

    /// Looks for processes of the trees that were not found before. Once what was found is followed, whoever slipped
    /// through between the look and that is found by the next one.
    fn look_at_trees(&mut self) -> Vec<Change> {
        let mut found = BTreeSet::new();
        if !self.roots.is_empty() {
            found = descendants(&self.roots, &parents());
        }
        found.extend(self.command);
        let new: Vec<i32> = found.difference(&self.of_trees).copied().collect();
        self.of_trees.extend(&new);
        new.into_iter().map(|pid| Change { pid, within: true }).collect()
    }

    /// Looks who has come into the control groups, and who has left.
    pub fn look_at_cgroups(&mut self) -> Vec<Change> {
        if self.cgroups.is_empty() {
            return Vec::new();
        }
        let mut now = BTreeSet::new();
        for folder in &self.cgroups {
            members(folder, &mut now);
        }
        let change = |within: bool| move |pid: &i32| Change { pid: *pid, within };
        let gone = self.of_cgroups.difference(&now);
        let gone = gone.filter(|pid| !self.of_trees.contains(pid)).map(change(false));
        let come = now.difference(&self.of_cgroups).map(change(true));
        let changes = gone.chain(come).collect();
        self.of_cgroups = now;
        changes
    }
}

/// The process that a number, which may be a thread's, belongs to.
fn process_of(pid: i32) -> Result<i32, RecordError> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    let status = fs::read_to_string(&path)
        .map_err(|_| wrong("pid", "a process that runs", format!("no process {pid}")))?;
    let tgid = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    Ok(tgid.and_then(|text| text.trim().parse().ok()).unwrap_or(pid))
}

/// Parent of every process.
fn parents() -> BTreeMap<i32, i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pid_of = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let pids = entries.flatten().filter_map(pid_of);
    pids.filter_map(|pid| Some((pid, parent_of(pid)?))).collect()
}

/// Parent of a process; `None` if it is not there.
pub fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn descendants(roots: &[i32], parents: &BTreeMap<i32, i32>) -> BTreeSet<i32> {
    let mut found: BTreeSet<i32> = roots.iter().copied().collect();
    loop {
        let children = parents.iter().filter(|(_, parent)| found.contains(parent));
        let new: Vec<i32> = children
            .map(|(pid, _)| *pid)
            .filter(|pid| !found.contains(pid))
            .collect();
        if new.is_empty() {
            return found;
        }
        found.extend(new);
    }
}

/// Processes of a control group and of those below.
fn members(folder: &Path, into: &mut BTreeSet<i32>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    into.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        members(&entry.path(), into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_at_any_depth_and_in_any_order() {
        let parents = BTreeMap::from([(2, 9), (9, 5), (5, 1), (7, 1), (8, 7)]);
        assert_eq!(descendants(&[5], &parents), BTreeSet::from([5, 9, 2]));
        assert_eq!(
            descendants(&[44], &parents),
            BTreeSet::from([44]),
            "about to be seen"
        );
    }

    #[test]
    fn this_process_has_a_parent_and_is_one() {
        let own = std::process::id() as i32;
        assert_eq!(process_of(own).unwrap(), own);
        assert!(parents().get(&own).is_some_and(|parent| *parent > 0));
        let error = process_of(i32::MAX).unwrap_err().to_string();
        assert!(error.contains("no process 2147483647"), "{error}");
    }

    #[test]
    fn who_leaves_a_control_group_leaves_the_scope() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(folder.path().join("cgroup.procs"), "4\n5\n").unwrap();
        fs::write(below.join("cgroup.procs"), "6\n").unwrap();
        let mut config = Config::default();
        config.scope.cgroups = vec![folder.path().to_owned()];
        let mut processes = Processes::resolve(&config).unwrap().unwrap();
        assert_eq!(processes.look_at_cgroups().len(), 3);
        fs::write(below.join("cgroup.procs"), "7\n").unwrap();
        let changes = processes.look_at_cgroups();
        let change = |pid, within| Change { pid, within };
        assert_eq!(changes, [change(6, false), change(7, true)]);
        config.scope.cgroups = vec![folder.path().join("none")];
        assert!(Processes::resolve(&config).is_err());
    }
}
