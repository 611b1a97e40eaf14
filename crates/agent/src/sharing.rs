//! Who may read a case. It holds paths and command lines of all programs: only its owner, unless `--mode` shares it.
//!
//! The process that writes a case takes a umask that leaves nothing else, so that no file of any writer is forgotten; the
//! command that it observes gets the umask that this process was started with.
use crate::failure::{io_failure, Failure};
use clap::Args;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// The umask this process was started with.
static GIVEN: OnceLock<libc::mode_t> = OnceLock::new();

/// Access to a new case.
#[derive(Debug, Args)]
pub struct SharingArgs {
    /// Who may read the case, as octal mode of its files, e.g. 0640 for a group or 0644 for everybody; directories get the
    /// matching x [default: 0600, the owner alone]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<Mode>,
}

/// Access bits of the files of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(libc::mode_t);

impl Mode {
    const PRIVATE: Mode = Mode(0o600);

    /// As `case.json` of an existing case has it: what is written later is as private as what was there.
    pub fn of(case: &Path) -> Mode {
        let meta = case.join("case.json").metadata();
        meta.map_or(Mode::PRIVATE, |meta| Mode(meta.permissions().mode() & 0o666))
    }

    /// Who may read a directory may search it, too.
    fn of_directories(self) -> libc::mode_t {
        self.0 | (self.0 & 0o444) >> 2
    }

    /// All files that this process makes from now on get this mode, directories the matching one.
    pub fn take(self) {
        // SAFETY: cannot fail.
        let before = unsafe { libc::umask(0o777 & !self.of_directories()) };
        GIVEN.get_or_init(|| before);
    }

    /// Gives a whole case this mode.
    pub fn give(self, path: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| io_failure(path, "change the mode", &error);
        let meta = path.symlink_metadata().map_err(failed)?;
        let set = |mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).map_err(failed);
        if meta.is_file() {
            return set(self.0);
        }
        if meta.is_dir() {
            set(self.of_directories())?;
            for entry in path.read_dir().map_err(failed)? {
                self.give(&entry.map_err(failed)?.path())?;
            }
        }
        Ok(())
    }
}

impl SharingArgs {
    /// For a new case.
    pub fn take(&self) {
        self.mode.unwrap_or(Mode::PRIVATE).take();
    }
}

/// The umask for what is observed; `None` if this process still has the one it was given.
pub fn given_umask() -> Option<libc::mode_t> {
    GIVEN.get().copied()
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    let mode = libc::mode_t::from_str_radix(text, 8).ok();
    mode.filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)
        .map(Mode)
        .ok_or_else(|| {
            "expected the mode of a file in octal that lets the owner read and write, e.g. 0640".into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_match_their_files() {
        let directories = |text| parse_mode(text).unwrap().of_directories();
        assert_eq!(directories("0600"), 0o700);
        assert_eq!(directories("640"), 0o750);
        assert_eq!(directories("0660"), 0o770);
        assert_eq!(directories("0644"), 0o755);
    }

    #[test]
    fn modes_that_make_no_sense_are_refused() {
        for text in ["", "rw", "0400", "0755", "4644", "0689", "044", "-600"] {
            assert!(parse_mode(text).is_err(), "{text:?}");
        }
    }
}
