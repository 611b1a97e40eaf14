//! The fault `oversized_transaction`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "oversized_transaction",
    about: "The internal read of an offloaded copy is sized by the largest transaction, not by the target.",
    keys: &[key(
        "size",
        Kind::Size(4096, 1 << 30),
        "8448KiB",
        "What the largest transaction comes to.",
    )],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "protocol")?;
    let file = plan.scenario.file.clone();
    let bytes = section.whole("size");
    let protocol = plan.scenario.section_mut("protocol");
    protocol.set(
        &file,
        "max_transaction",
        &toml::Value::String(format!("{bytes}B")),
    )?;
    protocol.set(&file, "internal_read", &toml::Value::String("max".into()))?;
    Ok(culprit("request_shape", &format!("read of {bytes} bytes")))
}
