//! Misses and speed of every replacement policy on a few traces, one line each, tab-separated: trace, policy,
//! capacity, accesses, misses, million accesses per CPU second.
//!
//! `lab_caches [TRACE [DIR]]`: only that trace (`all` = all); also writes the traces to DIR as 64-bit
//! little-endian keys, for `benches/lab_cache.py`, which lets another simulator read them.
use lab::component::{Access, CacheModel};
use lab::models::cache::{traces, Arc, Lru, S3Fifo, S3FifoParameters};
use std::io::Write;

/// Nanoseconds this process has run on a CPU: other load on the machine must not count.
fn cpu_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    schedstat
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0)
}

fn measure(cache: &mut impl CacheModel, trace: &[u64]) -> (usize, f64) {
    let began_ns = cpu_ns();
    let misses = trace
        .iter()
        .filter(|key| cache.access(**key) != Access::Hit)
        .count();
    (misses, trace.len() as f64 * 1e3 / (cpu_ns() - began_ns) as f64)
}

const LEGAL: &str = "the capacities below are legal";

fn main() -> std::io::Result<()> {
    let wanted = std::env::args().nth(1).unwrap_or("all".to_string());
    let directory = std::env::args().nth(2);
    let cases: [(&str, Vec<u64>); 6] = [
        ("zipf-0.8", traces::zipf(1_000_000, 0.8, 4_000_000, 1)),
        ("zipf-1.0", traces::zipf(1_000_000, 1.0, 4_000_000, 2)),
        ("zipf-1.2", traces::zipf(1_000_000, 1.2, 4_000_000, 3)),
        ("scan", traces::scan(2_000_000)),
        ("loop", traces::repeated_loop(120_000, 2_000_000)),
        (
            "zipf-scans",
            traces::zipf_with_scans(300_000, 1.0, 2_000_000, 6, 4),
        ),
    ];
    println!("trace\tpolicy\tcapacity\taccesses\tmisses\tmillion_per_s");
    for (name, trace) in cases
        .iter()
        .filter(|(name, _)| wanted == "all" || wanted == *name)
    {
        if let Some(directory) = &directory {
            let mut file =
                std::io::BufWriter::new(std::fs::File::create(format!("{directory}/{name}.keys"))?);
            for key in trace {
                file.write_all(&key.to_le_bytes())?;
            }
            file.flush()?;
        }
        for capacity in [1_000, 10_000, 100_000] {
            let s3fifo = S3FifoParameters::default();
            let rows = [
                ("lru", measure(&mut Lru::new(capacity).expect(LEGAL), trace)),
                ("arc", measure(&mut Arc::new(capacity).expect(LEGAL), trace)),
                (
                    "s3fifo",
                    measure(&mut S3Fifo::new(capacity, s3fifo).expect(LEGAL), trace),
                ),
            ];
            for (policy, (misses, speed)) in rows {
                println!(
                    "{name}\t{policy}\t{capacity}\t{}\t{misses}\t{speed:.1}",
                    trace.len()
                );
            }
        }
    }
    Ok(())
}
