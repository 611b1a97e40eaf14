//! Operations as a program itself saw them: tied to the system calls of their thread, which say where their time went, or to those of the
//! server that did them ([`crate::served`]), and to those of others of them that they slept for ([`crate::peers`]).
//!
//! They are taken up along with the system calls, in order of start. One is written when every call that began before it
//! ended has been written.
use crate::beside::text;
use crate::peers::{Behind, Peers};
use crate::pipeline::Out;
use crate::served::{self, Served};
use crate::sorted::{Sorted, Surveyed, Timed};
use crate::spans::Spans;
use crate::stream::Stream;
use crate::syscalls::timeline::{Stretch, Timeline};
use case::rows::{OwnRow, SchedRow, SyscallRow};
use case::schema::{flags, Layer, LinkKind, LinkRow, NameId, Op, OpRow, Stage};
use case::CaseError;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

/// Operations that wait for an earlier one to end, before they are written out of order.
const HELD_MAX: usize = 1 << 17;

impl Timed for OwnRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (self.end_ns, u64::from(self.tid as u32))
    }
}

/// A system call with a known time, as its thread's operations need it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Number in layer `syscall`.
    pub(crate) op_id: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) device: Option<u32>,
    pub(crate) bytes: u64,
    /// Bits of `schema::flags`.
    pub(crate) flags: u32,
}

/// An operation and what is known of it so far.
#[derive(Clone, Debug)]
struct Held {
    row: OwnRow,
    calls: Vec<Call>,
    /// Its thread could run and did not: time of that before it was submitted, and when after that. Known when it is complete.
    runnable_before_ns: u64,
    runnable: Vec<(u64, u64)>,
    /// Calls of the server that fit other operations as well.
    ambiguous: Vec<(u64, u64)>,
}

/// The operations of a thread that may still get calls. A program that falls behind its intended rate has a great many: nothing here goes
/// through all of them.
#[derive(Debug, Default)]
struct Lane {
    /// In order of start.
    numbers: BTreeSet<u64>,
    /// End and number of those that took at least 2^key ns once they were submitted, and less than twice that: one that took very long does
    /// not make the others harder to find.
    by_end: BTreeMap<u32, BTreeSet<(u64, u64)>>,
    /// When it could run and did not.
    runnable: Spans,
}

impl Lane {
    fn insert(&mut self, number: u64, row: &OwnRow) {
        self.numbers.insert(number);
        let alike = self.by_end.entry(length_class(row)).or_default();
        alike.insert((row.end_ns, number));
    }

    fn remove(&mut self, number: u64, row: &OwnRow) {
        self.numbers.remove(&number);
        if let Some(alike) = self.by_end.get_mut(&length_class(row)) {
            alike.remove(&(row.end_ns, number));
            if alike.is_empty() {
                self.by_end.remove(&length_class(row));
            }
        }
    }

    /// All that were submitted until `to_ns` and ended after `from_ns`, and about as many others.
    fn around(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = u64> + '_ {
        self.by_end.iter().flat_map(move |(class, alike)| {
            let longest_ns = u64::MAX >> (63 - class);
            let until_ns = to_ns.saturating_add(longest_ns).max(from_ns);
            let around = alike.range((from_ns, u64::MAX)..=(until_ns, u64::MAX));
            around.map(|(_, number)| *number)
        })
    }
}

/// Logarithm to base 2 of the time that it took once it was submitted.
fn length_class(row: &OwnRow) -> u32 {
    row.end_ns.saturating_sub(row.submit_ns).max(1).ilog2()
}

/// Name and process of a thread.
#[derive(Clone, Copy, Debug)]
struct Thread {
    pid: i32,
    comm: Option<NameId>,
}

/// The operations of a program on their way through a seal.
pub(crate) struct OwnSide<'a> {
    rows: Sorted<'a, OwnRow>,
    /// By number, in order of start.
    held: BTreeMap<u64, Held>,
    /// Of those, what may still get calls, by thread.
    by_tid: HashMap<i32, Lane>,
    /// The same by end, number and thread.
    ending: BinaryHeap<Reverse<(u64, u64, i32)>>,
    /// Of those held, what nothing can come for any more.
    complete: BTreeSet<u64>,
    threads: HashMap<i32, Thread>,
    peers: Peers,
    next_number: u64,
    /// System calls were recorded.
    calls_watched: bool,
    sched_watched: bool,
    interrupts_watched: bool,
    /// The files of operations that a server does.
    served: Option<&'a Served>,
}

impl<'a> OwnSide<'a> {
    pub(crate) fn new(
        stream: Option<&'a dyn Stream<OwnRow>>,
        surveyed: &Surveyed<OwnRow>,
        calls_watched: bool,
        sched_watched: bool,
        interrupts_watched: bool,
        served: Option<&'a Served>,
    ) -> Result<OwnSide<'a>, CaseError> {
        Ok(OwnSide {
            rows: Sorted::new(stream, surveyed)?,
            held: BTreeMap::new(),
            by_tid: HashMap::new(),
            ending: BinaryHeap::new(),
            complete: BTreeSet::new(),
            threads: HashMap::new(),
            peers: Peers::default(),
            next_number: 0,
            calls_watched,
            sched_watched,
            interrupts_watched,
            served,
        })
    }

    /// Rows held now.
    pub(crate) fn rows_held(&self) -> usize {
        self.held.len()
    }

    /// Whether no operation is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.rows.peek().is_none() && self.held.is_empty()
    }

    /// Start of the next operation.
    pub(crate) fn peek_ns(&self) -> Option<u64> {
        self.rows.peek().map(|row| row.start_ns)
    }

    /// The next operation begins.
    pub(crate) fn begin(&mut self) -> Result<(), CaseError> {
        let Some(row) = self.rows.take()? else {
            return Ok(());
        };
        let number = self.next_number;
        let held = Held {
            row,
            calls: Vec::new(),
            runnable_before_ns: 0,
            runnable: Vec::new(),
            ambiguous: Vec::new(),
        };
        self.held.insert(number, held);
        self.peers.add(&row);
        self.by_tid.entry(row.tid).or_default().insert(number, &row);
        self.ending.push(Reverse((row.end_ns, number, row.tid)));
        self.next_number += 1;
        Ok(())
    }

    /// A thread had something to do and no CPU.
    pub(crate) fn runnable(&mut self, tid: i32, span: (u64, u64)) {
        if let Some(lane) = self.by_tid.get_mut(&tid) {
            lane.runnable.add(span.0, span.1);
        }
    }

    /// A thread waited until `end_ns`.
    pub(crate) fn wait(&mut self, row: &SchedRow, end_ns: u64) {
        let asked_from_ns = self.asked_from_ns();
        self.peers.wait(row, end_ns, asked_from_ns);
    }

    /// No operation that is still to be written began before.
    fn asked_from_ns(&self) -> u64 {
        let of_held = self.held.first_key_value().map(|(_, held)| held.row.start_ns);
        of_held
            .into_iter()
            .chain(self.peek_ns())
            .min()
            .unwrap_or(u64::MAX)
    }

    /// A system call of a thread, when it is written, and the file that it works on.
    pub(crate) fn call(&mut self, raw: &SyscallRow, file: Option<NameId>, out: &mut Out, call: Call) {
        let Some(lane) = self.by_tid.get(&raw.tid) else {
            return self.call_of_server(raw, file, out, call);
        };
        self.threads.entry(raw.tid).or_insert_with(|| Thread {
            pid: raw.pid,
            comm: text(&raw.comm).map(|comm| out.names.id(&comm)),
        });
        let asked_from_ns = self.asked_from_ns();
        self.peers.call(raw.tid, &call, asked_from_ns);
        for number in lane.around(call.start_ns, call.end_ns) {
            let held = self.held.get_mut(&number);
            let meanwhile =
                |held: &&mut Held| call.start_ns < held.row.end_ns && call.end_ns > held.row.submit_ns;
            if let Some(held) = held.filter(meanwhile) {
                held.calls.push(call.clone());
            }
        }
    }

    /// A system call of a thread that has no operations of its own.
    fn call_of_server(&mut self, raw: &SyscallRow, file: Option<NameId>, out: &mut Out, call: Call) {
        let (Some(served), Some(file)) = (self.served, file) else {
            return;
        };
        if self.by_tid.is_empty() || !served::moves_data(raw) {
            return;
        }
        let Some(role) = served.role(out.names.get(file)) else {
            return;
        };
        let (mut in_flight, mut fitting) = (false, Vec::new());
        let around = |lane| Lane::around(lane, raw.start_ns, raw.start_ns);
        for number in self.by_tid.values().flat_map(around) {
            let Some(held) = self.held.get(&number) else {
                continue;
            };
            in_flight |= served::meanwhile(&held.row, raw);
            fitting.extend(served::fits(&held.row, raw, role).map(|bytes| (number, bytes)));
        }
        match fitting[..] {
            // What the server does while nobody asks it is its own matter.
            [] => out.counts.served_alone += u64::from(in_flight),
            [(number, bytes)] => {
                out.counts.served_tied += 1;
                if let Some(held) = self.held.get_mut(&number) {
                    held.calls.push(Call { bytes, ..call });
                }
            }
            _ => {
                out.counts.served_ambiguous += 1;
                for (number, _) in fitting {
                    if let Some(held) = self.held.get_mut(&number) {
                        held.ambiguous.push((call.start_ns, call.end_ns));
                    }
                }
            }
        }
    }

    /// Writes what is complete: no call that began before `settled_ns` is still to come.
    pub(crate) fn settle(&mut self, settled_ns: u64, out: &mut Out) -> Result<(), CaseError> {
        while let Some(Reverse((end_ns, number, tid))) = self.ending.peek().copied() {
            if end_ns > settled_ns {
                break;
            }
            self.ending.pop();
            self.finish(number, tid);
        }
        while let Some(first) = self.held.first_entry() {
            if self.complete.remove(first.key()) {
                let op = first.remove();
                self.write(&op, out)?;
            } else if self.held.len() > HELD_MAX {
                self.write_others(out)?;
                break;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Nothing can come for an operation any more.
    fn finish(&mut self, number: u64, tid: i32) {
        self.complete.insert(number);
        let Some(lane) = self.by_tid.get_mut(&tid) else {
            return;
        };
        if let Some(held) = self.held.get_mut(&number) {
            let row = &held.row;
            held.runnable_before_ns = lane.runnable.covered_ns(row.start_ns, row.submit_ns);
            held.runnable = lane.runnable.within(row.submit_ns, row.end_ns);
            lane.remove(number, row);
        }
        match lane.numbers.first().and_then(|first| self.held.get(first)) {
            Some(first) => lane.runnable.forget(first.row.start_ns),
            None => {
                self.by_tid.remove(&tid);
            }
        }
    }

    /// A very long operation holds up all that began after it: those that are complete are written before it.
    fn write_others(&mut self, out: &mut Out) -> Result<(), CaseError> {
        for number in std::mem::take(&mut self.complete) {
            if let Some(op) = self.held.remove(&number) {
                self.write(&op, out)?;
            }
        }
        Ok(())
    }

    fn write(&self, op: &Held, out: &mut Out) -> Result<(), CaseError> {
        let (row, op_id) = (&op.row, Layer::App.op_id_base() + out.counts.app_rows);
        out.counts.app_rows += 1;
        for call in &op.calls {
            out.link(&LinkRow {
                parent_id: op_id,
                child_id: call.op_id,
                bytes: call.bytes as i64,
                kind: LinkKind::WaitsFor,
            })?;
        }
        let behind = self.peers.behind(row.tid, row.submit_ns, row.end_ns);
        for call in &behind.calls {
            out.link(&call.link(op_id))?;
        }
        let known = self.calls_watched && row.tid != 0;
        if known && (self.served.is_none() || !op.calls.is_empty()) {
            out.counts.joined += 1;
        }
        let own = op.calls.iter().filter_map(|call| call.device);
        let mut devices = own.chain(behind.calls.iter().filter_map(|call| call.device));
        let first = devices.next();
        let device = first.filter(|device| devices.all(|other| other == *device));
        let thread = self.threads.get(&row.tid);
        let sealed = OpRow {
            op_id,
            start_ns: out.case_ns(row.start_ns),
            latency_ns: (row.end_ns - row.start_ns) as i64,
            open: false,
            op: Op::from_raw(row.op).unwrap_or(Op::Other),
            flags: flags_of(op, &behind),
            host: out.host,
            device: device.map(|device| out.device(device)),
            file: None,
            comm: thread.and_then(|thread| thread.comm),
            cgroup: None,
            offset_bytes: (row.size_bytes != 0).then_some(row.offset_bytes as i64),
            size_bytes: (row.size_bytes != 0).then_some(row.size_bytes as i64),
            queue_depth: None,
            pid: thread.map(|thread| thread.pid),
            tid: (row.tid != 0).then_some(row.tid),
            cpu: None,
            complete_cpu: None,
            hctx: None,
            vector: None,
            error: row.error,
            weight: 1.0,
            stages: self.stages(op, known, &behind),
            foreign_handler_ns: None,
        };
        out.sink.op(Layer::App, &sealed, out.names)
    }

    fn stages(&self, op: &Held, known: bool, behind: &Behind) -> [Option<i64>; 9] {
        let mut sums = timeline(op, known, self.sched_watched, behind).sums();
        // Until it was submitted it was the program's own, or its thread waited for a CPU.
        sums[Stage::App as usize] += op.row.submit_ns - op.row.start_ns - op.runnable_before_ns;
        sums[Stage::Runqueue as usize] += op.runnable_before_ns;
        if !self.interrupts_watched {
            sums[Stage::Device as usize] += std::mem::take(&mut sums[Stage::Interrupt as usize]);
        }
        let mut stages = sums.map(|ns| Some(ns as i64));
        for (stage, ns) in Stage::ALL.into_iter().zip(&mut stages) {
            // What no operation of a case can have was not observed.
            let seen = self.calls_watched || matches!(stage, Stage::App | Stage::Unknown);
            let seen = seen && (stage != Stage::Interrupt || self.interrupts_watched);
            if !seen || stage == Stage::Runqueue && !self.sched_watched {
                *ns = None;
            }
        }
        stages
    }
}

/// Where an operation's time went once it was submitted: in its thread's calls what those say, asleep for another operation what its calls say, else in the
/// program itself.
fn timeline(op: &Held, known: bool, sched_watched: bool, behind: &Behind) -> Timeline {
    let row = &op.row;
    let mut timeline = Timeline::default();
    if !known {
        timeline.add(row.submit_ns, row.end_ns, Stage::Unknown);
        return timeline;
    }
    let mut now_ns = row.submit_ns;
    let mut calls: Vec<&Call> = op.calls.iter().collect();
    calls.sort_by_key(|call| (call.start_ns, call.op_id));
    for call in calls {
        let from_ns = call.start_ns.max(now_ns);
        let to_ns = call.end_ns.min(row.end_ns);
        if to_ns <= from_ns {
            continue;
        }
        timeline.add(now_ns, from_ns, Stage::App);
        for stretch in &call.stretches {
            timeline.add(
                stretch.from_ns.max(from_ns),
                stretch.to_ns.min(to_ns),
                stretch.stage,
            );
        }
        now_ns = to_ns;
    }
    timeline.add(now_ns, row.end_ns, Stage::App);
    timeline.move_to(Stage::Unknown, &[Stage::App], &op.ambiguous);
    behind.hand_on(&mut timeline, Stage::App);
    if sched_watched {
        timeline.move_to(Stage::Runqueue, &[Stage::App], &op.runnable);
    }
    timeline
}

/// What its calls say of it, its own and those that it slept for.
fn flags_of(op: &Held, behind: &Behind) -> u32 {
    let own = op.calls.iter().map(|call| call.flags);
    let all = own.chain(behind.calls.iter().map(|call| call.flags));
    all.fold(0, |bits, flags| bits | flags) & flags::FLUSH | wbt_of(&op.calls)
}

/// The flag of writeback throttling, if the calls that it held were held back for longer than the others.
fn wbt_of(calls: &[Call]) -> u32 {
    let (mut wbt_ns, mut others_ns, mut any) = (0, 0, 0);
    for call in calls {
        let held = call
            .stretches
            .iter()
            .filter(|stretch| stretch.stage == Stage::Throttle);
        let held_ns: u64 = held.map(|stretch| stretch.to_ns - stretch.from_ns).sum();
        any |= call.flags & flags::WBT;
        *(if call.flags & flags::WBT != 0 {
            &mut wbt_ns
        } else {
            &mut others_ns
        }) += held_ns;
    }
    if wbt_ns >= others_ns {
        any
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn held(flags: u32, length_ns: u64) -> Call {
        Call {
            op_id: 0,
            start_ns: 0,
            end_ns: length_ns,
            stretches: vec![Stretch {
                from_ns: 0,
                to_ns: length_ns,
                stage: Stage::Throttle,
            }],
            device: None,
            bytes: 0,
            flags,
        }
    }

    #[test]
    fn what_a_limit_held_for_longer_is_no_writeback_throttling() {
        assert_eq!(wbt_of(&[held(flags::WBT, 30), held(0, 20)]), flags::WBT);
        assert_eq!(wbt_of(&[held(flags::WBT, 3), held(0, 200)]), 0);
        assert_eq!(wbt_of(&[held(0, 200)]), 0);
    }

    proptest! {
        #[test]
        fn a_lane_leaves_out_no_operation_of_a_time(
            rows in prop::collection::vec((0u64..100, 0u64..50, 0u64..50), 0..30),
            from_ns in 0u64..200,
            length_ns in 0u64..50,
        ) {
            let mut lane = Lane::default();
            let mut wanted = BTreeSet::new();
            let to_ns = from_ns + length_ns;
            for (number, (start_ns, before_ns, length_ns)) in rows.into_iter().enumerate() {
                let submit_ns = start_ns + before_ns;
                let row = OwnRow { start_ns, submit_ns, end_ns: submit_ns + length_ns, ..OwnRow::default() };
                lane.insert(number as u64, &row);
                if row.end_ns > from_ns && submit_ns <= to_ns {
                    wanted.insert(number as u64);
                }
            }
            let around: BTreeSet<u64> = lane.around(from_ns, to_ns).collect();
            prop_assert!(around.is_superset(&wanted), "{around:?} {wanted:?}");
        }
    }
}
