//! `whodisk watch`: frames on stdout, metrics on request. Nothing is stored.
mod http;
mod keys;
mod metrics;
mod text;

use crate::args::WatchArgs;
use crate::failure::Failure;
use crate::output::{print, say};
use crate::signals::Signals;
use crate::watch::keys::Keys;
use record::watch::{Frame, Watch};
use std::io::IsTerminal;
use std::time::Duration;

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);
const INTERVAL: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// `whodisk watch`.
pub fn main(args: &WatchArgs) -> Result<(), Failure> {
    if !INTERVAL.contains(&args.interval) {
        return Err(Failure::error(format!(
            "--interval: expected 100ms to 1h, found {:?}",
            args.interval
        )));
    }
    let only = args.device.as_deref().map(disk).transpose()?;
    let signals = Signals::block().map_err(|e| Failure::error(format!("cannot block signals: {e}")))?;
    let listener = args.prometheus.map(http::listen).transpose()?;
    let refused = |error: record::RecordError| {
        Failure::error(format!(
            "cannot observe this machine: {}",
            record::shortened(&error.to_string())
        ))
    };
    let watch = Watch::begin(args.interval, only).map_err(refused)?;
    if let Some(listener) = listener {
        http::serve(listener, watch.totals())?;
    }
    let keys = if args.json { None } else { Keys::of_terminal() };
    say(if keys.is_some() {
        "watching; q or Ctrl-C ends it"
    } else {
        "watching; Ctrl-C ends it"
    });
    let shown = show(args, &watch, &signals, keys.as_ref());
    drop(keys);
    watch.end().map_err(Failure::error)?;
    shown
}

/// Prints frames until a signal or the key q, or the first one where only one is wanted.
fn show(args: &WatchArgs, watch: &Watch, signals: &Signals, keys: Option<&Keys>) -> Result<(), Failure> {
    let terminal = std::io::stdout().is_terminal() && !args.json;
    loop {
        let ends = |signal| signal != libc::SIGCHLD;
        if signals.wait(TICK).iter().any(|arrived| ends(arrived.signal)) {
            return Ok(());
        }
        if keys.is_some_and(Keys::quit) {
            return Ok(());
        }
        // Ended by itself: `Watch::end` says why.
        let Ok(frame) = watch.next_frame(Duration::ZERO) else {
            return Ok(());
        };
        let Some(frame) = frame else { continue };
        print(&rendered(&frame, args.json, terminal)?)?;
        if args.once {
            return Ok(());
        }
    }
}

fn rendered(frame: &Frame, json: bool, terminal: bool) -> Result<String, Failure> {
    if json {
        return serde_json::to_string(frame).map_err(Failure::error);
    }
    let size = terminal.then(text::terminal_size).flatten();
    Ok(match size {
        Some((rows, columns)) => text::on_screen(&text::frame(frame, columns), rows, columns),
        None => text::frame(frame, usize::MAX),
    })
}

/// The kernel name behind `vda` or `/dev/vda`.
fn disk(name: &str) -> Result<String, Failure> {
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    if !short.is_empty() && !short.contains('/') && std::path::Path::new("/sys/block").join(short).exists() {
        return Ok(short.to_owned());
    }
    let mut disks: Vec<String> = std::fs::read_dir("/sys/block")
        .map(|entries| {
            let names = entries
                .flatten()
                .map(|e| e.file_name().to_string_lossy().into_owned());
            names
                .filter(|n| !n.starts_with("loop") && !n.starts_with("ram"))
                .collect()
        })
        .unwrap_or_default();
    disks.sort();
    Err(Failure::error(format!(
        "--device: expected a whole disk of /sys/block ({}, ...), found '{name}'; \
         requests to a partition are those of its disk",
        disks.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::disk;

    #[test]
    fn an_unknown_disk_is_refused() {
        for bad in ["", "nvme99n99", "../block", "/dev/"] {
            assert!(disk(bad).is_err(), "{bad}");
        }
    }
}
