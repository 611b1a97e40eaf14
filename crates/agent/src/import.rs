//! `whodisk import`: foreign logs become a sealed case.
use crate::args::ImportArgs;
use crate::case_dir::CaseDir;
use crate::failure::Failure;
use crate::output::{grouped, print, print_json, say, Progress};
use crate::time::Utc;
use case::meta::{CaseMeta, Clock, State, SystemMeta, Unseen};
use case::sealed::{Names, SealWriter};
use import::{Format, ImportError, Request, Summary};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What an import did.
#[derive(Debug, Serialize)]
struct Imported {
    case: PathBuf,
    records: u64,
    rows: u64,
    not_observed: Vec<Unseen>,
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        Failure::error(error)
    }
}

/// `whodisk import FORMAT FILE...`.
pub fn main(args: &ImportArgs) -> Result<(), Failure> {
    if args.list {
        return list(args.json);
    }
    args.sharing.take();
    let format = import::format(args.format.as_deref().unwrap_or_default())?;
    let request = Request {
        files: args.files.clone(),
        map: args.map.clone(),
    };
    let path = args
        .case
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("whodisk-{}", Utc::now().compact())));
    let dir = CaseDir::create(&path)?;
    match write_case(&path, format, &request) {
        Ok(imported) => {
            say(&format!(
                "{}: {} records, {} rows; next: whodisk solve {}",
                path.display(),
                grouped(imported.records),
                grouped(imported.rows),
                path.display()
            ));
            if args.json {
                print_json(&imported)?;
            }
            // An import has no raw events.
            let _ = std::fs::remove_dir(dir.raw());
            Ok(())
        }
        Err(failure) => {
            dir.remove();
            Err(failure)
        }
    }
}

fn write_case(path: &Path, format: &Format, request: &Request) -> Result<Imported, Failure> {
    let mut writer = SealWriter::create(path)?;
    let mut names = Names::default();
    let mut progress = Progress::new();
    let mut done = |count: u64| progress.tick(|| format!("importing: {} done", grouped(count)));
    let read = (format.read)(request, &mut writer, &mut names, &mut done);
    progress.clear();
    let summary = read?;
    if summary.rows == 0 {
        return Err(Failure::error(format!(
            "{}: expected records with values, found none in {} records; check the file and --map",
            request
                .files
                .first()
                .map_or(String::new(), |f| f.display().to_string()),
            grouped(summary.records)
        )));
    }
    let mut meta = meta(format, &summary);
    meta.tables = writer.finish()?;
    // The host of the samples is not this one: nothing of this machine belongs into the case.
    SystemMeta::default().write(path)?;
    meta.write(path)?;
    Ok(Imported {
        case: path.to_path_buf(),
        records: summary.records,
        rows: summary.rows,
        not_observed: summary.not_observed,
    })
}

fn meta(format: &Format, summary: &Summary) -> CaseMeta {
    let unseen = |&(what, because): &(&str, &str)| Unseen {
        what: what.into(),
        because: because.into(),
    };
    CaseMeta {
        argv: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        start_utc: Utc::of_unix(summary.start_unix_ns.unwrap_or(0).div_euclid(1_000_000_000)).rfc3339(),
        clock: Clock {
            name: "CLOCK_REALTIME".into(),
            host: String::new(),
            start_ns: u64::try_from(summary.start_unix_ns.unwrap_or(0)).unwrap_or(0),
            resolution_ns: 1,
        },
        duration_ns: Some(summary.end_ns),
        state: State::Sealed,
        not_carried: format.not_carried.iter().map(unseen).collect(),
        not_observed: summary.not_observed.clone(),
        ..CaseMeta::new("import", env!("CARGO_PKG_VERSION"))
    }
}

fn list(as_json: bool) -> Result<(), Failure> {
    if as_json {
        let rows: Vec<serde_json::Value> = import::FORMATS
            .iter()
            .map(|f| {
                let losses: Vec<&str> = f.not_carried.iter().map(|(what, _)| *what).collect();
                serde_json::json!({"name": f.name, "about": f.about, "not_carried": losses})
            })
            .collect();
        return print_json(&rows);
    }
    for format in import::FORMATS {
        print(&format!("{:<10} {}", format.name, format.about))?;
        for (what, because) in format.not_carried {
            print(&format!("{:<10} does not carry {what}: {because}", ""))?;
        }
    }
    Ok(())
}
