//! How many requests a second the simulation handles on one core.
//!
//! `cargo run --release --example lab_rate [-- CASE]`: runs a full stack (client, server with RAM cache, drive with
//! interrupts) without a case, and with one if a directory is given. Prints one line each. Seconds are processor time of the
//! one thread, so that other load on the machine matters less.
use lab::scenario::Scenario;

/// Processor time of this thread so far, in seconds (proc(5), schedstat).
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat of this thread");
    let ns: u64 = text
        .split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .expect("nanoseconds");
    ns as f64 / 1e9
}

const FULL: &str = r#"
sample = "0s"
[workload]
targets = ["data"]
file_size = "8GiB"
io = "buffered"
queue_depth = 32
workers = 4
operations = 12000000
[cache]
size = "4GiB"
page = "4KiB"
[interrupts]
[device]
"#;

fn main() {
    let full = Scenario::parse("full", FULL, &[]).expect("a good scenario");
    let direct = FULL.replace("io = \"buffered\"", "io = \"direct\"");
    let direct = Scenario::parse("direct", &direct, &[]).expect("a good scenario");
    for (name, scenario) in [
        ("client, cache, drive, interrupts", &full),
        ("without the cache", &direct),
    ] {
        let began = processor_s();
        let outcome = lab::run::measure(scenario).expect("a run");
        let seconds = processor_s() - began;
        println!(
            "{name}: {:.2} M requests/s ({:.2} events each)",
            outcome.ops as f64 / seconds / 1e6,
            outcome.events as f64 / outcome.ops as f64
        );
    }
    if let Some(dir) = std::env::args().nth(1) {
        std::fs::create_dir_all(&dir).expect("a directory for the case");
        let began = processor_s();
        let report = lab::run::run(&full, dir.as_ref(), Vec::new(), 1).expect("a run");
        println!(
            "with a case of every layer: {:.2} M requests/s",
            report.outcome.ops as f64 / (processor_s() - began) / 1e6
        );
    }
}
