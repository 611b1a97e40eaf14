//! From which latency on an operation counts as slow.
use super::fast_map::FastMap;
use crate::watch::histogram::Histogram;
use case::rows::sampled::LONG_NS;

/// Operations that a limit is made of, at least; until there are this many of a kind, all of it are slow.
const OPERATIONS_MIN: u64 = 1000;

/// Detectors look at what takes four times as long as is typical.
const TIMES_TYPICAL: u64 = 4;

/// At least this part counts as slow, ...
const LEAST: f64 = 0.01;
/// ... and at most this part: more are no outliers, and to keep them all would be no sampling.
const MOST: f64 = 0.1;

/// Operations that can be compared: same device, kind and octave of size.
pub type Kind = (u32, u8, u8);

#[derive(Default)]
struct Class {
    latencies: Histogram,
    count: u64,
    limit_ns: u64,
}

/// Limits of all kinds. A limit is made of operations before it holds, so what it keeps does not depend on what is drawn.
#[derive(Default)]
pub struct Slow {
    classes: FastMap<Kind, Class>,
}

/// The octave of a size.
pub fn octave(bytes: u64) -> u8 {
    (u64::BITS - bytes.leading_zeros()) as u8
}

impl Slow {
    /// Takes note of an operation; whether it is slow.
    pub fn note(&mut self, kind: Kind, latency_ns: u64) -> bool {
        let class = self.classes.entry(kind).or_default();
        class.latencies.add(latency_ns);
        class.count += 1;
        latency_ns > class.limit_ns
    }

    /// Makes new limits of what came since the last ones.
    pub fn tend(&mut self) {
        for class in self.classes.values_mut() {
            if class.count < OPERATIONS_MIN {
                continue;
            }
            let quantile = |q: f64| class.latencies.quantile(q).unwrap_or(0);
            let (least, most) = (quantile(1.0 - MOST), quantile(1.0 - LEAST));
            let typical = quantile(0.5);
            let limit_ns = (typical * TIMES_TYPICAL).clamp(least, most).min(LONG_NS);
            *class = Class {
                limit_ns,
                ..Class::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(latencies: impl Iterator<Item = u64>) -> u64 {
        let mut slow = Slow::default();
        for latency_ns in latencies {
            assert!(slow.note((1, 0, 12), latency_ns), "no limit yet: all are slow");
        }
        slow.tend();
        slow.classes[&(1, 0, 12)].limit_ns
    }

    #[test]
    fn a_slow_group_of_a_few_percent_is_slow_as_a_whole() {
        let limit_ns = limit_of((0..10_000).map(|i| if i % 20 == 0 { 30_000_000 } else { 50_000 + i }));
        assert!((190_000..300_000).contains(&limit_ns), "{limit_ns}");
    }

    #[test]
    fn at_least_one_and_at_most_ten_percent_are_slow() {
        let narrow_ns = limit_of(1_000_000..1_010_000);
        assert!((990..1010).contains(&(narrow_ns / 1000)), "{narrow_ns}");
        let broad_ns = limit_of((0..10_000).map(|i| if i % 2 == 0 { 1000 } else { 1_000_000 }));
        assert!(broad_ns >= 980_000, "{broad_ns}");
        assert_eq!(limit_of((0..2000).map(|_| 900_000_000)), LONG_NS);
    }
}
