//! What `record` is limited to: its options, and when what they name has ended.
use crate::failure::Failure;
use case::meta::{ScopeMeta, Unseen};
use clap::Args;
use record::Scope;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// What to record. Processes and places are alternatives among themselves; where both are named, both must hold.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Scope")]
pub struct ScopeArgs {
    /// Only this process and all that it starts, now or later; ends when it ends. Repeat it for several.
    #[arg(long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,
    /// Only processes in this control group and below, e.g. /sys/fs/cgroup/system.slice/db.service.
    #[arg(long = "cgroup", value_name = "FOLDER")]
    pub cgroups: Vec<PathBuf>,
    /// Only this block device, as vda or /dev/vda: its requests, and operations on it and on files that live there.
    #[arg(long = "device", value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    /// Only this file, or all files below this folder.
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Block requests of every program, whatever is observed [default without any of the above]
    #[arg(long, conflicts_with_all = ["pids", "cgroups", "devices", "paths"])]
    pub all: bool,
}

impl ScopeArgs {
    /// As the recorder takes it.
    pub fn scope(&self) -> Scope {
        Scope {
            pids: self.pids.clone(),
            cgroups: self.cgroups.clone(),
            devices: self.devices.clone(),
            paths: self.paths.clone(),
        }
    }

    /// As `case.json` has it; `None` if everything is recorded.
    pub fn meta(&self, command_pid: Option<i32>) -> Option<ScopeMeta> {
        let words = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
        (!self.scope().is_everything()).then(|| ScopeMeta {
            pids: self.pids.iter().copied().chain(command_pid).collect(),
            cgroups: words(&self.cgroups),
            devices: words(&self.devices),
            paths: words(&self.paths),
        })
    }

    /// What the verdict says of it.
    pub fn unseen(&self, command: bool) -> Option<Unseen> {
        if self.scope().is_everything() {
            return None;
        }
        let because = format!(
            "the recording was limited to {}; of others on the same disks, only names and block requests were kept; \
             record without these options to see what they do",
            self.words(command)
        );
        Some(Unseen {
            what: "what happened outside of the recording's scope".into(),
            because,
        })
    }

    /// In words.
    pub fn words(&self, command: bool) -> String {
        let paths = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.display().to_string()).collect()
        };
        let pids: Vec<String> = self.pids.iter().map(ToString::to_string).collect();
        let kinds = [
            ("process", pids),
            ("control group", paths(&self.cgroups)),
            ("device", paths(&self.devices)),
            ("path", paths(&self.paths)),
        ];
        let command = command.then(|| "the command".to_string());
        let named = kinds.into_iter().filter(|(_, names)| !names.is_empty());
        let named = named.map(|(kind, names)| format!("{kind} {}", names.join(", ")));
        command.into_iter().chain(named).collect::<Vec<_>>().join(" and ")
    }
}

/// Processes that end the recording when they end.
pub struct Watched(Vec<OwnedFd>);

impl Watched {
    /// The processes named, if any. Error: there is none of that number.
    pub fn open(pids: &[i32]) -> Result<Watched, Failure> {
        let open = |pid: &i32| {
            // SAFETY: a plain call; the descriptor that it gives is ours alone.
            let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, *pid, 0) };
            if fd < 0 {
                let error = std::io::Error::last_os_error();
                return Err(Failure::error(format!(
                    "--pid {pid}: expected a process that runs, found none ({error}); `ps` lists them"
                )));
            }
            // SAFETY: as above.
            Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
        };
        pids.iter().map(open).collect::<Result<_, _>>().map(Watched)
    }

    /// Whether there were some, and all have ended.
    pub fn have_ended(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(has_ended)
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: process.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_said_in_words() {
        let scope = ScopeArgs {
            pids: vec![4, 5],
            devices: vec!["/dev/vda".into()],
            ..ScopeArgs::default()
        };
        assert_eq!(
            scope.words(true),
            "the command and process 4, 5 and device /dev/vda"
        );
        assert!(ScopeArgs::default().unseen(true).is_none());
        assert_eq!(scope.meta(Some(9)).unwrap().pids, [4, 5, 9]);
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let watched = Watched::open(&[child.id() as i32]).unwrap();
        assert!(!watched.have_ended());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(watched.have_ended());
        assert!(!Watched::open(&[]).unwrap().have_ended());
        assert!(Watched::open(&[i32::MAX]).is_err());
    }
}
