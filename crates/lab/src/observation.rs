//! What a recorder would have seen of a run: layers that it does not observe, boundaries that it merges, a coarse clock, lost events.
//!
//! The truth knows nothing of it: the run is the same, only its rows differ. Events are lost as from a ring that is full: many in a row.
use crate::keys::{key, Key, Kind, Section};
use crate::request::Request;
use case::schema::{LossRow, Stage};
use std::collections::HashSet;
use workload::rng::Rng;

/// Keys of `[recorder]`.
pub const KEYS: [Key; 6] = [
    key(
        "syscalls",
        Kind::Flag,
        "true",
        "Whether system calls are recorded (layer syscall of a local workload).",
    ),
    key(
        "interrupts",
        Kind::Flag,
        "true",
        "Whether interrupts are: else device and interrupt are one stage, and irqs is empty.",
    ),
    key(
        "scheduler",
        Kind::Flag,
        "true",
        "Whether run queues and stops are: else they are part of app and reap, and waits is empty.",
    ),
    key(
        "device",
        Kind::Flag,
        "true",
        "Whether the drives' own times are (layer device).",
    ),
    key(
        "clock",
        Kind::Time(1, 10_000_000),
        "1ns",
        "Resolution of every time.",
    ),
    key(
        "lost",
        Kind::Percent,
        "0%",
        "Share of the events of block requests that are lost, many in a row.",
    ),
];

/// Requests lost in a row, on average.
const LOST_IN_A_ROW: f64 = 40.0;
/// Stages that are seen on block requests only.
const BELOW: [Stage; 4] = [Stage::Throttle, Stage::Queue, Stage::Device, Stage::Interrupt];

/// What is seen.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Layer `syscall` of a local workload.
    pub syscalls: bool,
    /// Interrupts.
    pub interrupts: bool,
    /// Run queues and stops.
    pub scheduler: bool,
    /// Layer `device`.
    pub device: bool,
    /// Resolution, ns.
    pub clock_ns: u64,
    lost: f64,
}

impl Observation {
    /// Reads the keys above.
    pub fn new(section: &Section) -> Observation {
        Observation {
            syscalls: section.flag("syscalls"),
            interrupts: section.flag("interrupts"),
            scheduler: section.flag("scheduler"),
            device: section.flag("device"),
            clock_ns: section.whole("clock").max(1),
            lost: section.real("lost").min(0.9),
        }
    }

    /// Everything, exactly.
    pub fn exact() -> Observation {
        Observation {
            syscalls: true,
            interrupts: true,
            scheduler: true,
            device: true,
            clock_ns: 1,
            lost: 0.0,
        }
    }

    /// A moment as its clock tells it.
    pub fn moment(&self, ns: u64) -> u64 {
        ns - ns % self.clock_ns
    }

    /// A length as its clock tells it.
    pub fn length(&self, start_ns: u64, duration_ns: u64) -> u64 {
        self.moment(start_ns + duration_ns) - self.moment(start_ns)
    }

    /// A request as its events tell it. `blind`: those of requests below it are lost.
    pub fn seen(&self, request: &Request, blind: bool) -> Request {
        let mut seen = request.clone();
        let stages = &mut seen.stages;
        if blind {
            let hidden = BELOW.into_iter().chain([Stage::Fs]);
            let ns: u64 = hidden
                .map(|stage| std::mem::take(&mut stages[stage as usize]))
                .sum();
            stages[Stage::Unknown as usize] += ns;
        }
        if !self.interrupts {
            let ns = std::mem::take(&mut stages[Stage::Interrupt as usize]);
            stages[Stage::Device as usize] += ns;
            seen.vector = -1;
        }
        if self.clock_ns > 1 {
            let mut at_ns = seen.start_ns;
            for ns in stages {
                let end_ns = at_ns + *ns;
                *ns = self.moment(end_ns) - self.moment(at_ns);
                at_ns = end_ns;
            }
            seen.start_ns = self.moment(seen.start_ns);
            seen.submit_ns = self.moment(seen.submit_ns);
            seen.foreign_ns = seen.foreign_ns.min(seen.stages[Stage::Interrupt as usize]);
        }
        seen
    }
}

/// Requests with lost events, and those above them.
pub struct Losses {
    share: f64,
    rng: Rng,
    /// Requests until the next loss, or that are lost now.
    left: u64,
    losing: bool,
    lost: HashSet<u64>,
    /// Operations that have a lost request below them.
    blind: HashSet<u64>,
    rows: Vec<LossRow>,
}

impl Losses {
    /// `rng`: a stream of its own.
    pub fn new(observation: &Observation, rng: Rng) -> Losses {
        let mut losses = Losses {
            share: observation.lost,
            rng,
            left: 0,
            losing: true,
            lost: HashSet::new(),
            blind: HashSet::new(),
            rows: Vec::new(),
        };
        losses.turn();
        losses
    }

    fn turn(&mut self) {
        self.losing = !self.losing;
        let mean = match self.losing {
            true => LOST_IN_A_ROW,
            false => LOST_IN_A_ROW * (1.0 - self.share) / self.share.max(1e-9),
        };
        self.left = (self.rng.exponential() * mean) as u64 + 1;
    }

    /// A block request begins.
    pub fn begin(&mut self, op_id: u64, now_ns: u64) {
        if self.share <= 0.0 {
            return;
        }
        if self.left == 0 {
            self.turn();
            if self.losing {
                self.rows.push(LossRow {
                    probe: "block".into(),
                    start_ns: now_ns as i64,
                    end_ns: now_ns as i64,
                    lost: Some(0),
                    reason: "ring_full".into(),
                });
            }
        }
        self.left -= 1;
        if !self.losing {
            return;
        }
        self.lost.insert(op_id);
        if let Some(row) = self.rows.last_mut() {
            row.end_ns = now_ns as i64;
            row.lost = row.lost.map(|lost| lost + 1);
        }
    }

    /// Whether this request's events are lost.
    pub fn has(&self, op_id: u64) -> bool {
        !self.lost.is_empty() && self.lost.contains(&op_id)
    }

    /// Whether the recorder can write a link; if not, what waited is blind for it.
    pub fn can_link(&mut self, parent_id: u64, child_id: u64) -> bool {
        if self.has(child_id) {
            self.blind.insert(parent_id);
            return false;
        }
        !self.has(parent_id)
    }

    /// Whether requests below this operation are lost.
    pub fn is_blind(&self, op_id: u64) -> bool {
        !self.blind.is_empty() && self.blind.contains(&op_id)
    }

    /// Rows of `losses`.
    pub fn rows(&self) -> &[LossRow] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Level;
    use case::schema::Op;

    #[test]
    fn about_the_share_is_lost_many_in_a_row() {
        let observation = Observation {
            lost: 0.05,
            ..Observation::exact()
        };
        let mut losses = Losses::new(&observation, Rng::new(1, 1));
        (0..100_000u64).for_each(|n| losses.begin(n, n));
        let lost: u64 = losses.rows().iter().map(|row| row.lost.unwrap_or(0)).sum();
        assert!((4_000..6_000).contains(&lost), "{lost}");
        assert!(
            (60..300).contains(&losses.rows().len()),
            "{}",
            losses.rows().len()
        );
        let first = losses.rows()[0].start_ns as u64;
        assert!(losses.has(first) && !losses.has(first - 1));
        assert!(!losses.can_link(7, first) && losses.is_blind(7) && !losses.is_blind(8));
    }

    #[test]
    fn a_coarse_clock_and_merged_stages_keep_the_sum() {
        let mut request = Request::new(Level::Block, Op::Read, 0, 4096, 1_234, Stage::Queue);
        request.close_stage(2_500);
        request.stage = Stage::Device;
        request.close_stage(7_900);
        request.stage = Stage::Interrupt;
        request.close_stage(9_100);
        let coarse = Observation {
            clock_ns: 1000,
            interrupts: false,
            ..Observation::exact()
        };
        let seen = coarse.seen(&request, false);
        assert_eq!((seen.start_ns, seen.latency_ns()), (1000, 8000));
        assert_eq!(seen.stages[Stage::Interrupt as usize], 0);
        let blind = Observation::exact().seen(&request, true);
        assert_eq!(blind.stages[Stage::Unknown as usize], request.latency_ns());
    }
}
