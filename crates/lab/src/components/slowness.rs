//! What makes a drive slower than its model: faults of single members, and pauses of firmware.
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
    /// Only reads (Some(true)), only writes (Some(false)), or all.
    pub reads: Option<bool>,
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
    /// By so much.
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
            rng,
        }
    }

    /// The same with commands that fail.
    pub fn with_errors(mut self, errors: Vec<Errors>) -> Slowness {
        self.errors = errors;
        self
    }

    /// Whether there is nothing to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slow.is_empty() && self.pauses.is_empty() && self.errors.is_empty()
    }

    /// How much longer a command takes that begins now and would end at `done_ns`.
    pub fn extra(&mut self, now_ns: u64, done_ns: u64, is_read: bool) -> Extra {
        let mut extra_ns = 0;
        for slow in &self.slow {
            let inside = (slow.from_ns..slow.to_ns).contains(&now_ns);
            if !inside || slow.reads.is_some_and(|reads| reads != is_read) {
                continue;
            }
            let hit = match slow.shape {
                Shape::Constant => true,
                Shape::Tail(probability) => chance(&mut self.rng, probability),
                Shape::Intermittent { period_ns, on_ns } => (now_ns - slow.from_ns) % period_ns < on_ns,
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
        for clock in &mut self.pauses {
            end_ns += clock.paused_ns(now_ns, end_ns, &mut self.rng);
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
        };
        let mut slowness = Slowness::new(Vec::new(), vec![pauses], rng());
        // Pauses are at 1000..1100, 2100..2200, ...
        assert_eq!(slowness.extra(0, 900, true).ns, 0);
        assert_eq!(slowness.extra(950, 1010, true).ns, 100);
        assert_eq!(slowness.extra(1050, 1060, true).ns, 50);
        assert_eq!(slowness.extra(1100, 1200, true).ns, 0);
        assert_eq!(slowness.extra(2000, 3250, true).ns, 200);
        assert_eq!(slowness.extra(20_000, 20_100, true).ns, 0);
    }

    #[test]
    fn shapes_hit_what_they_say() {
        let slow = |shape| Slow {
            from_ns: 100,
            to_ns: 200_000,
            shape,
            factor: 2.0,
            add_ns: 5,
            reads: Some(true),
        };
        let mut constant = Slowness::new(vec![slow(Shape::Constant)], Vec::new(), rng());
        assert_eq!(constant.extra(0, 10, true).ns, 0);
        assert_eq!(constant.extra(100, 110, true).ns, 15);
        assert_eq!(constant.extra(100, 110, false).ns, 0);
        let mut tail = Slowness::new(vec![slow(Shape::Tail(0.1))], Vec::new(), rng());
        let hits = (0..100_000).filter(|_| tail.extra(150, 160, true).ns > 0).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
        let part = Shape::Intermittent {
            period_ns: 1000,
            on_ns: 100,
        };
        let mut part = Slowness::new(vec![slow(part)], Vec::new(), rng());
        assert_eq!(part.extra(1150, 1160, true).ns, 15);
        assert_eq!(part.extra(1250, 1260, true).ns, 0);
    }
}
