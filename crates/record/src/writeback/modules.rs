//! Journals of file systems that are kernel modules.
//!
//! The programs of `writeback.bpf.c` attach with the kernel's own type information, which a module's types are not part of.
//! The kernel's event tracing has the same tracepoints with their fields spelled out, and shows those of a module while it is loaded. A
//! journal commits some times a second, so that an instance of tracefs, read ten times a second, costs next to nothing.
use super::journals::{Journals, Seen, Step};
use super::names::HostNames;
use super::HOOKS;
use crate::load::{has_tracepoint, whole, Kernel};
use crate::probe::Need;
use crate::ring_probe::Records;
use crate::sys;
use crate::tracefs::{has_event, Field, Format, Instance, Pages};
use aya::Btf;
use case::rows::Writeback;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// Memory for events: over all CPUs, and for one.
const BUFFER_BYTES: usize = 8 << 20;
const BUFFER_CPU_BYTES: (usize, usize) = (64 << 10, 1 << 20);

/// How often events are fetched, and modules looked for.
const FETCH_PAUSE: Duration = Duration::from_millis(100);

/// The kernel shows the events of a module that is being loaded one after the other.
const TRIES_MAX: u32 = 20;

/// CPUs are read one after the other. What came less than this before the reading began may stand before something that
/// was not read yet.
const SETTLING_NS: u64 = 1_000_000;

/// An event, and what of it is of interest.
struct Event {
    /// The module's events.
    system: &'static str,
    name: &'static str,
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
    let system = system_of(tracepoint).ok_or("missing")?;
    match has_event(system, tracepoint).map_err(|error| no_tracing(system, &error))? {
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
    /// Before the instance: the kernel removes none that somebody still reads.
    pages: Pages,
    instance: Instance,
    systems: Vec<System>,
    layouts: HashMap<u64, Layout>,
    /// Read, but perhaps not yet in order.
    pending: Vec<Seen>,
    journals: Journals,
    names: HostNames,
    fetched: Instant,
    recording: bool,
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
        let instance = Instance::create()?;
        let (least, most) = BUFFER_CPU_BYTES;
        instance.set("tracing_on", "0")?;
        instance.set_buffer_bytes((BUFFER_BYTES / cpus.max(1) as usize).clamp(least, most))?;
        instance.set("trace_clock", "mono")?;
        let (pages, names) = (instance.open_pages()?, HostNames::new(instance.saved_names()));
        Ok(Modules {
            pages,
            instance,
            systems: systems
                .iter()
                .map(|name| System {
                    name,
                    logged: Vec::new(),
                    tries: 0,
                })
                .collect(),
            layouts: HashMap::new(),
            pending: Vec::new(),
            journals: Journals::default(),
            names,
            fetched: Instant::now(),
            recording: false,
            late: 0,
        })
    }

    /// Modules come and go. `told` hears of every event that is logged from now on, or of why it cannot be.
    fn look(&mut self, mut told: impl FnMut(&Event, Option<io::Error>)) {
        let (instance, layouts) = (&self.instance, &mut self.layouts);
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
                let layout = instance.format(event.system, event.name).and_then(|format| {
                    let layout = Layout::of(event, &format)?;
                    instance.enable(event.system, event.name)?;
                    Ok((format.id, layout))
                });
                match layout {
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
        self.recording = on;
        self.instance.set("tracing_on", if on { "1" } else { "0" })
    }

    /// To be called every few milliseconds.
    pub fn drain(&mut self, records: &mut Records) {
        if !self.recording || self.fetched.elapsed() >= FETCH_PAUSE {
            self.fetch(records);
        }
    }

    /// Reads what waits, and adds what has ended to `records`.
    pub fn fetch(&mut self, records: &mut Records) {
        self.fetched = Instant::now();
        if self.recording {
            self.look(|_, _| ());
        }
        let settled_ns = match self.recording {
            true => sys::monotonic_ns().saturating_sub(SETTLING_NS),
            false => u64::MAX,
        };
        let (layouts, names, pending) = (&self.layouts, &mut self.names, &mut self.pending);
        self.pages.read(|_, time_ns, event| {
            let id = event.first_chunk().map(|id| u64::from(u16::from_ne_bytes(*id)));
            let layout = id.and_then(|id| layouts.get(&id));
            pending.extend(layout.and_then(|layout| layout.seen(time_ns, event, names)));
        });
        self.pending.sort_by_key(|seen| seen.time_ns);
        let settled = self.pending.partition_point(|seen| seen.time_ns < settled_ns);
        for seen in self.pending.drain(..settled) {
            self.journals.take(&seen, &mut self.names, |record| {
                records.push_plain(&record);
            });
        }
        self.names.forget_threads();
    }

    /// Events that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.pages.lost()
    }

    /// File systems whose modules were loaded during the recording: their events were seen from then on, a tenth of a second late.
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
}
