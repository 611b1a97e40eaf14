//! Turns records of the cache probe into rows.
use super::layout::{what, ReaderKey, ReaderRecord, RunRecord, UseRecord, WaitRecord};
use crate::plain::read;
use crate::probe::{Batch, Log, Target};
use crate::ring_probe::Records;
use crate::streams::{Out, Stream};
use case::rows::{CacheReadRow, CacheWaitRow, ReadaheadRow, ReadaheadUseRow};
use case::CaseError;
use std::collections::HashMap;

/// What of a reader is in rows already.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    until_ns: u64,
    reads: u64,
    asked: u64,
    missed: u64,
    waits: u64,
    wait_ns: u64,
}

/// The readers that rows were made of, and those rows. A reader's counters only grow.
#[derive(Default)]
struct Readers {
    told: HashMap<(ReaderKey, u64), Told>,
}

impl Readers {
    /// The row of what a reader did since its last one; `None` if it did nothing.
    fn row(&mut self, record: &ReaderRecord) -> Option<CacheReadRow> {
        let (key, reader) = (record.key, &record.reader);
        let id = (key, reader.born);
        let before = match record.gone {
            0 => self.told.get(&id).copied(),
            _ => self.told.remove(&id),
        };
        let before = before.unwrap_or(Told {
            until_ns: reader.born,
            ..Told::default()
        });
        let now = Told {
            until_ns: record.time_ns.max(before.until_ns),
            reads: reader.reads,
            asked: reader.asked,
            // What is brought is counted a moment before the lookup that asked for it.
            missed: reader.missed.min(reader.asked),
            waits: reader.waits,
            wait_ns: reader.wait_ns,
        };
        if record.gone == 0 {
            self.told.insert(id, now);
        }
        (now.asked > before.asked || now.missed > before.missed).then(|| CacheReadRow {
            start_ns: before.until_ns,
            end_ns: now.until_ns,
            inode: key.inode,
            reads: now.reads - before.reads,
            pages_asked: now.asked - before.asked,
            pages_missed: now.missed - before.missed,
            waits: now.waits - before.waits,
            wait_ns: now.wait_ns - before.wait_ns,
            device: key.device,
            pid: reader.pid,
            tid: key.tid,
        })
    }
}

/// The four streams.
pub struct CacheLog {
    readers: Readers,
    reads: Out<CacheReadRow>,
    waits: Out<CacheWaitRow>,
    runs: Out<ReadaheadRow>,
    uses: Out<ReadaheadUseRow>,
}

impl CacheLog {
    /// Creates them.
    pub fn create(target: &Target) -> Result<CacheLog, CaseError> {
        Ok(CacheLog {
            readers: Readers::default(),
            reads: Out::create(target, &[])?,
            waits: Out::create(target, &[])?,
            runs: Out::create(target, &[])?,
            uses: Out::create(target, &[])?,
        })
    }

    fn write_record(&mut self, record: &[u8]) -> Option<()> {
        match read::<u32>(record)? {
            what::WAIT => self.waits.push(&read::<WaitRecord>(record)?.row()),
            what::RUN => self.runs.push(&read::<RunRecord>(record)?.row()),
            what::USE => self.uses.push(&read::<UseRecord>(record)?.row()),
            what::READER => self.write_reader(&read(record)?),
            _ => {}
        }
        Some(())
    }

    fn write_reader(&mut self, record: &ReaderRecord) {
        if let Some(row) = self.readers.row(record) {
            self.reads.push(&row);
        }
        if record.gone == 0 {
            return;
        }
        if let Some(row) = record.last_wait() {
            self.waits.push(&row);
        }
        if let Some(row) = record.last_run() {
            self.runs.push(&row);
        }
    }
}

impl Log for CacheLog {
    fn write(&mut self, batch: Batch) {
        for record in Records::of(batch).iter() {
            // The programs send no others.
            let _ = self.write_record(record);
        }
    }

    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.runs, &mut self.uses, &mut self.waits, &mut self.reads]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::layout::Reader;

    fn record(time_ns: u64, asked: u64, missed: u64, gone: u32) -> ReaderRecord {
        ReaderRecord {
            what: what::READER,
            gone,
            time_ns,
            reader: Reader {
                born: 100,
                reads: asked,
                asked,
                missed,
                ..Reader::default()
            },
            ..ReaderRecord::default()
        }
    }

    #[test]
    fn rows_are_what_grew_since_the_last_one() {
        let mut readers = Readers::default();
        let first = readers.row(&record(200, 10, 3, 0)).unwrap();
        assert_eq!((first.start_ns, first.end_ns), (100, 200));
        assert_eq!((first.pages_asked, first.pages_missed), (10, 3));
        assert_eq!(readers.row(&record(300, 10, 3, 0)), None);
        let last = readers.row(&record(400, 17, 3, 1)).unwrap();
        assert_eq!((last.start_ns, last.end_ns), (300, 400));
        assert_eq!((last.pages_asked, last.pages_missed), (7, 0));
        assert!(readers.told.is_empty());
    }

    /// A thread may be looked at after it brought pages and before they are counted as asked for.
    #[test]
    fn no_row_misses_more_than_it_asked_for() {
        let mut readers = Readers::default();
        assert_eq!(readers.row(&record(200, 0, 4, 0)), None);
        let row = readers.row(&record(300, 4, 4, 1)).unwrap();
        assert_eq!((row.pages_asked, row.pages_missed), (4, 4));
    }
}
