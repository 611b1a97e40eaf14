//! Which records of a limited recording become rows.
use super::places::{File, Places};
use super::recent::{Recent, ENTRIES_MAX};
use crate::block::{BlockRecord, SLOT_SCOPED, SLOT_THROTTLED};
use crate::flight::Operation;
use case::rows::{BioRow, SyscallRow, Via, Writeback, WritebackRow};
use case::schema::Op;
use std::collections::{HashSet, VecDeque};

/// How long calls are remembered after newer ones of the same key: longer than a request waits to be judged.
const MEMORY_NS: u64 = 2_000_000_000;

/// What the I/O controller holds back waits for its next slice at least, which is longer.
const HELD_BACK_NS: u64 = 1_000_000;

const REQ_OP_MASK: u32 = 0xff;
const REQ_OP_WRITE: u32 = 1;
const REQ_OP_FLUSH: u32 = 2;

/// What becomes of a block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the scope.
    Within,
    /// It is not, but competes with what is: its times, size and place are kept, and nothing that identifies its owner.
    Competing,
    /// It is left out.
    Outside,
}

/// An operation that has not ended.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// As triggers see it.
    pub operation: Operation,
    /// What tells whether it is in the scope.
    pub whose: Whose,
}

/// What tells whether an operation in flight is in the scope.
#[derive(Clone, Debug)]
pub enum Whose {
    /// A call: its file, as far as it is known by now, and what its block requests are known by (0 = nothing).
    Call { file: File, owner_key: u64 },
    /// A block request.
    Request(BlockRecord),
}

/// What a recording is limited to, and what was learned of it meanwhile.
pub struct Filter {
    /// Only processes that the kernel programs follow.
    only_processes: bool,
    places: Places,
    /// Files below the folders of the scope.
    named: HashSet<File>,
    /// Files that calls in the scope have written: what is written back to them later is theirs.
    touched: Recent<File, ()>,
    /// Files whose data calls in the scope waited for: what the I/O controller held back of them is theirs, whoever queues it later.
    waited_for: Recent<File, ()>,
    /// Calls in the scope by what their block requests are known by: start and end.
    owners: Recent<u64, Spans>,
    /// Threads of calls and requests in the scope.
    threads: Recent<i32, ()>,
    /// Disks with requests in the scope.
    disks: HashSet<u32>,
}

impl Filter {
    /// Nothing is known yet.
    pub fn new(only_processes: bool, places: Places) -> Filter {
        Filter {
            only_processes,
            disks: places.disks.iter().map(|(disk, _)| *disk).collect(),
            places,
            named: HashSet::new(),
            touched: Recent::default(),
            waited_for: Recent::default(),
            owners: Recent::default(),
            threads: Recent::default(),
        }
    }

    /// Takes note of a file's name; whether it is to be kept.
    pub fn admits_name(&mut self, file: File, path: &[u8]) -> bool {
        if self.places.holds(path) {
            if self.named.len() < ENTRIES_MAX {
                self.named.insert(file);
            }
        } else {
            self.named.remove(&file);
        }
        self.admits_file(file)
    }

    /// Whether a file is in the scope.
    pub fn admits_file(&self, file: File) -> bool {
        let device = !self.places.has_devices() || self.places.devices.contains(&file.0);
        let path =
            !self.places.has_paths() || self.named.contains(&file) || self.places.files.contains(&file);
        device && path
    }

    /// Whether an operation is in the scope; its process is.
    pub fn admits_call(&mut self, call: &SyscallRow) -> bool {
        let anywhere = !self.places.has_devices() && !self.places.has_paths();
        if call.via == Via::Wait as u8 {
            return anywhere || self.threads.get(&call.tid).is_some();
        }
        let file = (call.device, call.inode);
        if !anywhere && !self.admits_file(file) {
            return false;
        }
        self.threads.insert(call.tid, ());
        let took_ns = call.end_ns.saturating_sub(call.start_ns);
        if call.op != Op::Read as u8 && call.inode != 0 {
            self.touched.insert(file, ());
        } else if call.inode != 0 && (took_ns >= HELD_BACK_NS || call.end_ns == 0) {
            self.waited_for.insert(file, ());
        }
        if call.owner_key != 0 {
            let end_ns = if call.end_ns == 0 { u64::MAX } else { call.end_ns };
            self.own(call.owner_key, (call.start_ns, end_ns));
        }
        true
    }

    fn own(&mut self, key: u64, span: (u64, u64)) {
        self.owners.entry(key, Spans::default).add(span);
    }

    /// Whether a wait of a thread is in the scope; its process is.
    pub fn admits_wait(&self, tid: i32) -> bool {
        let anywhere = !self.places.has_devices() && !self.places.has_paths();
        anywhere || self.threads.get(&tid).is_some()
    }

    /// Whether something that a file system or flusher did concerns the scope: its own threads, its files, and what
    /// journals and devices do for everybody.
    pub fn admits_writeback(&self, row: &WritebackRow) -> bool {
        let file = (row.device, row.inode);
        let known = |file: File| self.touched.get(&file).is_some() && self.admits_file(file);
        match Writeback::from_raw(row.kind) {
            Some(Writeback::Throttled | Writeback::WaitedForPage) => self.admits_wait(row.tid),
            Some(
                Writeback::Commit
                | Writeback::CommitLocking
                | Writeback::CommitFlushing
                | Writeback::CommitLogging
                | Writeback::Checkpoint
                | Writeback::LogForce
                | Writeback::TreeCommit
                | Writeback::WbtLatency
                | Writeback::WbtStep
                | Writeback::Work,
            ) => !self.places.has_devices() || self.places.devices.contains(&row.device),
            _ => known(file),
        }
    }

    /// Takes note of a request that the kernel programs have seen a process in the scope submit.
    pub fn note(&mut self, request: &BlockRecord) {
        let facts = &request.facts;
        if facts.flags & SLOT_SCOPED == 0 {
            return;
        }
        let key = request.owner.stack_key;
        if key != 0 {
            self.own(key, (facts.start_ns, request.complete_ns));
        }
        self.disks.insert(facts.device);
    }

    /// What becomes of a request; to be asked once the calls that may be behind it have ended.
    pub fn judge(&mut self, request: &BlockRecord) -> Verdict {
        let (facts, owner) = (&request.facts, &request.owner);
        if facts.cmd_flags & REQ_OP_MASK == REQ_OP_FLUSH {
            // It is no program's, and serves all that wait for it then.
            return match self.disks.contains(&facts.device) {
                true => Verdict::Within,
                false => Verdict::Outside,
            };
        }
        if self.is_within(request) {
            self.disks.insert(facts.device);
            self.threads.insert(facts.tid, ());
            if owner.stack_key != 0 {
                self.own(owner.stack_key, (facts.start_ns, request.complete_ns));
            }
            return Verdict::Within;
        }
        self.verdict_outside(facts.device)
    }

    /// What becomes of a bio that a volume got; to be asked once the calls that may be behind it have ended.
    pub fn judge_bio(&mut self, bio: &BioRow) -> Verdict {
        if self.is_bio_within(bio) {
            self.disks.insert(bio.device);
            return Verdict::Within;
        }
        self.verdict_outside(bio.device)
    }

    /// What becomes of what is not in the scope itself.
    fn verdict_outside(&self, device: u32) -> Verdict {
        if self.disks.contains(&device) {
            Verdict::Competing
        } else {
            Verdict::Outside
        }
    }

    fn is_bio_within(&self, bio: &BioRow) -> bool {
        let places = &self.places;
        if places.has_devices() && !places.devices.contains(&bio.device) {
            return false;
        }
        if !self.only_processes && !places.has_paths() {
            return true;
        }
        let file = (bio.file_device, bio.inode);
        let calls = self.owners.get(&bio.owner_key);
        let owned = bio.owner_key != 0 && calls.is_some_and(|calls| calls.hold(bio.queue_ns));
        let written = bio.cmd_flags & REQ_OP_MASK == REQ_OP_WRITE;
        let cached = written && file.0 != 0 && self.touched.get(&file).is_some();
        let by_thread = self.threads.get(&bio.tid).is_some();
        if places.has_paths() {
            return owned || file.0 != 0 && self.admits_file(file) && (by_thread || cached);
        }
        owned || cached || by_thread
    }

    /// Whether something in the scope has gone to this disk.
    pub fn uses_disk(&self, device: u32) -> bool {
        self.disks.contains(&device)
    }

    /// Those of the operations in flight that are in the scope, as far as that is known by now.
    pub fn in_flight(&self, all: Vec<InFlight>) -> Vec<Operation> {
        let anywhere = !self.places.has_devices() && !self.places.has_paths();
        // The kernel programs follow only calls of processes in the scope.
        let admits = |file: File| anywhere || (file.0 != 0 && self.admits_file(file));
        // What is known of calls is entered when they end: a request in flight is that of a call in flight.
        let key = |each: &InFlight| match each.whose {
            Whose::Call { file, owner_key } => admits(file).then_some(owner_key),
            Whose::Request(_) => None,
        };
        let keys: HashSet<u64> = all.iter().filter_map(key).filter(|key| *key != 0).collect();
        let is_within = |each: &InFlight| match &each.whose {
            Whose::Call { file, .. } => admits(*file),
            Whose::Request(request) => {
                let places = &self.places;
                let facts = &request.facts;
                let there = !places.has_devices() || places.has_request(facts.device, facts.sector_512);
                self.is_within(request) || (there && keys.contains(&request.owner.owner_key))
            }
        };
        all.into_iter()
            .filter(is_within)
            .map(|each| each.operation)
            .collect()
    }

    fn is_within(&self, request: &BlockRecord) -> bool {
        let (facts, owner) = (&request.facts, &request.owner);
        let places = &self.places;
        if places.has_devices() && !places.has_request(facts.device, facts.sector_512) {
            return false;
        }
        if !self.only_processes && !places.has_paths() {
            return true;
        }
        let file = (owner.file_device, owner.inode);
        let begin_ns = if facts.start_ns == 0 {
            facts.issue_ns
        } else {
            facts.start_ns
        };
        let calls = self.owners.get(&owner.owner_key);
        let owned = calls.is_some_and(|calls| calls.hold(begin_ns));
        let written = facts.cmd_flags & REQ_OP_MASK == REQ_OP_WRITE;
        let held_back = facts.flags & SLOT_THROTTLED != 0;
        let touched =
            written && self.touched.get(&file).is_some() || held_back && self.waited_for.get(&file).is_some();
        let cached = file.0 != 0 && touched;
        let scoped = facts.flags & SLOT_SCOPED != 0;
        if places.has_paths() {
            let by_path = file.0 != 0 && self.admits_file(file) && (!self.only_processes || scoped || cached);
            return by_path || (owner.owner_key != 0 && owned);
        }
        scoped || cached || (owner.owner_key != 0 && owned)
    }
}

/// When the calls of one key lasted, in the order of their ends.
#[derive(Default)]
struct Spans(VecDeque<(u64, u64)>);

impl Spans {
    fn add(&mut self, span: (u64, u64)) {
        let old = |(_, end_ns): &(u64, u64)| end_ns.saturating_add(MEMORY_NS) < span.0;
        while self.0.front().is_some_and(old) {
            self.0.pop_front();
        }
        // They come CPU by CPU: those of a thread that moved are not in order, but nearly.
        let place = self.0.partition_point(|(_, end_ns)| *end_ns <= span.1);
        self.0.insert(place, span);
    }

    /// Whether one of them lasted at this time.
    fn hold(&self, time_ns: u64) -> bool {
        // Those of one key hardly overlap: the first that ends later is it.
        let place = self.0.partition_point(|(_, end_ns)| *end_ns < time_ns);
        let mut later = self.0.range(place..).take(2);
        later.any(|(start_ns, _)| *start_ns <= time_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Owner;
    use crate::flight::OpLayer;

    const DISK: u32 = 8 << 20;

    fn request(flags: u8, owner_key: u64, start_ns: u64) -> BlockRecord {
        let mut request = BlockRecord::default();
        request.facts.device = DISK;
        request.facts.flags = flags;
        request.facts.start_ns = start_ns;
        request.owner = Owner {
            owner_key,
            ..Owner::default()
        };
        request
    }

    /// A call from 10 to 100.
    fn call_of(owner_key: u64) -> SyscallRow {
        SyscallRow {
            owner_key,
            start_ns: 10,
            end_ns: 100,
            ..SyscallRow::default()
        }
    }

    #[test]
    fn a_request_that_a_worker_queued_is_its_calls() {
        let mut filter = Filter::new(true, Places::default());
        assert_eq!(filter.judge(&request(0, 9, 50)), Verdict::Outside);
        let call = call_of(9);
        assert!(filter.admits_call(&call));
        assert_eq!(filter.judge(&request(0, 9, 50)), Verdict::Within);
        assert_eq!(
            filter.judge(&request(0, 9, 200)),
            Verdict::Competing,
            "after its end"
        );
        assert_eq!(filter.judge(&request(SLOT_SCOPED, 0, 200)), Verdict::Within);
    }

    #[test]
    fn flush_commands_of_the_disks_in_use_are_nobodys_and_stay() {
        let mut filter = Filter::new(true, Places::default());
        let mut flush = request(0, 0, 0);
        flush.facts.cmd_flags = REQ_OP_FLUSH;
        assert_eq!(filter.judge(&flush), Verdict::Outside);
        filter.note(&request(SLOT_SCOPED, 0, 10));
        assert_eq!(filter.judge(&flush), Verdict::Within);
    }

    #[test]
    fn what_is_written_back_later_is_its_files() {
        let mut filter = Filter::new(true, Places::default());
        let mut written = request(0, 0, 50);
        written.owner.inode = 12;
        written.owner.file_device = DISK + 1;
        assert_eq!(filter.judge(&written), Verdict::Outside);
        written.facts.cmd_flags = REQ_OP_WRITE;
        let call = SyscallRow {
            device: DISK + 1,
            inode: 12,
            op: Op::Write as u8,
            ..SyscallRow::default()
        };
        filter.admits_call(&call);
        assert_eq!(filter.judge(&written), Verdict::Within);
    }

    #[test]
    fn what_a_limit_held_back_of_a_file_is_its_readers() {
        let mut filter = Filter::new(true, Places::default());
        let mut read = request(SLOT_THROTTLED, 0, 50);
        read.owner.inode = 12;
        read.owner.file_device = DISK + 1;
        let call = |end_ns| SyscallRow {
            device: DISK + 1,
            inode: 12,
            op: Op::Read as u8,
            end_ns,
            ..SyscallRow::default()
        };
        filter.admits_call(&call(HELD_BACK_NS / 2));
        assert_eq!(filter.judge(&read), Verdict::Outside, "nobody waited for it");
        filter.admits_call(&call(2 * HELD_BACK_NS));
        assert_eq!(filter.judge(&read), Verdict::Within);
        read.facts.flags = 0;
        assert_eq!(filter.judge(&read), Verdict::Competing, "what others read of it");
        read.facts.flags = SLOT_THROTTLED;
        read.owner.inode = 13;
        assert_eq!(filter.judge(&read), Verdict::Competing, "another file");
    }

    #[test]
    fn a_bio_of_a_volume_is_its_calls_and_others_compete_with_it() {
        let mut filter = Filter::new(true, Places::default());
        let bio = |owner_key, device, queue_ns| BioRow {
            owner_key,
            device,
            queue_ns,
            tid: 5,
            ..BioRow::default()
        };
        assert_eq!(filter.judge_bio(&bio(9, DISK, 50)), Verdict::Outside);
        let call = call_of(9);
        assert!(filter.admits_call(&call));
        assert_eq!(filter.judge_bio(&bio(9, DISK, 50)), Verdict::Within);
        assert_eq!(filter.judge_bio(&bio(8, DISK, 50)), Verdict::Competing);
        assert_eq!(filter.judge_bio(&bio(8, DISK + 1, 50)), Verdict::Outside);
        assert!(filter.uses_disk(DISK) && !filter.uses_disk(DISK + 1));
    }

    #[test]
    fn calls_of_one_thread_are_told_apart_by_their_time() {
        let mut spans = Spans::default();
        let (early, late): (Vec<u64>, Vec<u64>) = (0..100).partition(|number| number % 3 == 0);
        for number in late.into_iter().chain(early) {
            spans.add((10 * number, 10 * number + 4));
        }
        assert!(spans.hold(500) && spans.hold(504) && !spans.hold(505) && !spans.hold(2000));
        spans.add((MEMORY_NS + 5000, MEMORY_NS + 5001));
        assert!(!spans.hold(500), "forgotten");
    }

    #[test]
    fn a_path_wants_its_files_only() {
        let places = Places {
            folders: vec![b"/db".to_vec()],
            ..Places::default()
        };
        let mut filter = Filter::new(false, places);
        assert!(filter.admits_name((3, 4), b"/db/wal"));
        assert!(!filter.admits_name((3, 5), b"/home/x"));
        let call = |inode| SyscallRow {
            device: 3,
            inode,
            tid: inode as i32,
            ..SyscallRow::default()
        };
        assert!(filter.admits_call(&call(4)) && !filter.admits_call(&call(5)));
        assert!(filter.admits_wait(4) && !filter.admits_wait(5));
        assert!(!filter.admits_name((3, 4), b"/old/wal"), "renamed");
        assert!(!filter.admits_call(&call(4)));
    }

    #[test]
    fn a_request_in_flight_is_told_by_the_call_in_flight() {
        let places = Places {
            files: HashSet::from([(3, 4)]),
            ..Places::default()
        };
        let filter = Filter::new(false, places);
        let operation = |tid| Operation {
            layer: OpLayer::Block,
            op: "read",
            start_ns: 1,
            time_ns: 9,
            device: DISK,
            pid: tid,
            tid,
            comm: [0; 16],
        };
        let in_flight = |tid, whose| InFlight {
            operation: operation(tid),
            whose,
        };
        let call = |inode, owner_key| Whose::Call {
            file: (3, inode),
            owner_key,
        };
        let all = vec![
            in_flight(1, call(4, 9)),
            in_flight(2, call(5, 8)),
            in_flight(3, Whose::Request(request(0, 9, 50))),
            in_flight(4, Whose::Request(request(0, 8, 50))),
            in_flight(5, Whose::Request(request(0, 0, 50))),
        ];
        let tids: Vec<i32> = filter
            .in_flight(all)
            .iter()
            .map(|operation| operation.tid)
            .collect();
        assert_eq!(tids, [1, 3]);
    }
}
