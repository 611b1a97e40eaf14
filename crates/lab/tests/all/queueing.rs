//! The simulation meets the formulas of queueing theory where they apply.
//!
//! Tolerances are about five standard errors of runs of these lengths; seeds are fixed, so a failure is a change.
use lab::run::{measure, Outcome};
use lab::scenario::Scenario;

/// A stack that is nothing but one service station.
fn station(workload: &str, device: &str) -> Outcome {
    let text = format!(
        "sample = \"0s\"\n[workload]\ntargets = [\"data\"]\nfile_size = \"1GiB\"\n{workload}\n\
         [host]\nsubmit = \"0ns\"\ntake = \"0ns\"\nsyscall = \"0ns\"\n\
         [device]\nsize = \"4GiB\"\nsimple_bandwidth = \"1024GiB/s\"\n{device}\n"
    );
    let scenario = Scenario::parse("test", &text, &[]).unwrap_or_else(|error| panic!("{error}"));
    measure(&scenario).unwrap_or_else(|error| panic!("{error}"))
}

fn open(rate_per_s: u64) -> String {
    format!("rate = \"{rate_per_s}/s\"\narrival = \"poisson\"\nqueue_depth = 4096\nramp = \"1s\"\nduration = \"60s\"")
}

fn exponential(parallel: u32) -> String {
    format!("simple_read = \"100us\"\nsimple_distribution = \"exponential\"\nsimple_parallel = {parallel}")
}

fn assert_near(what: &str, got: f64, expected: f64, tolerance: f64) {
    let off = got / expected - 1.0;
    assert!(
        off.abs() <= tolerance,
        "{what}: {got:.0}, the formula says {expected:.0} ({:+.2} %)",
        100.0 * off
    );
}

/// Mean response time of M/M/1 is s / (1 - rho).
#[test]
fn one_exponential_server() {
    for rho in [0.3, 0.6, 0.8] {
        let outcome = station(&open((rho * 10_000.0) as u64), &exponential(1));
        assert_near("M/M/1", outcome.mean_ns, 100_000.0 / (1.0 - rho), 0.06);
        // The response time is exponential, so its 99th percentile is ln(100) means.
        assert_near(
            "M/M/1 p99",
            outcome.p99_ns,
            100f64.ln() * 100_000.0 / (1.0 - rho),
            0.08,
        );
    }
}

/// Pollaczek and Khinchine: M/D/1 waits half as long as M/M/1.
#[test]
fn one_fixed_server() {
    for rho in [0.3, 0.6, 0.8] {
        let device = "simple_read = \"100us\"\nsimple_distribution = \"fixed\"\nsimple_parallel = 1";
        let outcome = station(&open((rho * 10_000.0) as u64), device);
        let expected = 100_000.0 * (1.0 + rho / (2.0 * (1.0 - rho)));
        assert_near("M/D/1", outcome.mean_ns, expected, 0.04);
    }
}

/// Erlang C: the probability to wait in M/M/c.
#[test]
fn several_servers() {
    let (servers, rho) = (4u32, 0.75);
    let load = rho * f64::from(servers);
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..servers {
        term *= load / f64::from(n);
        sum += term;
    }
    let last = term * load / f64::from(servers) / (1.0 - rho);
    let waits = last / (sum + last);
    let expected = 100_000.0 + waits * 100_000.0 / (f64::from(servers) * (1.0 - rho));
    let outcome = station(&open((load * 10_000.0) as u64), &exponential(servers));
    assert_near("M/M/4", outcome.mean_ns, expected, 0.04);
}

/// A closed loop of depth N over one server of time s: throughput 1/s, response N s, whatever the distribution.
#[test]
fn closed_loop_over_one_server() {
    for depth in [1, 4, 32] {
        let workload = format!("queue_depth = {depth}\nramp = \"1s\"\nduration = \"20s\"");
        let outcome = station(&workload, &exponential(1));
        assert_near("throughput", outcome.ops_per_s, 10_000.0, 0.01);
        assert_near("response", outcome.mean_ns, f64::from(depth) * 100_000.0, 0.01);
    }
}

/// A closed network of c exponential servers and N customers that never think: exact throughput by the birth-death
/// chain is min(N, c)/s, because all customers are at the station.
#[test]
fn closed_loop_over_several_servers() {
    for (depth, servers) in [(2u32, 4u32), (4, 4), (16, 4)] {
        let workload = format!("queue_depth = {depth}\nramp = \"1s\"\nduration = \"20s\"");
        let outcome = station(&workload, &exponential(servers));
        assert_near(
            "throughput",
            outcome.ops_per_s,
            f64::from(depth.min(servers)) * 10_000.0,
            0.015,
        );
    }
}

/// Machine repairman: N customers that think (exponentially, at one station of N servers) and one server: the throughput
/// of the chain. Thinking is a second drive of a stripe that half of the operations go to, so it is a closed network
/// of two exponential servers: with balanced load the throughput of both together is 2 N / (s (N + 1)).
#[test]
fn closed_network_of_two_servers() {
    for depth in [1u32, 3, 10] {
        let workload = format!("queue_depth = {depth}\nramp = \"1s\"\nduration = \"20s\"");
        let device = format!("count = 2\n{}\n[volume]\nchunk = \"4KiB\"", exponential(1));
        let outcome = station(&workload, &device);
        let n = f64::from(depth);
        assert_near("throughput", outcome.ops_per_s, 20_000.0 * n / (n + 1.0), 0.02);
    }
}

/// Little: what is in flight on average is rate times response time.
#[test]
fn littles_law() {
    for depth in [1, 7, 64] {
        let workload =
            format!("queue_depth = {depth}\nworkers = 3\nread = \"60%\"\nramp = \"1s\"\nduration = \"10s\"");
        let outcome = station(&workload, "simple_parallel = 5");
        let in_flight = outcome.ops_per_s * outcome.mean_ns / 1e9;
        assert_near("in flight", in_flight, 3.0 * f64::from(depth), 0.002);
    }
}
