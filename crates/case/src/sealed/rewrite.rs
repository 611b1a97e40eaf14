//! A copy of a sealed table with other strings.
use super::file::{data_type, TableFile};
use crate::meta::TableMeta;
use crate::tables::{Kind, Table};
use crate::CaseError;
use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{new_null_array, Array, ArrayRef, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Gives the string that takes another one's place: column, other columns of the row by name, string.
pub type Replace<'a> = dyn FnMut(&str, &dyn Fn(&str) -> Option<String>, &str) -> String + 'a;

/// Copies the table `relative` from one case to another; every string passes through `replace`, NULL stays NULL.
/// Errors: the table cannot be read, or is not as its description says; the copy cannot be written; `interrupted`, which is asked before each
/// batch of rows.
pub fn rewrite(
    case_dir: &Path,
    out: &Path,
    relative: &str,
    table: &Table,
    replace: &mut Replace<'_>,
    interrupted: &dyn Fn() -> bool,
) -> Result<TableMeta, CaseError> {
    let path = case_dir.join(relative);
    let damaged = |found: String| {
        let hint =
            "`whodisk verify` says what is damaged; `whodisk seal` builds it again if raw/ is still there";
        CaseError::format(&path, "table", "a table of the case format", found, hint)
    };
    let file = File::open(&path).map_err(|error| CaseError::io(&path, "read", error))?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&file, options).map_err(|error| damaged(error.to_string()))?;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
        .with_batch_size(super::BATCH_ROWS)
        .build()
        .map_err(|error| damaged(error.to_string()))?;
    let mut copy = TableFile::create(out, relative, table)?;
    for batch in reader {
        if interrupted() {
            return Err(CaseError::io(&path, "copy", ErrorKind::Interrupted.into()));
        }
        let batch = batch.map_err(|error| damaged(error.to_string()))?;
        copy.write(columns(&batch, table, replace).map_err(damaged)?)?;
    }
    let closed = copy.close()?;
    std::fs::rename(&closed.path_temp, &closed.path_final)
        .map_err(|error| CaseError::io(&closed.path_final, "rename the table to", error))?;
    Ok(closed.meta)
}

fn columns(batch: &RecordBatch, table: &Table, replace: &mut Replace<'_>) -> Result<Vec<ArrayRef>, String> {
    let text = |name: &str| {
        let column = batch.column_by_name(name);
        column.and_then(|column| column.as_any().downcast_ref::<StringArray>())
    };
    let mut columns = Vec::with_capacity(table.columns.len());
    for column in table.columns {
        let is_text = matches!(column.kind, Kind::Name | Kind::Text);
        let Some(found) = batch.column_by_name(column.name) else {
            if !column.later {
                return Err(format!("no column {}", column.name));
            }
            columns.push(match is_text {
                true => built((0..batch.num_rows()).map(|_| None)),
                false => new_null_array(&data_type(column.kind), batch.num_rows()),
            });
            continue;
        };
        if !is_text {
            if *found.data_type() != data_type(column.kind) {
                return Err(format!("column {} of {}", column.name, found.data_type()));
            }
            columns.push(found.clone());
            continue;
        }
        let values = text(column.name).ok_or_else(|| format!("column {} without text", column.name))?;
        let replaced = (0..values.len()).map(|row| {
            let other = |name: &str| {
                let column = text(name).filter(|column| column.is_valid(row));
                column.map(|column| column.value(row).to_owned())
            };
            values
                .is_valid(row)
                .then(|| replace(column.name, &other, values.value(row)))
        });
        columns.push(built(replaced));
    }
    Ok(columns)
}

fn built(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int32Type>::new();
    values.for_each(|value| builder.append_option(value));
    Arc::new(builder.finish())
}
