//! What a live view shows of one interval.
use serde::Serialize;

/// This many of the slowest operations of each layer are named.
pub const WORST: usize = 5;

/// One interval: everything that ended in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// Devices that completed something, by name.
    pub devices: Vec<DeviceFrame>,
    /// System calls and requests of io_uring and libaio, by kind.
    pub calls: Vec<OpFrame>,
    /// The slowest, block requests first.
    pub worst: Vec<WorstOp>,
    /// Events that the probes lost, as far as it was known at the end of the interval.
    pub lost: u64,
    /// The most by which a quantile may be wrong, as a part of it.
    pub quantile_relative_error: f64,
}

/// A block device in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFrame {
    /// Kernel name of the disk.
    pub device: String,
    /// Requests at the device when the interval ended; `None` if the kernel does not say.
    pub in_flight: Option<u64>,
    /// Requests in flight, mean over the interval, of those that ended in it.
    pub queue_depth: f64,
    /// Where their time went; `None` if none ended.
    pub shares: Option<Shares>,
    /// By kind.
    pub ops: Vec<OpFrame>,
}

/// Parts of the sum of all latencies; they sum to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// Waiting for the driver.
    pub queue: f64,
    /// At the device; where interrupts are not seen, its interrupts included.
    pub device: f64,
    /// In the interrupt; `None` where none was seen.
    pub interrupt: Option<f64>,
}

/// Operations of one kind in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpFrame {
    /// `read`, `write`, ...
    pub op: &'static str,
    /// Operations.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed at I/O (an open of a file that is not there does not count).
    pub errors: u64,
    /// Operations per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Sum of their latencies.
    pub latency_sum_ns: u64,
    /// How long they took.
    pub latency: Latency,
}

/// Quantiles by nearest rank, within the frame's `quantile_relative_error`; `max_ns` is exact.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99 of 100 took at most this.
    pub p99_ns: Option<u64>,
    /// 999 of 1000 took at most this.
    pub p999_ns: Option<u64>,
    /// The slowest.
    pub max_ns: Option<u64>,
}

/// A slow operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorstOp {
    /// `block` or `syscall`.
    pub layer: &'static str,
    /// Disk; `None` for an operation without one.
    pub device: Option<String>,
    /// Kind.
    pub op: &'static str,
    /// Process that submitted it.
    pub pid: i32,
    /// Command name of the submitting thread.
    pub comm: String,
    /// Bytes asked for.
    pub size_bytes: u64,
    /// From begin to end.
    pub latency_ns: u64,
}
