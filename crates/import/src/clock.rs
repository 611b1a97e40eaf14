//! Clocks of logs, and how those of several logs are brought together.
use crate::sink::{Seen, Survey};
use case::schema::{NameId, Op};
use std::collections::{BTreeSet, HashMap};

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
/// Clocks that count from one moment are not further apart than this: CLOCK_MONOTONIC is slewed by at most 500 ppm, some 30 minutes of it.
const DRIFT_MAX_NS: u64 = 1_000_000_000;
/// An operation that comes more often in either log is no help; near a known offset, the nearest of them are.
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
/// `offset_ns` is what brings the other's moments to the first's. Clocks that count from one moment may still run apart (the kernel's fast
/// clock is not adjusted, CLOCK_MONOTONIC is), so the rest of their distance is taken from the operations, up to `DRIFT_MAX_NS`.
/// Without a device nothing is known: jobs of fio ask for the same places.
pub fn in_both(first: &Survey, other: &Survey, offset_ns: i64) -> usize {
    if !overlap(first, other, offset_ns) {
        return 0;
    }
    let width_ns = agree_ns(first, other);
    let (ours, theirs) = (ends_on_device(&first.ops), ends_on_device(&other.ops));
    let mut near = Vec::new();
    for (key, ends) in &ours {
        for end_ns in theirs.get(key).into_iter().flatten() {
            let moved_ns = end_ns.saturating_add(offset_ns);
            let at = ends.partition_point(|end| *end < moved_ns);
            let nearest = at.saturating_sub(REPEATS_MAX / 2)..ends.len().min(at + REPEATS_MAX / 2);
            let apart_ns = ends[nearest].iter().map(|end| end.saturating_sub(moved_ns));
            near.extend(apart_ns.filter(|apart_ns| apart_ns.unsigned_abs() <= DRIFT_MAX_NS));
        }
    }
    near.sort_unstable();
    let Some(agreeing) = densest(&near, width_ns) else {
        return 0;
    };
    let drift_ns = agreeing[agreeing.len() / 2];
    // Each operation is one of the other log's only once.
    ours.iter()
        .filter_map(|(key, ours)| Some((ours, theirs.get(key)?)))
        .map(|(ours, theirs)| {
            let mut at = 0;
            let is_in_first = |end_ns: &&i64| {
                let moved_ns = end_ns.saturating_add(offset_ns).saturating_add(drift_ns);
                while at < ours.len() && ours[at] < moved_ns.saturating_sub(width_ns) {
                    at += 1;
                }
                let same = at < ours.len() && ours[at] <= moved_ns.saturating_add(width_ns);
                at += usize::from(same);
                same
            };
            theirs.iter().filter(is_in_first).count()
        })
        .sum()
}

/// Whether two logs may hold the same operations of a device, and nobody can tell: one of them lacks their places or sizes.
pub fn cannot_be_compared(first: &Survey, other: &Survey, offset_ns: i64) -> bool {
    let devices =
        |survey: &Survey| -> BTreeSet<NameId> { survey.ops.iter().filter_map(|op| op.device).collect() };
    let lacks_places = |survey: &Survey| ends_on_device(&survey.ops).is_empty();
    (lacks_places(first) || lacks_places(other))
        && !devices(first).is_disjoint(&devices(other))
        && overlap(first, other, offset_ns)
}

/// Whether the logs are of one time: of the shorter one, most lies within the other. Parts of one log lie one behind the other.
fn overlap(first: &Survey, other: &Survey, offset_ns: i64) -> bool {
    let span = |survey: &Survey, offset_ns: i64| {
        let ends = survey.ops.iter().map(|op| {
            op.start_ns
                .saturating_add(op.latency_ns)
                .saturating_add(offset_ns)
        });
        ends.clone().min().zip(ends.max())
    };
    let (Some(a), Some(b)) = (span(first, 0), span(other, offset_ns)) else {
        return false;
    };
    let common_ns = a.1.min(b.1).saturating_sub(a.0.max(b.0));
    let shorter_ns = a.1.saturating_sub(a.0).min(b.1.saturating_sub(b.0));
    common_ns >= 0 && common_ns >= shorter_ns / 2
}

/// Ends of operations in order, by device, kind, place and size.
fn ends_on_device(ops: &[Seen]) -> HashMap<(NameId, Op, i64, i64), Vec<i64>> {
    let mut ends: HashMap<_, Vec<i64>> = HashMap::new();
    for op in ops {
        if let (Some(device), Some(offset), Some(size)) = (op.device, op.offset_bytes, op.size_bytes) {
            let end_ns = op.start_ns.saturating_add(op.latency_ns);
            let key = (device, op.op, offset, size);
            ends.entry(key).or_default().push(end_ns);
        }
    }
    ends.values_mut().for_each(|ends| ends.sort_unstable());
    ends
}

/// Within what distance two moments are one.
fn agree_ns(first: &Survey, other: &Survey) -> i64 {
    AGREE_NS.max(2 * first.clock.step_ns.max(other.clock.step_ns))
}

/// The most of `ordered` that lie within `width_ns`.
fn densest(ordered: &[i64], width_ns: i64) -> Option<&[i64]> {
    let (mut best, mut begin) = (0..0, 0);
    for end in 0..ordered.len() {
        while ordered[end].saturating_sub(ordered[begin]) > width_ns {
            begin += 1;
        }
        if end + 1 - begin > best.len() {
            best = begin..end + 1;
        }
    }
    ordered.get(best).filter(|found| !found.is_empty())
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
    let agreeing = densest(&differences, agree_ns(first, other))?;
    let pairs = agreeing.len();
    // Most operations that both have must agree, else it is chance.
    if pairs < PAIRS_MIN || 2 * pairs < common {
        return None;
    }
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
        // Clocks that run apart.
        assert_eq!(in_both(&of(1_180_000), &of(0), 0), 500);
        assert_eq!(in_both(&of(0), &of(21_000_000), 0), 500);
        // Two places that are asked for again and again.
        let hot = |begin_ns: i64| {
            survey(
                Clock::boot(1),
                (0..500).map(move |i| (begin_ns + i * i * 1_000, 200_000, i % 2 * 4096)),
            )
        };
        assert_eq!(in_both(&hot(0), &hot(0), 0), 500);
        // Parts of one log, one behind the other.
        assert_eq!(in_both(&of(0), &of(2_000_000_000), 0), 0);
        assert_eq!(in_both(&of(0), &of(1_500_000_000), 0), 0);
        // A log without places.
        let without_places = |begin_ns| {
            let mut log = of(begin_ns);
            log.ops.iter_mut().for_each(|op| op.offset_bytes = None);
            log
        };
        assert_eq!(in_both(&of(0), &without_places(0), 0), 0);
        assert!(cannot_be_compared(&of(0), &without_places(0), 0));
        assert!(!cannot_be_compared(&of(0), &of(1_180_000), 0));
        assert!(!cannot_be_compared(&of(0), &without_places(2_000_000_000), 0));
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
