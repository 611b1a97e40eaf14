//! Access traces with known character, for tests, benchmarks and comparisons with other simulators.

use workload::rng::Rng;

/// `length` accesses to `keys` keys, the one of rank `r` with probability proportional to `r^-exponent`.
///
/// Ranks are scattered over the key space by a fixed permutation, so that neighbours in the ranking are not
/// neighbours on the disk. `keys` at least 1; `exponent` 0 is uniform.
pub fn zipf(keys: u64, exponent: f64, length: usize, seed: u64) -> Vec<u64> {
    let mut total = 0.0;
    let cumulative: Vec<f64> = (1..=keys)
        .map(|rank| {
            total += (rank as f64).powf(-exponent);
            total
        })
        .collect();
    let mut rng = Rng::new(seed, 0);
    (0..length)
        .map(|_| {
            let point = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * total;
            let rank = cumulative.partition_point(|sum| *sum <= point) as u64;
            scatter(rank.min(keys - 1))
        })
        .collect()
}

/// Every key once, in order.
pub fn scan(length: usize) -> Vec<u64> {
    (0..length as u64).collect()
}

/// The same `keys` keys in order, again and again: the worst case of LRU when they do not fit.
pub fn repeated_loop(keys: u64, length: usize) -> Vec<u64> {
    (0..length as u64).map(|i| i % keys).collect()
}

/// A skewed trace that a scan of new keys interrupts `scans` times: what ARC and S3-FIFO are made to resist.
pub fn zipf_with_scans(keys: u64, exponent: f64, length: usize, scans: usize, seed: u64) -> Vec<u64> {
    let skewed = zipf(keys, exponent, length, seed);
    let mut trace = Vec::with_capacity(length * 2);
    let mut new_key = 1 << 40;
    for piece in skewed.chunks(length.div_ceil(scans + 1)) {
        trace.extend_from_slice(piece);
        trace.extend(new_key..new_key + keys / 2);
        new_key += keys / 2;
    }
    trace
}

fn scatter(rank: u64) -> u64 {
    rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}
