//! The fault `flush_tail`.
use super::{span, Culprit, FaultKind, Plan, DRIVE, LENGTH, ONSET};
use crate::components::slowness::{Commands, Shape, Slow};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "flush_tail",
    about: "A share of a drive's flushes takes longer.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key("probability", Kind::Percent, "2%", "Share of flushes."),
        key("add", Kind::Time(0, 60_000_000_000), "25ms", "Is added to them."),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let slow = Slow {
        from_ns,
        to_ns,
        shape: Shape::Tail(section.real("probability")),
        factor: 1.0,
        add_ns: section.whole("add"),
        commands: Commands::named("flush"),
    };
    plan.slow.push((drive, slow));
    Ok(plan.device_culprit(drive))
}
