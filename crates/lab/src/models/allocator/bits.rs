//! One bit for each block: eight times as many fit into the processor's caches as of bytes.

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
