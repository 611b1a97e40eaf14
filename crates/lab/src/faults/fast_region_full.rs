//! The fault `fast_region_full`.
use super::{span, Culprit, FaultKind, Plan, DRIVE, LENGTH, ONSET};
use crate::components::slowness::{Commands, Shape, Slow};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "fast_region_full",
    about:
        "A drive's fast region (flash cells with one bit each) runs full: from then on its writes are slower.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key(
            "size",
            Kind::Size(1 << 12, 1 << 50),
            "1GiB",
            "Bytes that it takes.",
        ),
        key(
            "factor",
            Kind::Number(1.0, 1e3),
            "5",
            "Multiplies the service time of writes after that.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let slow = Slow {
        from_ns,
        to_ns,
        shape: Shape::AfterWriting(section.whole("size")),
        factor: section.real("factor"),
        add_ns: 0,
        commands: Commands::named("write"),
    };
    plan.slow.push((drive, slow));
    Ok(plan.device_culprit(drive))
}
