//! A sealed case in which one table holds anything: `verify` reports, it does not panic.
//! The first byte of the input names the table.
#![no_main]
use case::meta::{CaseMeta, LayerMeta, State, SystemMeta};
use case::schema::Layer;
use case::sealed::SealWriter;
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use tempfile::TempDir;

/// A case with empty tables and without checksums, so that the decoder sees every byte.
fn empty_case() -> &'static (TempDir, Vec<String>) {
    static CASE: OnceLock<(TempDir, Vec<String>)> = OnceLock::new();
    CASE.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").expect("room in /dev/shm");
        let mut seal = SealWriter::create(folder.path()).expect("room in /dev/shm");
        let mut meta = CaseMeta::new("run", "0");
        for layer in [Layer::App, Layer::Block] {
            seal.declare(layer);
            meta.layers.insert(layer.name().into(), LayerMeta::default());
        }
        let tables = seal.finish().expect("room in /dev/shm").into_keys().collect();
        meta.state = State::Sealed;
        meta.write(folder.path()).expect("room in /dev/shm");
        SystemMeta::default().write(folder.path()).expect("room in /dev/shm");
        (folder, tables)
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, content)) = data.split_first() else { return };
    let (folder, tables) = empty_case();
    let path = folder.path().join(&tables[usize::from(*choice) % tables.len()]);
    let empty = std::fs::read(&path).expect("the table of the empty case");
    std::fs::write(&path, content).expect("room in /dev/shm");
    let report = case::verify::verify(folder.path());
    std::fs::write(&path, empty).expect("room in /dev/shm");
    report.expect("a damaged table is a problem, not an error");
});
