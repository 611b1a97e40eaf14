//! Raw rows about the host around the I/O: what threads waited for, interrupts, sampled counters.
use crate::raw::raw_row;

/// Bytes of a name in these rows.
pub const NAME_BYTES: usize = 32;

/// Why a thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SchedState {
    /// It was woken and waited for a CPU.
    Woken,
    /// It was preempted and waited for a CPU.
    Preempted,
    /// It could have run, but its control group had used up its CPU time.
    Throttled,
    /// It slept; signals could wake it.
    Sleeping,
    /// It slept; only what it waited for could wake it.
    Uninterruptible,
    /// A signal had stopped it.
    Stopped,
    /// A tracer had stopped it.
    Traced,
    /// The freezer had stopped it.
    Frozen,
}

impl SchedState {
    /// Every state, by its raw value.
    pub const ALL: [SchedState; 8] = [
        SchedState::Woken,
        SchedState::Preempted,
        SchedState::Throttled,
        SchedState::Sleeping,
        SchedState::Uninterruptible,
        SchedState::Stopped,
        SchedState::Traced,
        SchedState::Frozen,
    ];

    /// The state of a raw value; `None` if there is none.
    pub fn from_raw(raw: u8) -> Option<SchedState> {
        SchedState::ALL.get(usize::from(raw)).copied()
    }
}

/// What a sleeping thread slept for, as far as it is known without looking at its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SchedReason {
    /// Not known.
    None,
    /// The kernel counts it as waiting for I/O.
    Io,
    /// A mutex.
    Mutex,
    /// A lock, to read.
    ReadLock,
    /// A lock, to write.
    WriteLock,
    /// A lock of a kernel with real-time locks.
    RtMutex,
    /// A per-CPU lock, to read: what writers of a frozen file system wait for (`percpu_rw_semaphore`).
    PercpuReadLock,
}

/// Values of [`SchedRow::by`] with a meaning: functions in which a queue's own controllers hold back who submits a bio.
pub mod sched_by {
    /// Writeback throttling (block/blk-wbt.c), and io.latency (block/blk-iolatency.c).
    pub const WBT: &str = "rq_qos_wait";
    /// io.cost (block/blk-iocost.c).
    pub const IO_COST: &str = "ioc_rqos_throttle";
}

impl SchedReason {
    /// Names by raw value; empty where nothing is known.
    pub const NAMES: [&str; 7] = [
        "",
        "io",
        "mutex",
        "read lock",
        "write lock",
        "rt mutex",
        "per-CPU read lock",
    ];
}

/// A time in which a thread in scope did not run (`raw/sched`), appended when it ends, or at the end of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedRow {
    /// When it left its CPU, or was woken.
    pub start_ns: u64,
    /// When it was woken, or ran; 0 = still waiting when the recording ended.
    pub end_ns: u64,
    /// Thread.
    pub tid: i32,
    /// Process.
    pub pid: i32,
    /// Process that ran in its place: of the last eight to run on its CPU the one that ran longest meanwhile, or, if
    /// it went to another CPU, the one that preempted it; 0 = none, or the idle task.
    pub by_pid: i32,
    /// CPU that it waited for, or left.
    pub cpu: u16,
    /// `SchedState`.
    pub state: u8,
    /// `SchedReason`.
    pub reason: u8,
    /// Its command name, NUL padded.
    pub comm: [u8; 16],
    /// Who ran in its place, or the kernel function in which it slept (looked at once per millisecond and thread);
    /// NUL padded, empty = not observed.
    pub by: [u8; NAME_BYTES],
    /// Thread that woke it from a sleep of 100 us or more that was not for I/O; 0 = not observed, or an interrupt.
    pub waker_tid: i32,
    /// Its process.
    pub waker_pid: i32,
    /// Its command name, NUL padded.
    pub waker: [u8; 16],
}

/// A run of an interrupt handler or softirq (`raw/irq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IrqRow {
    /// Begin.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Linux number of the interrupt; -1 = a softirq.
    pub vector: i32,
    /// CPU.
    pub cpu: u16,
    /// 0 = interrupt handler, 1 = softirq.
    pub kind: u8,
    /// Name of the handler or softirq, NUL padded.
    pub handler: [u8; NAME_BYTES],
}

/// All runs of one handler or softirq on one CPU within about a second (`raw/irq_total`), those in `raw/irq` included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IrqTotalRow {
    /// Begin of the window.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Runs that ended in it.
    pub runs: u64,
    /// Their time.
    pub busy_ns: u64,
    /// As in `IrqRow`.
    pub vector: i32,
    /// As in `IrqRow`.
    pub cpu: u16,
    /// As in `IrqRow`.
    pub kind: u8,
    /// As in `IrqRow`.
    pub handler: [u8; NAME_BYTES],
}

/// One sample (`raw/sample`) of a counter that the kernel shows in `/proc` or `/sys`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleRow {
    /// When it was read.
    pub time_ns: u64,
    /// Rates and ratios: since the sample before.
    pub value: f64,
    /// `schema::SubjectKind`, by its place in `ALL`.
    pub kind: u8,
    /// Device, CPU, ...; NUL padded.
    pub subject: [u8; NAME_BYTES],
    /// Name with unit, NUL padded.
    pub metric: [u8; NAME_BYTES],
}

raw_row!(SchedRow, "sched", {
    start_ns: u64,
    end_ns: u64,
    tid: i32,
    pid: i32,
    by_pid: i32,
    cpu: u16,
    state: u8,
    reason: u8,
    comm: [u8; 16],
    by: [u8; NAME_BYTES],
}, later {
    waker_tid: i32,
    waker_pid: i32,
    waker: [u8; 16],
});

raw_row!(IrqRow, "irq", {
    start_ns: u64,
    end_ns: u64,
    vector: i32,
    cpu: u16,
    kind: u8,
    handler: [u8; NAME_BYTES],
});

raw_row!(IrqTotalRow, "irq_total", {
    start_ns: u64,
    end_ns: u64,
    runs: u64,
    busy_ns: u64,
    vector: i32,
    cpu: u16,
    kind: u8,
    handler: [u8; NAME_BYTES],
});

raw_row!(SampleRow, "sample", {
    time_ns: u64,
    value: f64,
    kind: u8,
    subject: [u8; NAME_BYTES],
    metric: [u8; NAME_BYTES],
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{RawReader, RawRow, RawWriter};

    /// What version 3 wrote.
    #[derive(Clone, Copy, Default)]
    struct Earlier {
        start_ns: u64,
        end_ns: u64,
        tid: i32,
        pid: i32,
        by_pid: i32,
        cpu: u16,
        state: u8,
        reason: u8,
        comm: [u8; 16],
        by: [u8; NAME_BYTES],
    }

    raw_row!(Earlier, "sched", {
        start_ns: u64,
        end_ns: u64,
        tid: i32,
        pid: i32,
        by_pid: i32,
        cpu: u16,
        state: u8,
        reason: u8,
        comm: [u8; 16],
        by: [u8; NAME_BYTES],
    });

    /// What lacks a column that no version lacked.
    #[derive(Clone, Copy, Default)]
    struct Cut {
        start_ns: u64,
        end_ns: u64,
    }

    raw_row!(Cut, "sched", { start_ns: u64, end_ns: u64 });

    fn written<R: RawRow>(rows: &[R]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sched.arrows");
        let mut writer = RawWriter::<R>::create(&path, &[]).unwrap();
        writer.push_many(rows).unwrap();
        writer.finish().unwrap();
        (folder, path)
    }

    #[test]
    fn a_stream_of_an_earlier_version_lacks_the_columns_that_came_later() {
        let row = Earlier {
            start_ns: 5,
            end_ns: 9,
            tid: 7,
            by: [1; NAME_BYTES],
            ..Earlier::default()
        };
        let (_folder, path) = written(&[row; 3000]);
        let mut reader = RawReader::<SchedRow>::open(&path).unwrap();
        let (mut batch, mut rows) = (
            vec![SchedRow {
                waker_tid: 99,
                ..SchedRow::default()
            }],
            Vec::new(),
        );
        while reader.next_batch(&mut batch).unwrap() {
            rows.extend_from_slice(&batch);
        }
        assert!(reader.truncation().is_none());
        let expected = SchedRow {
            start_ns: 5,
            end_ns: 9,
            tid: 7,
            by: [1; NAME_BYTES],
            ..SchedRow::default()
        };
        assert_eq!(rows, vec![expected; 3000]);
    }

    #[test]
    fn other_columns_must_be_there() {
        let (_folder, path) = written(&[Cut {
            start_ns: 1,
            end_ns: 2,
        }]);
        let error = RawReader::<SchedRow>::open(&path).err().unwrap().to_string();
        assert!(
            error.contains("schema column 2: expected tid: Int32, found none"),
            "{error}"
        );
    }
}
