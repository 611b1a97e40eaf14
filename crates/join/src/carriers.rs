//! Carriers: requests with a flush before or after their data. Where their time went, and which flush commands they
//! waited for.
//!
//! The kernel (block/blk-flush.c) makes flush commands of its own, each a row without a program, that serve all carriers
//! waiting at that moment; one per hardware queue is in flight. A carrier is at the device while its data or a flush
//! command that serves it is. Before, it waits in the queue: for its data to be handed to kblockd, for the data of
//! others, or until the flush command is done that was in flight already, which a link `queued_behind` names.
//!
//! Requests come here in order of entry. A flush command enters with its issue, so the carriers that it serves came before.
//! Held are the flush commands and waiting carriers in flight, about one and as many as there are, for each queue.
use crate::merges::Ahead;
use crate::pipeline::Out;
use crate::stages::{BlockTimes, Turn};
use crate::stream::Stream;
use case::rows::{BlockCarrierRow, BlockRow};
use case::schema::{LinkKind, LinkRow};
use case::CaseError;
use std::collections::HashMap;

/// `REQ_OP_FLUSH` in the low bits of `cmd_flags`, and `REQ_PREFLUSH`; Linux 6.1 to 6.18.
const OP_MASK: u32 = 0xff;
const OP_FLUSH: u32 = 2;
const REQ_PREFLUSH: u32 = 1 << 18;

/// Flush commands that are waited for, before those without a row are forgotten.
const EXPECTED_MAX: usize = 1 << 12;
/// A flush command is issued at most this time before it is done, for this purpose.
const LONGEST_NS: u64 = 600_000_000_000;

/// Device and hardware queue: one flush command at a time.
type QueueKey = (u32, u16);

/// A flush command that has a number.
#[derive(Clone, Copy, Debug)]
struct Flush {
    id: u64,
    issue_ns: u64,
    end_ns: u64,
}

impl Flush {
    fn is_during(&self, from_ns: u64, to_ns: u64) -> bool {
        self.issue_ns < to_ns && self.end_ns > from_ns
    }
}

/// A carrier waits to be served.
#[derive(Clone, Copy, Debug)]
struct Wait {
    id: u64,
    from_ns: u64,
    to_ns: u64,
    /// Key of the flush command that served it then; 0 = not known.
    until: u64,
}

/// Flush commands and carriers of one queue.
#[derive(Debug, Default)]
struct Queue {
    flushes: Vec<Flush>,
    waits: Vec<Wait>,
}

impl Queue {
    /// A carrier comes, with its waits.
    fn begin(&mut self, waits: &[Wait], out: &mut Out) -> Result<(), CaseError> {
        for wait in waits {
            for flush in &self.flushes {
                if flush.is_during(wait.from_ns, wait.to_ns) {
                    out.link(&queued_behind(wait.id, flush.id))?;
                }
            }
        }
        self.waits.extend(waits);
        Ok(())
    }
}

/// When a carrier waits to be served.
fn waits_of(row: &BlockRow, times: &BlockTimes, id: u64, turns: &[BlockCarrierRow]) -> Vec<Wait> {
    let mut waits = Vec::new();
    let mut free_ns = times.entry_ns;
    let mut wait = |from_ns: u64, to_ns: u64, until: u64| {
        if from_ns < to_ns {
            waits.push(Wait {
                id,
                from_ns,
                to_ns,
                until,
            });
        }
    };
    for turn in turns {
        if turn.flush_key != 0 {
            wait(free_ns, turn.issue_ns.min(turn.done_ns), turn.flush_key);
        }
        free_ns = free_ns.max(turn.done_ns);
    }
    // Not served yet, or nothing is known of what served it.
    let is_at_data = row.issue_ns > free_ns;
    if row.complete_ns == 0 && !is_at_data {
        wait(free_ns, times.end_ns, 0);
    } else if turns.is_empty() {
        let to_ns = if is_at_data { row.issue_ns } else { times.end_ns };
        wait(free_ns, to_ns, 0);
    }
    waits
}

/// Carriers that wait for a flush command to get its number.
#[derive(Debug, Default)]
struct Expected {
    carriers: Vec<u64>,
    done_ns: u64,
}

/// Carriers on their way through a seal.
pub struct Carriers<'a> {
    watched: bool,
    ahead: Ahead<'a, BlockCarrierRow>,
    rows: Vec<BlockCarrierRow>,
    queues: HashMap<QueueKey, Queue>,
    /// By the flush command's key.
    expected: HashMap<u64, Expected>,
    forget_at: usize,
}

/// Whether a request is a flush command.
pub fn is_flush(row: &BlockRow) -> bool {
    row.cmd_flags & OP_MASK == OP_FLUSH
}

impl<'a> Carriers<'a> {
    /// Before the first request; `None` where carriers were not recorded.
    pub fn new(stream: Option<&'a dyn Stream<BlockCarrierRow>>) -> Result<Carriers<'a>, CaseError> {
        Ok(Carriers {
            watched: stream.is_some(),
            ahead: Ahead::new(stream)?,
            rows: Vec::new(),
            queues: HashMap::new(),
            expected: HashMap::new(),
            forget_at: EXPECTED_MAX,
        })
    }

    /// Rows held now.
    pub fn rows_held(&self) -> usize {
        let queues = self.queues.values();
        let of_queues: usize = queues.map(|queue| queue.flushes.len() + queue.waits.len()).sum();
        self.ahead.held_rows() + of_queues + self.expected.len()
    }

    /// The times of a request with all its stays at the device.
    pub fn staged(&mut self, row: &BlockRow, times: BlockTimes) -> Result<BlockTimes, CaseError> {
        self.rows.clear();
        if !self.watched || is_flush(row) {
            return Ok(times);
        }
        self.ahead.take(row.request_key, &mut self.rows)?;
        self.rows.sort_by_key(|turn| turn.done_ns);
        let flush = row.cmd_flags & REQ_PREFLUSH != 0 || self.rows.iter().any(|turn| turn.flush_key != 0);
        let times = BlockTimes { flush, ..times };
        Ok(staged(times, row, &self.rows))
    }

    /// Links a request of those times, which is number `id`. Whether it is a flush command that served carriers: who waits
    /// for it, waits for those.
    pub fn link(
        &mut self,
        row: &BlockRow,
        times: &BlockTimes,
        id: u64,
        out: &mut Out,
    ) -> Result<bool, CaseError> {
        if !self.watched || !(times.flush || is_flush(row)) {
            return Ok(false);
        }
        let queue = self.queues.entry((row.device, row.hctx)).or_default();
        let now_ns = times.entry_ns;
        queue.flushes.retain(|flush| flush.end_ns > now_ns);
        queue.waits.retain(|wait| wait.to_ns > now_ns);
        if !is_flush(row) {
            let waits = waits_of(row, times, id, &self.rows);
            queue.begin(&waits, out)?;
            self.expect(id, now_ns);
            return Ok(false);
        }
        let flush = Flush {
            id,
            issue_ns: times.issue_ns,
            end_ns: times.end_ns,
        };
        for wait in &queue.waits {
            if wait.until != row.request_key && flush.is_during(wait.from_ns, wait.to_ns) {
                out.link(&queued_behind(wait.id, id))?;
            }
        }
        queue.flushes.push(flush);
        let Some(served) = self.expected.remove(&row.request_key) else {
            return Ok(false);
        };
        for carrier in &served.carriers {
            out.link(&LinkRow {
                parent_id: *carrier,
                child_id: id,
                bytes: 0,
                kind: LinkKind::WaitsFor,
            })?;
        }
        Ok(true)
    }

    /// The flush commands that served carrier `id` come later.
    fn expect(&mut self, id: u64, now_ns: u64) {
        for turn in self.rows.iter().filter(|turn| turn.flush_key != 0) {
            let served = self.expected.entry(turn.flush_key).or_default();
            served.carriers.push(id);
            served.done_ns = turn.done_ns;
        }
        self.forget(now_ns);
    }

    /// Forgets flush commands that should have come long ago: their rows were lost.
    fn forget(&mut self, now_ns: u64) {
        if self.expected.len() < self.forget_at {
            return;
        }
        self.expected
            .retain(|_, expected| expected.done_ns.saturating_add(LONGEST_NS) > now_ns);
        self.forget_at = EXPECTED_MAX.max(2 * self.expected.len());
    }

    /// Ends: rows of carriers that are not in the stream of requests.
    pub fn finish(self) -> Result<u64, CaseError> {
        self.ahead.finish()
    }
}

fn queued_behind(parent_id: u64, child_id: u64) -> LinkRow {
    LinkRow {
        parent_id,
        child_id,
        bytes: 0,
        kind: LinkKind::QueuedBehind,
    }
}

/// Puts the stays of a carrier at the device (by their ends) into its times.
fn staged(times: BlockTimes, row: &BlockRow, rows: &[BlockCarrierRow]) -> BlockTimes {
    let mut stays: Vec<Turn> = Vec::with_capacity(rows.len() + 1);
    let mut free_ns = times.entry_ns;
    for seen in rows {
        let done_ns = seen.done_ns.clamp(free_ns, times.end_ns);
        let issue_ns = seen.issue_ns.clamp(free_ns, done_ns);
        let irq_ns = match seen.irq_ns {
            0 => done_ns,
            irq_ns => irq_ns.clamp(issue_ns, done_ns),
        };
        stays.push(Turn {
            issue_ns,
            irq_ns,
            done_ns,
        });
        free_ns = done_ns;
    }
    if row.complete_ns == 0 && !stays.is_empty() || times.flush && stays.is_empty() {
        // What it is at now, or what is not known to have ended.
        let issued = row.issue_ns > free_ns;
        let issue_ns = if issued { row.issue_ns } else { times.end_ns };
        stays.push(Turn {
            issue_ns: issue_ns.min(times.end_ns),
            irq_ns: times.irq_ns.max(issue_ns).min(times.end_ns),
            done_ns: times.end_ns,
        });
    }
    let Some(last) = stays.pop() else { return times };
    // A carrier has at most a flush, its data and a flush; of more (contradictory records) the last ones count.
    let before = &stays[stays.len().saturating_sub(2)..];
    let mut turns = [Turn::default(); 2];
    turns[..before.len()].copy_from_slice(before);
    BlockTimes {
        turns,
        issue_ns: last.issue_ns,
        irq_ns: if last.irq_ns == last.done_ns {
            times.end_ns
        } else {
            last.irq_ns
        },
        ..times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::block_times;
    use proptest::prelude::*;

    fn turn(flush_key: u64, issue_ns: u64, irq_ns: u64, done_ns: u64) -> BlockCarrierRow {
        BlockCarrierRow {
            carrier_key: 1,
            flush_key,
            issue_ns,
            irq_ns,
            done_ns,
        }
    }

    fn carrier(issue_ns: u64, complete_ns: u64) -> BlockRow {
        BlockRow {
            queue_ns: 10,
            start_ns: 10,
            issue_first_ns: issue_ns,
            issue_ns,
            complete_ns,
            cmd_flags: 1 | REQ_PREFLUSH,
            ..BlockRow::default()
        }
    }

    fn stages_of(row: &BlockRow, rows: &[BlockCarrierRow]) -> Vec<(u64, u64, &'static str)> {
        let mut times = block_times(row, 1000);
        times.flush = true;
        let mut stages = Vec::new();
        let part = staged(times, row, rows).part(false);
        part.each_stage(0, u64::MAX, |from_ns, to_ns, stage| {
            stages.push((from_ns, to_ns, stage.name()));
        });
        stages
    }

    #[test]
    fn a_flush_then_data_then_a_flush() {
        let row = carrier(55, 100);
        let turns = [turn(7, 20, 40, 45), turn(0, 55, 60, 62), turn(8, 70, 90, 99)];
        let expected = [
            (10, 20, "queue"),
            (20, 40, "device"),
            (40, 45, "interrupt"),
            (45, 55, "queue"),
            (55, 60, "device"),
            (60, 62, "interrupt"),
            (62, 70, "queue"),
            (70, 90, "device"),
            (90, 100, "interrupt"),
        ];
        assert_eq!(stages_of(&row, &turns), expected);
    }

    #[test]
    fn an_empty_carrier_is_at_the_device_while_its_flush_is() {
        let expected = [(10, 30, "queue"), (30, 100, "device")];
        assert_eq!(stages_of(&carrier(0, 100), &[turn(7, 30, 0, 100)]), expected);
    }

    #[test]
    fn a_carrier_of_which_nothing_is_known_waits_until_its_data_are_issued() {
        assert_eq!(stages_of(&carrier(0, 100), &[]), [(10, 100, "queue")]);
        let expected = [(10, 55, "queue"), (55, 100, "device")];
        assert_eq!(stages_of(&carrier(55, 100), &[]), expected);
    }

    #[test]
    fn an_open_carrier_is_at_what_it_was_last_seen_at() {
        let open = |issue_ns| stages_of(&carrier(issue_ns, 0), &[turn(7, 20, 0, 45)]);
        let flushed = [(10, 20, "queue"), (20, 45, "device")];
        assert_eq!(open(0), [&flushed[..], &[(45, 1000, "queue")]].concat());
        let issued = [(45, 55, "queue"), (55, 1000, "device")];
        assert_eq!(open(55), [&flushed[..], &issued].concat());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn stages_cover_the_carrier_whatever_the_stamps(
            turns in prop::collection::vec((0u64..3, 0u64..150, 0u64..150, 0u64..150), 0..5),
            issue_ns in 0u64..150,
            complete_ns in prop_oneof![Just(0u64), 10u64..150],
        ) {
            let mut turns: Vec<BlockCarrierRow> =
                turns.into_iter().map(|(key, issue, irq, done)| turn(key, issue, irq, done)).collect();
            turns.sort_by_key(|turn| turn.done_ns);
            let row = carrier(issue_ns, complete_ns);
            let stages = stages_of(&row, &turns);
            let end_ns = block_times(&row, 1000).end_ns;
            let mut now_ns = 10;
            for (from_ns, to_ns, _) in stages {
                prop_assert_eq!(from_ns, now_ns);
                now_ns = to_ns;
            }
            prop_assert_eq!(now_ns, end_ns);
        }
    }
}
