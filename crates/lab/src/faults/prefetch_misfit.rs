//! The fault `prefetch_misfit`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "prefetch_misfit",
    about: "Prefetches are smaller than the reads: each read misses its rest.",
    keys: &[key(
        "chunk",
        Kind::Size(4096, 1 << 30),
        "1MiB",
        "Most bytes of one prefetch.",
    )],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "prefetch")?;
    let file = plan.scenario.file.clone();
    let chunk = toml::Value::String(format!("{}B", section.whole("chunk")));
    plan.scenario
        .section_mut("prefetch")
        .set(&file, "chunk", &chunk)?;
    Ok(culprit("request_shape", "prefetch"))
}
