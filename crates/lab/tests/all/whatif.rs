//! Replays of recorded cases: the stack that made a case predicts it; a fitted stack comes close; errors name what is missing.
use case::schema::Layer;
use lab::scenario::Scenario;
use lab::whatif::{whatif, Numbers, Question};
use std::path::{Path, PathBuf};

fn record(dir: &Path, text: &str) -> (PathBuf, String) {
    let stack = dir.join("stack.toml");
    std::fs::write(&stack, text).expect("a file");
    let case = dir.join("case");
    std::fs::create_dir(&case).expect("a directory");
    let scenario = Scenario::read(&stack, &[]).unwrap_or_else(|error| panic!("{error}"));
    lab::run::run(&scenario, &case, vec!["whodisk".into()], 1).unwrap_or_else(|error| panic!("{error}"));
    (case, stack.display().to_string())
}

fn question<'a>(case: &'a Path, stack: &'a str, set: &'a [String]) -> Question<'a> {
    Question {
        case,
        stack,
        set,
        layer: None,
        device: None,
    }
}

const PERCENTILES: [fn(&Numbers) -> f64; 5] = [
    |n| n.p50_ns,
    |n| n.p90_ns,
    |n| n.p95_ns,
    |n| n.p99_ns,
    |n| n.p999_ns,
];

fn assert_close(before: &Numbers, after: &Numbers, share: f64, what: &str) {
    assert_eq!(before.operations, after.operations, "{what}");
    for (n, percentile) in PERCENTILES.iter().enumerate() {
        let (old, new) = (percentile(before), percentile(after));
        assert!(
            (new / old - 1.0).abs() <= share,
            "{what}: percentile {n}: {old} became {new}"
        );
    }
    let ratio = after.ops_per_s / before.ops_per_s;
    assert!((ratio - 1.0).abs() <= share, "{what}: throughput x {ratio}");
}

const DIRECT: &str = "[workload]\ntargets = [\"a\", \"b\"]\nfile_size = \"1GiB\"\nread = \"70%\"\nqueue_depth = 8\nworkers = 2\n\
     operations = 20000\nseed = 5\n[interrupts]\n[device]\nsimple_parallel = 12\n";

/// One bin of the histogram: 1/64 of an octave, linear.
const BIN: f64 = 1.0 / 64.0;

#[test]
fn the_stack_that_made_a_case_predicts_it_within_the_histogram() {
    for (what, more) in [
        ("closed loop", ""),
        ("open loop", "rate = \"60000/s\"\narrival = \"poisson\"\n"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        // A fixed service time, as the replay puts the two files into one and so draws in another order.
        let text = DIRECT.replace("[interrupts]", &format!("{more}[interrupts]"))
            + "simple_distribution = \"fixed\"\n";
        let (case, stack) = record(dir.path(), &text);
        let answer = whatif(&question(&case, &stack, &[])).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answer.layer, "app");
        assert_eq!(answer.loop_kind, what.split(' ').next().unwrap_or(""));
        assert_close(&answer.before, &answer.after, BIN, what);
        let mut block = question(&case, &stack, &[]);
        block.layer = Some(Layer::Block);
        let answer = whatif(&block).unwrap_or_else(|error| panic!("{error}"));
        assert_close(&answer.before, &answer.after, 2.0 * BIN, "block");
    }
}

#[test]
fn a_fitted_stack_reproduces_percentiles_and_a_faster_one_is_faster() {
    let dir = tempfile::tempdir().expect("a directory");
    let (case, _) = record(dir.path(), DIRECT);
    let fit = lab::fit::fit(std::slice::from_ref(&case), None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((fit.requests, fit.cache_bytes), (20_000, None));
    let fitted = dir.path().join("fitted.toml");
    std::fs::write(&fitted, &fit.stack).expect("a file");
    let fitted = fitted.display().to_string();
    let same = whatif(&question(&case, &fitted, &[])).unwrap_or_else(|error| panic!("{error}"));
    assert_close(&same.before, &same.after, 0.06, "fitted");
    let set = ["device.fitted_scale=0.5".to_owned()];
    let faster = whatif(&question(&case, &fitted, &set)).unwrap_or_else(|error| panic!("{error}"));
    let ratio = faster.after.p50_ns / faster.before.p50_ns;
    assert!((0.45..0.55).contains(&ratio), "half the latency: x {ratio}");
    assert!(faster.stack_as_it_is.is_some());
}

#[test]
fn a_page_cache_is_fitted_to_the_share_of_hits() {
    let text = "[workload]\ntargets = [\"a\"]\nfile_size = \"64MiB\"\nio = \"buffered\"\nqueue_depth = 2\noperations = 60000\n\
                [cache]\nsize = \"16MiB\"\npage = \"4KiB\"\n[device]\n";
    let dir = tempfile::tempdir().expect("a directory");
    let (case, _) = record(dir.path(), text);
    let fit = lab::fit::fit(std::slice::from_ref(&case), None).unwrap_or_else(|error| panic!("{error}"));
    let mib = fit.cache_bytes.expect("a cache") as f64 / f64::from(1 << 20);
    assert!((14.0..18.0).contains(&mib), "16 MiB came back as {mib}");
}

#[test]
fn what_is_missing_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (case, stack) = record(dir.path(), DIRECT);
    let error = whatif(&question(Path::new("nowhere.case"), &stack, &[])).expect_err("no case");
    assert!(error.to_string().contains("nowhere.case"), "{error}");
    let error = whatif(&question(&case, "nowhere.toml", &[])).expect_err("no stack");
    assert!(error.to_string().contains("nowhere.toml"), "{error}");
    let set = ["device.size=\"16MiB\"".to_owned()];
    let error = whatif(&question(&case, &stack, &set)).expect_err("too small");
    assert!(error.to_string().contains("device.size"), "{error}");
    let error = lab::fit::fit(std::slice::from_ref(&case), Some("sdz")).expect_err("no such device");
    assert!(
        error.to_string().contains("sdz") && error.to_string().contains("nvme0n1"),
        "{error}"
    );
    // A device that was never asked is not replayed.
    let mut other = question(&case, &stack, &[]);
    other.layer = Some(Layer::Block);
    other.device = Some("sdz");
    assert!(whatif(&other).is_err());
}
