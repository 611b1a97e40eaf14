//! Interrupts: a pool of vectors that devices share, each bound to a CPU, each with handlers that cost time.
//!
//! A drive spreads its completions over its vectors by the submitting CPU. When a vector fires, its CPU runs the
//! handlers of *all* devices on it, in order of registration; a request is complete when its own device's handler has
//! run. While a CPU runs handlers, other vectors of that CPU wait; completions that arrive before a vector's run begins
//! share that run. Source: Linux `kernel/irq/handle.c` (shared interrupts call every action of the line); VMD
//! (`drivers/pci/controller/vmd.c`) gives its children such shared vectors.
mod foreign;

use crate::component::{Component, Handle, Message};
use crate::keys::{key, Key, Kind};
use crate::names;
use crate::sim::Core;
use foreign::Endpoint;
pub use foreign::ForeignHandler;
use std::collections::VecDeque;

/// Keys of `[interrupts]`.
pub const KEYS: [Key; 7] = [
    key(
        "vectors",
        Kind::Count(1, 2048),
        "64",
        "Vectors in the pool that all devices share.",
    ),
    key(
        "max_vec",
        Kind::Count(1, 256),
        "4",
        "Vectors each device gets (the option max_vec of the VMD driver).",
    ),
    key(
        "affinity",
        Kind::Choice(&["honoured", "ignored"]),
        "honoured",
        "Whether the wanted CPUs are honoured: vector v on CPU v modulo CPUs, or all on the first few.",
    ),
    key(
        "ignored_cpus",
        Kind::Count(1, 4096),
        "1",
        "The CPUs that all vectors are on where the wanted ones are ignored.",
    ),
    key(
        "handler",
        Kind::Time(0, 1_000_000_000),
        "1us",
        "Cost of a drive's handler, per call.",
    ),
    key(
        "completion",
        Kind::Time(0, 1_000_000_000),
        "300ns",
        "Cost of each completion a handler finds.",
    ),
    key(
        "idle_handler",
        Kind::Time(0, 1_000_000_000),
        "400ns",
        "Cost of a drive's handler that finds nothing.",
    ),
];

const STEP: u16 = 1;
const FOREIGN: u16 = 2;
/// A call of foreign handler n may have ended: n is added to this.
const ANSWERED: u16 = 16;

/// First Linux number of the vectors.
pub const FIRST_VECTOR: i16 = 32;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Owner {
    Drive(u16),
    Foreign(u16),
}

struct Vector {
    cpu: usize,
    owners: Vec<Owner>,
    /// Completions that its next run will find: (drive, request).
    pending: Vec<(u16, Handle)>,
    queued: bool,
}

#[derive(Default)]
struct Cpu {
    /// Vectors that wait, in order.
    queue: VecDeque<usize>,
    running: Option<Run>,
    /// The list of the last run, empty: spares the making of another.
    spare: Vec<(u16, Handle)>,
    /// Time in handlers, all and of each drive: to tell what was foreign.
    all_ns: u64,
}

struct Run {
    vector: usize,
    /// Index in the vector's owners.
    step: usize,
    step_began_ns: u64,
    /// Completions found when the run began.
    found: Vec<(u16, Handle)>,
}

/// A handler run, for `irqs/`.
#[derive(Clone, Debug)]
pub struct HandlerRun {
    /// CPU.
    pub cpu: usize,
    /// Index of the vector.
    pub vector: usize,
    /// Name of the handler.
    pub handler: String,
    /// Drive, if it is one's.
    pub drive: Option<u16>,
    /// Begin.
    pub start_ns: u64,
    /// Length.
    pub duration_ns: u64,
}

/// The interrupt controller of the host.
pub struct Interrupts {
    vectors: Vec<Vector>,
    cpus: Vec<Cpu>,
    /// Per drive: its vectors.
    of_drive: Vec<Vec<usize>>,
    drive_names: Vec<String>,
    foreign: Vec<ForeignHandler>,
    /// Per foreign handler: its device.
    endpoints: Vec<Endpoint>,
    /// Per CPU and drive: time in that drive's handlers.
    own_ns: Vec<Vec<u64>>,
    /// Per drive: completed requests and the sum of their latencies.
    latency_of: Vec<(u64, u64)>,
    handler_ns: u64,
    completion_ns: u64,
    idle_handler_ns: u64,
    held: usize,
    rng: workload::rng::Rng,
    stopped: bool,
}

/// Costs of handlers.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Per call that finds something.
    pub handler_ns: u64,
    /// Per completion found.
    pub completion_ns: u64,
    /// Per call that finds nothing.
    pub idle_handler_ns: u64,
}

impl Interrupts {
    /// `affinity`: CPU of each vector. Drive `d` gets vectors `d * max_vec ..` modulo the pool.
    pub fn new(
        drive_names: Vec<String>,
        max_vec: usize,
        affinity: &[usize],
        cpus: usize,
        costs: Costs,
        foreign: Vec<ForeignHandler>,
        rng: workload::rng::Rng,
    ) -> Interrupts {
        let pool = affinity.len();
        let mut vectors: Vec<Vector> = affinity
            .iter()
            .map(|cpu| Vector {
                cpu: cpu % cpus,
                owners: Vec::new(),
                pending: Vec::new(),
                queued: false,
            })
            .collect();
        let drives = drive_names.len();
        let of_drive: Vec<Vec<usize>> = (0..drives)
            .map(|drive| {
                (0..max_vec.min(pool))
                    .map(|n| (drive * max_vec + n) % pool)
                    .collect()
            })
            .collect();
        for (drive, own) in of_drive.iter().enumerate() {
            own.iter()
                .for_each(|vector| vectors[*vector].owners.push(Owner::Drive(drive as u16)));
        }
        for (n, handler) in foreign.iter().enumerate() {
            // First in the list: it is called, and paid for, before the drive's own handler.
            handler
                .vectors
                .iter()
                .for_each(|vector| vectors[*vector % pool].owners.insert(0, Owner::Foreign(n as u16)));
        }
        Interrupts {
            vectors,
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            of_drive,
            drive_names,
            endpoints: foreign.iter().map(Endpoint::new).collect(),
            foreign,
            own_ns: vec![vec![0; drives]; cpus],
            latency_of: vec![(0, 0); drives],
            handler_ns: costs.handler_ns,
            completion_ns: costs.completion_ns,
            idle_handler_ns: costs.idle_handler_ns,
            held: 0,
            rng,
            stopped: false,
        }
    }

    /// Vectors of a drive, as indices.
    pub fn vectors_of(&self, drive: usize) -> &[usize] {
        &self.of_drive[drive]
    }

    /// Facts for `system.json`: (number, handlers, CPU).
    pub fn facts(&self) -> Vec<(i16, String, usize)> {
        let name = |owner: &Owner, vector: usize| match owner {
            Owner::Drive(drive) => {
                let drive = *drive as usize;
                let queue = self.of_drive[drive].iter().position(|own| *own == vector);
                names::handler(&self.drive_names[drive], drive, queue.unwrap_or(0))
            }
            Owner::Foreign(n) => self.foreign[*n as usize].name.clone(),
        };
        let used = self
            .vectors
            .iter()
            .enumerate()
            .filter(|(_, v)| !v.owners.is_empty());
        used.map(|(n, vector)| {
            let names: Vec<String> = vector.owners.iter().map(|owner| name(owner, n)).collect();
            (FIRST_VECTOR + n as i16, names.join(", "), vector.cpu)
        })
        .collect()
    }

    /// Handler time of a CPU up to now that was not `drive`'s.
    fn foreign_so_far(&self, cpu: usize, drive: u16, now_ns: u64) -> u64 {
        let state = &self.cpus[cpu];
        let done = state.all_ns - self.own_ns[cpu][drive as usize];
        let partial = match &state.running {
            Some(run) if self.vectors[run.vector].owners[run.step] != Owner::Drive(drive) => {
                now_ns - run.step_began_ns
            }
            _ => 0,
        };
        done + partial
    }

    fn raise(&mut self, vector: usize, core: &mut Core) {
        let state = &mut self.vectors[vector];
        if state.queued {
            return;
        }
        state.queued = true;
        let cpu = state.cpu;
        self.cpus[cpu].queue.push_back(vector);
        if self.cpus[cpu].running.is_none() {
            self.begin(cpu, core);
        }
    }

    /// Begins the next vector's run on an idle CPU.
    fn begin(&mut self, cpu: usize, core: &mut Core) {
        let Some(vector) = self.cpus[cpu].queue.pop_front() else {
            return;
        };
        let state = &mut self.vectors[vector];
        state.queued = false;
        let spare = std::mem::take(&mut self.cpus[cpu].spare);
        let found = std::mem::replace(&mut state.pending, spare);
        self.cpus[cpu].running = Some(Run {
            vector,
            step: 0,
            step_began_ns: core.now_ns(),
            found,
        });
        self.step(cpu, core);
    }

    /// Sets the end of the current handler of a CPU's run.
    fn step(&mut self, cpu: usize, core: &mut Core) {
        let Some(run) = &mut self.cpus[cpu].running else {
            return;
        };
        run.step_began_ns = core.now_ns();
        let cost_ns = match self.vectors[run.vector].owners[run.step] {
            Owner::Foreign(n) => {
                let handler = &self.foreign[n as usize];
                let now_ns = core.now_ns();
                match (handler.from_ns..handler.to_ns).contains(&now_ns) {
                    false => 0,
                    true if handler.busy > 0.0 => {
                        let timer = self.endpoints[n as usize].begin(cpu, handler.cost_ns, now_ns);
                        return answered_at(timer, n, core);
                    }
                    true => handler.cost_ns,
                }
            }
            Owner::Drive(drive) => {
                // It looks at its queue when it is called: what came during the handlers before it, too. The interrupt
                // of those is raised already and makes a run that may find nothing.
                let pending = &mut self.vectors[run.vector].pending;
                run.found.extend(pending.iter().filter(|(of, _)| *of == drive));
                pending.retain(|(of, _)| *of != drive);
                let found = run.found.iter().filter(|(of, _)| *of == drive).count() as u64;
                match found {
                    0 => self.idle_handler_ns,
                    found => self.handler_ns + found * self.completion_ns,
                }
            }
        };
        core.timer(core.now_ns() + cost_ns, STEP, cpu as u32);
    }

    /// A device may have answered the last read of a call.
    fn answered(&mut self, n: u16, timer: u32, core: &mut Core) {
        let (cpu, next) = self.endpoints[n as usize].end(timer, core.now_ns());
        answered_at(next, n, core);
        if let Some(cpu) = cpu {
            self.step_done(cpu, core);
        }
    }

    /// A handler has ended: completes what it found, goes on to the next handler, or to the next vector.
    fn step_done(&mut self, cpu: usize, core: &mut Core) {
        let now_ns = core.now_ns();
        let Some(mut run) = self.cpus[cpu].running.take() else {
            return;
        };
        let owner = self.vectors[run.vector].owners[run.step];
        let cost_ns = now_ns - run.step_began_ns;
        self.cpus[cpu].all_ns += cost_ns;
        let mut drive_of_run = None;
        if let Owner::Drive(drive) = owner {
            drive_of_run = Some(drive);
            self.own_ns[cpu][drive as usize] += cost_ns;
            for &(of, handle) in run.found.iter().filter(|(of, _)| *of == drive) {
                let foreign_ns = self.foreign_so_far(cpu, of, now_ns);
                let request = core.get_mut(handle);
                request.foreign_ns = foreign_ns - request.foreign_ns;
                self.held -= 1;
                let latency_ns = now_ns - request.start_ns;
                let (count, sum_ns) = &mut self.latency_of[of as usize];
                (*count, *sum_ns) = (*count + 1, *sum_ns + latency_ns);
                core.complete(handle);
            }
            run.found.retain(|(of, _)| *of != drive);
        }
        if core.recorder.is_recording() && cost_ns > 0 {
            let handler = match owner {
                Owner::Drive(drive) => {
                    let queue = self.of_drive[drive as usize]
                        .iter()
                        .position(|v| *v == run.vector);
                    names::handler(
                        &self.drive_names[drive as usize],
                        drive as usize,
                        queue.unwrap_or(0),
                    )
                }
                Owner::Foreign(n) => self.foreign[n as usize].name.clone(),
            };
            core.recorder.handler_run(HandlerRun {
                cpu,
                vector: run.vector,
                handler,
                drive: drive_of_run,
                start_ns: run.step_began_ns,
                duration_ns: cost_ns,
            });
        }
        run.step += 1;
        if run.step < self.vectors[run.vector].owners.len() {
            self.cpus[cpu].running = Some(run);
            self.step(cpu, core);
        } else {
            assert!(run.found.is_empty(), "a completion without a handler");
            self.cpus[cpu].spare = run.found;
            self.begin(cpu, core);
        }
    }

    /// Own interrupts of a foreign handler.
    fn foreign_tick(&mut self, n: usize, core: &mut Core) {
        let handler = &self.foreign[n];
        let now_ns = core.now_ns();
        if self.stopped || handler.rate_per_s <= 0.0 || now_ns >= handler.to_ns {
            return;
        }
        let vector = handler.vectors.first().map(|vector| vector % self.vectors.len());
        let from_ns = handler.from_ns;
        let wait_ns = (self.rng.exponential() * 1e9 / handler.rate_per_s) as u64 + 1;
        if let Some(vector) = vector.filter(|_| now_ns >= from_ns) {
            self.raise(vector, core);
        }
        core.timer(now_ns.max(from_ns) + wait_ns, FOREIGN, n as u32);
    }
}

/// Sets the timer of a device's next answer.
fn answered_at(timer: Option<(u64, u32)>, n: u16, core: &mut Core) {
    if let Some((at_ns, number)) = timer {
        core.timer(at_ns, ANSWERED + n, number);
    }
}

impl Component for Interrupts {
    fn name(&self) -> &str {
        "interrupts"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(handle) => {
                self.held += 1;
                let request = core.get(handle);
                let drive = request.device;
                let own = &self.of_drive[drive as usize];
                let hctx = request.cpu as usize % own.len();
                let vector = own[hctx];
                let cpu = self.vectors[vector].cpu;
                let foreign_ns = self.foreign_so_far(cpu, drive, core.now_ns());
                let request = core.get_mut(handle);
                request.hctx = hctx as u16;
                request.vector = FIRST_VECTOR + vector as i16;
                request.complete_cpu = cpu as u16;
                // Until completion: what foreign handlers had used before; then what they used meanwhile.
                request.foreign_ns = foreign_ns;
                self.vectors[vector].pending.push((drive, handle));
                self.raise(vector, core);
            }
            Message::Timer { what: STEP, arg } => self.step_done(arg as usize, core),
            Message::Timer { what: FOREIGN, arg } => self.foreign_tick(arg as usize, core),
            Message::Timer { what, arg } if what >= ANSWERED => self.answered(what - ANSWERED, arg, core),
            Message::Timer { .. } => (0..self.foreign.len()).for_each(|n| self.foreign_tick(n, core)),
            Message::Done(_) => unreachable!("interrupts make no requests"),
        }
    }

    fn depth(&self) -> usize {
        self.held
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn finish(&mut self, core: &mut Core) {
        let (mut count, mut sum_ns) = (0, 0);
        for (name, (own, own_ns)) in self.drive_names.iter().zip(&self.latency_of) {
            (count, sum_ns) = (count + own, sum_ns + own_ns);
            let mean_ns = *own_ns as f64 / (*own).max(1) as f64;
            core.recorder.facts.insert(format!("{name}_mean_ns"), mean_ns);
        }
        let mean_ns = sum_ns as f64 / count.max(1) as f64;
        core.recorder.facts.insert("drives_mean_ns".into(), mean_ns);
    }
}
