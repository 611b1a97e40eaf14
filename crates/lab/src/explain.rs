//! A scenario in words: what the workload does, what it goes through, what is wrong.
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
            if given || !key.name.contains('_') || scenario.has(schema.name) {
                let mark = if given { "*" } else { " " };
                let _ = writeln!(text, "   {mark} {} = {value}    {}", key.name, key.meaning);
            }
        }
    }
    for load in &scenario.loads {
        let _ = writeln!(text, "\nOther load {}:", load.name);
        for (key, value, given) in load.entries() {
            let _ = writeln!(
                text,
                "   {} {} = {value}    {}",
                if given { "*" } else { " " },
                key.name,
                key.meaning
            );
        }
    }
    if scenario.faults.is_empty() {
        text.push_str("\nFaults: none; the truth is healthy.\n");
    }
    for fault in &scenario.faults {
        let _ = writeln!(text, "\nFault {}: {}", fault.name, fault.describe().about);
        for (key, value, given) in fault.section.entries() {
            let _ = writeln!(
                text,
                "   {} {} = {value}    {}",
                if given { "*" } else { " " },
                key.name,
                key.meaning
            );
        }
    }
    text
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
