//! What becomes of tests that cannot run: this program runs itself with tests of every kind.
use std::process::{Command, ExitCode, Output};
use testing::{test, Arguments};

/// Set where this program plays the tests that are looked at.
const PLAY: &str = "WHODISK_HARNESS_PLAY";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    if !plays() {
        arguments.skip.push("played::".into());
    }
    testing::run(arguments)
}

fn plays() -> bool {
    std::env::var_os(PLAY).is_some()
}

mod played {
    use testing::test;

    #[test]
    fn passes() {}

    #[test]
    fn skips() {
        helper();
        unreachable!("a skip ends the test");
    }

    /// What decides may lie far below the test.
    fn helper() {
        testing::skip("no such disk here");
    }

    #[test]
    fn fails() {
        panic!("on purpose");
    }

    #[test("takes minutes")]
    fn left_out() {}
}

fn play(arguments: &[&str]) -> (Output, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let skips = folder.path().join("skips");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .env(PLAY, "")
        .env("WHODISK_SKIPS", &skips)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let skips = std::fs::read_to_string(skips).unwrap_or_default();
    (output, said, skips)
}

#[test]
fn what_did_not_run_is_ignored_and_counted() {
    let (output, said, skips) = play(&["played::"]);
    assert_eq!(output.status.code(), Some(101), "{said}");
    assert!(
        said.contains("played::skips    ... ignored (no such disk here)"),
        "{said}"
    );
    assert!(
        said.contains("1 passed; 1 failed; 2 ignored; 0 measured; 2 filtered out"),
        "{said}"
    );
    let mut lines: Vec<_> = skips.lines().collect();
    lines.sort_unstable();
    let expected = [
        "harness::played::left_out\ttakes minutes",
        "harness::played::skips\tno such disk here",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_is_left_out_runs_when_it_is_asked_for() {
    let (output, said, skips) = play(&["played::", "--ignored"]);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("1 passed; 0 failed; 0 ignored"), "{said}");
    assert_eq!(skips, "");
}
