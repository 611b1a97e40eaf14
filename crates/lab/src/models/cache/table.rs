//! What the replacement policies share: a fixed number of entries, found by key, each on one of `LISTS`
//! lists.
//!
//! Entries live in one array. A list is the order in which entries were put on it, written down one after the other
//! ([`super::order`]), so using an entry touches that entry only. The index is open addressing with linear
//! probing, at most half full; a slot holds 32 bits of the key's hash beside the entry's position, so a probe
//! rarely touches a foreign entry. A removal shifts followers back, so no tombstones build up.

use super::order::Order;
use crate::memory::{fetch, use_huge_pages};

/// Most entries a table may hold: positions are 32 bits wide, and the index has two slots per entry.
pub(super) const MAX_ENTRIES: usize = 1 << 30;

/// Slots in which an expected key is looked for.
const PROBES_EXPECTED: usize = 4;

/// Position of an entry; 0 is none.
pub(super) type At = u32;

/// List of an entry that is on none.
const NOWHERE: u8 = u8::MAX;

/// How far ahead of the oldest entry others are loaded, as they will be the oldest soon: the entry, then the slot of its key.
const ENTRIES_AHEAD: u32 = 8;
const SLOTS_AHEAD: u32 = 4;

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    /// Its number in the order of its list.
    number: u32,
    list: u8,
    /// Free for the policy: how often the entry was used.
    uses: u8,
}

/// A key that was not found, and the slot it belongs in.
pub(super) struct Vacant {
    slot: usize,
    tag: u32,
    key: u64,
}

/// Keys on lists; see the module.
#[derive(Clone)]
pub(super) struct Table<const LISTS: usize> {
    slots: Vec<u64>,
    shift: u32,
    entries: Vec<Entry>,
    orders: [Order; LISTS],
    lengths: [usize; LISTS],
    free: Vec<At>,
    /// The last key that is expected: slot and tag.
    expected: (usize, u32),
}

fn hash(key: u64) -> u32 {
    let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (((product >> 64) as u64 ^ product as u64) >> 32) as u32
}

impl<const LISTS: usize> Table<LISTS> {
    /// Room for `entries`, the memory of entries and index reserved at once: about 50 bytes per entry in all.
    pub fn new(entries: usize) -> Table<LISTS> {
        assert!(
            entries <= MAX_ENTRIES,
            "cache table: at most {MAX_ENTRIES} entries, asked for {entries}"
        );
        let slots = (entries * 2).next_power_of_two().max(8);
        let mut table = Table {
            slots: vec![0; slots],
            shift: 32 - slots.trailing_zeros(),
            entries: Vec::with_capacity(entries + 1),
            orders: std::array::from_fn(|_| Order::default()),
            lengths: [0; LISTS],
            free: Vec::with_capacity(entries),
            expected: (0, 0),
        };
        use_huge_pages(&mut table.slots);
        use_huge_pages(&mut table.entries);
        table.entries.push(Entry {
            key: 0,
            number: 0,
            list: NOWHERE,
            uses: 0,
        });
        table
    }

    /// Entries on `list`.
    #[inline]
    pub fn len(&self, list: usize) -> usize {
        self.lengths[list]
    }

    /// Where `key` is, on whatever list; else the slot it belongs in, for [`Table::insert`].
    #[inline]
    pub fn find(&self, key: u64) -> Result<At, Vacant> {
        let tag = hash(key);
        let mask = self.slots.len() - 1;
        let mut slot = (tag >> self.shift) as usize;
        loop {
            slot &= mask;
            let held = self.slots[slot];
            if held == 0 {
                return Err(Vacant { slot, tag, key });
            }
            if (held >> 32) as u32 == tag && self.entries[held as u32 as usize].key == key {
                return Ok(held as u32);
            }
            slot += 1;
        }
    }

    /// `key` will be asked for soon. In a large table that takes two loads from memory, of which the second needs the first:
    /// the slot, and its entry. Here the first of them begins, and the second of the key that was expected before, so that
    /// nobody waits for either.
    #[inline]
    pub fn expect(&mut self, key: u64) {
        let tag = hash(key);
        let slot = (tag >> self.shift) as usize;
        fetch(&self.slots[slot]);
        let (before, tag) = std::mem::replace(&mut self.expected, (slot, tag));
        let held = self.slots[before..].iter().take(PROBES_EXPECTED);
        let at = held.copied().find(|held| (held >> 32) as u32 == tag).unwrap_or(0) as At;
        fetch(&self.entries[at as usize]);
    }

    /// `key` will be inserted at once, after others of which the same was said: their slots are loaded together.
    #[inline]
    pub fn expect_insert(&self, key: u64) {
        fetch(&self.slots[(hash(key) >> self.shift) as usize]);
    }

    /// The list `at` is on.
    #[inline]
    pub fn list(&self, at: At) -> usize {
        usize::from(self.entries[at as usize].list)
    }

    /// The policy's use count of `at`.
    #[inline]
    pub fn uses(&self, at: At) -> u8 {
        self.entries[at as usize].uses
    }

    /// Sets the policy's use count of `at`.
    #[inline]
    pub fn set_uses(&mut self, at: At, uses: u8) {
        self.entries[at as usize].uses = uses;
    }

    /// The entry that was put on `list` longest ago.
    #[inline]
    pub fn oldest(&mut self, list: usize) -> Option<At> {
        loop {
            let order = &mut self.orders[list];
            let (number, at) = order.first()?;
            if self.entries[at as usize].is(list, number) {
                return Some(at);
            }
            order.skip();
            self.load_ahead(list);
        }
    }

    #[inline]
    fn load_ahead(&self, list: usize) {
        if let Some(at) = self.orders[list].ahead(ENTRIES_AHEAD) {
            fetch(&self.entries[at as usize]);
        }
        if let Some(at) = self.orders[list].ahead(SLOTS_AHEAD) {
            let key = self.entries[at as usize].key;
            fetch(&self.slots[(hash(key) >> self.shift) as usize]);
        }
    }

    /// Adds the key that was not found as the newest of `list`. Nothing may have changed since: a removal could
    /// have moved what lies before the slot.
    pub fn insert(&mut self, vacant: Vacant, list: usize) -> At {
        let Vacant { slot, tag, key } = vacant;
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let full = self.entries.len() == self.entries.capacity();
                assert!(!full, "cache table: more entries than reserved");
                self.entries.push(Entry {
                    key,
                    number: 0,
                    list: NOWHERE,
                    uses: 0,
                });
                self.entries.len() as At - 1
            }
        };
        let entry = &mut self.entries[at as usize];
        entry.key = key;
        entry.uses = 0;
        debug_assert_eq!(self.slots[slot], 0);
        self.slots[slot] = u64::from(tag) << 32 | u64::from(at);
        self.link(at, list);
        at
    }

    /// Makes `at` the newest of `list`.
    #[inline]
    pub fn renew(&mut self, at: At, list: usize) {
        self.unlink(at);
        self.link(at, list);
    }

    /// Forgets `at` and returns its key.
    pub fn remove(&mut self, at: At) -> u64 {
        self.load_ahead(usize::from(self.entries[at as usize].list));
        self.unlink(at);
        self.free.push(at);
        let key = self.entries[at as usize].key;
        self.unindex(key, at);
        key
    }

    /// The key of `at`.
    #[inline]
    pub fn key(&self, at: At) -> u64 {
        self.entries[at as usize].key
    }

    fn unindex(&mut self, key: u64, at: At) {
        let mask = self.slots.len() - 1;
        let mut hole = (hash(key) >> self.shift) as usize & mask;
        while self.slots[hole] as u32 != at {
            hole = (hole + 1) & mask;
        }
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            let held = self.slots[slot];
            if held == 0 {
                break;
            }
            let home = ((held >> 32) as u32 >> self.shift) as usize;
            // It may move into the hole unless its home lies behind the hole.
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.slots[hole] = held;
                hole = slot;
            }
        }
        self.slots[hole] = 0;
    }

    #[inline]
    fn link(&mut self, at: At, list: usize) {
        if self.orders[list].is_full() {
            self.make_room(list);
        }
        let entry = &mut self.entries[at as usize];
        entry.number = self.orders[list].push(at);
        entry.list = list as u8;
        self.lengths[list] += 1;
    }

    /// The note of it in the order of its list stays, and is passed over when its turn comes.
    #[inline]
    fn unlink(&mut self, at: At) {
        let entry = &mut self.entries[at as usize];
        self.lengths[usize::from(entry.list)] -= 1;
        entry.list = NOWHERE;
    }

    #[cold]
    fn make_room(&mut self, list: usize) {
        let entries = &mut self.entries;
        self.orders[list].make_room(self.lengths[list], |number, at, new| {
            let entry = &mut entries[at as usize];
            let holds = entry.is(list, number);
            if holds {
                entry.number = new;
            }
            holds
        });
    }
}

impl Entry {
    /// Whether this is what the note `number` of `list` is about: it was not put anywhere since.
    #[inline]
    fn is(&self, list: usize, number: u32) -> bool {
        usize::from(self.list) == list && self.number == number
    }
}
