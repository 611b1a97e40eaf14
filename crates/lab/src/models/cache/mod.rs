//! Replacement policies over keys (pages, blocks, objects of one size): who stays in a cache of fixed
//! capacity.
//!
//! A key is whatever the user numbers: a page, a 64 KiB block, a file block folded into 64 bits. Every key
//! weighs the same. The policies do no I/O and know no time; one access costs tens of nanoseconds and
//! allocates nothing.

mod arc;
mod lru;
mod order;
mod s3fifo;
mod table;
pub mod traces;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use super::{require, ParameterError};
use crate::component::{Access, CacheModel};
pub use arc::Arc;
pub use lru::Lru;
pub use s3fifo::{S3Fifo, S3FifoParameters};

/// Most keys a cache may hold. Memory is reserved at once: about 50 bytes per key for LRU, 100 for the others.
pub const CAPACITY_MAX: usize = 1 << 28;

fn check_capacity(capacity: usize) -> Result<(), ParameterError> {
    require(
        (2..=CAPACITY_MAX).contains(&capacity),
        "capacity",
        "2 to 268,435,456 keys",
        capacity,
    )
}

/// Names of the policies, as scenario files write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// `lru`
    Lru,
    /// `arc`
    Arc,
    /// `s3fifo`, with the parameters of [`S3FifoParameters::default`]
    S3Fifo,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 3] = [PolicyKind::Lru, PolicyKind::Arc, PolicyKind::S3Fifo];

    /// The name in a scenario file.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Lru => "lru",
            PolicyKind::Arc => "arc",
            PolicyKind::S3Fifo => "s3fifo",
        }
    }

    /// The policy called `name`.
    pub fn from_name(name: &str) -> Option<PolicyKind> {
        PolicyKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A cache with a policy that is chosen at run time.
#[derive(Clone)]
pub enum Cache {
    /// See [`Lru`].
    Lru(Lru),
    /// See [`Arc`].
    Arc(Arc),
    /// See [`S3Fifo`].
    S3Fifo(S3Fifo),
}

macro_rules! each {
    ($self:ident, $cache:ident => $call:expr) => {
        match $self {
            Cache::Lru($cache) => $call,
            Cache::Arc($cache) => $call,
            Cache::S3Fifo($cache) => $call,
        }
    };
}

impl Cache {
    /// Holds `capacity` keys, 2 to [`CAPACITY_MAX`].
    pub fn new(kind: PolicyKind, capacity: usize) -> Result<Cache, ParameterError> {
        Ok(match kind {
            PolicyKind::Lru => Cache::Lru(Lru::new(capacity)?),
            PolicyKind::Arc => Cache::Arc(Arc::new(capacity)?),
            PolicyKind::S3Fifo => Cache::S3Fifo(S3Fifo::new(capacity, S3FifoParameters::default())?),
        })
    }
}

impl CacheModel for Cache {
    #[inline]
    fn expect(&mut self, key: u64) {
        each!(self, cache => cache.expect(key))
    }

    #[inline]
    fn expect_insert(&self, key: u64) {
        each!(self, cache => cache.expect_insert(key))
    }

    #[inline]
    fn access(&mut self, key: u64) -> Access {
        each!(self, cache => cache.access(key))
    }

    #[inline]
    fn touch(&mut self, key: u64) -> bool {
        each!(self, cache => cache.touch(key))
    }

    fn insert(&mut self, key: u64) -> Option<u64> {
        each!(self, cache => cache.insert(key))
    }

    fn contains(&self, key: u64) -> bool {
        each!(self, cache => cache.contains(key))
    }

    fn remove(&mut self, key: u64) -> bool {
        each!(self, cache => cache.remove(key))
    }

    fn len(&self) -> usize {
        each!(self, cache => cache.len())
    }

    fn capacity(&self) -> usize {
        each!(self, cache => cache.capacity())
    }
}
