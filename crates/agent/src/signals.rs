//! Signals as data: blocked before any thread starts, then read from a descriptor.
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Blocked signals and the descriptor they arrive at.
pub struct Signals {
    fd: OwnedFd,
    /// The mask from before; commands we start get it back.
    pub original_mask: libc::sigset_t,
}

/// One signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Number.
    pub signal: i32,
    /// Sent by the kernel itself (Ctrl-C at the terminal): the command in the same group has it already.
    pub from_terminal: bool,
}

impl Signals {
    /// Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD in this thread and in all that it will start.
    pub fn block() -> io::Result<Signals> {
        // SAFETY: plain system calls on local memory.
        unsafe {
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            let mut set = set.assume_init();
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD] {
                libc::sigaddset(&raw mut set, signal);
            }
            let mut original = MaybeUninit::uninit();
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, original.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals {
                fd: OwnedFd::from_raw_fd(fd),
                original_mask: original.assume_init(),
            })
        }
    }

    /// Waits up to `timeout` for signals and returns those that came, in their order.
    pub fn wait(&self, timeout: Duration) -> Vec<Arrived> {
        let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
        let mut poll = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&raw mut poll, 1, milliseconds) };
        self.arrived()
    }

    /// Signals that came since the last look, in their order.
    pub fn arrived(&self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        loop {
            let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
            let size = size_of::<libc::signalfd_siginfo>();
            // SAFETY: the buffer is one siginfo long, and read whole or not at all.
            let got = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if got != size as isize {
                return arrived;
            }
            let info = unsafe { info.assume_init() };
            arrived.push(Arrived {
                signal: info.ssi_signo as i32,
                from_terminal: info.ssi_code == libc::SI_KERNEL,
            });
        }
    }
}
