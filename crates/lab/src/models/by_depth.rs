//! Durations that depend on how many operations are in flight, as they were measured at some depths.
use super::distribution::Quantiles;

/// Quantiles at several depths. Between two measured depths both scales are logarithmic; beyond the deepest a duration grows by
/// the power of the depth that the two deepest show: 0 = more in flight at no cost, 1 = something is saturated.
#[derive(Clone, Debug)]
pub struct ByDepth {
    /// Ascending, at least one.
    depths: Vec<(u32, Quantiles)>,
    power: f64,
}

impl ByDepth {
    /// From what was measured, in any order; of two at one depth the first counts. None if there is nothing.
    pub fn new(mut measured: Vec<(u32, Quantiles)>) -> Option<ByDepth> {
        measured.sort_by_key(|(depth, _)| *depth);
        measured.dedup_by_key(|(depth, _)| *depth);
        let power = match &measured[..] {
            [] => return None,
            [.., (d1, low), (d2, high)] => {
                let growth = (high.mean() / low.mean().max(1.0)).max(1.0).ln();
                (growth / (f64::from(*d2) / f64::from(*d1)).ln()).clamp(0.0, 1.0)
            }
            _ => 0.0,
        };
        Some(ByDepth {
            depths: measured,
            power,
        })
    }

    /// Nanoseconds at a depth, 1 or more, and probability.
    pub fn at(&self, depth: u32, p: f64) -> f64 {
        let above = self.depths.partition_point(|(own, _)| *own < depth);
        let (last_depth, last) = &self.depths[self.depths.len() - 1];
        if above == self.depths.len() {
            return last.at(p) * (f64::from(depth) / f64::from(*last_depth)).powf(self.power);
        }
        let (high_depth, high) = &self.depths[above];
        if above == 0 || *high_depth == depth {
            return high.at(p);
        }
        let (low_depth, low) = &self.depths[above - 1];
        let share = between(f64::from(*low_depth), f64::from(*high_depth), f64::from(depth));
        mix(low.at(p), high.at(p), share)
    }
}

/// Where `x` lies between `low` and `high` on a logarithmic scale, 0 to 1.
pub(crate) fn between(low: f64, high: f64, x: f64) -> f64 {
    ((x / low).ln() / (high / low).ln()).clamp(0.0, 1.0)
}

/// A duration between two, on a logarithmic scale.
pub(crate) fn mix(low_ns: f64, high_ns: f64, share: f64) -> f64 {
    low_ns.max(1.0) * (high_ns.max(1.0) / low_ns.max(1.0)).powf(share)
}

/// Depths up to 4 are themselves; beyond, four classes per octave.
pub fn depth_class(depth: u32) -> u32 {
    if depth <= 4 {
        return depth.max(1);
    }
    let octave = 31 - depth.leading_zeros();
    let step = 1 << (octave - 2);
    depth / step * step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(ns: f64) -> Quantiles {
        Quantiles::new(vec![(0.0, ns), (1.0, ns)]).expect("two points")
    }

    #[test]
    fn depths_between_and_beyond_the_measured_ones() {
        let table = ByDepth::new(vec![
            (4, constant(200.0)),
            (1, constant(100.0)),
            (4, constant(9.0)),
        ])
        .expect("two depths");
        let near = |depth, expected: f64| {
            let got = table.at(depth, 0.5);
            assert!((got / expected - 1.0).abs() < 1e-9, "{got} for {expected}");
        };
        near(1, 100.0);
        near(2, 200f64.sqrt() * 10.0);
        near(4, 200.0);
        near(16, 400.0);
        assert!(ByDepth::new(Vec::new()).is_none());
    }

    #[test]
    fn classes_are_narrow_and_ascending() {
        assert_eq!(
            [1, 2, 3, 4, 5, 7, 8, 9, 10, 100].map(depth_class),
            [1, 2, 3, 4, 5, 7, 8, 8, 10, 96]
        );
    }
}
