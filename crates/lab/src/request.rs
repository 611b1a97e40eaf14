//! A request on its way through the stack, and the clock of its stages.
use crate::component::{ComponentId, Handle, Note, NO_HANDLE};
use case::schema::{Op, Stage};

/// What a request is, and so which rows it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Asked by the workload: a row at `app`, and one at `syscall` where no file server is between.
    App,
    /// Asked of a file server or file system: a row at `syscall`.
    Syscall,
    /// A request to a volume: a row at `block`.
    Volume,
    /// A request to a drive: a row at `block` and one at `device`.
    Block,
    /// Part of somebody else's request that another one waited for: no row of its own.
    Borrowed,
    /// Inside a component: no row.
    Internal,
}

impl Level {
    /// Whether requests of this level become rows.
    pub fn is_recorded(self) -> bool {
        !matches!(self, Level::Borrowed | Level::Internal)
    }
}

/// Where in its life a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its place in the slab is empty.
    Free,
    /// On its way.
    Active,
    /// Complete, not yet released.
    Done,
}

/// One request. Times are virtual nanoseconds.
#[derive(Clone, Debug)]
pub struct Request {
    /// `op_id` of its row; 0 = none.
    pub op_id: u64,
    /// `op_id` of the lower row that the same request becomes (App: syscall, Block: device); 0 = none.
    pub lower_id: u64,
    /// Place of its row among the rows of its level, in order of begin.
    pub slot: u64,
    /// Begin; at App the intended one.
    pub start_ns: u64,
    /// App: handed to the stack. Block: issued to the drive.
    pub submit_ns: u64,
    /// Complete; at App before the submitter took it. Block: set when the drive is done, then when complete.
    pub complete_ns: u64,
    /// Block: when the drive was done.
    pub drive_done_ns: u64,
    /// Begin of the current stage.
    mark_ns: u64,
    /// Time of each stage so far.
    pub stages: [u64; 9],
    /// Handlers of others inside the stage `interrupt`.
    pub foreign_ns: u64,
    /// In the address space of its level.
    pub offset_bytes: u64,
    /// The owner's own.
    pub tag: u64,
    /// The holder's own.
    pub work: u64,
    /// Bytes.
    pub size_bytes: u32,
    /// Request that waits for this one.
    pub parent: Handle,
    /// Children that are done, as a list.
    pub first_done: Handle,
    /// Next in the parent's list.
    pub next_done: Handle,
    /// Children not yet done.
    pub pending: u32,
    /// Bits of `case::schema::flags`.
    pub flags: u32,
    /// In flight at start, this one included.
    pub depth: u32,
    /// Submitting thread, as an index of the recorder's threads.
    pub thread: u16,
    /// Index of the file.
    pub file: u16,
    /// Index of the device.
    pub device: u16,
    /// Submitting CPU.
    pub cpu: u16,
    /// CPU of the interrupt.
    pub complete_cpu: u16,
    /// Hardware queue.
    pub hctx: u16,
    /// Interrupt; -1 = none.
    pub vector: i16,
    /// Who made it and hears when it is done.
    pub owner: ComponentId,
    /// Who has it.
    pub holder: ComponentId,
    /// Kind.
    pub op: Op,
    /// Current stage.
    pub stage: Stage,
    /// Level.
    pub level: Level,
    /// Life.
    pub state: State,
    /// Why the drive was slow, if it knows.
    pub note: Note,
    /// The holder got it by a message (its maker did not).
    pub counted: bool,
}

impl Request {
    /// A request that begins at `start_ns` in `stage`.
    pub fn new(
        level: Level,
        op: Op,
        offset_bytes: u64,
        size_bytes: u32,
        start_ns: u64,
        stage: Stage,
    ) -> Request {
        Request {
            op_id: 0,
            lower_id: 0,
            slot: 0,
            start_ns,
            submit_ns: start_ns,
            complete_ns: 0,
            drive_done_ns: 0,
            mark_ns: start_ns,
            stages: [0; 9],
            foreign_ns: 0,
            offset_bytes,
            tag: 0,
            work: 0,
            size_bytes,
            parent: NO_HANDLE,
            first_done: NO_HANDLE,
            next_done: NO_HANDLE,
            pending: 0,
            flags: 0,
            depth: 1,
            thread: 0,
            file: 0,
            device: 0,
            cpu: 0,
            complete_cpu: 0,
            hctx: 0,
            vector: -1,
            owner: 0,
            holder: 0,
            op,
            stage,
            level,
            state: State::Active,
            note: Note::None,
            counted: false,
        }
    }

    /// Adds the time since the last mark to the current stage.
    #[inline]
    pub fn close_stage(&mut self, at_ns: u64) {
        assert!(
            at_ns >= self.mark_ns,
            "a stage ends at {at_ns} ns, before it began at {} ns",
            self.mark_ns
        );
        self.stages[self.stage as usize] += at_ns - self.mark_ns;
        self.mark_ns = at_ns;
    }

    /// Closes an unfinished request at `at_ns`, which may lie before its last mark (a stage that was foreseen).
    pub fn cut_at(&mut self, at_ns: u64) {
        if at_ns >= self.mark_ns {
            self.close_stage(at_ns);
            self.foreign_ns = self.foreign_ns.min(self.stages[Stage::Interrupt as usize]);
            return;
        }
        self.keep_head(at_ns.saturating_sub(self.start_ns));
        self.mark_ns = at_ns;
    }

    /// Latency so far: the sum of the stages.
    #[inline]
    pub fn latency_ns(&self) -> u64 {
        self.stages.iter().sum()
    }

    /// Moves the stages of a child out of this request's `fs`.
    #[inline]
    pub fn take_stages(&mut self, stages: &[u64; 9], foreign_ns: u64) {
        let total: u64 = stages.iter().sum();
        let fs = &mut self.stages[Stage::Fs as usize];
        assert!(
            *fs >= total,
            "a child of {total} ns in a parent that waited {fs} ns"
        );
        *fs -= total;
        for (own, child) in self.stages.iter_mut().zip(stages) {
            *own += child;
        }
        self.foreign_ns += foreign_ns;
    }

    /// Keeps only the last `ns` of the stages, latest stage first.
    pub fn keep_tail(&mut self, ns: u64) {
        const FROM_THE_END: [Stage; 9] = [
            Stage::Reap,
            Stage::Interrupt,
            Stage::Device,
            Stage::Queue,
            Stage::Throttle,
            Stage::Fs,
            Stage::Runqueue,
            Stage::App,
            Stage::Unknown,
        ];
        self.keep(ns, FROM_THE_END);
    }

    /// Keeps only the first `ns` of the stages.
    fn keep_head(&mut self, ns: u64) {
        const FROM_THE_BEGIN: [Stage; 9] = [
            Stage::Runqueue,
            Stage::App,
            Stage::Fs,
            Stage::Throttle,
            Stage::Queue,
            Stage::Device,
            Stage::Interrupt,
            Stage::Reap,
            Stage::Unknown,
        ];
        self.keep(ns, FROM_THE_BEGIN);
    }

    fn keep(&mut self, ns: u64, order: [Stage; 9]) {
        let mut left = ns;
        for stage in order {
            let own = &mut self.stages[stage as usize];
            *own = (*own).min(left);
            left -= *own;
        }
        // What the stages do not cover (nothing, as they sum to the latency) would be unknown.
        self.stages[Stage::Unknown as usize] += left;
        self.foreign_ns = self.foreign_ns.min(self.stages[Stage::Interrupt as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_sum_to_the_latency_and_tails_keep_the_end() {
        let mut request = Request::new(Level::Block, Op::Read, 0, 4096, 100, Stage::Queue);
        request.close_stage(130);
        request.stage = Stage::Device;
        request.close_stage(200);
        request.stage = Stage::Interrupt;
        request.close_stage(210);
        assert_eq!(request.latency_ns(), 110);
        request.keep_tail(25);
        assert_eq!(request.stages[Stage::Interrupt as usize], 10);
        assert_eq!(request.stages[Stage::Device as usize], 15);
        assert_eq!(request.latency_ns(), 25);
    }

    #[test]
    fn a_child_comes_out_of_fs() {
        let mut parent = Request::new(Level::App, Op::Read, 0, 4096, 0, Stage::Fs);
        parent.close_stage(100);
        let mut stages = [0; 9];
        stages[Stage::Device as usize] = 80;
        parent.take_stages(&stages, 0);
        assert_eq!(
            (parent.stages[1], parent.stages[4], parent.latency_ns()),
            (20, 80, 100)
        );
    }
}
