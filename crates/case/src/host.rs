//! Facts of this host from /proc and /sys. What cannot be read is absent: that is a fact too, not an error.
use crate::meta::{DeviceMeta, SystemMeta};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Attributes longer than this are no facts but tables.
const ATTRIBUTE_BYTES_MAX: usize = 4096;

/// Collects from `root` (`/`, or a fake tree in tests).
pub(crate) fn collect(root: &Path) -> SystemMeta {
    let proc = root.join("proc");
    let cpuinfo = text(&proc.join("cpuinfo")).unwrap_or_default();
    let block = root.join("sys/block");
    let mounts = mounts(&text(&proc.join("self/mounts")).unwrap_or_default());
    SystemMeta {
        host: attribute(&proc.join("sys/kernel/hostname")).unwrap_or_default(),
        kernel: attribute(&proc.join("sys/kernel/osrelease")).unwrap_or_default(),
        cpus: attribute(&root.join("sys/devices/system/cpu/online")).map_or(0, |list| list_len(&list)),
        numa_nodes: numa_nodes(&root.join("sys/devices/system/node")),
        cpu_model: key_of(&cpuinfo, "model name").unwrap_or_default(),
        memory_bytes: memory_bytes(&text(&proc.join("meminfo")).unwrap_or_default()),
        virtualization: virtualization(root, &cpuinfo),
        devices: names_in(&block)
            .into_iter()
            .map(|name| (name.clone(), device(root, name)))
            .collect(),
        dirty_limits: dirty_limits(&proc.join("sys/vm")),
        irqs: irqs(root),
        servers: crate::servers::servers(root),
        kernel_threads: kernel_threads(&proc),
        processes: processes(&proc),
        recorder: BTreeMap::new(),
        cgroups: crate::groups::io_groups(root, &mounts),
        journals: crate::journals::journals(root, &mounts),
        mounts,
        pools: pools(&root.join("sys/fs/btrfs")),
        swaps: swaps(&text(&proc.join("swaps")).unwrap_or_default()),
        changes: Vec::new(),
    }
}

/// Of include/linux/sched.h: a thread of the kernel itself. The same since Linux 2.6.
const PF_KTHREAD: u64 = 0x0020_0000;
/// Bytes of a thread's name, as probes see it.
const COMM_BYTES: usize = 15;

/// What of /proc/sys/vm limits dirty pages.
fn dirty_limits(vm: &Path) -> BTreeMap<String, u64> {
    const NAMES: [&str; 4] = [
        "dirty_bytes",
        "dirty_background_bytes",
        "dirty_ratio",
        "dirty_background_ratio",
    ];
    let limit = |name: &&str| Some(((*name).to_owned(), attribute(&vm.join(name))?.parse().ok()?));
    NAMES.iter().filter_map(limit).collect()
}

/// Processes that are kept in `system.json` by name.
const PROCESSES_MAX: usize = 4096;

/// Names of the threads of which the kernel says that they are its own, with `#` for each number.
fn kernel_threads(proc: &Path) -> BTreeSet<String> {
    let of_kernel = stats(proc).filter_map(|stat| {
        let (name, fields) = name_and_fields(&stat)?;
        let flags: u64 = fields.get(FLAGS)?.parse().ok()?;
        (flags & PF_KTHREAD != 0).then(|| without_numbers(own_name(name)))
    });
    of_kernel.collect()
}

/// Processes with several threads, and their names.
fn processes(proc: &Path) -> BTreeMap<String, String> {
    let of_threads = stats(proc).filter_map(|stat| {
        let (name, fields) = name_and_fields(&stat)?;
        let threads: u64 = fields.get(THREADS)?.parse().ok()?;
        let pid = stat.split(' ').next()?;
        (threads > 1).then(|| (pid.to_owned(), name.to_owned()))
    });
    of_threads.take(PROCESSES_MAX).collect()
}

/// `stat` of each process: `PID (NAME) S PPID PGRP SESSION TTY TPGID FLAGS ...`, proc_pid_stat(5).
fn stats(proc: &Path) -> impl Iterator<Item = String> + '_ {
    let is_number = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let pids = names_in(proc).into_iter().filter(is_number);
    pids.filter_map(|pid| text(&proc.join(pid).join("stat")))
}

/// Places among what follows the name there.
const FLAGS: usize = 6;
const THREADS: usize = 17;

fn name_and_fields(stat: &str) -> Option<(&str, Vec<&str>)> {
    let (before, after) = stat.rsplit_once(") ")?;
    let (_, name) = before.split_once(" (")?;
    Some((name, after.split_ascii_whitespace().collect()))
}

/// The name that a thread has by itself: of a worker /proc tells what it works at, too (`kworker/u8:3-events_unbound`).
fn own_name(name: &str) -> &str {
    let own = match name.strip_prefix("kworker/") {
        Some(_) => name.split(['-', '+']).next().unwrap_or(name),
        None => name,
    };
    let end = (0..=COMM_BYTES.min(own.len()))
        .rev()
        .find(|at| own.is_char_boundary(*at));
    &own[..end.unwrap_or(0)]
}

/// `#` for each number, so that a worker of the same kind is known that was not there when somebody looked.
pub(crate) fn without_numbers(name: &str) -> String {
    let mut stem = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '0'..='9' if stem.ends_with('#') => {}
            '0'..='9' => stem.push('#'),
            other => stem.push(other),
        }
    }
    stem
}

pub(crate) fn text(path: &Path) -> Option<String> {
    std::fs::read(path)
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A one-line attribute; None if absent, empty or unreadable.
pub(crate) fn attribute(path: &Path) -> Option<String> {
    let text = text(path)?;
    let trimmed = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!trimmed.is_empty() && trimmed.len() <= ATTRIBUTE_BYTES_MAX).then(|| trimmed.to_owned())
}

/// Names in a folder, sorted; empty if there is no such folder.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Value behind the first `key : value` line.
pub(crate) fn key_of(text: &str, key: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned())
}

/// NUMA nodes and their CPUs; a node of memory alone has none.
fn numa_nodes(folder: &Path) -> BTreeMap<String, String> {
    let nodes = names_in(folder).into_iter().filter_map(|name| {
        let node: u32 = name.strip_prefix("node")?.parse().ok()?;
        Some((node.to_string(), attribute(&folder.join(&name).join("cpulist"))?))
    });
    nodes.collect()
}

/// How many numbers a kernel list such as `0-3,8` holds.
fn list_len(list: &str) -> u32 {
    let range = |part: &str| -> Option<u32> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (
            first.trim().parse::<u32>().ok()?,
            last.trim().parse::<u32>().ok()?,
        );
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').filter_map(range).sum()
}

fn memory_bytes(meminfo: &str) -> u64 {
    key_of(meminfo, "MemTotal")
        .and_then(|v| {
            v.split_whitespace()
                .next()
                .and_then(|kib| kib.parse::<u64>().ok())
        })
        .map_or(0, |kib| kib * 1024)
}

fn virtualization(root: &Path, cpuinfo: &str) -> String {
    if let Some(kind) = attribute(&root.join("sys/hypervisor/type")) {
        return kind;
    }
    let flags = key_of(cpuinfo, "flags").unwrap_or_default();
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return "none".into();
    }
    let dmi = |name| attribute(&root.join("sys/class/dmi/id").join(name));
    let maker: Vec<String> = [dmi("sys_vendor"), dmi("product_name")]
        .into_iter()
        .flatten()
        .collect();
    if maker.is_empty() {
        "hypervisor".into()
    } else {
        format!("hypervisor ({})", maker.join(" "))
    }
}

/// Mounts: target -> source, type, options. The last mount on a target is the one that is seen.
fn mounts(text: &str) -> BTreeMap<String, [String; 3]> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split(' ').map(unescape_octal);
            let (source, target) = (words.next()?, words.next()?);
            Some((target, [source, words.next()?, words.next()?]))
        })
        .collect()
}

/// Devices of each mounted btrfs that has several, by `/sys/fs/btrfs/UUID/devices`.
fn pools(folder: &Path) -> Vec<Vec<String>> {
    let devices = |name: String| names_in(&folder.join(name).join("devices"));
    let pools = names_in(folder).into_iter().map(devices);
    pools.filter(|devices| devices.len() > 1).collect()
}

/// First column of /proc/swaps, below its head.
fn swaps(text: &str) -> Vec<String> {
    let lines = text.lines().skip(1);
    lines
        .filter_map(|line| line.split_ascii_whitespace().next().map(unescape_octal))
        .collect()
}

/// The kernel writes blanks in mount paths as `\040`.
pub(crate) fn unescape_octal(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        match code.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One disk of /sys/block. Partitions are folders inside it and no devices of their own: their
/// requests carry the disk's number.
fn device(root: &Path, name: String) -> DeviceMeta {
    let folder = root.join("sys/block").join(&name);
    let sectors_512 = attribute(&folder.join("size"))
        .and_then(|s| s.parse::<u64>().ok())
        .unwrap_or(0);
    let mut meta = DeviceMeta {
        dev: attribute(&folder.join("dev"))
            .and_then(|dev| dev_of(&dev))
            .unwrap_or(0),
        size_bytes: sectors_512.saturating_mul(512),
        name,
        ..DeviceMeta::default()
    };
    // An idle loop or ram device has nothing to tell but its number, which may come into use later.
    if meta.size_bytes > 0 {
        meta.queue = attributes_in(&folder.join("queue"));
        meta.facts = facts(root, &folder);
    }
    meta
}

pub(crate) fn dev_of(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

fn attributes_in(folder: &Path) -> BTreeMap<String, String> {
    names_in(folder)
        .into_iter()
        .filter_map(|name| attribute(&folder.join(&name)).map(|value| (name, value)))
        .collect()
}

fn facts(root: &Path, folder: &Path) -> BTreeMap<String, String> {
    /// Attribute in the device's folder, and the name of the fact.
    const ATTRIBUTES: [(&str, &str); 17] = [
        ("device/model", "model"),
        ("device/vendor", "vendor"),
        ("device/rev", "firmware"),
        ("device/firmware_rev", "firmware"),
        ("device/serial", "serial"),
        ("serial", "serial"),
        ("wwid", "wwid"),
        ("device/transport", "transport"),
        ("device/queue_depth", "device_queue_depth"),
        ("removable", "removable"),
        ("ro", "read_only"),
        ("loop/backing_file", "loop_backing_file"),
        ("loop/dio", "loop_direct_io"),
        ("dm/name", "dm_name"),
        ("dm/uuid", "dm_uuid"),
        ("md/level", "md_level"),
        ("md/array_state", "md_state"),
    ];
    let mut facts: BTreeMap<String, String> = ATTRIBUTES
        .iter()
        .filter_map(|(path, fact)| attribute(&folder.join(path)).map(|v| (fact.to_string(), v)))
        .collect();
    let mut add = |fact: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            facts.insert(fact.into(), value);
        }
    };
    add("members", Some(names_in(&folder.join("slaves")).join(" ")));
    let parts = partitions(folder);
    let start = |part: &String| attribute(&folder.join(part).join("start"));
    let starts: Option<Vec<String>> = parts.iter().map(start).collect();
    add("partition_starts_512", starts.map(|starts| starts.join(" ")));
    add("partitions", Some(parts.join(" ")));
    add("irq_prefixes", Some(irq_prefixes(folder).join(" ")));
    add("driver", driver(root, folder));
    if let Some(pci) = pci_ancestor(folder) {
        let address = pci
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default()
            .to_owned();
        add("pci_slot", slot_of(root, &address));
        add("pci_address", Some(address));
        add("numa_node", attribute(&pci.join("numa_node")));
        add("pcie_link", link_of(&pci, "current"));
        add("pcie_link_max", link_of(&pci, "max"));
    }
    facts
}

/// Driver that a disk hangs on: its device's (`sd`, `virtio_blk`), or that device's own (`nvme`: its disks hang on a controller
/// of the class). A disk that hangs on nothing is its driver's alone: the kernel's name of its major number (`loop`, `md`).
fn driver(root: &Path, folder: &Path) -> Option<String> {
    let name = |link: &str| {
        let path = std::fs::canonicalize(folder.join(link)).ok()?;
        Some(path.file_name()?.to_str()?.to_owned())
    };
    let of_major = || {
        let dev = attribute(&folder.join("dev"))?;
        let major = dev.split(':').next()?;
        let numbers = text(&root.join("proc/devices"))?;
        let blocks = numbers.split("Block devices:").nth(1)?;
        let known = blocks.lines().filter_map(|line| line.trim().split_once(' '));
        known
            .filter(|(number, _)| *number == major)
            .map(|(_, name)| name.trim().to_owned())
            .next()
    };
    let hangs = ["device/driver", "device/device/driver"]
        .into_iter()
        .find_map(name);
    hangs.or_else(|| (!folder.join("device").exists()).then(of_major).flatten())
}

fn partitions(folder: &Path) -> Vec<String> {
    names_in(folder)
        .into_iter()
        .filter(|name| folder.join(name).join("partition").is_file())
        .collect()
}

fn link_of(pci: &Path, which: &str) -> Option<String> {
    let speed = attribute(&pci.join(format!("{which}_link_speed")))?;
    let width = attribute(&pci.join(format!("{which}_link_width")))?;
    Some(format!("{speed} x{width}"))
}

/// A slot's `address` is the PCI address without the function.
fn slot_of(root: &Path, pci_address: &str) -> Option<String> {
    let slots = root.join("sys/bus/pci/slots");
    let device = pci_address
        .rsplit_once('.')
        .map_or(pci_address, |(device, _)| device);
    names_in(&slots)
        .into_iter()
        .find(|slot| attribute(&slots.join(slot).join("address")).as_deref() == Some(device))
}

/// The folder of the PCI function the device hangs on: its nearest ancestor with a PCI class.
fn pci_ancestor(folder: &Path) -> Option<PathBuf> {
    let device = std::fs::canonicalize(folder).ok()?;
    device
        .ancestors()
        .find(|a| a.join("class").is_file() && a.join("vendor").is_file() && a.join("config").exists())
        .map(Path::to_owned)
}

/// Interrupts that belong to block devices: those of the PCI function below them, and those with
/// a name in /proc/interrupts that says so (`virtio1-req.0`, `nvme0q3`), which also covers virtio-mmio.
fn irqs(root: &Path) -> BTreeMap<String, [String; 2]> {
    let block = root.join("sys/block");
    let folders: Vec<PathBuf> = names_in(&block).iter().map(|name| block.join(name)).collect();
    let numbers: BTreeSet<String> = folders
        .iter()
        .filter_map(|folder| pci_ancestor(folder))
        .flat_map(|pci| names_in(&pci.join("msi_irqs")))
        .collect();
    let prefixes: BTreeSet<String> = folders.iter().flat_map(|f| irq_prefixes(f)).collect();
    let interrupts = text(&root.join("proc/interrupts")).unwrap_or_default();
    interrupts
        .lines()
        .filter_map(interrupt_line)
        .filter(|(number, handlers)| {
            let is_ours = |handler: &&str| prefixes.iter().any(|p| handler.starts_with(p.as_str()));
            numbers.contains(*number) || handlers.iter().any(is_ours)
        })
        .map(|(number, handlers)| {
            let affinity = root.join("proc/irq").join(number).join("smp_affinity_list");
            (
                number.to_owned(),
                [handlers.join(", "), attribute(&affinity).unwrap_or_default()],
            )
        })
        .collect()
}

/// Number and handler names of a line of /proc/interrupts, in the order in which they are called. Lines without a
/// number are no devices.
fn interrupt_line(line: &str) -> Option<(&str, Vec<&str>)> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim();
    number.parse::<u32>().ok()?;
    let mut words = rest.split_whitespace().rev();
    let mut handlers = vec![words.next()?];
    // Those that share a line: `slow_card, nvme0q0, nvme0q1`.
    handlers.extend(words.map_while(|word| word.strip_suffix(',')));
    handlers.reverse();
    Some((number, handlers))
}

/// How interrupt names of this disk begin.
fn irq_prefixes(folder: &Path) -> Vec<String> {
    let Ok(path) = std::fs::canonicalize(folder) else {
        return Vec::new();
    };
    let names = path.iter().filter_map(|part| part.to_str());
    let is_numbered = |name: &str, stem: &str| {
        name.strip_prefix(stem)
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    names
        .filter_map(|name| {
            if is_numbered(name, "virtio") {
                Some(format!("{name}-"))
            } else if is_numbered(name, "nvme") {
                Some(format!("{name}q"))
            } else {
                None
            }
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod test_tree {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    pub(crate) fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn link(root: &Path, path: &str, target: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::test_tree::{link, put};
    use super::*;

    /// The parts of proc_pid_stat(5) up to the number of threads.
    fn stat(pid: usize, name: &str, flags: u64, threads: u64) -> String {
        format!("{pid} ({name}) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 7\n")
    }

    #[test]
    fn processes_with_several_threads_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        for (pid, name, threads) in [(20, "java", 40), (21, "a) S 2 (b", 2), (22, "sh", 1)] {
            put(
                folder.path(),
                &format!("proc/{pid}/stat"),
                &stat(pid, name, 0x0040_0000, threads),
            );
        }
        let expected = [("20", "java"), ("21", "a) S 2 (b")].map(|(pid, name)| (pid.into(), name.into()));
        assert_eq!(processes(&proc), BTreeMap::from(expected));
    }

    #[test]
    fn kernel_threads_are_those_that_the_kernel_says_are() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        let threads = [
            ("kworker/u8:3-events_unbound", PF_KTHREAD | 0x40),
            ("kworker/0:1H-kblockd", PF_KTHREAD),
            ("jbd2/nvme10n1p12-8", PF_KTHREAD),
            ("md0_raid5", PF_KTHREAD),
            ("btrfs-backup", 0x0040_0000),
            ("a) S 2 (b", 0x0040_0000),
        ];
        for (pid, (name, flags)) in threads.iter().enumerate() {
            put(
                folder.path(),
                &format!("proc/{}/stat", pid + 2),
                &stat(pid + 2, name, *flags, 1),
            );
        }
        put(folder.path(), "proc/self/stat", &stat(9, "self", PF_KTHREAD, 1));
        let expected = ["jbd#/nvme#n#p#", "kworker/#:#H", "kworker/u#:#", "md#_raid#"];
        let found = kernel_threads(&proc);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    /// A host with an NVMe drive in a slot, a virtio disk without PCI, and two loop devices.
    fn host() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (path, text) in [
            ("proc/sys/kernel/hostname", "db7\n"),
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/vm/dirty_bytes", "2097152\n"),
            ("proc/sys/vm/dirty_ratio", "0\n"),
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast 9000\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\n"),
            ("proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB\n"),
            ("sys/fs/btrfs/0b1e/devices/sdb", ""),
            ("sys/fs/btrfs/0b1e/devices/sda3", ""),
            ("sys/fs/btrfs/7c2f/devices/sdc", ""),
            (
                "proc/swaps",
                "Filename\t\tType\t\tSize\tUsed\tPriority\n/dev/sda2   partition\t307196\t0\t-2\n/data\\040one/swap file 4 0 -3\n",
            ),
            ("proc/self/mounts", "/dev/nvme0n1p1 /data\\040one ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n"),
            (
                "proc/interrupts",
                "     CPU0 CPU1\n 24: 0 0 IO-APIC 5-edge ttyS0\n 41: 7 0 PCI-MSIX-0000:03:00.0 1-edge nvme0q1\n\
                 42: 0 7 PCI-MSIX-0000:03:00.0 2-edge nvme0q2\n 50: 1 1 GIC 9 virtio3-req.0\n \
                 60: 3 0 IO-APIC 20-fasteoi slow_card, nvme0q0, nvme0q1\n 51: 1 1 GIC 9 virtio31-req.0\n\
                 NMI: 0 0 Non-maskable interrupts\n",
            ),
            ("proc/irq/41/smp_affinity_list", "0\n"),
            ("proc/devices", "Character devices:\n  7 vcs\n\nBlock devices:\n  7 loop\n259 blkext\n"),
            ("sys/bus/pci/drivers/nvme/new_id", ""),
            ("proc/irq/50/smp_affinity_list", "0-1\n"),
            ("sys/devices/system/cpu/online", "0-2,7\n"),
            ("sys/class/dmi/id/sys_vendor", "Acme\n"),
            ("sys/devices/pci0/0000:03:00.0/class", "0x010802\n"),
            ("sys/devices/pci0/0000:03:00.0/vendor", "0x1234\n"),
            ("sys/devices/pci0/0000:03:00.0/config", "x"),
            ("sys/devices/pci0/0000:03:00.0/numa_node", "1\n"),
            ("sys/devices/pci0/0000:03:00.0/current_link_speed", "16.0 GT/s PCIe\n"),
            ("sys/devices/pci0/0000:03:00.0/current_link_width", "4\n"),
            ("sys/devices/pci0/0000:03:00.0/msi_irqs/41", "msix\n"),
            ("sys/devices/pci0/0000:03:00.0/msi_irqs/42", "msix\n"),
            ("sys/devices/pci0/0000:03:00.0/nvme/nvme0/model", "Drive X \n"),
            ("sys/devices/pci0/0000:03:00.0/nvme/nvme0/firmware_rev", "1.0\n"),
            ("sys/devices/pci0/0000:03:00.0/nvme/nvme0/serial", "S1\n"),
            ("sys/devices/pci0/0000:03:00.0/nvme/nvme0/nvme0n1/dev", "259:3\n"),
            ("sys/devices/pci0/0000:03:00.0/nvme/nvme0/nvme0n1/size", "2048\n"),
            ("sys/devices/pci0/0000:03:00.0/nvme/nvme0/nvme0n1/queue/scheduler", "[none] bfq\n"),
            ("sys/devices/pci0/0000:03:00.0/nvme/nvme0/nvme0n1/nvme0n1p1/partition", "1\n"),
            ("sys/devices/pci0/0000:03:00.0/nvme/nvme0/nvme0n1/nvme0n1p1/start", "63\n"),
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("sys/devices/system/node/node1/cpulist", "2,7\n"),
            ("sys/devices/system/node/node2/cpulist", "\n"),
            ("sys/devices/system/node/online", "0-2\n"),
            ("sys/bus/pci/slots/12/address", "0000:03:00\n"),
            ("sys/devices/platform/virtio3/block/vda/dev", "254:0\n"),
            ("sys/devices/platform/virtio3/block/vda/size", "8\n"),
            ("sys/devices/platform/virtio3/block/vda/serial", "vol-17\0\n"),
            ("sys/devices/virtual/block/loop0/dev", "7:0\n"),
            ("sys/devices/virtual/block/loop0/size", "16\n"),
            ("sys/devices/virtual/block/loop0/loop/backing_file", "/mnt/slow/disk.img\n"),
            ("sys/devices/virtual/block/loop1/dev", "7:1\n"),
            ("sys/devices/virtual/block/loop1/size", "0\n"),
        ] {
            put(root, path, text);
        }
        link(
            root,
            "sys/devices/pci0/0000:03:00.0/nvme/nvme0/nvme0n1/device",
            "../../nvme0",
        );
        link(
            root,
            "sys/block/nvme0n1",
            "../devices/pci0/0000:03:00.0/nvme/nvme0/nvme0n1",
        );
        link(root, "sys/devices/pci0/0000:03:00.0/nvme/nvme0/device", "../..");
        link(
            root,
            "sys/devices/pci0/0000:03:00.0/driver",
            "../../../bus/pci/drivers/nvme",
        );
        link(root, "sys/block/vda", "../devices/platform/virtio3/block/vda");
        link(root, "sys/block/loop0", "../devices/virtual/block/loop0");
        link(root, "sys/block/loop1", "../devices/virtual/block/loop1");
        folder
    }

    #[test]
    fn facts_of_a_host() {
        let folder = host();
        let system = collect(folder.path());
        assert_eq!((system.host.as_str(), system.kernel.as_str()), ("db7", "6.12.1"));
        assert_eq!((system.cpus, system.cpu_model.as_str()), (4, "Fast 9000"));
        let limits = [("dirty_bytes", 2 << 20), ("dirty_ratio", 0)].map(|(name, most)| (name.into(), most));
        assert_eq!(system.dirty_limits, BTreeMap::from(limits));
        let nodes = [("0", "0-1"), ("1", "2,7")].map(|(node, cpus)| (node.to_owned(), cpus.to_owned()));
        assert_eq!(system.numa_nodes, BTreeMap::from(nodes));
        assert_eq!(system.memory_bytes, 16 << 20);
        assert_eq!(system.virtualization, "hypervisor (Acme)");
        assert_eq!(
            system.mounts["/data one"],
            ["/dev/nvme0n1p1", "ext4", "rw,relatime"]
        );
        assert_eq!(system.pools, [["sda3", "sdb"]]);
        assert_eq!(system.swaps, ["/dev/sda2", "/data one/swap"]);
        assert_eq!(system.device_name(259 << 20 | 3), Some("nvme0n1"));
        assert_eq!(system.device_name(8 << 20), None);
    }

    #[test]
    fn facts_of_devices() {
        let folder = host();
        let devices = collect(folder.path()).devices;
        assert_eq!(
            devices.keys().collect::<Vec<_>>(),
            ["loop0", "loop1", "nvme0n1", "vda"]
        );
        let nvme = &devices["nvme0n1"];
        assert_eq!(
            (nvme.size_bytes, nvme.queue["scheduler"].as_str()),
            (1 << 20, "[none] bfq")
        );
        for (fact, value) in [
            ("model", "Drive X"),
            ("firmware", "1.0"),
            ("serial", "S1"),
            ("numa_node", "1"),
            ("pci_address", "0000:03:00.0"),
            ("pci_slot", "12"),
            ("pcie_link", "16.0 GT/s PCIe x4"),
            ("partitions", "nvme0n1p1"),
            ("partition_starts_512", "63"),
            ("irq_prefixes", "nvme0q"),
            ("driver", "nvme"),
        ] {
            assert_eq!(nvme.facts.get(fact).map(String::as_str), Some(value), "{fact}");
        }
        assert_eq!(devices["vda"].facts["serial"], "vol-17");
        assert_eq!(devices["loop0"].facts["loop_backing_file"], "/mnt/slow/disk.img");
        assert_eq!(devices["loop0"].facts["driver"], "loop");
        assert!(devices["loop1"].facts.is_empty() && devices["loop1"].dev == 7 << 20 | 1);
    }

    #[test]
    fn interrupts_of_block_devices_only() {
        let folder = host();
        let irqs = collect(folder.path()).irqs;
        let expected = [
            ("41", ["nvme0q1", "0"]),
            ("42", ["nvme0q2", ""]),
            ("50", ["virtio3-req.0", "0-1"]),
            ("60", ["slow_card, nvme0q0, nvme0q1", ""]),
        ];
        let expected = expected.map(|(number, fields)| (number.to_owned(), fields.map(String::from)));
        assert_eq!(irqs, BTreeMap::from(expected));
    }

    #[test]
    fn a_host_that_tells_nothing_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let system = collect(folder.path());
        assert_eq!(
            system,
            SystemMeta {
                virtualization: "none".into(),
                ..SystemMeta::default()
            }
        );
    }
}
