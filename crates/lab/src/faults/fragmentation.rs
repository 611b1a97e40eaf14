//! The fault `fragmentation`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "fragmentation",
    about: "Files lie in many small pieces on the volume.",
    keys: &[key(
        "piece",
        Kind::Size(4096, 1 << 30),
        "64KiB",
        "Size of a piece.",
    )],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let file = plan.scenario.file.clone();
    let piece = toml::Value::String(format!("{}B", section.whole("piece")));
    if plan.scenario.has("array") {
        plan.scenario
            .section_mut("array")
            .set(&file, "guest_piece", &piece)?;
        return Ok(culprit("layout", "fragmentation"));
    }
    plan.scenario.section_mut("server").set(&file, "piece", &piece)?;
    Ok(culprit("layout", "fragmentation"))
}
