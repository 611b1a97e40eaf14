//! Twins of the structs in `writeback.bpf.c`, byte for byte, and what becomes of them.
use crate::plain::Plain;
use case::rows::{Writeback, WritebackRow, NO_CAUSE};

/// An interval or moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    pub start_ns: u64,
    pub end_ns: u64,
    pub inode: u64,
    pub bytes: u64,
    pub transaction: u64,
    pub rate_bytes_per_s: u64,
    pub device: u32,
    pub pid: i32,
    pub tid: i32,
    pub kind: u8,
    pub cause: u8,
    pub pad: u16,
    pub comm: [u8; 16],
}

/// Which inode.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InodeKey {
    pub inode: u64,
    pub device: u64,
}

/// A process that dirtied an inode.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Dirtier {
    /// 0 = nobody.
    pub pid: i32,
    pub tid: i32,
    pub bytes: u64,
    pub comm: [u8; 16],
}

/// Who dirtied an inode since it was last written back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Dirtied {
    pub first_ns: u64,
    pub last_ns: u64,
    pub other_bytes: u64,
    pub by: [Dirtier; 4],
}

// SAFETY: plain integers, without gaps.
unsafe impl Plain for Record {}
unsafe impl Plain for InodeKey {}
unsafe impl Plain for Dirtied {}

const _: () = assert!(size_of::<Record>() == 80);
const _: () = assert!(size_of::<Dirtied>() == 152);

impl Record {
    /// The row.
    pub fn row(&self) -> WritebackRow {
        WritebackRow {
            start_ns: self.start_ns.min(self.end_ns),
            end_ns: self.end_ns,
            inode: self.inode,
            bytes: self.bytes,
            transaction: self.transaction,
            rate_bytes_per_s: self.rate_bytes_per_s,
            device: self.device,
            pid: self.pid,
            tid: self.tid,
            kind: self.kind,
            cause: self.cause,
            comm: self.comm,
        }
    }
}

impl Dirtied {
    /// One record for each process, and one for those beyond the places (pid -1).
    pub fn records(&self, key: InodeKey) -> Vec<Record> {
        let record = |dirtier: &Dirtier| Record {
            start_ns: self.first_ns,
            end_ns: self.last_ns,
            inode: key.inode,
            bytes: dirtier.bytes,
            device: key.device as u32,
            pid: dirtier.pid,
            tid: dirtier.tid,
            kind: Writeback::Dirtied as u8,
            cause: NO_CAUSE,
            comm: dirtier.comm,
            ..Record::default()
        };
        let others = Dirtier {
            pid: -1,
            tid: -1,
            bytes: self.other_bytes,
            comm: [0; 16],
        };
        let known = self.by.iter().filter(|dirtier| dirtier.pid != 0);
        let others = (self.other_bytes > 0).then_some(others);
        known.chain(&others).map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dirtier_has_a_record() {
        let mut dirtied = Dirtied {
            first_ns: 5,
            last_ns: 9,
            ..Dirtied::default()
        };
        dirtied.by[0] = Dirtier {
            pid: 17,
            tid: 19,
            bytes: 4096,
            comm: *b"writer\0\0\0\0\0\0\0\0\0\0",
        };
        let key = InodeKey { inode: 3, device: 7 };
        let records = dirtied.records(key);
        assert_eq!(records.len(), 1);
        assert_eq!(
            (records[0].pid, records[0].bytes, records[0].inode),
            (17, 4096, 3)
        );
        dirtied.other_bytes = 8192;
        let records = dirtied.records(key);
        assert_eq!((records[1].pid, records[1].bytes), (-1, 8192));
    }
}
