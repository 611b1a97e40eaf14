//! The fault `wrong_affinity`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "wrong_affinity",
    about: "The wanted CPUs of the vectors are ignored: all interrupts go to a few CPUs.",
    keys: &[key(
        "cpus",
        Kind::Count(1, 4096),
        "1",
        "How many: CPU 0 and those after it.",
    )],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "interrupts")?;
    let file = plan.scenario.file.clone();
    let interrupts = plan.scenario.section_mut("interrupts");
    interrupts.set(&file, "affinity", &toml::Value::String("ignored".into()))?;
    let cpus = toml::Value::Integer(section.whole("cpus") as i64);
    interrupts.set(&file, "ignored_cpus", &cpus)?;
    Ok(culprit("vector", "cpu 0"))
}
