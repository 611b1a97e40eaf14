//! What the tests of page cache and writeback share: file systems of their own, recordings of some probes, the kernel's
//! own event tracing to compare with.
use crate::common::{folder_on_disk, read, run, Mount};
use case::raw::RawRow;
use record::{Config, Recorder};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub const PAGE: u64 = 4096;

/// A recording that has ended.
pub struct Recorded {
    folder: TempDir,
}

impl Recorded {
    pub fn rows<R: RawRow>(&self) -> Vec<R> {
        let path = self.folder.path().join(R::PROBE);
        read(&path.join(format!("{}.arrows", R::PROBE)))
    }
}

/// Records with one probe while `workload` runs; nothing may be lost.
pub fn record_with(probe: &str, workload: impl FnOnce()) -> Recorded {
    record_as(Config::only(&[probe]), probe, workload)
}

/// The same with a configuration, which asks for this probe only.
pub fn record_as(config: Config, probe: &str, workload: impl FnOnce()) -> Recorded {
    let folder = folder_on_disk();
    let recorder = Recorder::attach(config).unwrap();
    let running = recorder.start(folder.path()).unwrap();
    workload();
    let summary = running.stop().unwrap();
    assert!(summary.write_error.is_none(), "{summary:?}");
    let lost = summary.probes.get(probe).map(|probe| probe.lost);
    let losses = std::fs::read_to_string(folder.path().join("losses.jsonl")).unwrap();
    assert_eq!((lost, losses.as_str()), (Some(0), ""), "{summary:?}");
    Recorded { folder }
}

/// A block device over a sparse file in memory.
struct Loop {
    path: String,
    _backing: TempDir,
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.path]);
    }
}

/// A mounted file system on a device of its own. Fields are dropped in their order: unmounted first.
pub struct FileSystem {
    pub mount: Mount,
    /// `s_dev`, as rows have it.
    pub device: u32,
    _device: Option<Loop>,
}

/// Runs a test on file systems of these kinds. Where this host cannot make some of them the test runs on the others, and
/// is then skipped.
pub fn on_each(kinds: &[&str], test: impl Fn(&str)) {
    let makes = |kind: &str| Command::new(format!("mkfs.{kind}")).arg("-V").output().is_ok();
    let knows = |kind: &str| {
        // A module that nobody has loaded yet; where there is none, the list says so.
        let _ = Command::new("modprobe").args(["-q", kind]).status();
        let known = std::fs::read_to_string("/proc/filesystems").unwrap();
        known
            .lines()
            .any(|line| line.split_whitespace().last() == Some(kind))
    };
    let (here, missing): (Vec<&str>, Vec<&str>) = kinds.iter().partition(|kind| makes(kind) && knows(kind));
    here.iter().for_each(|kind| test(kind));
    if !missing.is_empty() {
        testing::skip(format!(
            "no mkfs or no module for {}; passed on {}",
            missing.join(", "),
            if here.is_empty() {
                "none".to_owned()
            } else {
                here.join(", ")
            }
        ));
    }
}

impl FileSystem {
    pub fn new(kind: &str) -> FileSystem {
        let backing = tempfile::tempdir_in("/dev/shm").unwrap();
        let image = backing.path().join("image");
        File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let path = run("losetup", &["--find", "--show", image.to_str().unwrap()]);
        let device = Loop {
            path: path.clone(),
            _backing: backing,
        };
        FileSystem {
            _device: Some(device),
            ..FileSystem::on(kind, &path)
        }
    }

    /// On a device that the caller keeps.
    pub fn on(kind: &str, device: &str) -> FileSystem {
        let force = if kind == "ext4" { "-F" } else { "-f" };
        run(&format!("mkfs.{kind}"), &["-q", force, device]);
        let mount = Mount::new(&["-t", kind, device]);
        FileSystem {
            device: device_of(&mount.path),
            mount,
            _device: None,
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.mount.path.join(name)
    }

    /// Creates a file of this many pages; on disk, and out of the cache.
    pub fn cold_file(&self, pages: u64) -> File {
        let path = self.file("data");
        std::fs::write(&path, vec![0x5a; (pages * PAGE) as usize]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        file.sync_all().unwrap();
        advise(&file, libc::POSIX_FADV_DONTNEED);
        file
    }
}

/// `s_dev` of the file system mounted at a folder: on btrfs, not what stat says.
fn device_of(folder: &Path) -> u32 {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find(|fields| Path::new(fields[4]) == folder)
        .unwrap();
    let (major, minor) = fields[2].split_once(':').unwrap();
    major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap()
}

pub fn advise(file: &File, advice: i32) {
    // SAFETY: a valid descriptor.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) }, 0);
}

/// A file's first pages, mapped read-only while `with` gets where they begin and how many bytes they are.
pub fn with_mapping(file: &File, pages: u64, with: impl FnOnce(*mut libc::c_void, usize)) {
    let (bytes, fd) = ((pages * PAGE) as usize, file.as_raw_fd());
    // SAFETY: a fresh mapping, of which nobody knows after `with`.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            fd,
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        with(at, bytes);
        libc::munmap(at, bytes);
    }
}

/// How many of a file's first pages the kernel has in memory.
pub fn resident(file: &File, pages: u64) -> u64 {
    let mut there = vec![0u8; pages as usize];
    with_mapping(file, pages, |at, bytes| {
        // SAFETY: `there` has a byte for each page of the mapping, which is not read.
        assert_eq!(unsafe { libc::mincore(at, bytes, there.as_mut_ptr()) }, 0);
    });
    there.iter().filter(|page| *page & 1 == 1).count() as u64
}

pub fn inode(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

pub fn thread() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Reads the whole file from its begin, `step` pages at a time; returns pages read.
pub fn read_all(file: &File, step: u64) -> u64 {
    let mut buffer = vec![0; (step * PAGE) as usize];
    let mut offset = 0;
    loop {
        let got = file.read_at(&mut buffer, offset).unwrap() as u64;
        if got == 0 {
            return offset / PAGE;
        }
        offset += got;
    }
}

/// Writes pages one after the other, appending.
pub fn append_page(file: &File) {
    let end = file.metadata().unwrap().len();
    file.write_all_at(&[7; PAGE as usize], end).unwrap();
}

pub fn create(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600);
    options.open(path).unwrap()
}

/// The kernel's own event tracing of one event, in an instance of its own; gone when dropped.
pub struct Events {
    instance: PathBuf,
}

impl Events {
    /// `None` where tracefs has no such event.
    pub fn start(event: &str, filter: &str) -> Option<Events> {
        let tracefs = Path::new("/sys/kernel/tracing");
        tracefs.join("events").join(event).exists().then_some(())?;
        let name = format!("whodisk-test-{}-{}", std::process::id(), event.replace('/', "-"));
        let instance = tracefs.join("instances").join(name);
        std::fs::create_dir(&instance).ok()?;
        let events = Events { instance };
        let write = |file: &str, value: &str| std::fs::write(events.instance.join(file), value);
        write("buffer_size_kb", "4096").unwrap();
        write(&format!("events/{event}/filter"), filter).unwrap();
        write(&format!("events/{event}/enable"), "1").unwrap();
        Some(events)
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.instance.join("trace")).unwrap();
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(String::from)
            .collect()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // An event that is enabled keeps its instance.
        let _ = std::fs::write(self.instance.join("events/enable"), "0");
        let _ = std::fs::remove_dir(&self.instance);
    }
}

/// The number after `name=` in a line of the event tracing.
pub fn number(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(&format!("{name}="))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
