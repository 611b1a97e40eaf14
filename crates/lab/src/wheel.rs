//! The event queue: a timing wheel of wheels, in the order of time and then of asking.
//!
//! The time of an event is read as a number of base 64. An event lies in the wheel of the highest digit in which its time
//! differs from the present, in the slot of that digit; slots are lists in the order of asking. The earliest event is in
//! the first occupied slot of the lowest occupied wheel: alone, it is next; else the present moves to the earliest of the
//! slot, which scatters the others over lower wheels. So an event is moved once or twice, however many there are, and
//! nothing is compared on the way. After Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, and the
//! radix heap of Ahuja, Mehlhorn, Orlin and Tarjan, JACM 37, 1990.
//!
//! Events at one time stay in order: as long as the present is outside their slot, they all go to its end; when it enters,
//! they move down together, before any other can be asked for.
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

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// Digits of 64 bits.
const WHEELS: usize = 11;
/// End of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    at_ns: u64,
    message: Message,
    to: ComponentId,
    next: u32,
}

/// A list of nodes. Both are meaningless while its slot is not occupied.
#[derive(Clone, Copy, Default)]
struct Slot {
    first: u32,
    last: u32,
}

/// Events to come; none before the last one taken.
pub struct Wheel {
    now_ns: u64,
    slots: [[Slot; SLOTS]; WHEELS],
    /// Per wheel: a bit for each slot with events.
    occupied: [u64; WHEELS],
    /// A bit for each wheel with events.
    wheels: u32,
    nodes: Vec<Node>,
    /// List of unused nodes.
    free: u32,
}

impl Default for Wheel {
    fn default() -> Wheel {
        Wheel {
            now_ns: 0,
            slots: [[Slot::default(); SLOTS]; WHEELS],
            occupied: [0; WHEELS],
            wheels: 0,
            nodes: Vec::new(),
            free: NONE,
        }
    }
}

impl Wheel {
    /// Adds an event, not before the last one taken.
    #[inline]
    pub fn push(&mut self, at_ns: u64, to: ComponentId, message: Message) {
        let node = Node {
            at_ns,
            message,
            to,
            next: NONE,
        };
        let at = self.free;
        if at == NONE {
            self.nodes.push(node);
            return self.link(self.nodes.len() as u32 - 1, at_ns);
        }
        self.free = self.nodes[at as usize].next;
        self.nodes[at as usize] = node;
        self.link(at, at_ns);
    }

    /// Puts a node at the end of the slot where its time belongs.
    #[inline]
    fn link(&mut self, at: u32, at_ns: u64) {
        // The lowest digit where none differs.
        let differing = (at_ns ^ self.now_ns) | 1;
        let wheel = (63 - differing.leading_zeros()) / DIGIT_BITS;
        let slot = (at_ns >> (wheel * DIGIT_BITS)) as usize % SLOTS;
        let wheel = wheel as usize;
        let list = &mut self.slots[wheel][slot];
        if self.occupied[wheel] >> slot & 1 == 1 {
            self.nodes[list.last as usize].next = at;
        } else {
            list.first = at;
            self.occupied[wheel] |= 1 << slot;
            self.wheels |= 1 << wheel;
        }
        list.last = at;
    }

    /// Takes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        if self.wheels == 0 {
            return None;
        }
        let wheel = self.wheels.trailing_zeros() as usize;
        let slot = self.occupied[wheel].trailing_zeros() as usize % SLOTS;
        let first = self.slots[wheel][slot].first;
        let next = self.nodes[first as usize].next;
        if next == NONE {
            self.clear(wheel, slot);
        } else if wheel == 0 {
            // The same time, all of them.
            self.slots[0][slot].first = next;
        } else {
            return Some(self.enter(wheel, slot));
        }
        Some(self.take(first))
    }

    /// The present becomes the time of a node, which is free again.
    #[inline]
    fn take(&mut self, at: u32) -> Entry {
        let node = &mut self.nodes[at as usize];
        let Node {
            at_ns, message, to, ..
        } = *node;
        node.next = self.free;
        self.free = at;
        self.now_ns = at_ns;
        Entry { at_ns, to, message }
    }

    #[inline]
    fn clear(&mut self, wheel: usize, slot: usize) {
        self.occupied[wheel] &= !(1 << slot);
        self.wheels &= !(u32::from(self.occupied[wheel] == 0) << wheel);
    }

    /// Moves the present into a slot of several events: takes the earliest and moves the others to lower wheels.
    fn enter(&mut self, wheel: usize, slot: usize) -> Entry {
        let first = self.slots[wheel][slot].first;
        self.clear(wheel, slot);
        let mut earliest = first;
        let mut at = first;
        while at != NONE {
            let Node { at_ns, next, .. } = self.nodes[at as usize];
            if at_ns < self.nodes[earliest as usize].at_ns {
                earliest = at;
            }
            at = next;
        }
        self.now_ns = self.nodes[earliest as usize].at_ns;
        let mut at = first;
        while at != NONE {
            let Node { at_ns, next, .. } = self.nodes[at as usize];
            if at != earliest {
                self.nodes[at as usize].next = NONE;
                self.link(at, at_ns);
            }
            at = next;
        }
        self.take(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn timer(n: u32) -> Message {
        Message::Timer { what: 0, arg: n }
    }

    /// Delays of every magnitude, many of them alike.
    fn delay() -> impl Strategy<Value = u64> {
        prop_oneof![0..3u64, 0..70u64, 4000..4200u64, 0..1u64 << 20, 0..1u64 << 50]
    }

    proptest! {
        /// Whenever they are asked for and taken, they come by time and then in the order of asking.
        #[test]
        fn events_come_by_time_and_then_by_order_of_asking(
            steps in prop::collection::vec((delay(), 0..3usize), 0..400),
        ) {
            let mut wheel = Wheel::default();
            let mut expected = BTreeSet::new();
            let (mut now_ns, mut asked) = (0, 0);
            let drain = steps.len();
            for (delay_ns, taken) in steps.into_iter().chain([(0, drain + 1)]) {
                expected.insert((now_ns + delay_ns, asked));
                wheel.push(now_ns + delay_ns, 7, timer(asked));
                asked += 1;
                for _ in 0..taken {
                    let got = wheel.pop().map(|entry| (entry.at_ns, entry.to, entry.message));
                    let next = expected.pop_first();
                    prop_assert_eq!(got, next.map(|(at_ns, n)| (at_ns, 7, timer(n))));
                    now_ns = next.map_or(now_ns, |(at_ns, _)| at_ns);
                }
            }
            prop_assert!(wheel.pop().is_none() && expected.is_empty());
        }

        #[test]
        fn the_end_of_time_is_a_time(times in prop::collection::vec(prop_oneof![Just(u64::MAX), any::<u64>()], 1..40)) {
            let mut wheel = Wheel::default();
            times.iter().for_each(|at_ns| wheel.push(*at_ns, 0, timer(0)));
            let got: Vec<u64> = std::iter::from_fn(|| wheel.pop()).map(|entry| entry.at_ns).collect();
            let mut sorted = times;
            sorted.sort_unstable();
            prop_assert_eq!(got, sorted);
        }
    }
}
