//! The files, and what their numbers mean.
//!
//! Sources: proc(5) (stat, diskstats), Documentation/admin-guide/iostats.rst, Documentation/accounting/psi.rst,
//! Documentation/scheduler/sched-bwc.rst (cpu.stat), Documentation/admin-guide/cgroup-v2.rst, mm/vmstat.c (vmstat_text), mm/workingset.c.
use super::groups::mount_of;
use case::schema::SubjectKind;
use std::path::{Path, PathBuf};

/// Ticks of /proc/stat: USER_HZ, which is 100 on every Linux that we run on.
const SECONDS_PER_TICK: f64 = 0.01;
const SECTOR_BYTES: f64 = 512.0;
/// Pages of /proc/vmstat and of a group's memory.stat, on x86-64.
pub const PAGE_BYTES: f64 = 4096.0;

/// One number of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub kind: SubjectKind,
    pub subject: String,
    /// Name with unit.
    pub metric: &'static str,
    pub value: f64,
    /// It only grows: the sample is its growth per second, times `scale`. Otherwise the sample is the value itself.
    pub counter: bool,
    pub scale: f64,
}

impl Reading {
    fn counter(kind: SubjectKind, subject: &str, metric: &'static str, value: f64, scale: f64) -> Reading {
        Reading {
            kind,
            subject: subject.into(),
            metric,
            value,
            counter: true,
            scale,
        }
    }
}

/// A file to read once a second.
pub struct Source {
    pub path: PathBuf,
    /// What is missing without it.
    pub what: &'static str,
    /// Its readings; empty if it is not there or makes no sense.
    pub read: fn(&Path) -> Vec<Reading>,
}

/// All files. `command_pid`: the observed command; its control group is looked at as well.
pub fn all(command_pid: Option<u32>) -> Vec<Source> {
    let source = |path: &str, what, read| Source {
        path: path.into(),
        what,
        read,
    };
    let mut all = vec![
        source("/proc/stat", "steal time and other use of the CPUs", read_stat),
        source("/proc/diskstats", "sampled load of the devices", read_diskstats),
        source("/proc/pressure/io", "I/O pressure (PSI)", read_pressure),
        source("/proc/pressure/cpu", "CPU pressure (PSI)", read_pressure),
        source(
            "/proc/vmstat",
            "what the page cache gave up, and had to read again, and whom want of memory killed",
            read_vmstat,
        ),
    ];
    let pid = command_pid.unwrap_or_else(std::process::id);
    if let Some(path) = cpu_stat_path(pid) {
        all.push(Source {
            path,
            what: "throttling of the command's control group",
            read: read_cpu_stat,
        });
    }
    all
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn read_stat(path: &Path) -> Vec<Reading> {
    stat(&text(path))
}

fn stat(text: &str) -> Vec<Reading> {
    const METRICS: [(usize, &str); 6] = [
        (1, "user_ratio"),
        (3, "system_ratio"),
        (4, "idle_ratio"),
        (5, "iowait_ratio"),
        (7, "softirq_ratio"),
        (8, "steal_ratio"),
    ];
    let mut readings = Vec::new();
    for line in text.lines().filter(|line| is_of_one_cpu(line)) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        for (place, metric) in METRICS {
            let Some(ticks) = fields.get(place).and_then(|field| field.parse::<f64>().ok()) else {
                continue;
            };
            let kind = SubjectKind::Cpu;
            readings.push(Reading::counter(kind, fields[0], metric, ticks, SECONDS_PER_TICK));
        }
    }
    readings
}

fn is_of_one_cpu(line: &str) -> bool {
    let number = line.strip_prefix("cpu").unwrap_or_default();
    number.starts_with(|digit: char| digit.is_ascii_digit())
}

/// Use of all CPUs together, in ticks since the boot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    pub cpus: f64,
    /// All time in which a CPU was wanted: at work, or stolen.
    pub wanted: f64,
    /// The part of it in which the hypervisor had the CPU elsewhere.
    pub steal: f64,
}

impl Machine {
    /// Both as parts of all CPUs.
    pub fn readings(&self) -> Vec<Reading> {
        let scale = SECONDS_PER_TICK / self.cpus;
        let reading = |metric, ticks| Reading::counter(SubjectKind::Cpu, "all", metric, ticks, scale);
        vec![
            reading("wanted_ratio", self.wanted),
            reading("steal_ratio", self.steal),
        ]
    }
}

/// What /proc/stat says of the whole machine.
pub fn whole_machine(path: &Path) -> Option<Machine> {
    machine(&text(path))
}

fn machine(text: &str) -> Option<Machine> {
    /// user, nice, system, irq, softirq, steal
    const WANTED: [usize; 6] = [0, 1, 2, 5, 6, 7];
    const STEAL: usize = 7;
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Option<Vec<f64>> = all
        .split_ascii_whitespace()
        .map(|field| field.parse().ok())
        .collect();
    let ticks = ticks.filter(|ticks| ticks.len() > STEAL)?;
    Some(Machine {
        cpus: text.lines().filter(|line| is_of_one_cpu(line)).count().max(1) as f64,
        wanted: WANTED.iter().map(|place| ticks[*place]).sum(),
        steal: ticks[STEAL],
    })
}

fn read_diskstats(path: &Path) -> Vec<Reading> {
    diskstats(&text(path))
}

/// Devices that were never used are left out.
fn diskstats(text: &str) -> Vec<Reading> {
    /// Field (name = 2), metric, what one unit is.
    const COUNTERS: [(usize, &str, f64); 5] = [
        (3, "reads_per_s", 1.0),
        (5, "read_bytes_per_s", SECTOR_BYTES),
        (7, "writes_per_s", 1.0),
        (9, "write_bytes_per_s", SECTOR_BYTES),
        (12, "busy_ratio", 1e-3),
    ];
    const IN_FLIGHT: usize = 11;
    let mut readings = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok());
        let (Some(name), Some(reads), Some(writes)) = (fields.get(2), number(3), number(7)) else {
            continue;
        };
        if reads + writes == 0.0 {
            continue;
        }
        let kind = SubjectKind::Device;
        for (place, metric, scale) in COUNTERS {
            let reading = |value| Reading::counter(kind, name, metric, value, scale);
            readings.extend(number(place).map(reading));
        }
        readings.extend(number(IN_FLIGHT).map(|value| Reading {
            counter: false,
            ..Reading::counter(kind, name, "in_flight", value, 1.0)
        }));
    }
    readings
}

fn read_pressure(path: &Path) -> Vec<Reading> {
    pressure(&text(path), path.ends_with("io"))
}

fn pressure(text: &str, io: bool) -> Vec<Reading> {
    let metric = |line: &str| match (line.split_once(' ')?.0, io) {
        ("some", true) => Some("io_pressure_some_ratio"),
        ("full", true) => Some("io_pressure_full_ratio"),
        ("some", false) => Some("cpu_pressure_some_ratio"),
        _ => None,
    };
    let reading = |line: &str| {
        let total_us: f64 = line.split_once("total=")?.1.trim().parse().ok()?;
        let kind = SubjectKind::Host;
        Some(Reading::counter(kind, "host", metric(line)?, total_us, 1e-6))
    };
    text.lines().filter_map(reading).collect()
}

fn read_vmstat(path: &Path) -> Vec<Reading> {
    vmstat(&text(path))
}

/// Pages of files that the kernel evicted, for whatever group, those that were read again after that, how often somebody told it to drop its
/// page cache, and how many processes it killed for want of memory, of the machine or of a group; and memory that nobody uses.
fn vmstat(text: &str) -> Vec<Reading> {
    let counter = |metric, value, scale| Reading::counter(SubjectKind::Host, "host", metric, value, scale);
    let reading = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        let value: f64 = value.parse().ok()?;
        match name {
            "pgsteal_file" => Some(counter("evicted_file_bytes_per_s", value, PAGE_BYTES)),
            "workingset_refault_file" => Some(counter("refaulted_file_bytes_per_s", value, PAGE_BYTES)),
            "drop_pagecache" => Some(counter("page_cache_drops_per_s", value, 1.0)),
            "oom_kill" => Some(counter("memory_kills_per_s", value, 1.0)),
            "nr_free_pages" => Some(Reading {
                counter: false,
                ..counter("free_memory_bytes", value * PAGE_BYTES, 1.0)
            }),
            _ => None,
        }
    };
    text.lines().filter_map(reading).collect()
}

/// `cpu.stat` of a process' control group, in either version's hierarchy.
fn cpu_stat_path(pid: u32) -> Option<PathBuf> {
    let groups = text(Path::new(&format!("/proc/{pid}/cgroup")));
    let mounts = text(Path::new("/proc/self/mountinfo"));
    cpu_stat(&groups, &mounts)
}

fn cpu_stat(groups: &str, mounts: &str) -> Option<PathBuf> {
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let second_version = controllers.is_empty();
        if !second_version && !controllers.split(',').any(|controller| controller == "cpu") {
            continue;
        }
        let mount = mount_of(mounts, (!second_version).then_some("cpu"));
        if let Some(mount) = mount {
            return Some(
                Path::new(mount)
                    .join(group.trim_start_matches('/'))
                    .join("cpu.stat"),
            );
        }
    }
    None
}

fn read_cpu_stat(path: &Path) -> Vec<Reading> {
    let group = path.parent().map(|group| group.display().to_string());
    cpu_stat_readings(&text(path), &group.unwrap_or_default())
}

fn cpu_stat_readings(text: &str, group: &str) -> Vec<Reading> {
    let metric = |name: &str| match name {
        "nr_periods" => Some(("periods_per_s", 1.0)),
        "nr_throttled" => Some(("throttled_periods_per_s", 1.0)),
        "throttled_time" => Some(("throttled_ratio", 1e-9)),
        "throttled_usec" => Some(("throttled_ratio", 1e-6)),
        _ => None,
    };
    let reading = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        let (metric, scale) = metric(name)?;
        let kind = SubjectKind::Cgroup;
        Some(Reading::counter(kind, group, metric, value.parse().ok()?, scale))
    };
    text.lines().filter_map(reading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(readings: &[Reading], subject: &str, metric: &str) -> f64 {
        let found = readings
            .iter()
            .find(|reading| reading.subject == subject && reading.metric == metric);
        let reading = found.unwrap_or_else(|| panic!("no {metric} of {subject} in {readings:?}"));
        reading.value * reading.scale
    }

    #[test]
    fn steal_is_the_eighth_number_of_a_cpu() {
        let text = "cpu  2 0 0 0 0 0 0 9 0 0\ncpu0 100 0 7 1000 3 0 5 42 0 0\nintr 5\n";
        let readings = stat(text);
        assert_eq!(value(&readings, "cpu0", "steal_ratio"), 0.42);
        assert_eq!(value(&readings, "cpu0", "idle_ratio"), 10.0);
        assert!(readings.iter().all(|reading| reading.subject == "cpu0"));
    }

    #[test]
    fn the_whole_machine_is_a_part_of_all_its_cpus() {
        let text = "cpu  100 0 60 1000 3 0 20 20 0 0\ncpu0 9 0\ncpu1 9 0\nintr 5\n";
        let readings = machine(text).unwrap().readings();
        assert_eq!(value(&readings, "all", "steal_ratio"), 0.1);
        assert_eq!(value(&readings, "all", "wanted_ratio"), 1.0);
        assert_eq!(machine("cpu 1 2\n"), None);
        assert_eq!(machine("nonsense"), None);
    }

    #[test]
    fn devices_have_rates_and_a_gauge() {
        let text =
            " 254 0 vda 10 1 80 7 20 2 160 8 3 500 15 0 0\n 7 1 loop1 0 0 0 0 0 0 0 0 0 0 0\n nonsense\n";
        let readings = diskstats(text);
        assert_eq!(value(&readings, "vda", "read_bytes_per_s"), 80.0 * 512.0);
        assert_eq!(value(&readings, "vda", "writes_per_s"), 20.0);
        assert_eq!(value(&readings, "vda", "in_flight"), 3.0);
        assert_eq!(value(&readings, "vda", "busy_ratio"), 0.5);
        assert!(!readings.iter().any(|reading| reading.subject == "loop1"));
    }

    #[test]
    fn pressure_has_a_total_in_microseconds() {
        let text = "some avg10=0.49 avg60=1.66 avg300=2.17 total=2000000\nfull avg10=0.00 avg60=0.00 avg300=0.06 total=5\n";
        assert_eq!(
            value(&pressure(text, true), "host", "io_pressure_some_ratio"),
            2.0
        );
        assert_eq!(pressure(text, false).len(), 1);
        assert_eq!(pressure("some nonsense", true), []);
    }

    #[test]
    fn the_page_cache_has_counters_of_its_own() {
        let text = "nr_free_pages 5\nworkingset_refault_anon 3\nworkingset_refault_file 10\npgsteal_file 20\ndrop_pagecache 2\noom_kill 3\nnonsense\n";
        let readings = vmstat(text);
        assert_eq!(value(&readings, "host", "refaulted_file_bytes_per_s"), 40_960.0);
        assert_eq!(value(&readings, "host", "evicted_file_bytes_per_s"), 81_920.0);
        assert_eq!(value(&readings, "host", "page_cache_drops_per_s"), 2.0);
        assert_eq!(value(&readings, "host", "memory_kills_per_s"), 3.0);
        assert_eq!(value(&readings, "host", "free_memory_bytes"), 20_480.0);
        assert_eq!(readings.iter().filter(|reading| !reading.counter).count(), 1);
        assert_eq!(readings.len(), 5);
    }

    #[test]
    fn a_control_group_is_found_in_both_versions() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 25 0:27 / /cg2 rw - cgroup2 none rw\n";
        let first = cpu_stat("3:cpu:/a/b\n0::/x\n", mounts);
        assert_eq!(first, Some("/sys/fs/cgroup/cpu/a/b/cpu.stat".into()));
        let second = cpu_stat("0::/x\n", mounts);
        assert_eq!(second, Some("/cg2/x/cpu.stat".into()));
        let readings = cpu_stat_readings("nr_periods 7\nnr_throttled 3\nthrottled_time 500000000\n", "g");
        assert_eq!(value(&readings, "g", "throttled_ratio"), 0.5);
    }
}
