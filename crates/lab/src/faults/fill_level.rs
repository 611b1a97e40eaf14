//! The fault `fill_level`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "fill_level",
    about: "The volume is so full that new data go into small holes.",
    keys: &[key("full", Kind::Percent, "95%", "Of its capacity.")],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    if plan.scenario.has("array") {
        let file = plan.scenario.file.clone();
        let full = toml::Value::String(format!("{}%", section.real("full") * 100.0));
        plan.scenario.section_mut("array").set(&file, "full", &full)?;
        return Ok(culprit("layout", "fill level"));
    }
    // New data go into holes: their size falls as the volume fills (half full: 1 MiB, 95 %: 64 KiB, 99 %: 16 KiB).
    let free = (1.0 - section.real("full")).max(0.001);
    let piece = ((free * 1.25 * (1 << 20) as f64) as u64 / 4096).clamp(1, 256) * 4096;
    let file = plan.scenario.file.clone();
    let piece = toml::Value::String(format!("{piece}B"));
    plan.scenario.section_mut("server").set(&file, "piece", &piece)?;
    Ok(culprit("layout", "fill level"))
}
