//! The fault `garbage_collection`.
use super::{FaultKind, DAY_NS, DRIVE, LENGTH, ONSET};
use crate::keys::{key, Kind};

pub(super) const KIND: FaultKind = FaultKind {
    name: "garbage_collection",
    about: "A drive pauses to collect garbage, the more often the more is written.",
    keys: &[
        DRIVE,
        ONSET,
        LENGTH,
        key(
            "every",
            Kind::Time(1000, DAY_NS),
            "50ms",
            "Mean distance of pauses.",
        ),
        key("pause", Kind::Time(1, 60_000_000_000), "5ms", "Length of each."),
    ],
    apply: super::firmware_hiccups::apply,
};
