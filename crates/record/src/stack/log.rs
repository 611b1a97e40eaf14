//! Turns records of volumes into rows.
use super::layout::Record;
use super::places::is_parity;
use crate::probe::{Batch, Log, SharedFilter, Target};
use crate::ring_probe::Records;
use crate::scope::Verdict;
use crate::streams::{Out, Stream};
use crate::sys;
use case::rows::{BioMemberRow, BioRow};
use case::CaseError;
use std::collections::VecDeque;

/// How long after its end a bio of a limited recording is judged: the operation behind it has ended by then, and names its owner.
const PATIENCE_NS: u64 = 500_000_000;

/// Bios that may wait for that (39 MB); more are judged at once.
const WAITING_MAX: usize = 1 << 18;

/// The streams `bio` and `bio_member`.
pub struct StackLog {
    bios: Out<BioRow>,
    members: Out<BioMemberRow>,
    /// `None`: every bio is wanted.
    filter: Option<SharedFilter>,
    waiting: VecDeque<BioRow>,
    outside: u64,
    parity: u64,
}

impl StackLog {
    /// Creates both streams.
    pub fn create(target: &Target) -> Result<StackLog, CaseError> {
        Ok(StackLog {
            bios: Out::create(target, &[])?,
            members: Out::create(target, &[])?,
            filter: target.filter.clone(),
            waiting: VecDeque::new(),
            outside: 0,
            parity: 0,
        })
    }

    /// Writes what ended before `until_ns`; open bios count as ended at once.
    fn judge_until(&mut self, until_ns: u64) {
        let Some(filter) = self.filter.clone() else { return };
        while let Some(bio) = self.waiting.front().copied() {
            if bio.complete_ns > until_ns && self.waiting.len() <= WAITING_MAX {
                break;
            }
            self.waiting.pop_front();
            let verdict = filter
                .lock()
                .expect("no thread panics with the lock")
                .judge_bio(&bio);
            match verdict {
                Verdict::Within => self.bios.push(&bio),
                Verdict::Competing => self.bios.push(&anonymous(bio)),
                Verdict::Outside => self.outside += 1,
            }
        }
    }
}

/// The bio without anything that identifies its owner.
fn anonymous(bio: BioRow) -> BioRow {
    BioRow {
        op_id: 0,
        owner_key: 0,
        inode: 0,
        file_offset_bytes: 0,
        file_device: 0,
        cgroup: 0,
        pid: -1,
        tid: -1,
        comm: *b"other\0\0\0\0\0\0\0\0\0\0\0",
        ..bio
    }
}

impl Log for StackLog {
    fn write(&mut self, batch: Batch) {
        for record in Records::of(batch).iter() {
            match Record::of(record) {
                Some(Record::Bio(bio)) if self.filter.is_some() => self.waiting.push_back(bio.row()),
                Some(Record::Bio(bio)) => self.bios.push(&bio.row()),
                Some(Record::Member(member)) if is_parity(&member.origin) => self.parity += 1,
                Some(Record::Member(member)) => self.members.push(&member.row()),
                None => {}
            }
        }
        self.judge_until(sys::monotonic_ns().saturating_sub(PATIENCE_NS));
    }

    fn end(&mut self) {
        self.judge_until(u64::MAX);
    }

    fn out_of_scope(&self) -> u64 {
        self.outside
    }

    /// Members first: a bio in the file then has its members in the file, even after a kill.
    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.members, &mut self.bios]
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        vec![("parity_unlinked", self.parity)]
    }
}
