//! The fault `aged_layout`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "aged_layout",
    about: "A copy-on-write array has been overwritten for long: what lay together lies apart.",
    keys: &[key(
        "overwritten",
        Kind::Number(0.0, 20.0),
        "0.5",
        "Random overwrites of the files, as a multiple of their size.",
    )],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "array")?;
    let file = plan.scenario.file.clone();
    let times = toml::Value::Float(section.real("overwritten"));
    plan.scenario
        .section_mut("array")
        .set(&file, "overwritten", &times)?;
    Ok(culprit("layout", "aged layout"))
}
