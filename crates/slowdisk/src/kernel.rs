//! Calls into the kernel that have no wrapper: a FUSE mount that is in no folder, its abort switch.
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

// Values of include/uapi/linux/mount.h.
const FSOPEN_CLOEXEC: u32 = 1;
const FSMOUNT_CLOEXEC: u32 = 1;
const FSCONFIG_SET_STRING: u32 = 1;
const FSCONFIG_CMD_CREATE: u32 = 6;
const MOUNT_ATTR_NOSUID_NODEV_NOEXEC: u32 = 2 | 4 | 8;

/// A file system that is being set up, or is set up and can be mounted.
pub struct Context(OwnedFd);

/// A system call's result as a descriptor.
fn owned_fd(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor of this call.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

impl Context {
    /// Makes an instance of a file system type with parameters (fsopen(2), fsconfig(2)).
    pub fn create(fs_type: &CStr, parameters: &[(&CStr, String)]) -> io::Result<Context> {
        // SAFETY: a valid string and a plain number.
        let fd = owned_fd(unsafe { libc::syscall(libc::SYS_fsopen, fs_type.as_ptr(), FSOPEN_CLOEXEC) })?;
        let context = Context(fd);
        for (key, value) in parameters {
            context.configure(
                FSCONFIG_SET_STRING,
                Some(key),
                Some(&CString::new(value.as_str())?),
            )?;
        }
        context.configure(FSCONFIG_CMD_CREATE, None, None)?;
        Ok(context)
    }

    fn configure(&self, command: u32, key: Option<&CStr>, value: Option<&CStr>) -> io::Result<()> {
        let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: strings that outlive the call, or null where the command takes none.
        let result = unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                self.0.as_raw_fd(),
                command,
                pointer(key),
                pointer(value),
                0,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Mounts it in no folder (fsmount(2)): it lives as long as the descriptor or a file opened below it.
    pub fn mount(&self) -> io::Result<OwnedFd> {
        // SAFETY: our own descriptor and plain numbers.
        owned_fd(unsafe {
            let attributes = MOUNT_ATTR_NOSUID_NODEV_NOEXEC;
            libc::syscall(libc::SYS_fsmount, self.0.as_raw_fd(), FSMOUNT_CLOEXEC, attributes)
        })
    }
}

/// Opens a file below a mount.
pub fn open_below(mount: &OwnedFd, path: &str, flags: i32) -> io::Result<File> {
    let path = CString::new(path)?;
    // SAFETY: valid descriptor and string.
    let fd = unsafe { libc::openat(mount.as_raw_fd(), path.as_ptr(), flags | libc::O_CLOEXEC) };
    owned_fd(fd.into()).map(File::from)
}

/// Number of the FUSE connection that serves a file: the minor number of its file system.
pub fn connection_number(file: &File) -> io::Result<u32> {
    file.metadata().map(|metadata| libc::minor(metadata.dev()))
}

/// Ends a FUSE connection: every request, waiting or new, fails, and its readers see the end.
pub fn abort_connection(number: u32) -> io::Result<()> {
    let mount = Context::create(c"fusectl", &[])?.mount()?;
    open_below(&mount, &format!("{number}/abort"), libc::O_WRONLY)?.write_all(b"1")
}
