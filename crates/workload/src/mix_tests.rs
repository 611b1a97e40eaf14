use super::*;
use proptest::prelude::*;

fn spec(body: &str) -> Spec {
    let text = format!("[workload]\ntargets = [\"null\"]\nduration = \"1s\"\n{body}");
    Spec::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

fn draw(spec: &Spec, worker: u32, size_bytes: u64, count: usize) -> Vec<Access> {
    let mut mix = Mix::new(spec, worker, &[size_bytes]);
    (0..count).map(|_| mix.next_access()).collect()
}

/// Five standard errors of a share.
fn assert_share(found: usize, of: usize, expected: f64, what: &str) {
    let share = found as f64 / of as f64;
    let error = 5.0 * (expected * (1.0 - expected) / of as f64).sqrt();
    assert!(
        (share - expected).abs() <= error,
        "{what}: {share}, expected {expected} +- {error}"
    );
}

#[test]
fn mix_is_within_sampling_error() {
    let spec =
        spec("read = \"60%\"\nrandom = \"55%\"\nblock_sizes = { \"4KiB\" = \"70%\", \"64KiB\" = \"30%\" }");
    let size_bytes = 1 << 34;
    let all = draw(&spec, 0, size_bytes, 200_000);
    assert_share(
        all.iter().filter(|a| a.op == Op::Read).count(),
        all.len(),
        0.6,
        "reads",
    );
    assert_share(
        all.iter().filter(|a| a.size_bytes == 4096).count(),
        all.len(),
        0.7,
        "4 KiB",
    );
    let continued = all
        .windows(2)
        .filter(|pair| pair[1].offset_bytes == pair[0].offset_bytes + u64::from(pair[0].size_bytes));
    assert_share(continued.count(), all.len() - 1, 0.45, "sequential");
    let both = all
        .iter()
        .filter(|a| a.op == Op::Read && a.size_bytes == 4096)
        .count();
    assert_share(
        both,
        all.len(),
        0.42,
        "reads of 4 KiB: kind and size are independent",
    );
}

#[test]
fn random_places_are_uniform() {
    let all = draw(&spec(""), 3, 16 * 4096, 160_000);
    for place in 0..16 {
        let here = all.iter().filter(|a| a.offset_bytes == place * 4096).count();
        assert_share(here, all.len(), 1.0 / 16.0, "one of 16 places");
    }
}

#[test]
fn the_seed_decides_everything() {
    let body = "read = \"50%\"\nrandom = \"50%\"\nblock_sizes = { \"4KiB\" = \"50%\", \"8KiB\" = \"50%\" }\n";
    let with = |seed: u64| spec(&format!("{body}seed = {seed}"));
    let size_bytes = 1 << 30;
    assert_eq!(
        draw(&with(7), 0, size_bytes, 1000),
        draw(&with(7), 0, size_bytes, 1000)
    );
    assert_ne!(
        draw(&with(7), 0, size_bytes, 1000),
        draw(&with(8), 0, size_bytes, 1000)
    );
    assert_ne!(
        draw(&with(7), 0, size_bytes, 1000),
        draw(&with(7), 1, size_bytes, 1000)
    );
}

#[test]
fn pure_sequential_goes_round() {
    let all = draw(&spec("random = \"0%\"\nworkers = 4"), 1, 64 * 4096, 100);
    for (n, access) in all.iter().enumerate() {
        // Worker 1 of 4 begins at a quarter.
        assert_eq!(access.offset_bytes, (16 + n as u64) % 64 * 4096, "operation {n}");
    }
}

#[test]
fn runs_have_the_length_asked_for() {
    let all = draw(&spec("random = \"0%\"\nsequential_run_ops = 8"), 0, 1 << 40, 8000);
    for (n, pair) in all.windows(2).enumerate() {
        let continues = pair[1].offset_bytes == pair[0].offset_bytes + 4096;
        assert_eq!(continues, (n + 1) % 8 != 0, "operation {}", n + 1);
    }
}

#[test]
fn a_sync_follows_every_nth_write() {
    for every in [1u64, 2, 7] {
        let spec = spec(&format!("read = \"40%\"\nsync_every_writes = {every}"));
        let mut writes = 0;
        for (n, access) in draw(&spec, 0, 1 << 30, 10_000).iter().enumerate() {
            match access.op {
                Op::Sync => {
                    assert_eq!(writes, every, "operation {n}");
                    assert_eq!((access.offset_bytes, access.size_bytes), (0, 0));
                    writes = 0;
                }
                Op::Write => writes += 1,
                _ => {}
            }
            assert!(writes <= every, "operation {n}: no sync after {writes} writes");
        }
    }
}

#[test]
fn targets_are_equally_likely_and_sync_their_own_writes() {
    let spec = spec("read = \"0%\"\nsync_every_writes = 3");
    let mut mix = Mix::new(&spec, 0, &[1 << 20, 1 << 30, 1 << 25]);
    let all: Vec<Access> = (0..30_000).map(|_| mix.next_access()).collect();
    for file in 0..3u8 {
        let of_file = |op| all.iter().filter(|a| a.file == file && a.op == op).count();
        let (writes, syncs) = (of_file(Op::Write), of_file(Op::Sync));
        assert!(
            syncs == writes / 3 || syncs + 1 == writes / 3,
            "{writes} writes, {syncs} syncs"
        );
        assert_share(
            writes,
            all.iter().filter(|a| a.op == Op::Write).count(),
            1.0 / 3.0,
            "one of 3 targets",
        );
    }
}

proptest! {
    #[test]
    fn never_beyond_the_file_and_always_aligned(
        seed in 0u64..1000,
        blocks in 1u64..64,
        align in prop::sample::select(vec![1u64, 512, 4096, 6144, 65_536]),
        size_bytes in 40_000u64..5_000_000,
        random in 0u32..=100,
        run in 0u64..9,
        worker in 0u32..4,
    ) {
        let small = blocks * 512;
        let run = if random == 100 { 0 } else { run };
        let spec = spec(&format!(
            "io = \"buffered\"\nread = \"50%\"\nrandom = \"{random}%\"\nsequential_run_ops = {run}\nseed = {seed}\n\
             align = \"{align}B\"\nworkers = 4\nblock_sizes = {{ \"{small}B\" = \"60%\", \"40000B\" = \"40%\" }}"
        ));
        for access in draw(&spec, worker, size_bytes, 300) {
            prop_assert!(access.offset_bytes + u64::from(access.size_bytes) <= size_bytes);
            prop_assert_eq!(access.offset_bytes % align, 0);
            prop_assert!(access.size_bytes == 40_000 || u64::from(access.size_bytes) == small);
        }
    }
}
