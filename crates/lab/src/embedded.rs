//! The scenarios that come with the binary: those of `scenarios/`, so that `whodisk lab run NAME` needs no files.
use crate::error::LabError;
use crate::scenario::Scenario;
use std::path::Path;

/// Name and text of every embedded scenario, in order of name.
pub const SCENARIOS: &[(&str, &str)] = &[
    (
        "cache-too-small",
        include_str!("../../../scenarios/cache-too-small.toml"),
    ),
    (
        "checkpoint-storm",
        include_str!("../../../scenarios/checkpoint-storm.toml"),
    ),
    (
        "device-errors",
        include_str!("../../../scenarios/device-errors.toml"),
    ),
    ("fill-level", include_str!("../../../scenarios/fill-level.toml")),
    (
        "firmware-hiccups",
        include_str!("../../../scenarios/firmware-hiccups.toml"),
    ),
    (
        "fragmentation",
        include_str!("../../../scenarios/fragmentation.toml"),
    ),
    (
        "garbage-collection",
        include_str!("../../../scenarios/garbage-collection.toml"),
    ),
    ("healthy-hdd", include_str!("../../../scenarios/healthy-hdd.toml")),
    (
        "healthy-nvme",
        include_str!("../../../scenarios/healthy-nvme.toml"),
    ),
    ("m1-copy-odx", include_str!("../../../scenarios/m1-copy-odx.toml")),
    ("m1-copy-rw", include_str!("../../../scenarios/m1-copy-rw.toml")),
    ("m1-copy-ssc", include_str!("../../../scenarios/m1-copy-ssc.toml")),
    ("m1-evicted", include_str!("../../../scenarios/m1-evicted.toml")),
    (
        "m1-odx-fixed",
        include_str!("../../../scenarios/m1-odx-fixed.toml"),
    ),
    (
        "m1-odx-found",
        include_str!("../../../scenarios/m1-odx-found.toml"),
    ),
    (
        "m1-reads-combined",
        include_str!("../../../scenarios/m1-reads-combined.toml"),
    ),
    (
        "m1-ssd-resident",
        include_str!("../../../scenarios/m1-ssd-resident.toml"),
    ),
    (
        "m2a-block-layer",
        include_str!("../../../scenarios/m2a-block-layer.toml"),
    ),
    ("m2a-fixed", include_str!("../../../scenarios/m2a-fixed.toml")),
    ("m2b-fixed", include_str!("../../../scenarios/m2b-fixed.toml")),
    (
        "m2b-submitter",
        include_str!("../../../scenarios/m2b-submitter.toml"),
    ),
    (
        "m3-a-contiguous",
        include_str!("../../../scenarios/m3-a-contiguous.toml"),
    ),
    (
        "m3-b-fragmented",
        include_str!("../../../scenarios/m3-b-fragmented.toml"),
    ),
    (
        "m3-c-reallocated",
        include_str!("../../../scenarios/m3-c-reallocated.toml"),
    ),
    (
        "m4-affinity-fixed",
        include_str!("../../../scenarios/m4-affinity-fixed.toml"),
    ),
    ("m4-as-found", include_str!("../../../scenarios/m4-as-found.toml")),
    (
        "m4-bridge-off",
        include_str!("../../../scenarios/m4-bridge-off.toml"),
    ),
    (
        "m4-handler-gone",
        include_str!("../../../scenarios/m4-handler-gone.toml"),
    ),
    (
        "network-loss",
        include_str!("../../../scenarios/network-loss.toml"),
    ),
    (
        "noisy-neighbour",
        include_str!("../../../scenarios/noisy-neighbour.toml"),
    ),
    (
        "periodic-job",
        include_str!("../../../scenarios/periodic-job.toml"),
    ),
    (
        "prefetch-misfit",
        include_str!("../../../scenarios/prefetch-misfit.toml"),
    ),
    (
        "runqueue-pressure",
        include_str!("../../../scenarios/runqueue-pressure.toml"),
    ),
    (
        "slow-handler",
        include_str!("../../../scenarios/slow-handler.toml"),
    ),
    ("slow-member", include_str!("../../../scenarios/slow-member.toml")),
    (
        "submitter-stall",
        include_str!("../../../scenarios/submitter-stall.toml"),
    ),
    ("throttle", include_str!("../../../scenarios/throttle.toml")),
    (
        "wrong-affinity",
        include_str!("../../../scenarios/wrong-affinity.toml"),
    ),
];

/// Reads a scenario by the path of a file, or by the name of an embedded one.
pub fn open(name: &str, edits: &[String]) -> Result<Scenario, LabError> {
    Scenario::parse(name, &text(name)?, edits)
}

/// The text of a scenario: of a file, or of an embedded one by its name. Errors name what may have been meant.
pub fn text(name: &str) -> Result<String, LabError> {
    let embedded = SCENARIOS.iter().find(|(own, _)| *own == name);
    match (std::fs::read_to_string(name), embedded) {
        (Ok(text), _) => Ok(text),
        (Err(_), Some((_, text))) if !Path::new(name).is_file() => Ok((*text).to_owned()),
        (Err(error), None) if error.kind() == std::io::ErrorKind::NotFound => {
            let names = SCENARIOS.iter().map(|(own, _)| *own);
            let hint = match case::nearest(name, names) {
                Some(near) => format!("did you mean {near}?"),
                None => "check the path, or take one of the list".into(),
            };
            Err(LabError::NoScenario {
                name: name.into(),
                hint,
            })
        }
        (Err(source), _) => Err(LabError::Read {
            file: name.into(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_almost_right_is_told() {
        let error = |name| open(name, &[]).expect_err(name).to_string();
        assert!(error("slow-membr").contains("did you mean slow-member?"));
        let far = error("my/own.toml");
        assert!(
            far.contains("my/own.toml") && !far.contains("did you mean"),
            "{far}"
        );
        let edited = |edit: &str| open("slow-member", &[edit.into()]).expect_err(edit).to_string();
        for (edit, meant) in [
            ("devcie.count=4", "device"),
            ("device.cuont=4", "count"),
            ("workload.queue_dpeth=4", "queue_depth"),
            ("fault.slwo.factor=4", "fault.slow"),
        ] {
            let said = edited(edit);
            assert!(said.contains(&format!("did you mean {meant}?")), "{said}");
        }
    }

    #[test]
    fn every_file_of_the_folder_is_embedded_and_correct() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder of scenarios")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        files.sort();
        let embedded: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, embedded, "add the file to SCENARIOS");
        for name in embedded {
            let scenario = open(name, &[]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.name(), name);
            assert!(
                !scenario.root.text("about").is_empty(),
                "{name} says what it shows"
            );
        }
    }
}
