//! The fault `slow_firmware`.
use super::{culprit, span, Culprit, FaultKind, Plan, LENGTH, ONSET};
use crate::components::slowness::{Commands, Shape, Slow};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "slow_firmware",
    about: "All drives are slower from a moment on: a firmware update.",
    keys: &[
        ONSET,
        LENGTH,
        key(
            "factor",
            Kind::Number(1.0, 1e3),
            "1.5",
            "Multiplies service times.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let (from_ns, to_ns) = span(section);
    for drive in 0..plan.drives() {
        let slow = Slow {
            from_ns,
            to_ns,
            shape: Shape::Constant,
            factor: section.real("factor"),
            add_ns: 0,
            commands: Commands::Any,
        };
        plan.slow.push((drive, slow));
    }
    plan.firmware_from_ns = Some(from_ns);
    Ok(culprit("stage", "device"))
}
