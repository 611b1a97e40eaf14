//! The fault `link_downgrade`.
use super::{span, Culprit, FaultKind, Plan, DRIVE, LENGTH, ONSET};
use crate::components::slowness::Link;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "link_downgrade",
    about: "A drive's link has lost lanes or speed: its transfers share what is left.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key(
            "bandwidth",
            Kind::Rate(1 << 10, 1 << 40),
            "212MB/s",
            "What is left.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let link = Link {
        from_ns,
        to_ns,
        bytes_per_s: section.whole("bandwidth"),
    };
    plan.links.push((drive, link));
    Ok(plan.device_culprit(drive))
}
