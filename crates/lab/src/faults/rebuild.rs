//! The fault `rebuild`.
use super::{load, Culprit, FaultKind, Plan, DRIVE, ONSET};
use crate::error::LabError;
use crate::keys::Section;

pub(super) const KIND: FaultKind = FaultKind {
    name: "rebuild",
    about: "A volume rebuilds one of its drives from the others: its thread reads there and writes here.",
    keys: &[
        ONSET,
        DRIVE,
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
    let rebuilt = plan.drive(section)?;
    Ok(load::sweep_volume(section, plan, Some(rebuilt)))
}
