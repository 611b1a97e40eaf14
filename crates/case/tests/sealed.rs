//! Sealed tables.
use case::schema::*;
use case::sealed::{Names, SealWriter};

#[test]
fn a_row_of_each_table_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let dir = std::env::var("KEEP")
        .map(Into::into)
        .unwrap_or(folder.path().to_owned());
    let mut names = Names::default();
    let host = names.id("host \"a\"");
    let device = names.id("vda");
    let mut seal = SealWriter::create(&dir).unwrap();
    for n in 0..100_000u64 {
        let mut stages = [None; 9];
        stages[Stage::Queue as usize] = Some(3);
        stages[Stage::Device as usize] = Some(n as i64);
        let row = OpRow {
            op_id: Layer::Block.op_id_base() | n,
            start_ns: n as i64 * 1000,
            latency_ns: n as i64 + 3,
            open: n == 7,
            op: Op::ALL[n as usize % 7],
            flags: 1 << (n % 9),
            host: Some(host),
            device: Some(device),
            file: None,
            comm: None,
            cgroup: None,
            offset_bytes: Some(4096 * n as i64),
            size_bytes: Some(4096),
            queue_depth: Some(1),
            pid: Some(-1),
            tid: None,
            cpu: Some(0),
            complete_cpu: Some(1),
            hctx: None,
            vector: Some(36),
            error: 0,
            weight: 1.0,
            stages,
            foreign_handler_ns: None,
        };
        seal.op(Layer::Block, &row, &names).unwrap();
    }
    seal.declare(Layer::App);
    seal.link(&LinkRow {
        parent_id: 1 << 56,
        child_id: 3 << 56,
        bytes: 4096,
        kind: LinkKind::WaitsFor,
    })
    .unwrap();
    seal.loss(&LossRow {
        probe: "block".into(),
        start_ns: 1,
        end_ns: 2,
        lost: None,
        reason: "ring_full".into(),
    })
    .unwrap();
    let metas = seal.finish().unwrap();
    assert_eq!(metas["ops/layer=block/part-0.parquet"].rows, 100_000);
    println!("{metas:#?}");
    case::meta::SystemMeta::collect().write(&dir).unwrap();
    println!("{}", std::fs::read_to_string(dir.join("system.json")).unwrap());
}
