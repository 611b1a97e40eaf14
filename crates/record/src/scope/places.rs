//! Devices, files and folders of a scope, as records name them: by numbers.
use super::{not_there, wrong, Scope};
use crate::error::RecordError;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Inode and kernel dev_t (`major << 20 | minor`) of its file system; a block device has inode 0.
pub type File = (u32, u64);

/// Where a scope is; empty: everywhere.
#[derive(Debug, Default)]
pub struct Places {
    /// Disks with requests that are wanted, and which of their 512-byte sectors.
    pub disks: Vec<(u32, Range<u64>)>,
    /// Devices that may be behind a file, or be the file: the disks, their partitions, what is stacked on them.
    pub devices: HashSet<u32>,
    /// Files that were named.
    pub files: HashSet<File>,
    /// Folders that were named, without links and dots.
    pub folders: Vec<Vec<u8>>,
}

impl Places {
    /// Finds them. Errors: a path that is not there, or is no block device.
    pub fn resolve(scope: &Scope) -> Result<Places, RecordError> {
        let mut places = Places::default();
        for device in &scope.devices {
            let found = |found: String| wrong("device", "a block device, as sda or /dev/sda", found);
            let device = &path_of(device);
            let facts = fs::metadata(device).map_err(|error| found(not_there(device, &error)))?;
            if !facts.file_type().is_block_device() {
                return Err(found(format!("{}: something else", device.display())));
            }
            places.add_device(kernel_dev(facts.rdev()));
        }
        places.add_anonymous();
        for path in &scope.paths {
            let found = |error| wrong("path", "a file or folder", not_there(path, &error));
            let whole = fs::canonicalize(path).map_err(found)?;
            let facts = fs::metadata(&whole).map_err(found)?;
            if facts.is_dir() {
                places.folders.push(whole.as_os_str().as_bytes().to_vec());
            } else if facts.file_type().is_block_device() {
                places.files.insert((kernel_dev(facts.rdev()), 0));
            } else {
                places.files.insert((kernel_dev(facts.dev()), facts.ino()));
            }
        }
        Ok(places)
    }

    /// Whether devices were named.
    pub fn has_devices(&self) -> bool {
        !self.disks.is_empty()
    }

    /// Whether files or folders were named.
    pub fn has_paths(&self) -> bool {
        !self.files.is_empty() || !self.folders.is_empty()
    }

    /// Whether a path is a folder that was named, or below one.
    pub fn holds(&self, path: &[u8]) -> bool {
        self.folders.iter().any(|folder| {
            let rest = path.strip_prefix(&folder[..]);
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || folder == b"/")
        })
    }

    /// Whether a request is on one of the devices.
    pub fn has_request(&self, disk: u32, sector_512: u64) -> bool {
        let mut disks = self.disks.iter();
        disks.any(|(device, sectors)| *device == disk && sectors.contains(&sector_512))
    }

    fn add_device(&mut self, device: u32) {
        let Some(folder) = sysfs(device) else { return };
        self.add_files_on(device, &folder);
        self.add_requests_of(device, &folder);
    }

    /// The device, its partitions, and what is stacked on any of them.
    fn add_files_on(&mut self, device: u32, folder: &Path) {
        if !self.devices.insert(device) {
            return;
        }
        let partitions = folders(folder).filter(|entry| entry.join("partition").exists());
        for entry in partitions.chain(folders(&folder.join("holders"))) {
            if let Some(device) = number(&entry) {
                self.add_files_on(device, &entry);
            }
        }
    }

    /// The disk behind a device; of what is stacked, the disks below.
    fn add_requests_of(&mut self, device: u32, folder: &Path) {
        let value = |name: &str| -> Option<u64> {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            text.trim().parse().ok()
        };
        let disk = match (folder.join("partition").exists(), folder.parent()) {
            (true, Some(disk)) => number(disk).zip(value("start").zip(value("size"))),
            _ => Some((device, (0, u64::MAX))),
        };
        if let Some((disk, (start, sectors))) = disk {
            self.disks.push((disk, start..start.saturating_add(sectors)));
        }
        for below in folders(&folder.join("slaves")) {
            if let Some(device) = number(&below) {
                self.add_requests_of(device, &below);
            }
        }
    }

    /// File systems with files that have a device number of their own (btrfs): found by what they are mounted from.
    fn add_anonymous(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut sources: BTreeMap<&str, Option<u32>> = BTreeMap::new();
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else {
                continue;
            };
            let (Some(numbers), Some(source)) = (left.split(' ').nth(2), right.split(' ').nth(1)) else {
                continue;
            };
            let source = *sources.entry(source).or_insert_with(|| {
                let facts = fs::metadata(source).ok()?;
                facts
                    .file_type()
                    .is_block_device()
                    .then(|| kernel_dev(facts.rdev()))
            });
            if let (Some(source), Some(device)) = (source, parse_number(numbers)) {
                if self.devices.contains(&source) {
                    self.devices.insert(device);
                }
            }
        }
    }
}

/// `vda` is short for `/dev/vda`, as everywhere else; a file of that name here is `./vda`.
fn path_of(device: &Path) -> PathBuf {
    match device.components().collect::<Vec<_>>()[..] {
        [Component::Normal(name)] => Path::new("/dev").join(name),
        _ => device.to_owned(),
    }
}

/// The kernel's own form of a dev_t.
fn kernel_dev(device: u64) -> u32 {
    libc::major(device) << 20 | libc::minor(device)
}

fn sysfs(device: u32) -> Option<PathBuf> {
    let (major, minor) = (device >> 20, device & 0xf_ffff);
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// Number of the device with this folder in sysfs.
fn number(folder: &Path) -> Option<u32> {
    parse_number(fs::read_to_string(folder.join("dev")).ok()?.trim())
}

fn parse_number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// Folders in a folder, links followed.
fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let whole = entries.filter_map(|entry| fs::canonicalize(entry.path()).ok());
    whole.filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_holds_what_is_below_and_not_its_namesakes() {
        let places = Places {
            folders: vec![b"/srv/db".to_vec()],
            ..Places::default()
        };
        for path in ["/srv/db", "/srv/db/a", "/srv/db/a/b"] {
            assert!(places.holds(path.as_bytes()), "{path}");
        }
        for path in ["/srv/db2", "/srv", "/srv/d", ".../db/a"] {
            assert!(!places.holds(path.as_bytes()), "{path}");
        }
        let root = Places {
            folders: vec![b"/".to_vec()],
            ..Places::default()
        };
        assert!(root.holds(b"/any"));
    }

    #[test]
    fn wrong_places_are_named() {
        let device = Scope {
            devices: vec!["/dev/null".into()],
            ..Scope::default()
        };
        let error = Places::resolve(&device).unwrap_err().to_string();
        assert!(
            error.contains("/dev/null") && error.contains("a block device"),
            "{error}"
        );
        let bare = Scope {
            devices: vec!["null".into()],
            ..Scope::default()
        };
        assert_eq!(Places::resolve(&bare).unwrap_err().to_string(), error);
        let path = Scope {
            paths: vec!["/no/such/path".into()],
            ..Scope::default()
        };
        let error = Places::resolve(&path).unwrap_err().to_string();
        assert!(error.contains("/no/such/path"), "{error}");
    }

    #[test]
    fn a_bare_name_is_that_of_a_device() {
        for (given, path) in [
            ("vda", "/dev/vda"),
            ("/dev/vda", "/dev/vda"),
            ("./vda", "./vda"),
            ("mapper/root", "mapper/root"),
        ] {
            assert_eq!(path_of(Path::new(given)), Path::new(path));
        }
    }

    #[test]
    fn sectors_tell_partitions_apart() {
        let places = Places {
            disks: vec![(7, 100..200)],
            ..Places::default()
        };
        assert!(places.has_request(7, 100) && places.has_request(7, 199));
        assert!(!places.has_request(7, 200) && !places.has_request(8, 150));
    }
}
