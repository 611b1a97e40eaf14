//! `whodisk seal`, and the sealing at the end of a recording.
use crate::args::SealArgs;
use crate::case_dir::lock_for_sealing;
use crate::failure::{io_failure, Failure};
use crate::losses;
use crate::observe::require_case;
use crate::output::{grouped, print_json, say, Progress};
use crate::sharing::Mode;
use case::completeness::Missing;
use serde::Serialize;
use std::path::Path;

/// What sealing did.
#[derive(Debug, Serialize)]
pub struct Sealed {
    /// Rows per layer.
    pub rows: std::collections::BTreeMap<String, u64>,
    /// The case was sealed before and is whole: nothing was done.
    pub already_sealed: bool,
    /// Damaged files of a case that was sealed before, built again from the raw events.
    pub rebuilt: Vec<join::Rebuilt>,
    /// Raw streams that were cut, relative to the case.
    pub truncated: Vec<String>,
    /// Layers of which operations were lost. Empty where nothing was done.
    pub layers_missing: Vec<Missing>,
    /// The raw events are gone.
    pub raw_dropped: bool,
}

/// `whodisk seal CASE`.
pub fn main(args: &SealArgs) -> Result<(), Failure> {
    require_case(&args.case)?;
    if let Some(mode) = args.sharing.mode {
        mode.give(&args.case)?;
    }
    Mode::of(&args.case).take();
    let sealed = seal_case(&args.case, args.drop_raw)?;
    say(&said(&args.case, &sealed));
    if args.json {
        print_json(&sealed)?;
    }
    Ok(())
}

/// What a seal did, in one line.
fn said(case: &Path, sealed: &Sealed) -> String {
    let case = case.display();
    let raw = if sealed.raw_dropped {
        "; its raw events are gone"
    } else {
        ""
    };
    if sealed.already_sealed {
        return format!("{case}: sealed already, and whole: nothing to do{raw}");
    }
    if !sealed.rebuilt.is_empty() {
        let files: Vec<String> = sealed.rebuilt.iter().map(rebuilt_words).collect();
        return format!("{case}: built again from raw/: {}{raw}", files.join(", "));
    }
    let rows = |(layer, rows): (&String, &u64)| format!("{} rows of layer {layer}", grouped(*rows));
    let layers: Vec<String> = sealed.rows.iter().map(rows).collect();
    let lost = losses::words(&sealed.layers_missing).map_or(String::new(), |words| format!(". {words}"));
    format!("{case}: sealed, {}{raw}{lost}", layers.join(", "))
}

/// One file, what had been wrong with it, and whether it has all its rows again.
fn rebuilt_words(file: &join::Rebuilt) -> String {
    let rows = match (file.rows, file.rows_before) {
        (Some(now), Some(before)) if now < before => {
            format!("; {} of {} rows are left", grouped(now), grouped(before))
        }
        (Some(now), _) => format!("; {} rows", grouped(now)),
        (None, _) => String::new(),
    };
    format!("{} (was: {}{rows})", file.path, file.found)
}

/// Seals `case`, or makes it whole again; on failure the raw events stay as they are.
pub fn seal_case(case: &Path, drop_raw: bool) -> Result<Sealed, Failure> {
    // Held until the end; without raw events there is nothing that another one could be writing.
    let lock = lock_for_sealing(case)?;
    let mut progress = Progress::new();
    let result = join::seal(case, &mut |now| progress.tick(|| text(&now)));
    progress.clear();
    let summary = result.map_err(Failure::error)?;
    for stream in &summary.truncated {
        say(&format!(
            "{}: {stream} was cut; what came before the cut is kept",
            case.display()
        ));
    }
    if drop_raw && lock.is_some() {
        let raw = case.join("raw");
        std::fs::remove_dir_all(&raw).map_err(|error| io_failure(&raw, "remove", &error))?;
    }
    Ok(Sealed {
        rows: summary.rows,
        already_sealed: summary.already_sealed,
        rebuilt: summary.rebuilt,
        truncated: summary.truncated,
        layers_missing: summary.missing,
        raw_dropped: drop_raw || lock.is_none(),
    })
}

fn text(now: &join::Progress) -> String {
    let done = grouped(now.rows_done);
    match now.rows_total {
        Some(total) => format!("sealing: {}, {done} of {} rows", now.step, grouped(total)),
        None => format!("sealing: {}, {done} rows", now.step),
    }
}
