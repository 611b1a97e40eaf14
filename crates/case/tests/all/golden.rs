//! The golden case: the same rows must give the same bytes, today and after every change.
//!
//! When the format changes on purpose: `WHODISK_GOLDEN=write cargo test --release -p whodisk-case --test all golden`,
//! then read the difference, raise `FORMAT_VERSION` where old readers would be misled, and write a decision note.
use crate::common;
use std::path::Path;

#[test]
fn same_rows_give_the_committed_bytes() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    if std::env::var("WHODISK_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::remove_dir_all(&golden).unwrap();
        std::fs::create_dir_all(&golden).unwrap();
        common::write_case(&golden);
    }
    let folder = common::folder();
    common::write_case(folder.path());
    assert_eq!(common::files(folder.path()), common::files(&golden));
    for file in common::files(&golden) {
        let (now, then) = (
            std::fs::read(folder.path().join(&file)).unwrap(),
            std::fs::read(golden.join(&file)).unwrap(),
        );
        let at = now
            .iter()
            .zip(&then)
            .position(|(a, b)| a != b)
            .unwrap_or(now.len().min(then.len()));
        assert!(
            now == then,
            "{file}: differs at byte {at} ({} bytes now, {} golden)",
            now.len(),
            then.len()
        );
    }
}

/// What older versions wrote is as good as it was.
#[test]
fn cases_of_earlier_versions_are_whole() {
    for version in 1..case::schema::FORMAT_VERSION {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden_{version}"));
        let meta = case::meta::CaseMeta::read(&golden).unwrap();
        assert_eq!(meta.version, version);
        assert_eq!(case::verify::damage(&golden, &meta), []);
        let report = case::verify::verify(&golden).unwrap();
        assert!(
            report.problems.is_empty(),
            "version {version}: {:?}",
            report.problems
        );
        let copy = common::folder();
        let key = case::redact::Key([7; 2]);
        case::redact::redact(&golden, copy.path(), key, &|| false).unwrap();
        assert_eq!(
            case::verify::verify(copy.path()).unwrap().problems,
            [],
            "version {version}"
        );
    }
}

#[test]
fn sealing_twice_gives_the_same_bytes_and_leaves_no_leftovers() {
    let (once, twice) = (common::folder(), common::folder());
    common::write_case(once.path());
    let mut meta = common::write_case(twice.path());
    // What a killed seal may leave behind: a half table, and a table that the next seal has no rows for.
    std::fs::write(twice.path().join("links/part-0.parquet.tmp"), b"half").unwrap();
    std::fs::create_dir_all(twice.path().join("ops/layer=device")).unwrap();
    std::fs::write(twice.path().join("ops/layer=device/part-0.parquet"), b"old").unwrap();
    common::seal(twice.path(), &mut meta);
    assert_eq!(common::files(once.path()), common::files(twice.path()));
    for file in common::files(once.path()) {
        let bytes = |dir: &Path| std::fs::read(dir.join(&file)).unwrap();
        assert!(bytes(once.path()) == bytes(twice.path()), "{file}");
    }
}
