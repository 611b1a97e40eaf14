//! Bytes, schema and readability of one sealed table.
use super::rows::RowChecks;
use super::Findings;
use crate::meta::TableMeta;
use crate::tables::{Kind, Table};
use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::ProjectionMask;
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use std::cell::Cell;
use std::fs::File;
use std::hash::Hasher;
use std::io::Read;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;
use twox_hash::XxHash64;

/// Rows read at a time.
const BATCH_ROWS: usize = 1 << 16;

/// Compares length and checksum with case.json. False if the file cannot be read at all.
pub(super) fn check_bytes(
    case_dir: &Path,
    relative: &str,
    listed: Option<&TableMeta>,
    findings: &mut Findings,
) -> bool {
    let (bytes, hash) = match hash_file(&case_dir.join(relative)) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            findings.add("file", "the table", "no such file");
            return false;
        }
        Err(error) => {
            findings.add("file", "a readable file", error.to_string());
            return false;
        }
    };
    let Some(listed) = listed else { return true };
    if bytes != listed.bytes {
        let expected = format!("{} bytes (case.json)", listed.bytes);
        findings.add(
            format!("byte {}", bytes.min(listed.bytes)),
            expected,
            format!("{bytes} bytes"),
        );
    } else if hash != listed.xxh64 {
        let expected = format!("checksum {} (case.json)", listed.xxh64);
        findings.add(
            "file",
            expected,
            format!("checksum {hash}: some of its bytes were changed"),
        );
    }
    true
}

fn hash_file(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes, mut chunk) = (XxHash64::with_seed(0), 0, vec![0; 1 << 16]);
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok((bytes, format!("{:016x}", hash.finish())));
        }
        hash.write(&chunk[..read]);
        bytes += read as u64;
    }
}

/// Checks that a file is a Parquet file.
pub(super) fn check_footer(case_dir: &Path, relative: &str, findings: &mut Findings) {
    let opened = File::open(case_dir.join(relative)).map_err(|error| error.to_string());
    if let Err(error) = opened.and_then(|file| metadata_of(&file)) {
        findings.add("footer", "a Parquet file", error);
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs the Parquet decoder on bytes that may be damaged. It reports most damage as an error, but it
/// may also panic; either way the text comes back, and nothing is printed.
fn guarded<T>(decode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                previous(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(decode));
    QUIET.set(false);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        Err(format!("the decoder gave up: {text}"))
    })
}

fn metadata_of(file: &File) -> Result<ArrowReaderMetadata, String> {
    // Without the writer's Arrow schema strings come as plain strings, whoever wrote the file.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    guarded(|| ArrowReaderMetadata::load(file, options).map_err(|e| e.to_string()))
}

/// Checks schema and rows of a table; the number of rows, if all of them could be read.
pub(super) fn check_rows(
    case_dir: &Path,
    relative: &str,
    table: &Table,
    checks: &mut dyn RowChecks,
    findings: &mut Findings,
) -> Option<u64> {
    let path = case_dir.join(relative);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => {
            findings.add("file", "a readable file", error.to_string());
            return None;
        }
    };
    let metadata = match metadata_of(&file) {
        Ok(metadata) => metadata,
        Err(error) => {
            findings.add("footer", "a Parquet file", error);
            return None;
        }
    };
    if !check_schema(metadata.parquet_schema(), table, findings) {
        return None;
    }
    let mut rows = 0;
    let all = ProjectionMask::all();
    let groups = (0..metadata.metadata().num_row_groups()).collect();
    let read = read_batches(&file, &metadata, groups, all, |batch| {
        check_nulls(batch, table, rows, findings);
        checks.check(batch, rows, findings);
        rows += batch.num_rows() as u64;
    });
    match read {
        Ok(()) => Some(rows),
        Err(error) => {
            findings.add(locate(&file, &metadata, table), "readable values", error);
            None
        }
    }
}

/// Gives every batch of the row groups to `each`; the decoder, and only it, is guarded.
fn read_batches(
    file: &File,
    metadata: &ArrowReaderMetadata,
    row_groups: Vec<usize>,
    columns: ProjectionMask,
    mut each: impl FnMut(&RecordBatch),
) -> Result<(), String> {
    let mut reader = guarded(|| {
        let file = file.try_clone().map_err(|e| e.to_string())?;
        ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
            .with_batch_size(BATCH_ROWS)
            .with_row_groups(row_groups)
            .with_projection(columns)
            .build()
            .map_err(|e| e.to_string())
    })?;
    while let Some(batch) = guarded(|| reader.next().transpose().map_err(|e| e.to_string()))? {
        each(&batch);
    }
    Ok(())
}

/// The first row group and column that cannot be read, with its place in the file.
fn locate(file: &File, metadata: &ArrowReaderMetadata, table: &Table) -> String {
    for (group, group_meta) in metadata.metadata().row_groups().iter().enumerate() {
        for (index, column) in table.columns.iter().enumerate() {
            let mask = ProjectionMask::leaves(metadata.parquet_schema(), [index]);
            if read_batches(file, metadata, vec![group], mask, |_| ()).is_err() {
                let span = guarded(|| Ok(group_meta.column(index).byte_range()))
                    .map(|(start, bytes)| format!(", bytes {start} to {}", start.saturating_add(bytes)))
                    .unwrap_or_default();
                return format!("row group {group}, column {}{span}", column.name);
            }
        }
    }
    "file".into()
}

/// Compares names and types, column by column.
fn check_schema(found: &SchemaDescriptor, table: &Table, findings: &mut Findings) -> bool {
    let mut same = true;
    for (index, column) in table.columns.iter().enumerate() {
        let at = format!("column {index}, {}", column.name);
        let expected = format!("{} {}", column.name, column.kind.name());
        let Some(other) = found.columns().get(index) else {
            if column.later {
                continue;
            }
            findings.add(at, expected, "no such column");
            same = false;
            continue;
        };
        if other.name() != column.name || !is_kind(other, column.kind) {
            findings.add(at, expected, format!("{} {}", other.name(), type_name(other)));
            same = false;
        }
    }
    for other in found.columns().iter().skip(table.columns.len()) {
        findings.add(
            format!("column {}", other.name()),
            "no further column",
            type_name(other),
        );
        same = false;
    }
    same
}

fn is_kind(column: &ColumnDescriptor, kind: Kind) -> bool {
    if column.max_rep_level() > 0 || column.path().parts().len() != 1 {
        return false;
    }
    let logical = column.logical_type_ref();
    // Some writers give only the older "converted" type.
    let converted = column.converted_type();
    let is_integer = |width: i8, signed: bool| match logical {
        Some(LogicalType::Integer(int)) => int.bit_width == width && int.is_signed == signed,
        Some(_) => false,
        None => match converted {
            ConvertedType::NONE => signed,
            ConvertedType::INT_64 => signed && width == 64,
            ConvertedType::INT_32 => signed && width == 32,
            ConvertedType::UINT_32 => !signed && width == 32,
            _ => false,
        },
    };
    let is_bare = logical.is_none() && converted == ConvertedType::NONE;
    let is_text = matches!(logical, Some(LogicalType::String))
        || (logical.is_none() && converted == ConvertedType::UTF8);
    match (kind, column.physical_type()) {
        (Kind::Int64, Physical::INT64) => is_integer(64, true),
        (Kind::Int32, Physical::INT32) => is_integer(32, true),
        (Kind::UInt32, Physical::INT32) => is_integer(32, false),
        (Kind::Bool, Physical::BOOLEAN)
        | (Kind::Float32, Physical::FLOAT)
        | (Kind::Float64, Physical::DOUBLE) => is_bare,
        (Kind::Name | Kind::Text, Physical::BYTE_ARRAY) => is_text,
        _ => false,
    }
}

fn type_name(column: &ColumnDescriptor) -> String {
    match column.logical_type_ref() {
        Some(logical) => format!("{} ({logical:?})", column.physical_type()),
        None => column.physical_type().to_string(),
    }
}

/// NULL is allowed only where the format says so.
fn check_nulls(batch: &RecordBatch, table: &Table, first_row: u64, findings: &mut Findings) {
    for (column, array) in table.columns.iter().zip(batch.columns()) {
        if column.nullable || array.null_count() == 0 {
            continue;
        }
        let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
        let at = format!("row {}, column {}", first_row + row as u64, column.name);
        findings.add(at, "a value", "NULL");
    }
}
