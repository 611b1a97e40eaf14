//! The fault `journal_contention`.
use super::{culprit, span, Culprit, FaultKind, Plan, DAY_NS, LENGTH, ONSET};
use crate::components::server::Commits;
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "journal_contention",
    about: "A file system commits its journal now and then; writes and syncs wait meanwhile.",
    keys: &[
        ONSET,
        LENGTH,
        key("every", Kind::Time(1000, DAY_NS), "5s", "Distance of commits."),
        key("commit", Kind::Time(1, 60_000_000_000), "50ms", "Length of each."),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let (from_ns, to_ns) = span(section);
    plan.commits.push(Commits {
        from_ns,
        to_ns,
        every_ns: section.whole("every"),
        length_ns: section.whole("commit"),
    });
    Ok(culprit("stage", "fs"))
}
