//! What every registered format must do: its fixture is recognised, gives what is written down, and stays harmless however it is damaged.
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use case::sealed::{Names, SealWriter};
use import::{Format, Head, ImportError, Request, Summary, FORMATS};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

fn fixtures(name: &str) -> (Vec<PathBuf>, Option<String>, PathBuf) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("{name}: a fixture in {}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        file.file_name()
            .is_some_and(|name| name != "map" && name != "golden.txt")
    });
    files.sort();
    (
        files,
        std::fs::read_to_string(folder.join("map")).ok(),
        folder.join("golden.txt"),
    )
}

/// In memory, where there is a place for it: tables are synchronised to their disk.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn import(
    name: &str,
    files: &[PathBuf],
    map: &Option<String>,
    keep_going: bool,
) -> Result<Summary, ImportError> {
    import_to(folder().path(), name, files, map, keep_going).map(|(summary, _)| summary)
}

/// And the tables that have rows.
fn import_to(
    case: &Path,
    name: &str,
    files: &[PathBuf],
    map: &Option<String>,
    keep_going: bool,
) -> Result<(Summary, Vec<String>), ImportError> {
    let mut writer = SealWriter::create(case).unwrap();
    let request = Request {
        files: files.to_vec(),
        format: Some(name.into()),
        map: map.clone(),
        keep_going,
        ..Request::default()
    };
    let summary = import::import(&request, &mut writer, &mut Names::default(), &mut |_| {})?;
    let tables = writer.finish().unwrap();
    let filled = tables.into_iter().filter(|(_, meta)| meta.rows > 0);
    Ok((summary, filled.map(|(path, _)| path).collect()))
}

/// A value as text; "" where there is none.
fn text_of(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return String::new();
    }
    match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_string(),
        other => panic!("a column of {other}"),
    }
}

/// A row as text: what it says, and under which name.
fn row_text(batch: &RecordBatch, row: usize) -> String {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let told: Vec<String> = columns
        .map(|(field, column)| (field.name(), text_of(column, row)))
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("{name}={text}"))
        .collect();
    told.join(" ")
}

/// What is in a table: its first rows and its last one for people, and a hash of all of them for the rest.
fn table_text(case: &Path, table: &str) -> String {
    let file = std::fs::File::open(case.join(table)).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    let rows: Vec<String> = reader
        .flat_map(|batch| {
            let batch = batch.unwrap();
            (0..batch.num_rows())
                .map(|row| row_text(&batch, row))
                .collect::<Vec<_>>()
        })
        .collect();
    let mut hash = twox_hash::XxHash64::with_seed(0);
    rows.iter()
        .for_each(|row| hash.write(format!("{row}\n").as_bytes()));
    let mut text = format!("table {table} rows {} hash {:016x}\n", rows.len(), hash.finish());
    for (at, row) in rows.iter().enumerate() {
        if at < ROWS_SHOWN || at + 1 == rows.len() {
            text += &format!("  {at}: {row}\n");
        }
    }
    text
}

/// The first rows of a table that are written down.
const ROWS_SHOWN: usize = 2;

fn shown(format: &Format, summary: &Summary) -> String {
    let mut text = format!(
        "records {} rows {} start {} unix {:?} end {} resolution {} clock {}\n",
        summary.records,
        summary.rows,
        summary.start_ns,
        summary.start_unix_ns,
        summary.end_ns,
        summary.resolution_ns,
        summary.clock
    );
    for (layer, meta) in &summary.layers {
        text += &format!("layer {layer} rows {} stages {:?}", meta.rows, meta.stages);
        let cut_off = |least_ns| format!(", only slower than {least_ns} ns");
        text += &meta.slower_than_ns.map_or_else(String::new, cut_off);
        let skipped = |count| format!(", {count} skipped");
        text += &meta.skipped.map_or_else(String::new, skipped);
        let failed = |count| format!(", {count} failed");
        text += &meta.failed.map_or_else(String::new, failed);
        text += "\n";
    }
    for (what, _) in format.not_carried {
        text += &format!("never carried: {what}\n");
    }
    let folder = format!("{}/tests/fixtures/", env!("CARGO_MANIFEST_DIR"));
    for unseen in summary.missing.iter().chain(&summary.not_observed) {
        text += &format!("unseen {}: {}\n", unseen.what, unseen.because).replace(&folder, "");
    }
    text
}

/// `WHODISK_WRITE_GOLDEN=1` writes down what the fixtures give now; look at the difference before it is committed.
#[test]
fn fixtures_are_recognised_and_give_what_is_written_down() {
    for format in FORMATS {
        let (files, map, golden) = fixtures(format.name);
        for file in &files {
            let head = Head::read(file).unwrap();
            let fitting: Vec<&str> = FORMATS
                .iter()
                .filter(|one| (one.recognise)(&head))
                .map(|one| one.name)
                .collect();
            // Nothing but their mapping identifies tables of any columns.
            let is_table = map.is_some() && fitting.is_empty();
            assert!(
                is_table || fitting == [format.name],
                "{}: {fitting:?}",
                file.display()
            );
        }
        let case = folder();
        let (summary, tables) = import_to(case.path(), format.name, &files, &map, false)
            .unwrap_or_else(|e| panic!("{}: {e}", format.name));
        assert!(summary.rows > 0 && summary.left_out == 0, "{}", format.name);
        let mut told = shown(format, &summary);
        tables
            .iter()
            .for_each(|table| told += &table_text(case.path(), table));
        if std::env::var_os("WHODISK_WRITE_GOLDEN").is_some() {
            std::fs::write(&golden, &told).unwrap();
        }
        assert_eq!(
            told,
            std::fs::read_to_string(&golden).unwrap_or_default(),
            "{}",
            format.name
        );
    }
}

/// Text whose lines a logger dated, or that was copied from a terminal, gives the same.
#[test]
fn fixtures_are_read_behind_what_loggers_and_shells_add() {
    let ways = [
        ("ts", "Nov 27 10:00:00 "),
        ("journald", "2026-11-27T10:00:00+0100 db1 tool[4711]: "),
        ("containerd", "2026-11-27T10:00:00.5Z stdout F "),
        ("Python's logging", "2026-11-27 10:00:00,123 - INFO - "),
        ("docker compose", "db-1  | "),
        ("kubectl logs --prefix", "[pod/db-0/tool] "),
        ("a terminal", ""),
    ];
    let changed = |begin: &str, text: &str| -> String {
        match begin {
            "" => format!("[root@db1 ~]# ./tool 1 60\n{text}[root@db1 ~]# "),
            _ => text.lines().map(|line| format!("{begin}{line}\n")).collect(),
        }
    };
    let mut seen = 0;
    for format in FORMATS {
        let (files, map, _) = fixtures(format.name);
        let texts: Option<Vec<String>> = files
            .iter()
            .map(|file| std::fs::read_to_string(file).ok())
            .collect();
        // Tables of any columns begin with their header.
        let is_table = files
            .iter()
            .any(|file| !(format.recognise)(&Head::read(file).unwrap()));
        let (Some(texts), false) = (texts, is_table) else {
            continue;
        };
        let plain = import(format.name, &files, &map, false).unwrap();
        for (way, begin) in ways {
            // Nobody copies from a terminal what tools write into files.
            let is_file = ["fio-", "pgbench", "hdr-log", "rocksdb-"]
                .iter()
                .any(|begin| format.name.starts_with(begin));
            if way == "a terminal" && is_file {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let paths: Vec<PathBuf> = files
                .iter()
                .zip(&texts)
                .map(|(file, text)| {
                    let path = folder.path().join(file.file_name().unwrap());
                    std::fs::write(&path, changed(begin, text)).unwrap();
                    path
                })
                .collect();
            let summary = import(format.name, &paths, &map, false)
                .unwrap_or_else(|e| panic!("{} behind {way}: {e}", format.name));
            assert_eq!(
                (summary.records, summary.rows, summary.cut.len()),
                (plain.records, plain.rows, plain.cut.len()),
                "{} behind {way}",
                format.name
            );
            seen += 1;
        }
    }
    assert!(seen > 80, "{seen}");
}

/// Through pipes, the same comes out, tables of Parquet excepted: their end is read first.
#[test]
fn fixtures_come_through_pipes() {
    let mut seen = 0;
    for format in FORMATS {
        let (files, map, golden) = fixtures(format.name);
        if files
            .iter()
            .any(|file| std::fs::read(file).unwrap().starts_with(b"PAR1"))
        {
            continue;
        }
        let (pipes, case) = (tempfile::tempdir().unwrap(), folder());
        let mut paths = Vec::new();
        for file in files {
            let path = pipes.path().join(file.file_name().unwrap());
            let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
            let to = path.clone();
            // A log of which another file says more is not read to its end.
            std::thread::spawn(move || std::fs::write(to, std::fs::read(file).unwrap()));
            paths.push(path);
        }
        let (summary, tables) = import_to(case.path(), format.name, &paths, &map, false)
            .unwrap_or_else(|e| panic!("{}: {e}", format.name));
        let mut told = shown(format, &summary).replace(
            &format!("{}/", pipes.path().display()),
            &format!("{}/", format.name),
        );
        tables
            .iter()
            .for_each(|table| told += &table_text(case.path(), table));
        assert_eq!(told, std::fs::read_to_string(&golden).unwrap(), "{}", format.name);
        seen += 1;
    }
    assert!(seen >= 30, "{seen} formats");
}

/// Version 8, and the other byte order, give what version 7 gives: the same records, written otherwise.
#[test]
fn traces_of_every_version_and_byte_order_are_read() {
    let (files, ..) = fixtures("blktrace");
    let name = files[0].file_name().unwrap();
    let whole = std::fs::read(&files[0]).unwrap();
    let told = [(7, false), (7, true), (8, false), (8, true)].map(|(version, is_big)| {
        let (mut bytes, mut at) = (Vec::new(), 0);
        let number = |from: usize, width: usize| {
            let mut wide = [0_u8; 8];
            wide[..width].copy_from_slice(&whole[from..from + width]);
            u64::from_le_bytes(wide)
        };
        while at + 48 <= whole.len() {
            let payload = number(at + 46, 2);
            let mut put = |value: u64, width: usize| match is_big {
                true => bytes.extend_from_slice(&value.to_be_bytes()[8 - width..]),
                false => bytes.extend_from_slice(&value.to_le_bytes()[..width]),
            };
            put(0x6561_7400 | version, 4);
            // Number, moment, sector, bytes.
            [(4, 4), (8, 8), (16, 8), (24, 4)]
                .into_iter()
                .for_each(|(from, width)| put(number(at + from, width), width));
            let (action, pid) = (number(at + 28, 4), number(at + 32, 4));
            match version {
                7 => [action, pid].into_iter().for_each(|value| put(value, 4)),
                _ => [(pid, 4), (action, 8)]
                    .into_iter()
                    .for_each(|(value, width)| put(value, width)),
            }
            // Device, CPU, error, length of the payload.
            [(36, 4), (40, 4), (44, 2), (46, 2)]
                .into_iter()
                .for_each(|(from, width)| put(number(at + from, width), width));
            if version == 8 {
                bytes.extend_from_slice(&[0; 12]);
            }
            let end = at + 48 + payload as usize;
            bytes.extend_from_slice(&whole[at + 48..end]);
            at = end;
        }
        let (folder, case) = (folder(), folder());
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let (summary, tables) = import_to(case.path(), "blktrace", &[path], &None, false).unwrap();
        assert_eq!(summary.records, 32);
        let tables = tables.iter().map(|table| table_text(case.path(), table));
        (bytes, tables.collect::<String>())
    });
    assert!(
        whole.starts_with(&told[0].0),
        "version 7 in this byte order is the file itself"
    );
    assert!(told.iter().all(|(_, tables)| *tables == told[0].1));
}

fn told(files: &[PathBuf]) -> Result<Summary, String> {
    let case = folder();
    let request = Request {
        files: files.to_vec(),
        ..Request::default()
    };
    let mut writer = SealWriter::create(case.path()).unwrap();
    import::import(&request, &mut writer, &mut Names::default(), &mut |_| {})
        .map_err(|error| error.to_string())
}

#[test]
fn what_is_no_log_yet_is_told() {
    let folder = folder();
    let path = folder.path().join("x.txt");
    for (bytes, found, hint) in [
        (&b""[..], "found an empty file", "check the path"),
        (b"\x1f\x8b\x08\0", "found what gzip packed", "zcat FILE"),
        (b"\x28\xb5\x2f\xfd", "found what zstd packed", "zstdcat FILE"),
        (b"no log", "found 'no log'", "--as FORMAT"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = told(std::slice::from_ref(&path)).unwrap_err();
        assert!(
            error.contains("x.txt: begin: expected") && error.contains(found) && error.contains(hint),
            "{error}"
        );
    }
}

/// fio writes a log of submission latencies without a line where its engine has none.
#[test]
fn an_empty_file_beside_others_stops_none() {
    let folder = folder();
    let paths = ["a_lat.1.log", "a_slat.1.log"].map(|name| folder.path().join(name));
    std::fs::write(
        &paths[0],
        "0, 11023, 0, 4096, 503808, 0x0000\n1, 3064, 1, 4096, 0, 0x0000\n",
    )
    .unwrap();
    std::fs::write(&paths[1], "").unwrap();
    let summary = told(&paths).unwrap();
    assert_eq!(summary.records, 2);
    assert!(summary
        .missing
        .iter()
        .any(|one| one.what.contains("a_slat.1.log") && one.because.contains("empty")));
    let error = told(&[paths[1].clone(), paths[1].clone()]).unwrap_err();
    assert!(error.contains("an empty file"), "{error}");
}

/// Of CPUs that saw nothing blktrace writes empty files; they are there, so no completion is missing for them.
#[test]
fn a_cpu_that_saw_nothing_is_there() {
    let (files, ..) = fixtures("blktrace");
    let folder = folder();
    let copies = [0, 1, 2].map(|cpu| folder.path().join(format!("loop0.blktrace.{cpu}")));
    std::fs::write(&copies[0], "").unwrap();
    std::fs::copy(&files[0], &copies[1]).unwrap();
    std::fs::write(&copies[2], "").unwrap();
    let summary = told(&copies).unwrap();
    assert_eq!((summary.logs.len(), summary.records), (1, 32));
    // The sample itself is cut off; nothing else is missing.
    let missing: Vec<&str> = summary.missing.iter().map(|one| one.what.as_str()).collect();
    assert!(
        missing.len() == 1 && missing[0].contains("follows the end"),
        "{missing:?}"
    );
}

/// A tool that was run twice into one file says at the begin of each run what it does.
#[test]
fn two_runs_of_hardirqs_are_read() {
    let (files, ..) = fixtures("hardirqs");
    let folder = folder();
    let path = folder.path().join("twice.txt");
    std::fs::write(&path, std::fs::read_to_string(&files[0]).unwrap().repeat(2)).unwrap();
    assert_eq!(told(&[path]).unwrap().records, 12);
}

/// Lines that are read many at once give what they give one by one: with quotes, or more blanks, each is looked at closely.
#[test]
fn plain_lines_give_what_others_give() {
    let mut draw = Draw(7);
    let header = "t,lat,kind,where,len,disk,note";
    let (mut plain, mut quoted) = (format!("{header}\n"), format!("{header}\n"));
    let (mut printed, mut spread) = (String::new(), String::new());
    for row in 0..5_000_u64 {
        let disk = ["sda", "sdb", ""][draw.below(40) % 3 * usize::from(row % 300 < 200)];
        let kind = ["R", "write", "flush", "0"][draw.below(4)];
        let fraction = ["", ".5", ".250", ".123456789012"][draw.below(4)];
        let place = if draw.below(50) == 0 {
            "NULL".to_owned()
        } else {
            (draw.below(1 << 30) * 512).to_string()
        };
        let cells = [
            format!("{}{fraction}", row * 10),
            draw.below(5_000).to_string(),
            kind.to_owned(),
            place,
            "4096".to_owned(),
            disk.to_owned(),
            "x y".to_owned(),
        ];
        plain += &format!("{}\n", cells.join(","));
        quoted += &format!("\"{}\"\r\n", cells.join("\",\""));
        let (latency, direction, size) = (draw.below(900_000), draw.below(2), [4096, 512][draw.below(9) / 8]);
        let fields = [
            (row / 3).to_string(),
            latency.to_string(),
            direction.to_string(),
            size.to_string(),
            (row * 512).to_string(),
            "0x0000".to_owned(),
        ];
        printed += &format!("{}\n", fields.join(", "));
        spread += &format!("{}\n", fields.join(",  "));
    }
    let map = "start=t:us,latency=lat:us,op=kind,offset=where:B,size=len:B,device=disk";
    for (format, name, map, texts) in [
        ("ops", "x.csv", Some(map.to_owned()), [plain, quoted]),
        ("fio-lat", "x_lat.1.log", None, [printed, spread]),
    ] {
        let told = texts.map(|text| {
            let (folder, case) = (folder(), folder());
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let (summary, tables) = import_to(case.path(), format, &[path], &map, false).unwrap();
            assert_eq!(summary.records, 5_000);
            tables
                .iter()
                .map(|table| table_text(case.path(), table))
                .collect::<String>()
        });
        assert_eq!(told[0], told[1]);
    }
}

/// Pseudo-random numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }
}

/// What trips parsers up.
const TOKENS: [&[u8]; 20] = [
    b"-1",
    b"0",
    b"18446744073709551615",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"99999999999999999999999999",
    b"4294967296",
    b"1e308",
    b"NaN",
    b"0.0000000000001",
    b"\n",
    b"\r\n",
    b",",
    b" ",
    b"\0",
    b"\xff\xfe",
    b"\"",
    b"{",
    b"[[[[[[[[",
    b"<",
];

/// Damages a file: cut, changed, moved, numbers made extreme; up to four times.
fn damage(bytes: &mut Vec<u8>, draw: &mut Draw) {
    for _ in 0..=draw.below(4) {
        let (at, length) = (draw.below(bytes.len()), 1 + draw.below(40));
        let end = (at + length).min(bytes.len());
        match draw.below(8) {
            0 => bytes.truncate(at),
            1 => bytes[at..end]
                .iter_mut()
                .for_each(|byte| *byte = draw.below(256) as u8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                let to = draw.below(bytes.len());
                bytes.splice(to..to, part);
            }
            4 => {
                let token = TOKENS[draw.below(TOKENS.len())];
                bytes.splice(at..at, token.iter().copied());
            }
            5 => {
                // The next number of a text becomes another.
                let rest = &bytes[at..];
                let begin = at + rest.iter().position(u8::is_ascii_digit).unwrap_or(rest.len());
                let digits = bytes[begin..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                let token = TOKENS[draw.below(10)];
                bytes.splice(begin..begin + digits, token.iter().copied());
            }
            6 => bytes[at..end].fill([0, 0x7f, 0x80, 0xff][draw.below(4)]),
            _ => bytes[at..end].reverse(),
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// Damaged anyhow, a file gives an error that names it, or a case; never a panic, and rows in proportion to what it holds. With `--keep-going` never
/// other rows than without, if that gives a case, too. `WHODISK_FUZZ_SECONDS=60` goes on for this time with each format (`make fuzz`),
/// `WHODISK_FUZZ_SEED` begins elsewhere.
#[test]
fn damaged_fixtures_are_errors_or_cases() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    let seconds = number("WHODISK_FUZZ_SECONDS");
    let seed = number("WHODISK_FUZZ_SEED").unwrap_or(1);
    let folder = folder();
    for format in FORMATS {
        let (files, map, _) = fixtures(format.name);
        let begun = std::time::Instant::now();
        let (mut rounds, mut longest) = (0_u64, std::time::Duration::ZERO);
        while match seconds {
            Some(seconds) => begun.elapsed().as_secs() < seconds,
            None => rounds < 8,
        } {
            rounds += 1;
            let mut draw = Draw((seed << 32 | rounds).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let whole = &files[draw.below(files.len())];
            let file = folder.path().join(whole.file_name().unwrap());
            let mut bytes = std::fs::read(whole).unwrap();
            damage(&mut bytes, &mut draw);
            std::fs::write(&file, &bytes).unwrap();
            let inputs = vec![file.clone(); 1 + draw.below(2)];
            let place = format!("{} seed {seed} round {rounds}", format.name);
            let import_begun = std::time::Instant::now();
            let found = [false, true].map(|keep_going| {
                let done = std::panic::catch_unwind(|| import(format.name, &inputs, &map, keep_going));
                match done.unwrap_or_else(|_| panic!("{place}: it panicked")) {
                    Ok(summary) => {
                        assert!(
                            summary.rows <= 100 * bytes.len() as u64 + 100,
                            "{place}: {} rows of {} bytes",
                            summary.rows,
                            bytes.len()
                        );
                        Some(summary.rows)
                    }
                    Err(error) => {
                        let said = error.to_string();
                        let name = file.file_name().unwrap().to_str().unwrap();
                        assert!(said.contains(name) || said.contains("--map"), "{place}: {said}");
                        None
                    }
                }
            });
            longest = longest.max(import_begun.elapsed());
            if let [Some(strict), Some(kept)] = found {
                assert_eq!(strict, kept, "{place}");
            }
        }
        if seconds.is_some() {
            println!("{}: {rounds} inputs, the longest took {longest:?}", format.name);
        }
    }
}
