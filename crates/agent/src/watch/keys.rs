//! The key q of a terminal at stdin. Ctrl-C stays a signal.
use std::io::IsTerminal;

/// A terminal that hands over each key at once and does not show it; `Drop` puts back what was set before.
pub struct Keys {
    before: libc::termios,
}

impl Keys {
    /// `None` without a terminal at stdin, and in the background, where a change of the terminal would stop this process.
    pub fn of_terminal() -> Option<Keys> {
        if !std::io::stdin().is_terminal() {
            return None;
        }
        // SAFETY: the calls take no pointers but those to `before` and `keys`, which outlive them; zeros are a valid termios.
        unsafe {
            if libc::tcgetpgrp(libc::STDIN_FILENO) != libc::getpgrp() {
                return None;
            }
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(libc::STDIN_FILENO, &raw mut before) != 0 {
                return None;
            }
            let mut keys = before;
            keys.c_lflag &= !(libc::ICANON | libc::ECHO);
            // A read returns at once, with what is there.
            keys.c_cc[libc::VMIN] = 0;
            keys.c_cc[libc::VTIME] = 0;
            (libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const keys) == 0)
                .then_some(Keys { before })
        }
    }

    /// Whether q was pressed since the last call. After Ctrl-Z and `fg` the shell's settings hold, and a read would wait: then it was not.
    pub fn quit(&self) -> bool {
        let mut waiting = libc::pollfd {
            fd: libc::STDIN_FILENO,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut keys = [0_u8; 64];
        // SAFETY: both pointers are to locals of the given lengths; a read follows only where something is to be read.
        let read = unsafe {
            if libc::poll(&raw mut waiting, 1, 0) <= 0 {
                return false;
            }
            libc::read(libc::STDIN_FILENO, keys.as_mut_ptr().cast(), keys.len())
        };
        usize::try_from(read).is_ok_and(|read| keys[..read].contains(&b'q'))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: the pointer is to a field of `self`.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const self.before) };
    }
}
