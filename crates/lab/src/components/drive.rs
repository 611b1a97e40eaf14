//! A drive with its queue: the host's queue (tags), the drive's slots, and the model that serves.
//!
//! Stages: `queue` until a slot is free, then `device` until the drive is done. If the stack has interrupts, the request
//! then goes on to them.
use super::slowness::Slowness;
use crate::component::{Command, Component, ComponentId, DriveModel, Handle, Message};
use crate::keys::{key, Key, Kind};
use crate::sim::Core;
use case::schema::Stage;
use std::collections::VecDeque;

/// Keys of `[device]` that every kind has.
pub const KEYS: [Key; 12] = [
    key(
        "kind",
        Kind::Choice(&["simple", "hdd", "ssd", "fitted"]),
        "simple",
        "Model of the drives.",
    ),
    key("count", Kind::Count(1, 1024), "1", "How many, all alike."),
    key(
        "name",
        Kind::Text,
        "nvme",
        "How the kernel names them: nvme gives nvme0n1, nvme1n1, ...; sd and vd give sda, sdb, ... and vda, vdb, ...",
    ),
    key(
        "hdd_model",
        Kind::Choice(&["nearline_7200", "st2000dm006"]),
        "nearline_7200",
        "Which disk, for `kind = \"hdd\"`.",
    ),
    key(
        "ssd_model",
        Kind::Choice(&["p4500"]),
        "p4500",
        "Which flash drive, for `kind = \"ssd\"`.",
    ),
    key(
        "ssd_filled",
        Kind::Percent,
        "100%",
        "Part of a flash drive that holds data at the beginning.",
    ),
    key(
        "ssd_overwritten",
        Kind::Number(0.0, 10.0),
        "0",
        "Random overwrites before the beginning, as a multiple of that part; 2 is near the steady state.",
    ),
    key("size", Kind::Size(1 << 20, 1 << 50), "1TiB", "Size of each."),
    key("firmware", Kind::Text, "1.0.4", "Firmware of each, as system.json tells it."),
    key(
        "link_max",
        Kind::Text,
        "16.0 GT/s PCIe x4",
        "The most that an NVMe drive's link can do, as system.json tells it.",
    ),
    key(
        "link",
        Kind::Text,
        "",
        "The link that it has, as system.json tells it: a slot may have fewer lanes. Empty = the most. A fact alone: only the fault link_downgrade slows anything.",
    ),
    key(
        "tags",
        Kind::Count(1, 65536),
        "1023",
        "Most commands the host gives one drive at once (nr_requests); the drive's own limit counts too.",
    ),
];

const DONE: u16 = 1;
const FREE: u16 = 2;
const RUN_QUEUE: u16 = 3;

/// The host does not run one CPU's hardware queue now and then: a kworker that should do it does not get a CPU, or it
/// waits for a lock. What is submitted there meanwhile is issued afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueStall {
    /// The CPU with that queue; None = that of each CPU in turn.
    pub cpu: Option<u16>,
    /// CPUs of the host.
    pub cpus: u16,
    /// First begin.
    pub from_ns: u64,
    /// No begin after this.
    pub to_ns: u64,
    /// Distance of begins.
    pub every_ns: u64,
    /// Length.
    pub length_ns: u64,
}

impl QueueStall {
    /// End of the stall that holds what this CPU submits now.
    fn end_ns(&self, cpu: u16, now_ns: u64) -> Option<u64> {
        let count = now_ns.checked_sub(self.from_ns)? / self.every_ns;
        let turn = (count % u64::from(self.cpus)) as u16;
        if cpu != self.cpu.unwrap_or(turn) {
            return None;
        }
        let begin_ns = self.from_ns + count * self.every_ns;
        let end_ns = begin_ns + self.length_ns;
        (begin_ns < self.to_ns && now_ns < end_ns).then_some(end_ns)
    }
}

/// A drive.
pub struct Drive {
    name: String,
    model: Box<dyn DriveModel>,
    slowness: Slowness,
    /// Interrupts, or None: the request is complete when the drive is done.
    above: Option<ComponentId>,
    /// Queues that are not run for a while, and what is held in them.
    stalls: Vec<QueueStall>,
    held: usize,
    /// Waiting for a slot.
    queue: VecDeque<Handle>,
    /// Inside the drive, not yet begun.
    waiting: Vec<Command>,
    waiting_handles: Vec<Handle>,
    inside: usize,
    slots: usize,
    free_ns: u64,
    free_timer: bool,
    busy_since_ns: Option<u64>,
    busy_ns: u64,
    ops: u64,
    bytes: u64,
    last: (u64, u64, u64),
}

impl Drive {
    /// `tags`: the host's limit.
    pub fn new(
        name: &str,
        model: Box<dyn DriveModel>,
        slowness: Slowness,
        tags: usize,
        above: Option<ComponentId>,
    ) -> Drive {
        Drive {
            name: name.into(),
            slots: model.slots().min(tags).max(1),
            model,
            slowness,
            above,
            stalls: Vec::new(),
            held: 0,
            queue: VecDeque::new(),
            waiting: Vec::new(),
            waiting_handles: Vec::new(),
            inside: 0,
            free_ns: 0,
            free_timer: false,
            busy_since_ns: None,
            busy_ns: 0,
            ops: 0,
            bytes: 0,
            last: (0, 0, 0),
        }
    }

    /// The same drive behind a host that stalls its queues.
    pub fn with_stalls(mut self, stalls: Vec<QueueStall>) -> Drive {
        self.stalls = stalls;
        self
    }

    /// Holds a request back while its queue is not run; whether it did.
    fn hold(&mut self, handle: Handle, core: &mut Core) -> bool {
        let (cpu, now_ns) = (core.get(handle).cpu, core.now_ns());
        let ends = self.stalls.iter().filter_map(|stall| stall.end_ns(cpu, now_ns));
        let Some(end_ns) = ends.max() else { return false };
        self.held += 1;
        core.timer(end_ns, RUN_QUEUE, handle);
        true
    }

    /// Issues a request, or queues it where there is no free slot; whether it was issued.
    fn admit(&mut self, handle: Handle, core: &mut Core) -> bool {
        if self.inside >= self.slots {
            self.queue.push_back(handle);
            return false;
        }
        self.issue(handle, core);
        true
    }

    fn issue(&mut self, handle: Handle, core: &mut Core) {
        core.enter(handle, Stage::Device);
        let now_ns = core.now_ns();
        let request = core.get_mut(handle);
        request.submit_ns = now_ns;
        let end = request.offset_bytes + u64::from(request.size_bytes);
        assert!(
            end <= self.model.size_bytes(),
            "{}: a command ends at byte {end}",
            self.name
        );
        self.waiting.push(Command {
            op: request.op,
            offset_bytes: request.offset_bytes,
            size_bytes: request.size_bytes,
        });
        self.waiting_handles.push(handle);
        if self.inside == 0 {
            self.busy_since_ns = Some(now_ns);
        }
        self.inside += 1;
        assert!(
            self.inside <= self.slots,
            "{}: more commands than slots",
            self.name
        );
    }

    /// Lets the model begin whatever it may begin now.
    fn serve(&mut self, core: &mut Core) {
        let now_ns = core.now_ns();
        while !self.waiting.is_empty() {
            if self.free_ns > now_ns {
                if !self.free_timer {
                    self.free_timer = true;
                    core.timer(self.free_ns, FREE, 0);
                }
                return;
            }
            let at = match self.waiting.len() {
                1 => 0,
                _ => self.model.choose(now_ns, &self.waiting),
            };
            let (command, handle) = self.take_waiting(at);
            let mut service = self.model.serve(now_ns, &command);
            assert!(
                service.done_ns >= now_ns && service.free_ns >= now_ns,
                "{}: served in the past",
                self.name
            );
            if !self.slowness.is_empty() {
                let extra = self.slowness.extra(now_ns, service.done_ns, &command);
                service.done_ns += extra.ns;
                if service.free_ns > now_ns {
                    service.free_ns += extra.ns;
                }
                if extra.failed {
                    core.recorder.event(now_ns, "error", &self.name, || {
                        let name = command.op.name();
                        format!(
                            "{name} of {} bytes at byte {}, given again",
                            command.size_bytes, command.offset_bytes
                        )
                    });
                }
            }
            self.free_ns = service.free_ns;
            core.get_mut(handle).note = service.note;
            core.timer(service.done_ns, DONE, handle);
        }
    }

    /// Takes a waiting command out, and leaves the others in their order.
    #[inline]
    fn take_waiting(&mut self, at: usize) -> (Command, Handle) {
        // Most often it is alone; then there is nothing to move.
        match (self.waiting.len(), self.waiting.pop(), self.waiting_handles.pop()) {
            (1, Some(command), Some(handle)) => (command, handle),
            (_, Some(last), Some(last_handle)) => {
                self.waiting.push(last);
                self.waiting_handles.push(last_handle);
                (self.waiting.remove(at), self.waiting_handles.remove(at))
            }
            _ => unreachable!("a command waits"),
        }
    }

    fn done(&mut self, handle: Handle, core: &mut Core) {
        let now_ns = core.now_ns();
        self.inside -= 1;
        self.ops += 1;
        let request = core.get_mut(handle);
        request.drive_done_ns = now_ns;
        self.bytes += u64::from(request.size_bytes);
        match self.above {
            Some(interrupts) => {
                core.enter(handle, Stage::Interrupt);
                core.send(interrupts, handle);
            }
            None => core.complete(handle),
        }
        if let Some(next) = self.queue.pop_front() {
            self.issue(next, core);
        }
        if self.inside == 0 {
            self.busy_ns += self.busy_since_ns.take().map_or(0, |since| now_ns - since);
        }
    }
}

impl Component for Drive {
    fn name(&self) -> &str {
        &self.name
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(handle) => {
                core.get_mut(handle).depth = (self.depth() + 1) as u32;
                if self.hold(handle, core) || !self.admit(handle, core) {
                    return;
                }
            }
            Message::Timer { what: RUN_QUEUE, arg } => {
                self.held -= 1;
                if !self.admit(arg, core) {
                    return;
                }
            }
            Message::Timer { what: DONE, arg } => self.done(arg, core),
            Message::Timer { .. } => self.free_timer = false,
            Message::Done(_) => unreachable!("a drive makes no requests"),
        }
        self.serve(core);
    }

    fn depth(&self) -> usize {
        self.held + self.queue.len() + self.inside
    }

    fn sample(&mut self, now_ns: u64, put: &mut dyn FnMut(&'static str, f64)) {
        let busy_ns = self.busy_ns + self.busy_since_ns.map_or(0, |since| now_ns - since);
        let (last_ns, last_busy_ns, last_bytes) = self.last;
        let seconds = (now_ns - last_ns).max(1) as f64 / 1e9;
        put("busy_ratio", (busy_ns - last_busy_ns) as f64 / 1e9 / seconds);
        put(
            "throughput_bytes_per_s",
            (self.bytes - last_bytes) as f64 / seconds,
        );
        self.last = (now_ns, busy_ns, self.bytes);
    }
}
