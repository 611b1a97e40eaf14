//! Journals of file systems that are kernel modules.
//!
//! The programs of `writeback.bpf.c` attach with the kernel's own type information, which a module's types are not part of.
//! The kernel's event tracing has the same tracepoints with their fields spelled out, and shows those of a module while it is loaded. A
//! journal commits some times a second, so that an instance of tracefs, read ten times a second, costs next to nothing.
use super::journals::{Journals, Seen, Step};
use super::names::HostNames;
use super::HOOKS;
use crate::listener::Listener;
use crate::load::{has_tracepoint, whole, Kernel};
use crate::probe::Need;
use crate::ring_probe::Records;
use crate::tracefs::{has_event, Field, Format};
use aya::Btf;
use case::rows::Writeback;
use std::collections::HashMap;
use std::io;

/// The kernel shows the events of a module that is being loaded one after the other.
const TRIES_MAX: u32 = 20;

/// An event, and what of it is of interest.
struct Event {
    /// The module's events.
    system: &'static str,
    name: &'static str,
    /// Its name in newer kernels.
    renamed: Option<&'static str>,
    step: Step,
    /// Field of the file system: its number, or (btrfs) its UUID.
    place: &'static str,
    inode: Option<&'static str>,
    transaction: Option<&'static str>,
    amount: Option<&'static str>,
}

impl Event {
    const fn new(system: &'static str, name: &'static str, step: Step) -> Event {
        Event {
            system,
            name,
            renamed: None,
            step,
            place: "dev",
            inode: None,
            transaction: None,
            amount: None,
        }
    }

    const fn of_commit(name: &'static str, step: Step) -> Event {
        Event {
            transaction: Some("transaction"),
            ..Event::new("jbd2", name, step)
        }
    }

    const fn amount(self, field: &'static str) -> Event {
        Event {
            amount: Some(field),
            ..self
        }
    }

    const fn renamed(self, name: &'static str) -> Event {
        Event {
            renamed: Some(name),
            ..self
        }
    }

    /// The names that it may have, the oldest first.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.renamed)
    }

    const fn inode(self) -> Event {
        Event {
            inode: Some("ino"),
            ..self
        }
    }

    const fn uuid(self) -> Event {
        Event {
            place: "fsid",
            ..self
        }
    }
}

/// Programs read from an inode what its event does not have.
const EXT4_SYNC: &str = "ext4_sync_file_exit";

/// Ends before begins, like [`HOOKS`], which have a tracepoint of the same name for each.
const EVENTS: [Event; 16] = [
    Event::of_commit("jbd2_end_commit", Step::CommitEnd),
    Event::new("jbd2", "jbd2_run_stats", Step::Logged).amount("blocks_logged"),
    Event::of_commit("jbd2_commit_logging", Step::Part(Writeback::CommitLogging)),
    Event::of_commit("jbd2_commit_flushing", Step::Part(Writeback::CommitFlushing)),
    Event::of_commit("jbd2_commit_locking", Step::Part(Writeback::CommitLocking)),
    Event::of_commit("jbd2_start_commit", Step::CommitBegin),
    Event {
        transaction: Some("tid"),
        ..Event::new("jbd2", "jbd2_checkpoint_stats", Step::Checkpoint).amount("written")
    },
    Event::new("jbd2", "jbd2_lock_buffer_stall", Step::BufferStall).amount("stall_ms"),
    Event::new("ext4", EXT4_SYNC, Step::SyncEnd).inode(),
    Event::new("ext4", "ext4_sync_file_enter", Step::SyncBegin).inode(),
    Event::new("xfs", "xfs_log_grant_wake", Step::SpaceEnd),
    Event::new("xfs", "xfs_log_grant_sleep", Step::SpaceBegin),
    Event::new("xfs", "xfs_log_force", Step::Moment(Writeback::LogForce)),
    Event::new("xfs", "xfs_file_fsync", Step::Moment(Writeback::Fsync)).inode(),
    Event::new(
        "btrfs",
        "btrfs_transaction_commit",
        Step::Moment(Writeback::TreeCommit),
    )
    .uuid(),
    Event::new("btrfs", "btrfs_sync_file", Step::Moment(Writeback::Fsync))
        // Source: include/trace/events/btrfs.h of 7.3.
        .renamed("btrfs_sync_file_enter")
        .inode()
        .uuid(),
];

/// The system of a tracepoint that may be a module's.
fn system_of(tracepoint: &str) -> Option<&'static str> {
    let found = EVENTS.iter().find(|event| event.name == tracepoint);
    found.map(|event| event.system)
}

/// Whether a tracepoint may be a module's.
pub fn is_known(tracepoint: &str) -> bool {
    system_of(tracepoint).is_some()
}

/// Whether a tracepoint may be a module's, and is not part of the kernel itself. All those of a system go one way: what begins seen by
/// a program must end seen by it.
pub fn is_of_module(btf: &Btf, tracepoint: &str) -> bool {
    system_of(tracepoint).is_some_and(|system| {
        let mut events = EVENTS.iter().filter(|event| event.system == system);
        !events.any(|event| has_tracepoint(btf, event.name))
    })
}

/// How this host would show a tracepoint of a module; the error says in words why it cannot.
pub fn visible(tracepoint: &str) -> Result<String, String> {
    let event = EVENTS.iter().find(|event| event.name == tracepoint);
    let event = event.ok_or("missing")?;
    let system = event.system;
    let found = event.names().map(|name| has_event(system, name));
    let found = found.reduce(|old, new| match old {
        Ok(Some(false)) => new,
        _ => old,
    });
    match found
        .transpose()
        .map_err(|error| no_tracing(system, &error))?
        .flatten()
    {
        None => Ok(format!(
            "no module {system} is loaded; looked for while recording"
        )),
        Some(true) => Ok("exists, in a module: read from the kernel's event tracing".into()),
        Some(false) => Err("missing".into()),
    }
}

fn no_tracing(system: &str, error: &io::Error) -> String {
    format!(
        "{system} is no part of the kernel itself, and event tracing for modules cannot be used: {}",
        whole(error)
    )
}

/// Where the fields of an event are.
struct Layout {
    step: Step,
    tid: Field,
    place: Field,
    inode: Option<Field>,
    transaction: Option<Field>,
    amount: Option<Field>,
}

impl Layout {
    fn of(event: &Event, format: &Format) -> io::Result<Layout> {
        let optional = |name: Option<&str>| name.map(|name| format.field(name)).transpose();
        Ok(Layout {
            step: event.step,
            tid: format.field("common_pid")?,
            place: format.field(event.place)?,
            inode: optional(event.inode)?,
            transaction: optional(event.transaction)?,
            amount: optional(event.amount)?,
        })
    }

    fn seen(&self, time_ns: u64, event: &[u8], names: &mut HostNames) -> Option<Seen> {
        let optional = |field: Option<Field>| field.map_or(Some(0), |field| field.read(event));
        let device = match self.place.bytes::<16>(event) {
            Some(uuid) => names.btrfs(uuid),
            None => self.place.read(event)? as u32,
        };
        Some(Seen {
            time_ns,
            step: self.step,
            tid: self.tid.read(event)? as i32,
            device,
            inode: optional(self.inode)?,
            transaction: optional(self.transaction)?,
            amount: optional(self.amount)?,
        })
    }
}

/// A system that is no part of the kernel itself.
struct System {
    name: &'static str,
    /// Those of its events that are logged.
    logged: Vec<&'static str>,
    /// How often it was looked for the others since it came.
    tries: u32,
}

/// The instance, and what it has shown.
pub struct Modules {
    listener: Listener<Seen>,
    systems: Vec<System>,
    layouts: HashMap<u64, Layout>,
    journals: Journals,
    names: HostNames,
    /// Systems that came while it was recorded.
    late: u64,
}

impl Modules {
    /// Makes the instance if one is needed, and says what will not be seen. With `always`, programs are not used for any.
    pub fn start(btf: &Btf, always: bool, cpus: u32, kernel: &mut Kernel) -> Option<Modules> {
        let mut systems: Vec<&str> = EVENTS.iter().map(|event| event.system).collect();
        systems.dedup();
        systems.retain(|system| {
            let mut events = EVENTS.iter().filter(|event| event.system == *system);
            always || events.all(|event| !has_tracepoint(btf, event.name))
        });
        if systems.is_empty() {
            return None;
        }
        match Modules::create(&systems, cpus) {
            Ok(mut modules) => {
                modules.look(|event, failed| tell(event, failed, kernel));
                modules.late = 0;
                let ext4 = modules.systems.iter().find(|system| system.name == "ext4");
                if let Some(fact) = fact_of(EXT4_SYNC).filter(|_| ext4.is_some_and(|ext4| ext4.tries > 0)) {
                    kernel.miss(fact, "ext4 is a kernel module, and event tracing does not tell");
                }
                Some(modules)
            }
            Err(error) => {
                for event in EVENTS.iter().filter(|event| systems.contains(&event.system)) {
                    if let Some(fact) = fact_of(event.name) {
                        kernel.miss(fact, &no_tracing(event.system, &error));
                    }
                }
                None
            }
        }
    }

    fn create(systems: &[&'static str], cpus: u32) -> io::Result<Modules> {
        let listener = Listener::create(cpus)?;
        let names = HostNames::new(listener.instance().saved_names());
        Ok(Modules {
            listener,
            systems: systems
                .iter()
                .map(|name| System {
                    name,
                    logged: Vec::new(),
                    tries: 0,
                })
                .collect(),
            layouts: HashMap::new(),
            journals: Journals::default(),
            names,
            late: 0,
        })
    }

    /// Modules come and go. `told` hears of every event that is logged from now on, or of why it cannot be.
    fn look(&mut self, mut told: impl FnMut(&Event, Option<io::Error>)) {
        let (instance, layouts) = (self.listener.instance(), &mut self.layouts);
        for system in &mut self.systems {
            if !instance.has_system(system.name) {
                (system.logged, system.tries) = (Vec::new(), 0);
                continue;
            }
            if system.tries >= TRIES_MAX {
                continue;
            }
            system.tries += 1;
            let before = system.logged.len();
            for event in EVENTS.iter().filter(|event| event.system == system.name) {
                if system.logged.contains(&event.name) {
                    continue;
                }
                let enabled = |name| {
                    let format = instance.format(event.system, name)?;
                    let layout = Layout::of(event, &format)?;
                    instance.enable(event.system, name)?;
                    Ok((format.id, layout))
                };
                let layout = event.names().map(enabled);
                // An error of the oldest name tells most.
                match layout
                    .reduce(|old, new| old.or_else(|error| new.map_err(|_| error)))
                    .expect("a name")
                {
                    Ok((id, layout)) => {
                        layouts.insert(id, layout);
                        system.logged.push(event.name);
                        told(event, None);
                    }
                    Err(error) => told(event, Some(error)),
                }
            }
            self.late += u64::from(before == 0 && !system.logged.is_empty());
        }
    }

    /// Begins or ends the recording.
    pub fn set_recording(&mut self, on: bool) -> io::Result<()> {
        self.listener.set_recording(on)
    }

    /// To be called every few milliseconds.
    pub fn drain(&mut self, records: &mut Records) {
        if self.listener.is_due() {
            self.fetch(records);
        }
    }

    /// Reads what waits, and adds what has ended to `records`.
    pub fn fetch(&mut self, records: &mut Records) {
        if self.listener.is_recording() {
            self.look(|_, _| ());
        }
        let (layouts, names) = (&self.layouts, &mut self.names);
        let seen = self.listener.fetch(|id, time_ns, event| {
            let layout = layouts.get(&id)?;
            layout.seen(time_ns, event, names)
        });
        for (_, seen) in seen {
            self.journals.take(&seen, names, |record| {
                records.push_plain(&record);
            });
        }
        names.forget_threads();
    }

    /// Events that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.listener.lost()
    }

    /// File systems with modules that were loaded during the recording: their events were seen from then on, a tenth of a second late.
    pub fn late(&self) -> u64 {
        self.late
    }
}

fn fact_of(tracepoint: &str) -> Option<&'static str> {
    HOOKS.iter().find_map(|(name, need)| match need {
        Need::Fact(fact) if *name == tracepoint => Some(*fact),
        _ => None,
    })
}

fn tell(event: &Event, failed: Option<io::Error>, kernel: &mut Kernel) {
    let tracepoint = event.name;
    let Some(error) = failed else {
        kernel.attached.push(tracepoint.to_string());
        return;
    };
    if let Some(fact) = fact_of(tracepoint) {
        let because = format!(
            "the module {} has no event {tracepoint} that can be used: {error}",
            event.system
        );
        kernel.miss(fact, &because);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_a_hook_with_a_fact() {
        for event in &EVENTS {
            assert!(fact_of(event.name).is_some(), "{}", event.name);
            assert_eq!(system_of(event.name), Some(event.system));
        }
        assert_eq!(system_of("sched_switch"), None);
    }

    #[test]
    fn a_renamed_event_is_looked_for_by_both_names() {
        let names = |name: &str| -> Vec<&str> {
            let event = EVENTS.iter().find(|event| event.name == name).unwrap();
            event.names().collect()
        };
        assert_eq!(
            names("btrfs_sync_file"),
            ["btrfs_sync_file", "btrfs_sync_file_enter"]
        );
        assert_eq!(names("xfs_file_fsync"), ["xfs_file_fsync"]);
    }
}
