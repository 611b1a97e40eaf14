//! `whodisk seal`, and the sealing at the end of a recording.
use crate::args::SealArgs;
use crate::case_dir::lock_for_sealing;
use crate::failure::{io_failure, Failure};
use crate::observe::require_case;
use crate::output::{grouped, print_json, say, Progress};
use serde::Serialize;
use std::path::Path;

/// What sealing did.
#[derive(Debug, Serialize)]
pub struct Sealed {
    /// Rows per layer.
    pub rows: std::collections::BTreeMap<String, u64>,
    /// Raw streams that were cut, relative to the case.
    pub truncated: Vec<String>,
    /// The raw events are gone.
    pub raw_dropped: bool,
}

/// `whodisk seal CASE`.
pub fn main(args: &SealArgs) -> Result<(), Failure> {
    require_case(&args.case)?;
    let sealed = seal_case(&args.case, args.drop_raw)?;
    if args.json {
        print_json(&sealed)?;
    }
    Ok(())
}

/// Seals `case`; on failure the raw events stay as they are.
pub fn seal_case(case: &Path, drop_raw: bool) -> Result<Sealed, Failure> {
    let meta = case::meta::CaseMeta::read(case)?;
    let Some(_lock) = lock_for_sealing(case)? else {
        if meta.state == case::meta::State::Sealed {
            say(&format!(
                "{}: sealed already, and its raw events are gone; nothing to do",
                case.display()
            ));
            return Ok(Sealed {
                rows: rows(&meta),
                truncated: Vec::new(),
                raw_dropped: true,
            });
        }
        return Err(Failure::error(format!(
            "{}: expected raw events or Parquet tables, found neither; nothing of this recording is left",
            case.join("raw").display()
        )));
    };
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
    if drop_raw {
        let raw = case.join("raw");
        std::fs::remove_dir_all(&raw).map_err(|error| io_failure(&raw, "remove", &error))?;
    }
    Ok(Sealed {
        rows: summary.rows,
        truncated: summary.truncated,
        raw_dropped: drop_raw,
    })
}

fn rows(meta: &case::meta::CaseMeta) -> std::collections::BTreeMap<String, u64> {
    meta.layers
        .iter()
        .map(|(name, layer)| (name.clone(), layer.rows))
        .collect()
}

fn text(now: &join::Progress) -> String {
    let done = grouped(now.rows_done);
    match now.rows_total {
        Some(total) => format!("sealing: {}, {done} of {} rows", now.step, grouped(total)),
        None => format!("sealing: {}, {done} rows", now.step),
    }
}
