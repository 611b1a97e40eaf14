//! The second pass over block requests: order, queue depth, numbers, silences of other programs.
use crate::carriers::Carriers;
use crate::children::{Child, Children};
use crate::foreign::ForeignHandlers;
use crate::gaps::{Intent, Thread};
use crate::held_back::{HeldBack, Passed};
use crate::kernel::{self, CmdFlags};
use crate::merges::Ahead;
use crate::pipeline::{block_span_ns, Counts, Inputs, Out, Silent};
use crate::reorder::{Plan, Reorder, Watermark};
use crate::stages::{block_entry_ns, block_times, BlockTimes};
use crate::stream::Cursor;
use crate::syscalls::SyscallSide;
use crate::volumes::{self, Pending, Tie, VolumeSurvey, Volumes};
use case::rows::sampled::{self, Depth};
use case::rows::{block_flags, BlockMergeRow, BlockRow};
use case::schema::{flags, EventRow, GapRow, Layer, LinkKind, LinkRow, NameId, Op, OpRow, Stage};
use case::CaseError;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

/// Foreign threads that are followed before those without a rhythm are forgotten.
const THREADS_MAX: usize = 1 << 14;
/// A thread without a rhythm is forgotten after this time without a request.
const THREAD_IDLE_NS: u64 = 10_000_000_000;

struct Foreign {
    pid: i32,
    comm: Option<NameId>,
    silences: Thread,
}

/// Flushes and driver commands have no place; the kernel gives them sector -1 or 0.
fn offset_bytes(row: &BlockRow, op: Op) -> Option<i64> {
    let offset = i64::try_from(row.sector_512)
        .ok()
        .and_then(|sector| sector.checked_mul(512));
    offset.filter(|_| !matches!(op, Op::Flush))
}

/// Requests in flight on a device, with the one that begins now, if any, which ends at `end_ns`.
fn join_flight(
    of_devices: &mut HashMap<u32, BinaryHeap<Reverse<u64>>>,
    device: u32,
    now_ns: u64,
    end_ns: Option<u64>,
) -> usize {
    let ends = of_devices.entry(device).or_default();
    while ends.peek().is_some_and(|Reverse(end_ns)| *end_ns <= now_ns) {
        ends.pop();
    }
    ends.extend(end_ns.map(Reverse));
    ends.len()
}

pub(crate) struct BlockSide<'a> {
    cursor: Option<Cursor<'a, BlockRow>>,
    watermark: Watermark,
    straggler_ns: u64,
    end_ns: u64,
    cmd_flags: CmdFlags,
    interrupts_watched: bool,
    held: Reorder<BlockRow>,
    merges: Ahead<'a, BlockMergeRow>,
    carriers: Carriers<'a>,
    /// None: not recorded.
    handlers: Option<ForeignHandlers<'a>>,
    /// None: threads were not watched.
    held_back: Option<HeldBack<'a>>,
    merge_rows: Vec<BlockMergeRow>,
    volumes: Volumes<'a>,
    comms: HashMap<[u8; 16], Option<NameId>>,
    /// Ends of the requests in flight, by device.
    in_flight: HashMap<u32, BinaryHeap<Reverse<u64>>>,
    /// The same, of those alone that a sampled recording always keeps, and does not count in the depth of others.
    long_in_flight: HashMap<u32, BinaryHeap<Reverse<u64>>>,
    /// Processes of our own engine.
    own_pids: BTreeSet<i32>,
    foreign: BTreeMap<i32, Foreign>,
    foreign_max: usize,
}

impl<'a> BlockSide<'a> {
    pub(crate) fn new(
        inputs: &Inputs<'a>,
        plan: &mut Plan<BlockRow>,
        handlers: Option<ForeignHandlers<'a>>,
        held_back: Option<HeldBack<'a>>,
        volumes: &VolumeSurvey,
        counts: &Counts,
    ) -> Result<BlockSide<'a>, CaseError> {
        let mut side = BlockSide {
            cursor: inputs.block.map(Cursor::new).transpose()?,
            watermark: Watermark::new(plan),
            straggler_ns: plan.straggler_ns,
            end_ns: counts.end_ns,
            cmd_flags: inputs.cmd_flags,
            interrupts_watched: counts.interrupts_watched,
            held: Reorder::new(),
            merges: Ahead::new(inputs.merges)?,
            carriers: Carriers::new(inputs.carriers)?,
            handlers,
            held_back,
            merge_rows: Vec::new(),
            volumes: Volumes::new(inputs.bios, inputs.bio_members, volumes)?,
            comms: HashMap::new(),
            in_flight: HashMap::new(),
            long_in_flight: HashMap::new(),
            own_pids: inputs.workers.iter().filter_map(|(about, _)| about.pid).collect(),
            foreign: BTreeMap::new(),
            foreign_max: THREADS_MAX,
        };
        for row in std::mem::take(&mut plan.stragglers) {
            side.hold(row);
        }
        Ok(side)
    }

    fn hold(&mut self, row: BlockRow) {
        self.held
            .push(block_entry_ns(&row), (row.complete_ns, row.request_key), row);
    }

    /// Every request that begins before this has its number after [`BlockSide::emit`].
    pub(crate) fn watermark_ns(&self) -> u64 {
        self.watermark.watermark_ns()
    }

    /// Rows held now, in all structures.
    pub(crate) fn rows_held(&self) -> usize {
        let in_flight: usize = self.in_flight.values().map(|ends| ends.len()).sum();
        let handlers = self.handlers.as_ref().map_or(0, ForeignHandlers::rows_held);
        let volumes = self.volumes.rows_held();
        let held_back = self.held_back.as_ref().map_or(0, HeldBack::rows_held);
        let beside = self.merges.held_rows() + self.carriers.rows_held();
        self.held.rows() + beside + volumes + in_flight + handlers + held_back
    }

    /// Reads one row; false at the end.
    pub(crate) fn read(&mut self) -> Result<bool, CaseError> {
        let Some(cursor) = &mut self.cursor else {
            return Ok(false);
        };
        let Some(row) = cursor.peek().copied() else {
            return Ok(false);
        };
        cursor.advance()?;
        if block_span_ns(&row) <= self.straggler_ns {
            self.hold(row);
        }
        self.watermark.advance();
        Ok(true)
    }

    /// Writes every request that is due.
    pub(crate) fn emit(
        &mut self,
        watermark_ns: u64,
        out: &mut Out,
        children: &mut Children,
        syscalls: &mut SyscallSide,
    ) -> Result<(), CaseError> {
        loop {
            let request_ns = self.held.next_ns(watermark_ns);
            let due = |ns: &u64| *ns < watermark_ns || watermark_ns == u64::MAX;
            let bio_ns = self.volumes.next_ns().filter(due);
            // Among equals the volume first: it is above.
            if let Some(now_ns) = bio_ns.filter(|bio_ns| request_ns.is_none_or(|ns| *bio_ns <= ns)) {
                self.pass_volumes(now_ns, out, children, syscalls)?;
                self.begin_volume(out, children, syscalls)?;
            } else if let Some(row) = self.held.pop(watermark_ns) {
                self.pass_volumes(block_entry_ns(&row), out, children, syscalls)?;
                self.emit_row(&row, out, children, syscalls)?;
            } else if watermark_ns == u64::MAX {
                return self.pass_volumes(u64::MAX, out, children, syscalls);
            } else {
                return Ok(());
            }
        }
    }

    /// What becomes of volumes before `now_ns`: requests that can be tied now, and bios that have ended.
    fn pass_volumes(
        &mut self,
        now_ns: u64,
        out: &mut Out,
        children: &mut Children,
        syscalls: &mut SyscallSide,
    ) -> Result<(), CaseError> {
        // At its own time: the operation behind may have ended by `now_ns`.
        while let Some((due_ns, request, ties)) = self.volumes.due(now_ns) {
            self.tied(&request, &ties, due_ns, out, children, syscalls)?;
        }
        while let Some(sealed) = self.volumes.end_before(now_ns, self.interrupts_watched) {
            out.sink.op(Layer::Block, &sealed, out.names)?;
        }
        Ok(())
    }

    /// A volume gets a bio. Its row is written when it ends: then its members are known.
    fn begin_volume(
        &mut self,
        out: &mut Out,
        children: &mut Children,
        syscalls: &mut SyscallSide,
    ) -> Result<(), CaseError> {
        let Some(bio) = self.volumes.take()? else {
            return Ok(());
        };
        let row = volumes::as_request(&bio);
        let times = block_times(&row, self.end_ns);
        let op_id = Layer::Block.op_id_base() + out.counts.block_rows;
        out.counts.block_rows += 1;
        out.counts.volume_rows += 1;
        let sealed = self.sealed(&row, &times, op_id, out)?;
        self.follow_thread(&row, &times, sealed.comm);
        self.tell(&row, &times, sealed.op, out)?;
        let bytes = i64::from(row.size_bytes);
        if let Some(parent_id) = self.volumes.begin(bio, sealed, times.end_ns) {
            let kind = LinkKind::Stacked;
            return out.link(&LinkRow {
                parent_id,
                child_id: op_id,
                bytes,
                kind,
            });
        }
        if row.op_id != 0 {
            children.add(row.op_id, Child::of_volume(&row, op_id, times.end_ns));
        }
        syscalls.volume(&row, op_id, times.end_ns, out)
    }

    /// A request of a member belongs to bios of volumes; who is above waits for those.
    fn tied(
        &mut self,
        request: &Pending,
        ties: &[Tie],
        now_ns: u64,
        out: &mut Out,
        children: &mut Children,
        syscalls: &mut SyscallSide,
    ) -> Result<(), CaseError> {
        for tie in ties {
            out.link(&LinkRow {
                parent_id: tie.volume,
                child_id: request.id,
                bytes: tie.bytes as i64,
                kind: LinkKind::Stacked,
            })?;
            let top = volumes::as_request(&tie.top);
            let mut child = Child {
                part: request.part,
                id: request.id,
                bytes: tie.bytes,
                device: request.device,
                kind: LinkKind::Stacked,
            };
            child.part.throttled |= top.flags & block_flags::THROTTLED != 0;
            if top.op_id != 0 {
                children.add(top.op_id, child);
            }
            syscalls.member(&top, child, now_ns, out)?;
        }
        Ok(())
    }

    fn emit_row(
        &mut self,
        row: &BlockRow,
        out: &mut Out,
        children: &mut Children,
        syscalls: &mut SyscallSide,
    ) -> Result<(), CaseError> {
        let passed = match &mut self.held_back {
            Some(held_back) => held_back.passed(row)?,
            None => Passed::default(),
        };
        let times = self.carriers.staged(row, block_times(row, self.end_ns))?;
        let times = times.held_back_until(passed);
        let op_id = Layer::Block.op_id_base() + out.counts.block_rows;
        out.counts.block_rows += 1;
        if times.clamped {
            out.clamped(times.entry_ns);
        }
        if row.merges > 0 {
            self.merges.take(row.request_key, &mut self.merge_rows)?;
        } else {
            self.merge_rows.clear();
        }
        let served = self.carriers.link(row, &times, op_id, out)?;
        if !served && !self.is_below_volume(row, &times, op_id, out, children, syscalls)? {
            self.give_to_parents(row, &times, op_id, children);
            syscalls.request(row, &times, op_id, &self.merge_rows, out)?;
        }
        let sealed = self.sealed(row, &times, op_id, out)?;
        self.follow_thread(row, &times, sealed.comm);
        out.sink.op(Layer::Block, &sealed, out.names)?;
        self.tell(row, &times, sealed.op, out)
    }

    /// Whether a request was made for bios of volumes, as far as they are known; ties it to them.
    fn is_below_volume(
        &mut self,
        row: &BlockRow,
        times: &BlockTimes,
        op_id: u64,
        out: &mut Out,
        children: &mut Children,
        syscalls: &mut SyscallSide,
    ) -> Result<bool, CaseError> {
        let part = times.part(row.flags & block_flags::THROTTLED != 0);
        let now_ns = times.entry_ns;
        let Some(request) = self.volumes.of_request(row, op_id, part)? else {
            let Some((request, ties)) = self.volumes.of_flush(row, op_id, now_ns, part) else {
                return Ok(false);
            };
            self.tied(&request, &ties, now_ns, out, children, syscalls)?;
            return Ok(true);
        };
        let Some((request, ties)) = self.volumes.tie_at(now_ns, request) else {
            return Ok(true);
        };
        self.tied(&request, &ties, now_ns, out, children, syscalls)?;
        Ok(!ties.is_empty())
    }

    fn sealed(
        &mut self,
        row: &BlockRow,
        times: &BlockTimes,
        op_id: u64,
        out: &mut Out,
    ) -> Result<OpRow, CaseError> {
        let op = kernel::op(row.cmd_flags, row.size_bytes);
        let unfinished = row.complete_ns == 0;
        // Without a start nobody was seen to submit it; the recorder says -1 then.
        let seen = row.start_ns != 0 || row.queue_ns != 0;
        let submitter = |value: i32| (value >= 0 && (seen || value != 0)).then_some(value);
        let mut stages = [None; 9];
        let seen = [
            (Stage::Throttle, self.held_back.is_some()),
            (Stage::Queue, true),
            (Stage::Device, true),
            (Stage::Interrupt, self.interrupts_watched),
            (Stage::Fs, self.volumes.any),
            (Stage::Unknown, self.volumes.any),
        ];
        for (stage, _) in seen.into_iter().filter(|(_, seen)| *seen) {
            stages[stage as usize] = Some(0);
        }
        times
            .part(false)
            .each_stage(0, u64::MAX, |from_ns, to_ns, stage| {
                // What nobody watched counts to the stage before it.
                let stage = match stage {
                    Stage::Interrupt if !self.interrupts_watched => Stage::Device,
                    Stage::Throttle if self.held_back.is_none() => Stage::Queue,
                    stage => stage,
                };
                *stages[stage as usize].get_or_insert(0) += (to_ns - from_ns) as i64;
            });
        let bit = |set: bool, flag: u32| if set { flag } else { 0 };
        let device = out.device(row.device);
        let foreign_handler_ns = match &mut self.handlers {
            Some(handlers) if self.interrupts_watched && !unfinished => {
                let window = (times.irq_ns, times.end_ns);
                handlers.between(window, row.complete_cpu, device, times.entry_ns, out)?
            }
            _ => None,
        };
        Ok(OpRow {
            op_id,
            start_ns: out.case_ns(times.entry_ns),
            latency_ns: (times.end_ns - times.entry_ns) as i64,
            open: times.open,
            op,
            flags: self.cmd_flags.flags(row.cmd_flags, row.merges)
                | bit(times.wbt, flags::WBT)
                | bit(times.flush, flags::FLUSH)
                | bit(row.flags & block_flags::KERNEL != 0, flags::KERNEL),
            host: out.host,
            device: Some(device),
            file: None,
            comm: self.comm(&row.comm, out),
            cgroup: out.cgroup(row.cgroup),
            offset_bytes: offset_bytes(row, op),
            size_bytes: Some(i64::from(row.size_bytes)),
            queue_depth: self.queue_depth(row, times),
            pid: submitter(row.pid),
            tid: submitter(row.tid),
            cpu: submitter(i32::from(row.cpu)),
            complete_cpu: (!unfinished).then_some(i32::from(row.complete_cpu)),
            hctx: (row.issue_ns != 0).then_some(i32::from(row.hctx)),
            vector: (row.vector >= 0).then_some(row.vector),
            error: row.error.saturating_abs(),
            weight: sampled::weight(row.flags) as f32,
            stages,
            foreign_handler_ns,
        })
    }

    fn comm(&mut self, comm: &[u8; 16], out: &mut Out) -> Option<NameId> {
        if let Some(id) = self.comms.get(comm) {
            return *id;
        }
        let text = comm.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let id = (!text.is_empty()).then(|| out.names.id(&String::from_utf8_lossy(text)));
        self.comms.insert(*comm, id);
        id
    }

    /// Requests in flight on the device at this one's start, itself included. A request that ends at
    /// that very moment is gone; of several that start together, each counts those written before it.
    /// `None`: in a sample it may not be known.
    fn queue_depth(&mut self, row: &BlockRow, times: &BlockTimes) -> Option<i32> {
        let end_ns = if row.complete_ns == 0 {
            u64::MAX
        } else {
            times.end_ns
        };
        let of_rows = join_flight(&mut self.in_flight, row.device, times.entry_ns, Some(end_ns));
        let long_end_ns = (end_ns - times.entry_ns > sampled::LONG_NS).then_some(end_ns);
        let long = join_flight(&mut self.long_in_flight, row.device, times.entry_ns, long_end_ns);
        let depth = match sampled::depth(row.flags) {
            Depth::OfRows => of_rows,
            Depth::Counted(others) => (others + long).max(1),
            Depth::Unknown => return None,
        };
        Some(i32::try_from(depth).unwrap_or(i32::MAX))
    }

    /// Tells the operations behind this request.
    fn give_to_parents(&mut self, row: &BlockRow, times: &BlockTimes, op_id: u64, children: &mut Children) {
        if row.op_id == 0 && self.merge_rows.is_empty() {
            return;
        }
        let child = Child {
            id: op_id,
            ..Child::of(row, times)
        };
        let others: u64 = self
            .merge_rows
            .iter()
            .filter(|m| m.op_id != row.op_id)
            .map(|m| u64::from(m.size_bytes))
            .sum();
        if row.op_id != 0 {
            let bytes = u64::from(row.size_bytes).saturating_sub(others);
            children.add(
                row.op_id,
                Child {
                    bytes,
                    kind: LinkKind::WaitsFor,
                    ..child
                },
            );
        }
        self.merge_rows.sort_by_key(|m| m.op_id);
        for bios in self.merge_rows.chunk_by(|a, b| a.op_id == b.op_id) {
            if bios[0].op_id != row.op_id && bios[0].op_id != 0 {
                let bytes = bios.iter().map(|m| u64::from(m.size_bytes)).sum();
                children.add(
                    bios[0].op_id,
                    Child {
                        bytes,
                        kind: LinkKind::Merged,
                        ..child
                    },
                );
            }
        }
    }

    /// Our own workers' silences are seen at the app layer, which knows what they meant.
    fn follow_thread(&mut self, row: &BlockRow, times: &BlockTimes, comm: Option<NameId>) {
        if row.tid <= 0 || row.op_id != 0 || self.own_pids.contains(&row.pid) {
            return;
        }
        if self.foreign.len() >= self.foreign_max && !self.foreign.contains_key(&row.tid) {
            let now_ns = times.entry_ns;
            self.foreign.retain(|_, thread| {
                thread.silences.has_rhythm() || thread.silences.busy_until_ns() + THREAD_IDLE_NS > now_ns
            });
            self.foreign_max = THREADS_MAX.max(2 * self.foreign.len());
        }
        let thread = self.foreign.entry(row.tid).or_insert_with(|| Foreign {
            pid: row.pid,
            comm,
            silences: Thread::new(Intent::Presumed),
        });
        thread.comm = comm;
        if row.flags & (sampled::COUNTED | sampled::SILENT_BEFORE) == sampled::COUNTED {
            let operations = u64::from(sampled::weight(row.flags));
            return thread
                .silences
                .after_others(operations, times.entry_ns, times.end_ns);
        }
        thread
            .silences
            .operation(times.entry_ns, times.entry_ns, times.end_ns);
    }

    /// What happened to it besides taking time.
    fn tell(&mut self, row: &BlockRow, times: &BlockTimes, op: Op, out: &mut Out) -> Result<(), CaseError> {
        if row.error == 0 && row.requeues == 0 {
            return Ok(());
        }
        let device = out.device(row.device);
        let subject = out.names.get(device).to_owned();
        let request = format!(
            "{} of {} bytes at sector {}",
            op.name(),
            row.size_bytes,
            row.sector_512
        );
        if row.error != 0 {
            let (time_ns, detail) = (
                out.case_ns(times.end_ns),
                format!("{request}: errno {}", row.error),
            );
            out.event(&EventRow {
                time_ns,
                kind: "error".into(),
                subject: subject.clone(),
                detail,
            })?;
        }
        if row.requeues != 0 {
            let (time_ns, detail) = (
                out.case_ns(times.issue_ns),
                format!("{request}: {} times", row.requeues),
            );
            out.event(&EventRow {
                time_ns,
                kind: "requeue".into(),
                subject,
                detail,
            })?;
        }
        Ok(())
    }

    /// Gaps of other programs' threads.
    pub(crate) fn finish(self, out: &mut Out) -> Result<Vec<GapRow>, CaseError> {
        out.counts.members_tied = self.volumes.tied;
        out.counts.members_ambiguous = self.volumes.ambiguous;
        out.counts.members_lost = self.volumes.lost;
        out.counts.orphan_merges = self.merges.finish()?;
        out.counts.orphan_carriers = self.carriers.finish()?;
        let mut gaps = Vec::new();
        for (tid, thread) in &self.foreign {
            let silent = Silent {
                layer: Layer::Block,
                pid: Some(thread.pid),
                tid: *tid,
                comm: thread.comm,
                meant_busy: false,
            };
            gaps.extend(out.gaps(&silent, &thread.silences));
        }
        Ok(gaps)
    }
}
