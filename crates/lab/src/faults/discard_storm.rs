//! The fault `discard_storm`.
use super::{load, Culprit, FaultKind, Plan, ONSET};
use crate::components::load::Pattern;
use crate::error::LabError;
use crate::keys::Section;

/// The program that asks for them.
const COMM: &str = "fstrim";

pub(super) const KIND: FaultKind = FaultKind {
    name: "discard_storm",
    about: "Free space is trimmed: large discards, which a drive serves as slowly as it likes.",
    keys: &[
        ONSET,
        load::rate("200"),
        load::size("16MiB"),
        load::depth("32"),
        load::PERIOD,
        load::ACTIVE,
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let pattern = Pattern {
        discard: true,
        ..load::sweep(section, COMM)
    };
    plan.loads.push((section.name.replace('.', "-"), pattern));
    Ok(super::culprit("process", COMM))
}
