//! Random choices by name.
use workload::rng::Rng;

/// Random choices by name.
pub(super) struct Dice(pub Rng);

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

    pub fn log_whole(&mut self, low: u64, high: u64) -> u64 {
        self.log(low as f64, high as f64) as u64
    }
}
