//! What is to come, in the order of time and then of asking.
//!
//! Most events are due within a few microseconds: a thread's own work, a handler. These are few at any moment and come nearly in
//! order, so that a sorted list is the fastest place for them: a new one belongs near its end. Only what is farther away
//! ([`NEAR_NS`]) goes into the timing wheel ([`Wheel`]), where nothing is compared however many there are.
//!
//! Events at one time: what lies in the wheel was asked for before anything near that is due at the same time, as it was
//! still far away then. So the wheel is first.
use crate::component::{ComponentId, Message, Packed};
use crate::wheel::{Entry, Wheel};

/// Closer than this is near.
const NEAR_NS: u64 = 4096;
/// More near ones than this go into the wheel together: a long list is slow.
const NEAR_MAX: usize = 64;

/// Events to come; none before the last one taken.
#[derive(Default)]
pub struct Agenda {
    /// `near[first..]` in order; before that, what was taken.
    near: Vec<(u64, Packed)>,
    first: usize,
    far: Wheel,
    /// The earliest in the wheel; meaningless if it is empty.
    far_ns: u64,
}

impl Agenda {
    /// Adds an event at `at_ns`, which is not before `now_ns`, the time of the last one taken or later.
    #[inline]
    pub fn push(&mut self, now_ns: u64, at_ns: u64, to: ComponentId, message: Message) {
        let message = Packed::new(to, message);
        if at_ns - now_ns >= NEAR_NS {
            return self.push_far(at_ns, message);
        }
        if self.near.len() == 2 * NEAR_MAX {
            self.make_room();
        }
        let mut at = self.near.len();
        self.near.push((at_ns, message));
        while at > self.first && self.near[at - 1].0 > at_ns {
            self.near[at] = self.near[at - 1];
            at -= 1;
        }
        self.near[at] = (at_ns, message);
    }

    #[inline]
    fn push_far(&mut self, at_ns: u64, message: Packed) {
        if self.far.is_empty() || at_ns < self.far_ns {
            self.far_ns = at_ns;
        }
        self.far.push(at_ns, message);
    }

    /// Moves the near events to the begin of their list, or all into the wheel if they are many.
    #[cold]
    fn make_room(&mut self) {
        self.near.drain(..self.first);
        self.first = 0;
        if self.near.len() > NEAR_MAX {
            for (at_ns, message) in std::mem::take(&mut self.near) {
                self.push_far(at_ns, message);
            }
        }
    }

    /// Takes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        let Some(&(at_ns, message)) = self.near.get(self.first) else {
            return self.pop_far();
        };
        if !self.far.is_empty() && self.far_ns <= at_ns {
            return self.pop_far();
        }
        self.first += 1;
        if self.first == self.near.len() {
            self.near.clear();
            self.first = 0;
        }
        Some(Entry {
            at_ns,
            to: message.to(),
            message: message.message(),
        })
    }

    #[inline]
    fn pop_far(&mut self) -> Option<Entry> {
        let entry = self.far.pop()?;
        self.far_ns = self.far.earliest_ns().unwrap_or(0);
        Some(entry)
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
        prop_oneof![
            0..3u64,
            0..70u64,
            4000..4200u64,
            Just(4096),
            Just(4095),
            0..1u64 << 20,
            0..1u64 << 50
        ]
    }

    proptest! {
        /// Whenever they are asked for and taken, they come by time and then in the order of asking.
        #[test]
        fn events_come_by_time_and_then_by_order_of_asking(
            steps in prop::collection::vec((delay(), 0..3usize), 0..400),
        ) {
            let mut agenda = Agenda::default();
            let mut expected = BTreeSet::new();
            let (mut now_ns, mut asked) = (0, 0);
            let drain = steps.len();
            for (delay_ns, taken) in steps.into_iter().chain([(0, drain + 1)]) {
                expected.insert((now_ns + delay_ns, asked));
                agenda.push(now_ns, now_ns + delay_ns, 7, timer(asked));
                asked += 1;
                for _ in 0..taken {
                    let got = agenda.pop().map(|entry| (entry.at_ns, entry.to, entry.message));
                    let next = expected.pop_first();
                    prop_assert_eq!(got, next.map(|(at_ns, n)| (at_ns, 7, timer(n))));
                    now_ns = next.map_or(now_ns, |(at_ns, _)| at_ns);
                }
            }
            prop_assert!(agenda.pop().is_none() && expected.is_empty());
        }

        #[test]
        fn the_end_of_time_is_a_time(times in prop::collection::vec(prop_oneof![Just(u64::MAX), any::<u64>()], 1..40)) {
            let mut agenda = Agenda::default();
            times.iter().for_each(|at_ns| agenda.push(0, *at_ns, 0, timer(0)));
            let got: Vec<u64> = std::iter::from_fn(|| agenda.pop()).map(|entry| entry.at_ns).collect();
            let mut sorted = times;
            sorted.sort_unstable();
            prop_assert_eq!(got, sorted);
        }
    }

    #[test]
    fn many_near_events_keep_their_order() {
        let mut agenda = Agenda::default();
        let mut expected = BTreeSet::new();
        for n in 0..1000u32 {
            let at_ns = u64::from(n * 37 % 501);
            expected.insert((at_ns, n));
            agenda.push(0, at_ns, 1, timer(n));
        }
        for (at_ns, n) in expected {
            let got = agenda.pop().map(|entry| (entry.at_ns, entry.message));
            assert_eq!(got, Some((at_ns, timer(n))));
        }
    }
}
