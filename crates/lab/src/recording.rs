//! Reads operations back from a sealed case: what `whatif` replays and `fit` measures.
use crate::error::LabError;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch, StringArray};
use case::meta::{CaseMeta, State};
use case::schema::{Layer, Op};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::ProjectionMask;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// An operation that ended, as far as a replay needs it. 64 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Since the start of the case; at `app` the intended start.
    pub start_ns: u64,
    /// To its end.
    pub latency_ns: u64,
    /// In its file or device; 0 without a place.
    pub offset_bytes: u64,
    /// Data.
    pub size_bytes: u32,
    /// Bits of `case::schema::flags`.
    pub flags: u32,
    /// In flight at start, this one included; 0 = not observed.
    pub depth: u32,
    /// Submitting thread; -1 = not observed.
    pub tid: i32,
    /// Index into [`Recording::places`]; `u32::MAX` = none.
    pub place: u32,
    /// Thread work before it was submitted; 0 where not observed.
    pub app_ns: u32,
    /// Work of the system call or file system; 0 where not observed.
    pub fs_ns: u32,
    /// Thread work after it; 0 where not observed.
    pub reap_ns: u32,
    /// Held back by a throttle; 0 where not observed.
    pub throttle_ns: u32,
    /// Kind.
    pub op: Op,
}

/// The operations of one layer of a case, in order of start.
pub struct Recording {
    /// Which layer.
    pub layer: Layer,
    /// `case.json`.
    pub meta: CaseMeta,
    /// Operations that ended without error.
    pub operations: Vec<Recorded>,
    /// Files (`app`) or devices (`block`).
    pub places: Vec<String>,
    /// Operations left out: unfinished, or failed.
    pub left_out: u64,
}

const BATCH_ROWS: usize = 1 << 15;

fn unreadable(path: &Path, found: impl std::fmt::Display) -> LabError {
    LabError::Recording {
        what: path.display().to_string(),
        expected: "a readable table of a sealed case".into(),
        found: found.to_string(),
        hint: "whodisk verify tells more".into(),
    }
}

impl Recording {
    /// Reads `case_dir`; without `layer` the topmost of app and block that has rows. Errors name what is missing.
    pub fn read(case_dir: &Path, layer: Option<Layer>) -> Result<Recording, LabError> {
        let meta = CaseMeta::read(case_dir)?;
        let what = case_dir.display().to_string();
        if meta.state != State::Sealed {
            return Err(LabError::Recording {
                what: what.clone(),
                expected: "a sealed case".into(),
                found: format!("one in state {:?}", meta.state).to_lowercase(),
                hint: format!("whodisk seal {what}"),
            });
        }
        let sampled = meta
            .sampling
            .as_ref()
            .filter(|sampling| !sampling.levels.is_empty());
        if sampled.is_some() {
            return Err(LabError::Recording {
                what,
                expected: "every operation of a workload".into(),
                found: "a sample of them".into(),
                hint: "record it without --cpu-budget, or with a larger one".into(),
            });
        }
        let rows = |layer: Layer| meta.layers.get(layer.name()).map_or(0, |layer| layer.rows);
        let wanted = match layer {
            Some(layer) => vec![layer],
            None => vec![Layer::App, Layer::Block],
        };
        let Some(layer) = wanted.iter().copied().find(|layer| rows(*layer) > 0) else {
            let names: Vec<&str> = wanted.iter().map(|layer| layer.name()).collect();
            let have = meta
                .layers
                .iter()
                .map(|(name, layer)| format!("{name}: {}", layer.rows));
            return Err(LabError::Recording {
                what,
                expected: format!("operations of layer {}", names.join(" or ")),
                found: format!("none (rows: {})", have.collect::<Vec<_>>().join(", ")),
                hint: "record with whodisk run (app) or whodisk record (block)".into(),
            });
        };
        let path = case_dir.join(case::tables::ops_path(layer));
        let mut recording = Recording {
            layer,
            meta,
            operations: Vec::new(),
            places: Vec::new(),
            left_out: 0,
        };
        recording.load(&path)?;
        recording.operations.sort_by_key(|operation| operation.start_ns);
        Ok(recording)
    }

    fn load(&mut self, path: &Path) -> Result<(), LabError> {
        let file = File::open(path).map_err(|error| unreadable(path, error))?;
        // Without the writer's Arrow schema texts come as plain strings, whoever wrote the file.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
            .map_err(|error| unreadable(path, error))?;
        let place = if self.layer == Layer::App {
            "file"
        } else {
            "device"
        };
        let columns = [
            "start_ns",
            "latency_ns",
            "open",
            "op",
            "flags",
            place,
            "offset_bytes",
            "size_bytes",
            "queue_depth",
            "tid",
            "error",
            "app_ns",
            "fs_ns",
            "throttle_ns",
            "reap_ns",
        ];
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns);
        let reader = builder
            .with_batch_size(BATCH_ROWS)
            .with_projection(mask)
            .build()
            .map_err(|error| unreadable(path, error))?;
        let mut places = HashMap::new();
        for batch in reader {
            let batch = batch.map_err(|error| unreadable(path, error))?;
            let columns = Columns::of(&batch, place)
                .ok_or_else(|| unreadable(path, "columns of other names or types"))?;
            for row in 0..batch.num_rows() {
                match columns.operation(row) {
                    None => self.left_out += 1,
                    Some((mut operation, name)) => {
                        operation.place = self.place(&mut places, name);
                        self.operations.push(operation);
                    }
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, places: &mut HashMap<String, u32>, name: Option<&str>) -> u32 {
        let Some(name) = name else { return u32::MAX };
        if let Some(number) = places.get(name) {
            return *number;
        }
        let number = self.places.len() as u32;
        self.places.push(name.to_owned());
        places.insert(name.to_owned(), number);
        number
    }

    /// Begin and end of the measured phase; the whole case where there is none.
    pub fn measured_ns(&self) -> (u64, u64) {
        let phase = self.meta.phases.iter().find(|phase| phase.name == "measure");
        phase.map_or((0, u64::MAX), |phase| {
            (phase.start_ns.max(0) as u64, phase.end_ns.max(0) as u64)
        })
    }

    /// A number of the workload's specification, if the case has one.
    pub fn specified(&self, key: &str) -> Option<u64> {
        self.meta
            .workload
            .as_ref()?
            .get("specification")?
            .get(key)?
            .as_u64()
    }
}

/// Columns of a batch, by name.
struct Columns<'a> {
    start: &'a PrimitiveArray<Int64Type>,
    latency: &'a PrimitiveArray<Int64Type>,
    open: &'a arrow_array::BooleanArray,
    op: &'a StringArray,
    flags: &'a PrimitiveArray<UInt32Type>,
    place: &'a StringArray,
    offset: &'a PrimitiveArray<Int64Type>,
    size: &'a PrimitiveArray<Int64Type>,
    depth: &'a PrimitiveArray<Int32Type>,
    tid: &'a PrimitiveArray<Int32Type>,
    error: &'a PrimitiveArray<Int32Type>,
    app: &'a PrimitiveArray<Int64Type>,
    fs: &'a PrimitiveArray<Int64Type>,
    throttle: &'a PrimitiveArray<Int64Type>,
    reap: &'a PrimitiveArray<Int64Type>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch, place: &str) -> Option<Columns<'a>> {
        let column = |name: &str| batch.column_by_name(name);
        let long = |name: &str| column(name)?.as_primitive_opt::<Int64Type>();
        let int = |name: &str| column(name)?.as_primitive_opt::<Int32Type>();
        Some(Columns {
            start: long("start_ns")?,
            latency: long("latency_ns")?,
            open: column("open")?.as_boolean_opt()?,
            op: column("op")?.as_string_opt()?,
            flags: column("flags")?.as_primitive_opt()?,
            place: column(place)?.as_string_opt()?,
            offset: long("offset_bytes")?,
            size: long("size_bytes")?,
            depth: int("queue_depth")?,
            tid: int("tid")?,
            error: int("error")?,
            app: long("app_ns")?,
            fs: long("fs_ns")?,
            throttle: long("throttle_ns")?,
            reap: long("reap_ns")?,
        })
    }

    /// The operation of a row and the name of its place; None if it is unfinished, failed, or began before the case.
    fn operation(&self, row: usize) -> Option<(Recorded, Option<&'a str>)> {
        let long = |array: &PrimitiveArray<Int64Type>| array.is_valid(row).then(|| array.value(row));
        let small = |array| long(array).unwrap_or(0).clamp(0, i64::from(u32::MAX)) as u32;
        let start_ns = u64::try_from(self.start.value(row)).ok()?;
        let latency_ns = u64::try_from(self.latency.value(row)).ok()?;
        if self.open.value(row) || self.error.value(row) != 0 {
            return None;
        }
        let op = Op::ALL
            .into_iter()
            .find(|op| op.name() == self.op.value(row))
            .unwrap_or(Op::Other);
        let operation = Recorded {
            start_ns,
            latency_ns,
            offset_bytes: long(self.offset).unwrap_or(0).max(0) as u64,
            size_bytes: small(self.size),
            flags: self.flags.value(row),
            depth: match self.depth.is_valid(row) {
                true => self.depth.value(row).max(0) as u32,
                false => 0,
            },
            tid: match self.tid.is_valid(row) {
                true => self.tid.value(row),
                false => -1,
            },
            place: u32::MAX,
            app_ns: small(self.app),
            fs_ns: small(self.fs),
            reap_ns: small(self.reap),
            throttle_ns: small(self.throttle),
            op,
        };
        Some((operation, self.place.is_valid(row).then(|| self.place.value(row))))
    }
}

/// Share of the read bytes that the page cache served without waiting, by the table `cache`; None if it has no rows.
pub fn cache_hit_ratio(case_dir: &Path) -> Option<f64> {
    let path = case_dir.join(case::tables::path(&case::tables::CACHE));
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder =
        ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(path).ok()?, options).ok()?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), ["tier", "size_bytes"]);
    let reader = builder.with_projection(mask).build().ok()?;
    let (mut served, mut all) = (0i64, 0i64);
    for batch in reader {
        let batch = batch.ok()?;
        let tiers: &StringArray = batch.column_by_name("tier")?.as_string_opt()?;
        let sizes = batch
            .column_by_name("size_bytes")?
            .as_primitive_opt::<Int64Type>()?;
        for row in 0..batch.num_rows() {
            all += sizes.value(row);
            if tiers.value(row) == "ram" {
                served += sizes.value(row);
            }
        }
    }
    (all > 0).then(|| served as f64 / all as f64)
}
