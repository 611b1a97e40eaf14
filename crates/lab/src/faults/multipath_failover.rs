//! The fault `multipath_failover`.
use super::{span, Culprit, FaultKind, Plan, DAY_NS, DRIVE, LENGTH, ONSET};
use crate::components::slowness::Pauses;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "multipath_failover",
    about: "A path to a drive fails now and then: what is under way times out and is given again on another path.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key("every", Kind::Time(1000, DAY_NS), "10s", "Mean distance of failures."),
        key("timeout", Kind::Time(1, 600_000_000_000), "1s", "Until the other path is used."),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let pauses = Pauses {
        from_ns,
        to_ns,
        every_ns: section.whole("every"),
        length_ns: section.whole("timeout"),
        periodic: false,
        timeouts: true,
    };
    plan.pauses.push((drive, pauses));
    Ok(plan.device_culprit(drive))
}
