//! Integrity of a case: what is there, what is missing, what contradicts the format.
//!
//! A sealed case is checked table by table (`table`), an unsealed one stream by stream (`streams`).
//! Memory stays bounded by one batch of rows and a compact set of operation ids (`ids`).
mod ids;
mod rows;
mod streams;
mod table;

use crate::meta::{CaseMeta, State, SystemMeta, TableMeta};
use crate::schema::Layer;
use crate::{tables, CaseError};
use ids::IdSet;
use std::collections::BTreeMap;
use std::path::Path;

/// Problems that are listed per file; what is beyond is counted.
const PROBLEMS_PER_FILE: usize = 10;

/// One thing verify found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// File, relative to the case.
    pub path: String,
    /// Record or byte.
    pub at: String,
    /// Expected.
    pub expected: String,
    /// Found.
    pub found: String,
    /// What to do.
    pub hint: String,
}

/// What verify says.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Rows checked per table.
    pub rows: BTreeMap<String, u64>,
    /// Contradictions: the case fails.
    pub problems: Vec<Problem>,
    /// Honest losses that the case itself declares, or a cut tail: the case is readable, but not whole.
    pub missing: Vec<String>,
}

/// Problems of one file, the first few in full.
struct Findings {
    path: String,
    problems: Vec<Problem>,
    more: u64,
    hint: &'static str,
}

impl Findings {
    fn new(path: &str, hint: &'static str) -> Findings {
        Findings {
            path: path.into(),
            problems: Vec::new(),
            more: 0,
            hint,
        }
    }

    fn add(&mut self, at: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) {
        if self.problems.len() == PROBLEMS_PER_FILE {
            self.more += 1;
            return;
        }
        self.problems.push(Problem {
            path: self.path.clone(),
            at: at.into(),
            expected: expected.into(),
            found: found.into(),
            hint: self.hint.into(),
        });
    }

    fn into_problems(mut self) -> Vec<Problem> {
        if self.more > 0 {
            self.problems.push(Problem {
                path: self.path,
                at: "further rows".into(),
                expected: "no problem".into(),
                found: format!("{} more problems like these", self.more),
                hint: self.hint.into(),
            });
        }
        self.problems
    }
}

/// What to do about a sealed table that is damaged or contradicts itself.
const HINT_SEAL: &str = "seal the case again if its raw/ folder is there, else restore it from a copy";

/// What to do about a description that contradicts its tables.
const HINT_META: &str = "seal the case again, or restore case.json from a copy";

/// Checks a sealed or unsealed case.
///
/// Errors: `case_dir` is no case, or is one of a newer version, or cannot be read. Everything that is
/// wrong *inside* a case is a [`Problem`], never an error.
pub fn verify(case_dir: &Path) -> Result<Report, CaseError> {
    let mut report = Report::default();
    let meta = match CaseMeta::read(case_dir) {
        Ok(meta) => meta,
        Err(CaseError::Format {
            path,
            at,
            expected,
            found,
            hint,
        }) if path != case_dir => {
            let path = crate::meta::CASE_JSON.to_owned();
            report.problems.push(Problem {
                path,
                at,
                expected,
                found,
                hint,
            });
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    check_system(case_dir, &mut report);
    for unseen in &meta.not_observed {
        report
            .missing
            .push(format!("{}: {}", unseen.what, unseen.because));
    }
    if meta.state == State::Sealed {
        check_sealed(case_dir, &meta, &mut report);
    } else {
        streams::check_unsealed(case_dir, &meta, &mut report)?;
    }
    Ok(report)
}

fn check_system(case_dir: &Path, report: &mut Report) {
    let path = crate::meta::SYSTEM_JSON.to_owned();
    match SystemMeta::read(case_dir) {
        Ok(_) => {}
        Err(CaseError::Format {
            at,
            expected,
            found,
            hint,
            ..
        }) => {
            report.problems.push(Problem {
                path,
                at,
                expected,
                found,
                hint,
            });
        }
        Err(error) => report.problems.push(Problem {
            path,
            at: "file".into(),
            expected: "the facts of the host".into(),
            found: error.to_string(),
            hint: "restore it from a copy of the case".into(),
        }),
    }
}

fn check_sealed(case_dir: &Path, meta: &CaseMeta, report: &mut Report) {
    if meta.tables.is_empty() {
        let text = "case.json lists no checksums: flipped bytes inside values may stay unseen";
        report.missing.push(text.into());
    }
    let mut ids = IdSet::default();
    check_layers(case_dir, meta, report, &mut ids);
    let mut links = rows::Links { ids: &ids };
    check_table(
        case_dir,
        meta,
        report,
        &tables::path(&tables::LINKS),
        &tables::LINKS,
        &mut links,
    );
    let mut gaps = rows::Gaps {
        duration_ns: meta.duration_ns,
    };
    check_table(
        case_dir,
        meta,
        report,
        &tables::path(&tables::GAPS),
        &tables::GAPS,
        &mut gaps,
    );
    for table in [
        tables::IRQS,
        tables::CACHE,
        tables::PREFETCH,
        tables::WAITS,
        tables::SERIES,
    ] {
        let mut checks = rows::Columns {
            table: &table,
            ids: &ids,
        };
        check_table(case_dir, meta, report, &tables::path(&table), &table, &mut checks);
    }
    let mut losses = rows::Losses::default();
    check_table(
        case_dir,
        meta,
        report,
        &tables::path(&tables::LOSSES),
        &tables::LOSSES,
        &mut losses,
    );
    report.missing.append(&mut losses.into_missing());
    let path = tables::path(&tables::EVENTS);
    check_table(case_dir, meta, report, &path, &tables::EVENTS, &mut rows::Events);
}

fn check_layers(case_dir: &Path, meta: &CaseMeta, report: &mut Report, ids: &mut IdSet) {
    let mut findings = Findings::new(crate::meta::CASE_JSON, HINT_META);
    for name in meta.layers.keys() {
        if Layer::ALL.iter().all(|layer| layer.name() != name) {
            findings.add("key layers", "app, syscall, block or device", name.as_str());
        }
    }
    for layer in Layer::ALL {
        let path = tables::ops_path(layer);
        let Some(layer_meta) = meta.layers.get(layer.name()) else {
            if case_dir.join(&path).exists() {
                let at = format!("key layers.{}", layer.name());
                findings.add(at, format!("a description of {path}"), "no such key");
            }
            continue;
        };
        let mut checks = rows::Ops::new(layer, layer_meta, ids);
        let rows = check_table(case_dir, meta, report, &path, &tables::OPS, &mut checks);
        if rows.is_some_and(|rows| rows != layer_meta.rows) {
            let at = format!("key layers.{}.rows", layer.name());
            let found = layer_meta.rows.to_string();
            findings.add(at, format!("{} as in {path}", rows.unwrap_or(0)), found);
        }
    }
    report.problems.append(&mut findings.into_problems());
}

/// Checks one table file; its row count if every row could be read.
fn check_table(
    case_dir: &Path,
    meta: &CaseMeta,
    report: &mut Report,
    path: &str,
    table: &tables::Table,
    checks: &mut dyn rows::RowChecks,
) -> Option<u64> {
    let mut findings = Findings::new(path, HINT_SEAL);
    let listed = meta.tables.get(path);
    if listed.is_none() && !meta.tables.is_empty() {
        findings.add("file", "an entry in case.json, key tables", "no such key");
    }
    let whole = table::check_bytes(case_dir, path, listed, &mut findings);
    let rows = match whole {
        true => table::check_rows(case_dir, path, table, checks, &mut findings),
        false => None,
    };
    if let Some(rows) = rows {
        check_listed_rows(listed, rows, &mut findings);
        report.rows.insert(path.into(), rows);
    }
    report.problems.append(&mut findings.into_problems());
    rows
}

fn check_listed_rows(listed: Option<&TableMeta>, rows: u64, findings: &mut Findings) {
    if let Some(listed) = listed.filter(|listed| listed.rows != rows) {
        findings.add(
            "file",
            format!("{} rows (case.json)", listed.rows),
            format!("{rows} rows"),
        );
    }
}
