//! `whodisk doctor`: what this host lets whodisk observe. Limits are facts, not failures; a kernel that cannot be recorded is.
use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::time::monotonic_resolution_ns;
use record::memory::{RECORDING_BYTES, RECORDING_BYTES_MIN};
use serde::Serialize;
use std::fs;
use std::os::fd::AsRawFd;

/// One fact about this host.
#[derive(Debug, Serialize)]
struct Check {
    name: String,
    ok: bool,
    found: String,
    /// Which commands or layers need it.
    needed_for: &'static str,
    /// What to do if it is not ok; empty otherwise.
    to_do: String,
}

/// Prints the checks.
pub fn main(args: &DoctorArgs) -> Result<(), Failure> {
    let mut checks = block_layer();
    checks.extend([memory(), io_uring(), direct_io(), fuse(), loop_devices(), clock()]);
    let unsupported = checks
        .iter()
        .find(|check| check.name == record::KERNEL && !check.ok);
    let ended = unsupported.map_or(Ok(()), |_| Err(Failure::check()));
    if args.json {
        print_json(&serde_json::json!({ "checks": checks }))?;
        return ended;
    }
    match args.all {
        true => print_all(&checks)?,
        false => print_purposes(&checks)?,
    }
    if let Some(check) = unsupported {
        print(&format!("{}; recording is refused.", check.found))?;
        return ended;
    }
    let missing = checks.iter().filter(|check| !check.ok).count();
    let more = if args.all { "" } else { " Every check: --all" };
    print(&match missing {
        0 => format!("This host lets whodisk observe everything that this version can.{more}"),
        n => format!(
            "{n} of {} checks fail; verdicts will say what they could not see.{more}",
            checks.len()
        ),
    })
}

/// What a person wants to do, and how the `needed_for` of its checks begins. The last takes the rest.
const PURPOSES: [(&str, &[&str]); 4] = [
    (
        "record",
        &["layer block", "a fact of layer block", "whodisk record"],
    ),
    ("run a load", &["whodisk run"]),
    ("slow a disk", &["whodisk slowdisk"]),
    ("tell stages", &[""]),
];

/// A line for each purpose; where something is missing, a second one says what to do. Ten lines at most, with the last.
fn print_purposes(checks: &[Check]) -> Result<(), Failure> {
    for (purpose, lines) in purposes(checks) {
        let missing: Vec<_> = lines.iter().filter(|check| !check.ok).collect();
        let Some(first) = missing.first() else {
            print(&format!("ok  {purpose:<12} {}", whole(&lines)))?;
            continue;
        };
        let names: Vec<_> = missing.iter().take(3).map(|check| check.name.as_str()).collect();
        let more = match missing.len() {
            0..=3 => String::new(),
            n => format!(" and {} more", n - 3),
        };
        print(&format!("--  {purpose:<12} missing: {}{more}", names.join(", ")))?;
        print(&format!("    {:<12} {}: {}", "", first.found, first.to_do))?;
    }
    Ok(())
}

/// What a purpose without anything missing has: a single check's finding, or how many passed.
fn whole(lines: &[&Check]) -> String {
    match lines {
        [only] => format!("{}: {}", only.name, only.found),
        _ => format!("{} of {} checks pass", lines.len(), lines.len()),
    }
}

/// The checks of each purpose; every check has exactly one.
fn purposes(checks: &[Check]) -> Vec<(&'static str, Vec<&Check>)> {
    let of = |check: &Check| {
        let begins =
            |(_, begins): &(&str, &[&str])| begins.iter().any(|begin| check.needed_for.starts_with(begin));
        PURPOSES.iter().position(begins)
    };
    PURPOSES
        .iter()
        .enumerate()
        .map(|(number, (purpose, _))| {
            (
                *purpose,
                checks.iter().filter(|check| of(check) == Some(number)).collect(),
            )
        })
        .collect()
}

/// Every check.
fn print_all(checks: &[Check]) -> Result<(), Failure> {
    let width = checks
        .iter()
        .map(|check| check.name.chars().count())
        .max()
        .unwrap_or(0);
    for check in checks {
        let mark = if check.ok { "ok" } else { "--" };
        print(&format!(
            "{mark}  {:<width$}  {} (for {})",
            check.name, check.found, check.needed_for
        ))?;
        if !check.ok && !check.to_do.is_empty() {
            print(&format!("    {:<width$}  {}", "", check.to_do))?;
        }
    }
    Ok(())
}

fn check(name: &str, needed_for: &'static str, result: Result<String, (String, &str)>) -> Check {
    let ok = result.is_ok();
    let (found, to_do) = result.map_or_else(|(found, to_do)| (found, to_do), |found| (found, ""));
    Check {
        name: name.into(),
        ok,
        found,
        needed_for,
        to_do: to_do.into(),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// The recorder's own checks.
fn block_layer() -> Vec<Check> {
    let convert = |check: record::Check| {
        let ok = check.verdict == record::Verdict::Yes;
        let (found, to_do) = match check.detail.split_once("; ") {
            Some((found, to_do)) if !ok => (found.to_string(), to_do.to_string()),
            _ => (check.detail, String::new()),
        };
        let needed_for = match check.verdict {
            record::Verdict::Partly => "a fact of layer block",
            _ => "layer block",
        };
        Check {
            name: check.what,
            ok,
            found,
            needed_for,
            to_do,
        }
    };
    record::doctor().into_iter().map(convert).collect()
}

/// Whether a recording has room, with rings of the usual size or with small ones.
fn memory() -> Check {
    let needed = format!(
        "a recording takes {} MiB, and {} MiB where less is there",
        RECORDING_BYTES >> 20,
        RECORDING_BYTES_MIN >> 20
    );
    let result = match record::memory::available() {
        None => Ok(format!("{needed}; /proc/meminfo does not say what is there")),
        Some(here) => {
            let found = format!(
                "{needed}; {} MiB are available ({})",
                here.bytes >> 20,
                here.source.display()
            );
            match here.bytes < RECORDING_BYTES_MIN {
                true => Err((
                    found,
                    "end other programs, or raise the limit: the kernel may kill the recorder",
                )),
                false => Ok(found),
            }
        }
    };
    check("memory", "whodisk record", result)
}

fn io_uring() -> Check {
    let mut parameters = [0u8; 256];
    // SAFETY: io_uring_params is 120 bytes; the buffer is longer and zeroed.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
    let result = if fd >= 0 {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(fd as i32) };
        Ok("usable".to_string())
    } else {
        let error = std::io::Error::last_os_error();
        let setting = read("/proc/sys/kernel/io_uring_disabled").unwrap_or_else(|| "absent".into());
        let found = format!("{error} (kernel.io_uring_disabled is {setting})");
        Err((
            found,
            "sysctl kernel.io_uring_disabled=0, or allow io_uring in the container's seccomp profile",
        ))
    };
    check("io_uring", "whodisk run", result)
}

fn direct_io() -> Check {
    let path = format!(".whodisk-doctor-{}", std::process::id());
    // Made first and switched over then: opening with O_DIRECT may fail after it made the file, and what is there
    // already, is not ours to remove.
    let made = fs::OpenOptions::new().create_new(true).write(true).open(&path);
    let switched = made.and_then(|file| {
        let _ = fs::remove_file(&path);
        // SAFETY: a plain call on an open descriptor.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_DIRECT) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    });
    let result = match switched {
        Ok(()) => Ok("works in this directory".to_string()),
        Err(error) => Err((
            format!("not in this directory: {error}"),
            "work in a directory on a real disk that you may write",
        )),
    };
    check("direct I/O", "whodisk run on files here", result)
}

fn fuse() -> Check {
    let result = match fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Ok("/dev/fuse opens".to_string()),
        Err(error) => Err((format!("/dev/fuse: {error}"), "run as root; modprobe fuse")),
    };
    check("FUSE", "whodisk slowdisk", result)
}

fn loop_devices() -> Check {
    let result = match fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")
    {
        Ok(_) => Ok("/dev/loop-control opens".to_string()),
        Err(error) => Err((
            format!("/dev/loop-control: {error}"),
            "run as root; modprobe loop",
        )),
    };
    check("loop devices", "whodisk slowdisk", result)
}

fn clock() -> Check {
    let step = monotonic_resolution_ns();
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    let result = if step <= 1_000 {
        Ok(format!("steps of {step} ns ({source})"))
    } else {
        Err((
            format!("steps of {step} ns ({source})"),
            "shorter stages cannot be told apart; prefer the tsc clock source",
        ))
    };
    check("clock", "every stage", result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_one_purpose() {
        let needs = [
            "layer block",
            "a fact of layer block",
            "whodisk record",
            "whodisk run on files here",
            "every stage",
        ];
        let checks: Vec<_> = needs
            .iter()
            .map(|need| check("name", need, Ok("found".into())))
            .collect();
        let counts: Vec<_> = purposes(&checks).iter().map(|(_, lines)| lines.len()).collect();
        assert_eq!(counts, [3, 1, 0, 1]);
    }
}
