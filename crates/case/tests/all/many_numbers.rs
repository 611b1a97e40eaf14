//! Columns of few numbers in which suddenly there are many: every value comes back, whatever page it lies in.
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::Array;
use case::schema::{Layer, Op, OpRow};
use case::sealed::{Names, OpBatch, SealWriter};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// More than a page, and than a dictionary may hold.
const ROWS: i64 = 400_000;

fn row(at: i64) -> OpRow {
    let op = if at % 3 == 0 { Op::Write } else { Op::Read };
    OpRow {
        // Few, then as many as there are rows, then few again.
        size_bytes: match at * 4 / ROWS {
            1 | 2 => Some(at * 512),
            _ => Some(4096 << (at % 3)),
        },
        pid: (at % 5 != 0).then_some((at % 5) as i32 - 2),
        op_id: at as u64,
        queue_depth: Some(at as i32 % 300),
        ..OpRow::plain(at, 100 + at % 7, op)
    }
}

#[test]
fn few_numbers_and_many_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut writer, names) = (SealWriter::create(folder.path()).unwrap(), Names::default());
    let mut batch = OpBatch::default();
    for at in 0..ROWS {
        if at < ROWS / 2 {
            writer.op(Layer::Block, &row(at), &names).unwrap();
        } else {
            batch.push(&row(at));
        }
    }
    writer.ops(Layer::Block, batch, &names).unwrap();
    writer.finish().unwrap();
    let file = std::fs::File::open(folder.path().join("ops/layer=block/part-0.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    let mut at = 0;
    for batch in reader {
        let batch = batch.unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let (sizes, pids) = (column("size_bytes"), column("pid"));
        let (sizes, pids) = (
            sizes.as_primitive::<Int64Type>(),
            pids.as_primitive::<Int32Type>(),
        );
        assert_eq!(column("tid").null_count(), batch.num_rows());
        for (size, pid) in sizes.iter().zip(pids) {
            assert_eq!((size, pid), (row(at).size_bytes, row(at).pid), "row {at}");
            at += 1;
        }
    }
    assert_eq!(at, ROWS);
}
