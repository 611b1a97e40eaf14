//! Operations in flight, and how to find the one that a request or wait belongs to.
use crate::children::Child;
use case::rows::sampled::{self, Depth};
use case::rows::{syscall_flags, CacheWaitRow, SyscallRow, Via};
use case::schema::Op;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// A file system's number and an inode; a block device has inode 0.
pub type FileKey = (u32, u64);

/// A request of an operation, and the place of its data in the file.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Times, id, bytes, device, kind of the link.
    pub child: Child,
    /// First byte of the bio in its file.
    pub offset_bytes: u64,
    /// The file, where the data come from or go to a page cache.
    pub file: Option<FileKey>,
    /// Bytes of the file, from and to, that come with it: those of all pieces, where the device took one bio in several.
    pub whole: (u64, u64),
}

impl Request {
    /// Of a bio that begins at this byte of its file.
    pub fn new(child: Child, offset_bytes: u64, file: Option<FileKey>) -> Request {
        Request {
            child,
            offset_bytes,
            file,
            whole: (offset_bytes, offset_bytes.saturating_add(child.bytes)),
        }
    }

    /// Whether a byte of the file at `from..to` is there only once this is complete: the pages of a bio are, when its last piece is.
    pub fn brings(&self, from_bytes: u64, to_bytes: u64) -> bool {
        self.whole.0 < to_bytes && from_bytes < self.whole.1
    }
}

/// An operation in flight.
#[derive(Clone, Debug)]
pub struct Active {
    /// As recorded.
    pub row: SyscallRow,
    /// Begin, not before the case's.
    pub start_ns: u64,
    /// End, or the recording's.
    pub end_ns: u64,
    /// Requests that may be its.
    pub requests: Vec<Request>,
    /// Of direct I/O with a key: what its thread asked for without one, within its call, and what went through the page cache at its place.
    pub without_key: Vec<Request>,
    /// Its waits for pages.
    pub waits: Vec<CacheWaitRow>,
    /// Its thread could run and did not.
    pub runnable: Vec<(u64, u64)>,
    /// Its thread was made to pause because of dirty pages.
    pub throttled: Vec<(u64, u64)>,
    /// Operations of its thread in flight, this one included; `None`: not known.
    pub queue_depth: Option<usize>,
    /// It slept until a commit of the journal was on the disk, though it asked for nothing durable itself.
    pub joined_commit: bool,
    /// When it was done at the latest, where its end is when it was reaped and this is known beside it.
    pub done_ns: Option<u64>,
}

impl Active {
    /// One that begins. A copy may ask for as much as there is (`cp` asks for 2^63 bytes): its size is what it copied, and unknown if it failed.
    pub fn new(mut row: SyscallRow, start_ns: u64, end_ns: u64) -> Active {
        if Op::from_raw(row.op) == Some(Op::Copy) {
            match u64::try_from(row.result) {
                Ok(copied) if row.end_ns != 0 => row.size_bytes = copied,
                _ => row.flags |= syscall_flags::SIZE_UNSEEN,
            }
        }
        Active {
            row,
            start_ns,
            end_ns: end_ns.max(start_ns),
            requests: Vec::new(),
            without_key: Vec::new(),
            waits: Vec::new(),
            runnable: Vec::new(),
            throttled: Vec::new(),
            queue_depth: None,
            joined_commit: false,
            done_ns: None,
        }
    }

    /// A sampled recording keeps it whatever is drawn, and does not count it in the depth of others.
    fn is_long(&self) -> bool {
        self.end_ns - self.start_ns > sampled::LONG_NS
    }

    /// Direct I/O.
    pub fn direct(&self) -> bool {
        self.row.flags & syscall_flags::DIRECT != 0
    }

    /// It returns when data are durable.
    pub fn durable(&self) -> bool {
        let op = Op::from_raw(self.row.op);
        matches!(op, Some(Op::Sync | Op::Flush)) || self.row.flags & syscall_flags::SYNC != 0
    }

    /// It reads its file through the page cache: a read, a page fault, which is one, or a copy.
    pub fn buffered_read(&self) -> bool {
        let op = Op::from_raw(self.row.op);
        !self.direct() && matches!(op, Some(Op::Read | Op::Fault | Op::Copy))
    }

    /// It writes, too: not all that it waits for is a page of its file.
    pub fn is_copy(&self) -> bool {
        Op::from_raw(self.row.op) == Some(Op::Copy)
    }

    /// A page fault: known by its wait alone.
    pub fn is_fault(&self) -> bool {
        Op::from_raw(self.row.op) == Some(Op::Fault)
    }

    /// The file that it works on.
    pub fn file(&self) -> FileKey {
        (self.row.device, self.row.inode)
    }

    /// A plain system call: its thread does nothing else meanwhile.
    pub fn is_call(&self) -> bool {
        Via::from_raw(self.row.via) == Some(Via::Call)
    }

    /// Bytes of the file that it asks for, whole pages.
    pub fn pages(&self) -> (u64, u64) {
        const PAGE_BYTES: u64 = crate::beside::PAGE_BYTES;
        let from = self.row.offset_bytes / PAGE_BYTES * PAGE_BYTES;
        let end = self.row.offset_bytes.saturating_add(self.row.size_bytes);
        (from, end.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES))
    }

    /// Adds a request, or what became known of it since.
    pub fn give_again(&mut self, request: Request) {
        match self
            .requests
            .iter_mut()
            .find(|other| other.child.id == request.child.id)
        {
            Some(other) => other.whole = request.whole,
            None => self.requests.push(request),
        }
    }

    /// Adds a request once.
    pub fn give(&mut self, request: Request) {
        if self
            .requests
            .iter()
            .all(|other| other.child.id != request.child.id)
        {
            self.requests.push(request);
        }
    }
}

/// All operations in flight. They are numbered in order of start.
#[derive(Debug, Default)]
pub struct Actives {
    by_number: BTreeMap<u64, Active>,
    by_end: BinaryHeap<Reverse<(u64, u64)>>,
    by_tid: HashMap<i32, Vec<u64>>,
    by_owner: HashMap<u64, u64>,
    by_file: HashMap<FileKey, Vec<u64>>,
    durable: HashMap<u32, Vec<u64>>,
}

fn forget<K: std::hash::Hash + Eq>(map: &mut HashMap<K, Vec<u64>>, key: K, number: u64) {
    if let Some(numbers) = map.get_mut(&key) {
        // Those that began first mostly end first.
        if let Some(place) = numbers.iter().position(|other| *other == number) {
            numbers.remove(place);
        }
        if numbers.is_empty() {
            map.remove(&key);
        }
    }
}

impl Actives {
    /// An operation begins.
    pub fn begin(&mut self, number: u64, mut op: Active) {
        let of_thread = self.by_tid.entry(op.row.tid).or_default();
        of_thread.push(number);
        op.queue_depth = match sampled::depth(op.row.flags) {
            Depth::OfRows => Some(of_thread.len()),
            Depth::Unknown => None,
            Depth::Counted(counted) => {
                let numbers = of_thread.iter();
                let others = numbers.filter_map(|number| self.by_number.get(number));
                let long = others.filter(|other| other.is_long()).count() + usize::from(op.is_long());
                Some((counted + long).max(1))
            }
        };
        if op.row.owner_key != 0 {
            self.by_owner.insert(op.row.owner_key, number);
        }
        self.by_file.entry(op.file()).or_default().push(number);
        if op.durable() {
            self.durable.entry(op.row.device).or_default().push(number);
        }
        self.by_end.push(Reverse((op.end_ns, number)));
        self.by_number.insert(number, op);
    }

    /// Takes an operation that ended before `now_ns`.
    pub fn end_before(&mut self, now_ns: u64) -> Option<(u64, Active)> {
        let Reverse((end_ns, number)) = self.by_end.peek().copied()?;
        if end_ns >= now_ns && now_ns != u64::MAX {
            return None;
        }
        self.by_end.pop();
        let op = self.by_number.remove(&number)?;
        forget(&mut self.by_tid, op.row.tid, number);
        if self.by_owner.get(&op.row.owner_key) == Some(&number) {
            self.by_owner.remove(&op.row.owner_key);
        }
        forget(&mut self.by_file, op.file(), number);
        forget(&mut self.durable, op.row.device, number);
        Some((number, op))
    }

    /// Start of the first operation in flight.
    pub fn first_start_ns(&self) -> Option<u64> {
        self.by_number.first_key_value().map(|(_, op)| op.start_ns)
    }

    /// Operations in flight.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// The operation with this owner key.
    pub fn of_owner(&mut self, owner_key: u64) -> Option<&mut Active> {
        let number = self.by_owner.get(&owner_key).filter(|_| owner_key != 0)?;
        self.by_number.get_mut(number)
    }

    fn each(&mut self, numbers: Option<Vec<u64>>, mut see: impl FnMut(&mut Active)) {
        for number in numbers.into_iter().flatten() {
            if let Some(op) = self.by_number.get_mut(&number) {
                see(op);
            }
        }
    }

    /// The call of a thread waits for a commit from now on, as syncs do. Returns its file system; `None`: it is in no such call.
    pub fn joins_commit(&mut self, tid: i32) -> Option<u32> {
        let numbers = self.by_tid.get(&tid)?;
        for number in numbers {
            let Some(op) = self.by_number.get_mut(number) else {
                continue;
            };
            let only_reads = op.buffered_read() && !op.is_copy();
            if op.is_call() && !op.durable() && !only_reads && op.row.device != 0 {
                if !op.joined_commit {
                    op.joined_commit = true;
                    self.durable.entry(op.row.device).or_default().push(*number);
                }
                return Some(op.row.device);
            }
        }
        None
    }

    /// Operations of a thread.
    pub fn of_thread(&mut self, tid: i32, see: impl FnMut(&mut Active)) {
        let numbers = self.by_tid.get(&tid).cloned();
        self.each(numbers, see);
    }

    /// Operations on a file.
    pub fn of_file(&mut self, file: FileKey, see: impl FnMut(&mut Active)) {
        let numbers = self.by_file.get(&file).cloned();
        self.each(numbers, see);
    }

    /// Syncs of files of a file system.
    pub fn durable_of(&mut self, device: u32, see: impl FnMut(&mut Active)) {
        let numbers = self.durable.get(&device).cloned();
        self.each(numbers, see);
    }

    /// File systems on which syncs are in flight.
    pub fn durable_devices(&self) -> Vec<u32> {
        self.durable.keys().copied().collect()
    }
}
