//! Twins of the structs in `call.h` and `names.h`, byte for byte, and what becomes of them.
use crate::flight::{OpLayer, Operation};
use crate::plain::{read, Plain};
use crate::ring_probe::Counter;
use crate::scope::Whose;
use crate::told::call_op;
use case::rows::{syscall_flags, FileRow, SyscallRow, Via, PATH_PART};

/// `enum counter`, in its order.
pub const COUNTERS: [Counter; 14] = [
    Counter::Lost("name_ring_full"),
    Counter::Lost("ring_full"),
    Counter::Lost("ring_busy"),
    Counter::Lost("map_full"),
    Counter::Lost("batch_cut"),
    Counter::Lost("control_block_unread"),
    Counter::Own,
    Counter::Note("skipped_no_storage"),
    Counter::Note("skipped_in_memory"),
    Counter::Note("skipped_32_bit"),
    Counter::Note("slot_overflows"),
    Counter::Note("names_cut"),
    Counter::Lost("scope_full"),
    Counter::OutOfScope,
];

/// An operation in flight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub key: u64,
    pub start_ns: u64,
    pub owner_key: u64,
    pub user_data: u64,
    pub offset: u64,
    pub size: u64,
    pub inode: u64,
    pub argument: u64,
    pub device: u32,
    pub pid: i32,
    pub tid: i32,
    pub flags: u32,
    pub cpu: u16,
    pub call: u16,
    pub via: u8,
    pub op: u8,
    pub shape: u8,
    pub bits: u8,
    pub comm: [u8; 16],
}

/// An operation that ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallRecord {
    pub call: Call,
    pub end_ns: u64,
    pub result: i64,
    pub end_cpu: u16,
    pub pad: [u16; 3],
}

const _: () = assert!(size_of::<Call>() == 104);
const _: () = assert!(size_of::<CallRecord>() == 128);

/// The fixed part of a `struct name_record`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NameHead {
    time_ns: u64,
    inode: u64,
    device: u32,
    cut: u32,
}

// SAFETY: repr(C), integers only.
unsafe impl Plain for Call {}
unsafe impl Plain for CallRecord {}
unsafe impl Plain for NameHead {}

impl Call {
    /// The operation as triggers see it: in flight at `now_ns`.
    pub fn operation(&self, now_ns: u64) -> Operation {
        Operation {
            layer: OpLayer::Syscall,
            op: call_op(self.op),
            start_ns: self.start_ns,
            time_ns: now_ns.saturating_sub(self.start_ns),
            device: self.device,
            pid: self.pid,
            tid: self.tid,
            comm: self.comm,
        }
    }

    /// What tells whether it is in the scope.
    pub fn whose(&self) -> Whose {
        Whose::Call {
            file: (self.device, self.inode),
            owner_key: self.key_of_requests(),
        }
    }

    /// Whether its device is still to be found by its name.
    pub fn is_given(&self) -> bool {
        is_given(self.device, self.inode)
    }

    /// What its block requests are known by; 0 = nothing.
    fn key_of_requests(&self) -> u64 {
        // A request on a registered file, or a call, may be found open before its file was looked at.
        match self.flags & syscall_flags::DIRECT {
            0 => 0,
            _ => self.owner_key,
        }
    }

    /// Whether an operation is in flight here, not a call that only waits for others.
    pub fn is_open(&self) -> bool {
        self.key != 0 && self.via != Via::Wait as u8
    }

    /// The record of an operation that is still open.
    pub fn open_record(self) -> CallRecord {
        CallRecord {
            call: self,
            ..CallRecord::default()
        }
    }
}

impl CallRecord {
    /// The row.
    pub fn row(&self, op_key: u64) -> SyscallRow {
        let call = &self.call;
        SyscallRow {
            op_key,
            owner_key: call.key_of_requests(),
            user_data: call.user_data,
            start_ns: call.start_ns,
            end_ns: self.end_ns,
            offset_bytes: call.offset,
            size_bytes: call.size,
            result: self.result,
            inode: call.inode,
            device: call.device,
            pid: call.pid,
            tid: call.tid,
            flags: call.flags,
            cpu: call.cpu,
            end_cpu: self.end_cpu,
            call: call.call,
            via: call.via,
            op: call.op,
            comm: call.comm,
        }
    }
}

/// Whether a file is known by a name alone; its device is still to be found.
fn is_given(device: u32, inode: u64) -> bool {
    device == 0 && inode >> 63 == 1
}

/// A file and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// When it was found.
    pub time_ns: u64,
    /// Device and inode.
    pub file: (u32, u64),
    /// The path; one that was cut begins with `.../`.
    pub path: Vec<u8>,
}

impl Name {
    /// The number and the path of a name that a program gave from the root on; `None` for all others.
    pub fn given(record: &[u8]) -> Option<(u64, Vec<u8>)> {
        let head: NameHead = read(record)?;
        (is_given(head.device, head.inode)).then(|| Name::read(record).map(|name| (head.inode, name.path)))?
    }

    /// The same record, with the device.
    pub fn placed(record: &[u8], device: u32) -> Vec<u8> {
        let mut placed = record.to_vec();
        let at = std::mem::offset_of!(NameHead, device);
        placed[at..at + 4].copy_from_slice(&device.to_ne_bytes());
        placed
    }

    /// Reads a `struct name_record`: components from the last to the first, each with a NUL. `None` for a record that
    /// is too short.
    pub fn read(record: &[u8]) -> Option<Name> {
        let head: NameHead = read(record)?;
        let text = &record[size_of::<NameHead>()..];
        let components = text.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut path = if head.cut != 0 {
            b"...".to_vec()
        } else {
            Vec::new()
        };
        for name in components.collect::<Vec<_>>().into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Some(Name {
            time_ns: head.time_ns,
            file: (head.device, head.inode),
            path,
        })
    }

    /// The rows that hold it.
    pub fn rows(&self) -> impl Iterator<Item = FileRow> + '_ {
        let parts = self.path.chunks(PATH_PART);
        let count = parts.len() as u16;
        parts.enumerate().map(move |(part, bytes)| {
            let mut path = [0; PATH_PART];
            path[..bytes.len()].copy_from_slice(bytes);
            FileRow {
                time_ns: self.time_ns,
                inode: self.file.1,
                device: self.file.0,
                part: part as u16,
                parts: count,
                path,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &[u8], cut: u32) -> Vec<u8> {
        let mut bytes = [7u64.to_ne_bytes(), 8u64.to_ne_bytes()].concat();
        bytes.extend([9u32.to_ne_bytes(), cut.to_ne_bytes()].concat());
        bytes.extend_from_slice(text);
        bytes
    }

    #[test]
    fn names_come_from_their_components() {
        let name = Name::read(&record(b"data\0db\0mnt\0", 0)).unwrap();
        assert_eq!((name.time_ns, name.file), (7, (9, 8)));
        assert_eq!(name.path, b"/mnt/db/data");
        assert_eq!(
            Name::read(&record(b"data\0db\0", 1)).unwrap().path,
            b".../db/data"
        );
        assert_eq!(Name::read(&record(b"", 0)).unwrap().path, b"/");
        assert_eq!(Name::read(&record(b"", 0)[..23]), None);
    }

    #[test]
    fn a_long_name_takes_several_rows() {
        let text = [vec![b'x'; 200], vec![0]].concat();
        let name = Name::read(&record(&text, 0)).unwrap();
        let rows: Vec<FileRow> = name.rows().collect();
        assert_eq!(rows.len(), 2);
        assert!(rows
            .iter()
            .all(|row| row.parts == 2 && row.device == 9 && row.inode == 8));
        let path: Vec<u8> = rows.iter().flat_map(|row| row.path).collect();
        assert_eq!(&path[..201], &name.path[..]);
        assert!(path[201..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn an_open_operation_has_no_end_and_a_wait_is_none() {
        let call = Call {
            key: 5,
            start_ns: 3,
            owner_key: 9,
            ..Call::default()
        };
        assert!(call.is_open());
        let row = call.open_record().row(1);
        assert_eq!(
            (row.op_key, row.start_ns, row.end_ns, row.owner_key),
            (1, 3, 0, 0)
        );
        let wait = Call {
            via: Via::Wait as u8,
            ..call
        };
        assert!(!wait.is_open() && !Call::default().is_open());
    }
}
