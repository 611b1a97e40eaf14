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

    /// Left out like the above, so that only the test that asks for it sees it fail.
    #[test("fails the first time")]
    fn passes_the_second_time() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static SECOND: AtomicBool = AtomicBool::new(false);
        assert!(SECOND.swap(true, Ordering::Relaxed), "on purpose");
    }
}

fn play(arguments: &[&str]) -> (Output, String, String) {
    play_with("WHODISK_SKIPS", arguments)
}

/// The last of what it gives is the file that this variable names.
fn play_with(variable: &str, arguments: &[&str]) -> (Output, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .env(PLAY, "")
        .env_remove("WHODISK_SKIPS")
        .env_remove("WHODISK_RETRIES")
        .env(variable, &notes)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let notes = std::fs::read_to_string(notes).unwrap_or_default();
    (output, said, notes)
}

#[test]
fn what_did_not_run_is_ignored_and_counted() {
    let (output, said, skips) = play(&["played::"]);
    assert_eq!(output.status.code(), Some(101), "{said}");
    assert!(
        said.contains("played::skips                  ... ignored (no such disk here)"),
        "{said}"
    );
    assert!(
        said.contains("1 passed; 1 failed; 3 ignored; 0 measured; 3 filtered out"),
        "{said}"
    );
    let mut lines: Vec<_> = skips.lines().collect();
    lines.sort_unstable();
    let expected = [
        "harness::played::left_out\ttakes minutes",
        "harness::played::passes_the_second_time\tfails the first time",
        "harness::played::skips\tno such disk here",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_is_left_out_runs_when_it_is_asked_for() {
    let (output, said, skips) = play(&["played::left_out", "--ignored"]);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("1 passed; 0 failed; 0 ignored"), "{said}");
    assert_eq!(skips, "");
}

#[test]
fn what_fails_runs_once_more_where_that_is_noted() {
    let arguments = ["played::passes_the_second_time", "--ignored"];
    let (output, said, notes) = play_with("WHODISK_RETRIES", &arguments);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let expected = "harness::played::passes_the_second_time\tfailed at first, passed when run again\n";
    assert_eq!(notes, expected);

    let (output, said, _) = play(&arguments);
    assert_eq!(
        output.status.code(),
        Some(101),
        "without a place to note it: {said}"
    );

    let (output, said, notes) = play_with("WHODISK_RETRIES", &["played::fails"]);
    assert_eq!(output.status.code(), Some(101), "what fails twice fails: {said}");
    assert_eq!(notes, "");
}
