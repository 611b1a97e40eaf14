//! The loop device over our file: direct I/O, and gone by itself when its last user is gone.
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::SlowdiskError;

// Values of include/uapi/linux/loop.h.
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Requests are cut to this size, so that each is one FUSE request (at most 256 pages) even in unaligned memory.
const MAX_SECTORS_KB: &str = "512";

/// Another program may take the free device before us.
const TRIES: usize = 32;

/// struct loop_info64.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// struct loop_config.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

/// A loop device, held open by a thread with a file table of its own.
///
/// Closing the last descriptor of a loop device writes its dirty pages and waits. If the process is killed, its
/// shared file table is closed by one thread, and that wait would come before the FUSE descriptors are closed:
/// nobody would answer, and the machine would keep an unkillable process. With a table of its own, the thread
/// waits alone while the others close FUSE, which fails the writes and ends the wait.
pub struct LoopDevice {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// Name that the kernel reports for the file below.
    file_name: String,
    /// Dropped to close the device.
    keep: Option<Sender<()>>,
    /// Disconnected once it is closed.
    closed: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl LoopDevice {
    /// Puts a free loop device over `file`. `file_name` must be new to this machine.
    pub fn attach(file: &File, file_name: &str) -> Result<LoopDevice, SlowdiskError> {
        let (keep, until_dropped) = mpsc::channel::<()>();
        let (tell_path, attached) = mpsc::channel();
        let (tell_closed, closed) = mpsc::channel::<()>();
        let backing_fd = file.as_raw_fd();
        let name = file_name.to_owned();
        let thread = Builder::new().name("slowdisk-loop".into()).spawn(move || {
            let _tell_closed = tell_closed;
            let (device, path) = match attach_in_own_table(backing_fd, &name) {
                Ok(attached) => attached,
                Err(error) => return drop(tell_path.send(Err(error))),
            };
            let _ = tell_path.send(Ok(path));
            let _ = until_dropped.recv();
            drop(device);
        });
        let thread =
            thread.map_err(|source| system("start a thread", source, "free some memory or processes"))?;
        let path = attached.recv().map_err(|_| {
            system(
                "attach a loop device",
                io::Error::other("its thread failed"),
                "report it",
            )
        })??;
        let device = LoopDevice {
            path,
            file_name: file_name.into(),
            keep: Some(keep),
            closed,
            thread: Some(thread),
        };
        device.prepare()?;
        Ok(device)
    }

    /// Checks direct I/O and sets up the queue.
    fn prepare(&self) -> Result<(), SlowdiskError> {
        let dio = fs::read_to_string(self.sysfs().join("loop/dio")).unwrap_or_default();
        if dio.trim() != "1" {
            return Err(SlowdiskError::Machine {
                expected: "a loop device with direct I/O",
                found: format!("{} with dio {:?}", self.path.display(), dio.trim()),
                hint: "use Linux 6.1 or newer",
            });
        }
        // Settings of a queue outlive its device: whoever had this one before may have left anything.
        let depth = fs::read_to_string(self.sysfs().join("mq/0/nr_tags")).unwrap_or_default();
        self.set("scheduler", "none")?;
        self.set("nr_requests", depth.trim())?;
        self.set("nomerges", "0")?;
        self.set("max_sectors_kb", MAX_SECTORS_KB)
    }

    /// Changes a setting of the device's queue.
    fn set(&self, name: &str, value: &str) -> Result<(), SlowdiskError> {
        let path = self.sysfs().join("queue").join(name);
        fs::write(&path, value).map_err(|source| SlowdiskError::File {
            path,
            action: "set up the queue",
            source,
            hint: "run where /sys is writable",
        })
    }

    fn sysfs(&self) -> PathBuf {
        Path::new("/sys/block").join(self.path.file_name().unwrap_or_default())
    }

    /// Whether the kernel still has the device over our file, because another program has it open.
    pub fn is_attached(&self) -> bool {
        fs::read_to_string(self.sysfs().join("loop/backing_file"))
            .is_ok_and(|name| name.trim_end().ends_with(&self.file_name))
    }

    /// Says whether the device is a disk with an arm: schedulers and readers look at that.
    pub fn spins(&self, rotational: bool) -> Result<(), SlowdiskError> {
        self.set("rotational", if rotational { "1" } else { "0" })
    }

    /// Folders where the device is mounted.
    pub fn mounted_at(&self) -> Vec<String> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let words = mounts
            .lines()
            .filter_map(|line| line.split(' ').next().zip(line.split(' ').nth(1)));
        words
            .filter(|(device, _)| Path::new(device) == self.path)
            .map(|(_, folder)| folder.into())
            .collect()
    }

    /// Closes our descriptor, which detaches the device unless others have it open. False if that takes longer.
    pub fn close(&mut self, timeout: Duration) -> bool {
        if self.keep.take().is_some() {
            // The next user of the device gets the driver's limit back; if that fails, theirs is smaller.
            let usual = fs::read_to_string(self.sysfs().join("queue/max_hw_sectors_kb"));
            let _ = usual.map(|usual| self.set("max_sectors_kb", usual.trim()));
        }
        let closed = self.closed.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected);
        if let Some(thread) = self.thread.take().filter(|_| closed) {
            // It has nothing left to do; a panic there was printed by it.
            let _ = thread.join();
        }
        closed
    }
}

fn system(action: &'static str, source: io::Error, hint: &'static str) -> SlowdiskError {
    SlowdiskError::System { action, source, hint }
}

/// Gives the calling thread a file table of its own that holds nothing but a loop device over `backing_fd`.
fn attach_in_own_table(backing_fd: RawFd, name: &str) -> Result<(OwnedFd, PathBuf), SlowdiskError> {
    // SAFETY: affects this thread only; it owns no descriptors yet.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        let source = io::Error::last_os_error();
        return Err(system("give a thread its own file table", source, "report it"));
    }
    let (device, path) = configure_free(backing_fd, name)?;
    let fd = device.as_raw_fd() as u32;
    // SAFETY: closes this thread's copies only; the only descriptor it owns stays.
    unsafe {
        if fd > 0 {
            libc::syscall(libc::SYS_close_range, 0, fd - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, fd + 1, u32::MAX, 0);
    }
    Ok((device, path))
}

fn configure_free(backing_fd: RawFd, name: &str) -> Result<(OwnedFd, PathBuf), SlowdiskError> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")
        .map_err(|source| SlowdiskError::Machine {
            expected: "loop devices",
            found: format!("/dev/loop-control: {source}"),
            hint: "load the loop module (modprobe loop), as root",
        })?;
    let config = loop_config(backing_fd, name);
    for _ in 0..TRIES {
        // SAFETY: an ioctl without argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            let source = io::Error::last_os_error();
            return Err(system(
                "find a free loop device",
                source,
                "detach loop devices that nobody needs",
            ));
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(&path)
            .map_err(|source| {
                system(
                    "open the loop device",
                    source,
                    "run as root where /dev is complete",
                )
            })?;
        // SAFETY: the kernel reads one loop_config.
        if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } == 0 {
            return Ok((device.into(), path));
        }
        let source = io::Error::last_os_error();
        if source.raw_os_error() != Some(libc::EBUSY) {
            return Err(system(
                "attach a loop device",
                source,
                "use Linux 5.8 or newer, as root",
            ));
        }
    }
    let source = io::Error::from_raw_os_error(libc::EBUSY);
    Err(system(
        "attach a loop device",
        source,
        "try again when fewer programs take loop devices",
    ))
}

fn loop_config(backing_fd: RawFd, name: &str) -> LoopConfig {
    let mut file_name = [0; 64];
    let length = name.len().min(63);
    file_name[..length].copy_from_slice(&name.as_bytes()[..length]);
    let info = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
        file_name,
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    LoopConfig {
        fd: backing_fd as u32,
        block_size: 512,
        info,
        reserved: [0; 8],
    }
}
