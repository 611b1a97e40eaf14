//! Operations that a server did for its client: tied to the server's system calls by file, kind, offset, size and time.
//!
//! No number of a request goes through a file server, so a call belongs to the operation of the client that was in flight when it began, asked for
//! that kind of work, and covers bytes of it. A call that fits several belongs to none: its time is unknown in each of them.
use case::rows::{OwnRow, SyscallRow};
use case::schema::Op;

/// The files of a copy on a server, by their names within the share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    source: String,
    destination: String,
}

/// Which of the two a call works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Source,
    Destination,
}

impl Served {
    /// What a workload says of itself: keys `server`, `source` and `destination`; `None` if it is no copy on a server.
    pub fn of(workload: &serde_json::Value) -> Option<Served> {
        let text = |key| workload.get(key).and_then(|value| value.as_str());
        text("server")?;
        Some(Served {
            source: text("source")?.replace('\\', "/"),
            destination: text("destination")?.replace('\\', "/"),
        })
    }

    /// What the file with this path is: the share is a folder somewhere above it. SMB does not tell capitals from small letters.
    pub(crate) fn role(&self, path: &str) -> Option<Role> {
        let is = |name: &str| {
            let at = path.len().checked_sub(name.len());
            at.is_some_and(|at| {
                (at == 0 || path.as_bytes()[at - 1] == b'/')
                    && path.as_bytes()[at..].eq_ignore_ascii_case(name.as_bytes())
            })
        };
        if is(&self.source) {
            Some(Role::Source)
        } else if is(&self.destination) {
            Some(Role::Destination)
        } else {
            None
        }
    }
}

/// Kinds of calls that move or keep data.
pub(crate) fn moves_data(call: &SyscallRow) -> bool {
    let kind = Op::from_raw(call.op);
    matches!(kind, Some(Op::Read | Op::Write | Op::Copy | Op::Sync | Op::Flush))
}

/// Whether the call began while the operation was in flight.
pub(crate) fn meanwhile(op: &OwnRow, call: &SyscallRow) -> bool {
    (op.submit_ns..op.end_ns).contains(&call.start_ns)
}

/// Bytes of the operation that the call covers, 0 for a sync; `None` if it cannot be the operation's.
pub(crate) fn fits(op: &OwnRow, call: &SyscallRow, role: Role) -> Option<u64> {
    if !meanwhile(op, call) {
        return None;
    }
    let (asked, done) = (Op::from_raw(op.op)?, Op::from_raw(call.op)?);
    let is_its_kind = match (asked, done, role) {
        (Op::Read, Op::Read, Role::Source) => true,
        // The server may have to read what it writes: a token stands for bytes of the source.
        (Op::Write | Op::Copy, Op::Read, Role::Source) => true,
        (Op::Write | Op::Copy, Op::Write, Role::Destination) => true,
        (Op::Write | Op::Copy, Op::Copy, _) => true,
        // A write may be made durable at once.
        (Op::Write | Op::Copy | Op::Sync, Op::Sync | Op::Flush, Role::Destination) => {
            return Some(0);
        }
        _ => false,
    };
    let begin = op.offset_bytes.max(call.offset_bytes);
    let end_of = |at: u64, size: u64| at.saturating_add(size);
    let end = end_of(op.offset_bytes, op.size_bytes).min(end_of(call.offset_bytes, call.size_bytes));
    (is_its_kind && end > begin).then(|| end - begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_end() {
        let told = serde_json::json!({"server": "host", "source": "in\\A.bin", "destination": "b.bin"});
        let served = Served::of(&told).unwrap();
        assert_eq!(served.role("/mnt/share/in/a.bin"), Some(Role::Source));
        assert_eq!(served.role("in/a.bin"), Some(Role::Source));
        assert_eq!(served.role("/mnt/share/b.bin"), Some(Role::Destination));
        for other in [
            "/mnt/share/xin/a.bin",
            "/mnt/ab.bin",
            "bin",
            "",
            "inode:5",
            "/mnt/ä",
        ] {
            assert_eq!(served.role(other), None, "{other}");
        }
        assert_eq!(
            Served::of(&serde_json::json!({"source": "a", "destination": "b"})),
            None
        );
    }
}
