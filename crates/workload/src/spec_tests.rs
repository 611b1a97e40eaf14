use super::*;

fn parse(body: &str) -> Result<Spec, String> {
    Spec::parse(&format!("[workload]\n{body}\n"), "job.toml").map_err(|error| error.to_string())
}

const NULL: &str = "targets = [\"null\"]\nduration = \"1s\"\n";

fn parse_more(more: &str) -> Result<Spec, String> {
    parse(&format!("{NULL}{more}"))
}

#[test]
fn defaults_are_those_of_the_reference() {
    let spec = parse_more("").expect("the smallest specification");
    let expected = Spec {
        targets: Targets::Null,
        file_size_bytes: None,
        allow_overwrite: false,
        direct: true,
        blocks: vec![Block {
            size_bytes: 4096,
            share_ppm: 1_000_000,
        }],
        read_ppm: 1_000_000,
        random_ppm: 1_000_000,
        sequential_run_ops: 0,
        align_bytes: 4096,
        queue_depth: 1,
        workers: 1,
        sync_every_writes: 0,
        sync_kind: SyncKind::Fsync,
        rate_per_s: None,
        arrival: Arrival::Constant,
        ramp_ns: 0,
        duration_ns: Some(1_000_000_000),
        operations: None,
        replay: None,
        replay_timed: true,
        seed: 1,
    };
    assert_eq!(spec, expected);
}

#[test]
fn every_key_is_understood() {
    let spec = parse(
        r#"
        targets = ["a", "./null"]
        file_size = "1.5GiB"
        allow_overwrite = true
        io = "buffered"
        block_sizes = { "4KiB" = "70.5%", "64KiB" = "29.5%" }
        read = "60%"
        random = "55%"
        sequential_run_ops = 16
        align = "8KiB"
        queue_depth = 16
        workers = 4
        sync_every_writes = 8
        sync_kind = "fdatasync"
        rate = "5000/s"
        arrival = "poisson"
        ramp = "500ms"
        duration = "1.5min"
        operations = 1_000
        seed = 0x2a
        "#,
    )
    .expect("a good specification");
    assert_eq!(spec.targets, Targets::Paths(vec!["a".into(), "./null".into()]));
    assert_eq!(spec.file_size_bytes, Some(1_610_612_736));
    assert!(spec.allow_overwrite && !spec.direct);
    let blocks = [
        Block {
            size_bytes: 4096,
            share_ppm: 705_000,
        },
        Block {
            size_bytes: 65_536,
            share_ppm: 295_000,
        },
    ];
    assert!(blocks.iter().all(|block| spec.blocks.contains(block)) && spec.blocks.len() == 2);
    assert_eq!(
        (spec.read_ppm, spec.random_ppm, spec.sequential_run_ops),
        (600_000, 550_000, 16)
    );
    assert_eq!((spec.align_bytes, spec.queue_depth, spec.workers), (8192, 16, 4));
    assert_eq!((spec.sync_every_writes, spec.sync_kind), (8, SyncKind::Fdatasync));
    assert_eq!((spec.rate_per_s, spec.arrival), (Some(5000), Arrival::Poisson));
    assert_eq!(
        (spec.ramp_ns, spec.duration_ns),
        (500_000_000, Some(90_000_000_000))
    );
    assert_eq!((spec.operations, spec.seed), (Some(1000), 42));
}

/// (added to a good specification, what the error must say)
const BAD: &[(&str, &[&str])] = &[
    (
        "queue_dept = 4",
        &["line 4, column 1", "\"queue_dept\"", "did you mean queue_depth?"],
    ),
    ("zzzzzzzzzzz = 4", &["the keys are targets, file_size"]),
    (
        "queue_depth = 0",
        &[
            "line 4, column 15, key workload.queue_depth",
            "1 to 4096",
            "the number 0",
        ],
    ),
    ("queue_depth = -1", &["1 to 4096", "the number -1"]),
    ("queue_depth = 99999999999999999999999999", &["1 to 4096"]),
    ("queue_depth = \"16\"", &["a whole number", "\"16\""]),
    ("queue_depth = 1.5", &["a whole number", "the number 1.5"]),
    ("workers = 257", &["1 to 256"]),
    ("read = \"101%\"", &["workload.read", "more than 100%"]),
    ("read = \"0.6\"", &["no unit (one of %)"]),
    ("read = 60", &["percent in quotes with its unit", "the number 60"]),
    (
        "block_sizes = \"4KB\"",
        &["workload.block_sizes", "unknown unit \"KB\""],
    ),
    ("block_sizes = \"256B\"", &["outside 512 B to 16 MiB"]),
    (
        "block_sizes = { \"4KiB\" = \"50%\" }",
        &["sum to 100%", "a sum of 50%"],
    ),
    (
        "block_sizes = { \"4KiB\" = \"50%\", \"4096B\" = \"50%\" }",
        &["named twice"],
    ),
    ("block_sizes = { \"4KiB\" = 100 }", &["table"]),
    ("block_sizes = \"1000B\"", &["multiples of 512 B", "buffered"]),
    (
        "align = \"100B\"\ntargets2 = 1",
        &["\"targets2\"", "did you mean targets?"],
    ),
    (
        "file_size = \"1KiB\"",
        &["at least the largest block size, 4 KiB", "1 KiB"],
    ),
    ("file_size = \"9999999TiB\"", &["workload.file_size"]),
    ("allow_overwrite = \"yes\"", &["true or false", "\"yes\""]),
    (
        "io = \"async\"",
        &["one of \"direct\", \"buffered\"", "\"async\""],
    ),
    ("rate = \"0/s\"", &["out of range"]),
    ("rate = 5000", &["operations per second as `\"5000/s\"`"]),
    ("arrival = \"poisson\"", &["a rate beside it", "no rate"]),
    (
        "sync_every_writes = 4",
        &["a workload that writes", "read = 100%"],
    ),
    ("sync_kind = \"fsync\"", &["sync_every_writes beside it"]),
    (
        "sync_kind = \"o_dsync\"\nread = \"0%\"\nsync_every_writes = 4",
        &["every write is synchronous"],
    ),
    ("sequential_run_ops = 4", &["random below 100%"]),
    ("ramp = \"25h\"", &["out of range"]),
    ("ramp = \"1 fortnight\"", &["unknown unit"]),
    ("operations = 0", &["workload.operations"]),
    ("seed = -1", &["workload.seed"]),
    ("seed = 1\nseed = 2", &["valid TOML", "duplicate"]),
    ("[stack]\nx = 1", &["\"stack\""]),
    ("read = ", &["line 4, column 8", "valid TOML"]),
];

#[test]
fn bad_specifications_are_refused_with_their_place() {
    for (more, said) in BAD {
        let error = parse_more(more).expect_err(more);
        assert!(error.starts_with("job.toml: line "), "{more}: {error}");
        for part in *said {
            assert!(error.contains(part), "{more:?}\n  said {error}\n  not  {part}");
        }
        assert!(!error.contains('\n'), "{more}: more than one line: {error}");
    }
}

#[test]
fn bad_targets_are_refused() {
    let bad = [
        ("duration = \"1s\"", "add targets"),
        ("targets = []\nduration = \"1s\"", "0 paths"),
        ("targets = \"null\"\nduration = \"1s\"", "a list of strings"),
        ("targets = [1]\nduration = \"1s\"", "a list of strings"),
        ("targets = [\"a\", \"a\"]\nduration = \"1s\"", "twice"),
        ("targets = [\"\"]\nduration = \"1s\"", "empty path"),
        ("targets = [\"null\", \"a\"]\nduration = \"1s\"", "use null alone"),
        ("targets = [\"null\"]", "say when to end"),
    ];
    for (body, said) in bad {
        let error = parse(body).expect_err(body);
        assert!(error.contains(said), "{body:?}\n  said {error}\n  not  {said}");
    }
}

#[test]
fn a_file_without_the_table_is_refused() {
    let error = |text| Spec::parse(text, "x").expect_err("no workload").to_string();
    assert!(error("").contains("begin the file with [workload]"));
    assert!(error("targets = [\"null\"]").contains("\"targets\""));
    assert!(error("workload = 3").contains("a table"));
    assert!(error("[worklod]\n").contains("did you mean workload?"));
}

#[test]
fn an_unreadable_file_is_named() {
    let error = Spec::read(std::path::Path::new("/nonexistent/job.toml"))
        .expect_err("no file")
        .to_string();
    assert!(
        error.contains("/nonexistent/job.toml") && error.contains("No such file"),
        "{error}"
    );
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(\\[workload\\]\n)?[a-z_]{0,12} ?=? ?[\\PC\n]{0,40}") {
        let _ = Spec::parse(&text, "fuzz");
    }
}
