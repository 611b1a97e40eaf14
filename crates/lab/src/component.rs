//! What a part of the stack is: [`Component`] (moves requests, knows the event loop) and the pure models
//! inside some of them ([`DriveModel`], [`CacheModel`]), which know neither queue nor event.
//!
//! How models are used:
//!
//! * **Drives.** The component `drive` owns the queue. Whenever the drive may begin another command (at most
//!   [`DriveModel::slots`] are inside it) it asks [`DriveModel::choose`] which of the waiting ones is next, and then
//!   [`DriveModel::serve`] what becomes of it. `serve` is called with `now_ns` never smaller than before.
//!   A disk answers `free_ns` = when arm and head are ready for the next command; an SSD keeps a timeline for each
//!   die and channel inside and answers `free_ns = now_ns`: the next command may begin at once.
//! * **Caches.** The component `server` cuts a read into pages (`key = file << 40 | page number`), asks
//!   [`CacheModel::access`] for each on a read, [`CacheModel::insert`] when a prefetch or a write brings one in, and
//!   keeps flags (dirty, prefetched and not yet read) itself.
//! * **Prefetchers, SSD tier, allocator, guest file system** are plain structs of `models/`; the component `server`
//!   calls them in the order guest file system -> cache -> prefetcher -> SSD tier -> allocator.
//!
//! Randomness: a model takes a `workload::rng::Rng` of its own when it is made (see [`crate::sim::stream`]) and draws
//! only from that, so that adding a component does not change what others draw. No clocks, no global state,
//! no iteration over hash maps with a random order: the same calls give the same answers.
use crate::sim::Core;
use case::schema::Op;

/// Number of a component in its stack.
pub type ComponentId = u16;

/// Index of a request in the slab of the simulation.
pub type Handle = u32;

/// No request.
pub const NO_HANDLE: Handle = u32::MAX;

/// What a component receives. Small and `Copy`: millions of them are moved in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request comes in. From now on this component holds it, until it forwards or completes it.
    Submit(Handle),
    /// A request that this component had made is complete. Its stages are final; the component releases it.
    Done(Handle),
    /// A timer of this component went off.
    Timer {
        /// What the component set it for.
        what: u16,
        /// Its own argument.
        arg: u32,
    },
}

/// A message and its receiver, as one word: it is written and read again within nanoseconds, and a word that was written
/// in parts cannot be read until all of them have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed(u64);

const SUBMIT: u16 = u16::MAX;
const DONE: u16 = u16::MAX - 1;

impl Packed {
    #[inline(always)]
    pub fn new(to: ComponentId, message: Message) -> Packed {
        let (what, arg) = match message {
            Message::Submit(handle) => (SUBMIT, handle),
            Message::Done(handle) => (DONE, handle),
            Message::Timer { what, arg } => {
                assert!(what < DONE, "timer {what} of component {to}");
                (what, arg)
            }
        };
        Packed(u64::from(to) << 48 | u64::from(what) << 32 | u64::from(arg))
    }

    #[inline(always)]
    pub fn to(self) -> ComponentId {
        (self.0 >> 48) as ComponentId
    }

    #[inline(always)]
    pub fn message(self) -> Message {
        let arg = self.0 as u32;
        match (self.0 >> 32) as u16 {
            SUBMIT => Message::Submit(arg),
            DONE => Message::Done(arg),
            what => Message::Timer { what, arg },
        }
    }
}

/// A part of the stack that moves requests.
///
/// Contract, asserted by the simulation in release builds too: every request that came in by `Submit` is forwarded or
/// completed exactly once, at a time that is not before it came in; [`Component::depth`] always equals what came in
/// minus what went out.
pub trait Component: Send {
    /// Name, unique in the stack (`nvme3`, `server`, `interrupts`).
    fn name(&self) -> &str;

    /// Something happened. Must not block, and must not look at other components.
    fn handle(&mut self, message: Message, core: &mut Core);

    /// A request for this place of a file will come by `Submit` in a while: time to fetch from memory what will be looked at
    /// then. Changes nothing else, and the request may never come.
    fn expect(&mut self, _file: u16, _offset_bytes: u64) {}

    /// Requests held right now: waiting and in service.
    fn depth(&self) -> usize;

    /// Most requests this component may ever hold; None = no bound of its own.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// Asks for an end: no new work of its own (timers that renew themselves stop).
    fn stop(&mut self) {}

    /// Rows for `series/` about now: (metric name with unit, value). Called at every sampling step.
    fn sample(&mut self, _now_ns: u64, _put: &mut dyn FnMut(&'static str, f64)) {}

    /// Last words before the case is sealed: rows that only this component knows (prefetch windows, gaps).
    fn finish(&mut self, _core: &mut Core) {}
}

/// A command as a drive gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Read, write, flush or discard.
    pub op: Op,
    /// On the drive.
    pub offset_bytes: u64,
    /// Zero for a flush.
    pub size_bytes: u32,
}

/// Why a command took long, as far as the drive knows; becomes evidence in `device` rows and `events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Note {
    /// Nothing special.
    #[default]
    None,
    /// Waited for garbage collection.
    GarbageCollection,
    /// Waited because a write cache or write buffer was full.
    BufferFull,
    /// Served by the drive's own cache or buffer.
    Buffered,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When the host may learn that it is complete; `>= now_ns`.
    pub done_ns: u64,
    /// When the drive may begin the next command; `>= now_ns`.
    pub free_ns: u64,
    /// Why.
    pub note: Note,
}

/// A drive without its queue: a disk, an SSD, or a latency distribution.
pub trait DriveModel: Send {
    /// Capacity in bytes; commands never go beyond it.
    fn size_bytes(&self) -> u64;

    /// Whether it spins (`queue/rotational`).
    fn rotational(&self) -> bool;

    /// Most commands inside the drive at once, waiting ones that it may reorder included (NCQ 32, an NVMe queue 1023).
    fn slots(&self) -> usize;

    /// Index in `waiting` (never empty, in order of arrival) of the command to serve next at `now_ns`.
    fn choose(&mut self, _now_ns: u64, _waiting: &[Command]) -> usize {
        0
    }

    /// Serves one command that begins now.
    fn serve(&mut self, now_ns: u64, command: &Command) -> Service;
}

/// Answer of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It was there.
    Hit,
    /// It was not, and is now; something else may have had to go.
    Miss {
        /// Key that was thrown out.
        evicted: Option<u64>,
    },
}

/// A cache replacement policy over keys of one size.
pub trait CacheModel: Send {
    /// Most keys.
    fn capacity(&self) -> usize;

    /// Keys held.
    fn len(&self) -> usize;

    /// Whether nothing is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `key` is held; changes nothing.
    fn contains(&self, key: u64) -> bool;

    /// `key` will be asked for soon: a hint that changes nothing but the time it takes.
    fn expect(&mut self, _key: u64) {}

    /// `key` will be brought in at once, with others: a hint as well.
    fn expect_insert(&self, _key: u64) {}

    /// A read of `key`: counts for the policy, and brings it in.
    fn access(&mut self, key: u64) -> Access;

    /// A read of `key` if it is held: counts for the policy; changes nothing if it is not. Whether it is held.
    fn touch(&mut self, key: u64) -> bool {
        let held = self.contains(key);
        if held {
            self.access(key);
        }
        held
    }

    /// Brings `key` in without a read (prefetch, write); the key thrown out, if any. A key already held stays, and
    /// may be refreshed.
    fn insert(&mut self, key: u64) -> Option<u64>;

    /// Throws `key` out; whether it was held.
    fn remove(&mut self, key: u64) -> bool;
}
