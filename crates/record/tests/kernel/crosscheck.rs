//! The kernel's own block tracer sees the same requests, at the same moments.
use crate::common::*;
use record::Config;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use testing::test;

const MIB: u64 = 1 << 20;

/// The kernel's `blk` tracer (blktrace's events) on one device; off again when dropped.
struct KernelTracer {
    enable: PathBuf,
}

/// Tracefs, mounted if it was not.
fn tracefs() -> Option<&'static Path> {
    let path = Path::new("/sys/kernel/tracing");
    if !path.join("current_tracer").exists() {
        let mount = std::process::Command::new("mount")
            .args(["-t", "tracefs", "nodev"])
            .arg(path)
            .status();
        mount.ok()?;
    }
    let tracers = std::fs::read_to_string(path.join("available_tracers")).ok()?;
    tracers
        .split_whitespace()
        .any(|name| name == "blk")
        .then_some(path)
}

impl KernelTracer {
    fn start(tracefs: &Path, device: &str) -> KernelTracer {
        let settings = [
            ("trace_clock", "mono"),
            ("buffer_size_kb", "65536"),
            ("current_tracer", "blk"),
        ];
        for (file, value) in settings.into_iter().chain([("trace", ""), ("tracing_on", "1")]) {
            std::fs::write(tracefs.join(file), value).unwrap();
        }
        let enable = PathBuf::from(format!("/sys/block/{device}/trace/enable"));
        std::fs::write(&enable, "1").unwrap();
        KernelTracer { enable }
    }
}

impl Drop for KernelTracer {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.enable, "0");
        let _ = std::fs::write("/sys/kernel/tracing/current_tracer", "nop");
        let _ = std::fs::write("/sys/kernel/tracing/buffer_size_kb", "1408");
    }
}

/// Moments (ns) of one kind of event by first sector, from lines such as
/// `fio-5 [001] ..... 5131.503281: 7,0    C   R 45023 + 8 [0]`.
fn events(text: &str, device: u32, kind: &str) -> HashMap<u64, Vec<u64>> {
    let number = format!("{},{}", device >> 20, device & 0xfffff);
    let mut found: HashMap<u64, Vec<u64>> = HashMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = fields.iter().position(|field| *field == number) else {
            continue;
        };
        if at == 0 || fields.get(at + 1) != Some(&kind) {
            continue;
        }
        let seconds: f64 = fields[at - 1].trim_end_matches(':').parse().unwrap();
        let sector = fields[at + 3].parse().unwrap();
        found.entry(sector).or_default().push((seconds * 1e9) as u64);
    }
    found
}

#[test]
fn issues_and_completions_agree_with_the_kernels_tracer() {
    require_kernel!();
    let Some(tracefs) = tracefs() else {
        testing::skip("this kernel has no blk tracer in tracefs");
    };
    let device = LoopDevice::new(512 * MIB);
    let options = ["--rw=randread", "--io_size=40988672"]; // 10,007 * 4 KiB
    let mut text = String::new();
    let seen = record_whole(Config::only(&["block"]), || {
        let tracer = KernelTracer::start(tracefs, device.name());
        fio(&device.path, &options);
        text = std::fs::read_to_string(tracefs.join("trace")).unwrap();
        drop(tracer);
    });
    let reads = seen.reads_of_fio(device.device);
    assert_eq!(operations(&reads), 10_007);
    type Moment = fn(&case::rows::BlockRow) -> u64;
    let kinds: [(&str, Moment); 2] = [("D", |row| row.issue_ns), ("C", |row| row.complete_ns)];
    for (kind, moment) in kinds {
        let kernel = events(&text, device.device, kind);
        let mut apart_ns: Vec<u64> = Vec::new();
        for row in &reads {
            let at = moment(row);
            let nearest = kernel
                .get(&row.sector_512)
                .into_iter()
                .flatten()
                .map(|ns| ns.abs_diff(at))
                .min();
            apart_ns.push(nearest.unwrap_or_else(|| panic!("{kind}: the kernel has no {row:?}")));
        }
        apart_ns.sort_unstable();
        let p99_ns = apart_ns[apart_ns.len() * 99 / 100];
        println!("{kind}: 99 % within {p99_ns} ns of the kernel's tracer, which counts in microseconds");
        // A tenth of a millisecond: the programs run one after the other, and the machine may be busy.
        assert!(p99_ns < 100_000, "{kind}: {p99_ns} ns apart");
    }
}
