//! Tests that expect something in time, on a machine on which others work too.
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::Instant;

/// Others that keep more CPUs busy than this may be why something came late.
const OTHERS_CPUS_MAX: f64 = 0.5;
const ATTEMPTS: u32 = 3;

/// Runs a test with times that hold only while it gets a CPU. Where it fails and other programs had the CPUs meanwhile, it runs
/// again; in the end it is skipped. Where nobody else was at work it fails at once.
pub fn in_time(test: impl Fn()) {
    attempts(test, cpu_of_others_s);
}

/// The same with any account of the CPU seconds of others.
pub fn attempts(test: impl Fn(), others_s: impl Fn() -> f64) {
    for attempt in 1..=ATTEMPTS {
        let (begin, before) = (Instant::now(), others_s());
        let Err(failure) = catch_unwind(AssertUnwindSafe(&test)) else {
            return;
        };
        let others = (others_s() - before) / begin.elapsed().as_secs_f64();
        if others < OTHERS_CPUS_MAX || testing::is_skip(&*failure) {
            resume_unwind(failure);
        }
        println!(
            "attempt {attempt} of {ATTEMPTS} failed, see above, while others kept {others:.1} CPUs busy"
        );
    }
    testing::skip(format!("{ATTEMPTS} times something else had the CPUs"));
}

/// CPU seconds of everybody but this process and the children it waited for, and what the hypervisor took.
fn cpu_of_others_s() -> f64 {
    // SAFETY: no arguments, cannot fail.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let all = stat.lines().next().unwrap();
    let ticks: Vec<f64> = all
        .split_whitespace()
        .skip(1)
        .map(|ticks| ticks.parse().unwrap())
        .collect();
    // user, nice, system, (idle, iowait), irq, softirq, steal
    let busy: f64 = [0, 1, 2, 5, 6, 7]
        .iter()
        .filter_map(|place| ticks.get(*place))
        .sum();
    busy / ticks_per_s - used_s(libc::RUSAGE_SELF) - used_s(libc::RUSAGE_CHILDREN)
}

fn used_s(who: libc::c_int) -> f64 {
    // SAFETY: zeros are a valid rusage, and the kernel fills it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
