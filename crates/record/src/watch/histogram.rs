//! Latencies in log-linear buckets: bounded memory, and a quantile with a stated error.

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;

/// Above this power of two of nanoseconds (2.4 hours) all values share the last bucket.
const MAX_BITS: u32 = 43;
const BUCKETS: usize = ((MAX_BITS - SUB_BITS) as usize + 2) * SUB;

/// A quantile differs by at most this part from the value at its rank: half a bucket. Below 128 ns it is exact.
pub const RELATIVE_ERROR: f64 = 0.5 / SUB as f64;

/// Counts of values in ns. 10 KiB, however many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u32]>,
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            max: 0,
        }
    }
}

fn shift_of(value: u64) -> u32 {
    (u64::BITS - 1 - (value | 1).leading_zeros()).saturating_sub(SUB_BITS)
}

fn bucket_of(value: u64) -> usize {
    let shift = shift_of(value);
    (shift as usize * SUB + (value >> shift) as usize).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle_of(bucket: usize) -> u64 {
    if bucket < 2 * SUB {
        return bucket as u64;
    }
    let shift = bucket / SUB - 1;
    let low = ((bucket - shift * SUB) as u64) << shift;
    low + (1 << shift) / 2
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        let bucket = &mut self.buckets[bucket_of(value)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// The largest value, exactly; `None` if there is none.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The value at rank `ceil(q * count)`, within [`RELATIVE_ERROR`]; `None` if there is none. `q` in 0..=1.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut before = 0;
        let at_rank = |count: &u32| {
            before += u64::from(*count);
            before >= rank
        };
        let bucket = self.buckets.iter().position(at_rank)?;
        if bucket == BUCKETS - 1 {
            return self.max();
        }
        Some(middle_of(bucket).min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, over the whole range.
    fn values() -> Vec<u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..20_000).map(|_| next() >> (21 + next() % 43)).collect()
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut sorted = values();
        let mut histogram = Histogram::default();
        sorted.iter().for_each(|value| histogram.add(*value));
        sorted.sort_unstable();
        for q in [0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
            let (exact, found) = (sorted[rank - 1], histogram.quantile(q).unwrap());
            let error = found.abs_diff(exact) as f64;
            assert!(
                error <= exact as f64 * RELATIVE_ERROR,
                "q {q}: {found}, not {exact}"
            );
        }
        assert_eq!(histogram.max(), sorted.last().copied());
    }

    #[test]
    fn small_values_are_exact_and_huge_ones_are_kept() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.max()), (None, None));
        for value in 0..128 {
            histogram.add(value);
        }
        assert_eq!(histogram.quantile(0.5), Some(63));
        histogram.add(u64::MAX);
        assert_eq!(histogram.quantile(1.0), Some(u64::MAX));
    }

    #[test]
    fn buckets_follow_each_other() {
        let edges = (0..MAX_BITS).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1]);
        let mut last = 0;
        for value in edges.collect::<std::collections::BTreeSet<_>>() {
            let bucket = bucket_of(value);
            assert!(bucket >= last && bucket < BUCKETS, "{value}");
            last = bucket;
        }
    }
}
