//! The event queue: a heap of four children per node, ordered by time and then by when it was asked for.
use crate::component::{ComponentId, Message};

/// A message that is due at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Virtual time.
    pub at_ns: u64,
    /// Who is told.
    pub to: ComponentId,
    /// What.
    pub message: Message,
}

/// Events to come. Four children per node: half the levels of a binary heap, and the keys of all children in one cache line.
#[derive(Default)]
pub struct Heap {
    /// Time, then order of asking.
    keys: Vec<u128>,
    /// What belongs to the key at the same place.
    events: Vec<(ComponentId, Message)>,
    sequence: u64,
}

/// The smaller key and its place; no branch, as which one it is cannot be predicted.
#[inline(always)]
fn smaller(a: (u128, usize), b: (u128, usize)) -> (u128, usize) {
    let second = b.0 < a.0;
    (if second { b.0 } else { a.0 }, if second { b.1 } else { a.1 })
}

impl Heap {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at_ns: u64, to: ComponentId, message: Message) {
        self.sequence += 1;
        let key = u128::from(at_ns) << 64 | u128::from(self.sequence);
        self.keys.push(key);
        self.events.push((to, message));
        self.rise(self.keys.len() - 1, key, (to, message));
    }

    /// Puts an event at `at` or above, where its key belongs.
    #[inline]
    fn rise(&mut self, mut at: usize, key: u128, event: (ComponentId, Message)) {
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[at] = self.keys[parent];
            self.events[at] = self.events[parent];
            at = parent;
        }
        self.keys[at] = key;
        self.events[at] = event;
    }

    /// Takes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        let (last_key, last) = (self.keys.pop()?, self.events.pop()?);
        let (Some(&key), Some(&(to, message))) = (self.keys.first(), self.events.first()) else {
            return Some(entry(last_key, last));
        };
        let len = self.keys.len();
        let mut at = 0;
        // The hole goes down to the end, where the last event most likely belongs.
        loop {
            let child = 4 * at + 1;
            let least = match self.keys.get(child..child + 4) {
                Some(keys) => {
                    let one = smaller((keys[0], child), (keys[1], child + 1));
                    let two = smaller((keys[2], child + 2), (keys[3], child + 3));
                    smaller(one, two).1
                }
                None if child >= len => break,
                None => {
                    let rest = (child..len).map(|other| (self.keys[other], other));
                    rest.min().map_or(child, |(_, other)| other)
                }
            };
            self.keys[at] = self.keys[least];
            self.events[at] = self.events[least];
            at = least;
        }
        self.rise(at, last_key, last);
        Some(entry(key, (to, message)))
    }
}

#[inline]
fn entry(key: u128, (to, message): (ComponentId, Message)) -> Entry {
    Entry {
        at_ns: (key >> 64) as u64,
        to,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_by_time_and_then_by_order_of_asking(times in proptest::collection::vec(0u64..50, 0..300)) {
            let mut heap = Heap::default();
            for (n, time) in times.iter().enumerate() {
                heap.push(*time, 0, Message::Timer { what: 0, arg: n as u32 });
            }
            let mut expected: Vec<(u64, u32)> = times.iter().enumerate().map(|(n, t)| (*t, n as u32)).collect();
            expected.sort_unstable();
            let got: Vec<(u64, u32)> = std::iter::from_fn(|| heap.pop())
                .map(|entry| match entry.message {
                    Message::Timer { arg, .. } => (entry.at_ns, arg),
                    _ => unreachable!("only timers were pushed"),
                })
                .collect();
            prop_assert_eq!(got, expected);
        }
    }
}
