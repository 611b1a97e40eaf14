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

#[derive(Clone, Copy)]
struct Node {
    at_ns: u64,
    sequence: u64,
    to: ComponentId,
    message: Message,
}

impl Node {
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at_ns) << 64 | u128::from(self.sequence)
    }
}

/// Events to come. Four children per node: half the levels of a binary heap, and all children in two cache lines.
#[derive(Default)]
pub struct Heap {
    nodes: Vec<Node>,
    sequence: u64,
}

impl Heap {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at_ns: u64, to: ComponentId, message: Message) {
        self.sequence += 1;
        let node = Node {
            at_ns,
            sequence: self.sequence,
            to,
            message,
        };
        let mut at = self.nodes.len();
        self.nodes.push(node);
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.nodes[parent].key() <= node.key() {
                break;
            }
            self.nodes[at] = self.nodes[parent];
            at = parent;
        }
        self.nodes[at] = node;
    }

    /// Takes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        let last = self.nodes.pop()?;
        let Some(&first) = self.nodes.first() else {
            return Some(last.entry());
        };
        let len = self.nodes.len();
        let mut at = 0;
        loop {
            let child = 4 * at + 1;
            if child >= len {
                break;
            }
            let end = (child + 4).min(len);
            let mut least = child;
            for other in child + 1..end {
                if self.nodes[other].key() < self.nodes[least].key() {
                    least = other;
                }
            }
            if self.nodes[least].key() >= last.key() {
                break;
            }
            self.nodes[at] = self.nodes[least];
            at = least;
        }
        self.nodes[at] = last;
        Some(first.entry())
    }
}

impl Node {
    fn entry(&self) -> Entry {
        Entry {
            at_ns: self.at_ns,
            to: self.to,
            message: self.message,
        }
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
