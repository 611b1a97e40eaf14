//! A hash map for integer keys. Its order and speed do not depend on the process: no random seed.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Mixes one integer by a multiplication and a fold.
#[derive(Clone, Copy, Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
}

/// A map with integer keys.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;
