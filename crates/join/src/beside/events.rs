//! `events/`: what flushers and journals did, and who had dirtied what they wrote.
use super::{text, Streams, Surveys};
use crate::pipeline::Out;
use crate::sorted::Sorted;
use case::rows::{Writeback, WritebackRow, WRITEBACK_CAUSES};
use case::schema::EventRow;
use case::CaseError;

/// Name of the event for a kind of row; `None` for those that are waits, or parts of another row.
fn event_kind(kind: Writeback) -> Option<&'static str> {
    match kind {
        Writeback::Work => Some("writeback"),
        Writeback::InodeWritten => Some("inode_written"),
        Writeback::Dirtied => Some("dirtied"),
        Writeback::Commit => Some("journal_commit"),
        Writeback::CommitLocking => Some("journal_commit_locking"),
        Writeback::CommitFlushing => Some("journal_commit_flushing"),
        Writeback::CommitLogging => Some("journal_commit_logging"),
        Writeback::Checkpoint => Some("journal_checkpoint"),
        Writeback::Fsync => Some("fsync"),
        Writeback::LogForce => Some("log_force"),
        Writeback::TreeCommit => Some("tree_commit"),
        Writeback::WbtLatency => Some("wbt_latency"),
        Writeback::WbtStep => Some("wbt_step"),
        Writeback::Throttled
        | Writeback::WaitedForPage
        | Writeback::BufferStall
        | Writeback::LogSpace
        | Writeback::Reclaim
        | Writeback::Compaction => None,
    }
}

pub(super) fn write(surveys: &Surveys, streams: &Streams, out: &mut Out) -> Result<(), CaseError> {
    let mut rows = Sorted::new(streams.writeback, &surveys.writeback)?;
    while let Some(row) = rows.take()? {
        let Some(kind) = Writeback::from_raw(row.kind) else {
            continue;
        };
        let Some(event) = event_kind(kind) else {
            continue;
        };
        let subject = if row.inode != 0 {
            surveys.file(row.device, row.inode, row.start_ns, out)
        } else {
            out.device(row.device)
        };
        out.event(&EventRow {
            time_ns: out.case_ns(row.start_ns),
            kind: event.into(),
            subject: out.names.get(subject).to_owned(),
            detail: detail(&row, kind),
        })?;
    }
    Ok(())
}

/// `duration_ns 1200000 bytes 4096 transaction 7 cause periodic by jbd2/vda1-8 (pid 301)`; what is not known is left out.
fn detail(row: &WritebackRow, kind: Writeback) -> String {
    let mut parts = Vec::new();
    let duration_ns = row.end_ns.saturating_sub(row.start_ns);
    for (name, value) in [
        ("duration_ns", duration_ns),
        ("bytes", row.bytes),
        ("transaction", row.transaction),
    ] {
        if value != 0 {
            parts.push(format!("{name} {value}"));
        }
    }
    match kind {
        Writeback::WbtStep => parts.push(format!("step {}", row.cause as i8)),
        Writeback::Work | Writeback::InodeWritten => {
            let cause = WRITEBACK_CAUSES.get(usize::from(row.cause));
            parts.extend(cause.map(|cause| format!("cause {cause}")));
        }
        _ => {}
    }
    match text(&row.comm) {
        Some(comm) if row.pid > 0 => parts.push(format!("by {comm} (pid {})", row.pid)),
        // In the same form: what is redacted is found by it.
        Some(comm) => parts.push(format!("by {comm} (pid not known)")),
        None => {}
    }
    parts.join(" ")
}
