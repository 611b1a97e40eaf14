//! A scenario in words: what the workload does, what it goes through, what is wrong.
use crate::faults::Plan;
use crate::keys::Key;
use crate::scenario::{Scenario, SCHEMAS};
use std::fmt::Write;
use workload::units::format_size;

/// Explains a scenario, top of the stack first; keys that the scenario gives are marked with `*`.
pub fn explain(scenario: &Scenario) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}", scenario.name(), scenario.root.text("about"));
    let _ = writeln!(text, "\nWorkload: {}", workload(scenario));
    let _ = writeln!(
        text,
        "\nStack, top first (* = given by the scenario, else a default):"
    );
    for schema in SCHEMAS.iter() {
        let always = matches!(schema.name, "host" | "server" | "device");
        if !always && !scenario.has(schema.name) {
            continue;
        }
        let _ = writeln!(text, "  {}: {}", schema.name, schema.about);
        for (key, value, given) in scenario.section(schema.name).entries() {
            if given || matters(scenario, schema.name, key.name) {
                text.push_str(&line(key, value, given));
            }
        }
    }
    for load in &scenario.loads {
        let _ = writeln!(text, "\nOther load {}:", load.name);
        for (key, value, given) in load.entries() {
            text.push_str(&line(key, value, given));
        }
    }
    if scenario.faults.is_empty() {
        text.push_str("\nFaults: none; the truth is healthy.\n");
    }
    for (fault, blamed) in scenario.faults.iter().zip(blamed(scenario)) {
        let about = fault.describe().about;
        let _ = writeln!(text, "\nFault {}: {about} ({blamed})", fault.name);
        for (key, value, given) in fault.section.entries() {
            text.push_str(&line(key, value, given));
        }
    }
    text
}

/// One key with its value.
fn line(key: &Key, value: &str, given: bool) -> String {
    let mark = if given { "*" } else { " " };
    format!("   {mark} {} = {value}    {}\n", key.name, key.meaning)
}

/// Whether a key that was not given does anything: those of other kinds of drive do not.
fn matters(scenario: &Scenario, table: &str, key: &str) -> bool {
    match table {
        "device" => {
            let kind = scenario.section("device").text("kind");
            let of_kind = |prefix: &str| key.starts_with(prefix) && !prefix.starts_with(kind);
            !["simple_", "hdd_", "ssd_", "fitted_"].into_iter().any(of_kind)
        }
        _ => scenario.has(table) || !key.contains('_'),
    }
}

/// Who is to blame for each fault.
fn blamed(scenario: &Scenario) -> Vec<String> {
    let all: Vec<usize> = (0..scenario.faults.len()).collect();
    match Plan::new(scenario, &all) {
        Ok((_, culprits)) => culprits
            .iter()
            .map(|culprit| format!("blamed: {} {}", culprit.kind, culprit.name))
            .collect(),
        Err(error) => vec![error.to_string(); all.len()],
    }
}

fn workload(scenario: &Scenario) -> String {
    let spec = &scenario.workload;
    let percent = |ppm: u32| f64::from(ppm) / 1e4;
    let blocks = spec.blocks.iter().map(|block| match spec.blocks.len() {
        1 => format_size(u64::from(block.size_bytes)),
        _ => format!(
            "{} ({} %)",
            format_size(u64::from(block.size_bytes)),
            percent(block.share_ppm)
        ),
    });
    let pace = match spec.rate_per_s {
        Some(rate) => format!(
            "{rate} operations a second, at most {} in flight each",
            spec.queue_depth
        ),
        None => format!("{} operations always in flight each", spec.queue_depth),
    };
    format!(
        "{} worker(s), {pace}; {} {}; {} % reads, {} % to random places; seed {}",
        spec.workers,
        if spec.direct { "direct" } else { "buffered" },
        blocks.collect::<Vec<_>>().join(", "),
        percent(spec.read_ppm),
        percent(spec.random_ppm),
        spec.seed
    )
}
