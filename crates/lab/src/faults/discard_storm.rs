//! The fault `discard_storm`.
use super::{Culprit, FaultKind, Plan, DAY_NS, ONSET};
use crate::components::load::Pattern;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

/// The program that asks for them.
const COMM: &str = "fstrim";

pub(super) const KIND: FaultKind = FaultKind {
    name: "discard_storm",
    about: "Free space is trimmed: large discards, which a drive serves as slowly as it likes.",
    keys: &[
        ONSET,
        key(
            "rate",
            Kind::Number(0.0, 1e8),
            "200",
            "Requests per second and drive, while it is active.",
        ),
        key("size", Kind::Size(512, 1 << 26), "16MiB", "Size of each."),
        key("depth", Kind::Count(1, 65536), "32", "Most in flight per drive."),
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
    let pattern = Pattern {
        discard: true,
        ..super::load::sweep(section, COMM)
    };
    plan.loads.push((section.name.replace('.', "-"), pattern));
    Ok(super::culprit("process", COMM))
}
