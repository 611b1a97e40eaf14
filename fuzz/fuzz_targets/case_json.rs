//! `case.json` and `system.json` that may hold anything: an error or a value that survives a round trip.
#![no_main]
use case::meta::{CaseMeta, SystemMeta};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let path = Path::new("case.json");
    match CaseMeta::parse(data, path) {
        Ok(meta) => {
            let again = CaseMeta::parse(&meta.to_json(), path).expect("what we wrote can be read");
            assert_eq!(meta.to_json(), again.to_json());
        }
        Err(error) => assert!(error.to_string().starts_with("case.json: ")),
    }
    let _ = SystemMeta::parse(data, path);
});
