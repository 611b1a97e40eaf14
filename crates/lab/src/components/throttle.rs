//! An I/O controller: holds requests to a rate of operations and bytes (stage `throttle`).
//!
//! Source: Linux `block/blk-throttle.c`: a budget per slice; what exceeds it waits in order.
use crate::component::{Component, ComponentId, Message};
use crate::sim::Core;
use case::schema::Stage;

/// Limits for a time; 0 = none of that kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// First moment.
    pub from_ns: u64,
    /// After the last moment.
    pub to_ns: u64,
    /// Operations per second.
    pub ops_per_s: u64,
    /// Bytes per second.
    pub bytes_per_s: u64,
}

const RELEASE: u16 = 1;

/// The controller.
pub struct Throttle {
    below: ComponentId,
    limits: Vec<Limit>,
    /// When the next request may go.
    free_ns: u64,
    held: usize,
}

impl Throttle {
    /// Passes everything on to `below`.
    pub fn new(below: ComponentId, limits: Vec<Limit>) -> Throttle {
        Throttle {
            below,
            limits,
            free_ns: 0,
            held: 0,
        }
    }
}

impl Component for Throttle {
    fn name(&self) -> &str {
        "throttle"
    }

    fn handle(&mut self, message: Message, core: &mut Core) {
        let now_ns = core.now_ns();
        match message {
            Message::Submit(handle) => {
                let stage = core.get(handle).stage;
                let size_bytes = u64::from(core.get(handle).size_bytes);
                let active = self
                    .limits
                    .iter()
                    .filter(|l| (l.from_ns..l.to_ns).contains(&now_ns));
                let mut cost_ns = 0;
                for limit in active {
                    let ops_ns = 1_000_000_000u64.checked_div(limit.ops_per_s).unwrap_or(0);
                    let bytes_ns = (size_bytes * 1_000_000_000)
                        .checked_div(limit.bytes_per_s)
                        .unwrap_or(0);
                    cost_ns = cost_ns.max(ops_ns).max(bytes_ns);
                }
                let go_ns = self.free_ns.max(now_ns);
                if cost_ns > 0 {
                    self.free_ns = go_ns + cost_ns;
                }
                if cost_ns == 0 || go_ns <= now_ns {
                    return core.send(self.below, handle);
                }
                self.held += 1;
                core.enter(handle, Stage::Throttle);
                core.get_mut(handle).work = u64::from(stage == Stage::Fs);
                core.timer(go_ns, RELEASE, handle);
            }
            Message::Timer { what: RELEASE, arg } => {
                self.held -= 1;
                let above = std::mem::take(&mut core.get_mut(arg).work);
                let stage = if above == 1 { Stage::Fs } else { Stage::Queue };
                core.enter(arg, stage);
                core.send(self.below, arg);
            }
            _ => unreachable!("a throttle makes no requests"),
        }
    }

    fn depth(&self) -> usize {
        self.held
    }
}
