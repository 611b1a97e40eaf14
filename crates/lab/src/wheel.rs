//! A timing wheel of wheels: events in the order of time and then of asking. Tested with [`crate::agenda`], which uses it.
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
use crate::component::{ComponentId, Message, Packed};

/// A message that is due at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Virtual time.
    pub at_ns: u64,
    /// Who receives it.
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
    message: Packed,
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
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.wheels == 0
    }

    /// When the earliest is due.
    #[inline]
    pub fn earliest_ns(&self) -> Option<u64> {
        if self.wheels == 0 {
            return None;
        }
        let wheel = self.wheels.trailing_zeros() as usize;
        let slot = self.occupied[wheel].trailing_zeros() as usize % SLOTS;
        let mut node = &self.nodes[self.slots[wheel][slot].first as usize];
        let mut earliest_ns = node.at_ns;
        // In the lowest wheel all are at one time.
        while wheel > 0 && node.next != NONE {
            node = &self.nodes[node.next as usize];
            earliest_ns = earliest_ns.min(node.at_ns);
        }
        Some(earliest_ns)
    }

    /// Adds an event, not before the last one taken.
    #[inline]
    pub fn push(&mut self, at_ns: u64, message: Packed) {
        let next = NONE;
        let node = Node { at_ns, message, next };
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
        let Node { at_ns, message, .. } = *node;
        node.next = self.free;
        self.free = at;
        self.now_ns = at_ns;
        Entry {
            at_ns,
            to: message.to(),
            message: message.message(),
        }
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
