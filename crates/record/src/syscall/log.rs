//! Turns drained records into rows of the streams `syscall` and `file`.
use super::layout::{CallRecord, Name};
use crate::drain::HANDOVER_RECORDS;
use crate::pool::Pool;
use crate::probe::{Batch, Log, SharedFilter, Target};
use crate::ring_probe::Records;
use crate::sampling::SampledCalls;
use crate::streams::{Out, Stream};
use case::raw::BLOCK_ROWS;
use case::rows::{FileRow, SyscallRow};
use case::CaseError;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Files with remembered names; beyond, all are forgotten and named anew. 24 MiB or so.
const FILES_MAX: usize = 1 << 20;

/// What came out of the rings since the last drain.
#[derive(Default)]
pub struct Drained {
    /// Operations in the order of their ends, CPU by CPU.
    pub calls: Vec<CallRecord>,
    /// Names of files.
    pub names: Records,
}

impl Drained {
    /// Room for what usually comes until the next hand-over: growing would copy it again and again.
    pub fn with_room() -> Drained {
        Drained {
            calls: Vec::with_capacity(2 * HANDOVER_RECORDS),
            ..Drained::default()
        }
    }

    /// Forgets all, and keeps the room.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.names = Records::default();
    }

    /// Memory that the records take.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.calls[..]) + self.names.bytes()
    }
}

/// The streams `syscall` and `file`.
pub struct SyscallLog {
    calls: Out<SyscallRow>,
    files: Out<FileRow>,
    rows: Vec<SyscallRow>,
    count: u64,
    filter: Option<SharedFilter>,
    /// A hash of the last name written of each file.
    named: HashMap<(u32, u64), u64>,
    /// `None`: every call is kept.
    sampled: Option<SampledCalls>,
    used: Pool<Drained>,
}

impl SyscallLog {
    /// Creates both streams.
    pub fn create(target: &Target, used: Pool<Drained>) -> Result<SyscallLog, CaseError> {
        Ok(SyscallLog {
            calls: Out::create(target, &[])?,
            files: Out::create(target, &[])?,
            rows: Vec::new(),
            count: 0,
            filter: target.filter.clone(),
            named: HashMap::new(),
            sampled: target.sampler.clone().map(SampledCalls::new),
            used,
        })
    }

    /// Writes what is kept of the calls that have waited long enough, or of all.
    fn write_sampled(&mut self, all: bool) {
        let Some(sampled) = &mut self.sampled else { return };
        while let Some(rows) = sampled.give(all) {
            rows.chunks(BLOCK_ROWS)
                .for_each(|rows| self.calls.push_many(rows));
        }
    }

    fn write_name(&mut self, name: &Name) {
        if let Some(filter) = &self.filter {
            let mut filter = filter.lock().expect("no thread panics with the lock");
            if !filter.admits_name(name.file, &name.path) {
                return;
            }
        }
        let mut hasher = DefaultHasher::new();
        name.path.hash(&mut hasher);
        let hash = hasher.finish();
        if self.named.len() >= FILES_MAX {
            self.named.clear();
        }
        // Two CPUs may find the same name at once.
        if self.named.insert(name.file, hash) != Some(hash) {
            name.rows().for_each(|row| self.files.push(&row));
        }
    }
}

impl Log for SyscallLog {
    fn write(&mut self, batch: Batch) {
        let mut records: Box<Drained> = batch.data.downcast().expect("the syscall probe's own records");
        let names: Vec<Name> = records.names.iter().filter_map(Name::read).collect();
        names.iter().for_each(|name| self.write_name(name));
        if let Some(sampled) = &mut self.sampled {
            let first = self.count + 1;
            self.count += records.calls.len() as u64;
            sampled.take_in((first..).zip(&records.calls).map(|(key, record)| record.row(key)));
            records.calls.clear();
            self.write_sampled(false);
        }
        for block in records.calls.chunks(BLOCK_ROWS) {
            self.rows.clear();
            for record in block {
                self.count += 1;
                self.rows.push(record.row(self.count));
            }
            self.calls.push_many(&self.rows);
        }
        records.clear();
        self.used.give(*records);
    }

    fn end(&mut self) {
        self.write_sampled(true);
    }

    /// Names first: an operation in the file then has its file's name in the file, even after a kill.
    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.files, &mut self.calls]
    }
}
