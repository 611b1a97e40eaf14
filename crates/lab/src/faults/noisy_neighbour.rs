//! The fault `noisy_neighbour`.
use super::{Culprit, FaultKind, Plan};
use crate::components::load::FAULT_KEYS;
use crate::error::LabError;
use crate::keys::Section;

pub(super) const KIND: FaultKind = FaultKind {
    name: "noisy_neighbour",
    about: "Somebody else uses the same volume or drive.",
    keys: &FAULT_KEYS,
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    super::load::add(section, plan, "process")
}
