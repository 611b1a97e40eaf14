//! Rows become numbers of an interval and counters since the begin. No row is kept.
use super::frame::{DeviceFrame, Frame, Latency, OpFrame, Shares, WorstOp, WORST};
use super::histogram::{Histogram, RELATIVE_ERROR};
use super::names::Disks;
use case::rows::{BlockRow, SyscallRow, Via};
use case::schema::Op;
use std::collections::BTreeMap;

/// Upper bounds of the counted latency buckets, ns: what a Prometheus histogram is made of.
pub const BOUNDS_NS: [u64; 20] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

/// Stages of a block request, ns, as the sealed table has them; they sum to the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Queued to its last issue.
    pub queue_ns: u64,
    /// Issue to the begin of the interrupt, or to the completion where no interrupt was seen.
    pub device_ns: u64,
    /// Begin of the interrupt to the completion.
    pub interrupt_ns: u64,
}

/// What only ever grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations that ended.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    /// Sum of their latencies.
    pub latency_ns: u64,
    /// Sums of their stages; of calls, zero.
    pub stages: Stages,
    /// How many took at most [`BOUNDS_NS`] and more than the bound before; the last: longer than all.
    pub buckets: [u64; BOUNDS_NS.len() + 1],
}

/// Everything since the begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Block requests by device and kind.
    pub devices: BTreeMap<(String, &'static str), Counters>,
    /// System calls and their like by kind.
    pub calls: BTreeMap<&'static str, Counters>,
    /// Events that a probe lost.
    pub lost: BTreeMap<&'static str, u64>,
}

/// An operation that ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    begin_ns: u64,
    end_ns: u64,
    bytes: u64,
    failed: bool,
    stages: Stages,
}

impl Ended {
    fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

impl Counters {
    fn add(&mut self, ended: &Ended) {
        let latency_ns = ended.latency_ns();
        self.count += 1;
        self.bytes += ended.bytes;
        self.errors += u64::from(ended.failed);
        self.latency_ns += latency_ns;
        self.stages.queue_ns += ended.stages.queue_ns;
        self.stages.device_ns += ended.stages.device_ns;
        self.stages.interrupt_ns += ended.stages.interrupt_ns;
        self.buckets[BOUNDS_NS.partition_point(|bound| *bound < latency_ns)] += 1;
    }
}

/// One kind of operation within an interval.
#[derive(Default)]
struct Tally {
    counters: Counters,
    latency: Histogram,
    /// Time in flight inside the interval.
    in_flight_ns: u64,
}

impl Tally {
    fn add(&mut self, ended: &Ended, interval_begin_ns: u64) {
        self.counters.add(ended);
        self.latency.add(ended.latency_ns());
        let begin_ns = ended.begin_ns.max(interval_begin_ns);
        self.in_flight_ns += ended.end_ns.saturating_sub(begin_ns);
    }

    fn frame(&self, op: &'static str, seconds: f64) -> OpFrame {
        OpFrame {
            op,
            count: self.counters.count,
            bytes: self.counters.bytes,
            errors: self.counters.errors,
            iops: self.counters.count as f64 / seconds,
            bytes_per_s: self.counters.bytes as f64 / seconds,
            latency_sum_ns: self.counters.latency_ns,
            latency: Latency {
                p50_ns: self.latency.quantile(0.5),
                p99_ns: self.latency.quantile(0.99),
                p999_ns: self.latency.quantile(0.999),
                max_ns: self.latency.max(),
            },
        }
    }
}

/// The folding of rows.
pub struct Fold {
    /// Since the begin.
    pub totals: Totals,
    disks: Disks,
    only: Option<String>,
    begin_ns: u64,
    devices: BTreeMap<String, BTreeMap<&'static str, Tally>>,
    calls: BTreeMap<&'static str, Tally>,
    worst: Vec<WorstOp>,
    interrupts_seen: bool,
}

impl Fold {
    /// Begins at `begin_ns`; `only` is the name of the one disk that is of interest.
    pub fn new(begin_ns: u64, only: Option<String>) -> Fold {
        Fold {
            totals: Totals::default(),
            disks: Disks::default(),
            only,
            begin_ns,
            devices: BTreeMap::new(),
            calls: BTreeMap::new(),
            worst: Vec::new(),
            interrupts_seen: false,
        }
    }

    /// Begin of the interval.
    pub fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    fn wants(&self, disk: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == disk)
    }

    /// A block request. One that is not complete says nothing yet.
    pub fn request(&mut self, row: &BlockRow) {
        let disk = self.disks.name(row.device).to_owned();
        if row.complete_ns == 0 || !self.wants(&disk) {
            return;
        }
        let Some(ended) = ended_request(row) else { return };
        self.interrupts_seen |= row.irq_ns != 0;
        let op = request_op(row).name();
        let counters = self.totals.devices.entry((disk.clone(), op)).or_default();
        counters.add(&ended);
        let tallies = self.devices.entry(disk.clone()).or_default();
        tallies.entry(op).or_default().add(&ended, self.begin_ns);
        self.remember(WorstOp {
            layer: "block",
            device: Some(disk),
            op,
            pid: row.pid,
            comm: text(&row.comm),
            size_bytes: u64::from(row.size_bytes),
            latency_ns: ended.latency_ns(),
        });
    }

    /// A system call or its like. One without an end, or with an unseen begin, says nothing.
    pub fn call(&mut self, row: &SyscallRow) {
        let waits = row.via == Via::Wait as u8;
        let Some(op) = Op::from_raw(row.op).filter(|_| !waits && row.start_ns != 0 && row.end_ns != 0) else {
            return;
        };
        let disk = self.disks.name(row.device).to_owned();
        if !self.wants(&disk) {
            return;
        }
        let moves_data = matches!(op, Op::Read | Op::Write | Op::Copy);
        let ended = Ended {
            begin_ns: row.start_ns,
            end_ns: row.end_ns,
            bytes: u64::try_from(row.result).ok().filter(|_| moves_data).unwrap_or(0),
            failed: is_io_error(op, row.result),
            stages: Stages::default(),
        };
        self.totals.calls.entry(op.name()).or_default().add(&ended);
        let tally = self.calls.entry(op.name()).or_default();
        tally.add(&ended, self.begin_ns);
        self.remember(WorstOp {
            layer: "syscall",
            device: (row.device != 0).then_some(disk),
            op: op.name(),
            pid: row.pid,
            comm: text(&row.comm),
            size_bytes: if moves_data { row.size_bytes } else { 0 },
            latency_ns: ended.latency_ns(),
        });
    }

    fn remember(&mut self, op: WorstOp) {
        let of_layer = |other: &&WorstOp| other.layer == op.layer;
        let known = self.worst.iter().filter(of_layer).count();
        if known == WORST {
            let slower = self.worst.iter().enumerate().filter(|(_, other)| of_layer(other));
            let (place, least) = slower
                .min_by_key(|(_, other)| other.latency_ns)
                .expect("there are some");
            if least.latency_ns >= op.latency_ns {
                return;
            }
            self.worst.swap_remove(place);
        }
        self.worst.push(op);
    }

    /// Ends the interval at `end_ns`; the next begins there. `lost`: events lost in it.
    pub fn frame(&mut self, end_ns: u64, lost: u64) -> Frame {
        let begin_ns = std::mem::replace(&mut self.begin_ns, end_ns);
        let interval_ns = end_ns.saturating_sub(begin_ns).max(1);
        let seconds = interval_ns as f64 / 1e9;
        let mut tallies = std::mem::take(&mut self.devices);
        if let Some(only) = &self.only {
            tallies.entry(only.clone()).or_default();
        }
        let interrupts_seen = std::mem::take(&mut self.interrupts_seen);
        let devices = tallies.into_iter();
        let mut worst = std::mem::take(&mut self.worst);
        worst.sort_by(|a, b| (a.layer, b.latency_ns).cmp(&(b.layer, a.latency_ns)));
        Frame {
            begin_ns,
            end_ns,
            devices: devices
                .map(|(name, ops)| device_frame(name, &ops, interval_ns, interrupts_seen))
                .collect(),
            calls: std::mem::take(&mut self.calls)
                .into_iter()
                .map(|(op, tally)| tally.frame(op, seconds))
                .collect(),
            worst,
            lost,
            quantile_relative_error: RELATIVE_ERROR,
        }
    }
}

fn device_frame(
    device: String,
    ops: &BTreeMap<&'static str, Tally>,
    interval_ns: u64,
    interrupts_seen: bool,
) -> DeviceFrame {
    let sum = |part: fn(&Tally) -> u64| ops.values().map(part).sum::<u64>();
    let latency_ns = sum(|tally| tally.counters.latency_ns);
    let share = |part_ns: u64| part_ns as f64 / latency_ns as f64;
    DeviceFrame {
        in_flight: super::names::in_flight(&device),
        queue_depth: sum(|tally| tally.in_flight_ns) as f64 / interval_ns as f64,
        shares: (latency_ns > 0).then(|| Shares {
            queue: share(sum(|tally| tally.counters.stages.queue_ns)),
            device: share(sum(|tally| tally.counters.stages.device_ns)),
            interrupt: interrupts_seen.then(|| share(sum(|tally| tally.counters.stages.interrupt_ns))),
        }),
        ops: ops
            .iter()
            .map(|(op, tally)| tally.frame(op, interval_ns as f64 / 1e9))
            .collect(),
        device,
    }
}

/// Boundaries as the sealed table has them. `None`: its begin was not seen.
fn ended_request(row: &BlockRow) -> Option<Ended> {
    let stamps = [row.queue_ns, row.start_ns, row.issue_first_ns, row.issue_ns];
    let begin_ns = stamps.into_iter().find(|stamp| *stamp != 0)?;
    let end_ns = row.complete_ns.max(begin_ns);
    let issue_ns = if row.issue_ns == 0 { end_ns } else { row.issue_ns };
    let issue_ns = issue_ns.clamp(begin_ns, end_ns);
    let irq_ns = if row.irq_ns == 0 { end_ns } else { row.irq_ns };
    let irq_ns = irq_ns.clamp(issue_ns, end_ns);
    Some(Ended {
        begin_ns,
        end_ns,
        bytes: u64::from(row.size_bytes),
        failed: row.error != 0,
        stages: Stages {
            queue_ns: issue_ns - begin_ns,
            device_ns: irq_ns - issue_ns,
            interrupt_ns: end_ns - irq_ns,
        },
    })
}

/// Kind of a request, by the kernel's `enum req_op`; a zone append is a write that carries data.
fn request_op(row: &BlockRow) -> Op {
    match row.cmd_flags & 0xff {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Flush,
        3 | 5 | 9 => Op::Discard,
        7 | 13 | 15 if row.size_bytes > 0 => Op::Write,
        _ => Op::Other,
    }
}

/// Whether a call failed at I/O. A program that looks for its files opens many that are not there: that is an answer.
/// An open fails with the others only where storage does.
fn is_io_error(op: Op, result: i64) -> bool {
    let errno = i32::try_from(-result).unwrap_or(0);
    if op.is_io() {
        return result < 0 && !case::schema::UNFINISHED_ERRNOS.contains(&errno);
    }
    case::schema::STORAGE_ERRNOS.contains(&errno)
}

/// Text of a NUL-padded field. A program chooses its name: nothing in it may move a terminal's cursor.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let text = String::from_utf8_lossy(&field[..end]);
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(begin_ns: u64, end_ns: u64) -> BlockRow {
        BlockRow {
            queue_ns: begin_ns,
            start_ns: begin_ns,
            issue_ns: begin_ns + 10,
            irq_ns: end_ns - 5,
            complete_ns: end_ns,
            size_bytes: 4096,
            // No such device: its name is its number.
            device: 4095 << 20 | 7,
            ..BlockRow::default()
        }
    }

    #[test]
    fn an_interval_counts_what_ended_in_it() {
        let mut fold = Fold::new(1000, None);
        for n in 0..23 {
            fold.request(&request(1000 + n, 2000 + n));
        }
        let frame = fold.frame(11_000, 0);
        let device = &frame.devices[0];
        assert_eq!(device.device, "4095:7");
        let reads = &device.ops[0];
        assert_eq!((reads.op, reads.count, reads.bytes), ("read", 23, 23 * 4096));
        assert_eq!(reads.iops, 23.0 / 10e-6);
        assert_eq!(reads.latency.max_ns, Some(1000));
        assert_eq!(device.queue_depth, 2.3);
        let shares = device.shares.as_ref().unwrap();
        let sum = shares.queue + shares.device + shares.interrupt.unwrap();
        assert!((sum - 1.0).abs() < 1e-12 && shares.queue == 0.01);
        assert_eq!(frame.worst.len(), WORST);
        assert!(fold.frame(12_000, 0).devices.is_empty());
    }

    #[test]
    fn counters_outlive_intervals_and_buckets_hold_their_bound() {
        let mut fold = Fold::new(0, None);
        fold.request(&request(1, 10_001));
        fold.frame(20_000, 0);
        fold.request(&request(20_000, 20_000 + 10_001));
        let counters = fold.totals.devices.values().next().unwrap();
        assert_eq!(
            (counters.count, counters.buckets[0], counters.buckets[1]),
            (2, 1, 1)
        );
        assert_eq!(counters.stages.queue_ns, 20);
    }

    #[test]
    fn what_has_no_begin_or_no_end_says_nothing() {
        let mut fold = Fold::new(0, Some("nvme7n7".into()));
        fold.request(&request(5, 100));
        assert!(fold.totals.devices.is_empty(), "another device");
        let mut fold = Fold::new(0, None);
        fold.request(&BlockRow {
            complete_ns: 5,
            ..BlockRow::default()
        });
        fold.request(&BlockRow {
            complete_ns: 0,
            ..request(5, 100)
        });
        let wait = SyscallRow {
            start_ns: 3,
            end_ns: 9,
            via: Via::Wait as u8,
            ..SyscallRow::default()
        };
        fold.call(&wait);
        assert_eq!(fold.totals, Totals::default());
        fold.call(&SyscallRow { via: 0, ..wait });
        assert_eq!(fold.totals.calls["read"].count, 1);
    }

    #[test]
    fn an_open_of_a_file_that_is_not_there_is_no_failure() {
        let mut fold = Fold::new(0, None);
        let call = |op: Op, errno: i32| SyscallRow {
            op: op as u8,
            result: -i64::from(errno),
            start_ns: 3,
            end_ns: 9,
            ..SyscallRow::default()
        };
        fold.call(&call(Op::Open, libc::ENOENT));
        fold.call(&call(Op::Open, libc::EIO));
        fold.call(&call(Op::Read, libc::EIO));
        fold.call(&call(Op::Read, libc::EINTR));
        assert_eq!(fold.totals.calls["open"].count, 2);
        assert_eq!(fold.totals.calls["open"].errors, 1);
        assert_eq!(fold.totals.calls["read"].errors, 1);
    }

    #[test]
    fn the_slowest_are_kept() {
        let mut fold = Fold::new(0, None);
        for n in 1..40 {
            fold.request(&request(100, 100 + n * 20));
        }
        let worst = fold.frame(1000, 0).worst;
        let latencies: Vec<u64> = worst.iter().map(|op| op.latency_ns).collect();
        assert_eq!(latencies, [780, 760, 740, 720, 700]);
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(text(b"a\x1b[2Jb\0c"), "a?[2Jb");
    }
}
