//! What a run comes to: operations, bytes and a histogram of latencies of the measured phase.
use case::schema::Op;

/// Bins per octave: neighbouring bins differ by 1.09 %.
const BINS_PER_OCTAVE: f64 = 64.0;
const BINS: usize = 64 * 64;

/// Counts operations that began in the measured phase.
#[derive(Clone, Debug)]
pub struct Tally {
    from_ns: u64,
    to_ns: u64,
    bins: Vec<u64>,
    /// Operations begun and ended in the phase, by kind (`Op` as index).
    pub ops: [u64; 7],
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their latencies.
    pub latency_sum_ns: u128,
    /// The longest.
    pub latency_max_ns: u64,
    /// When the last of them ended.
    pub last_end_ns: u64,
    /// When the first of them began.
    pub first_start_ns: u64,
}

impl Tally {
    /// Measures operations that begin in `from_ns..to_ns`.
    pub fn new(from_ns: u64, to_ns: u64) -> Tally {
        Tally {
            from_ns,
            to_ns,
            bins: vec![0; BINS],
            ops: [0; 7],
            bytes: 0,
            latency_sum_ns: 0,
            latency_max_ns: 0,
            last_end_ns: from_ns,
            first_start_ns: u64::MAX,
        }
    }

    /// Whether an operation that began then is measured.
    #[inline]
    pub fn measures(&self, start_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&start_ns)
    }

    /// One operation has ended.
    #[inline]
    pub fn add(&mut self, op: Op, start_ns: u64, latency_ns: u64, size_bytes: u32) {
        if !self.measures(start_ns) {
            return;
        }
        self.ops[op as usize] += 1;
        self.bytes += u64::from(size_bytes);
        self.latency_sum_ns += u128::from(latency_ns);
        self.latency_max_ns = self.latency_max_ns.max(latency_ns);
        self.last_end_ns = self.last_end_ns.max(start_ns + latency_ns);
        self.first_start_ns = self.first_start_ns.min(start_ns);
        self.bins[bin_of(latency_ns)] += 1;
    }

    /// Operations in all.
    pub fn count(&self) -> u64 {
        self.ops.iter().sum()
    }

    /// Length of the measured phase: to its end, or to the last operation where it ended by count.
    pub fn duration_ns(&self) -> u64 {
        self.to_ns
            .min(self.last_end_ns)
            .saturating_sub(self.from_ns)
            .max(1)
    }

    /// From the first begin to the last end.
    pub fn span_ns(&self) -> u64 {
        self.last_end_ns.saturating_sub(self.first_start_ns)
    }

    /// Operations per second.
    pub fn rate_per_s(&self) -> f64 {
        self.count() as f64 * 1e9 / self.duration_ns() as f64
    }

    /// Bytes per second.
    pub fn throughput_bytes_per_s(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.duration_ns() as f64
    }

    /// Mean latency; 0 without operations.
    pub fn mean_ns(&self) -> f64 {
        self.latency_sum_ns as f64 / self.count().max(1) as f64
    }

    /// Latency at `quantile` (0 to 1), to 1.1 %; 0 without operations.
    pub fn quantile_ns(&self, quantile: f64) -> f64 {
        let count = self.count();
        if count == 0 {
            return 0.0;
        }
        let rank = ((quantile * count as f64).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        for (bin, n) in self.bins.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return upper_ns(bin).min(self.latency_max_ns as f64);
            }
        }
        self.latency_max_ns as f64
    }
}

/// Bin of a latency: position of the highest bit, then six bits below it (linear within an octave).
#[inline]
fn bin_of(latency_ns: u64) -> usize {
    if latency_ns < 64 {
        return latency_ns as usize;
    }
    let octave = 63 - latency_ns.leading_zeros() as usize;
    let within = (latency_ns >> (octave - 6)) as usize & 63;
    ((octave - 5) * 64 + within).min(BINS - 1)
}

/// Upper end of a bin.
fn upper_ns(bin: usize) -> f64 {
    if bin < 64 {
        return bin as f64;
    }
    let (octave, within) = (bin / 64 + 5, bin % 64);
    (1.0 + (within + 1) as f64 / BINS_PER_OCTAVE) * (1u64 << octave) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bin() {
        let mut tally = Tally::new(0, 1 << 40);
        for n in 1..=100_000u64 {
            tally.add(Op::Read, n, n * 17, 4096);
        }
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = (quantile * 1e5f64).ceil() * 17.0;
            let got = tally.quantile_ns(quantile);
            assert!((got / exact - 1.0).abs() < 0.016, "{quantile}: {got} for {exact}");
        }
        assert_eq!(tally.count(), 100_000);
    }

    #[test]
    fn only_the_measured_phase_counts() {
        let mut tally = Tally::new(100, 200);
        for start in [99, 100, 199, 200] {
            tally.add(Op::Write, start, 5, 1);
        }
        assert_eq!((tally.count(), tally.bytes), (2, 2));
        assert_eq!(Tally::new(0, 1).quantile_ns(0.99), 0.0);
    }
}
