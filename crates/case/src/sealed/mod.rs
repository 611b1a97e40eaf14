//! Parquet at rest.
//!
//! [`tables`] describes every table and column once; the writer, `verify` and the test of
//! `docs/case-format.md` all use that description.
mod dictionary;
mod gather;
pub(crate) mod rewrite;

use dictionary::Dictionary;
use gather::Gathered;
pub use gather::{Cells, TableRow};

use crate::meta::TableMeta;
use crate::schema::{EventRow, GapRow, Layer, LinkKind, LinkRow, LossRow, NameId, Op, OpRow};
use crate::tables::{self, Encoding, Kind, Table};
use crate::CaseError;
use arrow_array::builder::{BooleanBuilder, Float32Builder, Int32Builder, Int64Builder, UInt32Builder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_writer::{
    compute_leaves, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriter, ArrowWriterOptions,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash64;

/// Rows of one row group.
pub const ROW_GROUP_ROWS: usize = 1 << 20;

/// Rows handed to the Parquet writer at a time.
const BATCH_ROWS: usize = 1 << 16;

/// Rows of one data page at most.
const PAGE_ROWS: usize = 1 << 17;

/// Bytes of one data page, about.
const PAGE_BYTES: usize = 1 << 20;

const ZSTD_LEVEL: i32 = 1;

fn zstd_level() -> ZstdLevel {
    ZstdLevel::try_new(ZSTD_LEVEL).expect("zstd has this level")
}

/// Suffix of a table that is still being written.
const TEMP_SUFFIX: &str = ".tmp";

/// Written into every file. It names the format, not the tool's version: the same rows give the same bytes.
fn created_by() -> String {
    format!("whodisk-case version {}", crate::schema::FORMAT_VERSION)
}

/// Interner of names that dictionary columns refer to. Order of first use is the order of ids.
#[derive(Debug, Default)]
pub struct Names {
    ids: HashMap<String, NameId>,
    names: Vec<String>,
}

impl Names {
    /// The id of `name`, new if never seen.
    pub fn id(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = NameId::try_from(self.names.len()).expect("fewer than 2^32 names");
        self.ids.insert(name.to_owned(), id);
        self.names.push(name.to_owned());
        id
    }

    /// The name behind an id of this interner. Panics on an id of another interner.
    pub fn get(&self, id: NameId) -> &str {
        &self.names[id as usize]
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no name was interned yet.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

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

fn data_type(kind: Kind) -> DataType {
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
struct TableFile {
    /// Path inside the case.
    relative: String,
    path_final: PathBuf,
    path_temp: PathBuf,
    schema: SchemaRef,
    writer: SerializedFileWriter<HashedFile>,
    columns_of_groups: ArrowRowGroupWriterFactory,
    /// The row group that is being gathered, and its rows.
    group: Vec<ColumnWriter>,
    group_rows: usize,
    rows: u64,
}

/// A column of a row group.
enum ColumnWriter {
    Numbers(Box<ArrowColumnWriter>),
    Strings(Box<Dictionary>),
}

impl ColumnWriter {
    fn write(&mut self, field: &Field, array: &ArrayRef) -> Result<(), ParquetError> {
        match self {
            ColumnWriter::Strings(strings) => strings.write(array),
            ColumnWriter::Numbers(numbers) => {
                let mut leaves = compute_leaves(field, array)?.into_iter();
                leaves.try_for_each(|leaf| numbers.write(&leaf))
            }
        }
    }
}

impl TableFile {
    fn create(case_dir: &Path, relative: &str, table: &Table) -> Result<TableFile, CaseError> {
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
        let (writer, columns_of_groups) = ArrowWriter::try_new_with_options(sink, schema.clone(), options)
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(|e| parquet_error(&path_temp, e))?;
        Ok(TableFile {
            relative: relative.into(),
            path_final,
            path_temp,
            schema,
            writer,
            columns_of_groups,
            group: Vec::new(),
            group_rows: 0,
            rows: 0,
        })
    }

    fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), CaseError> {
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
        let numbers = self.columns_of_groups.create_column_writers(number)?;
        let described = self.writer.schema_descr().columns();
        let columns = numbers.into_iter().zip(self.schema.fields()).zip(described);
        columns
            .map(|((numbers, field), column)| match field.data_type() {
                DataType::Dictionary(..) => Ok(ColumnWriter::Strings(Box::new(Dictionary::new(column.clone())?))),
                _ => Ok(ColumnWriter::Numbers(Box::new(numbers))),
            })
            .collect()
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        self.group_rows = 0;
        let mut group = self.writer.next_row_group()?;
        for column in std::mem::take(&mut self.group) {
            match column {
                ColumnWriter::Numbers(numbers) => numbers.close()?.append_to_row_group(&mut group)?,
                ColumnWriter::Strings(strings) => strings.append_to(&mut group)?,
            }
        }
        group.close().map(|_| ())
    }

    /// Ends the file and makes it durable, still under its temporary name.
    fn close(mut self) -> Result<ClosedTable, CaseError> {
        if self.group_rows > 0 {
            self.end_group().map_err(|e| parquet_error(&self.path_temp, e))?;
        }
        let sink = self
            .writer
            .into_inner()
            .map_err(|e| parquet_error(&self.path_temp, e))?;
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
struct ClosedTable {
    relative: String,
    path_final: PathBuf,
    path_temp: PathBuf,
    meta: TableMeta,
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

/// A dictionary column: keys are gathered, the values come at the end of the batch.
fn name_array(keys: &mut Int32Builder, values: &ArrayRef) -> ArrayRef {
    let keys: Int32Array = keys.finish();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values.clone()))
}

fn text_values<'a>(names: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(names))
}

/// Names seen so far, as values of dictionary columns. A copy, because the last batch is written
/// when the caller's interner is no longer at hand.
#[derive(Default)]
struct NameValues {
    names: Vec<String>,
    array: Option<ArrayRef>,
}

impl NameValues {
    fn learn(&mut self, names: &Names) {
        if names.len() > self.names.len() {
            self.names.extend_from_slice(&names.names[self.names.len()..]);
            self.array = None;
        }
    }
    fn array(&mut self) -> ArrayRef {
        let names = &self.names;
        self.array
            .get_or_insert_with(|| text_values(names.iter().map(String::as_str)))
            .clone()
    }
}

fn key_of(id: Option<NameId>) -> Option<i32> {
    id.map(|id| i32::try_from(id).expect("fewer than 2^31 names"))
}

/// Columns of `ops`, gathered row by row. Groups of equal type are kept in the order of the table.
struct OpColumns {
    /// op_id, start_ns, latency_ns, offset_bytes, size_bytes, the nine stages, foreign_handler_ns.
    wide: [Int64Builder; 15],
    /// queue_depth, pid, tid, cpu, complete_cpu, hctx, vector, error.
    narrow: [Int32Builder; 8],
    /// host, device, file, comm, cgroup.
    names: [Int32Builder; 5],
    open: BooleanBuilder,
    op: Int32Builder,
    flags: UInt32Builder,
    weight: Float32Builder,
    rows: usize,
}

impl OpColumns {
    fn new() -> OpColumns {
        let wide = || Int64Builder::with_capacity(BATCH_ROWS);
        let narrow = || Int32Builder::with_capacity(BATCH_ROWS);
        OpColumns {
            wide: std::array::from_fn(|_| wide()),
            narrow: std::array::from_fn(|_| narrow()),
            names: std::array::from_fn(|_| narrow()),
            open: BooleanBuilder::with_capacity(BATCH_ROWS),
            op: narrow(),
            flags: UInt32Builder::with_capacity(BATCH_ROWS),
            weight: Float32Builder::with_capacity(BATCH_ROWS),
            rows: 0,
        }
    }

    fn push(&mut self, row: &OpRow) {
        let [op_id, start, latency, offset, size, rest @ ..] = &mut self.wide;
        op_id.append_value(row.op_id as i64);
        start.append_value(row.start_ns);
        latency.append_value(row.latency_ns);
        offset.append_option(row.offset_bytes);
        size.append_option(row.size_bytes);
        for (builder, value) in rest
            .iter_mut()
            .zip(row.stages.iter().chain([&row.foreign_handler_ns]))
        {
            builder.append_option(*value);
        }
        let narrow = [
            row.queue_depth,
            row.pid,
            row.tid,
            row.cpu,
            row.complete_cpu,
            row.hctx,
            row.vector,
            Some(row.error),
        ];
        for (builder, value) in self.narrow.iter_mut().zip(narrow) {
            builder.append_option(value);
        }
        let names = [row.host, row.device, row.file, row.comm, row.cgroup];
        for (builder, id) in self.names.iter_mut().zip(names) {
            builder.append_option(key_of(id));
        }
        self.open.append_value(row.open);
        self.op.append_value(row.op as i32);
        self.flags.append_value(row.flags);
        self.weight.append_value(row.weight);
        self.rows += 1;
    }

    /// The batch in the order of `tables::OPS`; the builders are empty afterwards.
    fn take(&mut self, ops: &ArrayRef, names: &ArrayRef) -> Vec<ArrayRef> {
        self.rows = 0;
        let [op_id, start, latency, offset, size, rest @ ..] = &mut self.wide;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(op_id.finish()),
            Arc::new(start.finish()),
            Arc::new(latency.finish()),
            Arc::new(self.open.finish()),
            name_array(&mut self.op, ops),
            Arc::new(self.flags.finish()),
        ];
        columns.extend(self.names.iter_mut().map(|keys| name_array(keys, names)));
        columns.push(Arc::new(offset.finish()));
        columns.push(Arc::new(size.finish()));
        columns.extend(self.narrow.iter_mut().map(|b| Arc::new(b.finish()) as ArrayRef));
        columns.push(Arc::new(self.weight.finish()));
        columns.extend(rest.iter_mut().map(|b| Arc::new(b.finish()) as ArrayRef));
        columns
    }
}

struct OpsTable {
    columns: OpColumns,
    file: TableFile,
}

#[derive(Default)]
struct LinkColumns {
    parent_id: Int64Builder,
    child_id: Int64Builder,
    bytes: Int64Builder,
    kind: Int32Builder,
    rows: usize,
}

impl LinkColumns {
    fn take(&mut self, kinds: &ArrayRef) -> Vec<ArrayRef> {
        self.rows = 0;
        vec![
            Arc::new(self.parent_id.finish()),
            Arc::new(self.child_id.finish()),
            Arc::new(self.bytes.finish()),
            name_array(&mut self.kind, kinds),
        ]
    }
}

/// Writes the Parquet tables of a case. Same rows in the same order give the same bytes.
/// Tables are written under temporary names and renamed by [`SealWriter::finish`], so a killed seal leaves nothing half.
///
/// All calls must be given the same [`Names`].
pub struct SealWriter {
    case_dir: PathBuf,
    ops: BTreeMap<Layer, OpsTable>,
    declared: Vec<Layer>,
    links: (LinkColumns, TableFile),
    others: Vec<Gathered>,
    names: NameValues,
    op_values: ArrayRef,
    link_values: ArrayRef,
}

impl SealWriter {
    /// Begins sealing into `case_dir`; removes what a killed seal left there.
    pub fn create(case_dir: &Path) -> Result<Self, CaseError> {
        remove_leftovers(case_dir)?;
        let open =
            |table: &Table| TableFile::create(case_dir, &format!("{}/part-0.parquet", table.name), table);
        let others = gather::TABLES
            .into_iter()
            .map(|table| Ok(Gathered::new(table, open(&table)?)))
            .collect::<Result<_, CaseError>>()?;
        Ok(SealWriter {
            case_dir: case_dir.to_owned(),
            ops: BTreeMap::new(),
            declared: Vec::new(),
            links: (LinkColumns::default(), open(&tables::LINKS)?),
            others,
            names: NameValues::default(),
            op_values: text_values(Op::ALL.iter().map(|op| op.name())),
            link_values: text_values(LinkKind::ALL.iter().map(|kind| kind.name())),
        })
    }

    /// Appends to `ops/layer=<layer>/`. Rows should come in order of `start_ns`.
    pub fn op(&mut self, layer: Layer, row: &OpRow, names: &Names) -> Result<(), CaseError> {
        self.names.learn(names);
        let table = ops_table(&mut self.ops, &self.case_dir, layer)?;
        table.columns.push(row);
        if table.columns.rows == BATCH_ROWS {
            table
                .file
                .write(table.columns.take(&self.op_values, &self.names.array()))?;
        }
        Ok(())
    }

    /// Appends to `links/`.
    pub fn link(&mut self, row: &LinkRow) -> Result<(), CaseError> {
        let (columns, file) = &mut self.links;
        columns.parent_id.append_value(row.parent_id as i64);
        columns.child_id.append_value(row.child_id as i64);
        columns.bytes.append_value(row.bytes);
        columns.kind.append_value(row.kind as i32);
        columns.rows += 1;
        if columns.rows == BATCH_ROWS {
            file.write(columns.take(&self.link_values))?;
        }
        Ok(())
    }

    /// Appends to the table of the row: gaps, losses, events, irqs, cache, prefetch, waits or series. Rows should
    /// come in order of their time.
    pub fn row<R: TableRow>(&mut self, row: &R, names: &Names) -> Result<(), CaseError> {
        let table = &mut self.others[R::PLACE];
        if table.push(row, names) {
            self.names.learn(names);
            table.write(&self.names.array())?;
        }
        self.names.learn(names);
        Ok(())
    }

    /// Appends to `gaps/`.
    pub fn gap(&mut self, row: &GapRow, names: &Names) -> Result<(), CaseError> {
        self.row(row, names)
    }

    /// Appends to `losses/`.
    pub fn loss(&mut self, row: &LossRow) -> Result<(), CaseError> {
        self.row(row, &Names::default())
    }

    /// Appends to `events/`.
    pub fn event(&mut self, row: &EventRow) -> Result<(), CaseError> {
        self.row(row, &Names::default())
    }

    /// Makes sure `ops/layer=<layer>/` exists even if no row comes.
    pub fn declare(&mut self, layer: Layer) {
        self.declared.push(layer);
    }

    /// Writes and renames everything; empty tables are written too, with their schema (ops only for
    /// layers that were declared with [`SealWriter::declare`] or have rows). Tables of an earlier
    /// seal that this one has not are removed.
    ///
    /// Returns rows, bytes and checksum of every file by its path inside the case, for
    /// `CaseMeta::tables`.
    pub fn finish(mut self) -> Result<BTreeMap<String, TableMeta>, CaseError> {
        for layer in std::mem::take(&mut self.declared) {
            ops_table(&mut self.ops, &self.case_dir, layer)?;
        }
        let mut closed = Vec::new();
        let names = self.names.array();
        for (_, mut table) in self.ops {
            if table.columns.rows > 0 {
                table.file.write(table.columns.take(&self.op_values, &names))?;
            }
            closed.push(table.file.close()?);
        }
        if self.links.0.rows > 0 {
            let columns = self.links.0.take(&self.link_values);
            self.links.1.write(columns)?;
        }
        closed.push(self.links.1.close()?);
        for mut table in self.others {
            table.write(&names)?;
            closed.push(table.into_file().close()?);
        }
        publish(&self.case_dir, closed)
    }
}

fn ops_table<'a>(
    ops: &'a mut BTreeMap<Layer, OpsTable>,
    case_dir: &Path,
    layer: Layer,
) -> Result<&'a mut OpsTable, CaseError> {
    match ops.entry(layer) {
        std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
        std::collections::btree_map::Entry::Vacant(entry) => {
            let file = TableFile::create(case_dir, &tables::ops_path(layer), &tables::OPS)?;
            Ok(entry.insert(OpsTable {
                columns: OpColumns::new(),
                file,
            }))
        }
    }
}

/// Renames closed tables into place and removes those of an earlier seal.
fn publish(case_dir: &Path, closed: Vec<ClosedTable>) -> Result<BTreeMap<String, TableMeta>, CaseError> {
    for layer in Layer::ALL {
        let relative = tables::ops_path(layer);
        if closed.iter().all(|table| table.relative != relative) {
            remove_if_there(&case_dir.join(relative))?;
        }
    }
    let mut metas = BTreeMap::new();
    for table in closed {
        std::fs::rename(&table.path_temp, &table.path_final)
            .map_err(|e| CaseError::io(&table.path_final, "rename the table into place", e))?;
        crate::meta::sync_folder_of(&table.path_final)?;
        metas.insert(table.relative, table.meta);
    }
    Ok(metas)
}

fn remove_if_there(path: &Path) -> Result<(), CaseError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(CaseError::io(path, "remove the table of an earlier seal", e))
        }
        _ => Ok(()),
    }
}

/// Removes temporary files of a seal that was killed.
fn remove_leftovers(case_dir: &Path) -> Result<(), CaseError> {
    for relative in tables::paths() {
        remove_if_there(&case_dir.join(format!("{relative}{TEMP_SUFFIX}")))?;
    }
    Ok(())
}

/// Compressed bytes of every column of a table, in the order of the columns.
/// Errors: the file cannot be read, or is no Parquet file.
pub fn column_bytes(path: &Path) -> Result<Vec<(String, u64)>, CaseError> {
    let file = File::open(path).map_err(|e| CaseError::io(path, "open the table", e))?;
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new()
        .parse_and_finish(&file)
        .map_err(|e| {
            CaseError::format(
                path,
                "footer",
                "a Parquet file",
                e.to_string(),
                "seal the case again",
            )
        })?;
    let names = metadata
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .map(|c| c.name().to_owned());
    let bytes = |index: usize| {
        metadata
            .row_groups()
            .iter()
            .map(|g| g.column(index).compressed_size() as u64)
            .sum()
    };
    Ok(names
        .enumerate()
        .map(|(index, name)| (name, bytes(index)))
        .collect())
}
