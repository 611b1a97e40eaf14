//! Which operations stand apart from the rest of their kind: a rule without a scale, applied to maxima of episodes.
//!
//! Per kind and size class take the slowest operations that do not overlap in time, x1 >= x2 >= ... The first j stand apart if the step from
//! xj to xj+1 is too large for the tail below it; with an index from the next k steps: p = (1 + j ln(xj / xj+1) / (k xi))^-k under the levels of
//! [`level`], and xj is at least twice xj+1 and ten medians.
use crate::tally::Tally;
use case::schema::Op;
use std::collections::BTreeMap;

/// Most that can stand apart in a class, and not more than one of this many operations.
const MOST: usize = 200;
const OPERATIONS_PER_OUTLIER: usize = 100;
/// The tail's index is estimated from at least this many maxima below.
const TAIL_MIN: usize = 100;
/// Chance of a false call in one run, half of it on the first ten.
const ALPHA: f64 = 0.005;
const FIRST: usize = 10;
const GAP_RATIO_MIN: f64 = 2.0;
const MEDIANS_MIN: f64 = 10.0;
/// Slowest operations kept per class; two in three may overlap with slower ones.
const KEPT: usize = 9 * MOST;

/// An operation of the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slow {
    latency_ns: u64,
    start_ns: u64,
    op_id: u64,
}

/// Kind and power of two of the size.
type Class = (u8, u32);

/// The slowest operations of each class.
#[derive(Clone, Debug, Default)]
pub struct Slowest {
    classes: BTreeMap<Class, Vec<Slow>>,
    medians: BTreeMap<Class, Tally>,
}

impl Slowest {
    /// An operation of the measured phase has ended.
    pub fn add(&mut self, op: Op, op_id: u64, start_ns: u64, latency_ns: u64, size_bytes: u32) {
        let class = (op as u8, 32 - size_bytes.leading_zeros());
        let tally = self
            .medians
            .entry(class)
            .or_insert_with(|| Tally::new(0, u64::MAX));
        tally.add(op, start_ns, latency_ns, size_bytes);
        let kept = self.classes.entry(class).or_default();
        kept.push(Slow {
            latency_ns,
            start_ns,
            op_id,
        });
        if kept.len() >= 2 * KEPT {
            kept.sort_unstable_by(|a, b| b.cmp(a));
            kept.truncate(KEPT);
        }
    }

    /// Operations that stand apart: id and latency, ns.
    pub fn apart(&self) -> Vec<(u64, u64)> {
        let classes = self.classes.len();
        let mut found = Vec::new();
        for (class, kept) in &self.classes {
            let tally = &self.medians[class];
            let maxima = maxima(kept);
            let latencies: Vec<f64> = maxima.iter().map(|slow| slow.latency_ns.max(1) as f64).collect();
            let count = outliers(
                &latencies,
                tally.count() as usize,
                tally.quantile_ns(0.5),
                classes,
            );
            found.extend(maxima[..count].iter().map(|slow| (slow.op_id, slow.latency_ns)));
        }
        found
    }
}

/// Slowest first; what overlaps in time with a slower one counts with it.
fn maxima(kept: &[Slow]) -> Vec<Slow> {
    let mut slowest = kept.to_vec();
    slowest.sort_unstable_by(|a, b| b.cmp(a));
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    let mut found = Vec::new();
    for slow in slowest {
        let end_ns = slow.start_ns + slow.latency_ns;
        let before = taken.range(..end_ns).next_back();
        if before.is_some_and(|(_, end)| *end > slow.start_ns) {
            continue;
        }
        taken.insert(slow.start_ns, end_ns);
        found.push(slow);
        if found.len() > 3 * MOST {
            break;
        }
    }
    found
}

/// The chance that is spent on the question whether the first `j` of a class stand apart.
fn level(j: usize, classes: usize) -> f64 {
    let of = if j <= FIRST { FIRST } else { MOST - FIRST };
    ALPHA / 2.0 / of as f64 / classes as f64
}

/// How many of the maxima (slowest first) stand apart.
fn outliers(x: &[f64], operations: usize, median_ns: f64, classes: usize) -> usize {
    let step = |i: usize| i as f64 * (x[i - 1] / x[i]).ln();
    let mut found = 0;
    for j in 1..=MOST.min(operations / OPERATIONS_PER_OUTLIER) {
        let k = TAIL_MIN.max(2 * j);
        if j + k >= x.len() {
            break;
        }
        if x[j - 1] < GAP_RATIO_MIN * x[j] || x[j - 1] < MEDIANS_MIN * median_ns {
            continue;
        }
        let xi = (j + 1..=j + k).map(step).sum::<f64>() / k as f64;
        // A tail of equal values: anything above it stands apart.
        let chance = match xi > 0.0 {
            true => (1.0 + step(j) / (k as f64 * xi)).powi(-(k as i32)),
            false => 0.0,
        };
        if chance < level(j, classes) {
            found = j;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::rng::Rng;

    fn filled(rng: &mut Rng) -> Slowest {
        let mut slowest = Slowest::default();
        for n in 0..20_000u64 {
            let latency_ns = 100_000 + (20_000.0 * rng.exponential()) as u64;
            slowest.add(Op::Read, n, n * 1_000_000, latency_ns, 4096);
        }
        slowest
    }

    #[test]
    fn one_of_113_ms_stands_apart_and_a_natural_tail_does_not() {
        let mut rng = Rng::new(3, 3);
        let false_calls = (0..40).filter(|_| !filled(&mut rng).apart().is_empty()).count();
        assert!(false_calls <= 2, "{false_calls}");
        let mut slowest = filled(&mut rng);
        slowest.add(Op::Read, 77, 5_000_500_000, 113_000_000, 4096);
        // It overlaps with the first: one episode.
        slowest.add(Op::Read, 78, 5_001_500_000, 112_000_000, 4096);
        assert_eq!(slowest.apart(), [(77, 113_000_000)]);
    }
}
