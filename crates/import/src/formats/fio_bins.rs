//! The latency bins of fio: 29 groups of 64; group g > 0 has bins of 2^(g-1) ns (the first two groups are exact). Source: fio's stat.c.

/// The middle of a bin, nanoseconds. `index` < 1856.
pub fn middle_ns(index: u64) -> u64 {
    if index < 128 {
        return index;
    }
    let bits = (index >> 6) - 1;
    (1 << (bits + 6)) + ((index % 64) << bits) + (1 << bits) / 2
}

/// More operations no job does between two rows. Logs of people hold numbers beyond: what is in them is no count then.
pub const COUNT_MAX: u64 = 1 << 40;

/// All counts.
pub fn counted(bins: &[(u64, u64)]) -> u64 {
    bins.iter().fold(0, |all, (_, count)| all.saturating_add(*count))
}

/// The value below which `share` of the counts lie; None without any.
pub fn quantile(bins: &[(u64, u64)], share: f64) -> Option<u64> {
    let all = counted(bins);
    let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
    let mut below = 0_u64;
    bins.iter()
        .find(|(_, count)| {
            below = below.saturating_add(*count);
            below >= wanted && *count > 0
        })
        .map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_those_of_fio() {
        // Keys of a json+ document of fio 3.
        assert_eq!([127, 128, 129].map(middle_ns), [127, 129, 131]);
        let all: Vec<u64> = (0..1856).map(middle_ns).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(quantile(&[(1, 5), (9, 5)], 0.5), Some(1));
        assert_eq!(
            (quantile(&[(1, 5), (9, 5)], 0.51), quantile(&[], 0.5)),
            (Some(9), None)
        );
    }

    #[test]
    fn counts_beyond_what_fits_are_the_most_that_fits() {
        let bins = [(1, u64::MAX), (2, u64::MAX)];
        assert_eq!((counted(&bins), quantile(&bins, 0.5)), (u64::MAX, Some(1)));
    }
}
