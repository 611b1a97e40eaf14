//! The fault `thermal_throttle`.
use super::{span, Culprit, FaultKind, Plan, DAY_NS, DRIVE, LENGTH, ONSET};
use crate::components::slowness::{Commands, Shape, Slow};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "thermal_throttle",
    about: "A drive that is too warm serves everything slower until it has cooled down, again and again.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key(
            "factor",
            Kind::Number(1.0, 1e3),
            "3",
            "Multiplies service times while it is too warm.",
        ),
        key(
            "period",
            Kind::Time(1000, DAY_NS),
            "10s",
            "From one begin to the next.",
        ),
        key("warm", Kind::Time(1, DAY_NS), "4s", "How long it is too warm."),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let slow = Slow {
        from_ns,
        to_ns,
        shape: Shape::Intermittent {
            period_ns: section.whole("period"),
            on_ns: section.whole("warm"),
        },
        factor: section.real("factor"),
        add_ns: 0,
        commands: Commands::Any,
    };
    plan.slow.push((drive, slow));
    Ok(plan.device_culprit(drive))
}
