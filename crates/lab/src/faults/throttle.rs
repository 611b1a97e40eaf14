//! The fault `throttle`.
use super::{culprit, span, Culprit, FaultKind, Plan, LENGTH, ONSET};
use crate::components::throttle::Limit;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "throttle",
    about: "An I/O controller holds requests back.",
    keys: &[
        ONSET,
        LENGTH,
        key(
            "iops",
            Kind::Count(0, 1_000_000_000),
            "1000",
            "Requests per second; 0 = no such limit.",
        ),
        key(
            "bandwidth",
            Kind::Rate(0, 1 << 40),
            "0B/s",
            "Bytes per second; 0 = no such limit.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let (from_ns, to_ns) = span(section);
    plan.limits.push(Limit {
        from_ns,
        to_ns,
        ops_per_s: section.whole("iops"),
        bytes_per_s: section.whole("bandwidth"),
    });
    Ok(culprit("stage", "throttle"))
}
