//! Other load as a fault: what `[load]` and three kinds of faults share.
use super::{culprit, Culprit, Plan};
use crate::components::load::Pattern;
use crate::error::LabError;
use crate::keys::Section;

/// Reads the keys of a load.
pub fn pattern(section: &Section) -> Pattern {
    let drive = section.whole("drive");
    Pattern {
        comm: section.text("comm").into(),
        drive: (drive != 65535).then_some(drive as usize),
        rate_per_s: section.real("rate"),
        size_bytes: section.whole("size") as u32,
        read: section.real("read"),
        random: section.real("random"),
        discard: false,
        depth: section.whole("depth") as usize,
        period_ns: section.whole("period"),
        active_ns: section.whole("active"),
        onset_ns: section.whole("onset"),
    }
}

/// Reads from one end to the other, as rebuilds and checks do; the keys of those faults.
pub(super) fn sweep(section: &Section, comm: &str) -> Pattern {
    Pattern {
        comm: comm.into(),
        drive: None,
        rate_per_s: section.real("rate"),
        size_bytes: section.whole("size") as u32,
        read: 1.0,
        random: 0.0,
        discard: false,
        depth: section.whole("depth") as usize,
        period_ns: section.whole("period"),
        active_ns: section.whole("active"),
        onset_ns: section.whole("onset"),
    }
}

/// Adds a load, which is to blame as `kind`.
pub(super) fn add(section: &Section, plan: &mut Plan, kind: &'static str) -> Result<Culprit, LabError> {
    if section.whole("drive") != 65535 {
        plan.drive(section)?;
    }
    let pattern = pattern(section);
    let found = culprit(kind, &pattern.comm);
    plan.loads.push((section.name.replace('.', "-"), pattern));
    Ok(found)
}
