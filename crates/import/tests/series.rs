//! CSV files become sealed tables; what is wrong with them is said with line and column.
use arrow_array::cast::AsArray;
use case::sealed::{Names, SealWriter};
use import::{format, ImportError, Request, Summary};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::{Path, PathBuf};

const MAP: &str = "host=host,device=disk,t=ts:s,latency=lat:us,throughput=tp:MB/s";

fn import(dir: &Path, content: &str, map: Option<&str>) -> Result<Summary, ImportError> {
    let file = dir.join("input.csv");
    std::fs::write(&file, content).unwrap();
    import_file(dir, file, map)
}

fn import_file(dir: &Path, file: PathBuf, map: Option<&str>) -> Result<Summary, ImportError> {
    let mut writer = SealWriter::create(dir).unwrap();
    let request = Request {
        files: vec![file],
        map: map.map(str::to_owned),
    };
    let summary = (format("series")?.read)(&request, &mut writer, &mut Names::default(), &mut |_| {})?;
    writer.finish().unwrap();
    Ok(summary)
}

#[test]
fn missing_values_stay_missing_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        "host,ts,disk,lat,tp\nh1,100,d1,5.5,1\nh1,115,d1,,2\r\nh1,130,d1,NaN,\n\nh2,,d1,1,1\nh2,85,d1,7,3";
    let summary = import(dir.path(), text, Some(MAP)).unwrap();
    assert_eq!((summary.records, summary.rows), (5, 5));
    assert_eq!(summary.start_unix_ns, Some(100_000_000_000));
    assert_eq!(summary.end_ns, 30_000_000_000);
    let said: Vec<String> = summary.not_observed.iter().map(|u| u.what.clone()).collect();
    assert_eq!(
        said,
        [
            "2 of 5 samples of latency_ns",
            "1 of 5 samples of throughput_bytes_per_s",
            "1 of 5 records"
        ]
    );
}

#[test]
fn delimiters_quotes_and_order_of_columns() {
    let dir = tempfile::tempdir().unwrap();
    let text = "\u{feff}\"lat\";disk;other;ts;host;tp\n\"5.5\";\"d;1\";x;100;h;9\n";
    assert_eq!(import(dir.path(), text, Some(MAP)).unwrap().rows, 2);
    let tabs = "ts\tdisk\tlat\n2022-07-18T13:00:15Z\td\t1\n";
    let summary = import(dir.path(), tabs, Some("device=disk,t=ts:iso,latency=lat:ms")).unwrap();
    assert_eq!(summary.start_unix_ns, Some(1_658_149_215_000_000_000));
}

/// Host and subject of each row; `-` = none.
fn names(dir: &Path) -> Vec<String> {
    let file = File::open(dir.join("series/part-0.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    let mut rows = Vec::new();
    for batch in reader.map(Result::unwrap) {
        let column = |name: &str| {
            let column = batch.column_by_name(name).unwrap().as_string::<i32>();
            column.iter().map(|text| text.unwrap_or("-")).collect::<Vec<_>>()
        };
        let pairs = column("host").into_iter().zip(column("subject"));
        rows.extend(pairs.map(|(host, subject)| format!("{host} {subject}")));
    }
    rows
}

#[test]
fn lines_that_begin_alike_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let text = "host,disk,ts,lat\nh,d1,1,1\nh,d1,2,1\nh,d10,3,1\nh,d1,4,1\n\"h\",\"d1\",5,1\nh,d1,6,1\n,d1,7,1\n,d1,8,1\nhh,d1,9,1\n";
    import(
        dir.path(),
        text,
        Some("host=host,device=disk,t=ts:s,latency=lat:us"),
    )
    .unwrap();
    let expected = [
        "h d1", "h d1", "h d10", "h d1", "h d1", "h d1", "- d1", "- d1", "hh d1",
    ];
    assert_eq!(names(dir.path()), expected);
}

#[test]
fn errors_name_the_place() {
    let dir = tempfile::tempdir().unwrap();
    for (text, words) in [
        (
            "host,ts,disk,lat,tp\nh,1,d,5x,1\n",
            ["line 2, column lat", "'5x'"],
        ),
        (
            "host,ts,disk,lat,tp\nh,1,d,5,1\nh,noon,d,5,1\n",
            ["line 3, column ts", "'noon'"],
        ),
        ("host,ts,disk,lat\nh,1,d,5\n", ["line 1", "a column 'tp'"]),
        ("host,ts,disk,lat,tp\nh,1,d\n", ["line 2", "5 fields or more"]),
        ("", ["line 1", "an empty file"]),
    ] {
        let message = import(dir.path(), text, Some(MAP)).unwrap_err().to_string();
        for word in words.iter().chain(&["input.csv"]) {
            assert!(message.contains(word), "{text:?}: {message}");
        }
    }
    let message = import(dir.path(), "a\n", None).unwrap_err().to_string();
    assert!(message.contains("--map"), "{message}");
    let missing = import_file(dir.path(), dir.path().join("none.csv"), Some(MAP)).unwrap_err();
    assert!(missing.to_string().contains("none.csv: cannot open"), "{missing}");
}

/// Whatever the bytes are: an error or a summary, never a panic.
#[test]
fn damaged_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = 99_u64;
    let good = b"host,ts,disk,lat,tp\nh1,100,d1,5.5,1\nh1,115,d1,,2\n".repeat(4);
    for _ in 0..100 {
        let mut bytes = good.clone();
        for _ in 0..4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 20) as u8;
        }
        let file = dir.path().join("damaged.csv");
        std::fs::write(&file, &bytes).unwrap();
        let _ = import_file(dir.path(), file.clone(), Some(MAP));
        let mut parquet = b"PAR1".to_vec();
        parquet.extend(&bytes);
        std::fs::write(&file, &parquet).unwrap();
        assert!(import_file(dir.path(), file, Some(MAP)).is_err());
    }
}
