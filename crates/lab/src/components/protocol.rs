//! A file protocol between clients and server, as SMB has it.
//!
//! * `read_write`: READ and WRITE requests of 1 MiB; those of one operation that are contiguous are combined by the
//!   request scheduler up to `target_transaction` = min(`max_transaction`, `target_limit`).
//! * `copy_read_write`: the client copies: it reads, and writes what it read to another file.
//! * `server_side_copy`: FSCTL_SRV_COPYCHUNK: calls of at most 256 chunks of 1 MiB, 16 MiB per call ([MS-SMB2] 3.3.3);
//!   the server reads and writes through the scheduler, no data cross the network.
//! * `offloaded_copy`: FSCTL_OFFLOAD_READ gives a token, FSCTL_OFFLOAD_WRITE redeems it; the call itself goes through the
//!   scheduler, but its *internal read does not*: it is sized by `max_transaction`.
//!
//! In the copy modes an operation of the workload at (offset, size) means: copy that range of the file to its twin.
use super::network::Network;
use crate::component::{Component, ComponentId, Handle, Message};
use crate::keys::{key, Key, Kind, Section};
use crate::request::{Level, Request};
use crate::sim::Core;
use case::schema::{flags, Op, Stage};

/// Modes.
const MODES: [&str; 4] = [
    "read_write",
    "copy_read_write",
    "server_side_copy",
    "offloaded_copy",
];

/// Keys of `[protocol]`.
pub const KEYS: [Key; 10] = [
    key(
        "mode",
        Kind::Choice(&MODES),
        "read_write",
        "What an operation of the workload becomes.",
    ),
    key(
        "request",
        Kind::Size(4096, 1 << 26),
        "1MiB",
        "Largest READ, WRITE, or chunk of a server-side copy.",
    ),
    key(
        "max_transaction",
        Kind::Size(4096, 1 << 30),
        "8MiB",
        "Largest transaction of the file system below.",
    ),
    key(
        "target_limit",
        Kind::Size(4096, 1 << 30),
        "8MiB",
        "The scheduler combines up to the smaller of this and max_transaction.",
    ),
    key(
        "chunks",
        Kind::Count(1, 65536),
        "256",
        "Chunks of one server-side copy call.",
    ),
    key(
        "call",
        Kind::Size(4096, 1 << 30),
        "16MiB",
        "Most bytes of one server-side copy call.",
    ),
    key(
        "combine",
        Kind::Time(0, 1_000_000_000),
        "0ns",
        "Work of the request scheduler for each request or chunk that it takes; offloaded reads and writes go past it.",
    ),
    key(
        "window",
        Kind::Count(1, 4096),
        "1",
        "Calls of one operation in flight.",
    ),
    key(
        "internal_read",
        Kind::Choice(&["max", "target"]),
        "max",
        "What sizes the internal read of an offloaded copy.",
    ),
    key(
        "copy_size",
        Kind::Size(0, 1 << 31),
        "0B",
        "Bytes that one operation copies: the n-th place of the workload is the n-th range of the file; 0 = its own size.",
    ),
];

/// What the keys come to.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    mode: Mode,
    /// Bytes of a call.
    call_bytes: u64,
    /// Bytes of a read or write inside the server.
    transaction_bytes: u64,
    window: u32,
    copy_bytes: u64,
    /// A request or chunk, and the scheduler's work for each.
    request_bytes: u64,
    combine_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    ReadWrite,
    CopyReadWrite,
    ServerSideCopy,
    OffloadedCopy,
}

impl Rules {
    /// Reads `[protocol]`.
    pub fn new(section: &Section) -> Rules {
        let max = section.whole("max_transaction");
        let target = max.min(section.whole("target_limit"));
        let mode = match section.text("mode") {
            "copy_read_write" => Mode::CopyReadWrite,
            "server_side_copy" => Mode::ServerSideCopy,
            "offloaded_copy" => Mode::OffloadedCopy,
            _ => Mode::ReadWrite,
        };
        let chunked = section.whole("chunks").saturating_mul(section.whole("request"));
        let (call_bytes, transaction_bytes) = match mode {
            Mode::ReadWrite => (target, target),
            // The client's own requests: what it has in flight is one of them.
            Mode::CopyReadWrite => (section.whole("request").min(target), target),
            Mode::ServerSideCopy => (section.whole("call").min(chunked), target),
            Mode::OffloadedCopy if section.text("internal_read") == "max" => (u64::MAX, max),
            Mode::OffloadedCopy => (u64::MAX, target),
        };
        Rules {
            mode,
            call_bytes,
            transaction_bytes,
            window: section.whole("window") as u32,
            copy_bytes: section.whole("copy_size"),
            request_bytes: section.whole("request"),
            combine_ns: match mode {
                Mode::OffloadedCopy => 0,
                _ => section.whole("combine"),
            },
        }
    }

    /// Whether operations copy to a twin of their file.
    pub fn copies(&self) -> bool {
        self.mode != Mode::ReadWrite
    }
}

/// Bytes of a message without data.
const HEADER_BYTES: u64 = 256;

const ARRIVED: u16 = 1;
const ANSWERED: u16 = 2;

/// One call on its way.
#[derive(Clone, Copy)]
struct Call {
    job: Handle,
    first: u64,
    /// Where it is in its range.
    at: u64,
    end: u64,
    /// Bytes of the transaction under way.
    bytes: u32,
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Asks for a token.
    Token,
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Reads, and then writes to the twin.
    CopyRead,
    CopyWrite,
    Free,
}

/// A file operation of a client.
#[derive(Clone, Copy, Default)]
struct Job {
    next: u64,
    end: u64,
    in_flight: u32,
}

/// Clients' end and server's end of the protocol.
pub struct Protocol {
    rules: Rules,
    server: ComponentId,
    /// To the server.
    forth: Network,
    /// To the clients.
    back: Network,
    calls: Vec<Call>,
    free: Vec<u32>,
    jobs: Vec<Job>,
    held: usize,
    /// Index of the server's thread in the cast.
    thread: u16,
    /// Twins are this many files further on.
    twin: u16,
    /// Size of each file.
    sizes: Vec<u64>,
}

impl Protocol {
    /// `files`: number of targets; the twins of copies follow them.
    pub fn new(
        rules: Rules,
        server: ComponentId,
        (forth, back): (Network, Network),
        thread: u16,
        sizes: Vec<u64>,
    ) -> Protocol {
        Protocol {
            rules,
            server,
            forth,
            back,
            calls: Vec::new(),
            free: Vec::new(),
            jobs: Vec::new(),
            held: 0,
            thread,
            twin: sizes.len() as u16,
            sizes,
        }
    }

    fn arrive(&mut self, handle: Handle, core: &mut Core) {
        self.held += 1;
        let copies = self.rules.copies();
        let request = core.get_mut(handle);
        if self.jobs.len() <= handle as usize {
            self.jobs.resize(handle as usize + 1, Job::default());
        }
        if copies && request.op != Op::Sync {
            request.op = Op::Copy;
            let size = self.sizes[request.file as usize];
            if let Some(ranges) = size.checked_div(self.rules.copy_bytes) {
                // The n-th place of the workload stands for the n-th range to copy.
                let place = request.offset_bytes / u64::from(request.size_bytes.max(1));
                let first = place % ranges.max(1) * self.rules.copy_bytes;
                request.offset_bytes = first;
                request.size_bytes = self.rules.copy_bytes.min(size) as u32;
            }
        }
        let end = request.offset_bytes + u64::from(request.size_bytes);
        self.jobs[handle as usize] = Job {
            next: request.offset_bytes,
            end,
            in_flight: 0,
        };
        if request.op == Op::Sync {
            return self.call(handle, Step::Write, 0, 0, core);
        }
        if self.rules.mode == Mode::OffloadedCopy {
            return self.call(handle, Step::Token, 0, 0, core);
        }
        self.more(handle, core);
    }

    /// Sends calls as long as the window lets it.
    fn more(&mut self, handle: Handle, core: &mut Core) {
        loop {
            let job = &mut self.jobs[handle as usize];
            if job.next >= job.end || job.in_flight >= self.rules.window {
                return;
            }
            let at = job.next;
            let end = at.saturating_add(self.rules.call_bytes).min(job.end);
            job.next = end;
            let step = match (self.rules.mode, core.get(handle).op) {
                (Mode::ReadWrite, Op::Write) => Step::Write,
                (Mode::ReadWrite | Mode::CopyReadWrite, _) => Step::Read,
                _ => Step::CopyRead,
            };
            self.call(handle, step, at, end, core);
        }
    }

    fn call(&mut self, job: Handle, step: Step, at: u64, end: u64, core: &mut Core) {
        self.jobs[job as usize].in_flight += 1;
        let call = Call {
            job,
            first: at,
            at,
            end,
            bytes: 0,
            step,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.calls[index as usize] = call;
                index
            }
            None => {
                self.calls.push(call);
                (self.calls.len() - 1) as u32
            }
        };
        self.send_call(index, core);
    }

    fn send_call(&mut self, index: u32, core: &mut Core) {
        let call = &self.calls[index as usize];
        let data = if call.step == Step::Write {
            call.end - call.at
        } else {
            0
        };
        let at_ns = self.forth.arrival_ns(core.now_ns(), HEADER_BYTES + data);
        core.timer(at_ns, ARRIVED, index);
    }

    /// The server has the call: its next transaction, or the answer.
    fn serve(&mut self, index: u32, core: &mut Core) {
        let call = self.calls[index as usize];
        let sync = core.get(call.job).op == Op::Sync;
        if (call.at >= call.end && !sync) || (sync && call.bytes == u32::MAX) {
            return self.answer(index, core);
        }
        let bytes = (call.end - call.at).min(self.rules.transaction_bytes) as u32;
        let (op, file_step) = match call.step {
            _ if sync => (Op::Sync, 0),
            Step::Read | Step::CopyRead => (Op::Read, 0),
            Step::CopyWrite => (Op::Write, self.twin),
            Step::Write if self.rules.mode == Mode::CopyReadWrite => (Op::Write, self.twin),
            _ => (Op::Write, 0),
        };
        self.calls[index as usize].bytes = if sync { u32::MAX } else { bytes };
        let (at, size_bytes) = if sync { (0, 0) } else { (call.at, bytes) };
        let job = core.get_mut(call.job);
        job.pending += 1;
        let (file, cpu) = (job.file + file_step, job.cpu);
        let now_ns = core.now_ns();
        let handle = core.create(Request::new(
            Level::Syscall,
            op,
            at,
            size_bytes,
            now_ns,
            Stage::Fs,
        ));
        let request = core.get_mut(handle);
        request.parent = call.job;
        (request.file, request.cpu, request.thread) = (file, cpu, self.thread);
        request.flags = flags::SYNC;
        request.tag = u64::from(index);
        let requests = u64::from(bytes).div_ceil(self.rules.request_bytes);
        core.send_at(
            core.now_ns() + requests * self.rules.combine_ns,
            self.server,
            handle,
        );
    }

    fn served(&mut self, child: Handle, core: &mut Core) {
        let index = core.get(child).tag as u32;
        let parent = core.get(child).parent;
        core.attach(parent, child);
        core.get_mut(parent).pending -= 1;
        let call = &mut self.calls[index as usize];
        match call.step {
            Step::CopyRead => call.step = Step::CopyWrite,
            Step::CopyWrite => {
                call.step = Step::CopyRead;
                call.at += u64::from(call.bytes);
            }
            _ if call.bytes == u32::MAX => {}
            _ => call.at += u64::from(call.bytes),
        }
        self.serve(index, core);
    }

    fn answer(&mut self, index: u32, core: &mut Core) {
        let call = &self.calls[index as usize];
        let data = if call.step == Step::Read {
            call.end - call.first
        } else {
            0
        };
        let at_ns = self.back.arrival_ns(core.now_ns(), HEADER_BYTES + data);
        core.timer(at_ns, ANSWERED, index);
    }

    /// The client has the answer.
    fn answered(&mut self, index: u32, core: &mut Core) {
        let call = self.calls[index as usize];
        if call.step == Step::Read && self.rules.mode == Mode::CopyReadWrite {
            // What it read it now writes.
            let state = &mut self.calls[index as usize];
            (state.step, state.at) = (Step::Write, call.first);
            return self.send_call(index, core);
        }
        self.calls[index as usize].step = Step::Free;
        self.free.push(index);
        let job = &mut self.jobs[call.job as usize];
        job.in_flight -= 1;
        let over = job.next >= job.end || core.get(call.job).op == Op::Sync;
        if !over {
            self.more(call.job, core);
        } else if self.jobs[call.job as usize].in_flight == 0 {
            core.absorb(call.job);
            self.held -= 1;
            core.complete(call.job);
        }
    }
}

impl Component for Protocol {
    fn name(&self) -> &str {
        "protocol"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(handle) => self.arrive(handle, core),
            Message::Done(child) => self.served(child, core),
            Message::Timer { what: ARRIVED, arg } if self.calls[arg as usize].step == Step::Token => {
                self.answer(arg, core)
            }
            Message::Timer { what: ARRIVED, arg } => self.serve(arg, core),
            Message::Timer { arg, .. } => self.answered(arg, core),
        }
    }

    fn depth(&self) -> usize {
        self.held
    }
}
