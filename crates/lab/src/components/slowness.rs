//! What makes a drive slower than its model: faults of single members, and pauses of firmware.
use crate::component::Command;
use case::schema::Op;
use std::collections::VecDeque;
use workload::rng::Rng;

/// How a slow member is slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Every command.
    Constant,
    /// A command with this probability.
    Tail(f64),
    /// Every command in the first `on_ns` of every `period_ns`.
    Intermittent {
        /// Distance of the begins.
        period_ns: u64,
        /// Length of the slow part.
        on_ns: u64,
    },
    /// Every command once this many bytes have been written.
    AfterWriting(u64),
    /// Every command that begins or ends within a physical block of this many bytes.
    Unaligned(u64),
}

/// Which commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commands {
    /// All.
    Any,
    /// Of one kind.
    Only(Op),
}

impl Commands {
    /// The choice of a key `op`: `any`, or a kind.
    pub fn named(text: &str) -> Commands {
        match text {
            "read" => Commands::Only(Op::Read),
            "write" => Commands::Only(Op::Write),
            "flush" => Commands::Only(Op::Flush),
            _ => Commands::Any,
        }
    }

    fn has(self, op: Op) -> bool {
        match self {
            Commands::Any => true,
            Commands::Only(only) => only == op,
        }
    }
}

/// The link of a drive: all its transfers go over it, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// First moment.
    pub from_ns: u64,
    /// After the last moment.
    pub to_ns: u64,
    /// Rate.
    pub bytes_per_s: u64,
}

/// Links as sysfs names them, and what is left of each for data, bytes per second: 8 of 10 bits carry data at 2.5 and 5 GT/s, 128 of 130 above,
/// and headers of packets take about 15 % (PCI Express Base Specification 4.0).
pub const LINKS: [(&str, u64); 9] = [
    ("2.5 GT/s PCIe x1", 212_000_000),
    ("5.0 GT/s PCIe x1", 425_000_000),
    ("2.5 GT/s PCIe x4", 850_000_000),
    ("8.0 GT/s PCIe x1", 837_000_000),
    ("8.0 GT/s PCIe x2", 1_674_000_000),
    ("5.0 GT/s PCIe x4", 1_700_000_000),
    ("8.0 GT/s PCIe x4", 3_348_000_000),
    ("16.0 GT/s PCIe x2", 3_347_000_000),
    ("16.0 GT/s PCIe x4", 6_694_000_000),
];

/// What sysfs calls a link with this rate: the nearest, on a log scale.
pub fn link_text(bytes_per_s: u64) -> &'static str {
    let apart = |rate: u64| (rate as f64 / bytes_per_s.max(1) as f64).ln().abs();
    LINKS
        .iter()
        .min_by(|a, b| apart(a.1).total_cmp(&apart(b.1)))
        .map_or("", |(text, _)| text)
}

/// A drive is slow for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// First moment.
    pub from_ns: u64,
    /// After the last moment.
    pub to_ns: u64,
    /// When within it.
    pub shape: Shape,
    /// Service time is multiplied by this.
    pub factor: f64,
    /// And this is added.
    pub add_ns: u64,
    /// Of which commands.
    pub commands: Commands,
}

/// Commands of a drive fail now and then; the host gives them again, and then they succeed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// First moment.
    pub from_ns: u64,
    /// After the last moment.
    pub to_ns: u64,
    /// Share of commands.
    pub probability: f64,
    /// From the failure to the command's being given again.
    pub retry_ns: u64,
}

/// How a command is slowed down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extra {
    /// By this time.
    pub ns: u64,
    /// Whether its first attempt failed.
    pub failed: bool,
}

/// The firmware takes no notice of anything for a while, at random moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pauses {
    /// First moment.
    pub from_ns: u64,
    /// After the last moment.
    pub to_ns: u64,
    /// Mean distance (exponential), or the distance where `periodic`.
    pub every_ns: u64,
    /// Length of each.
    pub length_ns: u64,
    /// At equal distances instead of random ones.
    pub periodic: bool,
    /// Whether what was under way timed out and was given again, as events tell.
    pub timeouts: bool,
}

struct PauseClock {
    pauses: Pauses,
    /// Begins and ends that may still matter, in order.
    windows: VecDeque<(u64, u64)>,
    drawn_to_ns: u64,
}

/// Everything that slows one drive.
pub struct Slowness {
    slow: Vec<Slow>,
    pauses: Vec<PauseClock>,
    errors: Vec<Errors>,
    links: Vec<Link>,
    link_free_ns: u64,
    written_bytes: u64,
    rng: Rng,
}

impl Slowness {
    /// `rng`: a stream of this drive's slowness alone, so that its model draws the same with and without.
    pub fn new(slow: Vec<Slow>, pauses: Vec<Pauses>, rng: Rng) -> Slowness {
        let clock = |pauses: Pauses| PauseClock {
            windows: VecDeque::new(),
            drawn_to_ns: pauses.from_ns,
            pauses,
        };
        Slowness {
            slow,
            pauses: pauses.into_iter().map(clock).collect(),
            errors: Vec::new(),
            links: Vec::new(),
            link_free_ns: 0,
            written_bytes: 0,
            rng,
        }
    }

    /// The same with commands that fail.
    pub fn with_errors(mut self, errors: Vec<Errors>) -> Slowness {
        self.errors = errors;
        self
    }

    /// The same behind a link of its own.
    pub fn with_links(mut self, links: Vec<Link>) -> Slowness {
        self.links = links;
        self
    }

    /// Whether there is nothing to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slow.is_empty() && self.pauses.is_empty() && self.errors.is_empty() && self.links.is_empty()
    }

    /// How much longer a command takes that begins now and would end at `done_ns`.
    pub fn extra(&mut self, now_ns: u64, done_ns: u64, command: &Command) -> Extra {
        if command.op == Op::Write {
            self.written_bytes += u64::from(command.size_bytes);
        }
        let mut extra_ns = 0;
        for slow in &self.slow {
            let inside = (slow.from_ns..slow.to_ns).contains(&now_ns);
            if !inside || !slow.commands.has(command.op) {
                continue;
            }
            let hit = match slow.shape {
                Shape::Constant => true,
                Shape::Tail(probability) => chance(&mut self.rng, probability),
                Shape::Intermittent { period_ns, on_ns } => (now_ns - slow.from_ns) % period_ns < on_ns,
                Shape::AfterWriting(bytes) => self.written_bytes > bytes,
                Shape::Unaligned(block) => {
                    !command.offset_bytes.is_multiple_of(block)
                        || !u64::from(command.size_bytes).is_multiple_of(block)
                }
            };
            if hit {
                extra_ns += ((done_ns - now_ns) as f64 * (slow.factor - 1.0)) as u64 + slow.add_ns;
            }
        }
        let mut failed = false;
        for errors in &self.errors {
            if (errors.from_ns..errors.to_ns).contains(&now_ns) && chance(&mut self.rng, errors.probability) {
                // Both attempts take their time.
                extra_ns += errors.retry_ns + (done_ns - now_ns);
                failed = true;
            }
        }
        let mut end_ns = done_ns + extra_ns;
        for link in self
            .links
            .iter()
            .filter(|link| (link.from_ns..link.to_ns).contains(&now_ns))
        {
            let transfer_ns = u64::from(command.size_bytes) * 1_000_000_000 / link.bytes_per_s.max(1);
            // The transfer is the last that is done of a read; of a write it is the first, which takes as long.
            self.link_free_ns = self.link_free_ns.max(end_ns - transfer_ns.min(end_ns)) + transfer_ns;
            end_ns = end_ns.max(self.link_free_ns);
        }
        for clock in &mut self.pauses {
            let paused_ns = clock.paused_ns(now_ns, end_ns, &mut self.rng);
            failed |= paused_ns > 0 && clock.pauses.timeouts;
            end_ns += paused_ns;
        }
        Extra {
            ns: end_ns - done_ns,
            failed,
        }
    }
}

fn chance(rng: &mut Rng, probability: f64) -> bool {
    ((rng.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
}

impl PauseClock {
    /// How long a command under way in `now_ns..end_ns` is held up.
    fn paused_ns(&mut self, now_ns: u64, end_ns: u64, rng: &mut Rng) -> u64 {
        while self.windows.front().is_some_and(|(_, end)| *end <= now_ns) {
            self.windows.pop_front();
        }
        let mut end_ns = end_ns;
        let mut held_ns = 0;
        let mut at = 0;
        loop {
            while at == self.windows.len() && self.drawn_to_ns < end_ns.min(self.pauses.to_ns) {
                self.draw(rng, now_ns);
            }
            let Some(&(begin, end)) = self.windows.get(at) else {
                return held_ns;
            };
            if begin >= end_ns {
                return held_ns;
            }
            let inside_ns = end - begin.max(now_ns);
            held_ns += inside_ns;
            end_ns += inside_ns;
            at += 1;
        }
    }

    fn draw(&mut self, rng: &mut Rng, now_ns: u64) {
        let distance_ns = match self.pauses.periodic {
            true => self.pauses.every_ns,
            false => (self.pauses.every_ns as f64 * rng.exponential()) as u64,
        };
        let begin_ns = self.drawn_to_ns + distance_ns.max(1);
        let end_ns = begin_ns + self.pauses.length_ns;
        self.drawn_to_ns = end_ns;
        if end_ns > now_ns && begin_ns < self.pauses.to_ns {
            self.windows.push_back((begin_ns, end_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Command = Command {
        op: Op::Read,
        offset_bytes: 0,
        size_bytes: 4096,
    };
    const WRITE: Command = Command {
        op: Op::Write,
        ..READ
    };

    fn rng() -> Rng {
        Rng::new(7, 7)
    }

    #[test]
    fn pauses_hold_what_is_under_way() {
        let pauses = Pauses {
            from_ns: 0,
            to_ns: 10_000,
            every_ns: 1000,
            length_ns: 100,
            periodic: true,
            timeouts: false,
        };
        let mut slowness = Slowness::new(Vec::new(), vec![pauses], rng());
        // Pauses are at 1000..1100, 2100..2200, ...
        assert_eq!(slowness.extra(0, 900, &READ).ns, 0);
        assert_eq!(slowness.extra(950, 1010, &READ).ns, 100);
        assert_eq!(slowness.extra(1050, 1060, &READ).ns, 50);
        assert_eq!(slowness.extra(1100, 1200, &READ).ns, 0);
        assert_eq!(slowness.extra(2000, 3250, &READ).ns, 200);
        assert_eq!(slowness.extra(20_000, 20_100, &READ).ns, 0);
    }

    #[test]
    fn shapes_hit_what_they_say() {
        let slow = |shape| Slow {
            from_ns: 100,
            to_ns: 200_000,
            shape,
            factor: 2.0,
            add_ns: 5,
            commands: Commands::Only(Op::Read),
        };
        let mut constant = Slowness::new(vec![slow(Shape::Constant)], Vec::new(), rng());
        assert_eq!(constant.extra(0, 10, &READ).ns, 0);
        assert_eq!(constant.extra(100, 110, &READ).ns, 15);
        assert_eq!(constant.extra(100, 110, &WRITE).ns, 0);
        let mut tail = Slowness::new(vec![slow(Shape::Tail(0.1))], Vec::new(), rng());
        let hits = (0..100_000)
            .filter(|_| tail.extra(150, 160, &READ).ns > 0)
            .count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
        let part = Shape::Intermittent {
            period_ns: 1000,
            on_ns: 100,
        };
        let mut part = Slowness::new(vec![slow(part)], Vec::new(), rng());
        assert_eq!(part.extra(1150, 1160, &READ).ns, 15);
        assert_eq!(part.extra(1250, 1260, &READ).ns, 0);
    }

    #[test]
    fn a_link_a_full_region_and_a_misplaced_partition_cost_what_they_say() {
        let link = Link {
            from_ns: 0,
            to_ns: u64::MAX,
            bytes_per_s: 4_096_000_000,
        };
        let mut behind = Slowness::new(Vec::new(), Vec::new(), rng()).with_links(vec![link]);
        // 1 us each: two that end at once go over the link one after the other.
        assert_eq!(behind.extra(0, 10_000, &READ).ns, 0);
        assert_eq!(behind.extra(0, 10_000, &READ).ns, 1000);
        let slow = |shape, commands| Slow {
            from_ns: 0,
            to_ns: u64::MAX,
            shape,
            factor: 3.0,
            add_ns: 0,
            commands,
        };
        let full = slow(Shape::AfterWriting(8192), Commands::Only(Op::Write));
        let mut full = Slowness::new(vec![full], Vec::new(), rng());
        let extra: Vec<u64> = (0..4).map(|_| full.extra(0, 10, &WRITE).ns).collect();
        assert_eq!(extra, [0, 0, 20, 20]);
        assert_eq!(full.extra(0, 10, &READ).ns, 0);
        let unaligned = slow(Shape::Unaligned(4096), Commands::Any);
        let mut unaligned = Slowness::new(vec![unaligned], Vec::new(), rng());
        let shifted = Command {
            offset_bytes: 3584,
            ..READ
        };
        assert_eq!(unaligned.extra(0, 10, &READ).ns, 0);
        assert_eq!(unaligned.extra(0, 10, &shifted).ns, 20);
    }
}
