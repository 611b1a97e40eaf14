//! One ended operation: its stages, links, and the pieces of a read.
use super::active::{Active, Request};
use super::timeline::Timeline;
use super::{Share, Watched};
use crate::beside::{text, Surveys, PAGE_BYTES};
use crate::children::Child;
use crate::own_side::{Call, OwnSide};
use crate::peers::{Peers, Waited};
use crate::pipeline::{Out, Row};
use crate::stages::{held_by_wbt, Part};
use case::rows::{sampled, syscall_flags, CacheWait, CacheWaitRow};
use case::schema::{flags, CacheRow, Layer, LinkRow, NameId, Op, OpRow, Stage};
use case::CaseError;

/// Classes of operations with shares of unknown time that the case names.
pub const CLASSES: [&str; 4] = ["direct", "buffered reads", "syncs", "others"];

fn class(op: &Active) -> usize {
    if op.direct() {
        0
    } else if op.buffered_read() {
        1
    } else if op.durable() {
        2
    } else {
        3
    }
}

/// An operation that has ended, and where its time went.
pub(super) struct Ended {
    pub(super) op: Active,
    call: Call,
    sums: [u64; 9],
    /// Calls of other threads that it slept for.
    behind: Vec<Waited>,
}

/// Splits the time of an operation that has ended. They come in order of their ends: whoever let another thread go on mostly ends before that one does.
/// Nobody asks `peers` any more for what was before `asked_from_ns`.
pub(super) fn end(
    op_id: u64,
    mut op: Active,
    watched: Watched,
    peers: &mut Peers,
    asked_from_ns: u64,
) -> Ended {
    if op.buffered_read() && !watched.cache {
        op.waits = waits_by_requests(&op);
    }
    op.waits.sort_by_key(|wait| (wait.start_ns, wait.waited_index));
    let moved = op.row.op < Op::Other as u8;
    let mut timeline = timeline(&mut op, watched, moved);
    let behind = behind(&op, peers, &mut timeline);
    op.requests.sort_by_key(|request| request.child.id);
    let sums = timeline.sums();
    let call = Call {
        op_id,
        start_ns: op.start_ns,
        end_ns: op.end_ns,
        device: device_of(&op, &behind),
        bytes: op.row.size_bytes,
        flags: flags_of(&op, &behind),
        stretches: timeline.into_stretches(),
    };
    if op.is_call() {
        peers.call(op.row.tid, &call, asked_from_ns);
    }
    Ended {
        op,
        call,
        sums,
        behind,
    }
}

pub(super) fn write(
    ended: Ended,
    surveys: &Surveys,
    watched: Watched,
    own: &mut OwnSide,
    out: &mut Out,
) -> Result<(), CaseError> {
    let Ended {
        op,
        call,
        sums,
        behind,
    } = ended;
    count(&op, &sums, out);
    let parent_id = call.op_id;
    let waited_for = op.requests.iter().filter(|request| !request.child.below_volume());
    for request in waited_for {
        out.link(&LinkRow {
            parent_id,
            child_id: request.child.id,
            bytes: request.child.bytes.min(op.row.size_bytes) as i64,
            kind: request.child.kind,
        })?;
    }
    for other in &behind {
        out.link(&other.link(parent_id))?;
    }
    let file = (op.row.device != 0).then(|| surveys.file(op.row.device, op.row.inode, op.end_ns, out));
    let sealed = row(&op, &call, file, stages(&sums, watched), out);
    out.counts.syscall_rows += 1;
    out.sink.op(Layer::Syscall, &sealed, out.names)?;
    own.call(&op.row, file, out, call);
    if (watched.cache || watched.block) && op.buffered_read() {
        pieces(parent_id, &op, file, out)?;
    }
    Ok(())
}

/// Gives time that a call slept for calls of other threads of its process the stages of those; these calls, if that was any.
fn behind(op: &Active, peers: &Peers, timeline: &mut Timeline) -> Vec<Waited> {
    if !op.is_call() {
        return Vec::new();
    }
    let behind = peers.behind(op.row.tid, op.start_ns, op.end_ns);
    if behind.stretches.is_empty() {
        return Vec::new();
    }
    let before = timeline.sums()[Stage::Fs as usize];
    behind.hand_on(timeline, Stage::Fs);
    if timeline.sums()[Stage::Fs as usize] == before {
        return Vec::new();
    }
    behind.calls
}

fn count(op: &Active, sums: &[u64; 9], out: &mut Out) {
    let share: &mut Share = &mut out.counts.syscall_shares[class(op)];
    share.operations += 1;
    share.total_ns += op.end_ns - op.start_ns;
    share.unknown_ns += sums[Stage::Unknown as usize];
}

fn parts(requests: &[Request]) -> Vec<Part> {
    requests.iter().map(|request| request.child.part).collect()
}

/// Splits the operation's time; leaves in `op.requests` only those that it waited for.
fn timeline(op: &mut Active, watched: Watched, moves_data: bool) -> Timeline {
    let (start_ns, reaped_ns) = (op.start_ns, op.end_ns);
    let end_ns = done_ns(op);
    let mut timeline = Timeline::default();
    if !op.buffered_read() || op.is_copy() {
        let meanwhile = |part: &Part| part.entry_ns <= end_ns && part.end_ns >= start_ns;
        // Who returns when data are durable has waited for nothing that was still going on then.
        let for_commit = op.durable() || op.joined_commit;
        let outlived = |part: &Part| for_commit && op.row.end_ns != 0 && part.end_ns > end_ns;
        let waited_for = |part: &Part| meanwhile(part) && !outlived(part);
        // Pages that a copy reads: its waits tell which of them it waited for.
        let of_page = |request: &Request| op.buffered_read() && request.file == Some(op.file());
        let kept = |requests: &[Request]| -> Vec<Request> {
            let mine = |request: &&Request| of_page(request) || waited_for(&request.child.part);
            requests.iter().filter(mine).copied().collect()
        };
        let mut requests = kept(&op.requests);
        if requests.is_empty() {
            // Direct I/O that its file system did through the page cache after all (btrfs does so where data have checksums): its requests have no
            // key, but its own thread made them within the call, or some worker did, of its bytes of the file.
            requests = kept(&op.without_key);
        }
        op.requests = requests;
    }
    timeline.add(end_ns, reaped_ns, Stage::Reap);
    if !watched.block {
        timeline.add(start_ns, end_ns, Stage::Fs);
    } else if op.direct() && moves_data && !op.durable() {
        direct(op, &mut timeline);
    } else if op.buffered_read() {
        buffered_read(op, end_ns, &mut timeline);
    } else {
        timeline.add_requests(start_ns, end_ns, &mut parts(&op.requests));
    }
    timeline.move_to(Stage::Throttle, &[Stage::Fs], &op.throttled);
    if watched.sched {
        // Who was ready to run waited for nothing else any more, known or not.
        let of = [Stage::Fs, Stage::Reap, Stage::Unknown];
        timeline.move_to(Stage::Runqueue, &of, &op.runnable);
    }
    timeline
}

/// When it was done; what comes after is reaping.
fn done_ns(op: &Active) -> u64 {
    op.done_ns
        .map_or(op.end_ns, |ns| ns.clamp(op.start_ns, op.end_ns))
}

/// From the start to the completion of the last request, and from there until the submitter takes it.
fn direct(op: &Active, timeline: &mut Timeline) {
    let last_ns = op.requests.iter().map(|request| request.child.part.end_ns).max();
    let failed = op.row.result < 0 || op.row.size_bytes == 0 || op.row.end_ns != 0 && op.row.result == 0;
    match last_ns {
        Some(last_ns) => {
            let done_ns = last_ns.clamp(op.start_ns, op.end_ns);
            timeline.add_requests(op.start_ns, done_ns, &mut parts(&op.requests));
            timeline.add(done_ns, op.end_ns, Stage::Reap);
        }
        // It never came to a request.
        None if failed => timeline.add(op.start_ns, op.end_ns, Stage::Fs),
        None => timeline.add(op.start_ns, op.end_ns, Stage::Unknown),
    }
}

/// What a read waited for, where the kernel does not tell (before 6.9 or so): it takes its pages in order, so it waits for each request
/// that carries one of them and is not complete by then.
fn waits_by_requests(op: &Active) -> Vec<CacheWaitRow> {
    let (from, to) = op.pages();
    let data = |request: &&Request| request.file == Some(op.file()) && request.brings(from, to);
    let mut requests: Vec<&Request> = op.requests.iter().filter(data).collect();
    requests.sort_by_key(|request| (request.whole.0, request.child.part.entry_ns));
    let (mut waits, mut now_ns) = (Vec::new(), op.start_ns);
    for request in requests {
        let part = &request.child.part;
        // What a controller held back on its way entered the queue when it let go of it; the read waited for it all along.
        let held_back = part.throttled && part.entry_ns > op.start_ns;
        let start_ns = if held_back {
            now_ns
        } else {
            now_ns.max(part.entry_ns)
        };
        let end_ns = part.end_ns.min(op.end_ns);
        if end_ns <= start_ns {
            continue;
        }
        let kind = if part.entry_ns < op.start_ns {
            CacheWait::InFlight
        } else {
            CacheWait::Missed
        };
        waits.push(CacheWaitRow {
            start_ns,
            end_ns,
            wait_ns: end_ns - start_ns,
            inode: op.row.inode,
            waited_index: request.whole.0.max(from) / PAGE_BYTES,
            device: op.row.device,
            tid: op.row.tid,
            kind: kind as u8,
            ..CacheWaitRow::default()
        });
        now_ns = end_ns;
    }
    waits
}

/// Requests that carry the page waited for and were in flight meanwhile.
fn of_wait<'o>(op: &'o Active, wait: &'o CacheWaitRow) -> impl Iterator<Item = &'o Request> {
    let from = wait.waited_index.saturating_mul(PAGE_BYTES);
    let its_page = move |request: &&Request| {
        // What its thread read besides data (metadata) counts to the same wait.
        request.file != Some((wait.device, wait.inode)) || request.brings(from, from + PAGE_BYTES)
    };
    let meanwhile = move |request: &&Request| {
        let part = &request.child.part;
        part.entry_ns <= wait.end_ns && part.end_ns >= wait.start_ns
    };
    op.requests.iter().filter(its_page).filter(meanwhile)
}

/// Whether a request that carried the page had completed when the wait began.
fn settled_before(op: &Active, wait: &CacheWaitRow) -> bool {
    let from = wait.waited_index.saturating_mul(PAGE_BYTES);
    op.requests.iter().any(|request| {
        request.file == Some((wait.device, wait.inode))
            && request.brings(from, from + PAGE_BYTES)
            && request.child.part.end_ns < wait.start_ns
    })
}

/// In the page cache only waits are spent below; the rest is the cache's own. A copy waits for what it writes to, too: for what its thread
/// read besides its pages, and for a commit that it joined.
fn buffered_read(op: &mut Active, end_ns: u64, timeline: &mut Timeline) {
    let mut now_ns = op.start_ns;
    let besides = |request: &&Request| op.is_copy() && request.file != Some(op.file());
    let besides: Vec<Child> = op
        .requests
        .iter()
        .filter(besides)
        .map(|request| request.child)
        .collect();
    let mut beside: Vec<Part> = besides.iter().map(|child| child.part).collect();
    let mut waited_for: Vec<u64> = Vec::new();
    for wait in &op.waits {
        let from_ns = wait.start_ns.clamp(now_ns, end_ns);
        let to_ns = wait.end_ns.clamp(from_ns, end_ns);
        timeline.add_requests(now_ns, from_ns, &mut beside);
        let mut parts: Vec<Part> = of_wait(op, wait).map(|request| request.child.part).collect();
        if parts.is_empty() {
            // Its request had completed, but the page was not marked yet: no device was waited for.
            let completed = settled_before(op, wait);
            timeline.add(from_ns, to_ns, if completed { Stage::Fs } else { Stage::Unknown });
        } else {
            timeline.add_requests(from_ns, to_ns, &mut parts);
            waited_for.extend(of_wait(op, wait).map(|request| request.child.id));
        }
        now_ns = to_ns;
    }
    timeline.add_requests(now_ns, end_ns, &mut beside);
    waited_for.extend(besides.iter().map(|child| child.id));
    op.requests
        .retain(|request| waited_for.contains(&request.child.id));
}

fn stages(sums: &[u64; 9], watched: Watched) -> [Option<i64>; 9] {
    let mut sums = *sums;
    if !watched.interrupts {
        sums[Stage::Device as usize] += std::mem::take(&mut sums[Stage::Interrupt as usize]);
    }
    let mut stages = sums.map(|ns| Some(ns as i64));
    for (stage, seen) in observed(watched) {
        if !seen {
            stages[stage as usize] = None;
        }
    }
    stages
}

/// Stages that this layer can tell.
pub(crate) fn observed(watched: Watched) -> [(Stage, bool); 9] {
    [
        (Stage::App, false),
        (Stage::Fs, true),
        (Stage::Throttle, watched.block || watched.writeback),
        (Stage::Queue, watched.block),
        (Stage::Device, watched.block),
        (Stage::Interrupt, watched.block && watched.interrupts),
        (Stage::Reap, watched.block),
        (Stage::Runqueue, watched.sched),
        (Stage::Unknown, true),
    ]
}

fn row(op: &Active, call: &Call, file: Option<NameId>, stages: [Option<i64>; 9], out: &mut Out) -> OpRow {
    let raw = &op.row;
    let kind = Op::from_raw(raw.op).unwrap_or(Op::Other);
    let has_place = matches!(
        kind,
        Op::Read | Op::Write | Op::Discard | Op::Copy | Op::Fault | Op::Drop
    );
    let seen_to_end = raw.end_ns != 0;
    OpRow {
        op_id: call.op_id,
        start_ns: out.case_ns(op.start_ns),
        latency_ns: (op.end_ns - op.start_ns) as i64,
        open: !seen_to_end || raw.start_ns == 0 || raw.flags & syscall_flags::BEGIN_UNSEEN != 0,
        op: kind,
        flags: call.flags,
        host: out.host,
        device: call.device.map(|device| out.device(device)),
        file,
        comm: text(&raw.comm).map(|comm| out.names.id(&comm)),
        cgroup: None,
        offset_bytes: i64::try_from(raw.offset_bytes).ok().filter(|_| has_place),
        size_bytes: i64::try_from(raw.size_bytes)
            .ok()
            .filter(|_| raw.flags & syscall_flags::SIZE_UNSEEN == 0),
        queue_depth: op
            .queue_depth
            .map(|depth| i32::try_from(depth).unwrap_or(i32::MAX)),
        pid: Some(raw.pid),
        tid: Some(raw.tid),
        cpu: (!op.is_fault()).then_some(i32::from(raw.cpu)),
        complete_cpu: (seen_to_end && !op.is_fault()).then_some(i32::from(raw.end_cpu)),
        hctx: None,
        vector: None,
        error: i32::try_from(-raw.result.min(0)).unwrap_or(0),
        weight: sampled::weight(raw.flags) as f32,
        stages,
        foreign_handler_ns: None,
    }
}

/// What is known of its kind, and what held it.
fn flags_of(op: &Active, behind: &[Waited]) -> u32 {
    let bit = |set: bool, flag: u32| if set { flag } else { 0 };
    let mut children = op.requests.iter().map(|request| &request.child.part);
    let flushed = behind.iter().any(|call| call.flags & flags::FLUSH != 0);
    bit(op.direct(), flags::DIRECT)
        | bit(op.row.flags & syscall_flags::SYNC != 0, flags::SYNC)
        | bit(held_by_wbt(children.clone()), flags::WBT)
        | bit(flushed || children.any(|part| part.flush), flags::FLUSH)
}

/// The device of all its requests, and of those calls that it slept for, if it is one, or the block device that it works on.
fn device_of(op: &Active, behind: &[Waited]) -> Option<u32> {
    let children = op.requests.iter().map(|request| &request.child);
    let own = children
        .filter(|child| !child.below_volume())
        .map(|child| child.device);
    let mut devices = own.chain(behind.iter().filter_map(|call| call.device));
    let first = devices.next();
    let one = first.filter(|device| devices.all(|other| other == *device));
    one.or((op.row.flags & syscall_flags::BLOCK_DEVICE != 0).then_some(op.row.device))
}

/// Writes which tier served which bytes of a read. What it did not wait for was in memory.
fn pieces(op_id: u64, op: &Active, file: Option<NameId>, out: &mut Out) -> Result<(), CaseError> {
    let begin = op.row.offset_bytes;
    let end = begin.saturating_add(u64::try_from(op.row.result).unwrap_or(0));
    let mut now = begin;
    let mut piece = |tier: &str, from: u64, to: u64, wait_ns: u64| {
        let row = CacheRow {
            op_id,
            tier: tier.into(),
            file,
            offset_bytes: i64::try_from(from).ok(),
            size_bytes: (to - from) as i64,
            wait_ns: wait_ns as i64,
        };
        out.row(Row::Cache(row))
    };
    for wait in &op.waits {
        let page = wait.waited_index.saturating_mul(PAGE_BYTES);
        let with_page = of_wait(op, wait).filter(|request| request.file.is_some());
        let brought = with_page.fold((page, page + PAGE_BYTES), |(low, high), request| {
            (low.min(request.whole.0), high.max(request.whole.1))
        });
        let from = brought.0.clamp(now, end.max(now));
        let to = brought.1.clamp(from, end.max(from));
        if from > now {
            piece("ram", now, from, 0)?;
        }
        if to > from || wait.wait_ns > 0 {
            let missed = match CacheWait::from_raw(wait.kind) {
                // It asked the device itself, unless the page was on its way already.
                Some(CacheWait::Fault) => {
                    of_wait(op, wait).any(|request| request.child.part.entry_ns >= op.start_ns)
                }
                kind => kind == Some(CacheWait::Missed),
            };
            piece(
                if missed { "device" } else { "readahead" },
                from,
                to,
                wait.wait_ns,
            )?;
        }
        now = to;
    }
    if end > now {
        piece("ram", now, end, 0)?;
    }
    Ok(())
}
