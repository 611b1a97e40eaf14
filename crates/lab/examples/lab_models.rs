//! Speed of the drive models: million requests per CPU second, one line each.
use case::schema::Op;
use lab::component::{Command, DriveModel};
use lab::models::hdd::{Hdd, HddParameters};
use lab::models::ssd::{Ssd, SsdParameters};
use workload::rng::Rng;

const GIB: u64 = 1 << 30;

/// Nanoseconds this process has run on a CPU: other load on the machine must not count.
fn cpu_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    schedstat
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0)
}

/// Random commands of 4 KiB, `read` of 100 of them reads, one every `gap_ns` of virtual time.
fn measure(name: &str, drive: &mut impl DriveModel, count: u64, read: u64, gap_ns: u64) {
    let (mut rng, mut last_ns) = (Rng::new(1, 0), 0);
    let units = drive.size_bytes() / 4096;
    let began_ns = cpu_ns();
    for i in 0..count {
        let op = if rng.below(100) < read {
            Op::Read
        } else {
            Op::Write
        };
        let command = Command {
            op,
            offset_bytes: rng.below(units) * 4096,
            size_bytes: 4096,
        };
        last_ns = last_ns.max(drive.serve(i * gap_ns, &command).done_ns);
    }
    let speed = count as f64 * 1e3 / (cpu_ns() - began_ns) as f64;
    println!("{name}\t{speed:.2}\t{:.3}", last_ns as f64 / 1e9);
}

fn main() {
    println!("model\tmillion_per_s\tvirtual_s");
    let ssd = || {
        let parameters = SsdParameters {
            overwritten: 2.0,
            ..SsdParameters::p4500(16 * GIB)
        };
        Ssd::new(parameters, Rng::new(1, 0)).expect("legal parameters")
    };
    measure("ssd, 100 % read", &mut ssd(), 4_000_000, 100, 2_500);
    measure("ssd, 60 % read, collecting", &mut ssd(), 4_000_000, 60, 40_000);
    measure("ssd, 100 % write, collecting", &mut ssd(), 2_000_000, 0, 26_000);
    let mut hdd = Hdd::new(HddParameters::nearline_7200()).expect("legal parameters");
    measure("hdd, 100 % read, depth 1", &mut hdd, 1_000_000, 100, 15_000_000);
}
