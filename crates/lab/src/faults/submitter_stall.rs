//! The fault `submitter_stall`.
use super::{culprit, span, Culprit, FaultKind, Plan, DAY_NS, LENGTH, ONSET};
use crate::components::host::Stall;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "submitter_stall",
    about: "A worker's thread is stopped now and then.",
    keys: &[
        key("worker", Kind::Count(0, 65535), "65535", "Which; 65535 = all."),
        ONSET,
        LENGTH,
        key("period", Kind::Time(1000, DAY_NS), "1s", "Distance of the stops."),
        key(
            "stop",
            Kind::Time(1, 3_600_000_000_000),
            "18ms",
            "Length of each.",
        ),
        key(
            "irregular",
            Kind::Flag,
            "false",
            "Whether a stop comes anywhere in its period.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let (from_ns, to_ns) = span(section);
    let worker = section.whole("worker");
    plan.stalls.push(Stall {
        worker: (worker != 65535).then_some(worker as usize),
        from_ns,
        to_ns,
        every_ns: section.whole("period"),
        length_ns: section.whole("stop"),
        irregular: section.flag("irregular"),
    });
    Ok(culprit("process", "submitter"))
}
