//! Raw streams of a case that is not sealed: what is readable, what is lost.
use super::{Findings, Report};
use crate::completeness::{self, Account};
use crate::meta::{CaseMeta, State};
use crate::raw::{RawReader, RawRow, Truncation};
use crate::rows::{
    AppRow, BioMemberRow, BioRow, BlockCarrierRow, BlockMergeRow, BlockRow, FileRow, SyscallRow, Via,
};
use crate::rows::{CacheReadRow, CacheWait, CacheWaitRow, Readahead, ReadaheadRow, ReadaheadUseRow};
use crate::rows::{IrqRow, IrqTotalRow, Nvme, NvmeRow, OwnRow, SampleRow, SchedReason, SchedRow, SchedState};
use crate::rows::{Writeback, WritebackRow};
use crate::schema::{EventRow, IrqKind, Layer, LossRow, Op, SubjectKind};
use crate::CaseError;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

const HINT: &str = "seal the case: what is readable is kept";

/// Checks every raw stream; what a stream lost goes to `missing`.
pub(super) fn check_unsealed(case_dir: &Path, meta: &CaseMeta, report: &mut Report) -> Result<(), CaseError> {
    if meta.state == State::Recording {
        let text =
            "the recording did not end properly (killed, or still running): its last batches may be lost";
        report.missing.push(text.into());
    }
    report
        .missing
        .push("the case is not sealed: run whodisk seal".into());
    for relative in raw_files(case_dir)? {
        match relative.split('/').nth(1) {
            Some(AppRow::PROBE) => check_stream::<AppRow>(case_dir, &relative, report, app_row),
            Some(BlockRow::PROBE) => check_stream::<BlockRow>(case_dir, &relative, report, |_| None),
            Some(BlockMergeRow::PROBE) => {
                check_stream::<BlockMergeRow>(case_dir, &relative, report, |_| None)
            }
            Some(BlockCarrierRow::PROBE) => {
                check_stream::<BlockCarrierRow>(case_dir, &relative, report, |_| None)
            }
            Some(BioRow::PROBE) => check_stream::<BioRow>(case_dir, &relative, report, |_| None),
            Some(BioMemberRow::PROBE) => check_stream::<BioMemberRow>(case_dir, &relative, report, |_| None),
            Some(SyscallRow::PROBE) => check_stream::<SyscallRow>(case_dir, &relative, report, syscall_row),
            Some(FileRow::PROBE) => check_stream::<FileRow>(case_dir, &relative, report, |_| None),
            Some(CacheReadRow::PROBE) => {
                check_stream::<CacheReadRow>(case_dir, &relative, report, cache_read_row)
            }
            Some(CacheWaitRow::PROBE) => {
                check_stream::<CacheWaitRow>(case_dir, &relative, report, cache_wait_row)
            }
            Some(ReadaheadRow::PROBE) => {
                check_stream::<ReadaheadRow>(case_dir, &relative, report, readahead_row)
            }
            Some(ReadaheadUseRow::PROBE) => {
                check_stream::<ReadaheadUseRow>(case_dir, &relative, report, readahead_use_row)
            }
            Some(WritebackRow::PROBE) => {
                check_stream::<WritebackRow>(case_dir, &relative, report, writeback_row)
            }
            Some(OwnRow::PROBE) => check_stream::<OwnRow>(case_dir, &relative, report, own_row),
            Some(SchedRow::PROBE) => check_stream::<SchedRow>(case_dir, &relative, report, sched_row),
            Some(IrqRow::PROBE) => check_stream::<IrqRow>(case_dir, &relative, report, irq_row),
            Some(IrqTotalRow::PROBE) => {
                check_stream::<IrqTotalRow>(case_dir, &relative, report, irq_total_row)
            }
            Some(NvmeRow::PROBE) => check_stream::<NvmeRow>(case_dir, &relative, report, nvme_row),
            Some(SampleRow::PROBE) => check_stream::<SampleRow>(case_dir, &relative, report, sample_row),
            _ => report
                .missing
                .push(format!("{relative}: not checked, the probe is unknown")),
        }
    }
    let mut account = Account::default();
    check_lines::<LossRow>(case_dir, "raw/losses.jsonl", report, |loss| {
        account.add(&loss.probe, &loss.reason, loss.lost);
        Some(loss_text(&loss))
    });
    check_lines::<EventRow>(case_dir, "raw/events.jsonl", report, |_| None);
    let rows = |layer| rows_of_layer(layer, &report.rows);
    report.layers_missing = account.missing(|layer| rows(layer) + completeness::left_out(meta, layer));
    Ok(())
}

/// Rows of the streams that hold a layer's operations.
fn rows_of_layer(layer: Layer, rows: &BTreeMap<String, u64>) -> u64 {
    let is_of = |path: &str| {
        let stream = path.split('/').nth(1).unwrap_or_default();
        completeness::LAYER_OF.contains(&(stream, layer))
    };
    rows.iter()
        .filter(|(path, _)| is_of(path))
        .map(|(_, rows)| rows)
        .sum()
}

/// Paths of all streams inside the case, sorted.
pub(super) fn raw_files(case_dir: &Path) -> Result<Vec<String>, CaseError> {
    let raw = case_dir.join("raw");
    let mut files = Vec::new();
    for probe in names_in(&raw)? {
        let folder = raw.join(&probe);
        if !folder.is_dir() {
            continue;
        }
        let streams = names_in(&folder)?
            .into_iter()
            .filter(|name| name.ends_with(".arrows"));
        files.extend(streams.map(|name| format!("raw/{probe}/{name}")));
    }
    Ok(files)
}

fn names_in(folder: &Path) -> Result<Vec<String>, CaseError> {
    let io = |e| CaseError::io(folder, "list the folder", e);
    let mut names = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(names),
        entries => entries.map_err(io)?,
    };
    for entry in entries {
        names.push(entry.map_err(io)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// What contradicts the format in a row: column, expected, found.
type Contradiction = (&'static str, String, String);

fn app_row(row: &AppRow) -> Option<Contradiction> {
    let base = Layer::App.op_id_base();
    if row.op_id >> 56 != base >> 56 {
        return Some((
            "op_id",
            format!("{} in bits 56..", base >> 56),
            row.op_id.to_string(),
        ));
    }
    if Op::from_raw(row.op).is_none() {
        return Some(("op", format!("0 to {}", Op::ALL.len() - 1), row.op.to_string()));
    }
    None
}

fn own_row(row: &OwnRow) -> Option<Contradiction> {
    known("op", row.op, Op::ALL.len())
        .or_else(|| within("submit_ns", row.submit_ns, row.start_ns..=u64::MAX))
        .or_else(|| within("end_ns", row.end_ns, row.submit_ns..=u64::MAX))
        .or_else(|| within("size_bytes", row.size_bytes, 0..=i64::MAX as u64))
        .or_else(|| within("offset_bytes", row.offset_bytes, 0..=i64::MAX as u64))
}

fn syscall_row(row: &SyscallRow) -> Option<Contradiction> {
    if Op::from_raw(row.op).is_none() {
        return Some(("op", format!("0 to {}", Op::ALL.len() - 1), row.op.to_string()));
    }
    if Via::from_raw(row.via).is_none() {
        return Some(("via", format!("0 to {}", Via::ALL.len() - 1), row.via.to_string()));
    }
    if row.end_ns != 0 && row.end_ns < row.start_ns {
        return Some((
            "end_ns",
            format!("at least {}", row.start_ns),
            row.end_ns.to_string(),
        ));
    }
    None
}

/// A contradiction unless `value` is in `range`.
fn within(column: &'static str, value: u64, range: std::ops::RangeInclusive<u64>) -> Option<Contradiction> {
    let (least, most) = range.clone().into_inner();
    let text = || match most {
        u64::MAX => format!("at least {least}"),
        _ => format!("{least} to {most}"),
    };
    (!range.contains(&value)).then(|| (column, text(), value.to_string()))
}

/// A contradiction unless `raw` is one of `count` kinds.
fn known(column: &'static str, raw: u8, count: usize) -> Option<Contradiction> {
    within(column, u64::from(raw), 0..=count as u64 - 1)
}

fn cache_read_row(row: &CacheReadRow) -> Option<Contradiction> {
    within("end_ns", row.end_ns, row.start_ns..=u64::MAX)
        .or_else(|| within("pages_missed", row.pages_missed, 0..=row.pages_asked))
}

fn cache_wait_row(row: &CacheWaitRow) -> Option<Contradiction> {
    known("kind", row.kind, CacheWait::ALL.len())
        .or_else(|| within("end_ns", row.end_ns, row.start_ns..=u64::MAX))
        .or_else(|| within("wait_ns", row.wait_ns, 0..=row.end_ns - row.start_ns))
        .or_else(|| within("waited_index", row.waited_index, row.index..=u64::MAX))
}

fn readahead_row(row: &ReadaheadRow) -> Option<Contradiction> {
    known("kind", row.kind, Readahead::ALL.len())
        .or_else(|| within("pages_demanded", row.pages_demanded.into(), 0..=row.pages.into()))
}

fn readahead_use_row(row: &ReadaheadUseRow) -> Option<Contradiction> {
    let gone = u64::from(row.pages_used) + u64::from(row.pages_wasted);
    within("end_ns", row.end_ns, row.start_ns..=u64::MAX)
        .or_else(|| within("pages_used", gone, 0..=row.pages_prefetched.into()))
}

fn writeback_row(row: &WritebackRow) -> Option<Contradiction> {
    known("kind", row.kind, Writeback::NAMES.len())
        .or_else(|| within("end_ns", row.end_ns, row.start_ns..=u64::MAX))
}

fn sched_row(row: &SchedRow) -> Option<Contradiction> {
    let end_ns = if row.end_ns == 0 { u64::MAX } else { row.end_ns };
    within("end_ns", end_ns, row.start_ns..=u64::MAX)
        .or_else(|| known("state", row.state, SchedState::ALL.len()))
        .or_else(|| known("reason", row.reason, SchedReason::NAMES.len()))
}

fn irq_row(row: &IrqRow) -> Option<Contradiction> {
    within("end_ns", row.end_ns, row.start_ns..=u64::MAX)
        .or_else(|| known("kind", row.kind, IrqKind::ALL.len()))
}

fn irq_total_row(row: &IrqTotalRow) -> Option<Contradiction> {
    within("end_ns", row.end_ns, row.start_ns..=u64::MAX)
        .or_else(|| known("kind", row.kind, IrqKind::ALL.len()))
}

fn nvme_row(row: &NvmeRow) -> Option<Contradiction> {
    let end_ns = if row.end_ns == 0 { u64::MAX } else { row.end_ns };
    within("end_ns", end_ns, row.start_ns..=u64::MAX).or_else(|| known("kind", row.kind, Nvme::ALL.len()))
}

fn sample_row(row: &SampleRow) -> Option<Contradiction> {
    known("kind", row.kind, SubjectKind::ALL.len())
}

fn check_stream<R: RawRow>(
    case_dir: &Path,
    relative: &str,
    report: &mut Report,
    check: fn(&R) -> Option<Contradiction>,
) {
    let mut findings = Findings::new(relative, HINT);
    let mut rows = 0;
    let end = read_stream(&case_dir.join(relative), &mut rows, &mut findings, check);
    report_stream(relative, rows, end, findings, report);
}

/// Not part of `check_stream`, which is compiled for every type of rows.
fn report_stream(
    relative: &str,
    rows: u64,
    end: Result<Option<Truncation>, CaseError>,
    mut findings: Findings,
    report: &mut Report,
) {
    match end {
        Ok(Some(cut)) => report.missing.push(format!("{relative}: {}", lost_text(&cut))),
        Ok(None) => {}
        Err(CaseError::Format {
            at, expected, found, ..
        }) => findings.add(at, expected, found),
        Err(error) => findings.add("file", "a readable stream", error.to_string()),
    }
    report.rows.insert(relative.into(), rows);
    report.problems.append(&mut findings.into_problems());
}

/// Reads a whole stream; where it was cut, if it was.
fn read_stream<R: RawRow>(
    path: &Path,
    rows: &mut u64,
    findings: &mut Findings,
    check: fn(&R) -> Option<Contradiction>,
) -> Result<Option<Truncation>, CaseError> {
    let mut reader = RawReader::<R>::open(path)?;
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? {
        for (index, row) in batch.iter().enumerate() {
            if let Some(contradiction) = check(row) {
                add_row(findings, *rows + index as u64, contradiction);
            }
        }
        *rows += batch.len() as u64;
    }
    Ok(reader.truncation().cloned())
}

#[cold]
fn add_row(findings: &mut Findings, row: u64, (column, expected, found): Contradiction) {
    findings.add(format!("row {row}, column {column}"), expected, found);
}

/// What was lost at the end of a stream, in words.
fn lost_text(cut: &Truncation) -> String {
    match cut.lost_bytes {
        0 => format!(
            "ends at byte {} without its end mark: rows that were not written yet are lost",
            cut.good_bytes
        ),
        lost => format!(
            "cut at byte {}: {lost} bytes after the last whole batch are lost (found {})",
            cut.good_bytes, cut.found
        ),
    }
}

fn loss_text(loss: &LossRow) -> String {
    let count = loss
        .lost
        .map_or("an unknown number of".into(), |lost| lost.to_string());
    format!("{}: {count} events lost ({})", loss.probe, loss.reason)
}

/// Checks a file of one JSON object per line. A last line without its end is a cut, others are damage.
fn check_lines<T: DeserializeOwned>(
    case_dir: &Path,
    relative: &str,
    report: &mut Report,
    mut tell: impl FnMut(T) -> Option<String>,
) {
    let mut findings = Findings::new(relative, HINT);
    let Ok(file) = std::fs::File::open(case_dir.join(relative)) else {
        return;
    };
    let mut reader = BufReader::new(file);
    let (mut rows, mut number, mut line) = (0, 0, Vec::new());
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => number += 1,
            Err(error) => {
                findings.add(format!("line {}", number + 1), "readable text", error.to_string());
                break;
            }
        }
        match serde_json::from_slice::<T>(&line) {
            Ok(row) => {
                rows += 1;
                report.missing.extend(tell(row));
            }
            Err(_) if line.last() != Some(&b'\n') => {
                report.missing.push(format!("{relative}: line {number} was cut"));
            }
            Err(error) => findings.add(format!("line {number}"), "a row as JSON", error.to_string()),
        }
    }
    report.rows.insert(relative.into(), rows);
    report.problems.append(&mut findings.into_problems());
}
