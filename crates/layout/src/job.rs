//! What `reallocate` is doing, or did last, for `status`: one small file per path, and a lock that ends with its process.
use crate::error::LayoutError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use twox_hash::XxHash64;

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// At work.
    Running,
    /// All files were looked at.
    Done,
    /// Stopped, or killed: the same command goes on.
    Interrupted,
}

/// A run of `reallocate` over a path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// File or folder.
    pub path: PathBuf,
    /// How it stands.
    pub state: JobState,
    /// Seconds since 1970.
    pub started_unix_s: u64,
    /// Score over which files are moved.
    pub threshold: f64,
    /// Files there were, were looked at, were moved, could not be.
    pub files: u64,
    /// Looked at.
    pub looked_at: u64,
    /// Moved.
    pub moved: u64,
    /// Failed.
    pub failed: u64,
    /// Runs of the moved files before.
    pub runs_before: u64,
    /// Runs of the moved files after.
    pub runs_after: u64,
}

/// A job of this process.
pub struct Running {
    /// The job, as its file says it.
    pub job: Job,
    file: PathBuf,
    _lock: File,
}

impl Job {
    /// Begins to tell of `job`. Error: another process is at work on the same path.
    pub fn begin(job: Job) -> Result<Running, LayoutError> {
        let folder = job_folder();
        let wrap = |action| {
            let folder = &folder;
            move |error| LayoutError::system(folder, action, error)
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(wrap("make the folder of jobs"))?;
        let mut hasher = XxHash64::with_seed(0);
        hasher.write(job.path.as_os_str().as_bytes());
        let file = folder.join(format!("{:016x}.json", hasher.finish()));
        let lock = lock_file(&file, true).map_err(wrap("lock a job"))?;
        if lock.try_lock().is_err() {
            let hint = "whodisk layout status shows it";
            return Err(LayoutError::file(
                &job.path,
                "no other reallocate at work on it",
                "one",
                hint,
            ));
        }
        let running = Running {
            job,
            file,
            _lock: lock,
        };
        running.save();
        Ok(running)
    }
}

impl Running {
    /// Writes how it stands. A state that cannot be written is no reason to leave the work.
    pub fn save(&self) {
        let draft = self.file.with_extension("draft");
        let text = serde_json::to_string(&self.job).expect("plain fields");
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft);
        if written
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .is_ok()
        {
            let _ = fs::rename(&draft, &self.file);
        }
    }
}

/// Jobs of this user, the newest first.
pub fn jobs() -> Result<Vec<Job>, LayoutError> {
    let folder = job_folder();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LayoutError::system(&folder, "list jobs", error)),
    };
    let mut found = Vec::new();
    for path in entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
    {
        let text = fs::read_to_string(&path).map_err(|e| LayoutError::system(&path, "read", e))?;
        let mut job: Job = serde_json::from_str(&text).map_err(|e| {
            LayoutError::file(&path, "a job that reallocate wrote", e.to_string(), "remove it")
        })?;
        let is_at_work = lock_file(&path, false).is_ok_and(|lock| lock.try_lock().is_err());
        if job.state == JobState::Running && !is_at_work {
            job.state = JobState::Interrupted;
        }
        found.push(job);
    }
    found.sort_by_key(|job| std::cmp::Reverse(job.started_unix_s));
    Ok(found)
}

fn lock_file(job: &Path, create: bool) -> io::Result<File> {
    let path = job.with_extension("lock");
    OpenOptions::new()
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Of root /var/lib, of others where they keep such things.
fn job_folder() -> PathBuf {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| Path::new(path).is_absolute());
    // SAFETY: asks a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let base = match (state, std::env::var_os("HOME")) {
        (Some(state), _) => PathBuf::from(state),
        (None, _) if is_root => PathBuf::from("/var/lib"),
        (None, Some(home)) => Path::new(&home).join(".local/state"),
        (None, None) => PathBuf::from("/tmp"),
    };
    base.join("whodisk/layout")
}
