//! Random choices by name.
use workload::rng::Rng;

/// Random choices by name, and a strength from 0 to 1 that is not drawn but given.
pub(super) struct Dice(pub Rng, pub f64);

impl Dice {
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize]
    }

    /// Log-uniform: every factor equally likely.
    pub fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// Between the two, where the strength says, on a log scale.
    pub fn at(&self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.1)
    }

    pub fn log_whole(&mut self, low: u64, high: u64) -> u64 {
        self.log(low as f64, high as f64) as u64
    }
}
