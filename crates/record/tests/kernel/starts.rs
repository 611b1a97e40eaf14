//! Starts and stops while the machine works: attaching, chaining and detaching programs that run meanwhile.
use crate::common::*;
use record::{Config, Recorder};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testing::test;

/// How many, unless WHODISK_STARTS says it: `make test-starts` asks for 200.
const STARTS: u32 = 2;

/// How long a recording may be without a request of the load.
const PATIENCE: Duration = Duration::from_secs(30);

/// `TAINT_DIE` (linux/panic.h): the kernel has oopsed since it was booted.
const TAINT_DIE: u64 = 1 << 7;

/// Ended when dropped.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn has_oopsed() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/tainted").unwrap();
    text.trim().parse::<u64>().unwrap() & TAINT_DIE != 0
}

fn starts_wanted() -> u32 {
    match std::env::var("WHODISK_STARTS") {
        Ok(text) => text.parse().expect("WHODISK_STARTS: a number of starts"),
        Err(_) => STARTS,
    }
}

#[test]
fn programs_are_chained_and_taken_apart_while_they_run() {
    require_kernel!();
    assert!(!has_oopsed(), "this kernel has oopsed before: boot anew");
    let starts = starts_wanted();
    let device = LoopDevice::new(64 << 20);
    let mut load = Load(
        Command::new("fio")
            .args(["--name=load", "--filename", &device.path, "--rw=randread"])
            .args([
                "--bs=4k",
                "--direct=1",
                "--ioengine=psync",
                "--numjobs=4",
                "--thread",
            ])
            .args(["--rate_iops=2000", "--time_based"])
            // Should this test be killed, the load ends all the same.
            .arg(format!("--runtime={}", 120 + 10 * starts))
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    for start in 0..starts {
        let folder = tempfile::tempdir().unwrap();
        let running = Recorder::attach(Config::default())
            .unwrap()
            .start(folder.path())
            .unwrap();
        // On a busy machine the load may have to wait for its turn.
        let begun = Instant::now();
        while running.received("block") == 0 {
            assert!(
                begun.elapsed() < PATIENCE,
                "start {start}: no request within {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let summary = running.stop().unwrap();
        // Behind the block probe's program, which the kernel calls.
        let attached = &summary.probes["irq"].attached;
        assert!(
            attached.iter().any(|name| name == "softirq_entry"),
            "start {start}: {attached:?}"
        );
        assert!(!has_oopsed(), "start {start}: see dmesg");
    }
    assert!(
        load.0.try_wait().unwrap().is_none(),
        "the load ended before the test"
    );
}
