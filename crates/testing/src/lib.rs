//! Tests that may find, while they run, that they cannot run here: they are *ignored* with a reason, never passed.
//!
//! Rust's own harness has no such outcome. A target of tests uses this one with `harness = false` in its manifest and
//!
//! ```text
//! use testing::test;
//! testing::main!();
//!
//! #[test]
//! fn needs_fio() {
//!     if !is_installed("fio") {
//!         testing::skip("fio is not installed");
//!     }
//! ```
//!
//! Filters, `--list`, `--ignored`, `--test-threads` and the closing line are those of `cargo test` (libtest-mimic); output
//! is not captured. Where `WHODISK_SKIPS` names a file, each test that was ignored adds a line `target::test<TAB>reason`:
//! `make test` sums them up. Where `WHODISK_RETRIES` names a file, a test that failed is run once more, and if it passes then
//! adds such a line there (decision 0193).
use libtest_mimic::{Completion, Failed, Trial};
use std::any::Any;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{catch_unwind, resume_unwind};
use std::process::ExitCode;

pub use inventory;
pub use libtest_mimic::Arguments;
pub use testing_macros::test;

/// One test, as `#[test]` registers it.
pub struct Test {
    /// The target and the modules in it.
    pub module: &'static str,
    /// Of the function.
    pub name: &'static str,
    /// Why it runs only when it is asked for.
    pub left_out: Option<&'static str>,
    /// The test: it returns or panics.
    pub run: fn(),
}

inventory::collect!(Test);

/// Names the file of the tests that passed only when run again.
const RETRIES: &str = "WHODISK_RETRIES";

/// What unwinds from a test that cannot run here.
struct Skip(String);

/// Ends the calling test, which is then ignored, with why it cannot run here.
///
/// Works at any depth, on the thread of the test. Unwinds without the message of a panic; who catches panics asks
/// [`is_skip`] and passes it on.
pub fn skip(reason: impl Into<String>) -> ! {
    resume_unwind(Box::new(Skip(reason.into())))
}

/// Whether what was caught is a test that ended itself by [`skip`].
pub fn is_skip(caught: &(dyn Any + Send)) -> bool {
    caught.is::<Skip>()
}

/// The `main` of a target of tests.
#[macro_export]
macro_rules! main {
    () => {
        fn main() -> ::std::process::ExitCode {
            ::testing::run(::testing::Arguments::from_args())
        }
    };
}

/// Runs the tests of this program that the arguments choose: for a target with a `main` that has something else to do, too.
pub fn run(arguments: Arguments) -> ExitCode {
    let mut tests: Vec<&Test> = inventory::iter::<Test>.into_iter().collect();
    tests.sort_by_key(|test| (test.module, test.name));
    let asked = arguments.ignored || arguments.include_ignored;
    let trials = tests.into_iter().map(|test| trial(test, asked)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test as libtest-mimic runs it; `asked`: also those that are left out.
fn trial(test: &'static Test, asked: bool) -> Trial {
    let (target, modules) = test.module.split_once("::").unwrap_or((test.module, ""));
    let name = if modules.is_empty() {
        test.name.to_owned()
    } else {
        format!("{modules}::{}", test.name)
    };
    let whole_name = format!("{target}::{name}");
    let runner = move || {
        let outcome = match test.left_out {
            Some(reason) if !asked => Err(Box::new(Skip(reason.to_owned())) as Box<dyn Any + Send>),
            _ => tried(test.run, &whole_name),
        };
        match outcome {
            Ok(()) => Ok(Completion::Completed),
            Err(caught) => match caught.downcast::<Skip>() {
                Ok(skip) => {
                    note("WHODISK_SKIPS", &whole_name, &skip.0);
                    Ok(Completion::ignored_with(&skip.0))
                }
                // Its message was printed where it arose.
                Err(_) => Err(Failed::from("it panicked, see above")),
            },
        }
    };
    Trial::ignorable_test(name, runner).with_ignored_flag(asked && test.left_out.is_some())
}

/// Runs a test; once more if it failed and `make test` asks for that. It fails if it fails twice.
fn tried(run: fn(), name: &str) -> Result<(), Box<dyn Any + Send>> {
    let first = catch_unwind(run);
    match first {
        Err(failure) if std::env::var_os(RETRIES).is_some() && !is_skip(&*failure) => {
            println!("test {name} failed, see above: once more");
            catch_unwind(run)?;
            note(RETRIES, name, "failed at first, passed when run again");
            Ok(())
        }
        outcome => outcome,
    }
}

/// Adds a line to the file that this variable of the environment names, if it is set.
fn note(variable: &str, test: &str, reason: &str) {
    let Some(path) = std::env::var_os(variable) else {
        return;
    };
    let line = format!("{test}\t{}\n", reason.replace(['\n', '\t'], " "));
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{variable}={}: {error}", path.display()));
}
