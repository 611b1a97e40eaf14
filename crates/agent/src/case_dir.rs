//! The directory of a case that is being written: created, locked, and removed if nothing came of it.
use crate::failure::{io_failure, Failure};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A case directory of ours. The lock on `raw/` tells others that somebody still writes.
pub struct CaseDir {
    /// Path as the user gave it.
    pub path: PathBuf,
    created: bool,
    _lock: File,
}

impl CaseDir {
    /// Creates the directory, or takes an empty one. Errors: it holds something, or cannot be written.
    pub fn create(path: &Path) -> Result<CaseDir, Failure> {
        let created = match fs::create_dir(path) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                refuse_unless_empty(path)?;
                false
            }
            Err(error) => return Err(io_failure(path, "create the case directory", &error)),
        };
        let raw = path.join("raw");
        let lock = fs::create_dir(&raw).and_then(|()| lock(&raw)).map_err(|error| {
            if created {
                let _ = fs::remove_dir_all(path);
            }
            io_failure(&raw, "create", &error)
        })?;
        Ok(CaseDir {
            path: path.to_path_buf(),
            created,
            _lock: lock,
        })
    }

    /// `raw/` of this case.
    pub fn raw(&self) -> PathBuf {
        self.path.join("raw")
    }

    /// Takes everything away again; for recordings that never began.
    pub fn remove(self) {
        if self.created {
            let _ = fs::remove_dir_all(&self.path);
        } else {
            for name in ["raw", "case.json", "system.json"] {
                let entry = self.path.join(name);
                let _ = fs::remove_dir_all(&entry).or_else(|_| fs::remove_file(&entry));
            }
        }
    }
}

fn refuse_unless_empty(path: &Path) -> Result<(), Failure> {
    let mut entries = fs::read_dir(path).map_err(|error| io_failure(path, "read the directory", &error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::error(format!(
            "{}: expected a new or empty directory for the case, found one with content; \
             choose another with -o or remove it",
            path.display()
        ))),
    }
}

fn lock(path: &Path) -> std::io::Result<File> {
    let file = File::open(path)?;
    // SAFETY: plain call on an open descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(file)
}

/// Locks the raw events of an existing case for sealing; None where there are none.
/// Error: a recorder or another seal is still at work in it.
pub fn lock_for_sealing(case: &Path) -> Result<Option<File>, Failure> {
    let raw = case.join("raw");
    match lock(&raw) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(Failure::error(format!(
            "{}: expected a case with its recording at an end, found one that is still being written; \
             wait for its end, or stop the recorder",
            case.display()
        ))),
        Err(error) => Err(io_failure(&raw, "open", &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_new_and_empty_directories_only() {
        let dir = tempfile::tempdir().unwrap();
        let fresh = dir.path().join("a.case");
        drop(CaseDir::create(&fresh).unwrap());
        let refused = CaseDir::create(&fresh).err().unwrap().message;
        assert!(refused.contains("new or empty"), "{refused}");
        let missing = CaseDir::create(&dir.path().join("no/such/parent"))
            .err()
            .unwrap()
            .message;
        assert!(missing.contains("check the path"), "{missing}");
    }

    #[test]
    fn a_case_being_written_cannot_be_sealed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.case");
        let case = CaseDir::create(&path).unwrap();
        assert!(lock_for_sealing(&path).is_err());
        drop(case);
        assert!(lock_for_sealing(&path).unwrap().is_some());
        assert!(lock_for_sealing(dir.path()).unwrap().is_none());
    }

    #[test]
    fn removal_leaves_what_was_there_before() {
        let dir = tempfile::tempdir().unwrap();
        CaseDir::create(dir.path()).unwrap().remove();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let path = dir.path().join("new");
        CaseDir::create(&path).unwrap().remove();
        assert!(!path.exists());
    }
}
