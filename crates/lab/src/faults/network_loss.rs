//! The fault `network_loss`.
use super::{culprit, span, Culprit, FaultKind, Plan, LENGTH, ONSET};
use crate::components::network::Loss;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "network_loss",
    about: "Messages are lost and sent again after a timeout.",
    keys: &[
        ONSET,
        LENGTH,
        key("probability", Kind::Percent, "1%", "Per message."),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "network")?;
    let (from_ns, to_ns) = span(section);
    plan.losses.push(Loss {
        from_ns,
        to_ns,
        probability: section.real("probability"),
    });
    Ok(culprit("host", "network"))
}
