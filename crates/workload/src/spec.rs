//! Access specifications: TOML to a checked [`Spec`]. `docs/how-to/workload.md` is tested against [`KEYS`].
use crate::toml_reader::{Fault, Table};
use crate::units;
use crate::WorkloadError;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// One key of the table `[workload]`, as the reference prints it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name.
    pub name: &'static str,
    /// What a value looks like, with its unit.
    pub value: &'static str,
    /// What holds if it is absent.
    pub default: &'static str,
    /// Legal range.
    pub range: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

macro_rules! keys {
    ($(($name:literal, $value:literal, $default:literal, $range:literal, $meaning:literal),)*) => {
        /// Every key of `[workload]`, in the order of the reference.
        pub const KEYS: &[Key] = &[$(Key {
            name: $name, value: $value, default: $default, range: $range, meaning: $meaning,
        }),*];
    };
}

keys! {
    ("targets", "list of paths, or `[\"null\"]`", "(required)", "1 to 64 different paths",
     "Files or block devices; a relative path counts from the current directory. `null` completes every operation at once inside the engine and so measures the engine. Every operation picks one target, all equally likely."),
    ("file_size", "size", "size of the target; `1GiB` for `null`", "512 B to 1024 TiB, at least the largest block size",
     "Part of each target that is used, from its beginning. A file that is absent or too short is laid out to this size with random data."),
    ("allow_overwrite", "`true` or `false`", "`false`", "",
     "Whether a workload that writes may destroy data: needed for block devices and for files that whodisk did not create."),
    ("io", "`\"direct\"` or `\"buffered\"`", "`\"direct\"`", "",
     "Direct I/O bypasses the page cache (O_DIRECT)."),
    ("block_sizes", "size, or table of size = percent", "`\"4KiB\"`", "512 B to 16 MiB each, shares sum to 100%",
     "Size of each read and write, drawn by share."),
    ("read", "percent", "`\"100%\"`", "0% to 100%",
     "Probability that an operation reads; the others write."),
    ("random", "percent", "`\"100%\"`", "0% to 100%",
     "Probability that an operation goes to a random place; the others continue where this worker's last operation on that target ended, and wrap at the end."),
    ("sequential_run_ops", "number of operations", "`0` (no limit)", "0 to 1000000000",
     "After this many operations of a worker in a row on a target (the one that went to a random place included) the next goes to a random place. Each worker begins at its own share of the target."),
    ("align", "size", "the smallest block size", "1 B to 1 TiB",
     "Every offset is a multiple of this; a sequential operation rounds up to it."),
    ("queue_depth", "number of operations", "`1`", "1 to 4096",
     "Most operations each worker keeps in flight."),
    ("workers", "number of threads", "`1`", "1 to 256",
     "Threads, each with its own io_uring."),
    ("sync_every_writes", "number of writes", "`0` (never)", "0 to 1000000000",
     "After this many writes of a worker to a target it waits for its operations in flight, then syncs that target, then goes on. A sync is an operation of its own."),
    ("sync_kind", "`\"fsync\"`, `\"fdatasync\"`, `\"o_dsync\"` or `\"o_sync\"`", "`\"fsync\"`", "",
     "Which call `sync_every_writes` makes; the `o_` kinds instead open the targets so that each write is synchronous."),
    ("rate", "operations per second as `\"5000/s\"`", "closed loop", "1/s to 100000000/s",
     "Rate of the whole workload. The schedule never shifts: an operation that starts late because `queue_depth` are in flight counts its latency from its intended start. Without it each worker starts the next operation as soon as one ends."),
    ("arrival", "`\"constant\"` or `\"poisson\"`", "`\"constant\"`", "",
     "Spacing of the intended starts at a fixed rate."),
    ("ramp", "duration", "`\"0s\"`", "0 s to 24 h",
     "Time before the measured phase; its operations are logged too."),
    ("duration", "duration", "until `operations`", "1 ms to 1000 h",
     "Length of the measured phase, after the ramp."),
    ("operations", "number of operations", "until `duration`", "1 to 1000000000000",
     "Ends after exactly this many operations of all workers together, those of the ramp and syncs included. With `duration`, whichever comes first."),
    ("replay", "path", "operations are drawn", "a file of operations",
     "Operations are those of this file, one line each: nanoseconds after the begin, `read`, `write` or `sync`, offset, size. One worker, one target; `block_sizes` only says how large they may be, `read` whether they may write. Ends after the last one."),
    ("replay_pace", "`\"timed\"` or `\"fast\"`", "`\"timed\"`", "",
     "Whether an operation of `replay` is meant for its time (the schedule never shifts, as with `rate`), or starts as soon as there is room."),
    ("seed", "number", "`1`", "0 to 9223372036854775807",
     "The same seed gives the same sequence of operations per worker, and the same data."),
}

/// Where operations go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Targets {
    /// Nowhere: the engine completes them itself.
    Null,
    /// Files and block devices.
    Paths(Vec<PathBuf>),
}

/// A block size and how often it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// 512 B to 16 MiB.
    pub size_bytes: u32,
    /// Share in parts per million; all shares sum to 1,000,000.
    pub share_ppm: u32,
}

/// How writes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncKind {
    /// `fsync` after every `sync_every_writes`.
    Fsync,
    /// `fdatasync` after every `sync_every_writes`.
    Fdatasync,
    /// Targets opened with O_DSYNC.
    ODsync,
    /// Targets opened with O_SYNC.
    OSync,
}

/// Spacing of intended starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Equal distances.
    Constant,
    /// Exponentially distributed distances.
    Poisson,
}

/// A checked access specification. Fields are the keys of [`KEYS`], in base units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spec {
    /// Where operations go.
    pub targets: Targets,
    /// Part of each target that is used; None = all of it.
    pub file_size_bytes: Option<u64>,
    /// Existing data may be destroyed.
    pub allow_overwrite: bool,
    /// O_DIRECT.
    pub direct: bool,
    /// At least one; shares sum to 1,000,000.
    pub blocks: Vec<Block>,
    /// Probability of a read, parts per million.
    pub read_ppm: u32,
    /// Probability of a seek, parts per million.
    pub random_ppm: u32,
    /// Longest run of operations without a seek; 0 = no limit.
    pub sequential_run_ops: u64,
    /// Offsets are multiples of it; >= 1.
    pub align_bytes: u64,
    /// Per worker, >= 1.
    pub queue_depth: u32,
    /// >= 1.
    pub workers: u32,
    /// 0 = never.
    pub sync_every_writes: u64,
    /// See [`SyncKind`].
    pub sync_kind: SyncKind,
    /// Of the whole workload; None = closed loop.
    pub rate_per_s: Option<u64>,
    /// At a fixed rate.
    pub arrival: Arrival,
    /// Before the measured phase.
    pub ramp_ns: u64,
    /// Of the measured phase; None = until `operations`.
    pub duration_ns: Option<u64>,
    /// Over all workers, ramp and syncs included; None = until `duration_ns`.
    pub operations: Option<u64>,
    /// File of operations that are done instead of drawn ones.
    pub replay: Option<PathBuf>,
    /// Whether they are meant for their times; else as fast as can be.
    pub replay_timed: bool,
    /// Of all randomness.
    pub seed: u64,
}

impl Spec {
    /// Reads a specification. Errors: unreadable file, and everything [`Spec::parse`] refuses.
    pub fn read(path: &Path) -> Result<Spec, WorkloadError> {
        let text = std::fs::read_to_string(path).map_err(|source| WorkloadError::Io {
            path: path.to_owned(),
            action: "read the access specification".into(),
            source,
            hint: "name a readable TOML file in UTF-8".into(),
        })?;
        Spec::parse(&text, &path.display().to_string())
    }

    /// Checks the table `[workload]` of `text`; `name` stands for the file in errors.
    pub fn parse(text: &str, name: &str) -> Result<Spec, WorkloadError> {
        let document = toml::de::DeTable::parse(text).map_err(|error| {
            Fault::new(error.span(), "valid TOML", error.message(), "correct the syntax")
                .located(text, name, "")
        })?;
        let root = Table::root(document.get_ref(), document.span());
        let parsed = root.table("workload", &["workload"]).and_then(|table| {
            let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            table.only(&names)?;
            from_table(&table)
        });
        parsed.map_err(|fault| fault.located(text, name, "workload"))
    }

    /// Whether any operation may write.
    pub fn writes(&self) -> bool {
        self.read_ppm < 1_000_000
    }

    /// Largest block size in bytes.
    pub fn block_size_max(&self) -> u32 {
        self.blocks
            .iter()
            .map(|block| block.size_bytes)
            .max()
            .unwrap_or(0)
    }

    /// Paths of the targets, as logged.
    pub fn target_names(&self) -> Vec<String> {
        match &self.targets {
            Targets::Null => vec!["null".into()],
            Targets::Paths(paths) => paths.iter().map(|path| path.display().to_string()).collect(),
        }
    }
}

fn from_table(table: &Table) -> Result<Spec, Fault> {
    let blocks = blocks(table)?;
    let smallest = blocks.iter().map(|block| block.size_bytes).min().unwrap_or(512);
    let spec = Spec {
        targets: targets(table)?,
        file_size_bytes: table.quantity("file_size", units::parse_size, 512, 1 << 50)?,
        allow_overwrite: table.boolean("allow_overwrite")?.unwrap_or(false),
        direct: table
            .choice("io", &[("direct", true), ("buffered", false)])?
            .unwrap_or(true),
        blocks,
        read_ppm: table.percent("read")?.unwrap_or(1_000_000),
        random_ppm: table.percent("random")?.unwrap_or(1_000_000),
        sequential_run_ops: table
            .integer("sequential_run_ops", 0, 1_000_000_000)?
            .unwrap_or(0),
        align_bytes: table
            .quantity("align", units::parse_size, 1, 1 << 40)?
            .unwrap_or(u64::from(smallest)),
        queue_depth: table.integer("queue_depth", 1, 4096)?.unwrap_or(1) as u32,
        workers: table.integer("workers", 1, 256)?.unwrap_or(1) as u32,
        sync_every_writes: table.integer("sync_every_writes", 0, 1_000_000_000)?.unwrap_or(0),
        sync_kind: table.choice("sync_kind", &SYNC_KINDS)?.unwrap_or(SyncKind::Fsync),
        rate_per_s: table.quantity("rate", units::parse_rate_per_s, 1, 100_000_000)?,
        arrival: table
            .choice(
                "arrival",
                &[("constant", Arrival::Constant), ("poisson", Arrival::Poisson)],
            )?
            .unwrap_or(Arrival::Constant),
        ramp_ns: table
            .quantity("ramp", units::parse_duration_ns, 0, 24 * HOUR_NS)?
            .unwrap_or(0),
        duration_ns: table.quantity("duration", units::parse_duration_ns, 1_000_000, 1000 * HOUR_NS)?,
        operations: table.integer("operations", 1, 1_000_000_000_000)?,
        replay: table.string("replay", "the path of a file")?.map(PathBuf::from),
        replay_timed: table
            .choice("replay_pace", &[("timed", true), ("fast", false)])?
            .unwrap_or(true),
        seed: table.integer("seed", 0, i64::MAX as u64)?.unwrap_or(1),
    };
    check_contradictions(table, &spec)?;
    Ok(spec)
}

const HOUR_NS: u64 = 3_600_000_000_000;

const SYNC_KINDS: [(&str, SyncKind); 4] = [
    ("fsync", SyncKind::Fsync),
    ("fdatasync", SyncKind::Fdatasync),
    ("o_dsync", SyncKind::ODsync),
    ("o_sync", SyncKind::OSync),
];

fn targets(table: &Table) -> Result<Targets, Fault> {
    const EXPECTED: &str = "a list of 1 to 64 different paths";
    let Some(paths) = table.strings("targets")? else {
        return Err(table.missing("targets", EXPECTED, "add targets = [\"FILE\"], or [\"null\"]"));
    };
    let fault = |found: &str, hint: &str| Err(table.fault("targets", EXPECTED, found, hint));
    if paths.is_empty() || paths.len() > 64 {
        return fault(
            &format!("{} paths", paths.len()),
            "name at least 1 and at most 64",
        );
    }
    if paths.iter().any(|path| path.is_empty() || path.contains('\0')) {
        return fault("an empty path or one with a NUL", "remove it");
    }
    let duplicate = (1..paths.len()).find(|&i| paths[..i].contains(&paths[i]));
    if let Some(i) = duplicate {
        return fault(&format!("{:?} twice", paths[i]), "name each target once");
    }
    if paths.iter().any(|path| path == "null") {
        return match paths.len() {
            1 => Ok(Targets::Null),
            _ => fault(
                "\"null\" beside other targets",
                "use null alone; a file of that name is \"./null\"",
            ),
        };
    }
    Ok(Targets::Paths(paths.into_iter().map(PathBuf::from).collect()))
}

fn blocks(table: &Table) -> Result<Vec<Block>, Fault> {
    const KEY: &str = "block_sizes";
    const RANGE: std::ops::RangeInclusive<u64> = 512..=16 << 20;
    let size = |text: &str| -> Result<u32, String> {
        let bytes = units::parse_size(text)?;
        if !RANGE.contains(&bytes) {
            return Err("outside 512 B to 16 MiB".into());
        }
        Ok(bytes as u32)
    };
    let Some(shares) = table.string_or_pairs(KEY)? else {
        return Ok(vec![Block {
            size_bytes: 4096,
            share_ppm: 1_000_000,
        }]);
    };
    let mut blocks: Vec<Block> = Vec::new();
    for (text, share) in &shares {
        let fault = |why: String| {
            let expected = "sizes such as \"4KiB\" (512 B to 16 MiB) with shares such as \"70%\"";
            let pair = if shares.len() == 1 {
                format!("{text:?}")
            } else {
                format!("{text:?} = {share:?}")
            };
            table.fault(KEY, expected, &format!("{pair}: {why}"), "correct it")
        };
        let size_bytes = size(text).map_err(fault)?;
        let share_ppm = units::parse_percent_ppm(share).map_err(fault)?;
        if share_ppm == 0 || blocks.iter().any(|block| block.size_bytes == size_bytes) {
            return Err(fault("a share of zero, or a size named twice".into()));
        }
        blocks.push(Block {
            size_bytes,
            share_ppm,
        });
    }
    let total: u64 = blocks.iter().map(|block| u64::from(block.share_ppm)).sum();
    if total != 1_000_000 {
        let found = format!("a sum of {}%", total as f64 / 10_000.0);
        return Err(table.fault(KEY, "shares that sum to 100%", &found, "correct the shares"));
    }
    Ok(blocks)
}

/// Keys that are fine alone and nonsense together.
fn check_contradictions(table: &Table, spec: &Spec) -> Result<(), Fault> {
    let fault =
        |key: &str, expected: &str, found: &str, hint: &str| Err(table.fault(key, expected, found, hint));
    if spec.replay.is_none() && table.has("replay_pace") {
        return fault("replay_pace", "replay beside it", "none", "add replay = \"FILE\"");
    }
    if spec.replay.is_some() {
        return check_replay(table, spec);
    }
    if spec.duration_ns.is_none() && spec.operations.is_none() {
        return Err(table.missing(
            "duration",
            "duration or operations",
            "say when to end: duration = \"10s\"",
        ));
    }
    if table.has("arrival") && spec.rate_per_s.is_none() {
        return fault(
            "arrival",
            "a rate beside it",
            "no rate",
            "add rate = \"N/s\" or remove arrival",
        );
    }
    if !spec.writes() && spec.sync_every_writes > 0 {
        return fault(
            "sync_every_writes",
            "a workload that writes",
            "read = 100%",
            "lower read or remove it",
        );
    }
    let per_write = matches!(spec.sync_kind, SyncKind::ODsync | SyncKind::OSync);
    if per_write && spec.sync_every_writes > 0 {
        let found = "an o_ kind, where every write is synchronous";
        return fault(
            "sync_every_writes",
            "sync_kind fsync or fdatasync",
            found,
            "remove one of the two",
        );
    }
    if table.has("sync_kind") && !per_write && spec.sync_every_writes == 0 {
        return fault(
            "sync_kind",
            "sync_every_writes beside it",
            "none",
            "add sync_every_writes = N",
        );
    }
    if spec.random_ppm == 1_000_000 && spec.sequential_run_ops > 1 {
        let found = "random = 100%, which never continues";
        return fault(
            "sequential_run_ops",
            "random below 100%",
            found,
            "lower random or remove it",
        );
    }
    check_sizes(table, spec)
}

/// What a file of operations decides cannot be said a second time.
fn check_replay(table: &Table, spec: &Spec) -> Result<(), Fault> {
    for key in [
        "rate",
        "arrival",
        "random",
        "sequential_run_ops",
        "align",
        "sync_every_writes",
        "ramp",
    ] {
        if table.has(key) {
            let hint = "remove one of the two";
            return Err(table.fault(key, "no such key beside replay", "both", hint));
        }
    }
    if spec.workers != 1 {
        return Err(table.fault(
            "workers",
            "1 beside replay",
            &spec.workers.to_string(),
            "remove it",
        ));
    }
    if spec.target_names().len() != 1 {
        return Err(table.fault("targets", "one target beside replay", "several", "name one"));
    }
    check_sizes(table, spec)
}

fn check_sizes(table: &Table, spec: &Spec) -> Result<(), Fault> {
    let largest = u64::from(spec.block_size_max());
    if let Some(size) = spec.file_size_bytes.filter(|size| *size < largest) {
        let expected = format!("at least the largest block size, {}", units::format_size(largest));
        return Err(table.fault("file_size", &expected, &units::format_size(size), "raise it"));
    }
    let odd_block = spec.blocks.iter().any(|block| block.size_bytes % 512 != 0);
    if spec.direct && (odd_block || !spec.align_bytes.is_multiple_of(512)) {
        let key = if odd_block { "block_sizes" } else { "align" };
        let hint = "round it, or say io = \"buffered\"";
        return Err(table.fault(key, "multiples of 512 B (direct I/O)", "another value", hint));
    }
    Ok(())
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
