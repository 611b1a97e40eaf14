//! How long something takes, as a distribution: for what is not worth a mechanism, or was fitted to a
//! recording.

use super::{require, ParameterError};
use workload::rng::Rng;

/// Largest duration drawn: a century; guards the arithmetic of the simulation.
const NS_MAX: f64 = 3.2e18;

/// A distribution of durations in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant {
        /// The duration.
        ns: f64,
    },
    /// Equally likely anywhere between two bounds.
    Uniform {
        /// Lower bound.
        low_ns: f64,
        /// Upper bound, not below the lower one.
        high_ns: f64,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        mean_ns: f64,
    },
    /// The logarithm is normal: the usual shape of service times.
    Lognormal {
        /// Half of all draws are below it.
        median_ns: f64,
        /// Standard deviation of the natural logarithm, 0 to 5. p99 is the median times `exp(2.326 sigma)`.
        sigma: f64,
    },
    /// Usually the body, sometimes the tail: two modes, or rare outliers.
    Mixture {
        /// The usual case.
        body: Box<Distribution>,
        /// The other one.
        tail: Box<Distribution>,
        /// How often the other one, 0 to 1.
        tail_probability: f64,
    },
    /// Measured quantiles, linear between them; what lies beyond the first and last is not made up.
    Quantiles(Quantiles),
}

/// Measured quantiles: ascending probabilities with the durations at them.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    points: Vec<(f64, f64)>,
}

impl Quantiles {
    /// `points`: (probability 0 to 1, duration in ns), both ascending, the probabilities strictly; at least
    /// two.
    pub fn new(points: Vec<(f64, f64)>) -> Result<Quantiles, ParameterError> {
        let ascending = points
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let legal = points
            .iter()
            .all(|(p, ns)| (0.0..=1.0).contains(p) && (0.0..NS_MAX).contains(ns));
        require(
            points.len() >= 2 && ascending && legal,
            "quantiles",
            "at least two pairs of probability and nanoseconds, both ascending",
            format!("{points:?}"),
        )?;
        Ok(Quantiles { points })
    }

    /// Quantiles of `samples` (ns), dense towards both ends: eight points for each halving of what lies
    /// beyond.
    pub fn from_samples(samples: &[u64]) -> Result<Quantiles, ParameterError> {
        require(samples.len() >= 2, "samples", "at least two", samples.len())?;
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let last = sorted.len() - 1;
        let mut probabilities = vec![0.0, 1.0];
        let mut beyond = 0.5;
        while beyond * last as f64 >= 1.0 {
            let towards_end = (0..8).map(|i| beyond * (1.0 - f64::from(i) / 16.0));
            probabilities.extend(towards_end.flat_map(|p| [p, 1.0 - p]));
            beyond /= 2.0;
        }
        probabilities.sort_unstable_by(f64::total_cmp);
        let at = |p: f64| (p, sorted[(p * last as f64).round() as usize] as f64);
        let mut points: Vec<(f64, f64)> = probabilities.into_iter().map(at).collect();
        points.dedup_by(|later, earlier| later.0 <= earlier.0);
        Quantiles::new(points)
    }

    /// The duration at probability `p`.
    pub fn at(&self, p: f64) -> f64 {
        let above = self.points.partition_point(|(q, _)| *q < p);
        let (q1, ns1) = self.points[above.min(self.points.len() - 1)];
        let (q0, ns0) = self.points[above.saturating_sub(1)];
        if q1 <= q0 || p <= q0 {
            return if above == 0 { ns1 } else { ns0 };
        }
        ns0 + (ns1 - ns0) * ((p - q0) / (q1 - q0)).min(1.0)
    }

    /// `probability:nanoseconds` for each point, as stack files have it.
    pub fn to_text(&self) -> String {
        let points = self.points.iter().map(|(p, ns)| {
            // Seven digits tell quantiles of ten million samples apart.
            let p = format!("{p:.7}");
            let p = p.trim_end_matches('0').trim_end_matches('.');
            format!("{}:{ns:.0}", if p.is_empty() { "0" } else { p })
        });
        points.collect::<Vec<_>>().join(" ")
    }

    /// Reads what [`Quantiles::to_text`] wrote; None if it is something else.
    pub fn from_text(text: &str) -> Option<Quantiles> {
        let point = |text: &str| {
            let (p, ns) = text.split_once(':')?;
            Some((p.parse().ok()?, ns.parse().ok()?))
        };
        let points = text.split_whitespace().map(point).collect::<Option<Vec<_>>>()?;
        Quantiles::new(points).ok()
    }

    /// The pairs of probability and nanoseconds.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The mean of what would be drawn, in nanoseconds.
    pub fn mean(&self) -> f64 {
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        let inside: f64 = self
            .points
            .windows(2)
            .map(|w| (w[1].0 - w[0].0) * (w[0].1 + w[1].1) / 2.0)
            .sum();
        first.0 * first.1 + inside + (1.0 - last.0) * last.1
    }
}

impl Distribution {
    /// Refuses negative, unordered or absurd parameters.
    pub fn check(&self) -> Result<(), ParameterError> {
        let duration = |key, ns: f64| require((0.0..NS_MAX).contains(&ns), key, "0 to 3.2e18 ns", ns);
        match self {
            Distribution::Constant { ns } => duration("ns", *ns),
            Distribution::Uniform { low_ns, high_ns } => {
                duration("low_ns", *low_ns)?;
                duration("high_ns", *high_ns)?;
                require(low_ns <= high_ns, "high_ns", "at least low_ns", high_ns)
            }
            Distribution::Exponential { mean_ns } => duration("mean_ns", *mean_ns),
            Distribution::Lognormal { median_ns, sigma } => {
                duration("median_ns", *median_ns)?;
                require((0.0..=5.0).contains(sigma), "sigma", "0 to 5", sigma)
            }
            Distribution::Mixture {
                body,
                tail,
                tail_probability,
            } => {
                body.check()?;
                tail.check()?;
                require(
                    (0.0..=1.0).contains(tail_probability),
                    "tail_probability",
                    "0 to 1",
                    tail_probability,
                )
            }
            Distribution::Quantiles(_) => Ok(()),
        }
    }

    /// Draws a duration in whole nanoseconds.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        let ns = match self {
            Distribution::Constant { ns } => *ns,
            Distribution::Uniform { low_ns, high_ns } => low_ns + (high_ns - low_ns) * unit(rng),
            Distribution::Exponential { mean_ns } => mean_ns * rng.exponential(),
            Distribution::Lognormal { median_ns, sigma } => median_ns * (sigma * normal(rng)).exp(),
            Distribution::Mixture {
                body,
                tail,
                tail_probability,
            } => {
                let chosen = if unit(rng) < *tail_probability { tail } else { body };
                return chosen.sample(rng);
            }
            Distribution::Quantiles(quantiles) => quantiles.at(unit(rng)),
        };
        ns.clamp(0.0, NS_MAX) as u64
    }

    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Distribution::Constant { ns } => *ns,
            Distribution::Uniform { low_ns, high_ns } => (low_ns + high_ns) / 2.0,
            Distribution::Exponential { mean_ns } => *mean_ns,
            Distribution::Lognormal { median_ns, sigma } => median_ns * (sigma * sigma / 2.0).exp(),
            Distribution::Mixture {
                body,
                tail,
                tail_probability,
            } => body.mean_ns() * (1.0 - tail_probability) + tail.mean_ns() * tail_probability,
            Distribution::Quantiles(quantiles) => quantiles.mean(),
        }
    }
}

/// Uniform in 0 to 1, 1 excluded.
#[inline]
pub(crate) fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Standard normal (Box and Muller).
#[inline]
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let radius = (2.0 * rng.exponential()).sqrt();
    radius * (std::f64::consts::TAU * unit(rng)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(distribution: &Distribution, draws: u32) -> f64 {
        let mut rng = Rng::new(7, 0);
        let sum: f64 = (0..draws).map(|_| distribution.sample(&mut rng) as f64).sum();
        sum / f64::from(draws)
    }

    fn examples() -> Vec<Distribution> {
        let lognormal = Distribution::Lognormal {
            median_ns: 80_000.0,
            sigma: 0.3,
        };
        vec![
            Distribution::Constant { ns: 5_000.0 },
            Distribution::Uniform {
                low_ns: 1_000.0,
                high_ns: 9_000.0,
            },
            Distribution::Exponential { mean_ns: 20_000.0 },
            lognormal.clone(),
            Distribution::Mixture {
                body: Box::new(lognormal),
                tail: Box::new(Distribution::Constant { ns: 30e6 }),
                tail_probability: 0.01,
            },
            Distribution::Quantiles(
                Quantiles::new(vec![(0.0, 10e3), (0.5, 20e3), (0.99, 90e3), (1.0, 1e6)]).unwrap(),
            ),
        ]
    }

    #[test]
    fn sample_means_meet_the_formula() {
        for distribution in examples() {
            distribution.check().unwrap();
            let (sampled, expected) = (mean(&distribution, 400_000), distribution.mean_ns());
            assert!(
                (sampled / expected - 1.0).abs() < 0.03,
                "{distribution:?}: {sampled} against {expected}"
            );
        }
    }

    #[test]
    fn quantiles_return_what_they_were_fitted_to() {
        let source = Distribution::Lognormal {
            median_ns: 100_000.0,
            sigma: 0.5,
        };
        let mut rng = Rng::new(3, 0);
        let mut samples: Vec<u64> = (0..100_000).map(|_| source.sample(&mut rng)).collect();
        let fitted = Distribution::Quantiles(Quantiles::from_samples(&samples).unwrap());
        let mut again: Vec<u64> = (0..100_000).map(|_| fitted.sample(&mut rng)).collect();
        samples.sort_unstable();
        again.sort_unstable();
        for p in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999] {
            let at = (p * 1e5) as usize;
            let ratio = again[at] as f64 / samples[at] as f64;
            assert!((ratio - 1.0).abs() < 0.05, "p{p}: ratio {ratio}");
        }
    }

    #[test]
    fn one_sample_is_refused_and_equal_samples_are_not() {
        assert!(Quantiles::from_samples(&[5]).is_err());
        let constant = Distribution::Quantiles(Quantiles::from_samples(&[5, 5, 5]).unwrap());
        assert_eq!(constant.sample(&mut Rng::new(1, 0)), 5);
    }

    #[test]
    fn bad_parameters_are_named() {
        let error = Distribution::Uniform {
            low_ns: 5.0,
            high_ns: 1.0,
        }
        .check()
        .unwrap_err();
        assert_eq!(error.to_string(), "high_ns: expected at least low_ns, found 1");
        assert!(Distribution::Exponential { mean_ns: f64::NAN }.check().is_err());
        assert!(Distribution::Lognormal {
            median_ns: 1.0,
            sigma: 9.0
        }
        .check()
        .is_err());
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        for distribution in examples() {
            let draw = || {
                (0..100).map({
                    let mut rng = Rng::new(11, 5);
                    let distribution = distribution.clone();
                    move |_| distribution.sample(&mut rng)
                })
            };
            assert!(draw().eq(draw()));
        }
    }
}
