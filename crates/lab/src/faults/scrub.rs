//! The fault `scrub`.
use super::{Culprit, FaultKind, Plan, DAY_NS, ONSET};
use crate::components::load::Pattern;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

/// The kernel's thread that does it.
const COMM: &str = "md0_resync";

pub(super) const KIND: FaultKind = FaultKind {
    name: "scrub",
    about: "A volume is checked: its thread reads all drives from one end to the other.",
    keys: &[
        ONSET,
        key(
            "rate",
            Kind::Number(0.0, 1e8),
            "2000",
            "Requests per second and drive, while it is active.",
        ),
        key("size", Kind::Size(512, 1 << 26), "128KiB", "Size of each."),
        key("depth", Kind::Count(1, 65536), "8", "Most in flight per drive."),
        key(
            "period",
            Kind::Time(0, DAY_NS),
            "0s",
            "Active at the begin of each period; 0 = always.",
        ),
        key(
            "active",
            Kind::Time(0, DAY_NS),
            "0s",
            "Length of the active part of a period.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "volume")?;
    let pattern = super::load::sweep(section, COMM);
    for drive in 0..plan.drives() {
        let own = Pattern {
            drive: Some(drive),
            ..pattern.clone()
        };
        plan.loads
            .push((format!("{}-{drive}", section.name.replace('.', "-")), own));
    }
    Ok(super::culprit("process", COMM))
}
