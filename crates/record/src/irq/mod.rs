//! The probe `irq`: runs of interrupt handlers and softirqs, slow ones singly, all of them in totals.
//!
//! Handlers of the local timer, of calls between CPUs and the like pass no tracepoint and are not seen. The threads
//! of threaded handlers are threads: they are no interrupts.
use crate::error::RecordError;
use crate::load::{refused, Context, Kernel};
use crate::plain::{padded, read, Plain};
use crate::probe::{Batch, Hooks, Log, Need, Probe, Target};
use crate::ring_probe::{Counter, Design, Records, RingProbe, Settings};
use crate::streams::{Out, Stream};
use crate::sys;
use aya::include_bytes_aligned;
use aya::maps::{HashMap, MapError};
use case::rows::{IrqRow, IrqTotalRow, NAME_BYTES};
use case::CaseError;
use std::collections::BTreeMap;

static OBJECT: &[u8] = include_bytes_aligned!("irq.bpf.o");

/// Shorter runs are in the totals only.
const MIN_NS: u64 = 5_000;

/// The same for softirqs other than the block layer's.
const SOFTIRQ_MIN_NS: u64 = 50_000;

const SOFTIRQS: &str = "softirqs";

/// Names of softirqs (linux/interrupt.h), as /proc/softirqs has them.
const SOFTIRQ_NAMES: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Ends before begins.
pub const HOOKS: Hooks = &[
    ("irq_handler_exit", Need::Must),
    ("irq_handler_entry", Need::Must),
    ("softirq_exit", Need::Fact(SOFTIRQS)),
    ("softirq_entry", Need::Fact(SOFTIRQS)),
];

/// Loads and attaches the probe.
pub fn attach(context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
    RingProbe::attach(Irq, context)
}

struct Irq;

impl Irq {
    /// Sends all totals to the log, which knows what they were before.
    fn send_totals(&self, kernel: &Kernel, records: &mut Records) -> Result<(), RecordError> {
        let failed = |error: MapError| refused("totals", &error);
        let totals: HashMap<_, [u8; KEY_BYTES], [u8; TOTAL_BYTES]> =
            HashMap::try_from(kernel.map("totals")?).map_err(failed)?;
        let time_ns = sys::monotonic_ns().to_ne_bytes();
        for (key, total) in totals.iter().filter_map(Result::ok) {
            records.push(&[&time_ns[..], &key[..], &total[..]].concat());
        }
        Ok(())
    }
}

impl Design for Irq {
    const NAME: &'static str = "irq";
    const HOOKS: Hooks = HOOKS;
    const COUNTERS: &'static [Counter] = &[Counter::Lost("ring_full"), Counter::Lost("map_full")];

    fn object() -> &'static [u8] {
        OBJECT
    }

    fn settings(&self, _context: &Context<'_>) -> Settings {
        Settings::default()
            .global("min_ns", MIN_NS.to_ne_bytes())
            .global("softirq_min_ns", SOFTIRQ_MIN_NS.to_ne_bytes())
    }

    fn open_log(&self, target: &Target) -> Result<Box<dyn Log>, CaseError> {
        Ok(Box::new(IrqLog {
            runs: Out::create(target, &[])?,
            totals: Out::create(target, &[])?,
            names: Default::default(),
            before: Default::default(),
            begin_ns: sys::monotonic_ns(),
            counted: (0, 0),
        }))
    }

    /// Also called when the recording ends: the last window ends a moment before it.
    fn look_after(&mut self, kernel: &mut Kernel, records: &mut Records) -> Result<(), RecordError> {
        self.send_totals(kernel, records)
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        vec![("min_ns", MIN_NS), ("softirq_min_ns", SOFTIRQ_MIN_NS)]
    }
}

/// Twin of `struct key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    action: u64,
    vector: i32,
    cpu: u32,
}

/// Twin of `struct total`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    runs: u64,
    time_ns: u64,
    sent: u64,
    shared: u32,
    pad: u32,
    name: [u8; NAME_BYTES],
}

/// Twin of `struct handler_name`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct HandlerName {
    key: Key,
    name: [u8; NAME_BYTES],
}

/// Twin of `struct run`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    key: Key,
    start_ns: u64,
    end_ns: u64,
}

/// What [`Irq::send_totals`] sends.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct TimedTotal {
    time_ns: u64,
    key: Key,
    total: Total,
}

const KEY_BYTES: usize = size_of::<Key>();
const TOTAL_BYTES: usize = size_of::<Total>();
const RUN_BYTES: usize = size_of::<Run>();
const NAME_RECORD_BYTES: usize = size_of::<HandlerName>();
const _: () = assert!(KEY_BYTES == 16 && TOTAL_BYTES == 64 && RUN_BYTES == 32 && NAME_RECORD_BYTES == 48);

// SAFETY: integers and bytes without padding between them.
unsafe impl Plain for HandlerName {}
// SAFETY: as above.
unsafe impl Plain for Run {}
// SAFETY: as above.
unsafe impl Plain for TimedTotal {}

/// The streams `irq` and `irq_total`.
struct IrqLog {
    runs: Out<IrqRow>,
    totals: Out<IrqTotalRow>,
    names: BTreeMap<Key, [u8; NAME_BYTES]>,
    /// Totals as last written, and when.
    before: BTreeMap<Key, (u64, Total)>,
    begin_ns: u64,
    /// Runs and time of all totals.
    counted: (u64, u64),
}

/// What a row says of a key: vector and kind.
fn vector_and_kind(key: &Key) -> (i32, u8) {
    if key.action == 0 {
        (-1, 1)
    } else {
        (key.vector, 0)
    }
}

impl IrqLog {
    fn name(&self, key: &Key) -> [u8; NAME_BYTES] {
        if key.action == 0 {
            let name = SOFTIRQ_NAMES.get(key.vector as usize).copied();
            return padded(name.unwrap_or("softirq").as_bytes());
        }
        // The name may have found no room in the ring.
        let unknown = || padded(format!("irq {}", key.vector).as_bytes());
        self.names.get(key).copied().unwrap_or_else(unknown)
    }

    fn run(&mut self, run: &Run) {
        let (vector, kind) = vector_and_kind(&run.key);
        self.runs.push(&IrqRow {
            start_ns: run.start_ns,
            end_ns: run.end_ns,
            vector,
            cpu: run.key.cpu as u16,
            kind,
            handler: self.name(&run.key),
        });
    }

    fn total(&mut self, now: &TimedTotal) {
        let key = now.key;
        if key.action != 0 {
            self.names.insert(key, now.total.name);
        }
        let known = self.before.get(&key).copied();
        let (start_ns, before) = known.unwrap_or((self.begin_ns, Total::default()));
        let runs = now.total.runs - before.runs;
        if runs == 0 {
            // The next window that has runs begins here.
            self.before.insert(key, (now.time_ns, before));
            return;
        }
        let busy_ns = now.total.time_ns - before.time_ns;
        self.before.insert(key, (now.time_ns, now.total));
        self.counted = (self.counted.0 + runs, self.counted.1 + busy_ns);
        let (vector, kind) = vector_and_kind(&key);
        self.totals.push(&IrqTotalRow {
            start_ns,
            end_ns: now.time_ns,
            runs,
            busy_ns,
            vector,
            cpu: key.cpu as u16,
            kind,
            handler: self.name(&key),
        });
    }
}

impl Log for IrqLog {
    fn write(&mut self, batch: Batch) {
        for record in Records::of(batch).iter() {
            match record.len() {
                RUN_BYTES => self.run(&read(record).unwrap_or_default()),
                NAME_RECORD_BYTES => {
                    let named: HandlerName = read(record).unwrap_or_default();
                    self.names.insert(named.key, named.name);
                }
                _ => self.total(&read(record).unwrap_or_default()),
            }
        }
    }

    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.runs, &mut self.totals]
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        vec![("runs", self.counted.0), ("runs_ns", self.counted.1)]
    }
}
