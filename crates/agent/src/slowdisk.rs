//! `whodisk slowdisk`, and the lab's drives behind its device.
use crate::args::SlowdiskArgs;
use crate::failure::Failure;
use crate::output::say;
use crate::signals::Signals;
use case::schema::Op;
use lab::component::{Command, DriveModel};
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
    let model = args
        .model
        .as_deref()
        .map(|name| modelled(name, &options))
        .transpose()?;
    slowdisk::serve(&options, model, &stop, &mut std::io::stdout()).map_err(Failure::error)?;
    Ok(())
}

/// The drive of this name, as large as the device is to be.
fn modelled(name: &str, options: &slowdisk::Options) -> Result<Box<dyn slowdisk::Model>, Failure> {
    let size_bytes = options.config().map_err(Failure::error)?.size_bytes;
    let made = lab::models::presets::drive(name, size_bytes, workload::rng::Rng::new(options.seed, 0));
    let drive = made.expect("the command line knows the names").map_err(|error| {
        Failure::error(format!(
            "--model {name}: {}: expected {}, found {}; choose another --size",
            error.key, error.expected, error.found
        ))
    })?;
    Ok(Box::new(Modelled {
        drive,
        waiting: Vec::new(),
    }))
}

/// A drive of the lab as the slow disk wants one.
struct Modelled {
    drive: Box<dyn DriveModel>,
    /// Kept for its memory.
    waiting: Vec<Command>,
}

fn command(command: &slowdisk::Command) -> Command {
    let op = match command.op {
        slowdisk::Op::Read => Op::Read,
        slowdisk::Op::Write => Op::Write,
        slowdisk::Op::Flush | slowdisk::Op::Any => Op::Flush,
    };
    Command {
        op,
        offset_bytes: command.offset_bytes,
        size_bytes: command.size_bytes,
    }
}

impl slowdisk::Model for Modelled {
    fn rotational(&self) -> bool {
        self.drive.rotational()
    }

    fn slots(&self) -> usize {
        self.drive.slots()
    }

    fn choose(&mut self, now_ns: u64, waiting: &[slowdisk::Command]) -> usize {
        self.waiting.clear();
        self.waiting.extend(waiting.iter().map(command));
        self.drive.choose(now_ns, &self.waiting)
    }

    fn serve(&mut self, now_ns: u64, asked: &slowdisk::Command) -> slowdisk::Served {
        let service = self.drive.serve(now_ns, &command(asked));
        slowdisk::Served {
            done_ns: service.done_ns,
            free_ns: service.free_ns,
        }
    }
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
