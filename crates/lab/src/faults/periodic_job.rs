//! The fault `periodic_job`.
use super::{Culprit, FaultKind, Plan};
use crate::components::load::FAULT_KEYS;
use crate::error::LabError;
use crate::keys::Section;

pub(super) const KIND: FaultKind = FaultKind {
    name: "periodic_job",
    about: "A job reads or writes a lot at equal distances.",
    keys: &FAULT_KEYS,
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    super::load::add(section, plan, "process")
}
