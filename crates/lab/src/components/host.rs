//! The host that submits: its CPUs, its threads' own work, and what keeps them from running.
//!
//! A thread does one thing at a time: its next turn begins when its last one ended. Before a turn it may be stopped
//! (a debugger, SIGSTOP, a frozen group) or wait on the run queue behind other processes.
use crate::error::LabError;
use crate::keys::{key, Key, Kind};
use crate::models::by_depth::ByDepth;
use crate::models::distribution::{unit, Quantiles};
use case::schema::Stage;
use workload::rng::Rng;

/// Keys of `[host]`.
pub const KEYS: [Key; 10] = [
    key("name", Kind::Text, "lab", "Host name."),
    key("comm", Kind::Text, "fio", "The program that does the work: command name of its threads."),
    key(
        "cpus",
        Kind::Count(1, 4096),
        "8",
        "CPUs; worker w runs on CPU w modulo CPUs.",
    ),
    key(
        "nodes",
        Kind::Count(1, 64),
        "1",
        "NUMA nodes: CPU c is of node c modulo nodes, as many hosts number them. Memory and drives are at node 0.",
    ),
    key(
        "pinned",
        Kind::Flag,
        "true",
        "Whether workers stay there; else each operation is submitted on any CPU.",
    ),
    key(
        "memory",
        Kind::Size(1 << 20, 1 << 50),
        "16GiB",
        "Memory, as system.json tells it.",
    ),
    key(
        "submit",
        Kind::Time(0, 1_000_000_000),
        "500ns",
        "CPU time of a worker to submit one operation.",
    ),
    key(
        "take",
        Kind::Time(0, 1_000_000_000),
        "300ns",
        "CPU time of a worker to take one completion.",
    ),
    key(
        "wake_table",
        Kind::Text,
        "",
        "How long a completion lies there before its worker looks: a line for each depth, `8 5000 = 0:900 0.5:4000 1:70000` = in flight, samples, then probability:nanoseconds. `whodisk lab fit` writes it. Empty = no time.",
    ),
    key(
        "syscall",
        Kind::Time(0, 1_000_000_000),
        "700ns",
        "Kernel time of one operation above the block layer.",
    ),
];

/// A worker does not run for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// Worker, or None for all.
    pub worker: Option<usize>,
    /// First begin.
    pub from_ns: u64,
    /// No begin after this.
    pub to_ns: u64,
    /// Distance of begins.
    pub every_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// Whether a stop comes anywhere in its period instead of at its begin.
    pub irregular: bool,
}

impl Stall {
    /// How far into its period stop number `count` begins.
    fn shift_ns(&self, count: u64) -> u64 {
        let room_ns = self.every_ns.saturating_sub(self.length_ns);
        match self.irregular {
            true => Rng::new(count, self.every_ns).below(room_ns.max(1)),
            false => 0,
        }
    }
}

/// Other processes want the CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pressure {
    /// First moment.
    pub from_ns: u64,
    /// After the last moment.
    pub to_ns: u64,
    /// Probability that a waking thread has to wait.
    pub probability: f64,
    /// Mean wait (exponential).
    pub wait_ns: u64,
}

/// One thread's state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread {
    free_ns: u64,
}

/// How long completions lie there before their thread looks: it has to be woken, or takes several at once.
#[derive(Clone, Debug)]
pub struct Wake {
    table: ByDepth,
    rng: Rng,
}

impl Wake {
    /// Reads `wake_table`; None if it is empty. Errors name the line.
    pub fn parse(file: &str, text: &str, rng: Rng) -> Result<Option<Wake>, LabError> {
        let mut measured = Vec::new();
        let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
        for (n, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            measured.push(wake_line(line).ok_or_else(|| {
                LabError::key(
                    file,
                    format!("host.wake_table, line {n}"),
                    "in-flight samples = probability:nanoseconds ..., both ascending",
                    format!("{line:?}"),
                    "correct it, or fit again with whodisk lab fit",
                )
            })?);
        }
        Ok(ByDepth::new(measured).map(|table| Wake { table, rng }))
    }
}

fn wake_line(line: &str) -> Option<(u32, Quantiles)> {
    let (head, tail) = line.split_once('=')?;
    let (depth, samples) = head.trim().split_once(' ')?;
    samples.trim().parse::<u64>().ok()?;
    let depth = depth.parse().ok().filter(|depth| *depth > 0)?;
    Some((depth, Quantiles::from_text(tail)?))
}

/// A line of `wake_table`.
pub fn wake_text(depth: u32, samples: u64, wake: &Quantiles) -> String {
    format!("{depth} {samples} = {}\n", wake.to_text())
}

/// When a thread gets to do something.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// What the time before `running_ns` is.
    pub stage: Stage,
    /// It could have run from here on.
    pub wanted_ns: u64,
    /// The thread runs.
    pub running_ns: u64,
    /// It is through.
    pub ready_ns: u64,
    /// What it did instead before: `running`, `stopped`, `runnable`.
    pub state: &'static str,
}

/// The submitting host.
pub struct Host {
    cpus: usize,
    submit_ns: u64,
    take_ns: u64,
    wake: Option<Box<Wake>>,
    stalls: Vec<Stall>,
    pressure: Vec<Pressure>,
    rng: Rng,
    /// Which CPU an operation is submitted on; None = that of its worker.
    roaming: Option<Rng>,
    first_tid: i32,
}

impl Host {
    /// Costs are per operation.
    pub fn new(
        cpus: usize,
        submit_ns: u64,
        take_ns: u64,
        stalls: Vec<Stall>,
        pressure: Vec<Pressure>,
        rng: Rng,
    ) -> Host {
        Host {
            cpus,
            submit_ns,
            take_ns,
            wake: None,
            stalls,
            pressure,
            rng,
            roaming: None,
            first_tid: FIRST_TID,
        }
    }

    /// The same host, with threads that do not look at once.
    pub fn waking(mut self, wake: Option<Wake>) -> Host {
        self.wake = wake.map(Box::new);
        self
    }

    /// How long a completion lies there, of an operation that began as one of `depth`.
    #[inline]
    pub fn wake_ns(&mut self, depth: u32) -> u64 {
        match &mut self.wake {
            Some(wake) => wake.table.at(depth.max(1), unit(&mut wake.rng)) as u64,
            None => 0,
        }
    }

    /// The same host, with threads that run wherever there is room.
    pub fn unpinned(mut self, rng: Rng) -> Host {
        self.roaming = Some(rng);
        self
    }

    /// CPU on which a worker that ran on `cpu` submits next.
    #[inline]
    pub fn next_cpu(&mut self, cpu: usize) -> usize {
        match &mut self.roaming {
            Some(rng) => rng.below(self.cpus as u64) as usize,
            None => cpu,
        }
    }

    /// CPU of a worker.
    pub fn cpu_of(&self, worker: usize) -> usize {
        worker % self.cpus
    }

    /// Thread number of a worker.
    pub fn tid_of(&self, worker: usize) -> i32 {
        self.first_tid + worker as i32
    }

    /// A worker wants to submit.
    #[inline]
    pub fn submit_turn(&mut self, worker: usize, thread: &mut Thread, now_ns: u64) -> Turn {
        let cost_ns = self.submit_ns;
        self.turn(worker, thread, now_ns, cost_ns)
    }

    /// A worker wants to take a completion.
    #[inline]
    pub fn take_turn(&mut self, worker: usize, thread: &mut Thread, now_ns: u64) -> Turn {
        let cost_ns = self.take_ns;
        self.turn(worker, thread, now_ns, cost_ns)
    }

    #[inline]
    fn turn(&mut self, worker: usize, thread: &mut Thread, now_ns: u64, cost_ns: u64) -> Turn {
        let idle = thread.free_ns <= now_ns;
        let wanted_ns = thread.free_ns.max(now_ns);
        let mut running_ns = wanted_ns;
        let (mut stage, mut state) = (Stage::App, "running");
        if !self.stalls.is_empty() {
            let until_ns = self.stalled_until(worker, running_ns);
            if until_ns > running_ns {
                (running_ns, state) = (until_ns, "stopped");
            }
        }
        if idle && !self.pressure.is_empty() {
            let wait_ns = self.run_queue_ns(running_ns);
            if wait_ns > 0 {
                running_ns += wait_ns;
                if state == "running" {
                    (stage, state) = (Stage::Runqueue, "runnable");
                }
            }
        }
        thread.free_ns = running_ns + cost_ns;
        Turn {
            stage,
            wanted_ns,
            running_ns,
            ready_ns: thread.free_ns,
            state,
        }
    }

    /// End of the stall that covers `at_ns`, or `at_ns`.
    fn stalled_until(&self, worker: usize, at_ns: u64) -> u64 {
        let mut until_ns = at_ns;
        for stall in &self.stalls {
            if stall.worker.is_some_and(|only| only != worker) || at_ns < stall.from_ns {
                continue;
            }
            let count = (at_ns - stall.from_ns) / stall.every_ns;
            let begin_ns = stall.from_ns + count * stall.every_ns + stall.shift_ns(count);
            if begin_ns < stall.to_ns && (begin_ns..begin_ns + stall.length_ns).contains(&at_ns) {
                until_ns = until_ns.max(begin_ns + stall.length_ns);
            }
        }
        until_ns
    }

    fn run_queue_ns(&mut self, at_ns: u64) -> u64 {
        let mut wait_ns = 0;
        for pressure in &self.pressure {
            if (pressure.from_ns..pressure.to_ns).contains(&at_ns) {
                let draw = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                let length = self.rng.exponential();
                if draw < pressure.probability {
                    wait_ns += (pressure.wait_ns as f64 * length) as u64;
                }
            }
        }
        wait_ns
    }
}

/// Thread number of worker 0; its process is the number before.
pub const FIRST_TID: i32 = 1001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_does_one_thing_at_a_time_and_stops() {
        let stall = Stall {
            worker: Some(1),
            from_ns: 1000,
            to_ns: 5000,
            every_ns: 1000,
            length_ns: 100,
            irregular: false,
        };
        let mut host = Host::new(4, 10, 5, vec![stall], Vec::new(), Rng::new(1, 1));
        let (mut one, mut two) = (Thread::default(), Thread::default());
        assert_eq!(host.submit_turn(1, &mut one, 0).ready_ns, 10);
        assert_eq!(host.submit_turn(1, &mut one, 0).ready_ns, 20);
        let turn = host.take_turn(1, &mut one, 2050);
        assert_eq!(
            (turn.running_ns, turn.ready_ns, turn.state),
            (2100, 2105, "stopped")
        );
        assert_eq!(host.take_turn(2, &mut two, 2050).running_ns, 2050);
        assert_eq!(host.take_turn(1, &mut one, 5050).state, "running");
    }
}
