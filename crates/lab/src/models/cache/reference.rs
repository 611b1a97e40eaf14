//! The same policies as slow and plain as the papers state them: deques and linear search.

use super::{Access, S3FifoParameters};
use std::collections::VecDeque;

/// A list: newest in front.
type List = VecDeque<u64>;

fn take(list: &mut List, key: u64) -> bool {
    let found = list.iter().position(|k| *k == key);
    found.is_some_and(|at| list.remove(at).is_some())
}

pub trait Reference {
    fn access(&mut self, key: u64) -> Access;
    fn resident(&self) -> Vec<u64>;
}

pub struct LruReference {
    pub capacity: usize,
    pub list: List,
}

impl Reference for LruReference {
    fn access(&mut self, key: u64) -> Access {
        if take(&mut self.list, key) {
            self.list.push_front(key);
            return Access::Hit;
        }
        let evicted = if self.list.len() == self.capacity {
            self.list.pop_back()
        } else {
            None
        };
        self.list.push_front(key);
        Access::Miss { evicted }
    }

    fn resident(&self) -> Vec<u64> {
        self.list.iter().copied().collect()
    }
}

#[derive(Default)]
pub struct ArcReference {
    pub capacity: usize,
    pub p: f64,
    pub t1: List,
    pub t2: List,
    pub b1: List,
    pub b2: List,
}

impl ArcReference {
    fn replace(&mut self, in_b2: bool) -> Option<u64> {
        let t1 = self.t1.len() as f64;
        if !self.t1.is_empty() && (t1 > self.p || (in_b2 && t1 == self.p)) || self.t2.is_empty() {
            let key = self.t1.pop_back()?;
            self.b1.push_front(key);
            Some(key)
        } else {
            let key = self.t2.pop_back()?;
            self.b2.push_front(key);
            Some(key)
        }
    }
}

impl Reference for ArcReference {
    fn access(&mut self, key: u64) -> Access {
        let c = self.capacity;
        if take(&mut self.t1, key) || take(&mut self.t2, key) {
            self.t2.push_front(key);
            return Access::Hit;
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if take(&mut self.b1, key) {
            self.p = (self.p + (b2 / b1).max(1.0)).min(c as f64);
            let evicted = self.replace(false);
            self.t2.push_front(key);
            return Access::Miss { evicted };
        }
        if take(&mut self.b2, key) {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            let evicted = self.replace(true);
            self.t2.push_front(key);
            return Access::Miss { evicted };
        }
        let mut evicted = None;
        let l1 = self.t1.len() + self.b1.len();
        let all = l1 + self.t2.len() + self.b2.len();
        if l1 == c {
            if self.t1.len() < c {
                self.b1.pop_back();
                evicted = self.replace(false);
            } else {
                evicted = self.t1.pop_back();
            }
        } else if all >= c {
            if all == 2 * c {
                self.b2.pop_back();
            }
            evicted = self.replace(false);
        }
        self.t1.push_front(key);
        Access::Miss { evicted }
    }

    fn resident(&self) -> Vec<u64> {
        self.t1.iter().chain(&self.t2).copied().collect()
    }
}

pub struct S3FifoReference {
    pub capacity: usize,
    pub parameters: S3FifoParameters,
    pub small: VecDeque<(u64, u32)>,
    pub main: VecDeque<(u64, u32)>,
    pub ghost: List,
    pub warm: bool,
}

impl S3FifoReference {
    fn small_size(&self) -> usize {
        ((self.capacity as f64 * self.parameters.small_ratio) as usize).max(1)
    }

    fn evict(&mut self) -> u64 {
        let small_size = self.small_size();
        self.warm = true;
        loop {
            if self.main.len() > self.capacity - small_size || self.small.is_empty() {
                let (key, uses) = self.main.pop_back().expect("one of the queues holds something");
                if uses == 0 {
                    return key;
                }
                self.main.push_front((key, uses.min(3) - 1));
                continue;
            }
            // The small queue is drained down to its first victim, however full the main queue gets meanwhile.
            while let Some((key, uses)) = self.small.pop_back() {
                if uses < u32::from(self.parameters.promote_uses) {
                    self.ghost.push_front(key);
                    self.ghost
                        .truncate((self.capacity as f64 * self.parameters.ghost_ratio) as usize);
                    return key;
                }
                self.main.push_front((key, 0));
            }
        }
    }
}

impl Reference for S3FifoReference {
    fn access(&mut self, key: u64) -> Access {
        for queue in [&mut self.small, &mut self.main] {
            if let Some((_, uses)) = queue.iter_mut().find(|(k, _)| *k == key) {
                *uses += 1;
                return Access::Hit;
            }
        }
        let ghost = take(&mut self.ghost, key);
        let full = self.small.len() + self.main.len() == self.capacity;
        let evicted = full.then(|| self.evict());
        let fill_main = !self.warm && self.small.len() >= self.small_size();
        if ghost || fill_main {
            &mut self.main
        } else {
            &mut self.small
        }
        .push_front((key, 0));
        Access::Miss { evicted }
    }

    fn resident(&self) -> Vec<u64> {
        self.small.iter().chain(&self.main).map(|(key, _)| *key).collect()
    }
}
