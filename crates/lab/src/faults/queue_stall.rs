//! The fault `queue_stall`.
use super::{culprit, span, Culprit, FaultKind, Plan, DAY_NS, DRIVE, LENGTH, ONSET};
use crate::components::drive::QueueStall;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "queue_stall",
    about:
        "The host does not run a CPU's hardware queue of a drive for a while: its requests are not issued.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key(
            "cpu",
            Kind::Count(0, 65535),
            "65535",
            "The CPU with that queue; 65535 = that of each CPU in turn.",
        ),
        key(
            "period",
            Kind::Time(1000, DAY_NS),
            "1s",
            "Distance of the stalls.",
        ),
        key(
            "stall",
            Kind::Time(1, 3_600_000_000_000),
            "113ms",
            "Length of each.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let stall = QueueStall {
        cpu: (section.whole("cpu") != 65535).then_some(section.whole("cpu") as u16),
        cpus: plan.scenario.section("host").whole("cpus") as u16,
        from_ns,
        to_ns,
        every_ns: section.whole("period"),
        length_ns: section.whole("stall"),
    };
    plan.queue_stalls.push((drive, stall));
    Ok(culprit("stage", "queue"))
}
