//! Deliberately broken components: each must be caught by the assertions of the event loop, in release builds too.
use crate::component::{Component, ComponentId, Handle, Message};
use crate::recorder::Recorder;
use crate::request::{Level, Request};
use crate::sim::{Core, Sim};
use crate::tally::Tally;
use case::schema::{Op, Stage};

#[derive(Clone, Copy, PartialEq)]
enum Sin {
    None,
    /// Takes a request and forgets it.
    Forgets,
    /// Completes a request twice.
    Repeats,
    /// Asks for an event in the past.
    LooksBack,
    /// Holds more than its capacity.
    Hoards,
    /// Completes a request that it has handed on.
    Meddles,
    /// Says it holds one more than it does.
    Lies,
}

struct Broken {
    sin: Sin,
    below: ComponentId,
    held: Vec<Handle>,
    seen: u32,
}

impl Component for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        match message {
            Message::Submit(handle) => {
                self.seen += 1;
                if self.sin == Sin::Forgets && self.seen == 50 {
                    return;
                }
                if self.sin == Sin::Meddles && self.seen == 50 {
                    core.send(self.below, handle);
                    return core.complete(handle);
                }
                self.held.push(handle);
                if self.sin == Sin::LooksBack && self.seen == 50 {
                    core.timer(core.now_ns() - 1, 0, handle);
                }
                if self.sin != Sin::Hoards {
                    core.timer(core.now_ns() + 10, 0, handle);
                }
            }
            Message::Timer { arg, .. } => {
                self.held.retain(|handle| *handle != arg);
                core.complete(arg);
                if self.sin == Sin::Repeats && self.seen == 50 {
                    core.complete(arg);
                }
            }
            Message::Done(_) => unreachable!("it makes no requests"),
        }
    }

    fn depth(&self) -> usize {
        self.held.len() + usize::from(self.sin == Sin::Lies && self.seen > 50)
    }

    fn capacity(&self) -> Option<usize> {
        Some(70)
    }
}

struct Source {
    below: ComponentId,
    left: u32,
}

impl Component for Source {
    fn name(&self) -> &str {
        "source"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        if let Message::Done(handle) = message {
            return core.release(handle);
        }
        let request = Request::new(Level::Internal, Op::Read, 0, 512, core.now_ns(), Stage::Queue);
        let handle = core.create(request);
        core.send(self.below, handle);
        self.left -= 1;
        if self.left > 0 {
            core.timer(core.now_ns() + 7, 0, 0);
        }
    }

    fn depth(&self) -> usize {
        0
    }
}

fn run(sin: Sin) {
    let mut sim = Sim::new(Recorder::new(Tally::new(0, u64::MAX), None, true), 0);
    let sink = Broken {
        sin: Sin::None,
        below: 0,
        held: Vec::new(),
        seen: 0,
    };
    let below = sim.add(Box::new(sink));
    let broken = Broken {
        sin,
        below,
        held: Vec::new(),
        seen: 0,
    };
    let below = sim.add(Box::new(broken));
    let source = sim.add(Box::new(Source { below, left: 100 }));
    sim.wake(source, 0);
    sim.run(u64::MAX, |_| false);
}

#[test]
fn a_sound_component_passes() {
    run(Sin::None);
}

#[test]
fn every_broken_component_is_caught() {
    let sins = [
        (Sin::Forgets, "conservation"),
        (Sin::Repeats, "not active"),
        (Sin::LooksBack, "asks for an event"),
        (Sin::Hoards, "capacity"),
        (Sin::Meddles, "holds"),
        (Sin::Lies, "conservation"),
    ];
    for (sin, expected) in sins {
        let panic = std::panic::catch_unwind(|| run(sin)).expect_err(expected);
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        assert!(text.contains(expected), "expected {expected:?} in {text:?}");
    }
}
