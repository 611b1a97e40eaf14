//! A modelled drive in real time: requests are served when the model says, in virtual time that follows the clock.
//!
//! The station below keeps its own time. It hears of arrivals and is looked at when something is due; however late that look
//! comes, everything happens at the moments at which it would have happened, and in that order. So a late timer delays an answer by
//! as much and nothing else: what the next request takes does not depend on it.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A request as a drive gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Read, write or flush.
    pub op: crate::fault::Op,
    /// First byte; 0 for a flush.
    pub offset_bytes: u64,
    /// Length; 0 for a flush.
    pub size_bytes: u32,
}

/// How a drive serves a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// When it is complete; not before it began.
    pub done_ns: u64,
    /// When the drive may begin the next one.
    pub free_ns: u64,
}

/// A drive without its queue. Times are nanoseconds since the start of the disk; they never go back.
pub trait Model: Send {
    /// Whether it spins.
    fn rotational(&self) -> bool;
    /// Most commands inside the drive at once, waiting ones that it may reorder included.
    fn slots(&self) -> usize;
    /// Index in `waiting` (never empty, in order of arrival) of the command to serve next.
    fn choose(&mut self, now_ns: u64, waiting: &[Command]) -> usize;
    /// Serves one command that begins now.
    fn serve(&mut self, now_ns: u64, command: &Command) -> Served;
}

/// A drive and its queue.
pub struct Station<T> {
    model: Box<dyn Model>,
    slots: usize,
    /// Announced, but not yet at the drive in virtual time, or waiting for a slot; in order of arrival.
    arrivals: VecDeque<(u64, Command, T)>,
    /// Inside the drive, not begun; two lists of one order.
    waiting: Vec<Command>,
    items: Vec<T>,
    inside: usize,
    /// When commands that were begun are complete.
    done: BinaryHeap<Reverse<u64>>,
    free_ns: u64,
    now_ns: u64,
}

impl<T> Station<T> {
    /// An idle drive.
    pub fn new(model: Box<dyn Model>) -> Station<T> {
        Station {
            slots: model.slots().max(1),
            model,
            arrivals: VecDeque::new(),
            waiting: Vec::new(),
            items: Vec::new(),
            inside: 0,
            done: BinaryHeap::new(),
            free_ns: 0,
            now_ns: 0,
        }
    }

    /// A request arrives. Call this in the order of arrival; one with a moment before the last look counts from there.
    pub fn arrive(&mut self, arrive_ns: u64, command: Command, item: T) {
        let last_ns = self.arrivals.back().map_or(self.now_ns, |(ns, ..)| *ns);
        self.arrivals.push_back((arrive_ns.max(last_ns), command, item));
    }

    /// Lets everything happen up to `until_ns`; `begun` gets each item that the drive began, with the moment at which it is complete.
    pub fn advance(&mut self, until_ns: u64, mut begun: impl FnMut(T, u64)) {
        while let Some(next_ns) = self.next_ns().filter(|next_ns| *next_ns <= until_ns) {
            self.now_ns = self.now_ns.max(next_ns);
            // What ends makes room before anything comes in.
            while self.done.peek().is_some_and(|Reverse(ns)| *ns <= self.now_ns) {
                self.done.pop();
                self.inside -= 1;
            }
            while self.inside < self.slots && self.arrivals.front().is_some_and(|(ns, ..)| *ns <= self.now_ns)
            {
                if let Some((_, command, item)) = self.arrivals.pop_front() {
                    self.waiting.push(command);
                    self.items.push(item);
                    self.inside += 1;
                }
            }
            while self.free_ns <= self.now_ns && !self.waiting.is_empty() {
                let at = match self.waiting.len() {
                    1 => 0,
                    _ => self.model.choose(self.now_ns, &self.waiting),
                };
                let (command, item) = (self.waiting.remove(at), self.items.remove(at));
                let served = self.model.serve(self.now_ns, &command);
                self.free_ns = served.free_ns.max(self.now_ns);
                let done_ns = served.done_ns.max(self.now_ns);
                self.done.push(Reverse(done_ns));
                begun(item, done_ns);
            }
        }
    }

    /// When something happens next without anybody's doing; `None`: not before the next arrival.
    pub fn next_ns(&self) -> Option<u64> {
        let room = self.inside < self.slots;
        let arrival = self.arrivals.front().filter(|_| room).map(|(ns, ..)| *ns);
        let begin = (!self.waiting.is_empty()).then_some(self.free_ns);
        // An end matters only to who waits for room.
        let end = self
            .done
            .peek()
            .filter(|_| !self.arrivals.is_empty())
            .map(|Reverse(ns)| *ns);
        [arrival, begin, end].into_iter().flatten().min()
    }

    /// Takes out what has not begun: nobody serves it any more.
    pub fn abandon(&mut self) -> Vec<T> {
        self.waiting.clear();
        let arrivals = self.arrivals.drain(..).map(|(_, _, item)| item);
        self.items.drain(..).chain(arrivals).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Op;
    use proptest::prelude::*;

    /// Serves the nearest next, in 100 ns and the distance; reads are complete 30 ns after the drive is free.
    struct Arm {
        at: u64,
        slots: usize,
    }

    impl Model for Arm {
        fn rotational(&self) -> bool {
            true
        }
        fn slots(&self) -> usize {
            self.slots
        }
        fn choose(&mut self, _: u64, waiting: &[Command]) -> usize {
            let distance = |n: &usize| waiting[*n].offset_bytes.abs_diff(self.at);
            (0..waiting.len()).min_by_key(distance).unwrap()
        }
        fn serve(&mut self, now_ns: u64, command: &Command) -> Served {
            let free_ns = now_ns + 100 + command.offset_bytes.abs_diff(self.at);
            self.at = command.offset_bytes;
            let done_ns = free_ns + if command.op == Op::Read { 30 } else { 0 };
            Served { done_ns, free_ns }
        }
    }

    fn command(op: Op, offset_bytes: u64) -> Command {
        Command {
            op,
            offset_bytes,
            size_bytes: 4096,
        }
    }

    #[test]
    fn the_nearest_goes_first_and_slots_bound_the_choice() {
        let times = |slots| {
            let mut station = Station::new(Box::new(Arm { at: 0, slots }));
            for (number, offset) in [0, 900, 10].into_iter().enumerate() {
                station.arrive(number as u64, command(Op::Write, offset), number);
            }
            let mut done = Vec::new();
            station.advance(10_000, |item, ns| done.push((item, ns)));
            assert_eq!(station.next_ns(), None);
            done
        };
        assert_eq!(times(32), [(0, 100), (2, 210), (1, 1200)]);
        assert_eq!(times(1), [(0, 100), (1, 1100), (2, 2090)]);
    }

    #[test]
    fn what_has_not_begun_is_given_back() {
        let mut station = Station::new(Box::new(Arm { at: 0, slots: 2 }));
        for item in 0..4 {
            station.arrive(5, command(Op::Read, 10), item);
        }
        let mut begun = Vec::new();
        station.advance(5, |item, _| begun.push(item));
        assert_eq!((begun, station.abandon()), (vec![0], vec![1, 2, 3]));
    }

    proptest! {
        #[test]
        fn late_looks_change_nothing(
            arrivals in prop::collection::vec((0u64..300, 0u64..1000, any::<bool>()), 1..60),
            late in prop::collection::vec(0u64..2000, 1..20),
            slots in 1usize..8,
        ) {
            let run = |late: &mut dyn FnMut() -> u64| {
                let mut station = Station::new(Box::new(Arm { at: 0, slots }));
                let (mut done, mut at_ns, mut looked_ns) = (Vec::new(), 0, 0);
                for (number, (gap, offset, read)) in arrivals.iter().enumerate() {
                    at_ns += gap;
                    // Whatever is due before the arrival is looked at some time later, perhaps after it.
                    while let Some(next_ns) = station.next_ns().filter(|next_ns| next_ns + late() < at_ns) {
                        looked_ns = looked_ns.max(next_ns);
                        station.advance(looked_ns, |item, ns| done.push((item, ns)));
                    }
                    let op = if *read { Op::Read } else { Op::Write };
                    station.arrive(at_ns, command(op, *offset), number);
                }
                station.advance(u64::MAX - 1, |item, ns| done.push((item, ns)));
                done.sort_unstable();
                done
            };
            let mut turn = 0;
            let mut some = || { turn += 1; late[turn % late.len()] };
            prop_assert_eq!(run(&mut || 0), run(&mut some));
        }
    }
}
