//! A slow disk from start to stop.
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use fuser::{Session, SessionACL};

use crate::clock::mono_ns;
use crate::disk::{Counters, Disk, Due, Modelled, Shared};
use crate::error::SlowdiskError;
use crate::fault::Fault;
use crate::inject::{FaultStats, Injector};
use crate::kernel::{abort_connection, connection_number, open_below, Context};
use crate::log::Log;
use crate::loopdev::LoopDevice;
use crate::model::{Model, Station};
use crate::store::Store;
use crate::timer::{Lateness, Timer};

/// The disk's size is a whole number of these.
pub const SIZE_UNIT_BYTES: u64 = 4096;

/// Threads that take requests from the kernel.
const READERS: usize = 2;

/// How long a step of the shutdown may take before the next, harder one.
const PATIENCE: Duration = Duration::from_secs(3);

/// What disk to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Size of the device, a multiple of 4096.
    pub size_bytes: u64,
    /// Faults, all active from the start.
    pub faults: Vec<Fault>,
    /// Time every read and write takes, besides faults; 0: as fast as it can.
    pub latency_ns: u64,
    /// Seed of the random draws: the n-th matching request of a fault is hit or not, the same for each run.
    pub seed: u64,
    /// File for the data; None: memory.
    pub backing: Option<PathBuf>,
    /// File for one JSON line per injected fault.
    pub log: Option<PathBuf>,
}

/// What a disk did so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Read requests that arrived, and their bytes.
    pub reads: u64,
    /// Bytes of `reads`.
    pub read_bytes: u64,
    /// Write requests that arrived.
    pub writes: u64,
    /// Bytes of `writes`.
    pub write_bytes: u64,
    /// Flushes that arrived.
    pub flushes: u64,
    /// Discards and requests to zero a range; no fault touches them.
    pub discards: u64,
    /// What each fault did, in the order given.
    pub faults: Vec<FaultStats>,
    /// How late delayed requests were answered.
    pub lateness: Lateness,
}

/// A running slow disk. Dropping it stops it.
pub struct Slowdisk {
    loop_device: LoopDevice,
    connection: u32,
    session: Option<JoinHandle<io::Result<()>>>,
    shared: Arc<Shared>,
    log: Option<(PathBuf, Log)>,
    stopped: bool,
}

impl Slowdisk {
    /// Makes the device; it is ready when this returns. Needs root, FUSE and loop devices.
    pub fn start(config: Config) -> Result<Slowdisk, SlowdiskError> {
        Slowdisk::start_as(config, None)
    }

    /// The same for a modelled drive: every request takes what the model says, and what faults add.
    pub fn start_as(config: Config, model: Option<Box<dyn Model>>) -> Result<Slowdisk, SlowdiskError> {
        check(&config)?;
        let store = match &config.backing {
            Some(path) => Store::open(path, config.size_bytes)?,
            None => Store::memory(config.size_bytes)?,
        };
        let log = config.log.map(open_log).transpose()?;
        let rotational = model.as_ref().is_some_and(|model| model.rotational());
        let modelled = model.map(|model| Mutex::new(Modelled::new(Station::new(model))));
        // The timer looks at what owns it.
        let owner: Arc<OnceLock<Weak<Shared>>> = Arc::default();
        let shared_by_timer = owner.clone();
        let run = move |due| match due {
            Due::Answer(answer) => answer.send(),
            Due::Look => {
                if let Some(shared) = shared_by_timer.get().and_then(Weak::upgrade) {
                    shared.look();
                }
            }
        };
        let shared = Arc::new(Shared {
            modelled,
            injector: Injector::new(config.faults, config.latency_ns, config.seed),
            timer: Timer::start(run).map_err(system("start a thread"))?,
            counters: Counters::default(),
            start_mono_ns: mono_ns(),
            log: Mutex::new(log.as_ref().map(|(_, log)| log.sender())),
        });
        let _ = owner.set(Arc::downgrade(&shared));
        let file_name = unique_name();
        let disk = Disk {
            file_name: file_name.clone(),
            size_bytes: config.size_bytes,
            store,
            shared: shared.clone(),
            threads: AtomicUsize::new(0),
        };
        let (connection, session, loop_device) = serve(disk, &file_name)?;
        loop_device.spins(rotational)?;
        Ok(Slowdisk {
            loop_device,
            connection,
            session: Some(session),
            shared,
            log,
            stopped: false,
        })
    }

    /// The device, e.g. `/dev/loop3`.
    pub fn device(&self) -> &Path {
        &self.loop_device.path
    }

    /// When fault times began, CLOCK_MONOTONIC.
    pub fn start_mono_ns(&self) -> u64 {
        self.shared.start_mono_ns
    }

    /// Counts up to now.
    pub fn stats(&self) -> Stats {
        let counters = &self.shared.counters;
        Stats {
            reads: counters.reads.load(Relaxed),
            read_bytes: counters.read_bytes.load(Relaxed),
            writes: counters.writes.load(Relaxed),
            write_bytes: counters.write_bytes.load(Relaxed),
            flushes: counters.flushes.load(Relaxed),
            discards: counters.discards.load(Relaxed),
            faults: self.shared.injector.stats(),
            lateness: self.shared.timer.lateness(),
        }
    }

    /// Answers what is waiting at once, removes the device and ends all threads, within some seconds.
    ///
    /// Returns what a person should know, if anything: the device is still open elsewhere, the log is not
    /// complete. A device that is still open fails every request from now on, and goes with its last user.
    pub fn stop(mut self) -> Vec<String> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Vec<String> {
        if std::mem::replace(&mut self.stopped, true) {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        self.shared.injector.disarm();
        self.shared.timer.close();
        self.shared.abandon();
        let closed = self.loop_device.close(PATIENCE);
        if !closed || self.loop_device.is_attached() {
            warnings.push(self.still_open());
            self.abort(&mut warnings);
        } else if !self.session_ends(PATIENCE) {
            self.abort(&mut warnings);
        }
        self.finish_log(&mut warnings);
        warnings
    }

    fn still_open(&self) -> String {
        let path = self.device().display();
        let folders = self.loop_device.mounted_at();
        let (user, todo) = match folders.as_slice() {
            [] => ("open in another program".into(), "close it".into()),
            [folder, ..] => (format!("mounted at {folder}"), format!("run `umount {folder}`")),
        };
        format!("{path} is still {user}: its requests fail from now on; {todo} to free the device")
    }

    fn abort(&mut self, warnings: &mut Vec<String>) {
        if let Err(error) = abort_connection(self.connection) {
            warnings.push(format!(
                "cannot abort FUSE connection {}: {error}",
                self.connection
            ));
        }
        if !self.session_ends(PATIENCE) {
            warnings.push("the FUSE threads did not end; they end with the process".into());
        }
    }

    /// Waits for the reader threads to see the end of the connection; false if they do not in time.
    fn session_ends(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while self
            .session
            .as_ref()
            .is_some_and(|session| !session.is_finished())
        {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        if let Some(session) = self.session.take() {
            // An error here means that the connection broke, which is what we wait for.
            let _ = session.join();
        }
        true
    }

    fn finish_log(&mut self, warnings: &mut Vec<String>) {
        self.shared
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((path, log)) = self.log.take() {
            if let Err(error) = log.finish() {
                let path = path.display();
                warnings.push(format!(
                    "{path}: the log is not complete: {error}; choose another place"
                ));
            }
        }
    }
}

impl Drop for Slowdisk {
    fn drop(&mut self) {
        for warning in self.shut_down() {
            eprintln!("whodisk: {warning}");
        }
    }
}

fn system(action: &'static str) -> impl Fn(io::Error) -> SlowdiskError {
    move |source| SlowdiskError::System {
        action,
        source,
        hint: "check the kernel's log (dmesg)",
    }
}

fn check(config: &Config) -> Result<(), SlowdiskError> {
    if config.size_bytes == 0 || !config.size_bytes.is_multiple_of(SIZE_UNIT_BYTES) {
        return Err(SlowdiskError::Option {
            option: "--size",
            found: format!("{} bytes", config.size_bytes),
            expected: format!("a multiple of {SIZE_UNIT_BYTES} bytes above 0"),
            hint: "e.g. --size 1GiB".into(),
        });
    }
    for fault in &config.faults {
        if let Some(range) = fault
            .offset_bytes
            .as_ref()
            .filter(|range| range.start >= config.size_bytes)
        {
            return Err(SlowdiskError::Option {
                option: "--fault",
                found: format!("'{fault}' begins at byte {}", range.start),
                expected: format!("an offset on the device, below {} bytes", config.size_bytes),
                hint: "change the offset or --size".into(),
            });
        }
    }
    // SAFETY: cannot fail.
    let user = unsafe { libc::geteuid() };
    if user != 0 {
        return Err(SlowdiskError::Machine {
            expected: "root, which loop devices and mounts need",
            found: format!("user {user}"),
            hint: "run it with sudo",
        });
    }
    Ok(())
}

fn open_log(path: PathBuf) -> Result<(PathBuf, Log), SlowdiskError> {
    match Log::create(&path) {
        Ok(log) => Ok((path, log)),
        Err(source) => Err(SlowdiskError::File {
            path,
            action: "create the log",
            source,
            hint: "give --log a new file in a writable folder",
        }),
    }
}

/// A file name that no other slow disk of this machine has now: the kernel shows it for the loop device.
fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "whodisk-slowdisk-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Relaxed)
    )
}

/// Starts FUSE and puts a loop device over the file. The mount is in no folder and lives as long as the loop
/// device has the file open, so nothing is left over, however this process ends.
fn serve(disk: Disk, name: &str) -> Result<(u32, JoinHandle<io::Result<()>>, LoopDevice), SlowdiskError> {
    let fuse: OwnedFd = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .map_err(|error| SlowdiskError::Machine {
            expected: "FUSE",
            found: format!("/dev/fuse: {error}"),
            hint: "load the fuse module (modprobe fuse), as root",
        })?
        .into();
    let parameters = [
        (c"source", "whodisk-slowdisk".to_owned()),
        (c"fd", fuse.as_raw_fd().to_string()),
        (c"rootmode", "40000".to_owned()),
        (c"user_id", "0".to_owned()),
        (c"group_id", "0".to_owned()),
    ];
    let context = Context::create(c"fuse", &parameters).map_err(|source| SlowdiskError::System {
        action: "make a FUSE file system",
        source,
        hint: "use Linux 5.2 or newer, as root with CAP_SYS_ADMIN",
    })?;
    let mut options = fuser::Config::default();
    options.n_threads = Some(READERS);
    options.clone_fd = true;
    let session = Session::from_fd(disk, fuse, SessionACL::Owner, options).map_err(system("start FUSE"))?;
    let session = Builder::new()
        .name("slowdisk-fuse".into())
        .spawn(move || session.run())
        .map_err(system("start a thread"))?;
    let mount = context.mount().map_err(system("mount the FUSE file system"))?;
    let file =
        open_below(&mount, name, libc::O_RDWR | libc::O_DIRECT).map_err(system("open our file in FUSE"))?;
    let connection = connection_number(&file).map_err(system("look at our file in FUSE"))?;
    let loop_device = LoopDevice::attach(&file, name)?;
    Ok((connection, session, loop_device))
}
