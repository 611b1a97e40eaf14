//! The event loop: virtual clock, event queue, slab of requests, and the assertions that never sleep.
//!
//! Events at one time happen in the order in which they were asked for. Asserted in release builds too: no event in
//! the past; a request is held by one component at a time and is completed once, by its holder, not before it came
//! in; what came into a component minus what went out is its depth; no depth above its capacity.
//!
//! Memory: 232 bytes per request in flight, 24 bytes per pending event, 8 KiB for the event queue; nothing grows with the length of a run.
use crate::agenda::Agenda;
use crate::component::{Component, ComponentId, Handle, Message, Packed, NO_HANDLE};
use crate::recorder::Recorder;
use crate::request::{Level, Request, State};
use crate::wheel::Entry;
use case::schema::Stage;
use std::collections::VecDeque;
use workload::rng::Rng;

/// A stream of random numbers of its own for the component `name`: depends on seed and name only, so that another
/// component beside it changes nothing.
pub fn stream(seed: u64, name: &str) -> Rng {
    // FNV-1a: short, and stable across versions of the standard library.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Rng::new(seed, hash)
}

/// How many events pass between two checks of conservation.
const CHECK_EVERY: u64 = 1 << 14;

/// What components see of the simulation.
pub struct Core {
    now_ns: u64,
    agenda: Agenda,
    soon: VecDeque<Packed>,
    slab: Vec<Request>,
    free: Vec<Handle>,
    /// Per component: (in, out).
    flows: Vec<(u64, u64)>,
    current: ComponentId,
    events: u64,
    /// Where a request will be sent some time, and to which place of which file.
    announced: Option<(ComponentId, u16, u64)>,
    /// Finished children while a parent's stages are summed; kept to spare allocations.
    scratch: Vec<Handle>,
    /// The clients have nothing left to do and nothing in flight.
    pub workload_over: bool,
    /// Where rows go.
    pub recorder: Recorder,
}

impl Core {
    fn new(recorder: Recorder) -> Core {
        Core {
            now_ns: 0,
            agenda: Agenda::default(),
            soon: VecDeque::new(),
            slab: Vec::new(),
            free: Vec::new(),
            flows: Vec::new(),
            current: 0,
            events: 0,
            announced: None,
            scratch: Vec::new(),
            workload_over: false,
            recorder,
        }
    }

    /// Virtual time.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The component that is receiving a message.
    #[inline]
    pub fn me(&self) -> ComponentId {
        self.current
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Requests that exist.
    pub fn in_flight(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    /// A new request of the current component, as [`Request::new`] made it; its first stage begins at its `start_ns`.
    /// What else is to be said of it is written where it lies then: a request that is made elsewhere and copied costs more
    /// than most of what happens to it afterwards.
    #[inline(always)]
    pub fn create(&mut self, request: Request) -> Handle {
        let handle = match self.free.pop() {
            Some(handle) => {
                self.slab[handle as usize] = request;
                handle
            }
            None => {
                self.slab.push(request);
                (self.slab.len() - 1) as Handle
            }
        };
        let request = &mut self.slab[handle as usize];
        request.owner = self.current;
        request.holder = self.current;
        self.recorder.begin(request);
        handle
    }

    /// A request by its handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> &Request {
        &self.slab[handle as usize]
    }

    /// A request by its handle.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> &mut Request {
        &mut self.slab[handle as usize]
    }

    /// Ends the request's current stage at `at_ns` and begins `stage`.
    #[inline]
    pub fn enter_at(&mut self, handle: Handle, stage: Stage, at_ns: u64) {
        let request = &mut self.slab[handle as usize];
        request.close_stage(at_ns);
        request.stage = stage;
    }

    /// Ends the request's current stage now and begins `stage`.
    #[inline]
    pub fn enter(&mut self, handle: Handle, stage: Stage) {
        self.enter_at(handle, stage, self.now_ns);
    }

    /// Hands a request that the current component holds, or has made, to another one.
    #[inline]
    pub fn send(&mut self, to: ComponentId, handle: Handle) {
        self.take_from_holder(handle);
        self.deliver(to, handle);
        self.soon.push_back(Packed::new(to, Message::Submit(handle)));
    }

    /// Like [`Core::send`], at a later moment; until then the sender holds it.
    #[inline]
    pub fn send_at(&mut self, at_ns: u64, to: ComponentId, handle: Handle) {
        if at_ns <= self.now_ns {
            return self.send(to, handle);
        }
        self.push(at_ns, to, Message::Submit(handle));
    }

    /// A request for this place of a file will be sent to `to` some time: a hint, see [`Component::expect`]. The last one counts.
    #[inline]
    pub fn announce(&mut self, to: ComponentId, file: u16, offset_bytes: u64) {
        self.announced = Some((to, file, offset_bytes));
    }

    /// A request leaves its holder, which must be the current component; its maker never counted it.
    #[inline]
    fn take_from_holder(&mut self, handle: Handle) {
        let request = &self.slab[handle as usize];
        assert!(
            request.state == State::Active,
            "request {handle} is {:?}, not active",
            request.state
        );
        assert!(
            request.holder == self.current,
            "component {} moves request {handle}, which component {} holds",
            self.current,
            request.holder
        );
        if request.counted {
            self.flows[self.current as usize].1 += 1;
        }
    }

    #[inline]
    fn deliver(&mut self, to: ComponentId, handle: Handle) {
        let request = &mut self.slab[handle as usize];
        request.holder = to;
        request.counted = true;
        self.flows[to as usize].0 += 1;
    }

    /// The current component is done with a request it holds; its owner hears of it.
    #[inline]
    pub fn complete(&mut self, handle: Handle) {
        self.take_from_holder(handle);
        let now_ns = self.now_ns;
        let request = &mut self.slab[handle as usize];
        assert!(
            now_ns >= request.start_ns,
            "request {handle} completes before it began"
        );
        request.close_stage(now_ns);
        request.complete_ns = now_ns;
        request.state = State::Done;
        let owner = request.owner;
        if request.level != Level::App {
            self.recorder.row(request);
        }
        self.soon.push_back(Packed::new(owner, Message::Done(handle)));
    }

    /// An operation of the workload was taken by its submitter: it becomes its row.
    #[inline]
    pub fn app_row(&mut self, handle: Handle) {
        self.recorder.row(&self.slab[handle as usize]);
    }

    /// Gives a completed request back.
    #[inline]
    pub fn release(&mut self, handle: Handle) {
        let request = &mut self.slab[handle as usize];
        assert!(
            request.state == State::Done,
            "request {handle} is released while {:?}",
            request.state
        );
        assert!(
            request.first_done == NO_HANDLE,
            "request {handle} is released with children unsummed"
        );
        request.state = State::Free;
        self.free.push(handle);
    }

    /// Sets a timer of the current component.
    #[inline]
    pub fn timer(&mut self, at_ns: u64, what: u16, arg: u32) {
        let to = self.current;
        self.push(at_ns, to, Message::Timer { what, arg });
    }

    #[inline]
    fn push(&mut self, at_ns: u64, to: ComponentId, message: Message) {
        assert!(
            at_ns >= self.now_ns,
            "component {to} asks for an event at {at_ns} ns; it is {} ns already",
            self.now_ns
        );
        self.agenda.push(self.now_ns, at_ns, to, message);
    }

    /// Notes that `child`, which is done, belongs to `parent`; its stages count when the parent is summed.
    #[inline]
    pub fn attach(&mut self, parent: Handle, child: Handle) {
        let next = self.slab[parent as usize].first_done;
        self.slab[child as usize].next_done = next;
        self.slab[parent as usize].first_done = child;
    }

    /// Moves the time that `parent` spent waiting for its finished children out of its stage `fs` into the stages
    /// of those children that it waited for: backwards from the end, the child that completed last owns the time from
    /// its start to its end, before that the one that completed last before it; what is between stays `fs`.
    /// Links the children and releases them. The parent's current stage must be `fs`.
    pub fn absorb(&mut self, parent: Handle) {
        let mut children = std::mem::take(&mut self.scratch);
        let now_ns = self.now_ns;
        let request = &mut self.slab[parent as usize];
        request.close_stage(now_ns);
        let mut next = std::mem::replace(&mut request.first_done, NO_HANDLE);
        while next != NO_HANDLE {
            children.push(next);
            next = self.slab[next as usize].next_done;
        }
        if children.len() > 1 {
            let end = |handle: Handle| {
                let child = &self.slab[handle as usize];
                (child.complete_ns, child.start_ns, handle)
            };
            children.sort_unstable_by_key(|handle| std::cmp::Reverse(end(*handle)));
        }
        let mut cursor_ns = u64::MAX;
        for &handle in &children {
            self.link(parent, handle);
            let child = &self.slab[handle as usize];
            if child.complete_ns <= cursor_ns {
                cursor_ns = child.start_ns;
                let (stages, foreign_ns) = (child.stages, child.foreign_ns);
                let (vector, complete_cpu) = (child.vector, child.complete_cpu);
                let parent = &mut self.slab[parent as usize];
                parent.take_stages(&stages, foreign_ns);
                if parent.vector < 0 {
                    (parent.vector, parent.complete_cpu) = (vector, complete_cpu);
                }
            }
            self.release(handle);
        }
        children.clear();
        self.scratch = children;
    }

    fn link(&mut self, parent: Handle, child: Handle) {
        let (parent, child) = (&self.slab[parent as usize], &self.slab[child as usize]);
        self.recorder.link(parent, child);
    }

    /// Lets `parent` wait for the rest of `other`, which belongs to somebody else (a prefetch in flight) and has just
    /// completed: since `since_ns` the parent waited for it.
    pub fn borrow(&mut self, parent: Handle, other: Handle, since_ns: u64) {
        let mut part = self.slab[other as usize].clone();
        let since_ns = since_ns.max(part.start_ns);
        part.keep_tail(self.now_ns - since_ns);
        part.start_ns = since_ns;
        part.level = Level::Borrowed;
        part.first_done = NO_HANDLE;
        part.state = State::Done;
        let handle = match self.free.pop() {
            Some(handle) => {
                self.slab[handle as usize] = part;
                handle
            }
            None => {
                self.slab.push(part);
                (self.slab.len() - 1) as Handle
            }
        };
        self.attach(parent, handle);
    }

    /// Rows of what is still in flight, as open; in order of handles.
    fn record_open(&mut self) {
        let now_ns = self.now_ns;
        for request in &mut self.slab {
            if matches!(request.state, State::Active | State::Done) && request.level.is_recorded() {
                // A future stage (a message under way) has not been lived yet.
                if request.state == State::Active {
                    request.cut_at(now_ns);
                }
                self.recorder.open_row(request);
            }
        }
    }
}

/// A stack in virtual time.
pub struct Sim {
    components: Vec<Box<dyn Component>>,
    /// What components see.
    pub core: Core,
    next_check: u64,
    sample_every_ns: u64,
}

/// Why a run stops although work may be left.
const EVENTS_MAX_AFTER_END: u64 = 500_000_000;

impl Sim {
    /// An empty stack. `sample_every_ns`: step of `series`, 0 = none.
    pub fn new(recorder: Recorder, sample_every_ns: u64) -> Sim {
        Sim {
            components: Vec::new(),
            core: Core::new(recorder),
            next_check: CHECK_EVERY,
            sample_every_ns,
        }
    }

    /// Adds a component; its number is its place.
    pub fn add(&mut self, component: Box<dyn Component>) -> ComponentId {
        self.components.push(component);
        self.core.flows.push((0, 0));
        ComponentId::try_from(self.components.len() - 1).expect("fewer than 65,536 components")
    }

    /// Wakes a component at the beginning with timer `what`.
    pub fn wake(&mut self, id: ComponentId, what: u16) {
        self.core.push(0, id, Message::Timer { what, arg: 0 });
    }

    /// Runs until `done` says so (asked at each new moment), or nothing is left to happen.
    ///
    /// Panics on a broken assertion: that is a bug of a component, never of a scenario.
    pub fn run(&mut self, end_ns: u64, mut done: impl FnMut(&Core) -> bool) {
        let mut next_sample_ns = match self.sample_every_ns {
            0 => u64::MAX,
            step => step,
        };
        let mut after_end = 0;
        loop {
            while let Some(packed) = self.core.soon.pop_front() {
                self.dispatch(packed.to(), packed.message());
            }
            if self.core.events >= self.next_check {
                self.next_check = self.core.events + CHECK_EVERY;
                self.check();
            }
            if done(&self.core) {
                break;
            }
            let Some(Entry { at_ns, to, message }) = self.core.agenda.pop() else {
                break;
            };
            assert!(at_ns >= self.core.now_ns, "an event at {at_ns} ns in the past");
            while at_ns >= next_sample_ns {
                self.core.now_ns = next_sample_ns;
                self.sample(next_sample_ns);
                next_sample_ns += self.sample_every_ns;
            }
            if at_ns > end_ns {
                after_end += 1;
                assert!(
                    after_end < EVENTS_MAX_AFTER_END,
                    "the stack does not come to rest after its end"
                );
            }
            self.core.now_ns = at_ns;
            if let Message::Submit(handle) = message {
                self.core.current = self.core.slab[handle as usize].holder;
                self.core.take_from_holder(handle);
                self.core.deliver(to, handle);
            }
            self.dispatch(to, message);
        }
        self.check();
    }

    #[inline]
    fn dispatch(&mut self, to: ComponentId, message: Message) {
        self.core.events += 1;
        self.core.current = to;
        self.components[to as usize].handle(message, &mut self.core);
        if let Some((to, file, offset_bytes)) = self.core.announced.take() {
            self.components[to as usize].expect(file, offset_bytes);
        }
    }

    /// Conservation and capacity of every component. Only when no message is under way without delay.
    fn check(&self) {
        assert!(self.core.soon.is_empty(), "checked between two messages");
        for (component, (came, went)) in self.components.iter().zip(&self.core.flows) {
            let depth = component.depth() as u64;
            assert!(
                came - went == depth,
                "conservation: {} took {came} requests and gave {went}, but says it holds {depth}",
                component.name()
            );
            if let Some(capacity) = component.capacity() {
                assert!(
                    depth <= capacity as u64,
                    "capacity: {} holds {depth} of at most {capacity}",
                    component.name()
                );
            }
        }
    }

    fn sample(&mut self, now_ns: u64) {
        for component in &mut self.components {
            let recorder = &mut self.core.recorder;
            let depth = component.depth() as f64;
            recorder.series(now_ns, component.name(), "queue_depth", depth);
            let mut rows = Vec::new();
            component.sample(now_ns, &mut |metric, value| rows.push((metric, value)));
            for (metric, value) in rows {
                recorder.series(now_ns, component.name(), metric, value);
            }
        }
    }

    /// Asks every component to begin nothing of its own any more.
    pub fn stop(&mut self) {
        self.components.iter_mut().for_each(|component| component.stop());
    }

    /// Ends the run: last rows of components, then what is still in flight as open rows.
    pub fn finish(mut self) -> Core {
        for (id, component) in self.components.iter_mut().enumerate() {
            self.core.current = id as ComponentId;
            component.finish(&mut self.core);
        }
        self.core.record_open();
        self.core
    }
}
