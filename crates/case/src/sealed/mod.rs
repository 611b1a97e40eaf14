//! Parquet at rest.
//!
//! [`tables`] describes every table and column once; the writer, `verify` and the test of
//! `docs/reference/case-format.md` all use that description.
mod chunk;
mod delta;
mod dictionary;
mod file;
mod gather;
mod numbers;
mod op_batch;
pub(crate) mod rewrite;
mod split;
mod truths;
mod values;

use file::{ClosedTable, TableFile};
use gather::Gathered;
pub use gather::{Cells, TableRow};
use op_batch::SharedColumns;
pub use op_batch::{FewColumns, OpBatch};

use crate::meta::TableMeta;
use crate::schema::{EventRow, GapRow, Layer, LinkKind, LinkRow, LossRow, NameId, Op, OpRow};
use crate::tables::{self, Table};
use crate::CaseError;
use arrow_array::builder::{Int32Builder, Int64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of one row group.
pub const ROW_GROUP_ROWS: usize = 1 << 20;

/// Rows handed to the Parquet writer at a time.
const BATCH_ROWS: usize = 1 << 16;

/// Suffix of a table that is still being written.
const TEMP_SUFFIX: &str = ".tmp";

/// Interner of names that dictionary columns refer to. Order of first use is the order of ids.
#[derive(Debug, Default)]
pub struct Names {
    ids: HashMap<String, NameId>,
    names: Vec<String>,
    /// Where names that are asked for again and again are found without a look into the table; as many as `RECENT`.
    recent: Vec<Option<NameId>>,
}

/// A power of two.
const RECENT: usize = 64;

/// A place among the recent ones: from the length and both ends of a name.
fn recent_place(name: &str) -> usize {
    let bytes = name.as_bytes();
    let end = |at: usize| bytes.get(at).map_or(0, |byte| usize::from(*byte));
    let last = bytes.len().wrapping_sub(1);
    (bytes.len() ^ end(0) << 1 ^ end(last) << 2 ^ end(last.wrapping_sub(1)) << 3) % RECENT
}

impl Names {
    /// The id of `name`, new if never seen.
    pub fn id(&mut self, name: &str) -> NameId {
        let place = recent_place(name);
        if let Some(Some(id)) = self.recent.get(place) {
            if self.names[*id as usize] == name {
                return *id;
            }
        }
        let id = self.find(name);
        self.recent.resize(RECENT, None);
        self.recent[place] = Some(id);
        id
    }

    fn find(&mut self, name: &str) -> NameId {
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

/// A dictionary column: keys are gathered, the values come at the end of the batch.
fn name_array(keys: Int32Array, values: &ArrayRef) -> ArrayRef {
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
    #[inline]
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

#[inline]
fn key_of(id: Option<NameId>) -> Option<i32> {
    id.map(|id| i32::try_from(id).expect("fewer than 2^31 names"))
}

struct OpsTable {
    rows: OpBatch,
    file: TableFile,
    shared: SharedColumns,
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
            name_array(self.kind.finish(), kinds),
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
        table.rows.push(row);
        if table.rows.len() == BATCH_ROWS {
            let names = self.names.array();
            let columns = table.rows.take(&self.op_values, &names, &mut table.shared);
            table.file.write(columns)?;
        }
        Ok(())
    }

    /// Appends many to `ops/layer=<layer>/`, after those that were appended one by one.
    pub fn ops(&mut self, layer: Layer, mut rows: OpBatch, names: &Names) -> Result<(), CaseError> {
        self.names.learn(names);
        let table = ops_table(&mut self.ops, &self.case_dir, layer)?;
        for batch in [&mut table.rows, &mut rows] {
            if !batch.is_empty() {
                let names = self.names.array();
                let columns = batch.take(&self.op_values, &names, &mut table.shared);
                table.file.write(columns)?;
            }
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
    pub fn finish(self) -> Result<BTreeMap<String, TableMeta>, CaseError> {
        self.close()?.publish()
    }

    /// The first half of [`SealWriter::finish`]: the tables are whole, but still under their temporary names.
    pub fn close(mut self) -> Result<ClosedTables, CaseError> {
        for layer in std::mem::take(&mut self.declared) {
            ops_table(&mut self.ops, &self.case_dir, layer)?;
        }
        let mut closed = Vec::new();
        let names = self.names.array();
        for (_, mut table) in self.ops {
            if !table.rows.is_empty() {
                let columns = table.rows.take(&self.op_values, &names, &mut table.shared);
                table.file.write(columns)?;
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
        Ok(ClosedTables {
            case_dir: self.case_dir,
            tables: closed,
        })
    }
}

/// Tables that are written, and not in their places yet.
pub struct ClosedTables {
    case_dir: PathBuf,
    tables: Vec<ClosedTable>,
}

impl ClosedTables {
    /// Rows of a table; `None` if there is no such table.
    pub fn rows(&self, relative: &str) -> Option<u64> {
        let table = self.tables.iter().find(|table| table.relative == relative);
        table.map(|table| table.meta.rows)
    }

    /// The second half of [`SealWriter::finish`].
    pub fn publish(self) -> Result<BTreeMap<String, TableMeta>, CaseError> {
        publish(&self.case_dir, self.tables)
    }

    /// Removes them; what is in their places stays.
    pub fn discard(self) -> Result<(), CaseError> {
        remove_leftovers(&self.case_dir)
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
                rows: OpBatch::default(),
                file,
                shared: SharedColumns::default(),
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
                "`whodisk seal` builds it again if raw/ is still there",
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
