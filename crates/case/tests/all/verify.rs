//! verify: a good case passes, every kind of damage is named.
use crate::common;
use case::meta::{CaseMeta, State};
use case::schema::{Layer, Op, OpRow, Stage, FORMAT_VERSION};
use case::sealed::{Names, SealWriter};
use case::verify::{verify, Report};
use case::CaseError;
use std::path::Path;

fn case() -> (tempfile::TempDir, CaseMeta) {
    let folder = common::folder();
    let meta = common::write_case(folder.path());
    (folder, meta)
}

fn problems(report: &Report) -> String {
    report
        .problems
        .iter()
        .map(|p| format!("{}: {}: {}, {}\n", p.path, p.at, p.expected, p.found))
        .collect()
}

#[test]
fn a_good_case_passes_and_tells_its_losses() {
    let (folder, _) = case();
    let report = verify(folder.path()).unwrap();
    assert_eq!(problems(&report), "");
    assert_eq!(report.rows["ops/layer=app/part-0.parquet"], common::OPS);
    assert_eq!(report.rows["links/part-0.parquet"], common::OPS);
    assert_eq!(report.rows.len(), 11);
    let missing = report.missing.join("\n");
    assert!(missing.contains("run queue: no scheduler probe"), "{missing}");
    assert!(
        missing.contains("block: 412 events lost between 1000 ns and 2000 ns (ring_full)"),
        "{missing}"
    );
    assert!(missing.contains("an unknown number of events"), "{missing}");
}

#[test]
fn what_is_no_case_is_an_error() {
    let folder = common::folder();
    let error = verify(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("not a case") && error.contains("without case.json"),
        "{error}"
    );
    let error = verify(&folder.path().join("nothing")).unwrap_err().to_string();
    assert!(error.contains("no such directory"), "{error}");
}

#[test]
fn a_newer_version_is_refused_before_other_keys() {
    let (folder, _) = case();
    std::fs::write(
        folder.path().join("case.json"),
        r#"{"format": "whodisk-case", "version": 99}"#,
    )
    .unwrap();
    assert!(matches!(
        verify(folder.path()).unwrap_err(),
        CaseError::TooNew {
            found: 99,
            supported: FORMAT_VERSION,
            ..
        }
    ));
}

#[test]
fn a_damaged_case_json_is_a_problem_with_its_place() {
    let (folder, _) = case();
    let path = folder.path().join("case.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"argv\": [", "\"argv\": {")).unwrap();
    let report = verify(folder.path()).unwrap();
    assert!(
        problems(&report).contains("case.json: line 7 column"),
        "{}",
        problems(&report)
    );
    std::fs::write(
        &path,
        text.replace("\"simulated\": false", "\"simulated\": \"maybe\""),
    )
    .unwrap();
    let report = verify(folder.path()).unwrap();
    assert!(
        problems(&report).contains("expected a boolean"),
        "{}",
        problems(&report)
    );
    std::fs::write(&path, text.replace("whodisk-case", "other")).unwrap();
    assert!(
        problems(&verify(folder.path()).unwrap()).contains("key format"),
        "{}",
        problems(&report)
    );
}

#[test]
fn a_missing_table_is_named() {
    let (folder, _) = case();
    std::fs::remove_file(folder.path().join("gaps/part-0.parquet")).unwrap();
    std::fs::remove_file(folder.path().join("system.json")).unwrap();
    let found = problems(&verify(folder.path()).unwrap());
    assert!(
        found.contains("gaps/part-0.parquet: file: the table, no such file"),
        "{found}"
    );
    assert!(found.contains("system.json"), "{found}");
}

/// Cut anywhere or flipped anywhere in any table: each must be found, none may panic. Every 23rd byte,
/// beginning elsewhere in each table; the checksum and the decoder see no difference between bytes.
#[test]
fn every_cut_and_every_flipped_byte_of_a_table_is_found() {
    let (folder, meta) = case();
    for (start, file) in meta.tables.keys().enumerate() {
        let path = folder.path().join(file);
        let good = std::fs::read(&path).unwrap();
        for at in (start..good.len()).step_by(23) {
            std::fs::write(&path, &good[..at]).unwrap();
            let cut = verify(folder.path()).unwrap();
            assert!(cut.problems.iter().any(|p| &p.path == file), "{file} cut at {at}");
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bad).unwrap();
            let flipped = verify(folder.path()).unwrap();
            assert!(
                flipped.problems.iter().any(|p| &p.path == file),
                "{file} flipped at {at}"
            );
        }
        std::fs::write(&path, &good).unwrap();
    }
    assert_eq!(problems(&verify(folder.path()).unwrap()), "");
}

/// Seals the tiny case again with changed block rows, and says what verify finds.
fn with_rows(change: impl Fn(&mut Vec<OpRow>)) -> String {
    let (folder, mut meta) = case();
    let mut names = Names::default();
    let mut seal = SealWriter::create(folder.path()).unwrap();
    let mut rows = common::ops(Layer::Block, &mut names);
    change(&mut rows);
    for row in &rows {
        seal.op(Layer::Block, row, &names).unwrap();
    }
    seal.declare(Layer::App);
    meta.tables = seal.finish().unwrap();
    meta.layers.get_mut("app").unwrap().rows = 0;
    meta.write(folder.path()).unwrap();
    problems(&verify(folder.path()).unwrap())
}

#[test]
fn rows_that_contradict_the_format_are_named() {
    assert_eq!(with_rows(|_| ()), "");
    let expect = |change: &dyn Fn(&mut Vec<OpRow>), at: &str, text: &str| {
        let found = with_rows(change);
        assert!(
            found.contains(at) && found.contains(text),
            "expected {at}: {text}, found:\n{found}"
        );
    };
    let device = Stage::Device as usize;
    expect(&|r| r[3].latency_ns += 1, "row 3, column *_ns", "a sum of 4500");
    expect(&|r| r[4].stages = [None; 9], "row 4, column *_ns", "a sum of 0");
    expect(
        &|r| (r[2].stages[device], r[2].latency_ns) = (Some(-1), 519),
        "row 2, column device_ns",
        "0 or more, -1",
    );
    expect(
        &|r| (r[2].stages[device], r[2].latency_ns) = (Some(-1_000), -480),
        "row 2, column latency_ns",
        "0 or more, -480",
    );
    expect(
        &|r| (r[9].stages[7], r[9].latency_ns) = (Some(5), 4505),
        "row 9, column runqueue_ns",
        "case.json",
    );
    expect(
        &|r| r[6].op_id = r[1].op_id,
        "row 6, column op_id",
        "an id not seen before",
    );
    expect(
        &|r| r[6].op_id = Layer::App.op_id_base(),
        "row 6, column op_id",
        "an id of layer block",
    );
    expect(&|r| r[7].flags = 1 << 30, "row 7, column flags", "1073741824");
    expect(&|r| r[7].weight = f32::NAN, "row 7, column weight", "NaN");
    expect(&|r| r[7].error = -5, "row 7, column error", "-5");
    expect(
        &|r| r[7].queue_depth = Some(0),
        "row 7, column queue_depth",
        "1 or more",
    );
    expect(
        &|r| r[8].offset_bytes = Some(-4096),
        "row 8, column offset_bytes",
        "-4096",
    );
    expect(
        &|r| r[9].foreign_handler_ns = Some(501),
        "row 9, column foreign_handler_ns",
        "interrupt_ns = 500",
    );
    expect(
        &|r| r.truncate(22),
        "key layers.block.rows",
        "22 as in ops/layer=block",
    );
    expect(&|r| r.iter_mut().for_each(|r| r.op = Op::Read), "", "");
}

#[test]
fn many_problems_are_counted_not_listed() {
    let found = with_rows(|rows| rows.iter_mut().for_each(|row| row.latency_ns += 1));
    assert!(
        found.contains("further rows: no problem, 13 more problems"),
        "{found}"
    );
}

#[test]
fn links_to_nothing_and_gaps_beyond_the_end_are_named() {
    let (folder, mut meta) = case();
    meta.duration_ns = Some(350_000_000);
    meta.layers.remove("app");
    meta.write(folder.path()).unwrap();
    std::fs::remove_dir_all(folder.path().join("ops/layer=app")).unwrap();
    let found = problems(&verify(folder.path()).unwrap());
    assert!(
        found.contains("gaps/part-0.parquet: row 0, column duration_ns"),
        "{found}"
    );
    assert!(
        found.contains("links/part-0.parquet: row 0, column parent_id: the op_id of an operation"),
        "{found}"
    );
}

/// Links, cache and further tables refer to operations: that those cannot be read is one problem, not one per reference.
#[test]
fn a_damaged_file_is_told_once_and_with_what_to_do() {
    let (folder, mut meta) = case();
    let app = folder.path().join("ops/layer=app/part-0.parquet");
    let bytes = std::fs::read(&app).unwrap();
    let hint = format!(
        "`whodisk seal {}` builds it again from raw/",
        folder.path().display()
    );
    for damage in ["cut", "gone", "flipped"] {
        match damage {
            "cut" => std::fs::write(&app, &bytes[..bytes.len() / 2]).unwrap(),
            "gone" => std::fs::remove_file(&app).unwrap(),
            _ => {
                let mut flipped = bytes.clone();
                flipped[bytes.len() / 2] ^= 4;
                std::fs::write(&app, &flipped).unwrap();
            }
        }
        let report = verify(folder.path()).unwrap();
        assert_eq!(report.problems.len(), 1, "{damage}: {}", problems(&report));
        let problem = &report.problems[0];
        assert_eq!(problem.path, "ops/layer=app/part-0.parquet", "{damage}");
        assert_eq!(problem.hint, hint, "{damage}");
        let told = case::verify::damage(folder.path(), &meta);
        assert_eq!(told.len(), 1, "{damage}");
        assert_eq!(
            (&told[0].path, &told[0].at),
            (&problem.path, &problem.at),
            "{damage}"
        );
    }
    std::fs::write(&app, &bytes).unwrap();

    // A description that lacks a layer: what refers to that layer is no problem of its own either.
    let layers = meta.layers.clone();
    meta.layers.remove("app");
    meta.write(folder.path()).unwrap();
    let found = problems(&verify(folder.path()).unwrap());
    assert_eq!(
        found,
        "case.json: key layers.app: a description of ops/layer=app/part-0.parquet, no such key\n"
    );

    // Without raw events another advice is given.
    meta.layers = layers;
    meta.write(folder.path()).unwrap();
    std::fs::remove_dir_all(folder.path().join("raw")).unwrap();
    std::fs::remove_file(&app).unwrap();
    let report = verify(folder.path()).unwrap();
    assert_eq!(report.problems.len(), 1, "{}", problems(&report));
    assert!(
        report.problems[0].hint.contains("restore it from a copy"),
        "{}",
        report.problems[0].hint
    );
}

#[test]
fn more_than_a_hundredth_of_a_layer_lost_is_not_sound() {
    let (folder, mut meta) = case();
    let report = verify(folder.path()).unwrap();
    let unsound: Vec<_> = report.unsound().map(|m| (m.layer, m.lost, m.there)).collect();
    assert_eq!(unsound, [("block", 412, common::OPS)]);
    assert_eq!(problems(&report), "");

    // What a CPU budget left out was not lost, and is there as far as losses go.
    let left_out = case::meta::LeftOutMeta {
        requests: 412 * 100,
        bytes: 0,
    };
    meta.sampling = Some(case::meta::SamplingMeta {
        left_out: [("vda".to_string(), left_out)].into(),
        ..Default::default()
    });
    meta.write(folder.path()).unwrap();
    let report = verify(folder.path()).unwrap();
    assert_eq!(report.unsound().count(), 0);
    assert_eq!(report.layers_missing[0].there, 412 * 100 + common::OPS);

    // The same before sealing.
    meta.sampling = None;
    unseal(folder.path(), &mut meta, State::Recorded);
    let losses = folder.path().join("raw/losses.jsonl");
    let line = |lost: u64| {
        format!(
            "{{\"probe\":\"block\",\"start_ns\":1,\"end_ns\":2,\"lost\":{lost},\"reason\":\"map_full\"}}\n"
        )
    };
    std::fs::write(&losses, line(5) + &line(8)).unwrap();
    let report = verify(folder.path()).unwrap();
    let unsound: Vec<_> = report.unsound().map(|m| (m.layer, m.lost, m.there)).collect();
    assert_eq!(unsound, [("block", 13, common::OPS)]);
}

#[test]
fn a_table_with_another_schema_is_named_column_by_column() {
    let (folder, mut meta) = case();
    // Of a foreign writer, who lists no checksums: else it is damaged, and that is all there is to say.
    meta.tables.clear();
    meta.write(folder.path()).unwrap();
    std::fs::copy(
        folder.path().join("gaps/part-0.parquet"),
        folder.path().join("links/part-0.parquet"),
    )
    .unwrap();
    let found = problems(&verify(folder.path()).unwrap());
    assert!(
        found.contains("column 0, parent_id: parent_id BIGINT, layer BYTE_ARRAY"),
        "{found}"
    );
    assert!(found.contains("column meant_busy: no further column"), "{found}");
}

fn unseal(dir: &Path, meta: &mut CaseMeta, state: State) {
    meta.state = state;
    meta.tables.clear();
    meta.write(dir).unwrap();
}

#[test]
fn an_unsealed_case_says_what_is_lost() {
    let (folder, mut meta) = case();
    unseal(folder.path(), &mut meta, State::Recording);
    let block = folder.path().join("raw/block/block.arrows");
    let bytes = std::fs::read(&block).unwrap();
    std::fs::write(&block, &bytes[..bytes.len() - 20]).unwrap();
    std::fs::write(
        folder.path().join("raw/losses.jsonl"),
        "{\"probe\":\"block\",\"start_ns\":1,\"end_ns\":2,\"lost\":7,\"reason\":\"map_full\"}\n{\"probe\":\"bl",
    )
    .unwrap();
    std::fs::write(folder.path().join("raw/events.jsonl"), "nonsense\n").unwrap();
    let report = verify(folder.path()).unwrap();
    let missing = report.missing.join("\n");
    assert!(missing.contains("did not end properly"), "{missing}");
    assert!(missing.contains("the case is not sealed"), "{missing}");
    assert!(
        missing.contains("raw/block/block.arrows: cut at byte "),
        "{missing}"
    );
    assert!(missing.contains("block: 7 events lost (map_full)"), "{missing}");
    assert!(missing.contains("raw/losses.jsonl: line 2 was cut"), "{missing}");
    assert_eq!(report.rows["raw/block/block.arrows"], 8, "the first batch");
    assert_eq!(report.rows["raw/app/worker-000.arrows"], common::OPS);
    let found = problems(&report);
    assert!(found.contains("raw/events.jsonl: line 1"), "{found}");
}

#[test]
fn a_good_unsealed_case_has_no_problem() {
    let (folder, mut meta) = case();
    unseal(folder.path(), &mut meta, State::Recorded);
    let report = verify(folder.path()).unwrap();
    assert_eq!(problems(&report), "");
    assert_eq!(report.missing.len(), 2, "{:?}", report.missing);
}
