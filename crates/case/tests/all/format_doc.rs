//! docs/reference/case-format.md must list what the code writes: columns, types, NULL rules, stages, flags, keys.
use crate::common;
use case::raw::RawRow;
use case::rows::{
    block_flags, syscall_flags, AppRow, BlockCarrierRow, BlockMergeRow, BlockRow, FileRow, SyscallRow,
};
use case::rows::{BioMemberRow, BioRow, IrqRow, IrqTotalRow, NvmeRow, SampleRow, SchedRow};
use case::rows::{CacheReadRow, CacheWaitRow, ReadaheadRow, ReadaheadUseRow, Writeback, WritebackRow};
use case::schema::{flags, LinkKind, Op, Stage};
use case::tables;

fn doc() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/case-format.md");
    std::fs::read_to_string(path).expect("docs/reference/case-format.md")
}

/// Cells of the table that follows `mark`, without its two header lines; backticks removed.
fn cells(doc: &str, mark: &str) -> Vec<Vec<String>> {
    let (_, rest) = doc
        .split_once(mark)
        .unwrap_or_else(|| panic!("no {mark} in docs/reference/case-format.md"));
    let lines = rest
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .skip(2);
    let split = |line: &str| {
        line.split(" | ")
            .map(|c| c.trim_matches(['|', ' ', '`']).to_owned())
            .collect()
    };
    lines.map(split).collect()
}

fn first(rows: &[Vec<String>], columns: usize) -> Vec<Vec<String>> {
    rows.iter().map(|row| row[..columns].to_vec()).collect()
}

#[test]
fn sealed_tables_are_as_documented() {
    let doc = doc();
    for table in [tables::OPS].iter().chain(&tables::ALWAYS) {
        let listed = first(&cells(&doc, &format!("<!-- table: {} -->", table.name)), 3);
        let written: Vec<Vec<String>> = table
            .columns
            .iter()
            .map(|c| {
                [c.name, c.kind.name(), if c.nullable { "yes" } else { "no" }]
                    .map(String::from)
                    .to_vec()
            })
            .collect();
        assert_eq!(listed, written, "table {}", table.name);
    }
}

fn raw_is_documented<R: RawRow>() {
    let listed = first(&cells(&doc(), &format!("<!-- raw: {} -->", R::PROBE)), 2);
    let written: Vec<Vec<String>> = R::SHAPES
        .iter()
        .map(|c| vec![c.name.to_owned(), c.data_type.to_string()])
        .collect();
    assert_eq!(listed, written, "raw {}", R::PROBE);
}

#[test]
fn raw_streams_are_as_documented() {
    raw_is_documented::<AppRow>();
    raw_is_documented::<BlockRow>();
    raw_is_documented::<BlockMergeRow>();
    raw_is_documented::<BlockCarrierRow>();
    raw_is_documented::<BioRow>();
    raw_is_documented::<BioMemberRow>();
    raw_is_documented::<SyscallRow>();
    raw_is_documented::<FileRow>();
    raw_is_documented::<CacheReadRow>();
    raw_is_documented::<CacheWaitRow>();
    raw_is_documented::<ReadaheadRow>();
    raw_is_documented::<ReadaheadUseRow>();
    raw_is_documented::<WritebackRow>();
    raw_is_documented::<SchedRow>();
    raw_is_documented::<IrqRow>();
    raw_is_documented::<IrqTotalRow>();
    raw_is_documented::<SampleRow>();
    raw_is_documented::<NvmeRow>();
}

#[test]
fn stages_flags_and_names_are_as_documented() {
    let doc = doc();
    let stages: Vec<Vec<String>> = Stage::ALL
        .iter()
        .map(|s| vec![s.name().to_owned(), s.column().to_owned()])
        .collect();
    assert_eq!(first(&cells(&doc, "<!-- stages -->"), 2), stages);
    let bits: Vec<Vec<String>> = flags::NAMES
        .iter()
        .map(|(name, bit)| vec![name.to_string(), bit.to_string()])
        .collect();
    assert_eq!(first(&cells(&doc, "<!-- flags -->"), 2), bits);
    let bits: Vec<Vec<String>> = syscall_flags::NAMES
        .iter()
        .map(|(name, bit)| vec![name.to_string(), bit.to_string()])
        .collect();
    assert_eq!(first(&cells(&doc, "<!-- syscall flags -->"), 2), bits);
    let bits: Vec<Vec<String>> = block_flags::NAMES
        .iter()
        .map(|(name, bit)| vec![name.to_string(), bit.to_string()])
        .collect();
    assert_eq!(first(&cells(&doc, "<!-- block flags -->"), 2), bits);
    let kinds: Vec<Vec<String>> = Writeback::NAMES
        .iter()
        .map(|(name, kind)| vec![(*kind as u8).to_string(), name.to_string()])
        .collect();
    assert_eq!(first(&cells(&doc, "<!-- writeback kinds -->"), 2), kinds);
    for name in Op::ALL
        .map(Op::name)
        .iter()
        .chain(&LinkKind::ALL.map(LinkKind::name))
    {
        assert!(
            doc.contains(&format!("`{name}`")),
            "`{name}` is not in docs/reference/case-format.md"
        );
    }
}

/// Every key of the two JSON files is documented.
#[test]
fn json_keys_are_as_documented() {
    let doc = doc();
    let section = |from: &str, to: &str| {
        let (_, rest) = doc.split_once(from).expect(from);
        rest.split_once(to).expect(to).0.to_owned()
    };
    let listed = |text: &str, value: serde_json::Value| {
        for key in value.as_object().expect("an object").keys() {
            assert!(
                text.contains(&format!("`{key}`")),
                "key {key} is not in docs/reference/case-format.md"
            );
        }
    };
    let case_keys = section("## case.json", "## system.json");
    listed(&case_keys, serde_json::to_value(common::case_meta()).unwrap());
    listed(
        &case_keys,
        serde_json::to_value(case::meta::LayerMeta::default()).unwrap(),
    );
    listed(
        &case_keys,
        serde_json::to_value(case::meta::ProbeMeta::default()).unwrap(),
    );
    listed(
        &case_keys,
        serde_json::to_value(case::meta::TableMeta::default()).unwrap(),
    );
    let system_keys = section("## system.json", "## Operations");
    listed(&system_keys, serde_json::to_value(common::system_meta()).unwrap());
}

#[test]
fn losses_of_layers_are_as_documented() {
    let doc = doc();
    let layers: Vec<Vec<String>> = case::completeness::LAYER_OF
        .iter()
        .map(|(probe, layer)| vec![probe.to_string(), layer.name().to_string()])
        .collect();
    assert_eq!(first(&cells(&doc, "<!-- losses: layers -->"), 2), layers);
    let reasons: Vec<Vec<String>> = case::completeness::ROW_IS_THERE
        .iter()
        .map(|reason| vec![reason.to_string()])
        .collect();
    assert_eq!(first(&cells(&doc, "<!-- losses: row is there -->"), 1), reasons);
    assert!(
        doc.contains("more than 1 % of a layer"),
        "the share beyond which verify fails"
    );
    assert_eq!(case::completeness::MISSING_SHARE_MAX, 0.01);
}
