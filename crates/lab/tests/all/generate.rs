//! Random cases: sound, the same bytes for any number of threads, kept when they are whole.
use crate::common::files;
use lab::generate::{generate, Line, Request};
use std::path::Path;

fn make(dir: &Path, first: u64, count: u64, threads: usize) -> Vec<Line> {
    let request = Request {
        seed: 11,
        first,
        count,
        threads,
    };
    generate(dir, request, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn eight_cases_are_sound_and_the_same_with_one_and_two_threads() {
    let (one, two) = (
        tempfile::tempdir().expect("a directory"),
        tempfile::tempdir().expect("a directory"),
    );
    let lines = make(one.path(), 0, 8, 1);
    // The second half first, as if another run had been stopped: a case does not depend on the others.
    make(two.path(), 4, 4, 2);
    let resumed = make(two.path(), 0, 8, 2);
    assert_eq!(
        resumed.iter().map(|line| line.kept).collect::<Vec<_>>(),
        [false, false, false, false, true, true, true, true]
    );
    for (fresh, again) in lines.iter().zip(&resumed) {
        assert_eq!((&fresh.culprit, fresh.healthy), (&again.culprit, again.healthy));
        assert!((fresh.effect - again.effect).abs() < 1e-9, "{}", fresh.case);
    }
    let (left, right) = (files(one.path()), files(two.path()));
    assert_eq!(left.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>());
    for (name, bytes) in &left {
        assert!(right[name] == *bytes, "{name} differs");
    }
    for line in &lines {
        let report = case::verify::verify(&one.path().join(&line.case)).expect("a case");
        assert!(
            report.problems.is_empty(),
            "{}: {:#?}",
            line.case,
            report.problems
        );
    }
    assert!(
        lines[0].healthy && lines[5].healthy,
        "numbers divisible by five are healthy"
    );
}

#[test]
fn cases_of_another_seed_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), 0, 1, 1);
    let request = Request {
        seed: 12,
        first: 0,
        count: 1,
        threads: 1,
    };
    let error = generate(dir.path(), request, &|_| ()).expect_err("another seed");
    assert!(error.to_string().contains("case-000000.toml"), "{error}");
}
