//! The fault `slow_member`.
use super::{span, Culprit, FaultKind, Plan, DAY_NS, DRIVE, LENGTH, ONSET};
use crate::components::slowness::{Commands, Shape, Slow};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "slow_member",
    about: "One drive is slower than its peers: always, in its tail, or now and then.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key(
            "shape",
            Kind::Choice(&["constant", "tail", "intermittent"]),
            "constant",
            "Which commands.",
        ),
        key(
            "factor",
            Kind::Number(1.0, 1e4),
            "1",
            "Multiplies the service time of those.",
        ),
        key("add", Kind::Time(0, 60_000_000_000), "0us", "Is added to it."),
        key("probability", Kind::Percent, "1%", "Share of commands (tail)."),
        key(
            "period",
            Kind::Time(1000, DAY_NS),
            "10s",
            "Distance of slow parts (intermittent).",
        ),
        key(
            "active",
            Kind::Time(1, DAY_NS),
            "1s",
            "Length of a slow part (intermittent).",
        ),
        key(
            "op",
            Kind::Choice(&["any", "read", "write", "flush"]),
            "any",
            "Which commands.",
        ),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let shape = match section.text("shape") {
        "tail" => Shape::Tail(section.real("probability")),
        "intermittent" => Shape::Intermittent {
            period_ns: section.whole("period"),
            on_ns: section.whole("active"),
        },
        _ => Shape::Constant,
    };
    let slow = Slow {
        from_ns,
        to_ns,
        shape,
        factor: section.real("factor"),
        add_ns: section.whole("add"),
        commands: Commands::named(section.text("op")),
    };
    plan.slow.push((drive, slow));
    Ok(plan.device_culprit(drive))
}
