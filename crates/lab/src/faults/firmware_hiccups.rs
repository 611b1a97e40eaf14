//! The fault `firmware_hiccups`.
use super::{span, Culprit, FaultKind, Plan, DAY_NS, DRIVE, LENGTH, ONSET};
use crate::components::slowness::Pauses;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "firmware_hiccups",
    about: "A drive takes no notice of anything for a while, at random moments.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key("every", Kind::Time(1000, DAY_NS), "2s", "Mean distance."),
        key("pause", Kind::Time(1, 60_000_000_000), "100ms", "Length of each."),
    ],
    apply,
};

/// A drive that stands still at random moments.
pub(super) fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let pauses = Pauses {
        from_ns,
        to_ns,
        every_ns: section.whole("every"),
        length_ns: section.whole("pause"),
        periodic: false,
        timeouts: false,
    };
    plan.pauses.push((drive, pauses));
    Ok(plan.device_culprit(drive))
}
