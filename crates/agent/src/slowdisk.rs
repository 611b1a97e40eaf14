//! `whodisk slowdisk`.
use crate::args::SlowdiskArgs;
use crate::failure::Failure;
use crate::output::say;
use crate::signals::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Serves the device until a signal comes or the time is over.
pub fn main(args: &SlowdiskArgs) -> Result<(), Failure> {
    let stop = stop_at_signal()?;
    let options = slowdisk::Options {
        size: args.size.clone(),
        faults: args.faults.clone(),
        latency: args.latency.clone(),
        seed: args.seed,
        backing: args.backing.clone(),
        log: args.log.clone(),
        duration: args.duration.clone(),
    };
    if args.duration.is_none() {
        say("the device is ready when its path appears; Ctrl-C removes it");
    }
    slowdisk::serve(&options, &stop, &mut std::io::stdout()).map_err(Failure::error)?;
    Ok(())
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets. To be called before any other thread starts.
pub fn stop_at_signal() -> Result<Arc<AtomicBool>, Failure> {
    let signals = Signals::block().map_err(|e| Failure::error(format!("cannot block signals: {e}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let watch = move || {
        while !flag.load(Ordering::Relaxed) {
            let arrived = signals.wait(Duration::from_secs(3600));
            if arrived.iter().any(|a| a.signal != libc::SIGCHLD) {
                flag.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::Builder::new()
        .name("whodisk-signals".into())
        .spawn(watch)
        .map_err(|e| Failure::error(format!("cannot start a thread: {e}")))?;
    Ok(stop)
}
