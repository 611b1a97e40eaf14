//! The probe `sched`: what threads that do I/O wait for when they do not run.
//!
//! # What a wait is
//!
//! A wait begins when a thread in scope leaves its CPU, and ends when it is woken (a sleep, a stop) or runs (waiting for
//! a CPU). A sleep is followed by a wait for a CPU, however short. A wait for a CPU in which the thread's control group
//! was throttled is `Throttled` as a whole: the kernel does not tell when exactly it could have run again.
//!
//! Who is named for a wait for a CPU is the process that ran longest on that CPU meanwhile, of the last eight runs: not
//! the one that happened to preempt the thread first.
//!
//! # Limits
//!
//! Some kernels do not run BPF programs while certain tasks are current (see [`crate::block`]). When such a task is
//! switched out, the arrival of the next one passes unseen, and what an interrupt woke while it ran. It is noticed when that
//! thread leaves again; how long it ran and waited for a CPU before then comes from the kernel's own accounts
//! (`se.sum_exec_runtime`, `sched_info.run_delay`). Where they contradict the clock the wait is a loss, `end_unseen`.
//!
//! The kernel function in which a thread sleeps takes a look at its stack, which costs about a microsecond: it is done once
//! per millisecond and thread, so every sleep that begins a millisecond after the last look has one. Of a thread that the last look
//! found held back by a queue's controller (writeback throttling, io.latency, io.cost) every sleep has one. Kernel threads are
//! looked at only where they sleep for I/O, and such a sleep is recorded if they were held back: writeback is mostly theirs.
//!
//! # Who woke it
//!
//! Of a sleep of 100 us or more that is not for I/O the thread that ended it is recorded, from `sched_waking`, which comes where the waker runs. A stack
//! with an interrupt's entry says that whoever ran there was interrupted, and woke nobody: then no one is named. Exceptions enter the kernel at the same place, so a thread that wakes another one out of a page fault is not named either.
//!
//! # Devices that are software
//!
//! A loop device on a FUSE file, ublk or nbd is as late as the threads that work for it. Where the recording finds such servers
//! (`system.servers`), their waits for a CPU are recorded whatever the scope, and so are those of the kernel's workers that
//! hand requests to them, or complete them: what a request waited for there is then known, not guessed from how crowded the CPUs were.
use crate::error::RecordError;
use crate::facts;
use crate::host::{self, Functions};
use crate::load::{refused, Context, Kernel};
use crate::plain::{padded, read, Plain};
use crate::probe::{Batch, Hooks, Log, Need, Probe, Target};
use crate::ring_probe::{Counter, Design, Records, RingProbe, Settings};
use crate::streams::{Out, Stream};
use aya::include_bytes_aligned;
use aya::maps::HashMap;
use aya::Btf;
use case::rows::{sched_by, SchedRow, SchedState, NAME_BYTES};
use case::CaseError;
use std::collections::BTreeMap;

static OBJECT: &[u8] = include_bytes_aligned!("sched.bpf.o");

/// Shorter waits are counted, not written.
const MIN_NS: u64 = 10_000;

/// Looks at one thread's stack are at least this far apart.
const STACK_PAUSE_NS: u64 = 1_000_000;

/// Who ended a shorter sleep is not looked at: that takes about as long as a look at the sleeper's stack.
const WAKER_MIN_NS: u64 = 100_000;

/// Where interrupts enter the kernel.
const IRQ_ENTRY: [&str; 2] = ["__irqentry_text_start", "__irqentry_text_end"];

const SCOPE: &str = "threads that submit I/O and never sleep for it";
const DESCENDANTS: &str = "waits of the command's descendants before their first I/O";
const LOCKS: &str = "locks that threads wait for";
const WAKERS: &str = "who wakes threads that slept";
const NAMES: &str = "the last program of a process that keeps its CPU while it executes several";
const SERVING: &str = "waits for a CPU of the kernel's workers that serve devices";

/// Ends before begins: a thread comes into scope last.
pub const HOOKS: Hooks = &[
    ("sched_process_exit", Need::Must),
    ("sched_switch", Need::Must),
    ("sched_waking", Need::Fact(WAKERS)),
    ("sched_wakeup", Need::Must),
    ("sched_wakeup_new", Need::Must),
    ("contention_end", Need::Fact(LOCKS)),
    ("contention_begin", Need::Fact(LOCKS)),
    ("sched_process_fork", Need::Fact(DESCENDANTS)),
    ("sched_process_exec", Need::Fact(NAMES)),
    ("io_uring_cqring_wait", Need::Fact(SCOPE)),
    ("block_bio_queue", Need::Fact(SCOPE)),
    ("block_rq_complete", Need::Fact(SERVING)),
    ("workqueue_execute_start", Need::Fact(SERVING)),
];

/// Processes that serve storage by software, at most; as in sched.bpf.c.
const SERVERS_MAX: usize = 16;

/// Functions by which workers of the kernel hand requests to who serves such a device (drivers/block/loop.c, drivers/block/nbd.c); as many as in
/// sched.bpf.c.
const SERVING_WORK: [&str; 3] = ["loop_workfn", "loop_rootcg_workfn", "recv_work"];

/// Kernel's names of block devices that threads of this host work for begin so.
const BY_SOFTWARE: [&str; 3] = ["loop", "ublkb", "nbd"];

/// Loads and attaches the probe.
pub fn attach(context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    let names = [
        "__sched_text_start",
        "__sched_text_end",
        sched_by::WBT,
        sched_by::IO_COST,
    ];
    let symbols = host::kernel_symbols(&[&names[..], &SERVING_WORK[..], &IRQ_ENTRY[..]].concat());
    let servers = case::servers::of_this_host();
    let sched = Sched {
        symbols,
        by_software: servers
            .values()
            .flatten()
            .any(|name| BY_SOFTWARE.iter().any(|begin| name.starts_with(begin))),
        servers: servers.keys().filter_map(|pid| pid.parse().ok()).collect(),
    };
    RingProbe::attach(sched, context)
}

struct Sched {
    /// Addresses of the functions that a look at a stack knows, as far as they are shown.
    symbols: BTreeMap<String, u64>,
    /// Processes that serve storage from user space when the recording begins.
    servers: Vec<i32>,
    /// Whether one of them serves a block device, at which workers of the kernel take part.
    by_software: bool,
}

impl Design for Sched {
    const NAME: &'static str = "sched";
    const HOOKS: Hooks = HOOKS;
    // In an interrupt locks are spun for, never slept for.
    const THREADS_ONLY: &'static [&'static str] = &["contention_begin", "contention_end"];
    const COUNTERS: &'static [Counter] = &[
        Counter::Lost("ring_full"),
        Counter::Lost("map_full"),
        Counter::Lost("end_unseen"),
        Counter::Note("waits_below_min"),
        Counter::Note("waits_below_min_ns"),
        Counter::Note("threads"),
        Counter::Lost("scope_full"),
    ];

    fn object() -> &'static [u8] {
        OBJECT
    }

    fn settings(&self, context: &Context<'_>) -> Settings {
        let symbol = |name: &str| self.symbols.get(name).copied().unwrap_or(0);
        let end = |begin: u64| Functions::of_kernel().end(begin);
        let (wbt, cost) = (symbol(sched_by::WBT), symbol(sched_by::IO_COST));
        let mut servers = [0_u8; 4 * SERVERS_MAX];
        for (place, pid) in servers.chunks_exact_mut(4).zip(&self.servers) {
            place.copy_from_slice(&pid.to_ne_bytes());
        }
        let mut serving_work = [0_u8; 8 * SERVING_WORK.len()];
        for (place, name) in serving_work.chunks_exact_mut(8).zip(SERVING_WORK) {
            place.copy_from_slice(&symbol(name).to_ne_bytes());
        }
        Settings::default()
            .global("servers", servers)
            .global("serving_work", serving_work)
            .global("min_ns", MIN_NS.to_ne_bytes())
            .global("stack_pause_ns", STACK_PAUSE_NS.to_ne_bytes())
            .global("scope_limited", [u8::from(context.config.follows_processes())])
            .global("scope_only", [u8::from(context.config.only_processes())])
            .global("sched_text_start", symbol("__sched_text_start").to_ne_bytes())
            .global("sched_text_end", symbol("__sched_text_end").to_ne_bytes())
            .global("wbt_start", wbt.to_ne_bytes())
            .global("wbt_end", end(wbt).to_ne_bytes())
            .global("cost_start", cost.to_ne_bytes())
            .global("cost_end", end(cost).to_ne_bytes())
            .global("waker_min_ns", WAKER_MIN_NS.to_ne_bytes())
            .global("irqentry_text_start", symbol(IRQ_ENTRY[0]).to_ne_bytes())
            .global("irqentry_text_end", symbol(IRQ_ENTRY[1]).to_ne_bytes())
    }

    /// Workers of the kernel are looked at only where they serve a device.
    fn wanted(&self, _btf: &Btf, tracepoint: &str, _need: Need) -> bool {
        !["block_rq_complete", "workqueue_execute_start"].contains(&tracepoint) || self.by_software
    }

    /// Without the addresses nobody is seen to be held back; in a scope of processes those who write back are not looked at.
    fn attach(&mut self, context: &Context<'_>, kernel: &mut Kernel) -> Result<(), RecordError> {
        let what = facts::WRITEBACK_THROTTLING.what;
        let known = |name| self.symbols.contains_key(name);
        if !(known("__sched_text_start") && known(sched_by::WBT)) {
            kernel.miss(
                what,
                "/proc/kallsyms does not show the functions in which it lets submitters wait",
            );
        } else if context.config.only_processes() {
            kernel.miss(
                what,
                "the kernel's writeback threads are not in this scope; time in which it held them back counts as queue time",
            );
        }
        if !IRQ_ENTRY.into_iter().all(known) {
            kernel.miss(
                WAKERS,
                "/proc/kallsyms does not show where interrupts enter the kernel, so what they wake cannot be told from what a thread does",
            );
        }
        Ok(())
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(SchedLog {
            waits: Out::create(target, &[])?,
            functions: Functions::of_kernel(),
        }))
    }

    /// Waits that have not ended.
    fn finish(&mut self, kernel: &mut Kernel, records: &mut Records, end_ns: u64) -> Result<(), RecordError> {
        let threads: HashMap<_, u32, [u8; THREAD_BYTES]> =
            HashMap::try_from(kernel.map("threads")?).map_err(|error| refused("threads", &error))?;
        let threads = threads.iter().filter_map(|entry| read::<Thread>(&entry.ok()?.1));
        for thread in threads.filter(|thread| thread.wait.start_ns != 0) {
            let for_a_cpu = thread.wait.state <= SchedState::Throttled as u8;
            let held_back = thread.held_back != 0 && thread.wait.place != 0;
            if !for_a_cpu && (thread.kernel != 0 || thread.serves != 0) && !held_back {
                continue;
            }
            let mut wait = thread.wait;
            if for_a_cpu {
                wait.end_ns = thread.unseen_end_ns(run_delay_ns(wait.pid, wait.tid), end_ns);
            }
            records.push_plain(&wait);
        }
        Ok(())
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        let servers = self.servers.len().min(SERVERS_MAX) as u64;
        vec![
            ("min_ns", MIN_NS),
            ("stack_pause_ns", STACK_PAUSE_NS),
            ("servers", servers),
        ]
    }
}

/// Twin of `struct wait`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    start_ns: u64,
    end_ns: u64,
    place: u64,
    comm: [u8; 16],
    by_comm: [u8; 16],
    waker: [u8; 16],
    tid: i32,
    pid: i32,
    by_pid: i32,
    waker_pid: i32,
    waker_tid: i32,
    cpu: u16,
    state: u8,
    reason: u8,
}

/// Twin of `struct thread`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    wait: Wait,
    run_delay: u64,
    throttled_ns: u64,
    ran_ns: u64,
    stack_ns: u64,
    contention: u32,
    of_command: u8,
    kernel: u8,
    held_back: u8,
    serves: u8,
}

const THREAD_BYTES: usize = size_of::<Thread>();
const _: () = assert!(size_of::<Wait>() == 96 && THREAD_BYTES == 136);

// SAFETY: integers and bytes without padding between them.
unsafe impl Plain for Wait {}
// SAFETY: as above.
unsafe impl Plain for Thread {}

impl Thread {
    /// When a wait for a CPU with an unseen end was over, by the kernel's account at the end; 0 = not yet.
    fn unseen_end_ns(&self, run_delay_ns: Option<u64>, end_ns: u64) -> u64 {
        let waited_ns = run_delay_ns.map_or(0, |now| now.saturating_sub(self.run_delay));
        let ended_ns = self.wait.start_ns + waited_ns;
        if waited_ns == 0 || ended_ns > end_ns {
            return 0;
        }
        ended_ns
    }
}

/// Time that a thread has waited for a CPU, by the kernel's own account (Documentation/scheduler/sched-stats.rst).
fn run_delay_ns(pid: i32, tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

impl Wait {
    fn row(&self, functions: &Functions) -> SchedRow {
        let wanted_cpu = matches!(
            SchedState::from_raw(self.state),
            Some(SchedState::Woken | SchedState::Preempted | SchedState::Throttled)
        );
        // A sleep with an unseen end lasts until the thread runs. Who ran meanwhile was not in its way.
        let (by_pid, by) = match functions.name(self.place) {
            Some(function) if self.place != 0 => (self.by_pid, padded(function.as_bytes())),
            _ if wanted_cpu => (self.by_pid, padded(&self.by_comm)),
            _ => (0, [0; NAME_BYTES]),
        };
        SchedRow {
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            tid: self.tid,
            pid: self.pid,
            by_pid,
            cpu: self.cpu,
            state: self.state,
            reason: self.reason,
            comm: self.comm,
            by,
            waker_tid: self.waker_tid,
            waker_pid: self.waker_pid,
            waker: self.waker,
        }
    }
}

/// The stream `sched`.
struct SchedLog {
    waits: Out<SchedRow>,
    functions: &'static Functions,
}

impl Log for SchedLog {
    fn write(&mut self, batch: Batch) {
        for record in Records::of(batch).iter() {
            if let Some(wait) = read::<Wait>(record) {
                self.waits.push(&wait.row(self.functions));
            }
        }
    }

    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.waits]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_in_the_way_of_one_that_sleeps() {
        let functions = Functions::default();
        let mut wait = Wait {
            by_pid: 7,
            by_comm: padded(b"hog"),
            state: SchedState::Woken as u8,
            ..Wait::default()
        };
        assert_eq!(wait.row(&functions).by, padded::<NAME_BYTES>(b"hog"));
        wait.state = SchedState::Uninterruptible as u8;
        let row = wait.row(&functions);
        assert_eq!((row.by_pid, row.by), (0, [0; NAME_BYTES]));
    }

    #[test]
    fn what_looks_at_threads_only_is_a_tracepoint_of_its_own() {
        let hooks: Vec<&str> = HOOKS.iter().map(|(tracepoint, _)| *tracepoint).collect();
        let unknown = Sched::THREADS_ONLY.iter().find(|name| !hooks.contains(name));
        assert_eq!(unknown, None);
    }

    #[test]
    fn an_end_that_was_not_shown_comes_from_the_kernels_account() {
        let mut thread = Thread::default();
        thread.wait.start_ns = 100;
        thread.run_delay = 5;
        assert_eq!(thread.unseen_end_ns(Some(25), 1000), 120);
        assert_eq!(thread.unseen_end_ns(Some(5), 1000), 0, "still waiting");
        assert_eq!(thread.unseen_end_ns(None, 1000), 0, "gone");
        assert_eq!(thread.unseen_end_ns(Some(2000), 1000), 0, "ended later");
    }
}
