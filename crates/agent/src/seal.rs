//! `whodisk seal`, and the sealing at the end of a recording.
use crate::args::SealArgs;
use crate::case_dir::lock_for_sealing;
use crate::failure::{io_failure, Failure};
use crate::observe::require_case;
use crate::output::{print_json, say};
use serde::Serialize;
use std::path::Path;

/// What sealing did.
#[derive(Debug, Serialize)]
pub struct Sealed {
    /// Rows per layer.
    pub rows: std::collections::BTreeMap<String, u64>,
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
                raw_dropped: true,
            });
        }
        return Err(Failure::error(format!(
            "{}: expected raw events or Parquet tables, found neither; nothing of this recording is left",
            case.join("raw").display()
        )));
    };
    // join::seal(case).map_err(Failure::error)?;
    let meta = case::meta::CaseMeta::read(case)?;
    if drop_raw {
        let raw = case.join("raw");
        std::fs::remove_dir_all(&raw).map_err(|error| io_failure(&raw, "remove", &error))?;
    }
    Ok(Sealed {
        rows: rows(&meta),
        raw_dropped: drop_raw,
    })
}

fn rows(meta: &case::meta::CaseMeta) -> std::collections::BTreeMap<String, u64> {
    meta.layers
        .iter()
        .map(|(name, layer)| (name.clone(), layer.rows))
        .collect()
}
