//! The fault `scrub`.
use super::{load, Culprit, FaultKind, Plan, ONSET};
use crate::error::LabError;
use crate::keys::Section;

pub(super) const KIND: FaultKind = FaultKind {
    name: "scrub",
    about: "A volume is checked: its thread reads all drives from one end to the other.",
    keys: &[
        ONSET,
        load::rate("2000"),
        load::size("128KiB"),
        load::depth("8"),
        load::PERIOD,
        load::ACTIVE,
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "volume")?;
    Ok(load::sweep_volume(section, plan, None))
}
