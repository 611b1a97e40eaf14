use super::*;
use crate::models::distribution::Distribution;
use proptest::prelude::*;
use workload::rng::Rng;

const GIB: u64 = 1 << 30;

fn command(op: Op, unit: u64, size_bytes: u32) -> Command {
    Command {
        op,
        offset_bytes: unit * UNIT_BYTES,
        size_bytes,
    }
}

fn drive(change: impl FnOnce(&mut SsdParameters)) -> Ssd {
    let mut parameters = SsdParameters::p4500(4 * GIB);
    change(&mut parameters);
    Ssd::new(parameters, Rng::new(1, 0)).unwrap()
}

/// Closed loop at `depth`; commands per second after the first tenth, and sorted latencies in ns.
fn closed_loop(
    ssd: &mut Ssd,
    depth: usize,
    count: usize,
    mut next: impl FnMut(&mut Rng) -> Command,
) -> (f64, Vec<u64>) {
    let mut rng = Rng::new(2, 0);
    let mut ends: BinaryHeap<Reverse<u64>> = (0..depth as u64).map(Reverse).collect();
    let (mut latencies, mut begin_ns, mut now_ns) = (Vec::new(), 0, 0);
    for i in 0..count {
        now_ns = ends.pop().expect("depth commands are in flight").0;
        let service = ssd.serve(now_ns, &next(&mut rng));
        assert!(service.done_ns > now_ns && service.free_ns >= now_ns);
        ends.push(Reverse(service.done_ns));
        if i == count / 10 {
            begin_ns = now_ns;
        }
        latencies.push(service.done_ns - now_ns);
    }
    latencies.sort_unstable();
    (
        (count - count / 10) as f64 * 1e9 / (now_ns - begin_ns) as f64,
        latencies,
    )
}

fn random(op: Op, units: u64) -> impl FnMut(&mut Rng) -> Command {
    move |rng| command(op, rng.below(units), 4096)
}

fn sequential(op: Op, units: u64) -> impl FnMut(&mut Rng) -> Command {
    let mut at = 0;
    move |_| {
        at = (at + 32) % (units - 32);
        command(op, at, 131_072)
    }
}

fn within(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value / expected - 1.0).abs() < tolerance,
        "{what}: {value}, expected {expected}"
    );
}

/// Write amplification of greedy collection under uniform random writes for `alpha` = flash / host units:
/// `alpha / (alpha + W(-alpha exp(-alpha)))` with Lambert's W (Desnoyers, "Analytic modeling of SSD write
/// performance", SYSTOR 2012).
fn greedy_formula(alpha: f64) -> f64 {
    let x = -alpha * (-alpha).exp();
    let mut w = -0.5;
    for _ in 0..100 {
        let e = f64::exp(w);
        w -= (w * e - x) / (e * (1.0 + w));
    }
    alpha / (alpha + w)
}

#[test]
fn write_amplification_meets_the_greedy_formula() {
    for over_provisioning in [0.1, 0.2, 0.4] {
        let mut ssd = drive(|p| {
            p.size_bytes = GIB;
            p.over_provisioning = over_provisioning;
            (
                p.channels,
                p.dies_per_channel,
                p.planes,
                p.page_bytes,
                p.block_pages,
            ) = (2, 1, 1, 4096, 256);
            p.gc_free_blocks = 2;
            p.overwritten = 4.0;
        });
        let units = GIB / UNIT_BYTES;
        for _ in 0..2 * units {
            let unit = ssd.rng.below(units);
            ssd.serve(0, &command(Op::Write, unit, 4096));
        }
        let flash_units = (ssd.parameters.blocks_per_die() - 2) * 256 * 2;
        let expected = greedy_formula(f64::from(flash_units) / units as f64);
        within(
            "write amplification",
            ssd.written().amplification(),
            expected,
            0.08,
        );
        assert_eq!(ssd.mapping.valid_units(), (units, units));
    }
}

#[test]
fn sequential_overwrites_cost_no_amplification() {
    let mut ssd = drive(|_| ());
    let units = 4 * GIB / UNIT_BYTES;
    for i in 0..units / 8 {
        ssd.serve(0, &command(Op::Write, i * 8, 32_768));
    }
    assert!(
        ssd.written().amplification() < 1.02,
        "{}",
        ssd.written().amplification()
    );
}

#[test]
fn a_data_sheet_drive_meets_its_data_sheet() {
    let units = 8 * GIB / UNIT_BYTES;
    let drive = |overwritten| {
        let parameters = SsdParameters {
            overwritten,
            ..SsdParameters::p4500(8 * GIB)
        };
        Ssd::new(parameters, Rng::new(1, 0)).unwrap()
    };
    let (_, latencies) = closed_loop(&mut drive(0.0), 1, 20_000, random(Op::Read, units));
    within("random read ns", latencies[10_000] as f64, 85_000.0, 0.05);
    let (_, latencies) = closed_loop(&mut drive(0.0), 1, 1_000, random(Op::Write, units));
    within("random write ns", latencies[500] as f64, 20_000.0, 0.05);
    let (iops, _) = closed_loop(&mut drive(0.0), 128, 200_000, random(Op::Read, units));
    within("random reads per s", iops, 490_000.0, 0.05);
    let (rate, _) = closed_loop(&mut drive(0.0), 64, 50_000, sequential(Op::Read, units));
    within("sequential read B/s", rate * 131_072.0, 3.2e9, 0.05);
    let (rate, _) = closed_loop(&mut drive(0.0), 64, 40_000, sequential(Op::Write, units));
    within("sequential write B/s", rate * 131_072.0, 1.05e9, 0.07);
    let (iops, _) = closed_loop(&mut drive(3.0), 64, 400_000, random(Op::Write, units));
    within("random writes per s", iops, 38_000.0, 0.15);
}

#[test]
fn a_burst_fits_the_buffer_and_what_follows_waits() {
    let mut ssd = drive(|_| ());
    let first: Vec<Service> = (0..20_000)
        .map(|i| ssd.serve(0, &command(Op::Write, i * 3, 4096)))
        .collect();
    let full = first
        .iter()
        .position(|service| service.note == Note::BufferFull)
        .expect("16 MiB are full at last");
    assert!((4096..12_000).contains(&full), "{full}");
    assert!(first.windows(2).all(|pair| pair[0].done_ns <= pair[1].done_ns));
}

#[test]
fn reads_among_writes_have_a_tail_and_reads_alone_do_not() {
    let units = 4 * GIB / UNIT_BYTES;
    let p999 = |latencies: &[u64]| latencies[latencies.len() * 999 / 1000];
    let (_, alone) = closed_loop(&mut drive(|_| ()), 4, 100_000, random(Op::Read, units));
    let mut steady = drive(|p| p.overwritten = 2.0);
    let mut collected = 0;
    let mut reads = Vec::new();
    let mut rng = Rng::new(3, 0);
    for i in 0..200_000u64 {
        let now_ns = i * 40_000;
        let op = if i % 2 == 0 { Op::Read } else { Op::Write };
        let service = steady.serve(now_ns, &command(op, rng.below(units), 4096));
        if op == Op::Read {
            reads.push(service.done_ns - now_ns);
            collected += u32::from(service.note == Note::GarbageCollection);
        }
    }
    reads.sort_unstable();
    assert!(
        p999(&reads) > p999(&alone) + 100_000,
        "{} against {}",
        p999(&reads),
        p999(&alone)
    );
    assert!(collected > 100, "{collected} reads met garbage collection");
}

#[test]
fn what_was_just_written_is_read_from_the_buffer() {
    let mut ssd = drive(|_| ());
    let done_ns = ssd.serve(0, &command(Op::Write, 77, 4096)).done_ns;
    assert_eq!(
        ssd.serve(done_ns, &command(Op::Read, 77, 4096)).note,
        Note::Buffered
    );
    assert_eq!(ssd.serve(done_ns, &command(Op::Read, 78, 4096)).note, Note::None);
}

#[test]
fn a_flush_is_free_only_with_capacitors() {
    for (protected, at_most_ns, at_least_ns) in [(true, 20_000, 0), (false, 10_000_000, 1_000_000)] {
        let mut ssd = drive(|p| p.power_loss_protection = protected);
        let done_ns = ssd.serve(0, &command(Op::Write, 5, 4096)).done_ns;
        let flush_ns = ssd.serve(done_ns, &command(Op::Flush, 0, 0)).done_ns - done_ns;
        assert!(
            (at_least_ns..at_most_ns).contains(&flush_ns),
            "{protected}: {flush_ns}"
        );
    }
}

#[test]
fn pauses_come_as_often_as_asked_and_hit_everyone() {
    let mut ssd = drive(|p| {
        p.hiccup_every_ns = 1e9;
        p.hiccup = Distribution::Constant { ns: 20e6 };
    });
    let units = 4 * GIB / UNIT_BYTES;
    let (_, latencies) = closed_loop(&mut ssd, 1, 300_000, random(Op::Read, units));
    let hit = latencies.iter().filter(|ns| **ns > 15_000_000).count() as f64;
    let total_s = latencies.iter().sum::<u64>() as f64 / 1e9;
    // Pauses follow each other by 1 s + 20 ms on average; 25 of them spread by 20 %.
    within("pauses per s", hit / total_s, 1.0 / 1.02, 0.6);
}

#[test]
fn reads_of_what_was_never_written_or_was_discarded_touch_no_flash() {
    let mut ssd = drive(|p| p.filled = 0.5);
    let empty = command(Op::Read, 4 * GIB / UNIT_BYTES - 1, 4096);
    assert_eq!(ssd.serve(0, &empty).note, Note::Buffered);
    ssd.serve(0, &command(Op::Discard, 10, 4096));
    assert_eq!(ssd.serve(0, &command(Op::Read, 10, 4096)).note, Note::Buffered);
    assert_eq!(ssd.serve(0, &command(Op::Read, 11, 4096)).note, Note::None);
}

#[test]
fn parameters_out_of_range_are_named() {
    let new = |p: SsdParameters| Ssd::new(p, Rng::new(0, 0)).unwrap_err().key;
    assert_eq!(
        new(SsdParameters {
            page_bytes: 5000,
            ..SsdParameters::p4500(GIB)
        }),
        "page_bytes"
    );
    assert_eq!(
        new(SsdParameters {
            block_pages: 65_536,
            ..SsdParameters::p4500(GIB)
        }),
        "block_pages"
    );
    assert_eq!(
        new(SsdParameters {
            buffer_bytes: 1,
            ..SsdParameters::p4500(4 * GIB)
        }),
        "buffer_bytes"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// No unit is lost or held twice, whatever the commands; the same seed gives the same times.
    #[test]
    fn units_are_conserved(seed in 0..1000u64, filled in 0.0..1.0f64, steps in 1_000..20_000u64) {
        let run = || {
            let mut ssd = drive(|p| {
                p.size_bytes = 64 << 20;
                (p.channels, p.dies_per_channel, p.block_pages) = (2, 2, 16);
                p.filled = filled;
            });
            let (mut rng, mut now_ns, mut sum) = (Rng::new(seed, 1), 0, 0u64);
            for _ in 0..steps {
                now_ns += rng.below(100_000);
                let op = [Op::Read, Op::Write, Op::Write, Op::Discard, Op::Flush][rng.below(5) as usize];
                let size = (1 + rng.below(16)) as u32 * 4096;
                let unit = rng.below((64 << 20) / UNIT_BYTES - 16);
                sum = sum.wrapping_add(ssd.serve(now_ns, &command(op, unit, size)).done_ns);
            }
            let (mapped, valid) = ssd.mapping.valid_units();
            assert_eq!(mapped, valid);
            sum
        };
        prop_assert_eq!(run(), run());
    }
}
