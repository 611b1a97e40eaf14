//! What tests of formats share.
use crate::prefix::Prefixes;
use crate::{Format, Head, ImportError, Request, Summary};
use case::sealed::{Names, SealWriter};

/// A log of this text, imported into a case of its own. Panics unless `format` recognises it.
pub fn import(format: &Format, text: &str) -> Result<Summary, ImportError> {
    import_named(format, "log", text)
}

/// The same of a log whose name is what tells its format.
pub fn import_named(format: &Format, name: &str, text: &str) -> Result<Summary, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let (path, case) = (folder.path().join(name), folder.path().join("case"));
    std::fs::write(&path, text).unwrap();
    let head = Prefixes::none().pass_over(&path, Head::read(&path).unwrap(), Some(format));
    assert!((format.recognise)(&head), "{text}");
    std::fs::create_dir(&case).unwrap();
    let request = Request {
        files: vec![path],
        ..Default::default()
    };
    let mut writer = SealWriter::create(&case).unwrap();
    crate::import(&request, &mut writer, &mut Names::default(), &mut |_| {})
}

/// The rows of a table of a case.
pub fn batches(path: &std::path::Path) -> Vec<arrow_array::RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    reader.build().unwrap().map(Result::unwrap).collect()
}
