//! From single events of journals to what a thread was at: what `writeback.bpf.c` does where its programs see them.
use super::layout::Record;
use case::rows::{Writeback, NO_CAUSE};
use std::collections::HashMap;

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A commit of a journal begins.
    CommitBegin,
    /// Its next part begins.
    Part(Writeback),
    /// What it logged: blocks.
    Logged,
    /// It ends.
    CommitEnd,
    /// Logged blocks were written back: how many.
    Checkpoint,
    /// A thread waited for a buffer: how many milliseconds.
    BufferStall,
    /// An fsync begins.
    SyncBegin,
    /// It ends.
    SyncEnd,
    /// A thread begins to wait for space in the log.
    SpaceBegin,
    /// It goes on.
    SpaceEnd,
    /// Only this moment is seen.
    Moment(Writeback),
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub time_ns: u64,
    pub step: Step,
    /// The thread that was current when it came.
    pub tid: i32,
    /// Of the file system; 0 = not known.
    pub device: u32,
    pub inode: u64,
    pub transaction: u64,
    /// See the steps.
    pub amount: u64,
}

/// Who a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// -1 = not known: it has ended.
    pub pid: i32,
    pub comm: [u8; 16],
}

/// What threads and file systems are.
pub trait Names {
    /// A thread.
    fn who(&mut self, tid: i32) -> Who;
    /// Bytes of a block of a file system; 0 = not known.
    fn block_bytes(&mut self, device: u32) -> u64;
}

#[derive(Clone, Copy, Debug)]
struct Commit {
    start_ns: u64,
    part: Option<(Writeback, u64)>,
    blocks: u64,
}

/// What each thread is at.
#[derive(Debug, Default)]
pub struct Journals {
    commits: HashMap<i32, Commit>,
    syncs: HashMap<i32, u64>,
    space: HashMap<i32, u64>,
}

impl Journals {
    /// Takes the next event in order of time; gives `each` what has ended with it. What began unseen is left out.
    pub fn take(&mut self, seen: &Seen, names: &mut impl Names, mut each: impl FnMut(Record)) {
        let tid = seen.tid;
        match seen.step {
            Step::CommitBegin => {
                let commit = Commit {
                    start_ns: seen.time_ns,
                    part: None,
                    blocks: 0,
                };
                self.commits.insert(tid, commit);
            }
            Step::Part(next) => {
                if let Some(commit) = self.commits.get_mut(&tid) {
                    let ended = commit.part.replace((next, seen.time_ns));
                    part(ended, seen, names, each);
                }
            }
            Step::Logged => {
                if let Some(commit) = self.commits.get_mut(&tid) {
                    commit.blocks = seen.amount;
                }
            }
            Step::CommitEnd => {
                if let Some(commit) = self.commits.remove(&tid) {
                    part(commit.part, seen, names, &mut each);
                    each(Record {
                        bytes: commit.blocks * names.block_bytes(seen.device),
                        ..record(Writeback::Commit, commit.start_ns, seen, names)
                    });
                }
            }
            Step::Checkpoint if seen.amount > 0 => each(Record {
                bytes: seen.amount * names.block_bytes(seen.device),
                ..record(Writeback::Checkpoint, seen.time_ns, seen, names)
            }),
            Step::Checkpoint => {}
            Step::BufferStall => {
                let start_ns = seen.time_ns.saturating_sub(seen.amount * 1_000_000);
                each(record(Writeback::BufferStall, start_ns, seen, names));
            }
            Step::SyncBegin => {
                self.syncs.insert(tid, seen.time_ns);
            }
            Step::SyncEnd => {
                if let Some(start_ns) = self.syncs.remove(&tid) {
                    each(record(Writeback::Fsync, start_ns, seen, names));
                }
            }
            Step::SpaceBegin => {
                self.space.insert(tid, seen.time_ns);
            }
            Step::SpaceEnd => {
                if let Some(start_ns) = self.space.remove(&tid) {
                    each(record(Writeback::LogSpace, start_ns, seen, names));
                }
            }
            Step::Moment(kind) => each(record(kind, seen.time_ns, seen, names)),
        }
    }
}

fn part(ended: Option<(Writeback, u64)>, seen: &Seen, names: &mut impl Names, mut each: impl FnMut(Record)) {
    if let Some((kind, start_ns)) = ended {
        each(record(kind, start_ns, seen, names));
    }
}

/// A record of what the event's thread did until the event.
fn record(kind: Writeback, start_ns: u64, seen: &Seen, names: &mut impl Names) -> Record {
    let who = names.who(seen.tid);
    Record {
        start_ns,
        end_ns: seen.time_ns,
        inode: seen.inode,
        transaction: seen.transaction,
        device: seen.device,
        pid: who.pid,
        tid: seen.tid,
        kind: kind as u8,
        cause: NO_CAUSE,
        comm: who.comm,
        ..Record::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Names for Fixed {
        fn who(&mut self, tid: i32) -> Who {
            let comm = *b"jbd2/vda-8\0\0\0\0\0\0";
            Who { pid: tid, comm }
        }
        fn block_bytes(&mut self, _device: u32) -> u64 {
            1024
        }
    }

    fn seen(time_ns: u64, tid: i32, step: Step, amount: u64) -> Seen {
        Seen {
            time_ns,
            step,
            tid,
            device: 7,
            inode: 0,
            transaction: 5,
            amount,
        }
    }

    fn records(events: &[Seen]) -> Vec<(u8, u64, u64, u64)> {
        let (mut journals, mut records) = (Journals::default(), Vec::new());
        for event in events {
            journals.take(event, &mut Fixed, |record| {
                assert_eq!((record.device, record.tid), (7, event.tid));
                records.push((record.kind, record.start_ns, record.end_ns, record.bytes));
            });
        }
        records
    }

    #[test]
    fn a_commit_has_parts_that_follow_each_other() {
        use Writeback::{Commit, CommitFlushing, CommitLocking, CommitLogging};
        let events = [
            seen(5, 9, Step::CommitEnd, 0), // began unseen
            seen(6, 9, Step::Part(CommitLocking), 0),
            seen(10, 9, Step::CommitBegin, 0),
            seen(11, 9, Step::Part(CommitLocking), 0),
            seen(12, 8, Step::CommitBegin, 0), // another journal
            seen(20, 9, Step::Part(CommitFlushing), 0),
            seen(25, 9, Step::Part(CommitLogging), 0),
            seen(40, 9, Step::Logged, 3),
            seen(41, 9, Step::CommitEnd, 0),
            seen(50, 8, Step::CommitEnd, 0),
        ];
        let expected = [
            (CommitLocking as u8, 11, 20, 0),
            (CommitFlushing as u8, 20, 25, 0),
            (CommitLogging as u8, 25, 41, 0),
            (Commit as u8, 10, 41, 3072),
            (Commit as u8, 12, 50, 0),
        ];
        assert_eq!(records(&events), expected);
    }

    #[test]
    fn waits_and_syncs_end_on_the_thread_that_began_them() {
        let events = [
            seen(10, 1, Step::SyncBegin, 0),
            seen(11, 2, Step::SyncEnd, 0),
            seen(12, 2, Step::SpaceBegin, 0),
            seen(20, 1, Step::SyncEnd, 0),
            seen(30, 2, Step::SpaceEnd, 0),
            seen(31, 2, Step::SpaceEnd, 0),
            seen(5_000_000, 3, Step::BufferStall, 2),
            seen(5_000_001, 3, Step::Checkpoint, 0),
            seen(5_000_002, 3, Step::Checkpoint, 2),
            seen(5_000_003, 3, Step::Moment(Writeback::LogForce), 0),
        ];
        let expected = [
            (Writeback::Fsync as u8, 10, 20, 0),
            (Writeback::LogSpace as u8, 12, 30, 0),
            (Writeback::BufferStall as u8, 3_000_000, 5_000_000, 0),
            (Writeback::Checkpoint as u8, 5_000_002, 5_000_002, 2048),
            (Writeback::LogForce as u8, 5_000_003, 5_000_003, 0),
        ];
        assert_eq!(records(&events), expected);
    }
}
