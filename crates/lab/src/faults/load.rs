//! Other load as a fault: what `[load]` and several kinds of faults share.
use super::{culprit, Culprit, Plan, DAY_NS};
use crate::components::load::Pattern;
use crate::error::LabError;
use crate::keys::{key, Key, Kind, Section};

/// The kernel's thread that rebuilds or checks a volume.
const VOLUME_THREAD: &str = "md0_resync";

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

/// Key of a sweep: how fast it goes.
pub(super) const fn rate(default: &'static str) -> Key {
    let meaning = "Requests per second and drive, while it is active.";
    key("rate", Kind::Number(0.0, 1e8), default, meaning)
}

/// Key of a sweep: its requests.
pub(super) const fn size(default: &'static str) -> Key {
    key("size", Kind::Size(512, 1 << 26), default, "Size of each.")
}

/// Key of a sweep: its queue depth.
pub(super) const fn depth(default: &'static str) -> Key {
    key(
        "depth",
        Kind::Count(1, 65536),
        default,
        "Most in flight per drive.",
    )
}

/// Key of a sweep: how often it is active.
pub(super) const PERIOD: Key = key(
    "period",
    Kind::Time(0, DAY_NS),
    "0s",
    "Active at the begin of each period; 0 = always.",
);

/// Key of a sweep: how long it is active.
pub(super) const ACTIVE: Key = key(
    "active",
    Kind::Time(0, DAY_NS),
    "0s",
    "Length of the active part of a period.",
);

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

/// Sweeps each drive of the volume as the kernel's thread does that rebuilds or checks it; the drive that is rebuilt is written.
pub(super) fn sweep_volume(section: &Section, plan: &mut Plan, rebuilt: Option<usize>) -> Culprit {
    let pattern = sweep(section, VOLUME_THREAD);
    for drive in 0..plan.drives() {
        let own = Pattern {
            drive: Some(drive),
            read: if Some(drive) == rebuilt { 0.0 } else { 1.0 },
            ..pattern.clone()
        };
        let name = format!("{}-{drive}", section.name.replace('.', "-"));
        plan.loads.push((name, own));
    }
    culprit("process", VOLUME_THREAD)
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
