//! The fault `device_errors`.
use super::{span, Culprit, FaultKind, Plan, DRIVE, LENGTH, ONSET};
use crate::components::slowness::Errors;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "device_errors",
    about: "Commands of a drive fail now and then and are given again, as events tell.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key("probability", Kind::Percent, "1%", "Share of commands."),
        key(
            "retry",
            Kind::Time(0, 600_000_000_000),
            "10ms",
            "From the failure to the next attempt, which succeeds.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let errors = Errors {
        from_ns,
        to_ns,
        probability: section.real("probability"),
        retry_ns: section.whole("retry"),
    };
    plan.errors.push((drive, errors));
    Ok(plan.device_culprit(drive))
}
