//! The NVMe probe: commands to controllers (administration), commands that failed, and what controllers tell of by themselves.
//!
//! | stream | a row says |
//! |---|---|
//! | `nvme` | an admin command from begin to end; or that a command failed; or that a controller gave notice |
//!
//! A read or write that goes well is a request to the block layer, and the block probe records it: the driver sets a command up
//! right before the request is issued, and completes it inside the interrupt. What that layer does not know is the rest. It comes
//! from the kernel's event tracing; its filters leave the ordinary commands out: the driver is a module, and its events
//! spell out their fields.
//!
//! Nothing is listened to before the driver is there. One that is loaded during a recording is found within a second (`driver_late`).
mod commands;

use crate::error::RecordError;
use crate::host;
use crate::listener::Listener;
use crate::load::{refused, whole, Context};
use crate::probe::{Batch, Counts, Finished, Log, Probe, Target};
use crate::streams::{Out, Stream};
use crate::tracefs::{has_event, Field, Format};
use crate::writeback::HostNames;
use case::meta::Unseen;
use case::rows::{Nvme, NvmeRow};
use case::CaseError;
use commands::{Commands, Seen};
use std::collections::HashMap;
use std::io;
use std::path::Path;

const SYSTEM: &str = "nvme";

/// Controllers of this host.
const CONTROLLERS: &str = "/sys/class/nvme";

/// Those that the driver leaves open for a controller's notices (0x0c), and those that keep a connection (0x18), are no work.
const SETUP_FILTER: &str = "qid == 0 && opcode != 12 && opcode != 24";
const COMPLETE_FILTER: &str = "qid == 0 || status != 0";

/// Loads and attaches the probe, if the driver is there.
pub fn attach(_context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    let mut probe = NvmeProbe {
        listening: None,
        attached: Vec::new(),
        recording: false,
        rows: Vec::new(),
        late: 0,
        not_listened: 0,
    };
    match is_there() {
        Ok(true) => probe.listen().map_err(|error| refused("NVMe events", &error))?,
        // Without the driver there is nothing that could be missed.
        Err(error) if Path::new(CONTROLLERS).is_dir() => return Err(refused("NVMe events", &error)),
        _ => {}
    }
    Ok(Box::new(probe))
}

/// What this host shows of commands; the error says in words why it does not.
pub fn visible() -> Result<String, String> {
    match is_there() {
        Ok(true) => Ok("their events are read from the kernel's event tracing".into()),
        Ok(false) => Ok("the driver is not loaded; looked for while recording".into()),
        Err(_) if !Path::new(CONTROLLERS).is_dir() => Ok("the driver is not loaded".into()),
        Err(error) => Err(format!("event tracing cannot be used: {}", whole(&error))),
    }
}

fn is_there() -> io::Result<bool> {
    Ok(has_event(SYSTEM, Event::Complete.name())? == Some(true))
}

/// Ends before begins.
#[derive(Clone, Copy)]
enum Event {
    Complete,
    Setup,
    Notice,
}

impl Event {
    const ALL: [Event; 3] = [Event::Complete, Event::Setup, Event::Notice];

    fn name(self) -> &'static str {
        match self {
            Event::Complete => "nvme_complete_rq",
            Event::Setup => "nvme_setup_cmd",
            Event::Notice => "nvme_async_event",
        }
    }
}

/// Where the fields of an event are.
enum Layout {
    Complete {
        place: Place,
        disk: Field,
        retries: Field,
        status: Field,
    },
    Setup {
        place: Place,
        tid: Field,
        opcode: Field,
        parameter: Field,
    },
    Notice {
        controller: Field,
        result: Field,
    },
}

/// Which command it is.
struct Place {
    controller: Field,
    queue: Field,
    command: Field,
}

impl Place {
    fn of(format: &Format) -> io::Result<Place> {
        Ok(Place {
            controller: format.field("ctrl_id")?,
            queue: format.field("qid")?,
            command: format.field("cid")?,
        })
    }

    fn row(&self, event: &[u8]) -> Option<NvmeRow> {
        Some(NvmeRow {
            controller: self.controller.read(event)? as i32,
            queue: self.queue.read(event)? as u16,
            command: self.command.read(event)? as u16,
            ..NvmeRow::default()
        })
    }
}

impl Layout {
    fn of(event: Event, format: &Format) -> io::Result<Layout> {
        let field = |name| format.field(name);
        Ok(match event {
            Event::Complete => Layout::Complete {
                place: Place::of(format)?,
                disk: field("disk")?,
                retries: field("retries")?,
                status: field("status")?,
            },
            Event::Setup => Layout::Setup {
                place: Place::of(format)?,
                tid: field("common_pid")?,
                opcode: field("opcode")?,
                parameter: field("cdw10")?,
            },
            Event::Notice => Layout::Notice {
                controller: field("ctrl_id")?,
                result: field("result")?,
            },
        })
    }

    /// What an event says. Times and names are filled in by whoever takes it.
    fn seen(&self, event: &[u8]) -> Option<Seen> {
        match self {
            Layout::Complete {
                place,
                disk,
                retries,
                status,
            } => Some(Seen::Ended(NvmeRow {
                kind: Nvme::Failed as u8,
                disk: disk.bytes(event)?,
                retries: retries.read(event)? as u8,
                status: status.read(event)? as u16,
                ..place.row(event)?
            })),
            Layout::Setup {
                place,
                tid,
                opcode,
                parameter,
            } => Some(Seen::Began(NvmeRow {
                kind: Nvme::Admin as u8,
                tid: tid.read(event)? as i32,
                opcode: opcode.read(event)? as u8,
                // Six dwords, of which this is the first; in little endian order.
                parameter: u32::from_le_bytes(*parameter.bytes::<24>(event)?.first_chunk()?),
                ..place.row(event)?
            })),
            Layout::Notice { controller, result } => Some(Seen::Notice(NvmeRow {
                kind: Nvme::Notice as u8,
                controller: controller.read(event)? as i32,
                parameter: result.read(event)? as u32,
                ..NvmeRow::default()
            })),
        }
    }
}

/// What is there once the driver is.
struct Listening {
    listener: Listener<Seen>,
    layouts: HashMap<u64, Layout>,
    commands: Commands<HostNames>,
}

impl Listening {
    fn begin() -> io::Result<Listening> {
        let listener = Listener::create(host::cpus_possible())?;
        let instance = listener.instance();
        let mut layouts = HashMap::new();
        for event in Event::ALL {
            let format = instance.format(SYSTEM, event.name())?;
            layouts.insert(format.id, Layout::of(event, &format)?);
            match event {
                Event::Complete => instance.enable_if(SYSTEM, event.name(), COMPLETE_FILTER)?,
                Event::Setup => instance.enable_if(SYSTEM, event.name(), SETUP_FILTER)?,
                Event::Notice => instance.enable(SYSTEM, event.name())?,
            }
        }
        let commands = Commands::new(HostNames::new(instance.saved_names()), first_disk);
        Ok(Listening {
            listener,
            layouts,
            commands,
        })
    }

    fn fetch(&mut self, rows: &mut Vec<NvmeRow>) {
        let layouts = &self.layouts;
        for (time_ns, seen) in self.listener.fetch(|id, _, event| layouts.get(&id)?.seen(event)) {
            rows.extend(self.commands.take(time_ns, seen));
        }
        // Numbers of threads are used again.
        self.commands.names().forget_threads();
    }
}

/// The first disk of a controller (`nvme0` has `nvme0n1`), if it has one. With several paths to a disk the folder holds the
/// path's name (`nvme0c0n1`), which no request carries: then the disk's.
fn first_disk(controller: i32) -> Option<String> {
    let folder = Path::new(CONTROLLERS).join(format!("nvme{controller}"));
    let entries = std::fs::read_dir(folder).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| disk_name(&name)).min()
}

/// `nvme0n1`, or `nvme0c2n1` without its path.
fn disk_name(name: &str) -> Option<String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (before, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
    let (subsystem, path) = before.split_once('c').unwrap_or((before, "0"));
    let good = digits(subsystem) && digits(path) && digits(namespace);
    good.then(|| format!("nvme{subsystem}n{namespace}"))
}

struct NvmeProbe {
    listening: Option<Listening>,
    attached: Vec<String>,
    recording: bool,
    rows: Vec<NvmeRow>,
    /// Times that the driver was there before we were.
    late: u64,
    /// Times that its events could not be switched on.
    not_listened: u64,
}

impl NvmeProbe {
    fn listen(&mut self) -> io::Result<()> {
        let mut listening = Listening::begin()?;
        listening.listener.set_recording(self.recording)?;
        self.listening = Some(listening);
        self.attached = Event::ALL.iter().map(|event| event.name().to_owned()).collect();
        Ok(())
    }

    fn fetch(&mut self) {
        if let Some(listening) = &mut self.listening {
            listening.fetch(&mut self.rows);
        }
    }
}

impl Probe for NvmeProbe {
    fn attached(&self) -> &[String] {
        &self.attached
    }

    fn unseen(&self) -> &[Unseen] {
        &[]
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(NvmeLog {
            rows: Out::create(target, &[])?,
            limited: target.filter.is_some(),
        }))
    }

    /// Where it fails there is no stream of commands, which is no reason to record nothing at all.
    fn set_recording(&mut self, on: bool) -> Result<(), RecordError> {
        self.recording = on;
        let switched = self.listening.as_mut().map(|l| l.listener.set_recording(on));
        // What was heard is still to be read if they cannot be switched off.
        if on && matches!(switched, Some(Err(_))) {
            self.listening = None;
            self.not_listened += 1;
        }
        Ok(())
    }

    fn drain(&mut self) -> u64 {
        let before = self.rows.len();
        if self.listening.as_ref().is_some_and(|l| l.listener.is_due()) {
            self.fetch();
        }
        (self.rows.len() - before) as u64
    }

    fn waiting(&self) -> usize {
        self.rows.len()
    }

    fn take(&mut self) -> Option<Batch> {
        if self.rows.is_empty() {
            return None;
        }
        let rows = std::mem::take(&mut self.rows);
        Some(Batch {
            records: rows.len() as u64,
            bytes: size_of_val(&rows[..]),
            data: Box::new(rows),
        })
    }

    fn look_after(&mut self) -> Result<(), RecordError> {
        if self.listening.is_none() && self.late + self.not_listened == 0 && is_there().unwrap_or(false) {
            self.late += 1;
            // Where that fails the loss says that something was not seen.
            let _ = self.listen();
        }
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts, RecordError> {
        let overwritten = self.listening.as_ref().map_or(0, |l| l.listener.lost());
        let unmatched = self.listening.as_ref().map_or(0, |l| l.commands.unmatched());
        Ok(Counts {
            lost: vec![
                ("driver_late", self.late),
                ("not_listened", self.not_listened),
                ("events_overwritten", overwritten),
            ],
            notes: vec![("begin_unseen", unmatched)],
            ..Counts::default()
        })
    }

    fn detach(&mut self) {}

    fn finish(&mut self, _end_ns: u64) -> Result<Finished, RecordError> {
        self.fetch();
        let Some(listening) = &mut self.listening else {
            return Ok(Finished::default());
        };
        let open = listening.commands.open();
        self.rows.extend(&open);
        Ok(Finished {
            events: open.len() as u64,
            open: open.len() as u64,
        })
    }
}

/// The stream `nvme`.
struct NvmeLog {
    rows: Out<NvmeRow>,
    /// Who gave a command may be none of those that the recording is about.
    limited: bool,
}

impl Log for NvmeLog {
    fn write(&mut self, batch: Batch) {
        let rows: Box<Vec<NvmeRow>> = batch.data.downcast().expect("the probe's own rows");
        for row in rows.iter() {
            match self.limited {
                true => self.rows.push(&NvmeRow {
                    pid: -1,
                    tid: 0,
                    comm: [0; 16],
                    ..*row
                }),
                false => self.rows.push(row),
            }
        }
    }

    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.rows]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_told_from_paths_and_partitions() {
        assert_eq!(disk_name("nvme0n1"), Some("nvme0n1".into()));
        assert_eq!(disk_name("nvme3c1n2"), Some("nvme3n2".into()));
        for other in ["nvme0", "nvme0n1p1", "ng0n1", "nvmen1", "hwmon1", "nvme0c1"] {
            assert_eq!(disk_name(other), None, "{other}");
        }
    }
}
