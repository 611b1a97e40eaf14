//! `whodisk redact`, and `--redact` at the end of a recording.
use crate::args::{RedactArgs, RedactionArgs};
use crate::failure::{io_failure, Failure};
use crate::observe::require_case;
use crate::output::{grouped, print_json, say};
use crate::seal::seal_case;
use crate::sharing::Mode;
use crate::signals::Signals;
use case::meta::{CaseMeta, State};
use case::redact::{redact, Key, Summary};
use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// `whodisk redact CASE -o OUT`.
pub fn main(args: &RedactArgs) -> Result<(), Failure> {
    require_case(&args.case)?;
    if CaseMeta::read(&args.case)?.state != State::Sealed {
        say(&format!("{}: sealing", args.case.display()));
        Mode::of(&args.case).take();
        seal_case(&args.case, false)?;
    }
    args.sharing.take();
    let key = key(args.key.as_deref())?;
    let interrupt = Interrupt::block()?;
    let copied = into_new(&args.case, &args.output, key, &|| interrupt.came());
    let summary = copied.map_err(|failure| match interrupt.signal.get() {
        Some(signal) => Failure::interrupted(signal),
        None => failure,
    })?;
    say(&format!(
        "{}: {} names replaced in {} rows; read it before you send it",
        args.output.display(),
        grouped(summary.names_replaced as u64),
        grouped(summary.rows)
    ));
    if args.json {
        print_json(&summary)?;
    }
    Ok(())
}

/// Puts the redacted copy of a sealed case in its place; the raw events go, too.
pub fn in_place(case: &Path, args: &RedactionArgs) -> Result<(), Failure> {
    // A name of its own: what stands beside the case is not ours.
    let name = case.file_name().unwrap_or_default().to_string_lossy();
    let copy = case.with_file_name(format!(".{name}.redacting-{}", std::process::id()));
    let summary = into_new(case, &copy, key(args.redact_key.as_deref())?, &|| false)?;
    fs::remove_dir_all(case).map_err(|error| io_failure(case, "remove", &error))?;
    fs::rename(&copy, case).map_err(|error| io_failure(&copy, "rename", &error))?;
    say(&format!(
        "{} names replaced by tokens",
        grouped(summary.names_replaced as u64)
    ));
    Ok(())
}

/// What ends a copy before it is whole: Ctrl-C, SIGTERM or SIGHUP.
struct Interrupt {
    signals: Signals,
    /// The signal that came.
    signal: Cell<Option<i32>>,
}

impl Interrupt {
    /// From here on, these signals only count where somebody asks. To be called before any other thread starts.
    fn block() -> Result<Interrupt, Failure> {
        let signals = Signals::block().map_err(|e| Failure::error(format!("cannot block signals: {e}")))?;
        Ok(Interrupt {
            signals,
            signal: Cell::new(None),
        })
    }

    fn came(&self) -> bool {
        let arrived = self.signals.arrived();
        if let Some(one) = arrived.iter().find(|a| a.signal != libc::SIGCHLD) {
            self.signal.set(Some(one.signal));
        }
        self.signal.get().is_some()
    }
}

fn into_new(case: &Path, out: &Path, key: Key, interrupted: &dyn Fn() -> bool) -> Result<Summary, Failure> {
    fs::create_dir(out).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::error(format!(
            "{}: expected a new directory for the redacted case, found one that exists; choose another with -o",
            out.display()
        )),
        _ => io_failure(out, "create the directory", &error),
    })?;
    redact(case, out, key, interrupted).map_err(|error| {
        // Half a copy is of no use, and it is ours.
        let _ = fs::remove_dir_all(out);
        Failure::from(error)
    })
}

/// The key of a file, which is made where there is none; without a file a random one that nobody keeps.
fn key(file: Option<&Path>) -> Result<Key, Failure> {
    let Some(path) = file else { return random_key() };
    match fs::read_to_string(path) {
        Ok(text) => parse_key(&text).ok_or_else(|| {
            Failure::error(format!(
                "{}: expected a key of 32 hexadecimal digits, found something else; give a file that --redact-key \
                 wrote, or one that does not exist yet",
                path.display()
            ))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = random_key()?;
            keep(&key, path).map_err(|error| io_failure(path, "write the key", &error))?;
            Ok(key)
        }
        Err(error) => Err(io_failure(path, "read the key", &error)),
    }
}

fn keep(key: &Key, path: &Path) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{:016x}{:016x}", key.0[0], key.0[1])
}

fn parse_key(text: &str) -> Option<Key> {
    let digits = text.trim();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let half = |digits: &str| u64::from_str_radix(digits, 16).ok();
    Some(Key([half(&digits[..16])?, half(&digits[16..])?]))
}

fn random_key() -> Result<Key, Failure> {
    let mut key = [0_u64; 2];
    let bytes = size_of_val(&key);
    // SAFETY: the buffer is as long as we say.
    let got = unsafe { libc::getrandom(key.as_mut_ptr().cast(), bytes, 0) };
    if got == bytes as isize {
        return Ok(Key(key));
    }
    let error = std::io::Error::last_os_error();
    Err(Failure::error(format!("getrandom: cannot draw a key: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_key_is_read_again_and_a_bad_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let made = key(Some(&path)).unwrap();
        assert_eq!(key(Some(&path)).unwrap(), made);
        assert_ne!(key(None).unwrap(), made);
        for bad in [
            "",
            "12",
            "zz112233445566778899aabbccddeeff",
            "00112233445566778899aabbccddeeff0",
        ] {
            fs::write(&path, bad).unwrap();
            assert!(key(Some(&path)).is_err(), "{bad:?}");
        }
    }
}
