//! CSV files become sealed tables; what is wrong with them is said with line and column.
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::RecordBatch;
use case::sealed::{Names, SealWriter};
use import::{ImportError, Request, Summary};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
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
        format: Some("series".into()),
        map: map.map(str::to_owned),
        ..Request::default()
    };
    let summary = import::import(&request, &mut writer, &mut Names::default(), &mut |_| {})?;
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
    // The last record of a table need not end with a line; it is read, and what that may mean is told.
    assert!(
        summary.cut.len() == 1
            && summary.cut[0].contains("input.csv: line 7 (byte 77): expected the end of a line")
            && summary.not_observed[0].what.contains("whether the last value"),
        "{:?}",
        summary.cut
    );
    assert_eq!(summary.end_ns, 30_000_000_000);
    let said: Vec<String> = summary.not_observed.iter().map(|u| u.what.clone()).collect();
    assert_eq!(
        said[1..],
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

/// What became of the file.
fn batches(dir: &Path) -> impl Iterator<Item = RecordBatch> {
    let file = File::open(dir.join("series/part-0.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    reader.map(Result::unwrap)
}

/// Host and subject of each row; `-` = none.
fn names(dir: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches(dir) {
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

/// All of each row.
fn rows(dir: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches(dir) {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let time = column("time_ns").as_primitive::<Int64Type>();
        let value = column("value").as_primitive::<Float64Type>();
        let metric = column("metric").as_string::<i32>();
        rows.extend((0..batch.num_rows()).map(|row| {
            let (time, metric, value) = (time.value(row), metric.value(row), value.value(row));
            format!("{time} {metric} {value:?}")
        }));
    }
    let names = names(dir);
    rows.iter()
        .zip(names)
        .map(|(row, name)| format!("{name} {row}"))
        .collect()
}

/// Columns in this order, each field as it is or in quotes; `end` after each line.
fn table(columns: &[&str], records: &[[String; 6]], quoted: bool, end: &str) -> String {
    let all = ["host", "disk", "ts", "lat", "tp", "other"];
    let mut text = columns.join(",") + end;
    for record in records {
        let field = |name: &&str| {
            let value = &record[all.iter().position(|other| other == name).unwrap()];
            if quoted {
                format!("\"{value}\"")
            } else {
                value.clone()
            }
        };
        text += &(columns.iter().map(field).collect::<Vec<_>>().join(",") + end);
    }
    text
}

fn same_with_quotes(
    columns: &[&str],
    records: &[[String; 6]],
    end: &str,
) -> (Vec<String>, Vec<String>, [String; 2]) {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let said = [false, true].map(|quoted| {
        let text = table(columns, records, quoted, end);
        let summary = import(dirs[usize::from(quoted)].path(), &text, Some(MAP));
        summary.map_or_else(
            |e| e.to_string(),
            |s| format!("{} {} {}", s.records, s.rows, s.end_ns),
        )
    });
    (rows(dirs[0].path()), rows(dirs[1].path()), said)
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "h", "h1", "host-number-1", "host-number-12", "a b"])
        .prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0_u64..100_000_000, 0_u32..1000).prop_map(|(whole, part)| format!("{whole}.{part}")),
        1 => (0_u64..u64::MAX).prop_map(|whole| whole.to_string()),
        1 => prop::sample::select(vec!["", "NA", "-3.5", "1e3", ".5", "7."]).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Fields in quotes are read one by one, the others at a run: both give the same.
    #[test]
    fn fields_in_quotes_are_the_same_fields(
        columns in Just(vec!["host", "disk", "ts", "lat", "tp", "other"]).prop_shuffle(),
        records in prop::collection::vec(
            (name(), name(), 0_u32..4_000_000_000, value(), value(), value(), 1_usize..4), 1..20
        ),
        end in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let records: Vec<[String; 6]> = records
            .into_iter()
            .flat_map(|(host, disk, ts, lat, tp, other, times)| {
                std::iter::repeat_n([host, disk, ts.to_string(), lat, tp, other], times)
            })
            .collect();
        let (plain, quoted, said) = same_with_quotes(&columns, &records, end);
        prop_assert_eq!(&said[0], &said[1]);
        prop_assert_eq!(plain, quoted);
    }
}

#[test]
fn a_file_of_many_blocks() {
    let record = |number: u64| {
        let disk = format!("disk{}", number / 1000 % 7);
        let value = format!("{}.{}", number * 7919 % 100_000, number % 97);
        [
            "h".into(),
            disk,
            (number * 15).to_string(),
            value.clone(),
            value,
            "x".into(),
        ]
    };
    let records: Vec<[String; 6]> = (0..30_000).map(record).collect();
    for columns in [
        ["host", "disk", "ts", "lat", "tp", "other"],
        ["ts", "lat", "other", "host", "disk", "tp"],
    ] {
        let (plain, quoted, said) = same_with_quotes(&columns, &records, "\n");
        assert_eq!(said[0], "30000 60000 449985000000000");
        assert_eq!(said[0], said[1]);
        assert!(plain == quoted);
    }
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
fn decimal_commas_need_another_mark_between_fields() {
    let dir = tempfile::tempdir().unwrap();
    let map = Some("device=disk,t=ts:s,latency=lat:us");
    let text = "ts;disk;lat\n1;d1;1,5\n2;d1;1,234\n3;d1;2\n";
    let summary = import(dir.path(), text, map).unwrap();
    assert_eq!(summary.rows, 3);
    let values: Vec<f64> = batches(dir.path())
        .flat_map(|batch| {
            let values = batch.column_by_name("value").unwrap();
            values.as_primitive::<Float64Type>().values().to_vec()
        })
        .collect();
    assert_eq!(values, [1500.0, 1234.0, 2000.0]);
    // Here they move what stands behind them.
    for text in [
        "ts,lat,disk\n1,1,5,d1\n2,2,0,d1\n",
        "ts,disk,lat\n1,d1,1,5\n",
        "ts,disk,lat\n1,d1,2\n1,d1,1,5\n",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let error = import(dir.path(), text, map).unwrap_err().to_string();
        assert!(
            error.contains("expected 3 fields, as in the header, found 4"),
            "{error}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        import(dir.path(), "ts,disk,lat\n1,d1,2,\n2,d1,2,,\n", map)
            .unwrap()
            .rows,
        2
    );
}

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

#[test]
fn a_file_of_one_drive_needs_no_column_of_devices() {
    let dir = tempfile::tempdir().unwrap();
    let map = "t=ts:s,latency=lat:us";
    let subjects = |device: Option<&str>, names: &[&str]| {
        let case = tempfile::tempdir().unwrap();
        let files = names.iter().map(|name| {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "ts,lat\n100,5.5\n115,6\n").unwrap();
            file
        });
        let request = Request {
            files: files.collect(),
            format: Some("series".into()),
            map: Some(map.into()),
            device: device.map(str::to_owned),
            ..Request::default()
        };
        let mut writer = SealWriter::create(case.path()).unwrap();
        import::import(&request, &mut writer, &mut Names::default(), &mut |_| {}).unwrap();
        writer.finish().unwrap();
        let mut found = std::collections::BTreeSet::new();
        for batch in batches(case.path()) {
            let column = batch.column_by_name("subject").unwrap().as_string::<i32>();
            found.extend(column.iter().flatten().map(str::to_owned));
        }
        found.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(subjects(Some("sdb"), &["trat_0.csv"]), ["sdb"]);
    assert_eq!(subjects(None, &["trat_0.csv"]), ["trat_0"]);
    assert_eq!(
        subjects(None, &["trat_0.csv", "trat_1.csv"]),
        ["trat_0", "trat_1"]
    );
    let alike = subjects(None, &["a/disk.csv", "b/disk.csv"]);
    assert!(
        alike[0].ends_with("a/disk") && alike[1].ends_with("b/disk"),
        "{alike:?}"
    );
}
