//! Random cases with known truth, for scoring detectors: `whodisk lab generate`.
//!
//! `DIR` gets `case-000000.toml` (the scenario, which `lab run` accepts) and `case-000000.case` for each case. A case appears
//! under its name when it is whole; those that are there already are kept, so a stopped run goes on where it was.
mod dice;
mod draw;
mod fault;
mod sites;

pub use draw::{draw, Class, Drawn};

use crate::error::LabError;
use crate::run::{self, in_parallel};
use crate::scenario::Scenario;
use crate::writer::TRUTH_JSON;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Of everything.
    pub seed: u64,
    /// Number of the first case.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// Cases made side by side.
    pub threads: usize,
}

/// One case, as the list that is printed has it.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Name of the case's directory.
    pub case: String,
    /// Kind of fault or look-alike, or `healthy`: what was drawn.
    pub group: &'static str,
    /// It was there before.
    pub kept: bool,
    /// No fault counts.
    pub healthy: bool,
    /// Of the fault with the largest effect that counts, as `kind name`.
    pub culprit: Option<String>,
    /// Largest effect of a fault, as a factor; 1 = none.
    pub effect: f64,
    /// Operations measured; None where the case was kept.
    pub operations: Option<u64>,
}

/// Makes the cases that are not there yet, in order of number; `tell` hears of each that is done. Errors: a file cannot be
/// written, or `dir` holds cases of another seed or version.
pub fn generate(dir: &Path, request: Request, tell: &(dyn Fn(&Line) + Sync)) -> Result<Vec<Line>, LabError> {
    std::fs::create_dir_all(dir).map_err(|source| io(dir, "create the directory", source))?;
    let lines = in_parallel(request.count as usize, request.threads, |n| {
        let line = one(dir, request.seed, request.first + n as u64)?;
        tell(&line);
        Ok(line)
    });
    lines.into_iter().collect()
}

fn io(path: &Path, doing: &'static str, source: std::io::Error) -> LabError {
    LabError::Io {
        path: path.into(),
        doing,
        source,
    }
}

fn one(dir: &Path, seed: u64, number: u64) -> Result<Line, LabError> {
    let drawn = draw(seed, number)?;
    let stem = format!("case-{number:06}");
    let (file, case) = (dir.join(format!("{stem}.toml")), dir.join(format!("{stem}.case")));
    if case.exists() {
        return kept(&file, &case, &stem, &drawn);
    }
    match std::fs::File::create_new(&file) {
        Ok(mut new) => new
            .write_all(drawn.text.as_bytes())
            .map_err(|source| io(&file, "write", source))?,
        // Of a run that was stopped before its case was whole; anything else is somebody's.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => check_drawn(&file, &drawn)?,
        Err(source) => return Err(io(&file, "create", source)),
    }
    let partial = dir.join(format!(".{stem}.partial"));
    if partial.exists() {
        std::fs::remove_dir_all(&partial).map_err(|source| io(&partial, "remove", source))?;
    }
    std::fs::create_dir(&partial).map_err(|source| io(&partial, "create the directory", source))?;
    let scenario = Scenario::parse(&format!("{stem}.toml"), &drawn.text, &[])?;
    let argv = ["whodisk", "lab", "run", &scenario.file].map(str::to_owned);
    let report = run::run(&scenario, &partial, argv.into(), 1)?;
    std::fs::rename(&partial, &case).map_err(|source| io(&case, "rename to it", source))?;
    let effects = report.truth.faults.iter().map(|fault| fault.effect.size());
    Ok(Line {
        case: format!("{stem}.case"),
        group: drawn.group,
        kept: false,
        healthy: report.truth.healthy,
        culprit: report
            .truth
            .culprit
            .map(|culprit| format!("{} {}", culprit.kind, culprit.name)),
        effect: effects.fold(1.0, f64::max),
        operations: Some(report.outcome.ops),
    })
}

/// Whether a scenario that is there is the one that was drawn.
fn check_drawn(file: &Path, drawn: &Drawn) -> Result<(), LabError> {
    let found = std::fs::read_to_string(file).map_err(|source| io(file, "read", source))?;
    if found != drawn.text {
        return Err(LabError::key(
            &file.display().to_string(),
            "(whole file)",
            "the scenario that this seed draws",
            "another one (another seed, or another version of whodisk)",
            "choose another directory with -o",
        ));
    }
    Ok(())
}

/// The line of a case that is there already.
fn kept(file: &Path, case: &Path, stem: &str, drawn: &Drawn) -> Result<Line, LabError> {
    check_drawn(file, drawn)?;
    let path = case.join(TRUTH_JSON);
    let text = std::fs::read(&path).map_err(|source| io(&path, "read", source))?;
    let truth: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| io(&path, "understand", std::io::Error::other(error)))?;
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("?").to_owned();
    let faults = truth["faults"].as_array().map_or(&[][..], Vec::as_slice);
    let effects = faults.iter().map(|fault| {
        let number = |key: &str| fault["effect"][key].as_f64().unwrap_or(1.0);
        number("p99_ratio").max(1.0 / number("throughput_ratio").max(1e-12))
    });
    Ok(Line {
        case: format!("{stem}.case"),
        group: drawn.group,
        kept: true,
        healthy: truth["healthy"].as_bool().unwrap_or(false),
        culprit: truth["culprit"]
            .as_object()
            .map(|culprit| format!("{} {}", word(&culprit["kind"]), word(&culprit["name"]))),
        effect: effects.fold(1.0, f64::max),
        operations: None,
    })
}
