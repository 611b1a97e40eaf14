//! The engine process behind `whodisk run`.
use crate::args::WorkloadArgs;
use crate::failure::Failure;
use crate::output::{grouped, say, Progress};
use crate::slowdisk::stop_at_signal;
use std::cell::RefCell;
use std::path::Path;

/// Reads the specification, so that a wrong one is named before a case exists.
pub fn check(spec: &Path) -> Result<(), Failure> {
    workload::Spec::read(spec).map(drop).map_err(Failure::error)
}

/// Runs the engine until its specification is fulfilled or a signal comes.
pub fn main(args: &WorkloadArgs) -> Result<(), Failure> {
    let spec = workload::Spec::read(&args.spec).map_err(Failure::error)?;
    let stop = stop_at_signal()?;
    let progress = RefCell::new(Progress::new());
    let show = |now: &workload::Progress| progress.borrow_mut().tick(|| text(now));
    let options = workload::RunOptions {
        stop: &stop,
        progress: Some(&show),
    };
    let result = workload::run(&spec, &args.raw, options);
    progress.borrow_mut().clear();
    let summary = result.map_err(Failure::error)?;
    let errors: u64 = summary.workers.iter().map(|w| w.errors).sum();
    if errors > 0 {
        say(&format!(
            "{} operations failed; the case has their error numbers",
            grouped(errors)
        ));
    }
    Ok(())
}

fn text(now: &workload::Progress) -> String {
    let percent = now.fraction * 100.0;
    match now.errors {
        0 => format!("{} {percent:.0} %, {} operations", now.phase, grouped(now.ops)),
        errors => format!(
            "{} {percent:.0} %, {} operations, {errors} failed",
            now.phase,
            grouped(now.ops)
        ),
    }
}
