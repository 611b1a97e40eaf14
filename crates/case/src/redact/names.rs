//! Which names are nobody's secret: those that the kernel gives by itself.

/// Prefixes of the kernel's names of block devices; a letter or number follows.
const DEVICES: [&str; 26] = [
    "nvme", "sd", "vd", "xvd", "hd", "loop", "ram", "zram", "md", "dm-", "sr", "nbd", "rbd", "nullb",
    "mmcblk", "pmem", "dasd", "ublkb", "bcache", "drbd", "fd", "zd", "mtdblock", "scm", "nd", "ub",
];

/// Begin of the names of kernel threads that do I/O, or keep others from it.
const KERNEL_THREADS: [&str; 32] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "cpuhp/",
    "jbd2/",
    "swapper",
    "irq/",
    "rcu_",
    "rcuop/",
    "rcuog/",
    "rcub/",
    "rcuc/",
    "kswapd",
    "kcompactd",
    "kthreadd",
    "khugepaged",
    "xfsaild/",
    "xfs-",
    "btrfs-",
    "iou-wrk-",
    "iou-sqp-",
    "kdmflush/",
    "dmcrypt_write/",
    "scsi_eh_",
    "flush-",
    "oom_reaper",
    "writeback",
    "blkcg_punt_bio",
    "dm_bufio",
    "watchdog/",
    "idle_inject/",
    "whodisk",
];

/// Folders of the file system standard: everybody has them.
const FOLDERS: [&str; 22] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "nix",
    "lost+found",
    "...",
];

/// What stands in place of a device where a mount has none.
const PSEUDO_SOURCES: [&str; 32] = [
    "none",
    "proc",
    "sysfs",
    "devtmpfs",
    "udev",
    "devpts",
    "tmpfs",
    "ramfs",
    "cgroup",
    "cgroup2",
    "bpf",
    "debugfs",
    "tracefs",
    "securityfs",
    "pstore",
    "efivarfs",
    "configfs",
    "hugetlbfs",
    "mqueue",
    "fusectl",
    "overlay",
    "shm",
    "systemd-1",
    "binfmt_misc",
    "rootfs",
    "selinuxfs",
    "nsfs",
    "sunrpc",
    "rpc_pipefs",
    "autofs",
    "dev",
    "sys",
];

/// Options of mounts with values that are words of the kernel's.
const MOUNT_OPTIONS: [&str; 26] = [
    "errors",
    "data",
    "commit",
    "barrier",
    "stripe",
    "discard",
    "compress",
    "compress-force",
    "space_cache",
    "subvolid",
    "ssd",
    "logbufs",
    "logbsize",
    "sunit",
    "swidth",
    "inode64",
    "size",
    "nr_inodes",
    "mode",
    "uid",
    "gid",
    "vers",
    "proto",
    "rsize",
    "wsize",
    "hash",
];

/// `nvme0n1`, `sda3`, `dm-7`; not `md_archive`.
pub fn is_kernel_device(name: &str) -> bool {
    let mut rest = DEVICES.iter().filter_map(|prefix| name.strip_prefix(prefix));
    rest.any(|rest| {
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let numbered = rest[letters..]
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'n' | b'p' | b'c'));
        !rest.is_empty() && rest.len() <= 12 && letters <= 3 && numbered
    })
}

/// `kworker/u8:3-flush-254:0`, `md127_raid5`.
pub fn is_kernel_thread(comm: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:._+-".contains(c);
    let array = comm.strip_prefix("md").and_then(|rest| rest.split_once('_'));
    let is_array = array.is_some_and(|(number, level)| {
        number.bytes().all(|b| b.is_ascii_digit()) && (level.starts_with("raid") || level == "resync")
    });
    let is_loop = comm
        .strip_prefix("loop")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let known = KERNEL_THREADS.iter().any(|prefix| comm.starts_with(prefix));
    comm.chars().all(plain) && (known || is_array || is_loop)
}

/// `md_acme_resync`: work on a volume, which competes as a program's does though a thread of the kernel does it.
pub fn is_volume_work(comm: &str) -> bool {
    comm.starts_with("md") && (comm.ends_with("_resync") || comm.ends_with("_reshape"))
}

/// Whether a folder of this name at the root tells nothing.
pub fn is_standard_folder(name: &str) -> bool {
    FOLDERS.contains(&name)
}

/// Whether a mount's source tells nothing.
pub fn is_pseudo_source(name: &str) -> bool {
    PSEUDO_SOURCES.contains(&name)
}

/// Whether an option's value tells nothing.
pub fn is_kernel_option(name: &str) -> bool {
    MOUNT_OPTIONS.contains(&name)
}

/// `process 812`, `cpu3`, `pid 7`: a word and a number.
pub fn is_numbered(subject: &str) -> bool {
    const WORDS: [&str; 9] = [
        "process",
        "pid",
        "thread",
        "tid",
        "cpu",
        "irq",
        "interrupt",
        "vector",
        "worker",
    ];
    let word = subject.trim_end_matches(|c: char| c.is_ascii_digit());
    word.len() < subject.len() && WORDS.contains(&word.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_kernel_are_told_from_others() {
        for name in [
            "sda",
            "sda3",
            "nvme0n1",
            "nvme0n1p2",
            "nvme1c0n1",
            "dm-7",
            "md127",
            "vdb",
            "loop0",
            "mmcblk0p1",
        ] {
            assert!(is_kernel_device(name), "{name}");
        }
        for name in [
            "",
            "sd",
            "md_archive",
            "payroll",
            "sdsecret",
            "dm-vault",
            "nvme-of-acme",
            "disk0",
        ] {
            assert!(!is_kernel_device(name), "{name}");
        }
        for comm in [
            "kworker/u8:3-flush-254:0",
            "jbd2/vda1-8",
            "md127_raid5",
            "loop3",
            "swapper/0",
            "iou-wrk-81",
        ] {
            assert!(is_kernel_thread(comm), "{comm}");
        }
        for comm in ["postgres", "md_secret", "loopy", "kworker/ evil name", "writer"] {
            assert!(!is_kernel_thread(comm), "{comm}");
        }
        for subject in ["process 812", "cpu3"] {
            assert!(is_numbered(subject), "{subject}");
        }
        for subject in ["cpu", "drive7", "acme cpu3", "812"] {
            assert!(!is_numbered(subject), "{subject}");
        }
    }
}
