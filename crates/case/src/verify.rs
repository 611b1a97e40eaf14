//! Integrity of a case: what is there, what is missing, what contradicts the format.
//!
//! A sealed case is checked table by table (`table`), an unsealed one stream by stream (`streams`).
//! Memory stays bounded by one batch of rows and a compact set of operation ids (`ids`).
mod ids;
mod rows;
mod streams;
mod table;

use crate::completeness::{self, Missing};
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
    /// Layers of which a known number of operations is missing.
    pub layers_missing: Vec<Missing>,
}

impl Report {
    /// Layers of which too much is missing: the case fails.
    pub fn unsound(&self) -> impl Iterator<Item = &Missing> {
        self.layers_missing.iter().filter(|missing| missing.is_too_much())
    }
}

/// Problems of one file, the first few in full.
struct Findings {
    path: String,
    problems: Vec<Problem>,
    more: u64,
    hint: String,
}

impl Findings {
    fn new(path: &str, hint: impl Into<String>) -> Findings {
        Findings {
            path: path.into(),
            problems: Vec::new(),
            more: 0,
            hint: hint.into(),
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
            hint: self.hint.clone(),
        });
    }

    fn into_problems(mut self) -> Vec<Problem> {
        if self.more > 0 {
            self.problems.push(Problem {
                path: self.path,
                at: "further rows".into(),
                expected: "no problem".into(),
                found: format!("{} more problems like these", self.more),
                hint: self.hint,
            });
        }
        self.problems
    }
}

/// What to do about a table with the bytes that were sealed, and that contradicts itself all the same.
const HINT_SEALED_SO: &str = "it was sealed so: report it as a bug of whodisk";

/// What to do about a table of which nobody knows how it was sealed.
const HINT_COPY: &str = "restore it from a copy of the case";

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

/// Whether events are there to build tables from.
fn has_raw(case_dir: &Path) -> bool {
    streams::raw_files(case_dir).is_ok_and(|files| !files.is_empty())
}

/// What to do about a damaged table or description.
fn repair_hint(case_dir: &Path) -> String {
    let case = case_dir.display();
    match has_raw(case_dir) {
        true => format!("`whodisk seal {case}` builds it again from raw/"),
        false => format!(
            "restore it from a copy of the case: there are no raw events in {case}/raw to build it from"
        ),
    }
}

/// What is damaged of a sealed case, each file once: tables that are not there, or not as `case.json` lists them.
///
/// Empty for a case that is not sealed. Reads every byte, but looks into no row: [`verify`] does that.
/// A table without an entry in `case.json` (a foreign writer lists none) must be a Parquet file.
pub fn damage(case_dir: &Path, meta: &CaseMeta) -> Vec<Problem> {
    if meta.state != State::Sealed {
        return Vec::new();
    }
    let hint = repair_hint(case_dir);
    let mut problems = Vec::new();
    for layer in Layer::ALL {
        let path = tables::ops_path(layer);
        let mut findings = Findings::new(crate::meta::CASE_JSON, hint.clone());
        let at = format!("key layers.{}", layer.name());
        match (meta.layers.get(layer.name()), meta.tables.get(&path)) {
            (None, _) if case_dir.join(&path).exists() => {
                findings.add(at, format!("a description of {path}"), "no such key");
            }
            (Some(layer_meta), Some(listed)) if listed.rows != layer_meta.rows => {
                let expected = format!("{} as in {path}", listed.rows);
                findings.add(at + ".rows", expected, layer_meta.rows.to_string());
            }
            _ => {}
        }
        problems.append(&mut findings.into_problems());
    }
    for path in expected_tables(meta) {
        let mut findings = Findings::new(&path, hint.clone());
        let listed = meta.tables.get(&path);
        let there = table::check_bytes(case_dir, &path, listed, &mut findings);
        if there && listed.is_none() {
            match meta.tables.is_empty() {
                true => table::check_footer(case_dir, &path, &mut findings),
                false => findings.add("file", "an entry in case.json, key tables", "no such key"),
            }
        }
        problems.append(&mut findings.into_problems());
    }
    problems
}

/// Tables that a sealed case must have.
fn expected_tables(meta: &CaseMeta) -> impl Iterator<Item = String> + '_ {
    let layers = Layer::ALL
        .into_iter()
        .filter(|layer| meta.layers.contains_key(layer.name()));
    layers
        .map(tables::ops_path)
        .chain(tables::ALWAYS.iter().map(tables::path))
}

fn check_sealed(case_dir: &Path, meta: &CaseMeta, report: &mut Report) {
    if meta.tables.is_empty() {
        let text = "case.json lists no checksums: flipped bytes inside values may stay unseen";
        report.missing.push(text.into());
    }
    let mut sealed = Sealed {
        case_dir,
        meta,
        damage: damage(case_dir, meta),
        report,
    };
    let mut ids = IdSet::default();
    let all_known = sealed.check_layers(&mut ids);
    // What refers to operations that cannot be read is no problem of its own.
    let ids = all_known.then_some(&ids);
    sealed.check_table(&tables::LINKS, &mut rows::Links { ids });
    let mut gaps = rows::Gaps {
        duration_ns: meta.duration_ns,
    };
    sealed.check_table(&tables::GAPS, &mut gaps);
    for table in [
        tables::IRQS,
        tables::CACHE,
        tables::PREFETCH,
        tables::WAITS,
        tables::SERIES,
    ] {
        sealed.check_table(&table, &mut rows::Columns { table: &table, ids });
    }
    let mut losses = rows::Losses::default();
    sealed.check_table(&tables::LOSSES, &mut losses);
    sealed.check_table(&tables::EVENTS, &mut rows::Events);
    let (mut told, account) = losses.into_told();
    let Sealed { damage, .. } = sealed;
    report.missing.append(&mut told);
    // Descriptions: what is left belongs to no table.
    report.problems.extend(damage);
    let rows = |layer: Layer| meta.layers.get(layer.name()).map_or(0, |layer| layer.rows);
    report.layers_missing = account.missing(|layer| rows(layer) + completeness::left_out(meta, layer));
}

/// A sealed case on its way through `verify`.
struct Sealed<'a> {
    case_dir: &'a Path,
    meta: &'a CaseMeta,
    /// What is known to be damaged and was not reported yet.
    damage: Vec<Problem>,
    report: &'a mut Report,
}

impl Sealed<'_> {
    /// Whether the operations of all layers could be read.
    fn check_layers(&mut self, ids: &mut IdSet) -> bool {
        let mut findings = Findings::new(crate::meta::CASE_JSON, HINT_COPY);
        for name in self.meta.layers.keys() {
            if Layer::ALL.iter().all(|layer| layer.name() != name) {
                findings.add("key layers", "app, syscall, block or device", name.as_str());
            }
        }
        let mut all_known = true;
        for layer in Layer::ALL {
            let path = tables::ops_path(layer);
            let Some(layer_meta) = self.meta.layers.get(layer.name()) else {
                all_known &= !self.case_dir.join(&path).exists();
                continue;
            };
            let mut checks = rows::Ops::new(layer, layer_meta, ids);
            let rows = self.check(&path, &tables::OPS, &mut checks);
            all_known &= rows.is_some();
            // Where the table is listed, `damage` has compared the two.
            let unlisted = !self.meta.tables.contains_key(&path);
            if let Some(rows) = rows.filter(|rows| unlisted && *rows != layer_meta.rows) {
                let at = format!("key layers.{}.rows", layer.name());
                findings.add(at, format!("{rows} as in {path}"), layer_meta.rows.to_string());
            }
        }
        self.report.problems.append(&mut findings.into_problems());
        all_known
    }

    fn check_table(&mut self, table: &tables::Table, checks: &mut dyn rows::RowChecks) {
        self.check(&tables::path(table), table, checks);
    }

    /// Checks one table file; its row count if every row could be read. A damaged file is one problem, with the first
    /// place at which its rows show the damage.
    fn check(&mut self, path: &str, table: &tables::Table, checks: &mut dyn rows::RowChecks) -> Option<u64> {
        let listed = self.meta.tables.get(path);
        let hint = if listed.is_some() {
            HINT_SEALED_SO
        } else {
            HINT_COPY
        };
        let mut findings = Findings::new(path, hint);
        let there = self.case_dir.join(path).is_file();
        let rows = there
            .then(|| table::check_rows(self.case_dir, path, table, checks, &mut findings))
            .flatten();
        if let Some(rows) = rows {
            check_listed_rows(listed, rows, &mut findings);
            self.report.rows.insert(path.into(), rows);
        }
        let inside = findings.into_problems();
        match self.damage.iter().position(|problem| problem.path == path) {
            None => self.report.problems.extend(inside),
            Some(place) => {
                let mut problem = self.damage.remove(place);
                if let Some(first) = inside.first() {
                    problem.found += &format!(
                        " ({}: expected {}, found {})",
                        first.at, first.expected, first.found
                    );
                }
                self.report.problems.push(problem);
            }
        }
        rows
    }
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
