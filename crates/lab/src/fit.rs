//! Makes a stack file from a recording: `whodisk lab fit`.
//!
//! The device becomes `kind = "fitted"`: quantiles of the latency of its block requests (from the queue to the completion,
//! without throttling) by kind, size and number in flight. So does the time that completions lie there before their thread takes
//! them. Thread and file-system work become medians; a page cache, where the case tells which tier served each read, gets
//! the size at which an LRU cache has the recorded share of hits.
use crate::component::{Access, CacheModel};
use crate::components::fitted_drive::{to_text, Cell};
use crate::components::host::wake_text;
use crate::error::LabError;
use crate::models::by_depth::depth_class;
use crate::models::cache::{Cache, PolicyKind};
use crate::models::distribution::Quantiles;
use crate::recording::{Recorded, Recording};
use crate::whatif::choose_device;
use case::schema::{flags, Layer, Op};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Fewer samples than this make no cell of their own.
const CELL_SAMPLES_MIN: usize = 30;

/// Pages of the cache model.
const PAGE_BYTES: u64 = 4096;

/// A fitted stack.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// The stack file.
    pub stack: String,
    /// Device that was fitted.
    pub device: String,
    /// Requests used.
    pub requests: u64,
    /// Cells of the table: combinations of kind, size and depth.
    pub cells: u64,
    /// Size of the fitted page cache; None = the case does not tell, or had no buffered reads.
    pub cache_bytes: Option<u64>,
    /// What the fit does not know.
    pub remarks: Vec<String>,
}

/// Fits cases of one device (several, to know it at several depths); thread work and page cache are those of the first.
/// Errors name what a case lacks.
pub fn fit(case_dirs: &[PathBuf], device: Option<&str>) -> Result<Fit, LabError> {
    let case_dir = case_dirs.first().map_or(Path::new("(no case)"), PathBuf::as_path);
    let mut name = device.map(str::to_owned);
    let mut own: Vec<Recorded> = Vec::new();
    for dir in case_dirs {
        let block = Recording::read(dir, Some(Layer::Block))?;
        let number = choose_device(&block, dir, name.as_deref())?;
        name = Some(block.places[number as usize].clone());
        let of_device = |operation: &&Recorded| operation.place == number;
        own.extend(block.operations.iter().filter(of_device));
    }
    let name = name.unwrap_or_default();
    let mut remarks = Vec::new();
    let cells = cells(case_dir, &name, &own, &mut remarks)?;
    let apps: Vec<Recording> = case_dirs
        .iter()
        .filter_map(|dir| Recording::read(dir, Some(Layer::App)).ok())
        .collect();
    let end = own
        .iter()
        .map(|operation| operation.offset_bytes + u64::from(operation.size_bytes));
    let system = case::meta::SystemMeta::read(case_dir).ok();
    let size_bytes = system
        .and_then(|system| system.devices.get(&name).map(|device| device.size_bytes))
        .filter(|size| *size > 0)
        .unwrap_or(0)
        .max(end.max().unwrap_or(0))
        .max(1 << 24);
    let mut text = format!(
        "# {name}, fitted by `whodisk lab fit` to {} requests. Replay a case on it with\n\
         #     whodisk whatif CASE --stack THIS --set device.fitted_scale=0.5\n\
         name = \"fitted-{name}\"\nabout = \"{name} as recorded.\"\nsample = \"0s\"\n",
        own.len()
    );
    let mut cache_bytes = None;
    match apps.first() {
        Some(app) => {
            let _ = write!(text, "\n[host]\n{}", host_keys(&apps));
            cache_bytes = cache(case_dir, app, &mut remarks);
        }
        None => {
            remarks.push("no app layer: thread and file-system work are those of the model's defaults".into())
        }
    }
    if let Some(bytes) = cache_bytes {
        let _ = write!(
            text,
            "\n[cache]\nsize = \"{}KiB\"\npage = \"4KiB\"\n",
            bytes.div_ceil(1024).max(8)
        );
    }
    let _ = write!(
        text,
        "\n[device]\nkind = \"fitted\"\nname = \"{}\"\nsize = \"{}KiB\"\ntags = 65536\nfitted_table = \"\"\"\n{}\"\"\"\n",
        name.trim_end_matches(|c: char| c.is_ascii_digit()),
        // A workload may use the whole device; the model's file system needs a little for itself.
        size_bytes.div_ceil(1024) + 4096,
        to_text(&cells)
    );
    Ok(Fit {
        stack: text,
        device: name,
        requests: own.len() as u64,
        cells: cells.len() as u64,
        cache_bytes,
        remarks,
    })
}

/// Size class: powers of two keep their own; others go to the next higher one.
fn size_class(size_bytes: u32) -> u64 {
    u64::from(size_bytes).max(512).next_power_of_two()
}

fn cells(
    case_dir: &Path,
    device: &str,
    own: &[Recorded],
    remarks: &mut Vec<String>,
) -> Result<Vec<Cell>, LabError> {
    // (sum of sizes, sum of depths, latencies)
    type Samples = (u64, u64, Vec<u64>);
    let mut groups: BTreeMap<(u8, u64, u32), Samples> = BTreeMap::new();
    for operation in own {
        let op = match operation.op {
            Op::Read => Op::Read,
            Op::Write => Op::Write,
            Op::Flush => Op::Flush,
            _ => continue,
        };
        let key = (
            op as u8,
            size_class(operation.size_bytes),
            depth_class(operation.depth),
        );
        let group = groups.entry(key).or_default();
        group.0 += u64::from(operation.size_bytes);
        group.1 += u64::from(operation.depth.max(1));
        group.2.push(
            operation
                .latency_ns
                .saturating_sub(u64::from(operation.throttle_ns)),
        );
    }
    let mut cells: Vec<Cell> = Vec::new();
    let mut rare = 0;
    for ((op, _, _), (sizes, depths, latencies)) in groups {
        let count = latencies.len();
        if count < CELL_SAMPLES_MIN {
            rare += count;
            continue;
        }
        let (Some(op), Ok(latency)) = (Op::ALL.get(usize::from(op)), Quantiles::from_samples(&latencies))
        else {
            continue;
        };
        cells.push(Cell {
            op: *op,
            size_bytes: sizes / count as u64,
            depth: ((depths as f64 / count as f64).round() as u32).max(1),
            samples: count as u64,
            latency,
        });
    }
    same_sizes(&mut cells);
    if !cells.iter().any(|cell| cell.op != Op::Flush) {
        return Err(LabError::Recording {
            what: case_dir.display().to_string(),
            expected: format!(
                "at least {CELL_SAMPLES_MIN} reads or writes of {device} of one size and depth"
            ),
            found: format!("{} requests", own.len()),
            hint: "record longer, or choose another --device".into(),
        });
    }
    if rare > 0 {
        remarks.push(format!(
            "{rare} requests of rare sizes or depths were left out (fewer than {CELL_SAMPLES_MIN} alike)"
        ));
    }
    if own.iter().all(|operation| operation.depth == 0) {
        remarks.push("the case does not tell how many requests were in flight".into());
    }
    for op in [Op::Read, Op::Write] {
        let depths = cells.iter().filter(|cell| cell.op == op).map(|cell| cell.depth);
        match depths.max() {
            None => remarks.push(format!(
                "no {}s were recorded; they are taken for the other kind",
                op.name()
            )),
            Some(deepest) => remarks.push(format!(
                "{}s in flight up to {deepest} were recorded; beyond that is extrapolation",
                op.name()
            )),
        }
    }
    Ok(cells)
}

/// Cells of one size class have the mean size of all of them, so that depths of one size stay together.
fn same_sizes(cells: &mut [Cell]) {
    let mut sums: BTreeMap<(u8, u64), (u64, u64)> = BTreeMap::new();
    let key = |cell: &Cell| (cell.op as u8, cell.size_bytes.max(512).next_power_of_two());
    for cell in cells.iter() {
        let sum = sums.entry(key(cell)).or_default();
        sum.0 += cell.size_bytes * cell.samples;
        sum.1 += cell.samples;
    }
    for cell in cells {
        let (bytes, samples) = sums[&key(cell)];
        cell.size_bytes = bytes / samples.max(1);
    }
}

fn median(operations: &[Recorded], of: impl Fn(&Recorded) -> u32) -> u32 {
    let mut values: Vec<u32> = operations.iter().map(of).collect();
    let middle = values.len() / 2;
    match values.is_empty() {
        true => 0,
        false => *values.select_nth_unstable(middle).1,
    }
}

fn host_keys(apps: &[Recording]) -> String {
    let operations = apps.first().map_or(&[][..], |app| &app.operations);
    // Work of several seconds would be a stall, not work.
    let ns = |of: fn(&Recorded) -> u32| median(operations, of).min(1_000_000_000);
    let take_ns = take_ns(operations);
    let mut text = format!(
        "submit = \"{}ns\"\ntake = \"{take_ns}ns\"\nsyscall = \"{}ns\"\n",
        ns(|operation| operation.app_ns),
        ns(|operation| operation.fs_ns)
    );
    let mut waits: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for operation in apps.iter().flat_map(|app| &app.operations) {
        let wait_ns = u64::from(operation.reap_ns.saturating_sub(take_ns));
        waits
            .entry(depth_class(operation.depth))
            .or_default()
            .push(wait_ns);
    }
    waits.retain(|_, waits| waits.len() >= CELL_SAMPLES_MIN && waits.iter().any(|wait_ns| *wait_ns > 0));
    let lines = waits.iter().filter_map(|(depth, waits)| {
        let quantiles = Quantiles::from_samples(waits).ok()?;
        Some(wake_text(*depth, waits.len() as u64, &quantiles))
    });
    let table: String = lines.collect();
    if !table.is_empty() {
        let _ = writeln!(text, "wake_table = \"\"\"\n{table}\"\"\"");
    }
    text
}

/// Work of a thread to take one completion: the median time between two that it took one behind the other, as both lay there. Where that
/// never happened, the least time in which one was taken.
fn take_ns(operations: &[Recorded]) -> u32 {
    let mut ends: Vec<(i32, u64, u64)> = operations
        .iter()
        .map(|operation| {
            let end_ns = operation.start_ns + operation.latency_ns;
            (
                operation.tid,
                end_ns,
                end_ns - u64::from(operation.reap_ns).min(operation.latency_ns),
            )
        })
        .collect();
    ends.sort_unstable();
    let behind = ends
        .windows(2)
        .filter(|pair| pair[0].0 == pair[1].0 && pair[1].2 <= pair[0].1);
    let mut steps: Vec<u64> = behind.map(|pair| pair[1].1 - pair[0].1).collect();
    let middle = steps.len() / 2;
    let least = operations
        .iter()
        .map(|operation| operation.reap_ns)
        .min()
        .unwrap_or(0);
    match steps.len() < CELL_SAMPLES_MIN {
        true => least,
        false => (*steps.select_nth_unstable(middle).1).min(1_000_000_000) as u32,
    }
}

/// Size at which an LRU cache has the recorded share of hits among buffered reads.
fn cache(case_dir: &Path, app: &Recording, remarks: &mut Vec<String>) -> Option<u64> {
    let reads: Vec<&Recorded> = app
        .operations
        .iter()
        .filter(|operation| operation.op == Op::Read && operation.flags & flags::DIRECT == 0)
        .collect();
    if reads.is_empty() {
        return None;
    }
    let Some(hit_ratio) = crate::recording::cache_hit_ratio(case_dir) else {
        remarks.push(
            "buffered reads, but the case does not tell which of them the page cache served: no [cache]"
                .into(),
        );
        return None;
    };
    let pages = |read: &Recorded| {
        let first = read.offset_bytes / PAGE_BYTES;
        let last = (read.offset_bytes + u64::from(read.size_bytes)).div_ceil(PAGE_BYTES);
        let file = u64::from(read.place) << 40;
        (first..last).map(move |page| file | page)
    };
    let trace: Vec<u64> = reads
        .iter()
        .flat_map(|read| pages(read))
        .take(4_000_000)
        .collect();
    let hits = |capacity: usize| -> f64 {
        let Ok(mut cache) = Cache::new(PolicyKind::Lru, capacity) else {
            return 0.0;
        };
        let hits = trace
            .iter()
            .filter(|page| cache.access(**page) == Access::Hit)
            .count();
        hits as f64 / trace.len() as f64
    };
    let (mut low, mut high) = (2usize, trace.len().max(3));
    if hits(high) < hit_ratio {
        remarks.push("more reads were served by the page cache than were read twice: it was warm; the model begins cold".into());
    }
    while high - low > low / 64 + 1 {
        let middle = (low + high) / 2;
        match hits(middle) < hit_ratio {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(high as u64 * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_power_of_two_are_their_own_class() {
        assert_eq!(
            [0, 4096, 4097, 1 << 20].map(size_class),
            [512, 4096, 8192, 1 << 20]
        );
    }
}
