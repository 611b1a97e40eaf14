//! Raw event streams: LZ4 Arrow IPC, fixed-width columns, append-only, never rewritten.
//!
//! A stream is an ordinary Arrow IPC *stream* that any Arrow library reads. Beyond the Arrow format it
//! keeps three promises of its own, which let the reader trust nothing else in a damaged file:
//! no column is nullable, a batch holds at most [`BATCH_ROWS_MAX`] rows, and every column is one LZ4
//! frame with a content checksum, so that a flipped byte is found.
use crate::CaseError;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_ipc::{BodyCompressionBuilder, CompressionType, MessageBuilder, MessageHeader};
use arrow_ipc::{FieldNode, MetadataVersion, RecordBatchBuilder};
use arrow_schema::{DataType, Field, Schema};
use flatbuffers::FlatBufferBuilder;
use lz4::{FrameWriter, Packer};
use lz4_flex::frame::FrameDecoder;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

mod columns;
mod lz4;

/// Rows the writer puts into one batch. Columns then stay in the cache, and busy streams have batches of one length: a column that never
/// changes is packed once.
pub const BATCH_ROWS: usize = 4096;

/// Rows that a batch may hold at most. A reader refuses more, so garbage cannot make it allocate much.
pub const BATCH_ROWS_MAX: usize = 65_536;

/// Rows that are gathered before they are turned into columns: small enough for the first-level cache.
pub const BLOCK_ROWS: usize = 64;

/// Writing to the disk begins when this much waits in the page cache, or has waited for this time: in few large requests, which disturb the
/// disk least, and before the kernel does it by itself.
const WRITEBACK_BYTES: u64 = 4 << 20;
const WRITEBACK_AGE: Duration = Duration::from_secs(5);

/// A message header (flatbuffer) is a few kB: one entry per column, or the schema with its metadata.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// Bytes before a message header: the continuation mark and the length of the header.
const PREFIX_BYTES: u64 = 8;

const CONTINUATION: [u8; 4] = [0xff; 4];

/// A type that can be a field of a raw row: fixed width, little endian, never NULL.
///
/// # Safety
///
/// It has `WIDTH` bytes, and any bytes are a value.
pub unsafe trait RawField: Copy {
    /// Its Arrow type.
    const TYPE: DataType;
    /// Bytes of one value.
    const WIDTH: usize = size_of::<Self>();
}

macro_rules! raw_field {
    ($type:ty, $arrow:expr) => {
        // SAFETY: a number.
        unsafe impl RawField for $type {
            const TYPE: DataType = $arrow;
        }
    };
}
raw_field!(u64, DataType::UInt64);
raw_field!(i64, DataType::Int64);
raw_field!(u32, DataType::UInt32);
raw_field!(i32, DataType::Int32);
raw_field!(u16, DataType::UInt16);
raw_field!(u8, DataType::UInt8);
raw_field!(f64, DataType::Float64);

// SAFETY: bytes.
unsafe impl<const N: usize> RawField for [u8; N] {
    const TYPE: DataType = DataType::FixedSizeBinary(N as i32);
}

/// One column of a raw row type as Arrow knows it.
pub struct Shape {
    /// Name of the column, which is the name of the field.
    pub name: &'static str,
    /// Arrow type.
    pub data_type: DataType,
    /// Where in a row the field begins, in bytes.
    pub offset: usize,
    /// Bytes of one value.
    pub width: usize,
}

/// A raw row type and its Arrow form. Implemented by [`raw_row!`] in `rows.rs`.
///
/// # Safety
///
/// Each shape is that of a field: a [`RawField`] of this width at this offset.
pub unsafe trait RawRow: Copy + Default + Send + 'static {
    /// Probe name: folder under `raw/`.
    const PROBE: &'static str;
    /// Shapes of the columns, in the order of the fields.
    const SHAPES: &'static [Shape];
    /// So many of the last columns came later: streams of earlier versions lack them, and they are 0 there.
    const LATER: usize;
}

/// Implements [`RawRow`] for a struct with named fields that are all [`RawField`]s, of which the last ones may have come later.
macro_rules! raw_row {
    ($row:ty, $probe:literal, { $($field:ident : $type:ty),+ $(,)? } $(, later { $($later:ident : $later_type:ty),+ $(,)? })?) => {
        // The fields have these types, or this function does not compile.
        const _: fn(&$row) = |row| {
            $(let _: $type = row.$field;)+
            $($(let _: $later_type = row.$later;)+)?
        };
        // SAFETY: a shape for each field, of its type and at its place.
        unsafe impl $crate::raw::RawRow for $row {
            const PROBE: &'static str = $probe;
            const SHAPES: &'static [$crate::raw::Shape] = &[
                $($crate::raw::shape!($row, $field: $type),)+
                $($($crate::raw::shape!($row, $later: $later_type),)+)?
            ];
            const LATER: usize = 0 $($(+ { let _ = stringify!($later); 1 })+)?;
        }
    };
}
pub(crate) use raw_row;

/// The [`Shape`] of a field.
macro_rules! shape {
    ($row:ty, $field:ident : $type:ty) => {
        $crate::raw::Shape {
            name: stringify!($field),
            data_type: <$type as $crate::raw::RawField>::TYPE,
            offset: std::mem::offset_of!($row, $field),
            width: <$type as $crate::raw::RawField>::WIDTH,
        }
    };
}
pub(crate) use shape;

fn arrow_schema(shapes: &[Shape], metadata: &[(String, String)]) -> Schema {
    let fields: Vec<Field> = shapes
        .iter()
        .map(|c| Field::new(c.name, c.data_type.clone(), false))
        .collect();
    let metadata: HashMap<String, String> = metadata.iter().cloned().collect();
    Schema::new_with_metadata(fields, metadata)
}

/// Appends what stands before the body of a message: prefix, header padded to 8 bytes.
fn frame_header(header: &[u8], to: &mut Vec<u8>) {
    let padded = header.len().next_multiple_of(8);
    to.extend_from_slice(&CONTINUATION);
    to.extend_from_slice(&(padded as i32).to_le_bytes());
    to.extend_from_slice(header);
    to.resize(to.len() + padded - header.len(), 0);
}

/// Turns columns of one batch into an Arrow record batch message. Keeps its buffers between batches.
#[derive(Default)]
struct BatchEncoder {
    header: FlatBufferBuilder<'static>,
    body: Vec<u8>,
    /// One per column.
    frames: Vec<FrameWriter>,
    packer: Packer,
}

impl BatchEncoder {
    /// Appends all of the message for `rows` rows in `columns` but its body to `head`; the body is in `self`.
    fn encode(&mut self, rows: usize, columns: &[Vec<u8>], head: &mut Vec<u8>) -> std::io::Result<()> {
        self.body.clear();
        let mut buffers = Vec::with_capacity(columns.len() * 2);
        self.frames.resize_with(columns.len(), FrameWriter::default);
        for (column, frames) in columns.iter().zip(&mut self.frames) {
            let start = self.body.len();
            buffers.push(arrow_ipc::Buffer::new(start as i64, 0)); // no validity: nothing is NULL
            self.body.extend_from_slice(&(column.len() as i64).to_le_bytes());
            frames.append(column, &mut self.packer, &mut self.body)?;
            buffers.push(arrow_ipc::Buffer::new(
                start as i64,
                (self.body.len() - start) as i64,
            ));
            self.body.resize(self.body.len().next_multiple_of(8), 0);
        }
        self.build_header(rows, &buffers);
        frame_header(self.header.finished_data(), head);
        Ok(())
    }

    fn build_header(&mut self, rows: usize, buffers: &[arrow_ipc::Buffer]) {
        let fbb = &mut self.header;
        fbb.reset();
        let nodes = vec![FieldNode::new(rows as i64, 0); buffers.len() / 2];
        let nodes = fbb.create_vector(&nodes);
        let buffers = fbb.create_vector(buffers);
        let mut compression = BodyCompressionBuilder::new(fbb);
        compression.add_codec(CompressionType::LZ4_FRAME);
        let compression = compression.finish();
        let mut batch = RecordBatchBuilder::new(fbb);
        batch.add_length(rows as i64);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        batch.add_compression(compression);
        let batch = batch.finish().as_union_value();
        let mut message = MessageBuilder::new(fbb);
        message.add_version(MetadataVersion::V5);
        message.add_header_type(MessageHeader::RecordBatch);
        message.add_bodyLength(self.body.len() as i64);
        message.add_header(batch);
        let message = message.finish();
        fbb.finish(message, None);
    }
}

/// Appends rows to one stream. Rows are batched; a batch that was flushed survives a kill.
///
/// After an error of the disk the file is cut back to its last whole batch and every later call
/// fails too. A writer that is dropped without [`RawWriter::finish`] tries to write what it holds,
/// but leaves the stream without its end mark.
pub struct RawWriter<R: RawRow> {
    /// Rows not yet turned into columns.
    block: Vec<R>,
    sink: Sink,
}

impl<R: RawRow> RawWriter<R> {
    /// Creates `path` (its folder too) and writes the stream's schema with `metadata`.
    /// Fails if the file exists: raw streams are never rewritten.
    pub fn create(path: &Path, metadata: &[(String, String)]) -> Result<Self, CaseError> {
        Ok(RawWriter {
            sink: Sink::create(path, R::SHAPES, metadata)?,
            block: Vec::with_capacity(BLOCK_ROWS),
        })
    }

    /// Appends one row; writes a batch when one is full.
    #[inline]
    pub fn push(&mut self, row: &R) -> Result<(), CaseError> {
        self.block.push(*row);
        if self.block.len() == BLOCK_ROWS {
            self.drain_block()?;
        }
        Ok(())
    }

    /// Appends many rows; cheaper than single pushes.
    pub fn push_many(&mut self, rows: &[R]) -> Result<(), CaseError> {
        if !self.block.is_empty() {
            self.drain_block()?;
        }
        for block in rows.chunks(BLOCK_ROWS) {
            self.add_columns(block)?;
        }
        Ok(())
    }

    /// Writes what is batched so far.
    pub fn flush(&mut self) -> Result<(), CaseError> {
        self.drain_block()?;
        self.sink.write_batch()
    }

    /// Flushes if rows have waited for `age` or longer. Call it now and then on streams that may be
    /// slow, so that a kill costs at most about `age` of rows. Rows that came by [`RawWriter::push`]
    /// are dated by the first call after they came.
    pub fn flush_if_older_than(&mut self, age: Duration) -> Result<(), CaseError> {
        if self.block.is_empty() && self.sink.rows_in_columns == 0 {
            return Ok(());
        }
        let oldest = *self.sink.oldest.get_or_insert_with(Instant::now);
        if oldest.elapsed() >= age {
            self.flush()?;
        }
        Ok(())
    }

    /// Rows pushed so far.
    pub fn rows(&self) -> u64 {
        self.sink.rows + (self.sink.rows_in_columns + self.block.len()) as u64
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.sink.bytes_good
    }

    /// Flushes, writes the end-of-stream mark, returns the number of rows.
    pub fn finish(mut self) -> Result<u64, CaseError> {
        self.flush()?;
        self.sink.finish()
    }

    fn drain_block(&mut self) -> Result<(), CaseError> {
        let mut block = std::mem::take(&mut self.block);
        let result = self.add_columns(&block);
        block.clear();
        self.block = block;
        result
    }

    fn add_columns(&mut self, rows: &[R]) -> Result<(), CaseError> {
        debug_assert!(rows.len() <= BLOCK_ROWS);
        self.sink.can_write()?;
        columns::append(rows, &mut self.sink.columns);
        self.sink.rows_in_columns += rows.len();
        if self.sink.rows_in_columns >= BATCH_ROWS {
            self.sink.write_batch()?;
        }
        Ok(())
    }
}

impl<R: RawRow> Drop for RawWriter<R> {
    fn drop(&mut self) {
        if !self.sink.finished && !self.sink.failed {
            let _ = self.flush();
        }
    }
}

/// What of a writer is the same for rows of all types: compiled once, not for each of them.
struct Sink {
    path: PathBuf,
    file: File,
    /// The current batch, one byte vector per column.
    columns: Vec<Vec<u8>>,
    rows_in_columns: usize,
    encoder: BatchEncoder,
    /// A message up to its body, which the encoder has.
    head: Vec<u8>,
    bytes_good: u64,
    /// How far writing to the disk was begun, and when the first message after it came.
    bytes_begun: u64,
    waiting_since: Option<Instant>,
    batches: u64,
    rows: u64,
    oldest: Option<Instant>,
    failed: bool,
    finished: bool,
}

impl Sink {
    fn create(path: &Path, shapes: &[Shape], metadata: &[(String, String)]) -> Result<Self, CaseError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| CaseError::io(folder, "create the folder", e))?;
        }
        let file = File::create_new(path).map_err(|e| CaseError::io(path, "create the raw stream", e))?;
        let mut sink = Sink {
            path: path.to_owned(),
            file,
            columns: shapes
                .iter()
                .map(|shape| Vec::with_capacity(shape.width * BATCH_ROWS))
                .collect(),
            rows_in_columns: 0,
            encoder: BatchEncoder::default(),
            head: Vec::new(),
            bytes_good: 0,
            bytes_begun: 0,
            waiting_since: None,
            batches: 0,
            rows: 0,
            oldest: None,
            failed: false,
            finished: false,
        };
        let header = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            &arrow_schema(shapes, metadata),
            &mut DictionaryTracker::new(true),
            &IpcWriteOptions::default(),
        );
        frame_header(&header.ipc_message, &mut sink.head);
        sink.write_message("write the schema")?;
        Ok(sink)
    }

    fn finish(&mut self) -> Result<u64, CaseError> {
        self.head.clear();
        self.encoder.body.clear();
        self.head.extend_from_slice(&CONTINUATION);
        self.head.extend_from_slice(&[0; 4]);
        self.write_message("write the end mark")?;
        self.begin_writeback();
        self.finished = true;
        Ok(self.rows)
    }

    fn write_batch(&mut self) -> Result<(), CaseError> {
        self.can_write()?;
        if self.rows_in_columns == 0 {
            return Ok(());
        }
        let rows = self.rows_in_columns;
        assert!(rows <= BATCH_ROWS_MAX, "a batch of {rows} rows");
        let action = format!("write raw batch {}", self.batches);
        self.head.clear();
        self.encoder
            .encode(rows, &self.columns, &mut self.head)
            .map_err(|e| CaseError::io(&self.path, action.as_str(), e))?;
        for column in &mut self.columns {
            column.clear();
        }
        self.rows_in_columns = 0;
        self.oldest = None;
        self.write_message(&action)?;
        self.batches += 1;
        self.rows += rows as u64;
        Ok(())
    }

    /// Writes head and body; on an error cuts the file back to its last whole message.
    fn write_message(&mut self, action: &str) -> Result<(), CaseError> {
        let mut file = &self.file;
        let body = &self.encoder.body;
        if let Err(error) = file.write_all(&self.head).and_then(|()| file.write_all(body)) {
            self.failed = true;
            // Best effort: the reader finds the good prefix anyway.
            let _ = self.file.set_len(self.bytes_good);
            return Err(CaseError::io(&self.path, action, error));
        }
        self.bytes_good += (self.head.len() + body.len()) as u64;
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if self.bytes_good - self.bytes_begun >= WRITEBACK_BYTES || since.elapsed() >= WRITEBACK_AGE {
            self.begin_writeback();
        }
        Ok(())
    }

    fn begin_writeback(&mut self) {
        start_writeback(&self.file, self.bytes_begun, self.bytes_good - self.bytes_begun);
        self.bytes_begun = self.bytes_good;
        self.waiting_since = None;
    }

    #[inline]
    fn can_write(&self) -> Result<(), CaseError> {
        if self.failed {
            return Err(self.failed_before());
        }
        Ok(())
    }

    fn failed_before(&self) -> CaseError {
        CaseError::format(
            &self.path,
            format!("byte {}", self.bytes_good),
            "a stream that can be written",
            "an earlier write error",
            "the rows before it are safe; stop the recording",
        )
    }
}

/// Starts writeback of these bytes from the calling thread, so that the pages are written on behalf
/// of this thread (the recorder leaves its requests out) and not later by a kernel worker.
/// File systems and pipes that cannot do it are fine: it is only a hint.
fn start_writeback(file: &File, offset_bytes: u64, len_bytes: u64) {
    // SAFETY: a system call on a descriptor that is open; it touches no memory of ours.
    unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            offset_bytes as libc::off64_t,
            len_bytes as libc::off64_t,
            libc::SYNC_FILE_RANGE_WRITE,
        );
    }
}

/// Where and why a stream ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Bytes of the good prefix.
    pub good_bytes: u64,
    /// Bytes after it.
    pub lost_bytes: u64,
    /// What was found there.
    pub found: String,
}

/// Reads a stream batch by batch and keeps the good prefix of a damaged one.
///
/// Memory is bounded by one batch of [`BATCH_ROWS_MAX`] rows, whatever the file holds.
pub struct RawReader<R: RawRow> {
    source: Source,
    _rows: std::marker::PhantomData<R>,
}

impl<R: RawRow> RawReader<R> {
    /// Opens a stream. A file that was cut or damaged within its header reads as empty with a
    /// [`Truncation`]; a whole header with other columns than `R` has is an error, but for those that came later.
    pub fn open(path: &Path) -> Result<Self, CaseError> {
        Ok(RawReader {
            source: Source::open(path, R::SHAPES, R::LATER)?,
            _rows: std::marker::PhantomData,
        })
    }

    /// Value of a metadata key of the stream's schema.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.source.metadata.get(key).map(String::as_str)
    }

    /// Clears `into` and fills it with the next batch; false at the end (good or cut).
    pub fn next_batch(&mut self, into: &mut Vec<R>) -> Result<bool, CaseError> {
        into.clear();
        let Some(rows) = self.source.next_batch()? else {
            return Ok(false);
        };
        into.resize(rows, R::default());
        for (index, shape) in self.source.shapes.iter().enumerate() {
            let Some(bytes) = self.source.column(index, rows)? else {
                into.clear();
                return Ok(false);
            };
            columns::set(shape, bytes, into);
        }
        self.source.pass_batch();
        Ok(true)
    }

    /// After the end: Some if the stream has no proper end.
    pub fn truncation(&self) -> Option<&Truncation> {
        self.source.truncation.as_ref()
    }

    /// Bytes of whole messages read so far.
    pub fn good_bytes(&self) -> u64 {
        self.source.good_bytes
    }
}

/// What of a reader is the same for rows of all types: compiled once, not for each of them.
struct Source {
    path: PathBuf,
    file: BufReader<File>,
    file_bytes: u64,
    good_bytes: u64,
    metadata: HashMap<String, String>,
    /// Of the columns that it has.
    shapes: &'static [Shape],
    header: Vec<u8>,
    body: Vec<u8>,
    /// Where in the body each column of the batch is.
    spans: Vec<Range<usize>>,
    column: Vec<u8>,
    ended: bool,
    truncation: Option<Truncation>,
}

/// A message's frame: what the prefix and the header say.
enum Frame {
    /// Header read into `self.header`, body length.
    Message { body_bytes: u64 },
    /// End-of-stream mark.
    End,
}

/// Why a stream cannot be read further: content (keep the prefix) or the operating system.
enum Stop {
    Damaged(String),
    Io(std::io::Error),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Stop::Damaged("the end of the file".into()),
            _ => Stop::Io(error),
        }
    }
}

fn damaged<T>(found: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Damaged(found.into()))
}

impl Source {
    fn open(path: &Path, shapes: &'static [Shape], later: usize) -> Result<Self, CaseError> {
        let io = |e| CaseError::io(path, "open the raw stream", e);
        let file = File::open(path).map_err(io)?;
        let file_bytes = file.metadata().map_err(io)?.len();
        let mut source = Source {
            path: path.to_owned(),
            file: BufReader::with_capacity(1 << 16, file),
            file_bytes,
            good_bytes: 0,
            metadata: HashMap::new(),
            shapes,
            header: Vec::new(),
            body: Vec::new(),
            spans: Vec::new(),
            column: Vec::new(),
            ended: false,
            truncation: None,
        };
        match source.read_schema() {
            Ok(schema) => {
                source.check_schema(&schema, later)?;
                source.shapes = &shapes[..schema.fields().len()];
                source.metadata = schema
                    .metadata()
                    .iter()
                    .map(|(k, v)| (k.to_string(), v.to_string()))
                    .collect();
            }
            Err(stop) => source.stop(stop)?,
        }
        Ok(source)
    }

    /// Reads the next batch, packed as it is, and gives its number of rows; None at the end (good or cut).
    fn next_batch(&mut self) -> Result<Option<usize>, CaseError> {
        if self.ended {
            return Ok(None);
        }
        match self.read_batch() {
            Ok(Some(rows)) => Ok(Some(rows)),
            Ok(None) => {
                self.end();
                Ok(None)
            }
            Err(stop) => {
                self.stop(stop)?;
                Ok(None)
            }
        }
    }

    /// Unpacks a column of the batch that was read; None if it is damaged, and then the stream has ended.
    fn column(&mut self, index: usize, rows: usize) -> Result<Option<&[u8]>, CaseError> {
        let shape = &self.shapes[index];
        let packed = &self.body[self.spans[index].clone()];
        if let Err(what) = decompress(packed, rows * shape.width, &mut self.column) {
            self.stop(Stop::Damaged(format!("column {}: {what}", shape.name)))?;
            return Ok(None);
        }
        Ok(Some(&self.column))
    }

    /// The batch that was read is whole.
    fn pass_batch(&mut self) {
        self.good_bytes += PREFIX_BYTES + (self.header.len() + self.body.len()) as u64;
    }

    fn end(&mut self) {
        self.ended = true;
        let lost_bytes = self.file_bytes.saturating_sub(self.good_bytes);
        if lost_bytes > 0 {
            self.truncation = Some(Truncation {
                good_bytes: self.good_bytes,
                lost_bytes,
                found: "bytes after the end mark".into(),
            });
        }
    }

    fn stop(&mut self, stop: Stop) -> Result<(), CaseError> {
        self.ended = true;
        match stop {
            Stop::Io(error) => {
                let action = format!("read at byte {}", self.good_bytes);
                Err(CaseError::io(&self.path, action, error))
            }
            Stop::Damaged(found) => {
                self.truncation = Some(Truncation {
                    good_bytes: self.good_bytes,
                    lost_bytes: self.file_bytes.saturating_sub(self.good_bytes),
                    found,
                });
                Ok(())
            }
        }
    }

    fn remaining_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(self.good_bytes)
    }

    /// Reads prefix and header of the next message into `self.header`.
    fn read_frame(&mut self) -> Result<Frame, Stop> {
        let remaining = self.remaining_bytes();
        if remaining == 0 {
            return damaged("the end of the file without an end mark");
        }
        let mut prefix = [0; PREFIX_BYTES as usize];
        self.file.read_exact(&mut prefix)?;
        if prefix[..4] != CONTINUATION {
            return damaged(format!(
                "bytes {:02x?} instead of the mark of a message",
                &prefix[..4]
            ));
        }
        let header_bytes = i32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
        if header_bytes == 0 {
            return Ok(Frame::End);
        }
        let room = (remaining - PREFIX_BYTES).min(HEADER_BYTES_MAX);
        match u64::try_from(header_bytes) {
            Ok(bytes) if bytes <= room => self.header.resize(bytes as usize, 0),
            _ => {
                return damaged(format!(
                    "a message header of {header_bytes} bytes where {room} are left"
                ))
            }
        }
        self.file.read_exact(&mut self.header)?;
        let message = match arrow_ipc::root_as_message(&self.header) {
            Ok(message) => message,
            Err(_) => return damaged("a message header that is no valid flatbuffer"),
        };
        let room = room - self.header.len() as u64;
        match u64::try_from(message.bodyLength()) {
            Ok(body_bytes) if body_bytes <= room => Ok(Frame::Message { body_bytes }),
            _ => damaged(format!(
                "a message body of {} bytes where {room} are left",
                message.bodyLength()
            )),
        }
    }

    fn read_schema(&mut self) -> Result<Schema, Stop> {
        let Frame::Message { body_bytes: 0 } = self.read_frame()? else {
            return damaged("no Arrow schema at the start of the file");
        };
        let schema = arrow_ipc::root_as_message(&self.header)
            .ok()
            .and_then(|message| message.header_as_schema())
            .and_then(|schema| arrow_ipc::convert::try_fb_to_schema(schema).ok());
        let Some(schema) = schema else {
            return damaged("no valid Arrow schema at the start of the file");
        };
        self.good_bytes += PREFIX_BYTES + self.header.len() as u64;
        Ok(schema)
    }

    fn check_schema(&self, schema: &Schema, later: usize) -> Result<(), CaseError> {
        let hint = "it is a stream of another probe, or of another version of whodisk";
        let wrong = |at: String, expected: String, found: String| {
            Err(CaseError::format(&self.path, at, expected, found, hint))
        };
        for (index, column) in self.shapes.iter().enumerate() {
            let expected = format!("{}: {}", column.name, column.data_type);
            match schema.fields().get(index) {
                Some(f) if f.name() == column.name && f.data_type() == &column.data_type => {}
                Some(f) => {
                    let found = format!("{}: {}", f.name(), f.data_type());
                    return wrong(format!("schema column {index}"), expected, found);
                }
                None if index + later >= self.shapes.len() => {}
                None => return wrong(format!("schema column {index}"), expected, "none".into()),
            }
        }
        let known = self.shapes.len();
        if schema.fields().len() > known {
            let found = schema.field(known).name().clone();
            let at = format!("schema column {known}");
            return wrong(at, "no further column".into(), found);
        }
        Ok(())
    }

    /// Reads one batch and finds its columns; None at the end mark. `good_bytes` moves only past whole messages.
    fn read_batch(&mut self) -> Result<Option<usize>, Stop> {
        let body_bytes = match self.read_frame()? {
            Frame::End => {
                self.good_bytes += PREFIX_BYTES;
                return Ok(None);
            }
            Frame::Message { body_bytes } => body_bytes,
        };
        let rows = batch_layout(self.shapes, &self.header, body_bytes, &mut self.spans)?;
        self.body.resize(body_bytes as usize, 0);
        self.file.read_exact(&mut self.body)?;
        Ok(Some(rows))
    }
}

/// Checks a record batch header against these columns and gives its row count; `spans` becomes each column's bytes in the body.
fn batch_layout(
    shapes: &[Shape],
    header: &[u8],
    body_bytes: u64,
    spans: &mut Vec<Range<usize>>,
) -> Result<usize, Stop> {
    let row_bytes: usize = shapes.iter().map(|c| c.width).sum();
    // LZ4 adds at most a fraction of a percent and a few dozen bytes per column.
    let body_bytes_max = (BATCH_ROWS_MAX * row_bytes * 2) as u64 + 4096;
    if body_bytes > body_bytes_max {
        return damaged(format!(
            "a batch of {body_bytes} bytes, more than {body_bytes_max}"
        ));
    }
    let Some(batch) = arrow_ipc::root_as_message(header)
        .ok()
        .and_then(|m| m.header_as_record_batch())
    else {
        return damaged("a message that is no record batch");
    };
    let rows = match usize::try_from(batch.length()) {
        Ok(rows) if (1..=BATCH_ROWS_MAX).contains(&rows) => rows,
        _ => return damaged(format!("a batch of {} rows", batch.length())),
    };
    if batch.compression().map(|c| c.codec()) != Some(CompressionType::LZ4_FRAME) {
        return damaged("a batch that is not compressed by LZ4");
    }
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return damaged("a batch without columns");
    };
    if nodes.len() != shapes.len() || buffers.len() != 2 * shapes.len() {
        return damaged(format!("{} columns, {} buffers", nodes.len(), buffers.len()));
    }
    if nodes
        .iter()
        .any(|n| n.length() != rows as i64 || n.null_count() != 0)
    {
        return damaged("a column of another length, or with NULLs");
    }
    spans.clear();
    for index in 0..shapes.len() {
        let buffer = buffers.get(2 * index + 1);
        let start = usize::try_from(buffer.offset()).ok();
        let end = start
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(s, l)| s.checked_add(l));
        match (start, end) {
            (Some(start), Some(end)) if end as u64 <= body_bytes => spans.push(start..end),
            _ => return damaged(format!("a column outside its batch ({buffer:?})")),
        }
    }
    Ok(rows)
}

/// Decompresses one column into `to`, which ends up exactly `bytes` long, or says what is wrong.
fn decompress(from: &[u8], bytes: usize, to: &mut Vec<u8>) -> Result<(), String> {
    let Some((length, frame)) = from.split_first_chunk::<8>() else {
        return Err(format!("{} bytes where a length is due", from.len()));
    };
    let length = i64::from_le_bytes(*length);
    if length != bytes as i64 {
        return Err(format!("{length} bytes where the rows need {bytes}"));
    }
    to.clear();
    let mut decoder = FrameDecoder::new(frame);
    // One byte more than needed: reading to the end of the frame also checks its checksum.
    decoder
        .by_ref()
        .take(bytes as u64 + 1)
        .read_to_end(to)
        .map_err(|e| format!("no valid LZ4 frame ({e})"))?;
    if to.len() != bytes {
        return Err(format!(
            "{} decompressed bytes where the rows need {bytes}",
            to.len()
        ));
    }
    Ok(())
}

/// Reads a file of JSON lines; absent = empty. A line that is not whole ends the reading, as a killed
/// writer leaves it: then the second value is true.
pub fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<(Vec<T>, bool), CaseError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((Vec::new(), false)),
        Err(error) => return Err(CaseError::io(path, "read", error)),
    };
    let mut rows = Vec::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(row) => rows.push(row),
            Err(_) => return Ok((rows, true)),
        }
    }
    Ok((rows, false))
}
