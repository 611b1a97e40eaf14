//! case.json and system.json: round trips, atomic replacement, errors that name file and key.
use crate::common;
use case::meta::{CaseMeta, SystemMeta};
use std::path::Path;

fn error_of(text: &str) -> String {
    CaseMeta::parse(text.as_bytes(), Path::new("x/case.json"))
        .unwrap_err()
        .to_string()
}

#[test]
fn both_files_come_back() {
    let folder = common::folder();
    let (meta, system) = (common::case_meta(), common::system_meta());
    for _ in 0..2 {
        meta.write(folder.path()).unwrap();
        system.write(folder.path()).unwrap();
    }
    assert_eq!(CaseMeta::read(folder.path()).unwrap(), meta);
    assert_eq!(SystemMeta::read(folder.path()).unwrap(), system);
    assert_eq!(
        common::files(folder.path()),
        ["case.json", "system.json"],
        "no temporary file is left"
    );
}

#[test]
fn this_host_can_be_described() {
    let folder = common::folder();
    let system = SystemMeta::collect();
    assert!(system.cpus >= 1 && system.memory_bytes > 1 << 20 && !system.kernel.is_empty());
    system.write(folder.path()).unwrap();
    assert_eq!(SystemMeta::read(folder.path()).unwrap(), system);
}

#[test]
fn errors_name_file_place_and_finding() {
    let cases = [
        (
            "",
            "x/case.json: line 1 column 0: expected JSON, found EOF while parsing a value",
        ),
        (
            "{\n  \"format\": whodisk",
            "line 2 column 13: expected JSON, found expected value",
        ),
        ("[]", "key format: expected \"whodisk-case\", found no such key"),
        (
            r#"{"format": "fio"}"#,
            "key format: expected \"whodisk-case\", found \"fio\"",
        ),
        (
            r#"{"format": "whodisk-case"}"#,
            "key version: expected a number, found no such key",
        ),
        (
            r#"{"format": "whodisk-case", "version": "1"}"#,
            "key version: expected a number, found \"1\"",
        ),
        (
            r#"{"format": "whodisk-case", "version": 0}"#,
            "key version: expected 1 to 4, found 0",
        ),
        (
            r#"{"format": "whodisk-case", "version": 5}"#,
            "case format version 5, this whodisk reads up to 4",
        ),
        (
            r#"{"format": "whodisk-case", "version": 1}"#,
            "found missing field `observer`",
        ),
    ];
    for (text, expected) in cases {
        let error = error_of(text);
        assert!(
            error.starts_with("x/case.json: ") && error.contains(expected),
            "{text}\n{error}"
        );
    }
}

#[test]
fn unknown_keys_of_the_same_version_are_ignored() {
    let mut value = serde_json::to_value(common::case_meta()).unwrap();
    value["new_key"] = serde_json::json!({"a": 1});
    let text = serde_json::to_vec(&value).unwrap();
    assert_eq!(
        CaseMeta::parse(&text, Path::new("case.json")).unwrap(),
        common::case_meta()
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_with_its_path() {
    let folder = common::folder();
    let error = common::case_meta()
        .write(&folder.path().join("nothing"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("nothing/case.json: cannot write"), "{error}");
}
