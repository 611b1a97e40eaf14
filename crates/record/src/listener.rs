//! An instance of the kernel's event tracing that is read while it records, its events in the order of their times. For events that
//! come some times a second: journals of file systems that are modules, commands to NVMe controllers.
use crate::sys;
use crate::tracefs::{Instance, Pages};
use std::io;
use std::time::{Duration, Instant};

/// Memory for events: over all CPUs, and for one.
const BUFFER_BYTES: usize = 8 << 20;
const BUFFER_CPU_BYTES: (usize, usize) = (64 << 10, 1 << 20);

/// How often events are fetched.
const FETCH_PAUSE: Duration = Duration::from_millis(100);

/// CPUs are read one after the other. What came less than this before the reading began may stand before something that
/// was not read yet.
const SETTLING_NS: u64 = 1_000_000;

/// The instance, and what was read of it. `T`: what is of interest in an event.
pub struct Listener<T> {
    /// Before the instance: the kernel removes none that somebody still reads.
    pages: Pages,
    instance: Instance,
    /// Read, but perhaps not yet in order.
    pending: Vec<(u64, T)>,
    fetched: Instant,
    recording: bool,
}

impl<T> Listener<T> {
    /// Makes the instance. Nothing is logged yet.
    pub fn create(cpus: u32) -> io::Result<Listener<T>> {
        let instance = Instance::create()?;
        let (least, most) = BUFFER_CPU_BYTES;
        instance.set("tracing_on", "0")?;
        instance.set_buffer_bytes((BUFFER_BYTES / cpus.max(1) as usize).clamp(least, most))?;
        instance.set("trace_clock", "mono")?;
        Ok(Listener {
            pages: instance.open_pages()?,
            instance,
            pending: Vec::new(),
            fetched: Instant::now(),
            recording: false,
        })
    }

    /// To enable events.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Begins or ends the recording.
    pub fn set_recording(&mut self, on: bool) -> io::Result<()> {
        self.recording = on;
        self.instance.set("tracing_on", if on { "1" } else { "0" })
    }

    /// Whether it is recorded now.
    pub fn is_recording(&self) -> bool {
        self.recording
    }

    /// Whether it is time to fetch.
    pub fn is_due(&self) -> bool {
        !self.recording || self.fetched.elapsed() >= FETCH_PAUSE
    }

    /// Reads what waits, and gives what is in order by now. `seen(id, time_ns, event)`: what of an event is of interest; `id` is
    /// that of its format.
    pub fn fetch(&mut self, mut seen: impl FnMut(u64, u64, &[u8]) -> Option<T>) -> Vec<(u64, T)> {
        self.fetched = Instant::now();
        let settled_ns = match self.recording {
            true => sys::monotonic_ns().saturating_sub(SETTLING_NS),
            false => u64::MAX,
        };
        let pending = &mut self.pending;
        self.pages.read(|_, time_ns, event| {
            let id = event.first_chunk().map(|id| u64::from(u16::from_ne_bytes(*id)));
            let found = id.and_then(|id| seen(id, time_ns, event));
            pending.extend(found.map(|found| (time_ns, found)));
        });
        pending.sort_by_key(|(time_ns, _)| *time_ns);
        let settled = pending.partition_point(|(time_ns, _)| *time_ns < settled_ns);
        pending.drain(..settled).collect()
    }

    /// Events that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.pages.lost()
    }
}
