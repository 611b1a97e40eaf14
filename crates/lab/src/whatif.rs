//! What would a recorded workload do on another stack? Replays a case through a model and compares.
use crate::components::replay::{chain, Replay, Step, KEPT_FLAGS};
use crate::error::LabError;
use crate::faults::Plan;
use crate::recorder::Recorder;
use crate::recording::{Recorded, Recording};
use crate::scenario::Scenario;
use crate::stack::{build_replay, Layout, Top};
use crate::tally::Tally;
use case::schema::{flags, Layer, Op};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// Latency and throughput of the measured operations.
#[derive(Clone, Debug, Serialize)]
pub struct Numbers {
    /// How many.
    pub operations: u64,
    /// Per second, from the first begin to the last end.
    pub ops_per_s: f64,
    /// Bytes per second.
    pub throughput_bytes_per_s: f64,
    /// Mean latency, ns.
    pub mean_ns: f64,
    /// Median, ns; this and the other percentiles to 1.6 %.
    pub p50_ns: f64,
    /// 90th percentile, ns.
    pub p90_ns: f64,
    /// 95th percentile, ns.
    pub p95_ns: f64,
    /// 99th percentile, ns.
    pub p99_ns: f64,
    /// 99.9th percentile, ns.
    pub p999_ns: f64,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Numbers {
    fn of(tally: &Tally) -> Numbers {
        let seconds = tally.span_ns().max(1) as f64 / 1e9;
        Numbers {
            operations: tally.count(),
            ops_per_s: tally.count() as f64 / seconds,
            throughput_bytes_per_s: tally.bytes as f64 / seconds,
            mean_ns: tally.mean_ns(),
            p50_ns: tally.quantile_ns(0.5),
            p90_ns: tally.quantile_ns(0.9),
            p95_ns: tally.quantile_ns(0.95),
            p99_ns: tally.quantile_ns(0.99),
            p999_ns: tally.quantile_ns(0.999),
            max_ns: tally.latency_max_ns,
        }
    }
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIf {
    /// The case.
    pub case: String,
    /// The stack.
    pub stack: String,
    /// `--set`.
    pub set: Vec<String>,
    /// Layer that was replayed.
    pub layer: &'static str,
    /// `closed`: each operation waits for those before it; `open`: at the recorded times.
    pub loop_kind: &'static str,
    /// As recorded.
    pub before: Numbers,
    /// On the stack, without `--set`; None where there is none.
    pub stack_as_it_is: Option<Numbers>,
    /// On the stack with `--set`.
    pub after: Numbers,
    /// What `after` differs from it by is the answer: with `--set` the stack as it is, so that the model's own error does
    /// not count as part of the change; else the recording.
    pub change_against: &'static str,
    /// What the comparison does not cover.
    pub remarks: Vec<String>,
}

/// What to replay on what.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The case.
    pub case: &'a Path,
    /// A stack (a scenario; its workload is not used), or the name of an embedded scenario.
    pub stack: &'a str,
    /// `table.key=value`.
    pub set: &'a [String],
    /// `app` or `block`; None = the topmost that has rows.
    pub layer: Option<Layer>,
    /// Device to replay, for `block`; None = the top one that carried most.
    pub device: Option<&'a str>,
}

/// Files of a replay begin at multiples of this.
const FILE_ALIGN: u64 = 1 << 20;

/// Answers. Errors name what the case or the stack lacks.
pub fn whatif(question: &Question) -> Result<WhatIf, LabError> {
    let recording = Recording::read(question.case, question.layer)?;
    let mut remarks = Vec::new();
    let prepared = prepare(question, &recording, &mut remarks)?;
    let after = replay(question, question.set, &prepared, &mut remarks)?;
    let stack_as_it_is = match question.set.is_empty() {
        true => None,
        false => Some(replay(question, &[], &prepared, &mut Vec::new())?),
    };
    Ok(WhatIf {
        case: question.case.display().to_string(),
        stack: question.stack.into(),
        set: question.set.to_vec(),
        layer: recording.layer.name(),
        loop_kind: if prepared.depth.is_some() {
            "open"
        } else {
            "closed"
        },
        before: prepared.before,
        change_against: match stack_as_it_is {
            Some(_) => "stack_as_it_is",
            None => "before",
        },
        stack_as_it_is,
        after,
        remarks,
    })
}

struct Prepared {
    layer: Layer,
    steps: Vec<Step>,
    /// Closed loop: who waits for how many ends.
    ranks: Vec<Vec<u32>>,
    /// Bytes of all files together, or of the device's used part.
    size_bytes: u64,
    /// Open loop: most in flight of each thread.
    depth: Option<u32>,
    threads: u32,
    before: Numbers,
}

/// The device of a block replay: the one asked for, else the top one (a volume's members are not asked by anybody
/// else) that carried most.
pub(crate) fn choose_device(
    recording: &Recording,
    case_dir: &Path,
    asked: Option<&str>,
) -> Result<u32, LabError> {
    let missing = |found: String, hint: String| LabError::Recording {
        what: case_dir.display().to_string(),
        expected: match asked {
            Some(name) => format!("requests to device {name}"),
            None => "requests to a named device".into(),
        },
        found,
        hint,
    };
    let place = |name: &str| recording.places.iter().position(|own| own == name);
    if let Some(name) = asked {
        return place(name).map(|at| at as u32).ok_or_else(|| {
            let found = format!("devices {}", recording.places.join(", "));
            missing(found, "choose one of them with --device".into())
        });
    }
    let mut requests = vec![0u64; recording.places.len()];
    for operation in &recording.operations {
        if let Some(count) = requests.get_mut(operation.place as usize) {
            *count += 1;
        }
    }
    if let Ok(system) = case::meta::SystemMeta::read(case_dir) {
        let members = |name: &String| {
            system
                .devices
                .get(name)
                .and_then(|device| device.facts.get("members"))
        };
        for name in recording.places.iter().filter_map(members) {
            for member in name.split_whitespace().filter_map(place) {
                requests[member] = 0;
            }
        }
    }
    let most = (0..requests.len()).max_by_key(|at| (requests[*at], std::cmp::Reverse(*at)));
    most.map(|at| at as u32)
        .ok_or_else(|| missing("none".into(), "record again with whodisk record".into()))
}

fn prepare(
    question: &Question,
    recording: &Recording,
    remarks: &mut Vec<String>,
) -> Result<Prepared, LabError> {
    let layer = recording.layer;
    let mut operations: Vec<Recorded> = recording
        .operations
        .iter()
        .filter(|operation| {
            matches!(
                operation.op,
                Op::Read | Op::Write | Op::Sync | Op::Flush | Op::Discard
            )
        })
        .copied()
        .collect();
    let other = recording.operations.len() - operations.len();
    if layer == Layer::Block {
        let device = choose_device(recording, question.case, question.device)?;
        operations.retain(|operation| operation.place == device);
        let name = &recording.places[device as usize];
        remarks.push(format!(
            "block requests of {name}; parts of the stack above the volume are not asked"
        ));
    }
    if other + recording.left_out as usize > 0 {
        remarks.push(format!(
            "left out: {} operations that did not end or failed, {other} of other kinds",
            recording.left_out
        ));
    }
    if operations.is_empty() {
        return Err(LabError::Recording {
            what: question.case.display().to_string(),
            expected: "reads, writes or syncs that ended".into(),
            found: "none".into(),
            hint: "record again, longer".into(),
        });
    }
    let size_bytes = match layer {
        Layer::App => one_file(&mut operations, recording.places.len()),
        _ => operations.iter().map(end_of).max().unwrap_or(0),
    };
    let (from_ns, to_ns) = recording.measured_ns();
    let mut tally = Tally::new(from_ns, to_ns);
    let mut threads = HashMap::new();
    let mut steps = Vec::with_capacity(operations.len());
    let mut ends_ns = Vec::with_capacity(operations.len());
    for operation in &operations {
        tally.add(
            operation.op,
            operation.start_ns,
            operation.latency_ns,
            operation.size_bytes,
        );
        let next = threads.len().min(usize::from(u16::MAX)) as u16;
        let mut step = Step::new(
            operation.start_ns,
            operation.op,
            operation.offset_bytes,
            operation.size_bytes,
        );
        step.thread = *threads.entry(operation.tid).or_insert(next);
        step.flags = operation.flags & KEPT_FLAGS;
        step.measured = (from_ns..to_ns).contains(&operation.start_ns);
        steps.push(step);
        ends_ns.push(operation.start_ns + operation.latency_ns);
    }
    let open = layer == Layer::App && recording.specified("rate_per_s").is_some();
    let depth = open.then(|| recording.specified("queue_depth").unwrap_or(u64::from(u32::MAX)) as u32);
    let ranks = match open {
        true => Vec::new(),
        false => chain(&mut steps, &ends_ns),
    };
    Ok(Prepared {
        layer,
        steps,
        ranks,
        size_bytes,
        depth,
        threads: threads.len() as u32,
        before: Numbers::of(&tally),
    })
}

fn end_of(operation: &Recorded) -> u64 {
    operation
        .offset_bytes
        .saturating_add(u64::from(operation.size_bytes))
}

/// Puts all files one after the other into one; its size.
fn one_file(operations: &mut [Recorded], files: usize) -> u64 {
    // The last place is for operations without a file.
    let mut sizes = vec![0u64; files + 1];
    let slot = |operation: &Recorded| (operation.place as usize).min(files);
    for operation in operations.iter() {
        let size = &mut sizes[slot(operation)];
        *size = (*size).max(end_of(operation));
    }
    let mut begin = 0u64;
    let begins: Vec<u64> = sizes
        .iter()
        .map(|size| {
            let own = begin;
            begin = begin.saturating_add(size.div_ceil(FILE_ALIGN) * FILE_ALIGN);
            own
        })
        .collect();
    for operation in operations {
        operation.offset_bytes += begins[slot(operation)];
    }
    begin
}

fn replay(
    question: &Question,
    set: &[String],
    prepared: &Prepared,
    remarks: &mut Vec<String>,
) -> Result<Numbers, LabError> {
    let mib = prepared.size_bytes.div_ceil(FILE_ALIGN).max(16);
    let workload: toml::Table = format!(
        "targets = [\"replay\"]\nfile_size = \"{mib}MiB\"\noperations = 1\nworkers = {}\n",
        prepared.threads.clamp(1, 256)
    )
    .parse()
    .expect("our own TOML");
    let scenario = Scenario::stack(question.stack, set, workload)?;
    if scenario.has("protocol") && scenario.section("protocol").text("mode") != "read_write" {
        return Err(LabError::key(
            question.stack,
            "protocol.mode",
            "read_write, as a case has reads and writes",
            scenario.section("protocol").text("mode"),
            "change it",
        ));
    }
    let buffered = |step: &Step| step.flags & flags::DIRECT == 0 && step.op == Op::Read;
    if prepared.layer == Layer::App && !scenario.has("cache") && prepared.steps.iter().any(buffered) {
        remarks
            .push("the case has buffered reads, the stack no [cache]: all of them go to its drives".into());
    }
    let all: Vec<usize> = (0..scenario.faults.len()).collect();
    let (plan, _) = Plan::new(&scenario, &all)?;
    let layout = Layout::new(&plan)?;
    let top = match prepared.layer {
        Layer::App => Top::Whole,
        _ => Top::Volume,
    };
    if prepared.layer == Layer::Block && prepared.size_bytes > layout.volume_bytes() {
        return Err(LabError::key(
            question.stack,
            "device.size",
            format!(
                "a stack that holds byte {} of the recorded device",
                prepared.size_bytes
            ),
            workload::units::format_size(layout.volume_bytes()),
            "raise it",
        ));
    }
    let recorder = Recorder::new(Tally::new(0, u64::MAX), None, false);
    let depth = prepared.depth.unwrap_or(u32::MAX);
    let part = |to| Replay::new(prepared.steps.clone(), prepared.ranks.clone(), to, depth);
    let mut sim = build_replay(&plan, &layout, recorder, top, part)?;
    sim.run(u64::MAX, |core| core.workload_over);
    Ok(Numbers::of(&sim.core.recorder.tally))
}
