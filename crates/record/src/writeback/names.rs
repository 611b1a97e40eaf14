//! What the kernel's event tracing leaves out of its events: asked of `/proc` and `/sys` when they are read.
use super::journals::{Names, Who};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// Threads and file systems of this host.
#[derive(Debug, Default)]
pub struct HostNames {
    threads: HashMap<i32, Who>,
    /// Names of threads that have ended, too.
    saved: PathBuf,
    block_bytes: HashMap<u32, u64>,
    btrfs: HashMap<[u8; 16], u32>,
}

impl HostNames {
    /// `saved` is the kernel's own list of names (`saved_cmdlines` of tracefs).
    pub fn new(saved: PathBuf) -> HostNames {
        HostNames {
            saved,
            ..HostNames::default()
        }
    }

    /// Numbers of threads are used again.
    pub fn forget_threads(&mut self) {
        self.threads.clear();
    }

    /// The device number of a btrfs, which is of no disk, by its UUID; 0 = it is not mounted where we can see it.
    pub fn btrfs(&mut self, uuid: [u8; 16]) -> u32 {
        *self.btrfs.entry(uuid).or_insert_with(|| {
            let disks = Path::new("/sys/fs/btrfs").join(hyphenated(uuid)).join("devices");
            let is_its = |source: &str| {
                let name = fs::canonicalize(source).ok();
                name.and_then(|path| Some(disks.join(path.file_name()?).exists())) == Some(true)
            };
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let found = mounts
                .lines()
                .filter_map(Mount::parse)
                .find(|mount| mount.kind == "btrfs" && is_its(mount.source));
            found.map_or(0, |mount| mount.device)
        })
    }
}

impl Names for HostNames {
    fn who(&mut self, tid: i32) -> Who {
        let saved = &self.saved;
        *self.threads.entry(tid).or_insert_with(|| {
            let text =
                |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
            let status = text(Path::new(&format!("/proc/{tid}/status")));
            match status.is_empty() {
                false => who_is(&status),
                true => who_was(&text(saved), tid),
            }
        })
    }

    fn block_bytes(&mut self, device: u32) -> u64 {
        if let Some(bytes) = self.block_bytes.get(&device) {
            return *bytes;
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = mounts
            .lines()
            .filter_map(Mount::parse)
            .find(|mount| mount.device == device);
        let bytes = mount
            .and_then(|mount| block_bytes(&unescaped(mount.target)))
            .unwrap_or(0);
        // Not mounted where we can see it, or not yet.
        if bytes > 0 {
            self.block_bytes.insert(device, bytes);
        }
        bytes
    }
}

/// The name of a thread that has ended; nobody knows its process any more.
fn who_was(saved: &str, tid: i32) -> Who {
    let mut pairs = saved.lines().rev().filter_map(|line| line.trim().split_once(' '));
    let found = pairs.find(|(number, _)| number.parse() == Ok(tid));
    Who {
        pid: -1,
        comm: comm(found.map_or("", |(_, name)| name)),
    }
}

/// The kernel keeps 15 characters; of its own threads it tells more.
fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    for (to, from) in comm.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    comm
}

/// Name and process in a thread's `status`.
fn who_is(status: &str) -> Who {
    let value = |key: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
    };
    let pid = value("Tgid:").and_then(|pid| pid.parse().ok()).unwrap_or(-1);
    Who {
        pid,
        comm: comm(value("Name:").unwrap_or("")),
    }
}

/// What a line of `mountinfo` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount<'a> {
    pub device: u32,
    pub target: &'a str,
    pub kind: &'a str,
    source: &'a str,
}

impl Mount<'_> {
    pub fn parse(line: &str) -> Option<Mount<'_>> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ');
        let (major, minor) = left.nth(2)?.split_once(':')?;
        let target = left.nth(1)?;
        let mut right = right.split(' ');
        Some(Mount {
            device: major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?,
            target,
            kind: right.next()?,
            source: right.next()?,
        })
    }
}

/// Blanks and the like stand there as three octal digits.
pub(crate) fn unescaped(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = std::str::from_utf8(after.get(..3).unwrap_or_default());
        match octal.ok().and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' && after.len() >= 3 => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

fn block_bytes(target: &[u8]) -> Option<u64> {
    let path = CString::new(target).ok()?;
    let mut facts = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a path that ends with NUL, and room for the answer.
    let done = unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) };
    // SAFETY: the kernel has filled it.
    (done == 0).then(|| unsafe { facts.assume_init() }.f_bsize)
}

fn hyphenated(uuid: [u8; 16]) -> String {
    let mut text = String::new();
    for (place, byte) in uuid.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_like_in_the_kernel() {
        let who = who_is("Name:\tjbd2/nvme0n1p1-8\nUmask:\t0000\nTgid:\t317\nPid:\t318\n");
        assert_eq!((who.pid, &who.comm), (317, b"jbd2/nvme0n1p1-\0"));
        let gone = who_is("");
        assert_eq!((gone.pid, gone.comm), (-1, [0; 16]));
        let saved = "17 dd\n240 old\n240 web server\n";
        assert_eq!(who_was(saved, 240).comm, comm("web server"));
        assert_eq!((who_was(saved, 24).comm, who_was(saved, 17).pid), ([0; 16], -1));
    }

    #[test]
    fn a_mount_has_a_device_and_a_place() {
        let line = r"36 35 259:3 / /mnt/my\040disk rw,noatime shared:1 - ext4 /dev/nvme0n1p3 rw";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.device, 259 << 20 | 3);
        assert_eq!((mount.kind, mount.source), ("ext4", "/dev/nvme0n1p3"));
        assert_eq!(unescaped(mount.target), b"/mnt/my disk");
        assert_eq!(unescaped(r"a\04"), br"a\04");
        assert_eq!(Mount::parse("nonsense"), None);
    }

    #[test]
    fn this_host_is_asked() {
        let mut names = HostNames::default();
        let tid = std::process::id() as i32;
        assert_eq!(names.who(tid).pid, tid);
        assert_eq!(names.block_bytes(u32::MAX), 0);
        assert!(block_bytes(b"/").is_some_and(|bytes| bytes >= 512));
        let uuid = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef";
        assert_eq!(hyphenated(uuid), "01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(names.btrfs(uuid), 0);
    }
}
