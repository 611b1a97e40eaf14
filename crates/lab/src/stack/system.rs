//! What `system.json` says of a stack.
use super::drives::make_interrupts;
use super::layout::{Layout, FIRST_BYTE};
use crate::components::placement::MISPLACED_BY;
use crate::components::slowness::link_text;
use crate::faults::Plan;
use crate::keys::Section;
use crate::names;
use case::meta::{DeviceMeta, SystemMeta};
use std::collections::BTreeMap;

/// Model of the drives.
fn model_of(device: &Section) -> &str {
    match device.text("kind") {
        "hdd" => device.text("hdd_model"),
        "ssd" => device.text("ssd_model"),
        kind => kind,
    }
}

/// Threads of the kernel, as a recorder lists them.
const KERNEL_THREADS: [&str; 5] = [
    "kworker/#:#H",
    "kworker/u#:#",
    "ksoftirqd/#",
    "md#_raid#",
    "md#_resync",
];

/// `system.json` of the modelled machine.
pub fn system(plan: &Plan, layout: &Layout) -> SystemMeta {
    let host = plan.scenario.section("host");
    let device = plan.scenario.section("device");
    let mut system = SystemMeta {
        host: host.text("name").into(),
        kernel: format!("whodisk lab {}", env!("CARGO_PKG_VERSION")),
        cpus: host.whole("cpus") as u32,
        cpu_model: "modelled".into(),
        numa_nodes: numa_nodes(host.whole("cpus"), host.whole("nodes")),
        memory_bytes: host.whole("memory"),
        virtualization: "none".into(),
        kernel_threads: KERNEL_THREADS.map(str::to_owned).into(),
        ..SystemMeta::default()
    };
    let drives = plan.scenario.drive_names();
    let rotational = device.text("kind") == "hdd";
    for (n, name) in layout.cast.devices.iter().enumerate() {
        let mut meta = DeviceMeta {
            name: name.clone(),
            dev: (259 << 20) | n as u32,
            size_bytes: if n < drives.len() {
                layout.drive_bytes
            } else {
                layout.volume_bytes
            },
            ..DeviceMeta::default()
        };
        let mut put = |key: &str, value: String| meta.queue.insert(key.into(), value);
        put(
            "rotational",
            u32::from(rotational && n < drives.len()).to_string(),
        );
        put("nr_requests", device.whole("tags").to_string());
        put(
            "max_sectors_kb",
            (plan.scenario.section("server").whole("max_io") >> 10).to_string(),
        );
        put("scheduler", "none".into());
        put("logical_block_size", "512".into());
        put("physical_block_size", plan.physical_block_bytes.to_string());
        if plan.scenario.has("prefetch") {
            put(
                "read_ahead_kb",
                (plan.scenario.section("prefetch").whole("chunk") >> 10).to_string(),
            );
        }
        meta.facts.insert("model".into(), model_of(device).into());
        if n == drives.len() && plan.scenario.has("volume") {
            meta.facts.insert("members".into(), drives.join(" "));
        } else {
            meta.facts.insert("pci_slot".into(), n.to_string());
            drive_facts(plan, n, name, &mut meta);
        }
        let holds_files = n
            == if plan.scenario.has("volume") {
                drives.len()
            } else {
                0
            };
        if holds_files {
            partition_facts(plan, layout, name, &mut meta);
        }
        system.devices.insert(name.clone(), meta);
    }
    if let Some(parts) = make_interrupts(plan, 0) {
        for (number, handlers, cpu) in parts.facts() {
            system
                .irqs
                .insert(number.to_string(), [handlers, cpu.to_string()]);
        }
    }
    system.changes = changes(plan);
    system
}

/// Node -> its CPUs.
fn numa_nodes(cpus: u64, nodes: u64) -> BTreeMap<String, String> {
    let of_node = |node: u64| {
        let mine: Vec<String> = (node..cpus)
            .step_by(nodes as usize)
            .map(|cpu| cpu.to_string())
            .collect();
        (node.to_string(), mine.join(","))
    };
    (0..nodes).map(of_node).collect()
}

/// What a drive says of itself and of its link when the recording begins.
fn drive_facts(plan: &Plan, drive: usize, name: &str, meta: &mut DeviceMeta) {
    let device = plan.scenario.section("device");
    meta.facts.insert(
        "firmware".into(),
        firmware(plan, plan.firmware_from_ns == Some(0)),
    );
    let driver = match names::is_nvme(name) {
        true => "nvme",
        false if name.starts_with("vd") => "virtio_blk",
        false => "sd",
    };
    meta.facts.insert("driver".into(), driver.into());
    if names::is_nvme(name) {
        let narrowed = plan
            .links
            .iter()
            .find(|(at, link)| *at == drive && link.from_ns == 0);
        let link = narrowed.map_or_else(
            || whole_link(device),
            |(_, link)| link_text(link.bytes_per_s).into(),
        );
        meta.facts.insert("pcie_link".into(), link);
        meta.facts
            .insert("pcie_link_max".into(), device.text("link_max").into());
        meta.facts.insert("numa_node".into(), "0".into());
    }
}

/// The link of drives of which nothing else is said.
fn whole_link(device: &Section) -> String {
    match device.text("link") {
        "" => device.text("link_max").into(),
        link => link.into(),
    }
}

fn firmware(plan: &Plan, updated: bool) -> String {
    let version = plan.scenario.section("device").text("firmware");
    match updated {
        true => format!("{version}.1"),
        false => version.into(),
    }
}

/// Partitions, where one of them does not begin where physical blocks do.
fn partition_facts(plan: &Plan, layout: &Layout, name: &str, meta: &mut DeviceMeta) {
    let misplaced = plan.scenario.section("server").whole("misplaced") as usize;
    if misplaced == 0 {
        return;
    }
    let before = layout.sizes_bytes.len().saturating_sub(misplaced);
    let first: u64 = layout.sizes_bytes[..before]
        .iter()
        .map(|size| size.next_multiple_of(FIRST_BYTE))
        .sum();
    let parts = [FIRST_BYTE, FIRST_BYTE + first + MISPLACED_BY];
    let parts = &parts[usize::from(before == 0)..];
    let separator = if name.ends_with(|last: char| last.is_ascii_digit()) {
        "p"
    } else {
        ""
    };
    let named: Vec<String> = (1..=parts.len())
        .map(|n| format!("{name}{separator}{n}"))
        .collect();
    let starts: Vec<String> = parts.iter().map(|start| (start / 512).to_string()).collect();
    meta.facts.insert("partitions".into(), named.join(" "));
    meta.facts.insert("partition_starts_512".into(), starts.join(" "));
}

/// What a recorder finds different at the end, in its words.
fn changes(plan: &Plan) -> Vec<String> {
    let drives = plan.scenario.drive_names();
    let mut changes = Vec::new();
    for (drive, name) in drives.iter().enumerate() {
        let mut tell = |key: &str, was: &str, is: &str| {
            changes.push(format!("device {name}: {key} was '{was}', is '{is}'"));
        };
        if plan.firmware_from_ns.is_some_and(|from_ns| from_ns > 0) {
            tell("firmware", &firmware(plan, false), &firmware(plan, true));
        }
        let narrowed = plan
            .links
            .iter()
            .find(|(at, link)| *at == drive && link.from_ns > 0 && link.to_ns == u64::MAX);
        if let Some((_, link)) = narrowed.filter(|_| names::is_nvme(name)) {
            let was = whole_link(plan.scenario.section("device"));
            tell("pcie_link", &was, link_text(link.bytes_per_s));
        }
    }
    changes
}
