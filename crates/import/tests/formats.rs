//! What every registered format must do: its fixture is recognised, gives what is written down, and stays harmless however it is damaged.
use case::sealed::{Names, SealWriter};
use import::{Head, ImportError, Request, Summary, FORMATS};
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
    let case = folder();
    let mut writer = SealWriter::create(case.path()).unwrap();
    let request = Request {
        files: files.to_vec(),
        format: Some(name.into()),
        map: map.clone(),
        keep_going,
        ..Request::default()
    };
    let summary = import::import(&request, &mut writer, &mut Names::default(), &mut |_| {})?;
    writer.finish().unwrap();
    Ok(summary)
}

fn shown(summary: &Summary) -> String {
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
        text += &format!("layer {layer} rows {} stages {:?}\n", meta.rows, meta.stages);
    }
    let folder = format!("{}/tests/fixtures/", env!("CARGO_MANIFEST_DIR"));
    for unseen in &summary.not_observed {
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
            // Tables of any columns are told by nothing but their mapping.
            let is_table = map.is_some() && fitting.is_empty();
            assert!(
                is_table || fitting == [format.name],
                "{}: {fitting:?}",
                file.display()
            );
        }
        let summary =
            import(format.name, &files, &map, false).unwrap_or_else(|e| panic!("{}: {e}", format.name));
        assert!(summary.rows > 0 && summary.left_out == 0, "{}", format.name);
        if std::env::var_os("WHODISK_WRITE_GOLDEN").is_some() {
            std::fs::write(&golden, shown(&summary)).unwrap();
        }
        assert_eq!(
            shown(&summary),
            std::fs::read_to_string(&golden).unwrap_or_default(),
            "{}",
            format.name
        );
    }
}

/// Cut off anywhere, a byte changed anywhere: an error that names the file, or a case; never a panic. With `--keep-going` never fewer rows.
#[test]
fn damaged_fixtures_are_errors_or_cases() {
    let folder = folder();
    for format in FORMATS {
        let (files, map, _) = fixtures(format.name);
        let whole = std::fs::read(&files[0]).unwrap();
        let file = folder.path().join(files[0].file_name().unwrap());
        let mut seed = 0x9e37_79b9_u64;
        for round in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize % whole.len();
            let mut bytes = whole.clone();
            if round % 2 == 0 {
                bytes.truncate(at);
            } else {
                bytes[at] = (seed >> 13) as u8;
            }
            std::fs::write(&file, &bytes).unwrap();
            let mut rows = Vec::new();
            for keep_going in [false, true] {
                match import(format.name, std::slice::from_ref(&file), &map, keep_going) {
                    Ok(summary) => rows.push(summary.rows),
                    Err(error) => {
                        let said = error.to_string();
                        assert!(
                            said.contains(file.file_name().unwrap().to_str().unwrap()),
                            "{}: {said}",
                            format.name
                        );
                    }
                }
            }
            if let [strict, kept] = rows.as_slice() {
                assert_eq!(strict, kept, "{} round {round}", format.name);
            }
        }
    }
}
