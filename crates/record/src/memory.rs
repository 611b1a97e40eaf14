//! How much memory is there, and how much of it a recording takes.
//!
//! Nearly all that a recording takes is rings between kernel and recorder, which the kernel allocates when they are made. Where
//! little memory is there they are smaller: a burst may then be lost, which is counted, and nobody is killed.
use std::path::{Path, PathBuf};

/// All rings at full size: 122 MiB were measured with all probes on two CPUs.
const RINGS_BYTES: u64 = 128 << 20;

/// What a recording takes beside them: 92 MiB of tables in the kernel, and the recorder's own 28 MiB.
const TABLES_BYTES: u64 = 120 << 20;

/// The part of what is then left that rings may take.
const RINGS_PART: u64 = 4;

/// Rings are halved at most this often: 2 MiB for block requests are 40 ms of the fastest disks, twice the longest pause between
/// two looks.
const HALVINGS_MAX: u32 = 5;

/// A recording with full rings: 214 MiB of the kernel and 33 MiB of the recorder were measured (decision 0118).
pub const RECORDING_BYTES: u64 = 248 << 20;

/// A recording with the smallest rings, and its sealing: measured likewise.
pub const RECORDING_BYTES_MIN: u64 = 140 << 20;

/// Memory that this process may still get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// How much.
    pub bytes: u64,
    /// The file that says so: of the machine, or of a control group.
    pub source: PathBuf,
}

/// What is available here: `MemAvailable`, or less where a control group limits it. `None` where `/proc` does not say.
pub fn available() -> Option<Available> {
    available_below(Path::new("/"))
}

/// The same with the root of other `/proc` and `/sys`.
fn available_below(root: &Path) -> Option<Available> {
    let meminfo = root.join("proc/meminfo");
    let of_machine = std::fs::read_to_string(&meminfo).ok().and_then(|text| {
        let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        kib.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    let of_machine = of_machine.map(|kib| Available {
        bytes: kib << 10,
        source: meminfo,
    });
    of_machine
        .into_iter()
        .chain(of_groups(root))
        .min_by_key(|each| each.bytes)
}

/// What each control group above this process leaves, of either version.
fn of_groups(root: &Path) -> Vec<Available> {
    let text = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        // File names of a group: limit, use, and which part of it the kernel takes back first.
        let (mount, limit, usage, inactive) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "),
            _ if controllers.split(',').any(|name| name == "memory") => (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file ",
            ),
            _ => continue,
        };
        let mount = root.join(mount);
        let group = mount.join(path.trim_start_matches('/'));
        for group in group.ancestors().take_while(|group| group.starts_with(&mount)) {
            let number = |name: &str| {
                std::fs::read_to_string(group.join(name))
                    .ok()?
                    .trim()
                    .parse::<u64>()
                    .ok()
            };
            // No limit is the word `max`, or a number beyond all machines.
            let (Some(most), Some(used)) = (number(limit), number(usage)) else {
                continue;
            };
            let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
            let cached = stat
                .lines()
                .find_map(|line| line.strip_prefix(inactive)?.parse::<u64>().ok());
            found.push(Available {
                bytes: most.saturating_sub(used.saturating_sub(cached.unwrap_or(0))),
                source: group.join(limit),
            });
        }
    }
    found
}

/// How often rings are halved so that they fit into what is available.
pub fn halvings(available_bytes: u64) -> u32 {
    let left = available_bytes.saturating_sub(TABLES_BYTES);
    let fits = |halvings: &u32| RINGS_BYTES >> halvings <= left / RINGS_PART;
    (0..HALVINGS_MAX).find(fits).unwrap_or(HALVINGS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_tightest_limit_counts() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(available_below(root), None);
        write(
            root,
            "proc/meminfo",
            "MemTotal: 9000 kB\nMemAvailable:    4000000 kB\n",
        );
        assert_eq!(available_below(root).unwrap().bytes, 4_096_000_000);
        write(
            root,
            "proc/self/cgroup",
            "5:cpu,cpuacct:/a\n3:memory:/a/b\n0::/c\n",
        );
        let v1 = "sys/fs/cgroup/memory/a";
        write(
            root,
            &format!("{v1}/b/memory.limit_in_bytes"),
            "9223372036854771712\n",
        );
        write(root, &format!("{v1}/b/memory.usage_in_bytes"), "1000\n");
        write(root, &format!("{v1}/memory.limit_in_bytes"), "200000\n");
        write(root, &format!("{v1}/memory.usage_in_bytes"), "150000\n");
        write(
            root,
            &format!("{v1}/memory.stat"),
            "cache 7\ntotal_inactive_file 30000\n",
        );
        let found = available_below(root).unwrap();
        assert_eq!(found.bytes, 80_000, "what is cached can be had");
        assert!(found.source.ends_with("memory/a/memory.limit_in_bytes"));
        write(root, "sys/fs/cgroup/c/memory.max", "max\n");
        write(root, "sys/fs/cgroup/c/memory.current", "70\n");
        assert_eq!(available_below(root).unwrap().bytes, 80_000);
        write(root, "sys/fs/cgroup/c/memory.max", "100\n");
        assert_eq!(available_below(root).unwrap().bytes, 30);
    }

    #[test]
    fn rings_fit_into_a_part_of_what_is_there() {
        assert_eq!(halvings(64 << 30), 0);
        assert_eq!(halvings(632 << 20), 0);
        assert_eq!(halvings((632 << 20) - 1), 1);
        assert_eq!(halvings(160 << 20), 4);
        assert_eq!(halvings(0), HALVINGS_MAX);
    }
}
