//! Builds the stack of a plan: which parts there are, how they are connected, what they are called.
mod array;
mod drives;
mod layout;
mod server;
mod system;

pub use layout::Layout;
pub use system::system;

use crate::component::{Component, ComponentId};
use crate::components::clients::Clients;
use crate::components::host::{Host, Wake};
use crate::components::load::{Load, Target};
use crate::components::replay::{Replay, To};
use crate::components::server::Below;
use crate::components::throttle::Throttle;
use crate::error::LabError;
use crate::faults::Plan;
use crate::keys::Section;
use crate::models::cache::{Cache, PolicyKind};
use crate::recorder::Recorder;
use crate::request::Level;
use crate::sim::{stream, Sim};

/// Builds the whole stack; `recorder` gets its rows.
pub fn build(plan: &Plan, layout: &Layout, recorder: Recorder) -> Result<Sim, LabError> {
    let mut builder = Builder {
        plan,
        layout,
        seed: plan.scenario.workload.seed,
        sim: Sim::new(recorder, plan.scenario.root.whole("sample")),
    };
    let interrupts = builder.interrupts();
    let drives = builder.drives(interrupts)?;
    let volume = builder.volume(&drives)?;
    let below = builder.throttle(volume);
    let server = builder.storage(below)?;
    let top = builder.protocol(server);
    builder.loads(volume, &drives);
    builder.clients(top)?;
    Ok(builder.sim)
}

/// Where a replay enters the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// As clients do.
    Whole,
    /// At the volume, or the drive.
    Volume,
}

/// Builds the stack with a replay, made by `replay`, in the place of its clients.
pub fn build_replay(
    plan: &Plan,
    layout: &Layout,
    recorder: Recorder,
    top: Top,
    replay: impl FnOnce(To) -> Replay,
) -> Result<Sim, LabError> {
    let mut builder = Builder {
        plan,
        layout,
        seed: plan.scenario.workload.seed,
        sim: Sim::new(recorder, 0),
    };
    let interrupts = builder.interrupts();
    let drives = builder.drives(interrupts)?;
    let volume = builder.volume(&drives)?;
    let below = builder.throttle(volume);
    let to = match top {
        Top::Volume => To::Device(below),
        Top::Whole => {
            let server = builder.storage(below)?;
            To::Top(builder.protocol(server), builder.host()?)
        }
    };
    builder.loads(volume, &drives);
    let replay = builder.sim.add(Box::new(replay(to)));
    builder.sim.wake(replay, 0);
    Ok(builder.sim)
}

struct Builder<'a> {
    plan: &'a Plan,
    layout: &'a Layout,
    seed: u64,
    sim: Sim,
}

impl Builder<'_> {
    fn section(&self, name: &str) -> &Section {
        self.plan.scenario.section(name)
    }

    fn cpus(&self) -> usize {
        self.section("host").whole("cpus") as usize
    }

    fn throttle(&mut self, below: Below) -> Below {
        if self.plan.limits.is_empty() {
            return below;
        }
        let part = Throttle::new(below.id, self.plan.limits.clone());
        Below {
            id: self.sim.add(Box::new(part)),
            ..below
        }
    }

    /// What clients or their protocol talk to.
    fn storage(&mut self, below: Below) -> Result<ComponentId, LabError> {
        match self.plan.scenario.has("array") {
            true => self.array(below),
            false => Ok(self.server(below)),
        }
    }

    fn loads(&mut self, volume: Below, drives: &[ComponentId]) {
        for (n, (name, pattern)) in self.plan.loads.iter().enumerate() {
            let target = match pattern.drive {
                Some(drive) => Target {
                    id: drives[drive],
                    level: Level::Block,
                    device: drive as u16,
                    size_bytes: self.layout.drive_bytes,
                },
                None => Target {
                    id: volume.id,
                    level: volume.level,
                    device: volume.device,
                    size_bytes: self.layout.volume_bytes,
                },
            };
            let thread = self.layout.load_thread + n as u16;
            let load = Load::new(name, pattern.clone(), target, thread, stream(self.seed, name));
            let id = self.sim.add(Box::new(load));
            self.sim.wake(id, 0);
        }
    }

    fn host(&self) -> Result<Host, LabError> {
        let section = self.section("host");
        let file = &self.plan.scenario.file;
        let wake = Wake::parse(file, section.text("wake_table"), stream(self.seed, "wake"))?;
        let host = Host::new(
            self.cpus(),
            section.whole("submit"),
            section.whole("take"),
            self.plan.stalls.clone(),
            self.plan.pressure.clone(),
            stream(self.seed, "host"),
        )
        .waking(wake);
        Ok(match section.flag("pinned") {
            true => host,
            false => host.unpinned(stream(self.seed, "cpus")),
        })
    }

    fn clients(&mut self, top: ComponentId) -> Result<(), LabError> {
        let host = self.host()?;
        let spec = &self.plan.scenario.workload;
        let clients: Box<dyn Component> = Box::new(Clients::new(spec, &self.layout.sizes_bytes, top, host));
        let id = self.sim.add(clients);
        self.sim.wake(id, 0);
        Ok(())
    }
}

/// A cache of at least two keys, which is all that policies ask for.
fn policy(kind: PolicyKind, keys: usize) -> Cache {
    Cache::new(kind, keys.max(2)).expect("two keys or more")
}
