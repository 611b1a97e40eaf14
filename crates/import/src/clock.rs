//! Clocks of logs, and how those of several logs are brought together.
use crate::sink::{Seen, Survey};
use case::schema::Op;
use std::collections::HashMap;

/// What a log's moments count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zero {
    /// 1970, UTC.
    Unix,
    /// The machine's start: CLOCK_MONOTONIC and its kin.
    Boot,
    /// A moment that only this log knows: "the begin of the trace". Logs that name the same one share it.
    Own(&'static str),
    /// Nothing has been said: there are no moments.
    #[default]
    None,
}

/// The clock of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// What its moments count from.
    pub zero: Zero,
    /// That moment since 1970, where the log says it, too.
    pub zero_unix_ns: Option<i64>,
    /// Moments have steps of this many nanoseconds.
    pub step_ns: i64,
}

impl Clock {
    /// Moments since 1970.
    pub fn unix(step_ns: i64) -> Clock {
        Clock {
            zero: Zero::Unix,
            zero_unix_ns: Some(0),
            step_ns,
        }
    }

    /// Moments since the machine's start.
    pub fn boot(step_ns: i64) -> Clock {
        Clock {
            zero: Zero::Boot,
            zero_unix_ns: None,
            step_ns,
        }
    }

    /// Moments since one that only the log knows.
    pub fn own(zero: &'static str, step_ns: i64) -> Clock {
        Clock {
            zero: Zero::Own(zero),
            zero_unix_ns: None,
            step_ns,
        }
    }
}

/// How one log's moments become those of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alignment {
    /// Both count from the same moment.
    Same,
    /// `--offset` said it.
    Declared {
        /// To be added.
        offset_ns: i64,
    },
    /// Operations that both logs have tell it.
    Estimated {
        /// To be added.
        offset_ns: i64,
        /// Half of the pairs are closer to it than this.
        error_ns: i64,
        /// Pairs that agree.
        pairs: usize,
    },
    /// Nothing tells it: the logs are put side by side at their begins.
    Unknown {
        /// To be added.
        offset_ns: i64,
    },
}

impl Alignment {
    /// What is added to a moment of the log.
    pub fn offset_ns(&self) -> i64 {
        match *self {
            Alignment::Same => 0,
            Alignment::Declared { offset_ns }
            | Alignment::Estimated { offset_ns, .. }
            | Alignment::Unknown { offset_ns } => offset_ns,
        }
    }
}

/// Pairs that must agree, at least, before an estimate is one.
pub const PAIRS_MIN: usize = 8;
/// Pairs agree if they differ by less than this (or by twice the coarser clock's step).
const AGREE_NS: i64 = 500_000;
/// An operation that comes more often in either log is no help.
const REPEATS_MAX: usize = 8;

/// How the moments of `other` become those of `first`.
pub fn align(first: &Survey, other: &Survey) -> Alignment {
    let (a, b) = (&first.clock, &other.clock);
    if a.zero == b.zero || a.zero == Zero::None || b.zero == Zero::None {
        return Alignment::Same;
    }
    if let Some(estimated) = estimate(first, other) {
        return estimated;
    }
    if let (Some(a), Some(b)) = (a.zero_unix_ns, b.zero_unix_ns) {
        return Alignment::Declared {
            offset_ns: b.saturating_sub(a),
        };
    }
    let begin = |survey: &Survey| survey.begin_ns().unwrap_or(0);
    Alignment::Unknown {
        offset_ns: begin(first).saturating_sub(begin(other)),
    }
}

/// How many operations of the begins of both logs are the same: device, kind, place and size are equal, and they ended at the same moment.
/// `offset_ns` is what brings the other's moments to the first's. Without a device nothing is known: jobs of fio ask for the same places.
pub fn in_both(first: &Survey, other: &Survey, offset_ns: i64) -> usize {
    let width_ns = AGREE_NS.max(2 * first.clock.step_ns.max(other.clock.step_ns));
    let mut ends: HashMap<_, Vec<i64>> = HashMap::new();
    let key_of = |op: &Seen| Some((op.device?, op.op, op.offset_bytes?, op.size_bytes?));
    for op in &first.ops {
        if let Some(key) = key_of(op) {
            let end_ns = op.start_ns.saturating_add(op.latency_ns);
            ends.entry(key).or_default().push(end_ns);
        }
    }
    let is_in_first = |op: &&Seen| {
        let Some(of_first) = key_of(op).and_then(|key| ends.get_mut(&key)) else {
            return false;
        };
        let end_ns = op
            .start_ns
            .saturating_add(op.latency_ns)
            .saturating_add(offset_ns);
        let same = of_first
            .iter()
            .position(|end| end.abs_diff(end_ns) <= width_ns.unsigned_abs());
        same.map(|at| of_first.swap_remove(at)).is_some()
    };
    other.ops.iter().filter(is_in_first).count()
}

type Key = (Op, i64, i64);

fn ends_by_key(ops: &[Seen]) -> HashMap<Key, Vec<i64>> {
    let mut ends: HashMap<Key, Vec<i64>> = HashMap::new();
    for op in ops {
        // Ends: what is above a layer begins earlier by a delay that varies, but sees the end soon after.
        if let (Some(offset), Some(size)) = (op.offset_bytes, op.size_bytes) {
            let end = op.start_ns.saturating_add(op.latency_ns);
            ends.entry((op.op, offset, size)).or_default().push(end);
        }
    }
    ends
}

/// The offset on which most pairs of equal operations (kind, place, size) agree.
fn estimate(first: &Survey, other: &Survey) -> Option<Alignment> {
    let (a, b) = (ends_by_key(&first.ops), ends_by_key(&other.ops));
    let mut differences = Vec::new();
    let mut common = 0;
    for (key, ours) in &a {
        let Some(theirs) = b.get(key) else { continue };
        if ours.len() > REPEATS_MAX || theirs.len() > REPEATS_MAX {
            continue;
        }
        common += 1;
        differences.extend(
            ours.iter()
                .flat_map(|our| theirs.iter().map(move |their| our.saturating_sub(*their))),
        );
    }
    differences.sort_unstable();
    let width = AGREE_NS.max(2 * first.clock.step_ns.max(other.clock.step_ns));
    let (mut best, mut begin) = (0..0, 0);
    for end in 0..differences.len() {
        while differences[end].saturating_sub(differences[begin]) > width {
            begin += 1;
        }
        if end + 1 - begin > best.len() {
            best = begin..end + 1;
        }
    }
    let pairs = best.len();
    // Most operations that both have must agree, else it is chance.
    if pairs < PAIRS_MIN || 2 * pairs < common {
        return None;
    }
    let agreeing = &differences[best];
    let offset_ns = agreeing[pairs / 2];
    let mut away: Vec<i64> = agreeing.iter().map(|d| (d - offset_ns).abs()).collect();
    away.sort_unstable();
    Some(Alignment::Estimated {
        offset_ns,
        error_ns: away[pairs / 2],
        pairs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(clock: Clock, ops: impl Iterator<Item = (i64, i64, i64)>) -> Survey {
        Survey {
            clock,
            ops: ops
                .map(|(start_ns, latency_ns, offset)| Seen {
                    start_ns,
                    latency_ns,
                    op: Op::Read,
                    offset_bytes: Some(offset),
                    size_bytes: Some(4096),
                    device: Some(3),
                })
                .collect(),
            ..Survey::default()
        }
    }

    #[test]
    fn operations_that_both_have_tell_the_offset() {
        let place = |i: i64| (i * 7919 % 1000) * 4096;
        let first = survey(
            Clock::boot(1),
            (0..500).map(|i| (5_000_000_000 + i * 3_000_000, 200_000, place(i))),
        );
        let other = survey(
            Clock::own("fio", 1_000_000),
            (0..500).map(|i| ((i * 3_000_000) / 1_000_000 * 1_000_000, 210_000, place(i))),
        );
        let Alignment::Estimated {
            offset_ns,
            error_ns,
            pairs,
        } = align(&first, &other)
        else {
            panic!("{:?}", align(&first, &other));
        };
        assert!((offset_ns - 5_000_000_000).abs() < 1_000_000, "{offset_ns}");
        assert!(error_ns <= 1_000_000 && pairs >= 450, "{error_ns} {pairs}");
    }

    #[test]
    fn operations_that_both_logs_hold_are_counted() {
        let of = |begin_ns: i64| {
            survey(
                Clock::boot(1),
                (0..500).map(move |i| (begin_ns + i * 3_000_000, 200_000, i % 250 * 4096)),
            )
        };
        assert_eq!(in_both(&of(7_000), &of(0), 0), 500);
        assert_eq!(in_both(&of(9_000_000_000), &of(0), 9_000_000_000), 500);
        // Parts of one log, one behind the other.
        assert_eq!(in_both(&of(0), &of(2_000_000_000), 0), 0);
        // Members of a mirror, and logs without a device.
        for device in [Some(4), None] {
            let mut other = of(0);
            other.ops.iter_mut().for_each(|op| op.device = device);
            assert_eq!(in_both(&of(0), &other, 0), 0);
        }
    }

    #[test]
    fn logs_of_different_work_are_not_aligned() {
        let first = survey(
            Clock::boot(1),
            (0..500).map(|i| (i * 3_000_000, 200_000, i * 4096)),
        );
        let other = survey(
            Clock::own("x", 1),
            (0..500).map(|i| (i * i * 1_234_567, 1, (499 - i) * 4096)),
        );
        assert!(matches!(align(&first, &other), Alignment::Unknown { .. }));
        assert_eq!(
            align(&first, &survey(Clock::boot(5), std::iter::empty())),
            Alignment::Same
        );
    }
}
