//! On which device a name lies that a program gave from the root on.
use crate::writeback::names::{unescaped, Mount};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::path::Path;

/// This mount table, kept as it is. Programs with another root, or with mounts of their own, are resolved by it, too.
#[derive(Default)]
pub struct Mounts {
    table: Option<File>,
    /// Mount points with the number of their file system; 0 = nothing is behind it. The last one mounted comes first.
    places: Vec<(Vec<u8>, u32)>,
}

impl Mounts {
    /// The device of the longest mount point that the path begins with; 0 if there is none, or no storage behind it.
    pub fn device_of(&self, path: &[u8]) -> u32 {
        let place = |mount: &[u8]| {
            let rest = path.strip_prefix(mount)?;
            (mount == b"/" || rest.is_empty() || rest[0] == b'/').then_some(mount.len())
        };
        let found = self
            .places
            .iter()
            .filter_map(|(mount, device)| Some((place(mount)?, *device)));
        // Of equal ones the first.
        found
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map_or(0, |(_, device)| device)
    }

    /// Reads the table anew if it has changed.
    pub fn refresh(&mut self) {
        if self.table.as_ref().is_some_and(|table| !changed(table)) {
            return;
        }
        if self.table.is_none() {
            self.table = File::open("/proc/self/mountinfo").ok();
        }
        let Some(table) = &mut self.table else { return };
        let mut text = Vec::new();
        if table.rewind().and_then(|()| table.read_to_end(&mut text)).is_ok() {
            let has_device = |number: &str| Path::new("/sys/class/bdi").join(number).exists();
            self.places = parse(&String::from_utf8_lossy(&text), has_device);
        }
    }
}

fn changed(table: &File) -> bool {
    let mut poll = libc::pollfd {
        fd: table.as_raw_fd(),
        events: libc::POLLPRI,
        revents: 0,
    };
    // SAFETY: one entry, which lives here.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
}

/// `has_device` tells of a file system without a disk of its own, by its number, whether it has a backing device.
fn parse(text: &str, has_device: impl Fn(&str) -> bool) -> Vec<(Vec<u8>, u32)> {
    let place = |mount: Mount<'_>| {
        let (major, minor) = (mount.device >> 20, mount.device & 0xf_ffff);
        let own = matches!(mount.kind, "btrfs" | "overlay");
        let stored = major != 0 || own || has_device(&format!("{major}:{minor}"));
        (unescaped(mount.target), if stored { mount.device } else { 0 })
    };
    let mut places: Vec<_> = text.lines().filter_map(Mount::parse).map(place).collect();
    places.reverse();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_tells_the_device() {
        let text = "1 0 254:0 / / rw shared:1 - ext4 /dev/vda rw\n\
            2 1 0:5 / /dev rw - devtmpfs devtmpfs rw\n\
            3 1 7:1 / /mnt/a\\040b rw - xfs /dev/loop1 rw\n\
            4 1 0:40 /sub /mnt rw - btrfs /dev/loop0 rw\n\
            5 1 0:41 / /net rw - nfs4 host:/x rw\n\
            6 1 0:42 / /dev/shm rw - tmpfs tmpfs rw\n\
            7 1 7:2 / /mnt rw - ext4 /dev/loop2 rw\ncut";
        let mounts = Mounts {
            table: None,
            places: parse(text, |number| number == "0:41"),
        };
        for (path, device) in [
            ("/etc/x", 254 << 20),
            ("/mnt/a b/x", 7 << 20 | 1),
            ("/mnt/a bc", 7 << 20 | 2),
            ("/mnt", 7 << 20 | 2),
            ("/dev/shm/x", 0),
            ("/net/x", 41),
            ("/mntx", 254 << 20),
        ] {
            assert_eq!(mounts.device_of(path.as_bytes()), device, "{path}");
        }
        assert_eq!(Mounts::default().device_of(b"/x"), 0);
    }
}
