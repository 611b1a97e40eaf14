//! Columns of few numbers in which suddenly there are many, and columns that are all alike until they are not: every value comes back, whatever
//! page it lies in.
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, PrimitiveArray};
use case::schema::{Layer, Op, OpRow, Stage};
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
        // All alike for long, then now this, now that.
        open: at > ROWS * 3 / 4 && at % 3 == 0,
        error: if at == ROWS / 3 { 5 } else { 0 },
        // All of the latency at first.
        stages: std::array::from_fn(|stage| {
            (stage == Stage::Device as usize).then_some(100 + at % 7 - i64::from(at > ROWS / 2))
        }),
        ..OpRow::plain(at * 3 - at % 1000 * 2, 100 + at % 7, op)
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
        let wide = |name: &str| column(name).as_primitive::<Int64Type>();
        let narrow = |name: &str| column(name).as_primitive::<Int32Type>();
        let value =
            |of: &PrimitiveArray<Int64Type>, place: usize| of.is_valid(place).then(|| of.value(place));
        assert_eq!(column("tid").null_count(), batch.num_rows());
        let (sizes, starts, latencies) = (wide("size_bytes"), wide("start_ns"), wide("latency_ns"));
        let (device, pids, errors) = (wide("device_ns"), narrow("pid"), narrow("error"));
        let open = column("open").as_boolean();
        for place in 0..batch.num_rows() {
            let expected = row(at);
            assert_eq!(value(sizes, place), expected.size_bytes, "row {at}");
            assert_eq!(
                pids.is_valid(place).then(|| pids.value(place)),
                expected.pid,
                "row {at}"
            );
            let moments = (starts.value(place), latencies.value(place));
            assert_eq!(moments, (expected.start_ns, expected.latency_ns), "row {at}");
            assert_eq!(
                value(device, place),
                expected.stages[Stage::Device as usize],
                "row {at}"
            );
            let rest = (open.value(place), errors.value(place));
            assert_eq!(rest, (expected.open, expected.error), "row {at}");
            at += 1;
        }
    }
    assert_eq!(at, ROWS);
}
