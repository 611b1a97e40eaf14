//! One bit for each block: eight times as many fit into the processor's caches as of bytes.

use crate::memory::fetch;

/// Bits of which few are set at a time: taking them all in order costs a 64th of looking at every word.
#[derive(Clone, Debug, Default)]
pub(super) struct FewBits {
    bits: Bits,
    /// A bit for each word that is not empty.
    words: Bits,
}

impl FewBits {
    /// `len` clear bits.
    pub fn new(len: u32) -> FewBits {
        FewBits {
            bits: Bits::new(len),
            words: Bits::new(len.div_ceil(64)),
        }
    }

    pub fn len(&self) -> u32 {
        self.bits.len()
    }

    /// Bits beyond the end are clear.
    #[inline]
    pub fn get(&self, bit: u32) -> bool {
        self.bits.get(bit)
    }

    /// A bit will be asked for soon: a hint.
    #[inline]
    pub fn expect(&self, bit: u32) {
        self.bits.expect(bit);
    }

    /// Sets a bit; whether it was clear.
    #[inline]
    pub fn set(&mut self, bit: u32) -> bool {
        self.words.replace(bit / 64, true);
        !self.bits.replace(bit, true)
    }

    /// Clears all and gives those that were set, in ascending order.
    pub fn take_all(&mut self, mut give: impl FnMut(u32)) {
        for (group, words) in (0..).zip(&mut self.words.words) {
            each_set(std::mem::take(words), |word| {
                let word = group * 64 + word;
                let bits = std::mem::take(&mut self.bits.words[word as usize]);
                each_set(bits, |bit| give(word * 64 + bit));
            });
        }
    }
}

/// Numbers of the set bits of a word, ascending.
#[inline]
fn each_set(mut word: u64, mut give: impl FnMut(u32)) {
    while word != 0 {
        give(word.trailing_zeros());
        word &= word - 1;
    }
}

/// A fixed number of bits, all clear at first.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: u32,
}

impl Bits {
    /// `len` clear bits.
    pub fn new(len: u32) -> Bits {
        Bits {
            words: vec![0; len.div_ceil(64) as usize],
            len,
        }
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    /// Bits beyond the end are clear.
    #[inline]
    pub fn get(&self, bit: u32) -> bool {
        let word = self.words.get((bit / 64) as usize);
        word.is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// The first clear bit of `begin..end`; `end` where there is none.
    #[inline]
    pub fn first_clear(&self, begin: u32, end: u32) -> u32 {
        let mut at = begin;
        while at < end {
            let clear = !self.words[(at / 64) as usize] >> (at % 64);
            if clear != 0 {
                return (at + clear.trailing_zeros()).min(end);
            }
            at = (at / 64 + 1) * 64;
        }
        end
    }

    /// Where the first `blocks` clear bits in a row of `begin..end` begin.
    pub fn first_clear_run(&self, begin: u32, end: u32, blocks: u32) -> Option<u32> {
        let mut at = begin;
        // Clear bits just before `at`.
        let mut length = 0;
        while at < end {
            let bits = (64 - at % 64).min(end - at);
            let clear = !self.words[(at / 64) as usize] >> (at % 64) & (u64::MAX >> (64 - bits));
            let leading = clear.trailing_ones();
            if length + leading >= blocks {
                return Some(at - length);
            }
            if leading == bits {
                length += bits;
            } else {
                if let Some(inside) = run_inside(clear, blocks.min(64)).filter(|_| blocks < bits) {
                    return Some(at + inside);
                }
                length = (clear << (64 - bits)).leading_ones();
            }
            at += bits;
        }
        None
    }

    /// A bit will be asked for soon: a hint.
    #[inline]
    pub fn expect(&self, bit: u32) {
        if let Some(word) = self.words.get((bit / 64) as usize) {
            fetch(word);
        }
    }

    /// Sets a bit; what it was before.
    #[inline]
    pub fn replace(&mut self, bit: u32, value: bool) -> bool {
        let word = &mut self.words[(bit / 64) as usize];
        let mask = 1 << (bit % 64);
        let before = *word & mask != 0;
        *word = if value { *word | mask } else { *word & !mask };
        before
    }
}

/// Where the first `length` set bits in a row of a word begin; `length` is 1 to 64.
fn run_inside(word: u64, length: u32) -> Option<u32> {
    // A bit of `found` says that `known` bits from it on are set; each step at most doubles `known`.
    let (mut found, mut known) = (word, 1);
    while known < length && found != 0 {
        let step = known.min(length - known);
        found &= found >> step;
        known += step;
    }
    (found != 0).then(|| found.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit.
    fn slow_run(bits: &Bits, begin: u32, end: u32, blocks: u32) -> Option<u32> {
        let mut length = 0;
        for bit in begin..end {
            length = if bits.get(bit) { 0 } else { length + 1 };
            if length == blocks {
                return Some(bit + 1 - blocks);
            }
        }
        None
    }

    proptest! {
        #[test]
        fn words_find_what_single_bits_find(
            runs in prop::collection::vec((0..90u32, 0..90u32), 1..12),
            range in (0..700u32, 0..700u32),
            blocks in 1..150u32,
        ) {
            let mut bits = Bits::new(700);
            let mut at = 0;
            for (clear, set) in runs {
                (at + clear..at + clear + set).filter(|bit| *bit < 700).for_each(|bit| {
                    bits.replace(bit, true);
                });
                at += clear + set;
            }
            let (begin, end) = (range.0.min(range.1), range.0.max(range.1));
            prop_assert_eq!(bits.first_clear_run(begin, end, blocks), slow_run(&bits, begin, end, blocks));
            prop_assert_eq!(bits.first_clear(begin, end), slow_run(&bits, begin, end, 1).unwrap_or(end));
        }
    }

    proptest! {
        #[test]
        fn few_bits_come_in_order_and_once(rounds in prop::collection::vec(prop::collection::vec(0..9000u32, 0..40), 1..4)) {
            let mut bits = FewBits::new(9000);
            for set in rounds {
                let mut wanted = std::collections::BTreeSet::new();
                for bit in set {
                    prop_assert_eq!(bits.set(bit), wanted.insert(bit));
                    prop_assert!(bits.get(bit));
                }
                let mut got = Vec::new();
                bits.take_all(|bit| got.push(bit));
                prop_assert_eq!(got, wanted.into_iter().collect::<Vec<_>>());
                prop_assert!((0..9000).all(|bit| !bits.get(bit)));
            }
        }
    }
}
