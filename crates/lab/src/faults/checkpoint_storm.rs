//! The fault `checkpoint_storm`.
use super::{Culprit, FaultKind, Plan};
use crate::components::load::FAULT_KEYS;
use crate::error::LabError;
use crate::keys::Section;

pub(super) const KIND: FaultKind = FaultKind {
    name: "checkpoint_storm",
    about: "A file system or database writes everything out at equal distances.",
    keys: &FAULT_KEYS,
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    super::load::add(section, plan, "time_pattern")
}
