//! The fault `misalignment`.
use super::{culprit, Culprit, FaultKind, Plan};
use crate::components::placement::MISPLACED_BY;
use crate::components::slowness::{Commands, Shape, Slow};
use crate::error::LabError;
use crate::keys::{key, Kind, Section};

pub(super) const KIND: FaultKind = FaultKind {
    name: "misalignment",
    about: "The files of the last targets lie in a partition that begins within a physical block: each of their requests touches one block more.",
    keys: &[
        key("targets", Kind::Count(1, 65535), "1", "How many of the targets, from the last on."),
        key("block", Kind::Size(4096, 1 << 26), "4KiB", "Physical block of the drives."),
        key("factor", Kind::Number(1.0, 1e3), "2", "Multiplies the service time of a request that is not aligned to it."),
    ],
    apply,
};

fn apply(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let file = plan.scenario.file.clone();
    let targets = toml::Value::Integer(section.whole("targets") as i64);
    plan.scenario
        .section_mut("server")
        .set(&file, "misplaced", &targets)?;
    let block_bytes = section.whole("block");
    plan.physical_block_bytes = block_bytes;
    assert!(
        !MISPLACED_BY.is_multiple_of(block_bytes),
        "no multiple of any block"
    );
    for drive in 0..plan.drives() {
        let slow = Slow {
            from_ns: 0,
            to_ns: u64::MAX,
            shape: Shape::Unaligned(block_bytes),
            factor: section.real("factor"),
            add_ns: 0,
            commands: Commands::Any,
        };
        plan.slow.push((drive, slow));
    }
    Ok(culprit("request_shape", "alignment"))
}
