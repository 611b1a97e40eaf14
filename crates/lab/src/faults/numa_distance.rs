//! The fault `numa_distance`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::components::server::Far;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "numa_distance",
    about: "The workload's memory is far from the CPUs with odd numbers (one of two nodes): what they do takes longer.",
    keys: &[key(
        "add",
        Kind::Time(0, 60_000_000_000),
        "50us",
        "Is added to the kernel time of each operation of those CPUs.",
    )],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let file = plan.scenario.file.clone();
    let two = toml::Value::Integer(2);
    plan.scenario.section_mut("host").set(&file, "nodes", &two)?;
    plan.far.push(Far {
        add_ns: section.whole("add"),
    });
    Ok(culprit("config", "NUMA distance"))
}
