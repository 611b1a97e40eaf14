//! Parquet, batch by batch, only the columns that the mapping names.
use super::map::{Mapping, TimeUnit};
use super::sink::Records;
use crate::error::RecordError;
use crate::input::open_file;
use crate::number::{iso_moment, scaled_moment, Field};
use crate::records::bad_record;
use crate::{ImportError, Sink};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Int8Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt16Type, UInt32Type,
    UInt64Type, UInt8Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit as ArrowUnit};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::ProjectionMask;
use std::fs::File;
use std::path::Path;

/// Records decoded at a time.
const BATCH_RECORDS: usize = 1 << 14;

/// A file with checked columns.
struct Opened<'a> {
    path: &'a Path,
    builder: ParquetRecordBatchReaderBuilder<File>,
    wanted: Vec<&'a str>,
}

impl<'a> Opened<'a> {
    fn new(path: &'a Path, wanted: Vec<&'a str>) -> Result<Self, ImportError> {
        let file = open_file(path)?;
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| unreadable(path, "footer", &e))?;
        let fields = builder.schema().fields();
        let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
        if let Some(wanted) = wanted.iter().find(|wanted| !names.contains(wanted)) {
            let expected = format!("a column '{wanted}'");
            let (found, hint) = (names.join(", "), "correct --map");
            return Err(ImportError::content(path, "schema", expected, found, hint));
        }
        Ok(Opened {
            path,
            builder,
            wanted,
        })
    }

    /// Batches of the columns that are wanted.
    fn batches(self) -> Result<ParquetRecordBatchReader, ImportError> {
        let mask = ProjectionMask::columns(self.builder.parquet_schema(), self.wanted);
        let reader = self.builder.with_projection(mask).with_batch_size(BATCH_RECORDS);
        reader.build().map_err(|e| unreadable(self.path, "footer", &e))
    }
}

fn unreadable(path: &Path, at: impl Into<String>, error: &dyn std::fmt::Display) -> ImportError {
    let hint = "check that the file is whole (compression: none, zstd, snappy or lz4)";
    ImportError::content(path, at, "readable Parquet", format!("'{error}'"), hint)
}

/// Streams the file into `sink`.
pub fn read(path: &Path, mapping: &Mapping, sink: &mut Records) -> Result<(), ImportError> {
    let opened = Opened::new(path, wanted(mapping))?;
    let ends = row_group_ends(&opened.builder);
    let mut records = 0;
    for batch in opened.batches()? {
        let group = ends.iter().take_while(|&&end| end <= records).count();
        let batch = batch.map_err(|e| unreadable(path, format!("row group {group}"), &e))?;
        read_batch(path, group, mapping, &batch, sink)?;
        records += batch.num_rows() as u64;
        sink.progress(records);
    }
    Ok(())
}

/// Rows of any Parquet file as text: `each` gets the cells of the columns, empty where a value is missing. A column of moments comes in
/// nanoseconds since 1970, where `true` allows it.
pub fn for_each_row(
    path: &Path,
    columns: &[(String, bool)],
    sink: &mut Sink,
    mut each: impl FnMut(std::slice::Iter<'_, String>, &mut Sink) -> Result<(), RecordError>,
) -> Result<(), ImportError> {
    let wanted = columns.iter().map(|(name, _)| name.as_str()).collect();
    let reader = Opened::new(path, wanted)?.batches()?;
    let (mut number, before) = (0_u64, sink.bytes_done());
    for batch in reader {
        let batch = batch.map_err(|e| unreadable(path, format!("record {number}"), &e))?;
        let mut values = Vec::new();
        for (name, is_ns) in columns {
            let array = batch.column_by_name(name).expect("the schema was checked");
            values.push(shown(array, *is_ns).ok_or_else(|| {
                let expected = "text, numbers, or (with unit ns) moments";
                let found = array.data_type().to_string();
                ImportError::content(path, format!("column {name}"), expected, found, "correct --map")
            })?);
        }
        for row in 0..batch.num_rows() {
            number += 1;
            let cells: Vec<String> = values
                .iter_mut()
                .map(|column| std::mem::take(&mut column[row]))
                .collect();
            match each(cells.iter(), sink) {
                Ok(()) => {}
                Err(RecordError::Fatal(error)) => return Err(error),
                Err(RecordError::Bad(wrong)) => bad_record(path, &format!("record {number}"), wrong, sink)?,
            }
        }
        sink.progress(before + number);
    }
    Ok(())
}

fn shown(array: &ArrayRef, is_ns: bool) -> Option<Vec<String>> {
    let empty = |value: Option<String>| value.unwrap_or_default();
    Some(match array.data_type() {
        DataType::Timestamp(_, _) if !is_ns => return None,
        DataType::Timestamp(_, _) => {
            let values = moments(array, TimeUnit::Number(1))?;
            values
                .into_iter()
                .map(|v| empty(v.map(|v| v.to_string())))
                .collect()
        }
        DataType::Float32 | DataType::Float64 => {
            let values = numbers(array)?;
            values
                .into_iter()
                .map(|v| empty(v.map(|v| v.to_string())))
                .collect()
        }
        _ => {
            let values = texts(array)?;
            (0..array.len())
                .map(|row| empty(values.get(row).map(str::to_owned)))
                .collect()
        }
    })
}

fn wanted(mapping: &Mapping) -> Vec<&str> {
    let mut names = vec![mapping.time.column.as_str()];
    names.extend(mapping.subject.as_deref());
    names.extend(mapping.host.as_deref());
    names.extend(mapping.metrics.iter().map(|m| m.column.as_str()));
    names
}

/// Number of the first record after each row group.
fn row_group_ends(builder: &ParquetRecordBatchReaderBuilder<File>) -> Vec<u64> {
    let mut end = 0;
    let rows = builder
        .metadata()
        .row_groups()
        .iter()
        .map(|group| group.num_rows());
    rows.map(|rows| {
        end += u64::try_from(rows).unwrap_or(0);
        end
    })
    .collect()
}

fn read_batch(
    path: &Path,
    group: usize,
    mapping: &Mapping,
    batch: &RecordBatch,
    sink: &mut Records,
) -> Result<(), ImportError> {
    let column = |name: &str| batch.column_by_name(name).expect("the schema was checked");
    let wrong = |name: &str, expected: &str, array: &ArrayRef| {
        let at = format!("row group {group}, column {name}");
        ImportError::content(path, at, expected, array.data_type().to_string(), "correct --map")
    };
    let text = |name: &str| {
        let array = column(name);
        texts(array).ok_or_else(|| wrong(name, "text or integers", array))
    };
    let hosts = mapping.host.as_deref().map(text).transpose()?;
    let subjects = mapping.subject.as_deref().map(text).transpose()?;
    let times = moments(column(&mapping.time.column), mapping.time.unit).ok_or_else(|| {
        wrong(
            &mapping.time.column,
            "moments in the unit of --map",
            column(&mapping.time.column),
        )
    })?;
    let mut metrics = Vec::new();
    for metric in &mapping.metrics {
        let array = column(&metric.column);
        metrics.push(numbers(array).ok_or_else(|| wrong(&metric.column, "numbers", array))?);
    }
    let mut values = vec![None; metrics.len()];
    for row in 0..batch.num_rows() {
        for (value, metric) in values.iter_mut().zip(&metrics) {
            *value = metric[row];
        }
        let host = hosts.as_ref().and_then(|h| h.get(row));
        let host = host.and_then(|name| sink.host(name));
        let subject = subjects.as_ref().map(|s| s.get(row).unwrap_or(""));
        let subject = subject.map(|name| sink.subject(name));
        sink.record(times[row], host, subject, &values)?;
    }
    Ok(())
}

/// A column of names; integers are written once per distinct run.
enum Texts {
    Array(ArrayRef),
    Integers(Vec<Option<String>>),
}

impl Texts {
    fn get(&self, row: usize) -> Option<&str> {
        match self {
            Texts::Integers(values) => values[row].as_deref(),
            Texts::Array(array) if array.is_null(row) => None,
            Texts::Array(array) => match array.data_type() {
                DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
                DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
                _ => Some(array.as_string_view().value(row)),
            },
        }
    }
}

fn texts(array: &ArrayRef) -> Option<Texts> {
    match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Texts::Array(array.clone())),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let values = texts(dictionary.values())?;
            let keys = dictionary.normalized_keys();
            let name =
                |row: usize| (!array.is_null(row)).then(|| values.get(keys[row]).unwrap_or("").to_owned());
            Some(Texts::Integers((0..array.len()).map(name).collect()))
        }
        kind if kind.is_integer() => {
            let values = integers(array)?;
            Some(Texts::Integers(
                values.into_iter().map(|v| v.map(|v| v.to_string())).collect(),
            ))
        }
        _ => None,
    }
}

fn integers(array: &ArrayRef) -> Option<Vec<Option<i64>>> {
    macro_rules! collect {
        ($kind:ty) => {
            array
                .as_primitive::<$kind>()
                .iter()
                .map(|v| v.map(i64::from))
                .collect()
        };
    }
    Some(match array.data_type() {
        DataType::Int8 => collect!(Int8Type),
        DataType::Int16 => collect!(Int16Type),
        DataType::Int32 => collect!(Int32Type),
        DataType::Int64 => collect!(Int64Type),
        DataType::UInt8 => collect!(UInt8Type),
        DataType::UInt16 => collect!(UInt16Type),
        DataType::UInt32 => collect!(UInt32Type),
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>();
            values
                .iter()
                .map(|v| v.and_then(|v| i64::try_from(v).ok()))
                .collect()
        }
        _ => return None,
    })
}

/// Numbers of any numeric type; NaN and infinities are missing.
fn numbers(array: &ArrayRef) -> Option<Vec<Option<f64>>> {
    let finite = |value: f64| value.is_finite().then_some(value);
    Some(match array.data_type() {
        DataType::Float64 => array
            .as_primitive::<Float64Type>()
            .iter()
            .map(|v| v.and_then(finite))
            .collect(),
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            values
                .iter()
                .map(|v| v.and_then(|v| finite(f64::from(v))))
                .collect()
        }
        _ => integers(array)?
            .into_iter()
            .map(|v| v.map(|v| v as f64))
            .collect(),
    })
}

fn moments(array: &ArrayRef, unit: TimeUnit) -> Option<Vec<Option<i64>>> {
    macro_rules! stamps {
        ($kind:ty, $factor:expr) => {
            array
                .as_primitive::<$kind>()
                .iter()
                .map(|v| v.and_then(|v| v.checked_mul($factor)))
                .collect()
        };
    }
    Some(match (array.data_type(), unit) {
        // A column of moments knows its own unit.
        (DataType::Timestamp(ArrowUnit::Second, _), _) => stamps!(TimestampSecondType, 1_000_000_000),
        (DataType::Timestamp(ArrowUnit::Millisecond, _), _) => stamps!(TimestampMillisecondType, 1_000_000),
        (DataType::Timestamp(ArrowUnit::Microsecond, _), _) => stamps!(TimestampMicrosecondType, 1_000),
        (DataType::Timestamp(ArrowUnit::Nanosecond, _), _) => stamps!(TimestampNanosecondType, 1),
        (kind, TimeUnit::Number(ns)) if kind.is_integer() => integers(array)?
            .into_iter()
            .map(|v| v.and_then(|v| v.checked_mul(ns)))
            .collect(),
        (DataType::Float32 | DataType::Float64, TimeUnit::Number(ns)) => numbers(array)?
            .into_iter()
            .map(|v| v.and_then(|v| scaled_moment(v, ns)))
            .collect(),
        (_, TimeUnit::Iso) => {
            let values = texts(array)?;
            (0..array.len())
                .map(
                    |row| match values.get(row).map(|text| iso_moment(text.as_bytes())) {
                        Some(Field::Value(value)) => Some(value),
                        _ => None,
                    },
                )
                .collect()
        }
        _ => return None,
    })
}
