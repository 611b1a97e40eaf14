//! Prints the tables of `docs/reference/lab-mysteries.md`: published against modelled, and how results depend on what is assumed.
//!
//! `cargo run --release --example lab_mysteries` takes about a minute; `--write` puts them into the document.
use lab::run::{in_parallel, measure, Outcome};
use std::fmt::Write;

const DOCUMENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/reference/lab-mysteries.md"
);
const BEGIN: &str = "<!-- tables: begin -->\n";
const END: &str = "<!-- tables: end -->";
/// An eighth of file, memory and time of mystery 3: as many overwrites of each block.
const EIGHTH: &str = "workload.file_size=2GiB workload.ramp=75s workload.duration=225s cache.size=256MiB";

/// Reads of mystery 4: of single chunks, as many in flight as the writes have data chunks.
const READS: &str = "workload.read=100% workload.block_sizes=16KiB workload.queue_depth=8";

fn run(name: &str, edits: &str) -> Outcome {
    let edits: Vec<String> = edits.split_whitespace().map(str::to_owned).collect();
    let scenario = lab::embedded::open(name, &edits).unwrap_or_else(|error| panic!("{name}: {error}"));
    measure(&scenario).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn fact(outcome: &Outcome, name: &str) -> f64 {
    outcome.facts.get(name).copied().unwrap_or(f64::NAN)
}

fn read_phase(outcome: &Outcome) -> String {
    let ms = |name: &str| fact(outcome, &format!("server_read_{name}_ns")) / 1e6;
    format!(
        "mean {:.1} ms, median {:.1}, p90 {:.1}, p99 {:.1}, longest {:.1}",
        ms("mean"),
        ms("p50"),
        ms("p90"),
        ms("p99"),
        ms("max")
    )
}

fn prefetching(outcome: &Outcome) -> String {
    let bytes = |name: &str| fact(outcome, &format!("prefetch_{name}_bytes"));
    let used = bytes("used");
    format!(
        "accuracy {:.1} %, coverage {:.1} %",
        100.0 * used / (used + bytes("wasted")),
        100.0 * used / (used + bytes("missed"))
    )
}

fn gb(outcome: &Outcome) -> String {
    format!("{:.2} GB/s", outcome.throughput_bytes_per_s / 1e9)
}

/// Operations per second with the ramp in them, as the published means have it.
fn layout(outcome: &Outcome) -> String {
    format!(
        "{:.0} ops/s ({:.0} without ramp), mean {:.1} ms, score {:.1}, then {:.1}",
        fact(outcome, "ops_per_s_with_ramp"),
        outcome.ops_per_s,
        outcome.mean_ns / 1e6,
        fact(outcome, "layout_score_before"),
        fact(outcome, "layout_score_after")
    )
}

fn minutes(outcome: &Outcome) -> String {
    let minute = |n: usize| fact(outcome, &format!("ops_per_s_minute_{n:02}"));
    let written = fact(outcome, "checkpoint_blocks_written");
    format!(
        "{:.0} ops/s in the first fifth, {:.0} in the last; {:.2} blocks read for each that a checkpoint wrote",
        minute(0),
        minute(4),
        fact(outcome, "checkpoint_blocks_read") / written
    )
}

fn slowest(outcome: &Outcome) -> String {
    let mut drives: Vec<(f64, &str)> = outcome
        .facts
        .iter()
        .filter(|(name, _)| name.starts_with("nvme"))
        .map(|(name, ns)| (*ns / 1e3, name.trim_end_matches("_mean_ns")))
        .collect();
    drives.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mean_us = fact(outcome, "drives_mean_ns") / 1e3;
    format!(
        "mean of all drives {mean_us:.1} us; {} {:.0} us, {} {:.0} us",
        drives[0].1, drives[0].0, drives[1].1, drives[1].0
    )
}

/// A row: what, published, kind, scenario, edits, how to say it.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    String,
    fn(&Outcome) -> String,
);

fn rows() -> Vec<Row> {
    let row =
        |what, published, kind, name, edits: &str, say| (what, published, kind, name, edits.to_owned(), say);
    let reads = |count: u32| format!("interrupts.max_vec={count} {READS}");
    vec![
        row(
            "M1 read phase, as found",
            "about 25 ms, spikes of 40 to 50 ms",
            "calibrated (disks, copies, server.write_per_mib)",
            "m1-odx-found",
            "",
            read_phase as fn(&Outcome) -> String,
        ),
        row(
            "M1 read phase, fixed",
            "a few ms",
            "calibrated (the same)",
            "m1-odx-fixed",
            "",
            read_phase,
        ),
        row(
            "M1 prefetching, as found",
            "100 %, below 100 % (97 %)",
            "prediction",
            "m1-odx-found",
            "",
            prefetching,
        ),
        row(
            "M1 prefetching, fixed",
            "-",
            "prediction",
            "m1-odx-fixed",
            "",
            prefetching,
        ),
        row(
            "M1 reads that the scheduler combines",
            "no uncached tails",
            "prediction",
            "m1-reads-combined",
            "",
            prefetching,
        ),
        row(
            "M1 the test that hid it (all in SSD)",
            "no visible loss",
            "prediction",
            "m1-ssd-resident",
            "",
            read_phase,
        ),
        row(
            "M1 the changed test (evicted)",
            "clearly worse",
            "prediction",
            "m1-evicted",
            "",
            read_phase,
        ),
        row(
            "M1 copy of 256 MiB by the client",
            "1",
            "base",
            "m1-copy-rw",
            "",
            |o| format!("{:.0} ms", o.mean_ns / 1e6),
        ),
        row(
            "M1 server-side copy",
            "4 times as fast",
            "calibrated (protocol.combine)",
            "m1-copy-ssc",
            "",
            |o| format!("{:.0} ms", o.mean_ns / 1e6),
        ),
        row(
            "M1 offloaded copy",
            "7 times as fast",
            "calibrated (network.latency)",
            "m1-copy-odx",
            "",
            |o| format!("{:.0} ms", o.mean_ns / 1e6),
        ),
        row(
            "M2a longest operation, as found",
            "113 ms",
            "input (fault.queue.stall)",
            "m2a-block-layer",
            "",
            |o| format!("{:.1} ms", o.max_ns as f64 / 1e6),
        ),
        row(
            "M2a longest operation, fixed",
            "below 5 ms",
            "prediction",
            "m2a-fixed",
            "",
            |o| format!("{:.2} ms", o.max_ns as f64 / 1e6),
        ),
        row(
            "M2b longest operation, as found",
            "18 ms",
            "input (fault.stop.stop)",
            "m2b-submitter",
            "",
            |o| format!("{:.1} ms", o.max_ns as f64 / 1e6),
        ),
        row(
            "M2b longest operation, fixed",
            "-",
            "prediction",
            "m2b-fixed",
            "",
            |o| format!("{:.2} ms", o.max_ns as f64 / 1e6),
        ),
        row(
            "M3 A contiguous",
            "7,079 ops/s (contaminated mean)",
            "calibrated (device.count)",
            "m3-a-contiguous",
            EIGHTH,
            layout,
        ),
        row(
            "M3 B fragmented, aged",
            "5,898 ops/s; -6 to -17 %; score 23, then 37",
            "calibrated (number of machines)",
            "m3-b-fragmented",
            EIGHTH,
            layout,
        ),
        row(
            "M3 C reallocated",
            "6,664 ops/s; 0 to -6 %; score 9",
            "prediction",
            "m3-c-reallocated",
            EIGHTH,
            layout,
        ),
        row(
            "M3 A, drift",
            "8,500 ops/s, at the end 6,500",
            "prediction",
            "m3-a-contiguous",
            EIGHTH,
            minutes,
        ),
        row(
            "M3 B, drift",
            "-",
            "prediction",
            "m3-b-fragmented",
            EIGHTH,
            minutes,
        ),
        row(
            "M4 writes, handler gone",
            "15 GB/s",
            "calibrated (device.simple_write)",
            "m4-handler-gone",
            "",
            gb,
        ),
        row(
            "M4 writes, affinity fixed, max_vec 2",
            "8.08 GB/s",
            "calibrated (fault.switch.cost)",
            "m4-affinity-fixed",
            "interrupts.max_vec=2",
            gb,
        ),
        row(
            "M4 writes, affinity fixed, max_vec 4",
            "5.54 GB/s",
            "calibrated (fault.switch.busy)",
            "m4-affinity-fixed",
            "interrupts.max_vec=4",
            gb,
        ),
        row(
            "M4 writes, affinity fixed, max_vec 8",
            "4.54 GB/s",
            "calibrated (fault.switch.busy)",
            "m4-affinity-fixed",
            "interrupts.max_vec=8",
            gb,
        ),
        row(
            "M4 reads, max_vec 2",
            "15.46 GB/s",
            "check",
            "m4-affinity-fixed",
            &reads(2),
            gb,
        ),
        row(
            "M4 reads, max_vec 4",
            "13.67 GB/s",
            "check",
            "m4-affinity-fixed",
            &reads(4),
            gb,
        ),
        row(
            "M4 reads, max_vec 8",
            "13.43 GB/s",
            "check",
            "m4-affinity-fixed",
            &reads(8),
            gb,
        ),
        row(
            "M4 reads, handler gone",
            "-",
            "base",
            "m4-handler-gone",
            READS,
            gb,
        ),
        row(
            "M4 writes, as found (max_vec 4)",
            "6 GB/s in one workload",
            "check",
            "m4-as-found",
            "",
            gb,
        ),
        row(
            "M4 reads, as found (max_vec 4)",
            "6 GB/s in one workload",
            "check",
            "m4-as-found",
            READS,
            gb,
        ),
        row(
            "M4 writes, bridge off",
            "the loss is gone",
            "prediction",
            "m4-bridge-off",
            "",
            gb,
        ),
        row(
            "M4 writes, lesser patch: no cost of handlers that find nothing",
            "gained little",
            "prediction",
            "m4-affinity-fixed",
            "interrupts.idle_handler=0ns",
            gb,
        ),
        row(
            "M4 writes, lesser patch: handlers at half the cost",
            "gained little",
            "prediction",
            "m4-affinity-fixed",
            "interrupts.handler=500ns interrupts.completion=150ns",
            gb,
        ),
        row(
            "M4 drives, handler gone",
            "-",
            "base",
            "m4-handler-gone",
            "",
            slowest,
        ),
        row(
            "M4 drives, affinity fixed (max_vec 4)",
            "mean 10 to 15 us higher, one slow drive",
            "calibrated (stripes in flight); which drive: prediction",
            "m4-affinity-fixed",
            "",
            slowest,
        ),
        row(
            "M4 drives, as found (max_vec 4)",
            "mean 10 to 15 us higher",
            "check",
            "m4-as-found",
            "",
            slowest,
        ),
        row(
            "M4 drives, affinity fixed (max_vec 8)",
            "-",
            "prediction",
            "m4-affinity-fixed",
            "interrupts.max_vec=8",
            slowest,
        ),
    ]
}

/// What is assumed, in which scenario it is varied, and what it changes.
type Sweep = (
    &'static str,
    &'static str,
    &'static [&'static str],
    fn(&Outcome) -> String,
);

fn sweeps() -> Vec<Sweep> {
    vec![
        (
            "m1-odx-found",
            "device.count",
            &["8", "12", "16", "24"],
            read_phase as fn(&Outcome) -> String,
        ),
        (
            "m1-odx-fixed",
            "device.count",
            &["8", "12", "16", "24"],
            read_phase,
        ),
        (
            "m1-odx-found",
            "workload.workers",
            &["1", "2", "3", "4"],
            read_phase,
        ),
        (
            "m1-odx-fixed",
            "workload.workers",
            &["1", "2", "3", "4"],
            read_phase,
        ),
        ("m1-odx-found", "volume.chunk", &["256KiB", "1MiB"], read_phase),
        ("m1-odx-fixed", "volume.chunk", &["256KiB", "1MiB"], read_phase),
        (
            "m1-odx-found",
            "server.write_per_mib",
            &["0ns", "2ms", "4ms"],
            read_phase,
        ),
        (
            "m1-odx-fixed",
            "server.write_per_mib",
            &["0ns", "2ms", "4ms"],
            read_phase,
        ),
        ("m3-b-fragmented", "array.full", &["80%", "90%", "95%"], layout),
        ("m3-b-fragmented", "array.guest_piece", &["0B", "64KiB"], layout),
        ("m4-affinity-fixed", "workload.workers", &["6", "7", "8", "9"], gb),
        ("m4-affinity-fixed", "host.pinned", &["false", "true"], gb),
        (
            "m4-affinity-fixed",
            "fault.switch.busy",
            &["0%", "38%", "40%", "42%", "44%", "50%", "100%"],
            gb,
        ),
        (
            "m4-affinity-fixed",
            "interrupts.max_vec=8 fault.switch.busy",
            &["0%", "38%", "40%", "42%", "44%", "50%", "100%"],
            gb,
        ),
        (
            "m4-affinity-fixed",
            "fault.switch.cost",
            &["140us", "277us", "550us"],
            gb,
        ),
        ("m4-affinity-fixed", "host.cpus", &["64", "256"], gb),
        (
            "m4-affinity-fixed",
            "workload.read=100% workload.block_sizes=16KiB workload.queue_depth",
            &["4", "8", "16"],
            gb,
        ),
        (
            "m4-affinity-fixed",
            "workload.read=100% workload.block_sizes",
            &["128KiB"],
            gb,
        ),
        (
            "m4-as-found",
            "fault.affinity.cpus",
            &["1", "4", "16", "64", "256"],
            gb,
        ),
        (
            "m4-as-found",
            "workload.read=100% workload.block_sizes=16KiB workload.queue_depth=8 fault.affinity.cpus",
            &["1", "4", "16", "64", "256"],
            gb,
        ),
    ]
}

/// What mystery 3 assumes, and other choices of it.
const M3_ASSUMED: [(&str, &str); 12] = [
    ("as assumed", ""),
    ("no parity", "array.parity=0"),
    (
        "one virtual machine",
        "workload.targets=[\"vm1.dat\"] workload.workers=4 cache.size=128MiB",
    ),
    (
        "three virtual machines",
        "workload.targets=[\"vm1.dat\",\"vm2.dat\",\"vm3.dat\"] workload.workers=12 cache.size=384MiB",
    ),
    ("16 drives", "device.count=16"),
    ("24 drives", "device.count=24"),
    ("90 % full", "array.full=90%"),
    ("free space in runs of 16 MiB at first", "array.holes=16MiB"),
    ("reads of up to 32 KiB", "array.cluster=32KiB"),
    ("100 % random", "workload.random=100%"),
    (
        "sequential readers (a backup)",
        "workload.read=100% workload.random=0% workload.block_sizes=64KiB workload.queue_depth=2",
    ),
    ("partitions misaligned", "array.misplaced=true"),
];

fn phases() -> String {
    let names = ["m3-a-contiguous", "m3-b-fragmented", "m3-c-reallocated"];
    let outcomes = in_parallel(3 * M3_ASSUMED.len(), 2, |n| {
        run(names[n % 3], &format!("{EIGHTH} {}", M3_ASSUMED[n / 3].1))
    });
    let mut text = String::from(
        "\nThe phases of M3 against each other, with and (in parentheses) without the ramp:\n\n\
         | assumption | A | B against A | C against A |\n|---|---|---|---|\n",
    );
    for ((what, _), phases) in M3_ASSUMED.iter().zip(outcomes.chunks(3)) {
        let all = |n: usize| fact(&phases[n], "ops_per_s_with_ramp");
        let against = |n: usize| {
            format!(
                "{:+.1} % ({:+.1} %)",
                (all(n) / all(0) - 1.0) * 100.0,
                (phases[n].ops_per_s / phases[0].ops_per_s - 1.0) * 100.0
            )
        };
        let _ = writeln!(
            text,
            "| {what} | {:.0} ops/s | {} | {} |",
            all(0),
            against(1),
            against(2)
        );
    }
    text
}

fn tables() -> String {
    let rows = rows();
    let outcomes = in_parallel(rows.len(), 2, |n| run(rows[n].3, &rows[n].4));
    let mut text = String::from("\n| figure | published | modelled | kind |\n|---|---|---|---|\n");
    for ((what, published, kind, _, _, say), outcome) in rows.iter().zip(&outcomes) {
        let _ = writeln!(text, "| {what} | {published} | {} | {kind} |", say(outcome));
    }
    text.push_str("\nWhat the results depend on, one value changed at a time:\n\n| scenario | value | result |\n|---|---|---|\n");
    let sweeps = sweeps();
    let points: Vec<(&Sweep, &str)> = sweeps
        .iter()
        .flat_map(|sweep| sweep.2.iter().map(move |value| (sweep, *value)))
        .collect();
    let outcomes = in_parallel(points.len(), 2, |n| {
        let ((name, key, _, _), value) = points[n];
        let scale = if name.starts_with("m3") { EIGHTH } else { "" };
        run(name, &format!("{scale} {key}={value}"))
    });
    for (((name, key, _, say), value), outcome) in points.iter().zip(&outcomes) {
        let key = match key.starts_with("workload.read=") {
            true => format!("reads: {}", key.rsplit(' ').next().unwrap_or(key)),
            false => key.to_string(),
        };
        let _ = writeln!(text, "| `{name}` | `{key}={value}` | {} |", say(outcome));
    }
    text.push_str(&phases());
    text.push('\n');
    text
}

fn main() -> std::io::Result<()> {
    let tables = tables();
    if !std::env::args().any(|argument| argument == "--write") {
        println!("{tables}");
        return Ok(());
    }
    let text = std::fs::read_to_string(DOCUMENT)?;
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        return Err(std::io::Error::other(format!(
            "{DOCUMENT}: no marks {BEGIN:?} and {END:?}"
        )));
    };
    std::fs::write(
        DOCUMENT,
        format!("{}{tables}{}", &text[..begin + BEGIN.len()], &text[end..]),
    )
}
