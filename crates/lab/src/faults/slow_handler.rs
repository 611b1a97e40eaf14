//! The fault `slow_handler`.
use super::{culprit, span, Culprit, FaultKind, Plan, DRIVE, LENGTH, ONSET};
use crate::components::interrupts::ForeignHandler;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "slow_handler",
    about: "A foreign interrupt handler (a PCIe switch's management endpoint) shares a drive's vector.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key("handler", Kind::Text, "switchtec", "Its name."),
        key("cost", Kind::Time(1, 1_000_000_000), "40us", "Of each call."),
        key(
            "rate",
            Kind::Number(0.0, 1e6),
            "0",
            "Interrupts of its own per second.",
        ),
        key(
            "queues",
            Kind::Count(1, 256),
            "256",
            "How many of the drive's vectors it shares.",
        ),
        key(
            "busy",
            Kind::Percent,
            "0%",
            "Share of a call during which its device is busy: more calls at once than it has time for slow each other down.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "interrupts")?;
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let interrupts = plan.scenario.section("interrupts");
    let (pool, max_vec) = (
        interrupts.whole("vectors") as usize,
        interrupts.whole("max_vec") as usize,
    );
    let own = (0..max_vec.min(pool)).map(|n| (drive * max_vec + n) % pool);
    let vectors: Vec<usize> = own.take(section.whole("queues") as usize).collect();
    let first = vectors.first().map_or(0, |vector| *vector as i16);
    plan.handlers.push(ForeignHandler {
        name: section.text("handler").into(),
        vectors,
        cost_ns: section.whole("cost"),
        busy: section.real("busy"),
        rate_per_s: section.real("rate"),
        from_ns,
        to_ns,
    });
    let vector = crate::components::interrupts::FIRST_VECTOR + first;
    Ok(culprit("vector", &vector.to_string()))
}
