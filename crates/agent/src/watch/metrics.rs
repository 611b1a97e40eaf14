//! Counters in Prometheus' text format, version 0.0.4.
use record::watch::{Counters, Totals, BOUNDS_NS};
use std::fmt::Write;

/// Everything that is served.
pub fn render(totals: &Totals) -> String {
    let mut text = String::new();
    let devices: Vec<Labelled> = totals
        .devices
        .iter()
        .map(|((device, op), counters)| (format!("device=\"{}\",op=\"{op}\"", escaped(device)), counters))
        .collect();
    family(&mut text, "block", "block requests", &devices);
    head(
        &mut text,
        "whodisk_block_stage_seconds_total",
        "counter",
        "time of block requests by stage",
    );
    for (labels, counters) in &devices {
        let stages = &counters.stages;
        for (stage, ns) in [
            ("queue", stages.queue_ns),
            ("device", stages.device_ns),
            ("interrupt", stages.interrupt_ns),
        ] {
            let value = seconds(ns);
            let _ = writeln!(
                text,
                "whodisk_block_stage_seconds_total{{{labels},stage=\"{stage}\"}} {value}"
            );
        }
    }
    let calls: Vec<Labelled> = totals
        .calls
        .iter()
        .map(|(op, counters)| (format!("op=\"{op}\""), counters))
        .collect();
    family(
        &mut text,
        "call",
        "system calls and requests of io_uring and libaio",
        &calls,
    );
    head(
        &mut text,
        "whodisk_lost_events_total",
        "counter",
        "events that a probe lost",
    );
    for (probe, lost) in &totals.lost {
        let _ = writeln!(text, "whodisk_lost_events_total{{probe=\"{probe}\"}} {lost}");
    }
    text
}

/// One of the counters.
type Value = fn(&Counters) -> u64;

/// Labels, and what they are the labels of.
type Labelled<'a> = (String, &'a Counters);

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn family(text: &mut String, layer: &str, what: &str, all: &[Labelled]) {
    let counters: [(&str, &str, Value); 2] = [
        ("bytes", "bytes of", |counters| counters.bytes),
        ("errors", "I/O errors of", |counters| counters.errors),
    ];
    for (quantity, of, value) in counters {
        let name = format!("whodisk_{layer}_{quantity}_total");
        head(text, &name, "counter", &format!("{of} {what}"));
        for (labels, counters) in all {
            let _ = writeln!(text, "{name}{{{labels}}} {}", value(counters));
        }
    }
    let name = format!("whodisk_{layer}_latency_seconds");
    head(text, &name, "histogram", &format!("latency of {what}"));
    for (labels, counters) in all {
        histogram(text, &name, labels, counters);
    }
}

fn histogram(text: &mut String, name: &str, labels: &str, counters: &Counters) {
    let mut below = 0;
    for (bound_ns, count) in BOUNDS_NS.iter().zip(counters.buckets) {
        below += count;
        let bound = seconds(*bound_ns);
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
    }
    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", counters.count);
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}", seconds(counters.latency_ns));
    let _ = writeln!(text, "{name}_count{{{labels}}} {}", counters.count);
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text of a label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        for (ns, text) in [
            (0, "0"),
            (25_000, "0.000025"),
            (30_000_000_000, "30"),
            (1_000_000_001, "1.000000001"),
        ] {
            assert_eq!(seconds(ns), text);
        }
    }

    #[test]
    fn buckets_add_up() {
        let mut counters = Counters {
            count: 3,
            latency_ns: 5_000_000_000,
            ..Counters::default()
        };
        counters.buckets[0] = 1;
        counters.buckets[1] = 1;
        counters.buckets[BOUNDS_NS.len()] = 1;
        let mut totals = Totals::default();
        totals.devices.insert(("a\"b".into(), "read"), counters);
        let text = render(&totals);
        let labels = "device=\"a\\\"b\",op=\"read\"";
        for line in [
            format!("whodisk_block_latency_seconds_bucket{{{labels},le=\"0.000025\"}} 2\n"),
            format!("whodisk_block_latency_seconds_bucket{{{labels},le=\"30\"}} 2\n"),
            format!("whodisk_block_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 3\n"),
            format!("whodisk_block_latency_seconds_sum{{{labels}}} 5\n"),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
