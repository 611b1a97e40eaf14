//! What a recording is limited to.
//!
//! *Who*: processes and control groups (the observed command is one of them); a process belongs to the scope if any of
//! them has it. *Where*: devices, files and folders; likewise. A scope that says both wants both. The kernel's
//! programs select the processes (`bpf/scope.h`), and [`Filter`] the places when records become rows.
mod filter;
mod places;
mod processes;
mod recent;

use crate::error::RecordError;
use crate::recorder::Config;
pub use filter::{Filter, InFlight, Verdict, Whose};
use places::Places;
pub use processes::{parent_of, Change, Processes};
use std::path::{Path, PathBuf};

/// What to record of what happens on this machine; empty: everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Processes and all that they start.
    pub pids: Vec<i32>,
    /// Folders of control groups: the processes in them and below.
    pub cgroups: Vec<PathBuf>,
    /// Block devices: their requests, and operations on them and on files that live there.
    pub devices: Vec<PathBuf>,
    /// Files, and folders with all that is below.
    pub paths: Vec<PathBuf>,
}

impl Scope {
    /// Whether nothing is left out.
    pub fn is_everything(&self) -> bool {
        !self.names_processes() && self.devices.is_empty() && self.paths.is_empty()
    }

    /// Whether it names processes.
    pub fn names_processes(&self) -> bool {
        !self.pids.is_empty() || !self.cgroups.is_empty()
    }
}

impl Config {
    /// Whether system calls are those of some processes only.
    pub fn follows_processes(&self) -> bool {
        self.command_pid.is_some() || self.scope.names_processes()
    }

    /// Whether everything else is, too. A command alone limits system calls, not block requests.
    pub fn only_processes(&self) -> bool {
        !self.scope.is_everything() && self.follows_processes()
    }
}

/// What rows are looked at with, and who is followed; `None` where nothing is to be done. Errors: a process, control
/// group, device or file that is not there.
pub fn resolve(config: &Config) -> Result<(Option<Filter>, Option<Processes>), RecordError> {
    let places = Places::resolve(&config.scope)?;
    let processes = Processes::resolve(config)?;
    let filter = (!config.scope.is_everything()).then(|| Filter::new(config.only_processes(), places));
    Ok((filter, processes))
}

fn wrong(name: &'static str, expected: &str, found: String) -> RecordError {
    RecordError::Setting {
        name,
        expected: expected.into(),
        found,
    }
}

fn not_there(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
