//! Who of the typical operations is kept.
use super::Fate;
use case::rows::sampled::LONG_NS;

/// Time between two draws of one owner, as a power of two of ns: 131 us, so that hardly a draw decides about several operations: a
/// sum's error grows with how many share one.
const EPOCH_LOG2: u32 = 17;

/// Largest level: 1 of 64 is kept. What typical rows cost is then less than what slow ones do, and fewer would only be less exact.
pub const LEVEL_MAX: u32 = 6;

/// Changes of the level that are remembered: rows come some time after they began.
const LEVELS_MAX: usize = 64;

/// Draws by hash, so that whoever asks with the same owner and time gets the same answer.
pub struct Draw {
    seed: u64,
    /// Levels from the epoch on that stands before each, in order.
    levels: Vec<(u64, u32)>,
}

/// Spreads any difference over all bits (a finaliser of the SplitMix kind).
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The draw that a moment belongs to.
fn epoch(time_ns: u64) -> u64 {
    time_ns >> EPOCH_LOG2
}

impl Draw {
    /// Level 0: all are kept.
    pub fn new(seed: u64) -> Draw {
        Draw {
            seed,
            levels: vec![(0, 0)],
        }
    }

    /// Sets the level of all draws that begin after `now_ns`. Returns the begin of the first.
    pub fn set_level(&mut self, now_ns: u64, level: u32) -> u64 {
        let first = epoch(now_ns) + 1;
        self.levels.push((first, level.min(LEVEL_MAX)));
        if self.levels.len() > LEVELS_MAX {
            self.levels.remove(0);
            self.levels[0].0 = 0;
        }
        first << EPOCH_LOG2
    }

    /// The level at a moment.
    pub fn level_at(&self, time_ns: u64) -> u32 {
        let epoch = epoch(time_ns);
        let mut newest_first = self.levels.iter().rev();
        newest_first
            .find(|(first, _)| *first <= epoch)
            .map_or(0, |(_, level)| *level)
    }

    /// Whether something may have been left out of what was in flight at a moment.
    pub fn may_lack(&self, time_ns: u64) -> bool {
        let (now, before) = (epoch(time_ns), epoch(time_ns.saturating_sub(LONG_NS)));
        let mut newest_first = self.levels.iter().rev().filter(|(first, _)| *first <= now);
        loop {
            match newest_first.next() {
                None => return false,
                Some((_, level)) if *level > 0 => return true,
                Some((first, _)) if *first < before => return false,
                Some(_) => {}
            }
        }
    }

    /// Whether all that this owner begins from `start_ns` to `end_ns` draws one fate.
    pub fn same_fate(&self, owner: u64, start_ns: u64, end_ns: u64) -> bool {
        let first = self.fate(owner, start_ns);
        let mut later = epoch(start_ns) + 1..=epoch(end_ns);
        later.all(|epoch| self.fate(owner, epoch << EPOCH_LOG2) == first)
    }

    /// The fate of a typical operation of this owner that began then.
    pub fn fate(&self, owner: u64, start_ns: u64) -> Fate {
        let level = self.level_at(start_ns);
        let drawn = mix(mix(owner ^ self.seed).wrapping_add(epoch(start_ns)));
        if drawn & ((1 << level) - 1) == 0 {
            Fate::Drawn(level)
        } else {
            Fate::LeftOut
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_kept_whatever_the_owner() {
        let mut draw = Draw::new(7);
        draw.set_level(0, 3);
        for owner in [1, 2, 0xffff_8881_2345_6700] {
            let kept = (1..80_001u64).filter(|epoch| draw.fate(owner, epoch << EPOCH_LOG2) == Fate::Drawn(3));
            let kept = kept.count() as f64;
            // Five standard errors.
            assert!((kept - 10_000.0).abs() < 5.0 * 10_000f64.sqrt(), "{kept}");
        }
    }

    #[test]
    fn operations_across_draws_are_known_to_differ() {
        let mut draw = Draw::new(7);
        draw.set_level(0, 2);
        let step_ns = 1 << EPOCH_LOG2;
        for (start_ns, end_ns) in (1..500).map(|n| (n * step_ns + 9, (n + n % 5) * step_ns + 3)) {
            let inside = (start_ns..=end_ns.max(start_ns)).step_by(step_ns as usize / 7);
            let fates: Vec<Fate> = inside.chain([end_ns]).map(|ns| draw.fate(3, ns)).collect();
            let same = fates.iter().all(|fate| *fate == fates[0]);
            assert_eq!(draw.same_fate(3, start_ns, end_ns), same, "{start_ns} {end_ns}");
        }
    }

    #[test]
    fn a_new_level_holds_from_the_next_draw_on() {
        let mut draw = Draw::new(7);
        let begin_ns = draw.set_level(1_000_000_000, 5);
        assert!(begin_ns > 1_000_000_000 && begin_ns <= 1_000_000_000 + (1 << EPOCH_LOG2));
        assert_eq!((draw.level_at(begin_ns - 1), draw.level_at(begin_ns)), (0, 5));
        assert_eq!(draw.fate(1, begin_ns - 1), Fate::Drawn(0));
        assert!(!draw.may_lack(begin_ns - 1) && draw.may_lack(begin_ns));
        let second_ns = draw.set_level(2_000_000_000, 99);
        assert_eq!(
            (draw.level_at(second_ns - 1), draw.level_at(second_ns)),
            (5, LEVEL_MAX)
        );
        let third_ns = draw.set_level(3_000_000_000, 0);
        assert!(draw.may_lack(third_ns + LONG_NS / 2) && !draw.may_lack(third_ns + 2 * LONG_NS));
    }
}
