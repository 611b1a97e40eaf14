//! Bytes per sealed row of modelled 4 KiB random I/O, per table and column, and the rates of sealing and verifying.
//! Usage: bytes_at_rest FOLDER [ROWS]. Real cases are measured by `make bench`; this one is for choosing encodings.
use case::meta::{CaseMeta, LayerMeta, State, SystemMeta};
use case::schema::{flags, Layer, Op, OpRow, Stage};
use case::sealed::{Names, SealWriter};
use std::time::Instant;

/// Uniform numbers by xorshift, log-normal ones by the sum of uniform ones (12 of them: a normal to 6 sigma).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, limit: u64) -> u64 {
        (self.bits() >> 11) % limit
    }
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
    fn log_normal(&mut self, median: f64, sigma: f64) -> i64 {
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (median * (sigma * normal).exp()) as i64
    }
}

/// A VM-server mix on a virtual disk at about 50,000 operations per second: 4 workers, depth 16 each.
fn row(
    random: &mut Random,
    names: &mut Names,
    layer: Layer,
    n: u64,
    start_ns: i64,
    worker: u64,
    seq: u64,
) -> OpRow {
    let mut stages = [None; 9];
    let mut set = |stage: Stage, ns: i64| stages[stage as usize] = Some(ns);
    set(Stage::Queue, random.log_normal(1_500.0, 0.5));
    set(Stage::Device, random.log_normal(900_000.0, 0.35));
    set(Stage::Interrupt, random.log_normal(3_000.0, 0.5));
    if layer == Layer::App {
        set(Stage::App, 0);
        set(Stage::Fs, random.log_normal(2_500.0, 0.4));
        set(Stage::Reap, random.log_normal(15_000.0, 0.8));
    }
    let read = random.unit() < 0.6;
    let block = layer == Layer::Block;
    OpRow {
        op_id: if block {
            layer.op_id_base() | n
        } else {
            layer.op_id_base() | worker << 40 | seq
        },
        start_ns,
        latency_ns: stages.iter().flatten().sum(),
        open: false,
        op: if read { Op::Read } else { Op::Write },
        flags: flags::DIRECT | if block && !read { flags::SYNC } else { 0 },
        host: Some(names.id("host")),
        device: block.then(|| names.id("vda")),
        file: (!block).then(|| names.id("/data/whodisk.dat")),
        comm: Some(names.id(&format!("worker-{worker}"))),
        cgroup: None,
        offset_bytes: Some((random.below(1 << 22) << 12) as i64),
        size_bytes: Some(4096),
        queue_depth: Some(if block {
            64 - random.below(12) as i32
        } else {
            16 - random.below(4) as i32
        }),
        pid: Some(1234),
        tid: Some(1240 + worker as i32),
        cpu: block.then_some((worker % 2) as i32),
        complete_cpu: block.then_some(1),
        hctx: block.then_some(0),
        vector: block.then_some(36),
        error: 0,
        weight: 1.0,
        stages,
        foreign_handler_ns: None,
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = std::path::PathBuf::from(args.next().expect("FOLDER"));
    let rows: u64 = args.next().map_or(2_000_000, |n| n.parse().expect("ROWS"));
    let mut meta = CaseMeta::new("lab", "0");
    let mut seconds = 0.0;
    let mut seal = SealWriter::create(&dir).expect("room in FOLDER");
    for layer in [Layer::App, Layer::Block] {
        seconds += write_layer(&mut seal, layer, rows);
        let stages = Stage::ALL
            .iter()
            .map(|s| (s.column().to_owned(), s.name().to_owned()))
            .collect();
        meta.layers.insert(
            layer.name().into(),
            LayerMeta {
                rows,
                stages,
                join: "none".into(),
                ..LayerMeta::default()
            },
        );
    }
    let start = Instant::now();
    meta.tables = seal.finish().expect("room in FOLDER");
    seconds += start.elapsed().as_secs_f64();
    println!("seal: {:.2} M rows/s", 2.0 * rows as f64 / seconds / 1e6);
    for layer in [Layer::App, Layer::Block] {
        let path = case::tables::ops_path(layer);
        println!(
            "{}: {:.2} bytes per row",
            layer.name(),
            meta.tables[&path].bytes as f64 / rows as f64
        );
        for (name, bytes) in case::sealed::column_bytes(&dir.join(path)).expect("the file just written") {
            println!("  {name:20} {:.3}", bytes as f64 / rows as f64);
        }
    }
    meta.state = State::Sealed;
    meta.write(&dir).expect("room in FOLDER");
    SystemMeta::collect().write(&dir).expect("room in FOLDER");
    let start = Instant::now();
    let report = case::verify::verify(&dir).expect("the case just written");
    println!(
        "verify: {:.2} M rows/s",
        2.0 * rows as f64 / start.elapsed().as_secs_f64() / 1e6
    );
    assert_eq!(report.problems, []);
}

/// Writes one layer and gives the seconds that the writer took.
fn write_layer(seal: &mut SealWriter, layer: Layer, rows: u64) -> f64 {
    let (mut random, mut names) = (Random(42), Names::default());
    let (mut start_ns, mut sequence) = (0.0, [0u64; 4]);
    let (mut seconds, mut block) = (0.0, Vec::new());
    for n in 0..rows {
        let worker = random.below(4);
        sequence[worker as usize] += 1;
        start_ns += random.exponential(20_000.0);
        block.push(row(
            &mut random,
            &mut names,
            layer,
            n,
            start_ns as i64,
            worker,
            sequence[worker as usize],
        ));
        if block.len() == 4096 || n + 1 == rows {
            let start = Instant::now();
            for row in &block {
                seal.op(layer, row, &names).expect("room in FOLDER");
            }
            seconds += start.elapsed().as_secs_f64();
            block.clear();
        }
    }
    seconds
}
