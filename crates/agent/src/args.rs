//! The command line of `whodisk-agent`: every flag has its one definition here.
use crate::flight::FlightArgs;
use crate::scope::ScopeArgs;
use crate::sharing::SharingArgs;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Finds what makes storage slow: the part that observes. It needs no Python on the node under test.
#[derive(Debug, Parser)]
#[command(
    name = "whodisk-agent",
    version,
    max_term_width = 110,
    arg_required_else_help = true
)]
#[command(after_help = "Exit codes: 0 done; 1 a requested check failed; 2 wrong use or error.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record this machine's I/O, while a command runs or of what runs already.
    #[command(after_help = record_help())]
    Record(RecordArgs),
    /// Live numbers of every block device: rates, latency quantiles, stages, the slowest operations.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(WatchArgs),
    /// Run an access specification and log every operation.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// The engine process behind `run`.
    #[command(hide = true)]
    Workload(WorkloadArgs),
    /// Puts a program's own log into the case of its recording, behind `run PROGRAM`.
    #[command(hide = true)]
    OwnLog(OwnLogArgs),
    /// Make a real block device that delays requests, until Ctrl-C.
    #[command(after_help = slowdisk_help())]
    Slowdisk(SlowdiskArgs),
    /// Run a model of a storage stack: it writes cases with a known culprit.
    #[command(subcommand, after_help = LAB_EXAMPLES)]
    Lab(LabCommand),
    /// Replay a case through a modelled stack: latency and throughput before and after.
    #[command(after_help = WHATIF_EXAMPLES)]
    Whatif(WhatifArgs),
    /// Where files lie on their file system: measure it, fragment one file on purpose, lay files out anew.
    #[command(subcommand, after_help = LAYOUT_EXAMPLES)]
    Layout(LayoutCommand),
    /// Turn foreign logs into a case.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Turn the raw events of a case into Parquet tables; doing it twice gives the same bytes.
    #[command(after_help = SEAL_EXAMPLES)]
    Seal(SealArgs),
    /// Copy a case without names: paths, commands, hosts, serial numbers become tokens.
    #[command(after_help = REDACT_EXAMPLES)]
    Redact(RedactArgs),
    /// Check a case: tables, sums, counts, what is missing.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// What this host lets whodisk observe, and what to do about the rest.
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    Completion(CompletionArgs),
}

const RECORD_EXAMPLES: &str = "Examples:
  whodisk record -- dd if=/dev/vda of=/dev/null bs=1M count=500 iflag=direct
  whodisk record -o slow.case --duration 30s        everything on this machine for 30 s
  whodisk record -o nightly.case -- ./backup.sh
  whodisk record --pid 4711 --duration 1min         a process that runs already, and all that it starts
  whodisk record --ring 30s --trigger 'latency > 50ms' --trigger 'age > 1s' -o incidents
  whodisk record --cgroup /sys/fs/cgroup/system.slice/db.service --device /dev/nvme0n1
  whodisk record --cpu-budget 3% -- ./busy-hour.sh  sample typical operations where all would cost more

Without a command it records until Ctrl-C, --duration, or the end of every --pid. Block requests are those of all \
programs unless the scope is limited; then nothing else is stored, but for the bare block requests of others on the \
same disks, as `other`. It needs root (or CAP_BPF and CAP_PERFMON) and a \
kernel with BTF; `whodisk doctor` says what is missing. The command's exit status is kept in the case and \
printed; whodisk itself ends with 0 if the recording succeeded.";

const WATCH_EXAMPLES: &str = "Examples:
  whodisk watch                                     a frame per second, until q or Ctrl-C
  whodisk watch --device nvme0n1 --interval 5s
  whodisk watch --once --json                       one second, as JSON
  whodisk watch --prometheus 9911 > /dev/null       metrics on http://127.0.0.1:9911/metrics

Nothing is stored. It needs what `record` needs.";

const RUN_EXAMPLES: &str = "Examples:
  whodisk run examples/iometer-vm-server.toml
  whodisk run spec.toml -o before.case --drop-raw
  whodisk run --list                                real programs by name: whodisk run PROGRAM --help

Without root only the workload's own layer is recorded, and the case says so.";

/// Examples and the grammar of triggers.
fn record_help() -> String {
    format!("{RECORD_EXAMPLES}\n\n{}", record::TRIGGER_HELP)
}

/// Examples and the grammar of faults.
fn slowdisk_help() -> String {
    format!(
        "Examples:
  whodisk slowdisk --size 1GiB --fault 'read tail 0.001 30ms'
  whodisk slowdisk --size 8GiB --model nearline_7200
  whodisk slowdisk --latency 80us --fault 'any stall 2s 200ms' --backing /var/tmp/slow.img

{}

It needs root, FUSE and loop devices. The first line on stdout is the path of the device.",
        slowdisk::FAULT_HELP
    )
}

const LAB_EXAMPLES: &str = "Examples:
  whodisk lab list
  whodisk lab show slow-member
  whodisk lab run slow-member -o slow.case && whodisk solve slow.case
  whodisk lab run slow-member --set fault.slow.factor=2 --set workload.queue_depth=32
  whodisk lab run slow-member --sweep fault.slow.factor=1,2,4,8

A scenario is the path of a TOML file, or a name that `whodisk lab list` prints. docs/reference/lab.md describes all keys.";

const WHATIF_EXAMPLES: &str = "Examples:
  whodisk lab fit slow.case -o now.toml
  whodisk whatif slow.case --stack now.toml --set device.fitted_scale=0.5      a device twice as fast
  whodisk whatif slow.case --stack healthy-nvme                                another device
  whodisk whatif slow.case --stack raid.toml --set device.count=8 --json

A stack is a scenario without its workload. Closed-loop workloads do more on a faster stack: each operation begins \
as long after those before it as it did in the case.";

const LAB_GENERATE_EXAMPLES: &str = "Examples:
  whodisk lab generate --count 1000 --seed 7 -o lab-cases && whodisk score lab-cases
  whodisk lab generate --first 123 --count 1 --seed 7 -o one      case 123 of that seed alone

A fifth is healthy, a fifth only looks ill, the others have a fault, some too small to be seen. Cases that are in the \
directory already are kept. Case K of a seed is the same whatever --count and --threads.";

const IMPORT_EXAMPLES: &str = "Examples:
  whodisk import --list
  whodisk import run_lat.1.log -o fio.case && whodisk solve fio.case
  whodisk import sda.blktrace.* run_lat.1.log -o both.case       several logs, one case: clocks aligned, layers tied
  zcat trace.txt.gz | whodisk import - -o block.case             - is the standard input; pipes by name are read, too
  whodisk import drives.csv --as series -o drives.case \\
    --map 'host=host,device=disk_id,t=ts:s,latency=latency:us,throughput=throughput:B/s'

The format is recognised by how a file begins; --as says it where the file does not show it. A bad record ends the import with a message \
that names its place; --keep-going leaves it out and counts it. Missing values stay missing.";

const LAYOUT_EXAMPLES: &str = "Examples:
  whodisk layout measure /srv/db --threshold 4      exit code 1 if a file is over it
  whodisk layout fragment /srv/test.img --pieces 250000 --piece 64KiB
  whodisk layout reallocate /srv/db --dry-run
  whodisk layout timer /srv/db --every weekly

The score is the number of runs (pieces that lie in one place) in a window of 64 blocks: 1 is contiguous, 64 the worst. A process \
that is killed leaves every file whole; the same command goes on. ext4, xfs and btrfs.";

const SEAL_EXAMPLES: &str = "Examples:
  whodisk seal slow.case
  whodisk seal slow.case --drop-raw                 keep only the Parquet tables
  whodisk seal slow.case --mode 0644                let everybody read a case that exists

A sealed case is left alone if it is whole. What is damaged or missing of it is built again from the raw events.";

const REDACT_EXAMPLES: &str = "Examples:
  whodisk redact slow.case -o for-the-vendor.case
  whodisk redact before.case -o 1.case --redact-key key && whodisk redact after.case -o 2.case --redact-key key

The same name is the same token within a case and, under the same key, in others. The key is random and kept nowhere \
unless --redact-key names a file: whoever has it can check guesses. Times, sizes, process and inode numbers, kernel \
names of devices and threads, and models stay. Raw events, findings and reports are not copied; solve the copy anew.";

const VERIFY_EXAMPLES: &str = "Examples:
  whodisk verify slow.case
  whodisk verify slow.case --json | jq .problems

Exit code 1: the case contradicts its format, or more than 1 % of a layer's operations were lost. Smaller losses are \
reported, and are no failure.";

/// Where a case goes and what happens to it when the recording ends.
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// Directory of the case; must not exist, or be empty [default: ./whodisk-<UTC time>]. With --ring, folder of
    /// the cases.
    #[arg(short = 'o', long = "output", value_name = "CASE")]
    pub case: Option<PathBuf>,
    /// Leave the raw events as they are; `whodisk seal` turns them into tables later.
    #[arg(long)]
    pub no_seal: bool,
    /// Remove the raw events once the tables are written.
    #[arg(long, conflicts_with = "no_seal")]
    pub drop_raw: bool,
    #[command(flatten)]
    pub redaction: RedactionArgs,
    #[command(flatten)]
    pub sharing: SharingArgs,
    /// Print a summary as JSON on stdout at the end.
    #[arg(long)]
    pub json: bool,
}

/// Whether the new case is redacted.
#[derive(Debug, Args)]
pub struct RedactionArgs {
    /// Replace paths, commands, hosts and serial numbers by tokens once the case is sealed; raw events are removed.
    #[arg(long, conflicts_with = "no_seal")]
    pub redact: bool,
    /// File with the key of the tokens, made if it does not exist: the same key gives the same tokens.
    #[arg(long, value_name = "FILE", requires = "redact")]
    pub redact_key: Option<PathBuf>,
}

/// Which probes.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Probes to use [default: all that this host allows]
    #[arg(long = "probe", value_name = "NAME,...", value_delimiter = ',', value_parser = probe_names())]
    pub probes: Option<Vec<String>>,
}

fn drive_names() -> clap::builder::PossibleValuesParser {
    lab::models::presets::DRIVES
        .map(|(name, words)| clap::builder::PossibleValue::new(name).help(words))
        .into()
}

fn probe_names() -> clap::builder::PossibleValuesParser {
    record::probe_names().into()
}

/// `record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub case: CaseArgs,
    /// Stop after this long, e.g. 30s, 500ms, 2min; a command still running then is ended with SIGTERM.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// CPU time that the recorder may take, of one CPU, e.g. 3%. Above, it keeps one typical operation in 2, 4, ... 64, which then
    /// counts as that many; slow ones it always keeps. Not with a scope or a flight recorder [default: keep all]
    #[arg(long, value_name = "SHARE", value_parser = parse_share,
          conflicts_with_all = ["pids", "cgroups", "devices", "paths", "ring"])]
    pub cpu_budget: Option<f64>,
    #[command(flatten)]
    pub probes: ProbeArgs,
    #[command(flatten)]
    pub scope: ScopeArgs,
    #[command(flatten)]
    pub flight: FlightArgs,
    /// `run PROGRAM` is the observer: its own log says what the program meant.
    #[arg(long, hide = true)]
    pub of_program: bool,
    /// The command to observe, with its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Show only this disk, e.g. nvme0n1 [default: every one that completes requests]
    #[arg(long, value_name = "DISK")]
    pub device: Option<String>,
    /// Length of an interval, 100ms to 1h.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub interval: Duration,
    /// Show one interval and end.
    #[arg(long)]
    pub once: bool,
    /// Print a JSON object per interval, one per line.
    #[arg(long)]
    pub json: bool,
    /// Serve counters in Prometheus' text format: a port of 127.0.0.1 (0 = any free one), or ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    pub prometheus: Option<std::net::SocketAddr>,
}

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Access specification (TOML).
    pub spec: PathBuf,
    #[command(flatten)]
    pub case: CaseArgs,
    #[command(flatten)]
    pub probes: ProbeArgs,
    /// Record only the workload's own operations, nothing below.
    #[arg(long, conflicts_with = "probes")]
    pub app_only: bool,
    /// Check the specification and end; nothing runs, no case is made.
    #[arg(long)]
    pub check: bool,
}

/// `workload`.
#[derive(Debug, Args)]
pub struct WorkloadArgs {
    /// Access specification (TOML).
    pub spec: PathBuf,
    /// Folder for the raw streams.
    #[arg(long)]
    pub raw: PathBuf,
}

/// `own-log`.
#[derive(Debug, Args)]
pub struct OwnLogArgs {
    /// Directory of the case, recorded and not sealed.
    pub case: PathBuf,
    /// Log of the program: a line per operation.
    #[arg(long)]
    pub log: Option<PathBuf>,
    /// JSON object with what was run.
    #[arg(long)]
    pub about: PathBuf,
}

/// `slowdisk`.
#[derive(Debug, Args)]
pub struct SlowdiskArgs {
    /// Size of the device, a multiple of 4 KiB.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub size: String,
    /// A fault in the grammar below; repeat it for several.
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<String>,
    /// What every read and write takes besides faults, e.g. 100us [default: as fast as it can]
    #[arg(long, value_name = "TIME")]
    pub latency: Option<String>,
    /// Let every request take what a modelled drive would take, in real time: nearline_7200, sata_ssd, nvme. Faults come on top
    /// [default: as fast as it can]
    #[arg(long, value_name = "DRIVE", value_parser = drive_names(), conflicts_with = "latency")]
    pub model: Option<String>,
    /// File that holds the data [default: memory]
    #[arg(long, value_name = "FILE")]
    pub backing: Option<PathBuf>,
    /// File for one JSON line per injected fault.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Stop after this long [default: until Ctrl-C]
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Seed of the random draws: the same seed hits the same requests.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a scenario, find its truth, and write its case.
    Run(LabRunArgs),
    /// The scenarios that come with whodisk.
    List(LabListArgs),
    /// Explain a scenario in words.
    Show(LabShowArgs),
    /// Make random cases with known culprits, and healthy ones, to score detectors on.
    #[command(after_help = LAB_GENERATE_EXAMPLES)]
    Generate(LabGenerateArgs),
    /// Make a stack file from a case: its device's latency by kind, size and depth.
    Fit(LabFitArgs),
}

/// `lab run`.
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Scenario: a TOML file, or the name of one that comes with whodisk.
    pub scenario: String,
    /// Change a key, as --set device.count=4; repeat it for several.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed of all randomness [default: workload.seed of the scenario]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Directory of the case; must not exist, or be empty [default: none, only the numbers]
    #[arg(short = 'o', long = "output", value_name = "CASE", conflicts_with = "sweep")]
    pub case: Option<PathBuf>,
    /// Run once for each value of a key, as --sweep device.count=1,2,4; runs share the CPUs.
    #[arg(long, value_name = "KEY=V1,V2,...")]
    pub sweep: Option<String>,
    /// Threads that run whole runs side by side [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub sharing: SharingArgs,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `lab generate`.
#[derive(Debug, Args)]
pub struct LabGenerateArgs {
    /// How many cases.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub count: u64,
    /// Number of the first case.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=999_999))]
    pub first: u64,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory of the cases.
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    pub dir: PathBuf,
    /// Cases made side by side [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub sharing: SharingArgs,
    /// Print one JSON list of the cases.
    #[arg(long)]
    pub json: bool,
}

/// `lab fit`.
#[derive(Debug, Args)]
pub struct LabFitArgs {
    /// Directory of the case; it needs block requests. Several of one device tell it at several depths.
    #[arg(required = true, value_name = "CASE")]
    pub cases: Vec<PathBuf>,
    /// The stack file; must not exist.
    #[arg(short = 'o', long = "output", value_name = "STACK.toml")]
    pub stack: PathBuf,
    /// Device to fit [default: the top one that carried most requests]
    #[arg(long)]
    pub device: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Layer of a replay.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ReplayLayer {
    /// Operations of the workload, through the whole stack.
    App,
    /// Block requests, at the volume or drive.
    Block,
}

/// `whatif`.
#[derive(Debug, Args)]
pub struct WhatifArgs {
    /// Directory of the case.
    pub case: PathBuf,
    /// Stack: a TOML file, or the name of a scenario that comes with whodisk; its workload is not used.
    #[arg(long, value_name = "STACK.toml")]
    pub stack: String,
    /// Change a key of the stack, as --set device.count=4; repeat it for several.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Layer to replay [default: app where the case has it, else block]
    #[arg(long)]
    pub layer: Option<ReplayLayer>,
    /// Device with the requests to replay, for the block layer [default: the top one that carried most]
    #[arg(long)]
    pub device: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `lab list`.
#[derive(Debug, Args)]
pub struct LabListArgs {
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `lab show`.
#[derive(Debug, Args)]
pub struct LabShowArgs {
    /// Scenario: a TOML file, or the name of one that comes with whodisk.
    pub scenario: String,
    /// Change a key, as for `lab run`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The files or pipes, - for the standard input; parts of one log (blktrace's file per CPU, fio's lat, clat and slat) are read together.
    #[arg(required_unless_present = "list", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Format of the files [default: recognised]; --list shows the formats. It may stand before the files, too.
    #[arg(long = "as", value_name = "FORMAT")]
    pub format: Option<String>,
    /// Directory of the case; must not exist, or be empty [default: ./whodisk-<UTC time>]
    #[arg(short = 'o', long = "output", value_name = "CASE")]
    pub case: Option<PathBuf>,
    /// Which column is what, and in which unit: KEY=COLUMN:UNIT,...
    #[arg(long, value_name = "MAP")]
    pub map: Option<String>,
    /// The device that the logs are of, where they do not say.
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Seconds to add to the moments of a file, so that its clock is that of the others.
    #[arg(long = "offset", value_name = "FILE=SECONDS")]
    pub offsets: Vec<String>,
    /// Leave bad records out and count them.
    #[arg(long)]
    pub keep_going: bool,
    /// The logs hold only operations slower than this (a filter, a tool's threshold), where they do not say so themselves.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub slower_than: Option<Duration>,
    /// List the formats, and what each cannot carry over.
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub sharing: SharingArgs,
    /// Print a summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `seal`.
#[derive(Debug, Args)]
pub struct SealArgs {
    /// Directory of the case.
    pub case: PathBuf,
    /// Remove the raw events once the tables are written.
    #[arg(long)]
    pub drop_raw: bool,
    #[command(flatten)]
    pub sharing: SharingArgs,
    /// Print a summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `redact`.
#[derive(Debug, Args)]
pub struct RedactArgs {
    /// Directory of the case; it stays as it is.
    pub case: PathBuf,
    /// Directory of the redacted case; must not exist.
    #[arg(short = 'o', long = "output", value_name = "CASE")]
    pub output: PathBuf,
    /// File with the key of the tokens, made if it does not exist: the same key gives the same tokens.
    #[arg(long = "redact-key", value_name = "FILE")]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub sharing: SharingArgs,
    /// Print a summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Directory of the case.
    pub case: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print every check, not only what each purpose lacks.
    #[arg(long)]
    pub all: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Reads a time with its unit: `ns`, `us`, `ms`, `s`, `min`, `h`. A number without a unit is an error.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_per_unit = match unit.trim() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        other => {
            return Err(format!(
                "expected a number with a unit (ms, s, min, h), found unit '{other}'"
            ))
        }
    };
    let value: f64 = number
        .parse()
        .map_err(|_| format!("expected a number before '{unit}', found '{number}'"))?;
    Duration::try_from_secs_f64(value * seconds_per_unit)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| "expected a time above zero".to_string())
}

/// Reads a part of a CPU in percent, `0.1%` to `100%`.
fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.trim().parse::<f64>().ok());
    percent
        .filter(|percent| (0.1..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("expected a share of one CPU from 0.1% to 100%, found '{text}'"))
}

/// Reads `9911`, `:9911` or `ADDRESS:9911`; without an address it is the loopback one.
fn parse_listen(text: &str) -> Result<std::net::SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    match port.parse::<u16>() {
        Ok(port) => Ok((std::net::Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text
            .parse()
            .map_err(|_| format!("expected a port, or an IP address with a port, found '{text}'")),
    }
}

/// `layout`.
#[derive(Debug, Subcommand)]
pub enum LayoutCommand {
    /// How a file, or all files below a folder, lie: extents, runs per 64 blocks, requests and seeks of a reader.
    Measure(LayoutMeasureArgs),
    /// Fragment one file on purpose; its contents stay. Nobody else may have it open.
    Fragment(LayoutFragmentArgs),
    /// Lay out a file, or all files below a folder, anew, where their score is over the threshold.
    Reallocate(LayoutReallocateArgs),
    /// What reallocate is doing, or did last.
    Status {
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a systemd timer that runs reallocate; nothing is installed.
    Timer(LayoutTimerArgs),
}

/// `layout measure`.
#[derive(Debug, Args)]
pub struct LayoutMeasureArgs {
    /// File or folder; other file systems below it are left out.
    pub path: PathBuf,
    /// Exit with 1 if a file has more runs per 64 blocks.
    #[arg(long, value_name = "SCORE", value_parser = parse_score)]
    pub threshold: Option<f64>,
    /// Largest request of a reader [default: what the device takes, else 512KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub request: Option<u64>,
    /// How many files to list, the worst first.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `layout fragment`.
#[derive(Debug, Args)]
pub struct LayoutFragmentArgs {
    /// The file; one that is not there is made, with contents that do not compress.
    pub file: PathBuf,
    /// Length of a piece, whole blocks.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub piece: u64,
    /// Pieces; of a file that is there they must fit its length [default: as many as it has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub pieces: Option<u64>,
    /// Of the order of the pieces.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Largest request of a reader, for the measure [default: what the device takes, else 512KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub request: Option<u64>,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `layout reallocate`.
#[derive(Debug, Args)]
pub struct LayoutReallocateArgs {
    /// File or folder; other file systems below it are left out.
    pub path: PathBuf,
    /// Runs per 64 blocks up to which a file stays as it is.
    #[arg(long, value_name = "SCORE", default_value = "4", value_parser = parse_score)]
    pub threshold: f64,
    /// Say what would be moved, and move nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Put a copy in the file's place instead of the file system's own means. Nobody else may have it open.
    #[arg(long)]
    pub rewrite: bool,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `layout timer`.
#[derive(Debug, Args)]
pub struct LayoutTimerArgs {
    /// File or folder.
    pub path: PathBuf,
    /// When, as systemd's OnCalendar says it.
    #[arg(long, value_name = "WHEN", default_value = "weekly")]
    pub every: String,
    /// As of `reallocate`.
    #[arg(long, value_name = "SCORE", default_value = "4", value_parser = parse_score)]
    pub threshold: f64,
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    workload::units::parse_size(text).and_then(|bytes| match bytes {
        0 => Err("expected a size above 0, e.g. 64KiB".into()),
        bytes => Ok(bytes),
    })
}

fn parse_score(text: &str) -> Result<f64, String> {
    let score = text
        .parse::<f64>()
        .ok()
        .filter(|score| (0.0..=64.0).contains(score));
    score.ok_or_else(|| format!("expected runs per 64 blocks, 0 to 64, found '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_port_alone_is_on_loopback() {
        for text in ["9911", ":9911", "127.0.0.1:9911"] {
            assert_eq!(parse_listen(text).unwrap().to_string(), "127.0.0.1:9911");
        }
        assert_eq!(parse_listen("[::]:80").unwrap().to_string(), "[::]:80");
        for bad in ["", "99111", "localhost", "1.2.3.4", "1.2.3.4:x"] {
            assert!(parse_listen(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!((parse_share("3%"), parse_share("0.5 %")), (Ok(0.03), Ok(0.005)));
        for bad in ["3", "0%", "101%", "%", "-1%", "NaN%"] {
            assert!(parse_share(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        for bad in ["10", "", "s", "-1s", "0s", "2m", "1 fortnight", "1e300h", "NaNs"] {
            assert!(parse_duration(bad).is_err(), "{bad:?} was taken");
        }
    }
}
