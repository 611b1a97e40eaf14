//! Raw rows: what an observer appends while it runs. Narrow, fixed width, `CLOCK_MONOTONIC` ns.

/// One operation of our own workload engine (`raw/app/worker-NNN.arrows`), appended when reaped.
///
/// Constant facts of a stream are metadata of its schema, not columns: `pid`, `tid`, `comm`,
/// `worker`, `files` (JSON list of paths), `direct` (`true`/`false`), `loop` (`closed`/`rate`),
/// `queue_depth_max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppRow {
    /// `Layer::App.op_id_base() | worker << 40 | sequence`; also the `user_data` of the io_uring request.
    pub op_id: u64,
    /// When the workload meant to start it. Equals `submit_ns` in a closed loop.
    pub intended_ns: u64,
    /// Just before it was handed to the kernel.
    pub submit_ns: u64,
    /// When the batch that held its completion was seen.
    pub complete_ns: u64,
    /// When the engine took this completion.
    pub reap_ns: u64,
    /// File offset; 0 for a sync.
    pub offset_bytes: u64,
    /// Bytes asked for; 0 for a sync.
    pub size_bytes: u32,
    /// In flight by this worker at submit, this one included.
    pub queue_depth: u32,
    /// 0 or errno (positive).
    pub error: i32,
    /// `schema::Op` discriminant.
    pub op: u8,
    /// Index into the stream's `files`.
    pub file: u8,
}

/// One block request (`raw/block/block.arrows`), appended when it completes, or at detach if still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRow {
    /// Unique for each request instance of this recording; `BlockMergeRow` refers to it.
    pub request_key: u64,
    /// Operation id found in `user_data` of our own io_uring request behind the *first* bio; 0 = none.
    pub op_id: u64,
    /// First bio queued (block_bio_queue); 0 = not observed.
    pub queue_ns: u64,
    /// Request allocated and started (block_getrq / block_io_start); 0 = not observed (began before the recording, flush machinery).
    pub start_ns: u64,
    /// Inserted into the scheduler; 0 = never (direct issue).
    pub insert_ns: u64,
    /// First issue to the driver; 0 = never issued.
    pub issue_first_ns: u64,
    /// Last issue to the driver; 0 = never issued.
    pub issue_ns: u64,
    /// Begin of the interrupt run that completed it, clipped to >= `issue_ns`; 0 = not completed by an interrupt.
    pub irq_ns: u64,
    /// Completed; 0 = still open when the recording ended.
    pub complete_ns: u64,
    /// First sector, 512-byte units of the whole disk (partition start included).
    pub sector_512: u64,
    /// Bytes of data at issue.
    pub size_bytes: u32,
    /// Kernel `cmd_flags` (`REQ_OP_*` in the low 8 bits).
    pub cmd_flags: u32,
    /// Kernel dev_t of the disk: `major << 20 | minor`.
    pub device: u32,
    /// Submitting process; -1 = not observed (flush machinery, begun before the recording).
    pub pid: i32,
    /// Submitting thread; -1 = not observed.
    pub tid: i32,
    /// Completed-by vector (Linux irq number); -1 = none or not observed.
    pub vector: i32,
    /// Errno (positive), 0 = success.
    pub error: i32,
    /// CPU that started it.
    pub cpu: u16,
    /// CPU that completed it.
    pub complete_cpu: u16,
    /// Hardware queue index.
    pub hctx: u16,
    /// Times it was requeued.
    pub requeues: u16,
    /// Bios merged into it beyond the first.
    pub merges: u16,
    /// Command name of the submitting thread, NUL padded.
    pub comm: [u8; 16],
}

/// One bio beyond the first of a request that carries one of our own operations (`raw/block_merge/block_merge.arrows`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockMergeRow {
    /// `BlockRow::request_key` of the request it was merged into.
    pub request_key: u64,
    /// Our operation id.
    pub op_id: u64,
    /// Bytes of this bio.
    pub size_bytes: u32,
}

use crate::raw::raw_row;

raw_row!(AppRow, "app", {
    op_id: u64,
    intended_ns: u64,
    submit_ns: u64,
    complete_ns: u64,
    reap_ns: u64,
    offset_bytes: u64,
    size_bytes: u32,
    queue_depth: u32,
    error: i32,
    op: u8,
    file: u8,
});

raw_row!(BlockRow, "block", {
    request_key: u64,
    op_id: u64,
    queue_ns: u64,
    start_ns: u64,
    insert_ns: u64,
    issue_first_ns: u64,
    issue_ns: u64,
    irq_ns: u64,
    complete_ns: u64,
    sector_512: u64,
    size_bytes: u32,
    cmd_flags: u32,
    device: u32,
    pid: i32,
    tid: i32,
    vector: i32,
    error: i32,
    cpu: u16,
    complete_cpu: u16,
    hctx: u16,
    requeues: u16,
    merges: u16,
    comm: [u8; 16],
});

raw_row!(BlockMergeRow, "block_merge", {
    request_key: u64,
    op_id: u64,
    size_bytes: u32,
});
