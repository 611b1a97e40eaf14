//! What `system.json` says of a stack.
use super::drives::make_interrupts;
use super::layout::Layout;
use crate::faults::Plan;
use crate::keys::Section;
use case::meta::{DeviceMeta, SystemMeta};

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
    system
}
