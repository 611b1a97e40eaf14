//! `whodisk import`: foreign logs become a sealed case.
use crate::args::ImportArgs;
use crate::case_dir::CaseDir;
use crate::failure::Failure;
use crate::output::{grouped, print, print_json, say, Progress};
use crate::time::Utc;
use case::meta::{CaseMeta, Clock, State, SystemMeta, Unseen};
use case::sealed::{Names, SealWriter};
use import::{Alignment, ImportError, Request, Summary};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What an import did.
#[derive(Debug, Serialize)]
struct Imported {
    case: PathBuf,
    logs: Vec<Log>,
    records: u64,
    rows: u64,
    left_out: u64,
    cut: Vec<String>,
    not_observed: Vec<Unseen>,
}

/// One log of it.
#[derive(Debug, Serialize)]
struct Log {
    file: PathBuf,
    files: usize,
    format: &'static str,
    clock: String,
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        Failure::error(error)
    }
}

/// `whodisk import FILE...`.
pub fn main(args: &ImportArgs) -> Result<(), Failure> {
    if args.list {
        return list(args.json);
    }
    args.sharing.take();
    let request = request(args)?;
    let path = args
        .case
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("whodisk-{}", Utc::now().compact())));
    let dir = CaseDir::create(&path)?;
    match write_case(&path, &request) {
        Ok(imported) => {
            tell(&imported);
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

fn request(args: &ImportArgs) -> Result<Request, Failure> {
    let (mut files, mut format) = (args.files.clone(), args.format.clone());
    let named = files
        .first()
        .filter(|first| !first.exists())
        .and_then(|first| first.to_str());
    if let (None, Some(name)) = (&format, named) {
        if files.len() > 1 && import::FORMATS.iter().any(|known| known.name == name) {
            format = Some(name.to_owned());
            files.remove(0);
        }
    }
    Ok(Request {
        files,
        format,
        map: args.map.clone(),
        device: args.device.clone(),
        offsets: args
            .offsets
            .iter()
            .map(|text| offset(text))
            .collect::<Result<_, _>>()?,
        keep_going: args.keep_going,
        slower_than_ns: args
            .slower_than
            .map(|time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)),
    })
}

fn offset(text: &str) -> Result<(String, i64), Failure> {
    let parsed = text
        .rsplit_once('=')
        .and_then(|(file, seconds)| Some((file, seconds.parse::<f64>().ok()?)));
    match parsed {
        Some((file, seconds)) if seconds.abs() < 4e9 => Ok((file.to_owned(), (seconds * 1e9).round() as i64)),
        _ => Err(Failure::error(format!(
            "--offset: expected FILE=SECONDS, e.g. run_lat.1.log=-0.25, found '{text}'"
        ))),
    }
}

fn tell(imported: &Imported) {
    for log in &imported.logs {
        let more = if log.files > 1 {
            format!(" and {} more", log.files - 1)
        } else {
            String::new()
        };
        say(&format!(
            "{}{more}: {}; {}",
            log.file.display(),
            log.format,
            log.clock
        ));
    }
    imported.cut.iter().for_each(|cut| say(cut));
    match imported.left_out {
        0 => {}
        1 => say("1 bad record was left out; case.json says where it is"),
        many => say(&format!(
            "{} bad records were left out; case.json says where the first are",
            grouped(many)
        )),
    }
    say(&format!(
        "{}: {}, {}; next: whodisk solve {}",
        imported.case.display(),
        counted(imported.records, "record"),
        counted(imported.rows, "row"),
        imported.case.display()
    ));
}

/// What the files were taken for.
fn formats_of(summary: &Summary) -> String {
    let mut names: Vec<&str> = summary.logs.iter().map(|log| log.format).collect();
    names.dedup();
    names.join(", ")
}

/// `1 record`, `1,200 records`.
fn counted(count: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn write_case(path: &Path, request: &Request) -> Result<Imported, Failure> {
    keep_memory();
    let mut writer = SealWriter::create(path)?;
    let mut names = Names::default();
    let mut progress = Progress::new();
    let mut done = |count: u64| progress.tick(|| format!("importing: {} bytes done", grouped(count)));
    let read = import::import(request, &mut writer, &mut names, &mut done);
    progress.clear();
    let summary = read?;
    if summary.rows == 0 {
        // What a format says that the log lacks is why, and what to do.
        let found = match summary.why_none() {
            Some(why) if !summary.missing.is_empty() => format!("none, but {why}"),
            why => format!(
                "none in {}, read as {}{}; check the file, --as and --map",
                counted(summary.records, "record"),
                formats_of(&summary),
                why.map_or(String::new(), |why| format!(" ({why})"))
            ),
        };
        let first = request.files.first();
        return Err(Failure::error(format!(
            "{}: expected records with values, found {found}",
            first.map_or(String::new(), |file| file.display().to_string())
        )));
    }
    let mut meta = meta(&summary);
    meta.tables = writer.finish()?;
    // The host of the logs is not this one: nothing of this machine belongs into the case.
    SystemMeta::default().write(path)?;
    meta.write(path)?;
    Ok(Imported {
        case: path.to_path_buf(),
        logs: summary.logs.iter().map(log).collect(),
        records: summary.records,
        rows: summary.rows,
        left_out: summary.left_out,
        not_observed: summary.not_observed(),
        cut: summary.cut,
    })
}

/// Columns of a few MB are wanted again and again: their memory is kept, instead of being given back and filled with zeros anew each time, which
/// was a twentieth of all CPU time.
fn keep_memory() {
    // SAFETY: sets how the C library gets memory; no other thread runs yet. A value that it refuses changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

fn log(read: &import::Read) -> Log {
    let seconds = |ns: i64| ns as f64 / 1e9;
    Log {
        file: read.file.clone(),
        files: read.files,
        format: read.format,
        clock: match read.alignment {
            Alignment::Same => "its clock is the case's".into(),
            Alignment::Declared { offset_ns } => format!("its clock was moved by {:.6} s, as was said", seconds(offset_ns)),
            Alignment::Estimated { offset_ns, error_ns, pairs } => format!(
                "its clock was moved by {:.6} s, +- {} us, told by {pairs} operations that another log has, too",
                seconds(offset_ns),
                (error_ns + 999) / 1000
            ),
            Alignment::Unknown { .. } => "its clock is unknown: it was put beside the others at its begin".into(),
        },
    }
}

fn meta(summary: &Summary) -> CaseMeta {
    CaseMeta {
        argv: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        start_utc: Utc::of_unix(summary.start_unix_ns.unwrap_or(0).div_euclid(1_000_000_000)).rfc3339(),
        clock: Clock {
            name: summary.clock.clone(),
            host: String::new(),
            start_ns: u64::try_from(summary.start_ns).unwrap_or(0),
            resolution_ns: u64::try_from(summary.resolution_ns).unwrap_or(1),
        },
        duration_ns: Some(summary.end_ns),
        state: State::Sealed,
        layers: summary.layers.clone(),
        not_carried: summary.not_carried.clone(),
        not_observed: summary.not_observed(),
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
        print(&format!("{:<14} {}", format.name, format.about))?;
        for (what, because) in format.not_carried {
            print(&format!("{:<14} does not carry {what}: {because}", ""))?;
        }
    }
    Ok(())
}
