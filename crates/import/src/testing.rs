//! What tests of formats share.
use crate::prefix::Prefixes;
use crate::{Format, Head, ImportError, Request, Sink, Summary};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use case::sealed::{Names, SealWriter};
use std::path::Path;

/// A log of this text, imported into a case of its own. Panics unless `format` recognises it.
pub fn import(format: &Format, text: &str) -> Result<Summary, ImportError> {
    import_named(format, "log", text)
}

/// The same of a log whose name is what tells its format.
pub fn import_named(format: &Format, name: &str, text: &str) -> Result<Summary, ImportError> {
    import_into(tempfile::tempdir().unwrap().path(), format, name, text)
}

/// The samples of a metric of a log, in their order: subject, seconds since the start, value.
pub fn samples(format: &Format, text: &str, metric: &str) -> Vec<(String, i64, f64)> {
    let folder = tempfile::tempdir().unwrap();
    import_into(folder.path(), format, "log", text).unwrap();
    let all = samples_of(folder.path(), metric).into_iter();
    all.map(|one| (one.subject, one.seconds, one.value)).collect()
}

/// A sample of a case: whose it is, the seconds since the case's start, and the value.
pub struct Sample {
    pub host: String,
    pub subject: String,
    pub seconds: i64,
    pub value: f64,
}

/// The same of the case that [`import_into`] made in a folder.
pub fn samples_of(folder: &Path, metric: &str) -> Vec<Sample> {
    let mut found = Vec::new();
    for batch in batches(&folder.join("case/series/part-0.parquet")) {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let text = |name: &str| column(name).as_string::<i32>();
        let metrics = text("metric");
        for row in (0..batch.num_rows()).filter(|row| metrics.value(*row) == metric) {
            let time_ns = column("time_ns").as_primitive::<Int64Type>().value(row);
            found.push(Sample {
                host: text("host").value(row).to_owned(),
                subject: text("subject").value(row).to_owned(),
                seconds: time_ns / 1_000_000_000,
                value: column("value").as_primitive::<Float64Type>().value(row),
            });
        }
    }
    found
}

/// Starts and latencies of the operations that a sink saw, in order.
pub fn moments(sink: Sink) -> Vec<(i64, i64)> {
    let ops = sink.surveyed().ops;
    let mut moments: Vec<_> = ops.iter().map(|op| (op.start_ns, op.latency_ns)).collect();
    moments.sort_unstable();
    moments
}

/// The same into the folder `case` of a folder.
pub fn import_into(folder: &Path, format: &Format, name: &str, text: &str) -> Result<Summary, ImportError> {
    let (path, case) = (folder.join(name), folder.join("case"));
    std::fs::write(&path, text).unwrap();
    let head = Prefixes::none().pass_over(&path, Head::read(&path).unwrap(), Some(format));
    assert!((format.recognise)(&head), "{text}");
    std::fs::create_dir(&case).unwrap();
    let request = Request {
        files: vec![path],
        ..Default::default()
    };
    let mut writer = SealWriter::create(&case).unwrap();
    let summary = crate::import(&request, &mut writer, &mut Names::default(), &mut |_| {})?;
    writer.finish().unwrap();
    Ok(summary)
}

/// The rows of a table of a case.
pub fn batches(path: &Path) -> Vec<arrow_array::RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    reader.build().unwrap().map(Result::unwrap).collect()
}
