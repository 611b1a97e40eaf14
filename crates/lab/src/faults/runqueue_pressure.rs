//! The fault `runqueue_pressure`.
use super::{culprit, span, Culprit, FaultKind, Plan, LENGTH, ONSET};
use crate::components::host::Pressure;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "runqueue_pressure",
    about: "Other processes want the CPUs: threads that wake up wait for one.",
    keys: &[
        ONSET,
        LENGTH,
        key(
            "probability",
            Kind::Percent,
            "20%",
            "Share of wake-ups that wait.",
        ),
        key(
            "wait",
            Kind::Time(1, 60_000_000_000),
            "1ms",
            "Mean wait (exponential).",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let (from_ns, to_ns) = span(section);
    plan.pressure.push(Pressure {
        from_ns,
        to_ns,
        probability: section.real("probability"),
        wait_ns: section.whole("wait"),
    });
    Ok(culprit("stage", "runqueue"))
}
