//! Load that is not the workload's: neighbours, periodic jobs, checkpoints, rebuilds, scrubs.
//!
//! It goes to the volume (or to one drive) past the server, so it shows at `block` and `device` with a command name of
//! its own.
use crate::component::{Component, ComponentId, Message};
use crate::keys::{key, Key, Kind};
use crate::request::{Level, Request};
use crate::sim::Core;
use case::schema::{flags, Op, Stage};
use workload::rng::Rng;

/// Keys of `[load.NAME]`: a load in the background.
pub const KEYS: [Key; 10] = keys(["rsync", "1000", "64KiB", "50%", "100%", "64"]);

/// Keys of the faults that are loads: a job that writes as much as it can, one place after the other.
pub const FAULT_KEYS: [Key; 10] = keys(["tar", "20000", "128KiB", "0%", "0%", "256"]);

const fn keys([comm, rate, size, read, random, depth]: [&'static str; 6]) -> [Key; 10] {
    [
        key("comm", Kind::Text, comm, "Command name of its requests."),
        key(
            "drive",
            Kind::Count(0, 65535),
            "65535",
            "Drive it goes to; 65535 = the volume.",
        ),
        key(
            "rate",
            Kind::Number(0.0, 1e8),
            rate,
            "Requests per second while it is active (random moments).",
        ),
        key("size", Kind::Size(512, 1 << 26), size, "Size of each."),
        key("read", Kind::Percent, read, "Share of reads; the others write."),
        key(
            "random",
            Kind::Percent,
            random,
            "Share that goes to a random place; the others follow the last.",
        ),
        key(
            "depth",
            Kind::Count(1, 65536),
            depth,
            "Most in flight; what would be more is left out.",
        ),
        key(
            "period",
            Kind::Time(0, 86_400_000_000_000),
            "0s",
            "Active at the begin of each period; 0 = always.",
        ),
        key(
            "active",
            Kind::Time(0, 86_400_000_000_000),
            "0s",
            "Length of the active part of a period.",
        ),
        key(
            "onset",
            Kind::Time(0, 86_400_000_000_000),
            "0s",
            "Begin of the first period.",
        ),
    ]
}

/// What a load does.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Command name.
    pub comm: String,
    /// Drive, or None for the volume.
    pub drive: Option<usize>,
    /// Per second, while active.
    pub rate_per_s: f64,
    /// Bytes.
    pub size_bytes: u32,
    /// Share of reads.
    pub read: f64,
    /// Share of random places.
    pub random: f64,
    /// Discards instead of writes and reads.
    pub discard: bool,
    /// In flight at most.
    pub depth: usize,
    /// 0 = always active.
    pub period_ns: u64,
    /// Active part.
    pub active_ns: u64,
    /// Begin.
    pub onset_ns: u64,
}

/// Where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Component.
    pub id: ComponentId,
    /// Volume or drive.
    pub level: Level,
    /// Index in the cast.
    pub device: u16,
    /// Bytes of it.
    pub size_bytes: u64,
}

/// A load.
pub struct Load {
    name: String,
    pattern: Pattern,
    target: Target,
    thread: u16,
    position: u64,
    in_flight: usize,
    skipped: u64,
    rng: Rng,
    stopped: bool,
}

impl Load {
    /// `thread`: index of its thread in the cast.
    pub fn new(name: &str, pattern: Pattern, target: Target, thread: u16, rng: Rng) -> Load {
        Load {
            name: name.into(),
            pattern,
            target,
            thread,
            position: 0,
            in_flight: 0,
            skipped: 0,
            rng,
            stopped: false,
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        ((self.rng.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    fn next_ns(&mut self, now_ns: u64) -> u64 {
        let mean_ns = 1e9 / self.pattern.rate_per_s;
        let at_ns = now_ns.max(self.pattern.onset_ns) + (mean_ns * self.rng.exponential()) as u64 + 1;
        let (period_ns, active_ns) = (self.pattern.period_ns, self.pattern.active_ns);
        if period_ns == 0 {
            return at_ns;
        }
        let within_ns = (at_ns - self.pattern.onset_ns) % period_ns;
        if within_ns < active_ns {
            at_ns
        } else {
            at_ns - within_ns + period_ns
        }
    }

    fn tick(&mut self, core: &mut Core) {
        if self.stopped || self.pattern.rate_per_s <= 0.0 {
            return;
        }
        let next_ns = self.next_ns(core.now_ns());
        core.timer(next_ns, 1, 0);
    }

    fn submit(&mut self, core: &mut Core) {
        if self.in_flight >= self.pattern.depth {
            self.skipped += 1;
            return;
        }
        let size = u64::from(self.pattern.size_bytes);
        let slots = (self.target.size_bytes / size).max(1);
        if self.chance(self.pattern.random) || self.position + 2 * size > self.target.size_bytes {
            self.position = self.rng.below(slots) * size;
        } else {
            self.position += size;
        }
        let op = if self.pattern.discard {
            Op::Discard
        } else if self.chance(self.pattern.read) {
            Op::Read
        } else {
            Op::Write
        };
        let stage = if self.target.level == Level::Volume {
            Stage::Fs
        } else {
            Stage::Queue
        };
        let now_ns = core.now_ns();
        let size_bytes = size as u32;
        let new = Request::new(self.target.level, op, self.position, size_bytes, now_ns, stage);
        let handle = core.create(new);
        let request = core.get_mut(handle);
        request.submit_ns = 0;
        request.device = self.target.device;
        request.thread = self.thread;
        request.file = u16::MAX;
        request.cpu = self.thread;
        request.flags = flags::BACKGROUND;
        self.in_flight += 1;
        core.send(self.target.id, handle);
    }
}

impl Component for Load {
    fn name(&self) -> &str {
        &self.name
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Done(handle) => {
                self.in_flight -= 1;
                core.release(handle);
            }
            Message::Timer { what: 0, .. } => self.tick(core),
            Message::Timer { .. } => {
                self.submit(core);
                self.tick(core);
            }
            Message::Submit(_) => unreachable!("nobody asks a load"),
        }
    }

    fn depth(&self) -> usize {
        0
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}
