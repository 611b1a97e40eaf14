//! Operations of different layers that are the same I/O: same kind, place and size, one inside the other in time.
//!
//! The layers below are read first and kept, 56 bytes an operation. An operation above that holds exactly one of them is tied to it
//! (`waits_for`), and its latency is split: what the request spent in the queue and at the device, and the rest, which is above. Where
//! none or several fit, the time is `unknown`: it is not guessed.
use crate::text::counted;
use case::meta::Unseen;
use case::schema::{Layer, LinkKind, LinkRow, Op, OpRow, Stage};
use std::collections::HashMap;

/// Operations that are kept at most; 1.5 GB.
const KEPT_MAX: usize = 16_000_000;

type Key = (Op, i64, i64);

#[derive(Clone, Copy)]
struct Below {
    op_id: u64,
    start_ns: i64,
    end_ns: i64,
    queue_ns: i64,
    taken: bool,
}

/// Operations below with the same kind, place and size, in the order of their starts.
#[derive(Default)]
struct Same {
    places: Vec<u32>,
    /// Those before it ended long before whatever comes now.
    passed: usize,
}

/// Operations above come nearly in the order of their starts: apart by less than this.
const DISORDER_NS: i64 = 10_000_000_000;

/// See the module.
#[derive(Default)]
pub struct Tie {
    keeping: bool,
    tying: bool,
    tolerance_ns: i64,
    below: Vec<Below>,
    same: HashMap<Key, Same>,
    not_kept: u64,
    tied: u64,
    none: u64,
    several: u64,
}

impl Tie {
    /// Operations that come now may be tied to later.
    pub fn keep(&mut self) {
        self.keeping = true;
    }

    /// Operations that come now are tied to those that were kept.
    pub fn begin(&mut self, tolerance_ns: i64) {
        self.keeping = false;
        self.tying = true;
        self.tolerance_ns = tolerance_ns;
    }

    /// Looks at an operation that is about to be written.
    pub fn see(&mut self, layer: Layer, row: &mut OpRow) -> Option<LinkRow> {
        let key = match (row.offset_bytes, row.size_bytes) {
            (Some(offset), Some(size)) => Some((row.op, offset, size)),
            _ => None,
        };
        if self.keeping {
            if let Some(key) = key {
                self.remember(key, row);
            }
            None
        } else if self.tying && matches!(layer, Layer::App | Layer::Syscall) {
            self.tie(key, row)
        } else {
            None
        }
    }

    fn remember(&mut self, key: Key, row: &OpRow) {
        if self.below.len() >= KEPT_MAX {
            self.not_kept += 1;
            return;
        }
        let place = self.below.len() as u32;
        self.same.entry(key).or_default().places.push(place);
        self.below.push(Below {
            op_id: row.op_id,
            start_ns: row.start_ns,
            end_ns: row.start_ns.saturating_add(row.latency_ns),
            queue_ns: row.stages[Stage::Queue as usize].unwrap_or(0),
            taken: false,
        });
    }

    fn tie(&mut self, key: Option<Key>, row: &mut OpRow) -> Option<LinkRow> {
        // What a log tells of the time above (a transaction that began late) stays as it is.
        let whole = row.stages[Stage::Fs as usize].take()?;
        let found = key.and_then(|key| self.one_inside(key, row));
        let Some(place) = found else {
            row.stages[Stage::Unknown as usize] = Some(whole);
            return None;
        };
        let below = &mut self.below[place as usize];
        below.taken = true;
        self.tied += 1;
        // Lengths, not moments: those are exact whatever the clocks are. Within a clock's step the part may be longer than the whole.
        let inside = (below.end_ns - below.start_ns).min(whole);
        let queue = below.queue_ns.min(inside);
        row.stages[Stage::Queue as usize] = Some(queue);
        row.stages[Stage::Device as usize] = Some(inside - queue);
        row.stages[Stage::Fs as usize] = Some(whole - inside);
        Some(LinkRow {
            parent_id: row.op_id,
            child_id: below.op_id,
            bytes: row.size_bytes.unwrap_or(0),
            kind: LinkKind::WaitsFor,
        })
    }

    /// The only operation below that lies inside this one.
    fn one_inside(&mut self, key: Key, row: &OpRow) -> Option<u32> {
        let begin = row.start_ns.saturating_sub(self.tolerance_ns);
        let end = row
            .start_ns
            .saturating_add(row.latency_ns)
            .saturating_add(self.tolerance_ns);
        let (mut found, mut fitting) = (None, 0);
        if let Some(same) = self.same.get_mut(&key) {
            let below = |at: usize| &self.below[same.places[at] as usize];
            let mut at = same.passed;
            while at < same.places.len() && below(at).end_ns.saturating_add(DISORDER_NS) < begin {
                at += 1;
            }
            let passed = at;
            while at < same.places.len() && below(at).start_ns <= end {
                let one = below(at);
                if !one.taken && one.start_ns >= begin && one.end_ns <= end {
                    fitting += 1;
                    found = Some(same.places[at]);
                }
                at += 1;
            }
            same.passed = passed;
        }
        match fitting {
            0 => self.none += 1,
            1 => return found,
            _ => self.several += 1,
        }
        None
    }

    /// Whether it has to see every operation.
    pub fn is_looking(&self) -> bool {
        self.keeping || self.tying
    }

    /// Whether operations were tied, or looked for.
    pub fn is_tying(&self) -> bool {
        self.tying
    }

    /// What the case has to say of it.
    pub fn told(&self) -> Vec<Unseen> {
        let mut told = Vec::new();
        let all = self.tied + self.none + self.several;
        let mut add = |number: u64, because: String| {
            if number > 0 {
                let what = format!(
                    "which requests {number} of {} waited for",
                    counted(all, "operation")
                );
                told.push(Unseen { what, because });
            }
        };
        add(
            self.none,
            "no request of the same kind, place and size lies inside them: they were split, merged, cached, or are of a file \
             without a place on the device in any log; their time is unknown"
                .into(),
        );
        add(
            self.several,
            "several requests of the same kind, place and size lie inside them; their time is unknown".into(),
        );
        if self.not_kept > 0 {
            told.push(Unseen {
                what: format!("what waited for {}", counted(self.not_kept, "request")),
                because: format!("only the first {KEPT_MAX} requests are kept to tie operations to them"),
            });
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::one_stage_op;

    fn request(id: u64, start_ns: i64, queue_ns: i64, device_ns: i64) -> OpRow {
        let mut row = OpRow::plain(start_ns, queue_ns + device_ns, Op::Read);
        (row.op_id, row.offset_bytes, row.size_bytes) = (id, Some(0), Some(4096));
        row.stages[Stage::Queue as usize] = Some(queue_ns);
        row.stages[Stage::Device as usize] = Some(device_ns);
        row
    }

    fn above(start_ns: i64, latency_ns: i64) -> OpRow {
        let mut row = one_stage_op(start_ns, latency_ns, Op::Read, Stage::Fs);
        (row.offset_bytes, row.size_bytes) = (Some(0), Some(4096));
        row
    }

    #[test]
    fn one_is_tied_none_and_several_are_unknown() {
        let mut tie = Tie::default();
        tie.keep();
        for mut below in [
            request(1, 100, 10, 50),
            request(2, 1000, 0, 10),
            request(3, 1020, 0, 10),
        ] {
            assert_eq!(tie.see(Layer::Block, &mut below), None);
        }
        tie.begin(5);
        let mut one = above(90, 80);
        let link = tie.see(Layer::App, &mut one).unwrap();
        assert_eq!((link.child_id, link.bytes), (1, 4096));
        let stage = |row: &OpRow, stage: Stage| row.stages[stage as usize];
        assert_eq!(
            (
                stage(&one, Stage::Fs),
                stage(&one, Stage::Queue),
                stage(&one, Stage::Device)
            ),
            (Some(20), Some(10), Some(50))
        );
        for mut row in [above(990, 60), above(5000, 60), above(90, 80)] {
            assert_eq!(tie.see(Layer::App, &mut row), None);
            assert_eq!(stage(&row, Stage::Unknown), Some(row.latency_ns));
        }
        assert_eq!(tie.told().len(), 2);
    }
}
