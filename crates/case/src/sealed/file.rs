//! One Parquet file of a case: its properties, its row groups, its checksum.
use super::dictionary::{Dictionary, NumberDictionary};
use super::numbers::{Numbers, Written};
use super::truths::Truths;
use super::{ROW_GROUP_ROWS, TEMP_SUFFIX};
use crate::meta::TableMeta;
use crate::tables::{Encoding, Kind, Table};
use crate::CaseError;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_writer::{
    compute_leaves, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriter, ArrowWriterOptions,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::hash::Hasher;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash64;

/// Rows of one data page at most.
pub(super) const PAGE_ROWS: usize = 1 << 17;

/// Bytes of one data page, about.
const PAGE_BYTES: usize = 1 << 20;

pub(super) const ZSTD_LEVEL: i32 = 1;

pub(super) fn zstd_level() -> ZstdLevel {
    ZstdLevel::try_new(ZSTD_LEVEL).expect("zstd has this level")
}

/// Written into every file. It names the format, not the tool's version: the same rows give the same bytes.
fn created_by() -> String {
    format!("whodisk-case version {}", crate::schema::FORMAT_VERSION)
}

/// Bytes that are written at once: the Parquet crate hands over a few KiB at a time.
const WRITE_BYTES: usize = 1 << 18;

/// Counts and hashes what goes into a file.
struct HashedFile {
    file: File,
    bytes: u64,
    hash: XxHash64,
}

impl Write for HashedFile {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(from)?;
        self.bytes += written as u64;
        self.hash.write(&from[..written]);
        Ok(written)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

pub(super) fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Int64 => DataType::Int64,
        Kind::Int32 => DataType::Int32,
        Kind::UInt32 => DataType::UInt32,
        Kind::Bool => DataType::Boolean,
        Kind::Float32 => DataType::Float32,
        Kind::Float64 => DataType::Float64,
        Kind::Name | Kind::Text => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    }
}

fn arrow_schema(table: &Table) -> SchemaRef {
    let fields: Vec<Field> = table
        .columns
        .iter()
        .map(|c| Field::new(c.name, data_type(c.kind), c.nullable))
        .collect();
    Arc::new(Schema::new(fields))
}

fn writer_properties(table: &Table) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(created_by())
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(zstd_level()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        if matches!(column.kind, Kind::Float32 | Kind::Float64) {
            // Nobody looks for a value: rows are found by time, name and number.
            properties = properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::None);
        }
        let encoding = match column.encoding {
            Encoding::Delta => parquet::basic::Encoding::DELTA_BINARY_PACKED,
            Encoding::Split => parquet::basic::Encoding::BYTE_STREAM_SPLIT,
            Encoding::Dictionary => continue,
        };
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, encoding);
    }
    properties.build()
}

/// One Parquet file under its temporary name.
pub(super) struct TableFile {
    /// Path inside the case.
    relative: String,
    path_final: PathBuf,
    path_temp: PathBuf,
    schema: SchemaRef,
    encodings: Vec<Encoding>,
    writer: SerializedFileWriter<BufWriter<HashedFile>>,
    columns_of_groups: ArrowRowGroupWriterFactory,
    /// The row group that is being gathered, and its rows.
    group: Vec<ColumnWriter>,
    group_rows: usize,
    rows: u64,
}

/// A column of a row group.
enum ColumnWriter {
    Strings(Box<Dictionary>),
    FewNumbers(Box<NumberDictionary>),
    Numbers(Box<Numbers>),
    Truths(Box<Truths>),
    /// The Parquet crate's own.
    Other(Box<ArrowColumnWriter>),
}

impl ColumnWriter {
    fn write(&mut self, field: &Field, array: &ArrayRef) -> Result<(), ParquetError> {
        match self {
            ColumnWriter::Strings(strings) => strings.write(array),
            ColumnWriter::FewNumbers(numbers) => numbers.write(array),
            ColumnWriter::Numbers(numbers) => numbers.write(array),
            ColumnWriter::Truths(truths) => truths.write(array),
            ColumnWriter::Other(values) => {
                let mut leaves = compute_leaves(field, array)?.into_iter();
                leaves.try_for_each(|leaf| values.write(&leaf))
            }
        }
    }
}

impl TableFile {
    pub(super) fn create(case_dir: &Path, relative: &str, table: &Table) -> Result<TableFile, CaseError> {
        let path_final = case_dir.join(relative);
        let path_temp = case_dir.join(format!("{relative}{TEMP_SUFFIX}"));
        let folder = path_final.parent().expect("a table is in a folder of the case");
        std::fs::create_dir_all(folder).map_err(|e| CaseError::io(folder, "create the folder", e))?;
        let file = File::create(&path_temp).map_err(|e| CaseError::io(&path_temp, "create the table", e))?;
        let schema = arrow_schema(table);
        let options = ArrowWriterOptions::new()
            .with_properties(writer_properties(table))
            .with_skip_arrow_metadata(true);
        let sink = HashedFile {
            file,
            bytes: 0,
            hash: XxHash64::with_seed(0),
        };
        let (writer, columns_of_groups) = ArrowWriter::try_new_with_options(
            BufWriter::with_capacity(WRITE_BYTES, sink),
            schema.clone(),
            options,
        )
        .and_then(ArrowWriter::into_serialized_writer)
        .map_err(|e| parquet_error(&path_temp, e))?;
        Ok(TableFile {
            relative: relative.into(),
            path_final,
            path_temp,
            schema,
            encodings: table.columns.iter().map(|column| column.encoding).collect(),
            writer,
            columns_of_groups,
            group: Vec::new(),
            group_rows: 0,
            rows: 0,
        })
    }

    pub(super) fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), CaseError> {
        let batch = RecordBatch::try_new(self.schema.clone(), columns)
            .expect("the builders follow the table's description");
        self.rows += batch.num_rows() as u64;
        let mut done = 0;
        while done < batch.num_rows() {
            let rows = (batch.num_rows() - done).min(ROW_GROUP_ROWS - self.group_rows);
            self.write_to_group(&batch.slice(done, rows))
                .map_err(|e| parquet_error(&self.path_temp, e))?;
            done += rows;
        }
        Ok(())
    }

    fn write_to_group(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        if self.group.is_empty() {
            self.group = self.begin_group()?;
        }
        let fields = self.schema.fields().iter();
        let columns = self.group.iter_mut().zip(fields).zip(batch.columns());
        for ((writer, field), column) in columns {
            writer.write(field, column)?;
        }
        self.group_rows += batch.num_rows();
        if self.group_rows >= ROW_GROUP_ROWS {
            self.end_group()?;
        }
        Ok(())
    }

    fn begin_group(&self) -> Result<Vec<ColumnWriter>, ParquetError> {
        let number = self.writer.flushed_row_groups().len();
        let others = self.columns_of_groups.create_column_writers(number)?;
        let described = self.writer.schema_descr().columns();
        let fields = self.schema.fields().iter().zip(&self.encodings);
        let columns = others.into_iter().zip(fields).zip(described);
        let writers = columns.map(|((other, (field, encoding)), column)| {
            let numbers = |written| ColumnWriter::Numbers(Box::new(Numbers::new(column.clone(), written)));
            match (field.data_type(), encoding) {
                (DataType::Dictionary(..), _) => {
                    ColumnWriter::Strings(Box::new(Dictionary::new(column.clone())))
                }
                (DataType::Boolean, _) => ColumnWriter::Truths(Box::new(Truths::new(column.clone()))),
                (DataType::Int64, Encoding::Split) => numbers(Written::Split),
                (DataType::Int64, Encoding::Delta) => numbers(Written::Delta),
                (of, Encoding::Dictionary) => match NumberDictionary::new(column.clone(), of) {
                    Some(few) => ColumnWriter::FewNumbers(Box::new(few)),
                    None => ColumnWriter::Other(Box::new(other)),
                },
                _ => ColumnWriter::Other(Box::new(other)),
            }
        });
        Ok(writers.collect())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        self.group_rows = 0;
        let mut group = self.writer.next_row_group()?;
        for column in std::mem::take(&mut self.group) {
            match column {
                ColumnWriter::Strings(strings) => strings.append_to(&mut group)?,
                ColumnWriter::FewNumbers(numbers) => numbers.append_to(&mut group)?,
                ColumnWriter::Numbers(numbers) => numbers.append_to(&mut group)?,
                ColumnWriter::Truths(truths) => truths.append_to(&mut group)?,
                ColumnWriter::Other(values) => values.close()?.append_to_row_group(&mut group)?,
            }
        }
        group.close().map(|_| ())
    }

    /// Ends the file and makes it durable, still under its temporary name.
    pub(super) fn close(mut self) -> Result<ClosedTable, CaseError> {
        if self.group_rows > 0 {
            self.end_group().map_err(|e| parquet_error(&self.path_temp, e))?;
        }
        let sink = self
            .writer
            .into_inner()
            .map_err(|e| parquet_error(&self.path_temp, e))?
            .into_inner()
            .map_err(|e| CaseError::io(&self.path_temp, "write", e.into_error()))?;
        sink.file
            .sync_all()
            .map_err(|e| CaseError::io(&self.path_temp, "make durable", e))?;
        let meta = TableMeta {
            rows: self.rows,
            bytes: sink.bytes,
            xxh64: format!("{:016x}", sink.hash.finish()),
        };
        Ok(ClosedTable {
            relative: self.relative,
            path_final: self.path_final,
            path_temp: self.path_temp,
            meta,
        })
    }
}

/// A whole file that waits for its rename.
pub(super) struct ClosedTable {
    pub(super) relative: String,
    pub(super) path_final: PathBuf,
    pub(super) path_temp: PathBuf,
    pub(super) meta: TableMeta,
}

/// A Parquet error while writing is an operating-system error in disguise, or our bug.
fn parquet_error(path: &Path, error: ParquetError) -> CaseError {
    let text = error.to_string();
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        _ => std::io::Error::other(text),
    };
    CaseError::io(path, "write the table", source)
}
