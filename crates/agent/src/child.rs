//! A command that is forked first, observed next, and executed last.
//!
//! The child waits at a pipe, so that probes are attached and know its pid before its first instruction.
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A forked child that waits to be let go. Dropping it ends the child without executing anything.
pub struct Gated {
    /// Process id, the same after the exec.
    pub pid: i32,
    gate: OwnedFd,
    report: OwnedFd,
    opened: bool,
}

/// A child after its exec.
pub struct Running {
    /// Process id.
    pub pid: i32,
}

/// What the kernel says about a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It ended; the wait status.
    Ended(i32),
    /// A signal stopped it.
    Stopped(i32),
    /// It was continued.
    Continued,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: fds has room for the two descriptors; they are owned from here on.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// Finds `program` as a shell would. Errors: not found, or nothing of that name can be executed.
pub fn look_up(program: &std::ffi::OsStr) -> io::Result<PathBuf> {
    let executable = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        let meta = path.metadata()?;
        return if meta.is_file() && executable(&path) {
            Ok(path)
        } else {
            Err(io::Error::from_raw_os_error(libc::EACCES))
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|candidate| executable(candidate))
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

impl Gated {
    /// Forks. The caller must still have a single thread, and `signal_mask` is what the command gets.
    ///
    /// `die_with_parent` (our own engine only) kills the child when this process dies.
    pub fn fork(
        program: &Path,
        argv: &[OsString],
        signal_mask: &libc::sigset_t,
        die_with_parent: bool,
    ) -> io::Result<Gated> {
        let no_nul = |text: &std::ffi::OsStr| {
            CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
        };
        let program = no_nul(program.as_os_str())?;
        let argv: Vec<CString> = argv.iter().map(|a| no_nul(a)).collect::<io::Result<_>>()?;
        let mut pointers: Vec<*const libc::c_char> = argv.iter().map(|a| a.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let (gate_out, gate_in) = pipe()?;
        let (report_out, report_in) = pipe()?;
        // Our own engine writes into the case.
        let umask = crate::sharing::given_umask().filter(|_| !die_with_parent);
        // SAFETY: single-threaded caller; the child only makes system calls on memory prepared above.
        let parent = unsafe { libc::getpid() };
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            // SAFETY: as above; this block never returns.
            unsafe {
                libc::close(gate_in.as_raw_fd());
                libc::close(report_out.as_raw_fd());
                if die_with_parent {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() != parent {
                        libc::_exit(0);
                    }
                }
                let mut byte = 0u8;
                if libc::read(gate_out.as_raw_fd(), std::ptr::from_mut(&mut byte).cast(), 1) != 1 {
                    libc::_exit(0);
                }
                // Rust ignores SIGPIPE; the command must meet it as its author meant.
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                if let Some(umask) = umask {
                    libc::umask(umask);
                }
                libc::sigprocmask(libc::SIG_SETMASK, signal_mask, std::ptr::null_mut());
                libc::execvp(program.as_ptr(), pointers.as_ptr());
                let errno = *libc::__errno_location();
                libc::write(report_in.as_raw_fd(), std::ptr::from_ref(&errno).cast(), 4);
                libc::_exit(127);
            }
        }
        Ok(Gated {
            pid,
            gate: gate_in,
            report: report_out,
            opened: false,
        })
    }

    /// Lets the child go. Error: why the program could not be executed.
    pub fn open(mut self) -> io::Result<Running> {
        let mut errno = 0i32;
        // SAFETY: both descriptors are open; the buffers are as long as stated.
        let got = unsafe {
            libc::write(self.gate.as_raw_fd(), [1u8].as_ptr().cast(), 1);
            libc::read(self.report.as_raw_fd(), std::ptr::from_mut(&mut errno).cast(), 4)
        };
        if got == 4 {
            // The child exits by itself after its report; dropping waits for it.
            return Err(io::Error::from_raw_os_error(errno));
        }
        self.opened = true;
        Ok(Running { pid: self.pid })
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        if self.opened {
            return;
        }
        // SAFETY: our own child, not waited for yet; it waits at the gate or has exited.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

impl Running {
    /// The next change of the child's state, if there is one; does not block.
    pub fn poll(&self) -> Option<Change> {
        let mut status = 0;
        // SAFETY: our own child.
        let got = unsafe {
            libc::waitpid(
                self.pid,
                &raw mut status,
                libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED,
            )
        };
        if got != self.pid {
            return None;
        }
        if libc::WIFSTOPPED(status) {
            Some(Change::Stopped(libc::WSTOPSIG(status)))
        } else if libc::WIFCONTINUED(status) {
            Some(Change::Continued)
        } else {
            Some(Change::Ended(status))
        }
    }

    /// Sends a signal to the child.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child was not waited for yet, so the pid is still its own.
        unsafe { libc::kill(self.pid, signal) };
    }
}

/// A wait status in words: `exit 0`, `signal 9`.
pub fn status_words(status: i32) -> String {
    if libc::WIFEXITED(status) {
        format!("exit {}", libc::WEXITSTATUS(status))
    } else {
        format!("signal {}", libc::WTERMSIG(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_up_like_a_shell() {
        assert!(look_up("sh".as_ref()).is_ok());
        assert_eq!(
            look_up("no-such-program-anywhere".as_ref())
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ENOENT)
        );
        assert_eq!(
            look_up("/etc/passwd".as_ref()).unwrap_err().raw_os_error(),
            Some(libc::EACCES)
        );
        assert_eq!(
            look_up("./no/such".as_ref()).unwrap_err().raw_os_error(),
            Some(libc::ENOENT)
        );
    }

    #[test]
    fn status_in_words() {
        assert_eq!(status_words(0), "exit 0");
        assert_eq!(status_words(3 << 8), "exit 3");
        assert_eq!(status_words(9), "signal 9");
    }
}
