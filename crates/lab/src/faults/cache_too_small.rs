//! The fault `cache_too_small`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "cache_too_small",
    about: "The RAM cache is a fraction of what it should be.",
    keys: &[key("share", Kind::Percent, "10%", "Of the size it should have.")],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "cache")?;
    let file = plan.scenario.file.clone();
    let cache = plan.scenario.section_mut("cache");
    let size = (cache.whole("size") as f64 * section.real("share")).max(65536.0) as u64;
    cache.set(&file, "size", &toml::Value::String(format!("{size}B")))?;
    Ok(culprit("cache_tier", "ram"))
}
