//! Runs scenarios: one run, its truth, and sweeps over a key.
//!
//! The truth is counterfactual: the same seed is run again without each fault, and without each other load. Threads only run whole, independent
//! runs side by side, so results do not depend on how many there are.
use crate::apart::Slowest;
use crate::error::LabError;
use crate::faults::{Culprit, Plan};
use crate::observation::{Losses, Observation};
use crate::recorder::{Judged, Recorder};
use crate::scenario::Scenario;
use crate::sim::stream;
use crate::stack::{build, system, Layout};
use crate::tally::Tally;
use crate::writer::{About, CaseSink};
use case::meta::{Phase, Unseen};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// A fault counts if it makes p99 or throughput worse by this share at least, or if an operation that it hit stands apart.
pub const COUNTS_FROM: f64 = 0.10;
/// Kind, in the truth, of load that the scenario has beside its faults.
const LOAD: &str = "load";

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Operations of the measured phase.
    pub ops: u64,
    /// Per second.
    pub ops_per_s: f64,
    /// Bytes per second.
    pub throughput_bytes_per_s: f64,
    /// Mean latency, ns.
    pub mean_ns: f64,
    /// Median latency, ns.
    pub p50_ns: f64,
    /// 99th percentile, ns.
    pub p99_ns: f64,
    /// 99.9th percentile, ns.
    pub p999_ns: f64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Virtual time at the end.
    pub duration_ns: u64,
    /// Events handled.
    pub events: u64,
    /// What the parts of the stack know at the end: name with unit, value.
    pub facts: std::collections::BTreeMap<String, f64>,
}

/// One fault and what it does.
#[derive(Clone, Debug, Serialize)]
pub struct FaultTruth {
    /// Name in the scenario.
    pub name: String,
    /// Kind.
    pub kind: &'static str,
    /// What it hits.
    pub target: String,
    /// Its keys, as in the scenario.
    pub magnitude: std::collections::BTreeMap<String, String>,
    /// Who is to blame.
    pub culprit: Culprit,
    /// With the fault, relative to without.
    pub effect: Effect,
    /// Whether that is enough to be a culprit.
    pub counts: bool,
}

/// With a fault relative to without it: 1 = no effect.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Effect {
    /// Of the 99th percentile of latency.
    pub p99_ratio: f64,
    /// Of throughput.
    pub throughput_ratio: f64,
    /// How much of the mean latency would not be there without the fault; negative if more. What findings state as "part of
    /// all latency", so that `whodisk score` can see how often their intervals cover it.
    pub part_of_all_latency: f64,
    /// Operations that stand apart from the rest of their kind, and take less than half as long without the fault.
    pub operations_apart: u64,
}

impl Effect {
    fn of(found: &Outcome, without: &Outcome) -> Effect {
        Effect {
            p99_ratio: ratio(found.p99_ns, without.p99_ns),
            throughput_ratio: ratio(found.ops_per_s, without.ops_per_s),
            part_of_all_latency: 1.0 - ratio(without.mean_ns, found.mean_ns),
            operations_apart: 0,
        }
    }

    /// The larger of the two harms, as a factor: above 1 = worse with the fault.
    pub fn size(&self) -> f64 {
        self.p99_ratio.max(1.0 / self.throughput_ratio.max(1e-12))
    }
}

/// `truth.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Truth {
    /// Of all randomness.
    pub seed: u64,
    /// Name.
    pub scenario: String,
    /// Every fault of the scenario, then its other loads.
    pub faults: Vec<FaultTruth>,
    /// Of the fault with the largest effect that counts.
    pub culprit: Option<Culprit>,
    /// No fault counts.
    pub healthy: bool,
}

/// A run with its truth.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name.
    pub scenario: String,
    /// Of all randomness.
    pub seed: u64,
    /// Numbers.
    pub outcome: Outcome,
    /// Culprits.
    pub truth: Truth,
}

/// A run that has ended; its case, if it writes one, waits for what its truth will be.
struct Ended {
    outcome: Outcome,
    plan: Plan,
    layout: Layout,
    judged: Option<Judged>,
    sink: Option<Box<CaseSink>>,
}

/// Runs a scenario with the faults at `with`, writing a case into `case_dir` if there is one.
fn run_once(
    scenario: &Scenario,
    with: &[usize],
    case_dir: Option<&Path>,
    judged: Option<Judged>,
) -> Result<Ended, LabError> {
    let (plan, _) = Plan::new(scenario, with)?;
    let layout = Layout::new(&plan)?;
    let spec = &scenario.workload;
    let end_ns = spec.duration_ns.map_or(u64::MAX, |length| spec.ramp_ns + length);
    let sink = match case_dir {
        Some(dir) => Some(Box::new(CaseSink::create(dir, &layout.cast)?)),
        None => None,
    };
    let observation = Observation::new(scenario.section("recorder"));
    let losses = Losses::new(&observation, stream(spec.seed, "recorder"));
    let mut recorder = Recorder::new(Tally::new(spec.ramp_ns, end_ns), sink, !scenario.has("protocol"))
        .observed(observation, losses);
    recorder.judged = judged;
    let mut sim = build(&plan, &layout, recorder)?;
    sim.run(end_ns, |core| core.workload_over);
    let core = sim.finish();
    let (now_ns, events) = (core.now_ns(), core.events());
    let recorder = core.recorder;
    Ok(Ended {
        outcome: Outcome {
            facts: recorder.facts,
            ..Outcome::new(&recorder.tally, now_ns, events)
        },
        plan,
        layout,
        judged: recorder.judged,
        sink: recorder.sink,
    })
}

impl Ended {
    fn seal(self, scenario: &Scenario, argv: Vec<String>, truth: &Truth) -> Result<Outcome, LabError> {
        let now_ns = self.outcome.duration_ns;
        if let Some(sink) = self.sink {
            sink.seal(About {
                argv,
                duration_ns: now_ns,
                phases: phases(scenario, now_ns),
                workload: serde_json::json!({ "specification": scenario.workload, "summary": &self.outcome }),
                system: system(&self.plan, &self.layout),
                truth: serde_json::to_vec_pretty(truth).expect("our own types have a JSON form"),
                not_observed: Vec::<Unseen>::new(),
            })?;
        }
        Ok(self.outcome)
    }
}

fn phases(scenario: &Scenario, now_ns: u64) -> Vec<Phase> {
    let ramp_ns = scenario.workload.ramp_ns as i64;
    let phase = |name: &str, start_ns, end_ns| Phase {
        name: name.into(),
        start_ns,
        end_ns,
    };
    let end_ns = now_ns as i64;
    let mut phases = Vec::new();
    if ramp_ns > 0 {
        phases.push(phase("ramp", 0, ramp_ns.min(end_ns)));
    }
    phases.push(phase("measure", ramp_ns.min(end_ns), end_ns));
    phases
}

impl Outcome {
    fn new(tally: &Tally, duration_ns: u64, events: u64) -> Outcome {
        Outcome {
            ops: tally.count(),
            ops_per_s: tally.rate_per_s(),
            throughput_bytes_per_s: tally.throughput_bytes_per_s(),
            mean_ns: tally.mean_ns(),
            p50_ns: tally.quantile_ns(0.5),
            p99_ns: tally.quantile_ns(0.99),
            p999_ns: tally.quantile_ns(0.999),
            max_ns: tally.latency_max_ns,
            duration_ns,
            events,
            facts: Default::default(),
        }
    }
}

/// Runs `work` for each of `0..count` on `threads` threads; results in order.
pub fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    return;
                }
                let result = work(n);
                if let Ok(mut results) = results.lock() {
                    results[n] = Some(result);
                }
            });
        }
    });
    let results = results
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    results
        .into_iter()
        .map(|result| result.expect("every run ends"))
        .collect()
}

/// Only measures: all faults in, no case, no truth.
pub fn measure(scenario: &Scenario) -> Result<Outcome, LabError> {
    let all: Vec<usize> = (0..scenario.faults.len()).collect();
    Ok(run_once(scenario, &all, None, None)?.outcome)
}

/// What the faults called `name` do to a scenario.
pub fn effect(scenario: &Scenario, name: &str) -> Result<Effect, LabError> {
    let all: Vec<usize> = (0..scenario.faults.len()).collect();
    let without: Vec<usize> = all
        .iter()
        .copied()
        .filter(|fault| scenario.faults[*fault].name != name)
        .collect();
    let found = run_once(scenario, &all, None, None)?.outcome;
    Ok(Effect::of(
        &found,
        &run_once(scenario, &without, None, None)?.outcome,
    ))
}

/// Runs the scenario as it is, writing a case into `case_dir` if there is one, and again without each fault and each other load: the
/// truth. Other load that does harm is to blame for it as a fault is.
fn run_with_truth(
    scenario: &Scenario,
    threads: usize,
    case_dir: Option<&Path>,
) -> Result<(Ended, Truth), LabError> {
    let count = scenario.faults.len();
    let all: Vec<usize> = (0..count).collect();
    let (_, culprits) = Plan::new(scenario, &all)?;
    let slowest = Judged::Slowest(Slowest::default());
    let ended = run_once(scenario, &all, case_dir, Some(slowest))?;
    let apart = match &ended.judged {
        Some(Judged::Slowest(slowest)) => slowest.apart(),
        _ => Vec::new(),
    };
    let others = in_parallel(count + scenario.loads.len(), threads, |n| {
        // What did not run at all without a fault was not slow there.
        let these = Judged::These(apart.iter().map(|(op_id, _)| (*op_id, 0)).collect());
        if n >= count {
            return run_once(&scenario.without_load(n - count), &all, None, Some(these));
        }
        let with: Vec<usize> = all.iter().copied().filter(|fault| *fault != n).collect();
        run_once(scenario, &with, None, Some(these))
    });
    let others = others.into_iter().collect::<Result<Vec<_>, LabError>>()?;
    let as_found = &ended.outcome;
    let injected = scenario.faults.iter().zip(culprits);
    let injected = injected.map(|(fault, culprit)| (fault.name.clone(), fault.kind, culprit, &fault.section));
    let loads = scenario.loads.iter().map(|load| {
        let culprit = Culprit {
            kind: "process",
            name: load.text("comm").into(),
        };
        (load.name.clone(), LOAD, culprit, load)
    });
    let faults: Vec<FaultTruth> = injected
        .chain(loads)
        .zip(&others)
        .map(|((name, kind, culprit, section), without)| {
            let (outcome, spared) = (&without.outcome, spared(&apart, without.judged.as_ref()));
            let effect = Effect {
                operations_apart: spared,
                ..Effect::of(as_found, outcome)
            };
            FaultTruth {
                name,
                kind,
                target: culprit.name.clone(),
                magnitude: section
                    .entries()
                    .map(|(key, text, _)| (key.name.to_owned(), text.to_owned()))
                    .collect(),
                culprit,
                effect,
                counts: effect.size() >= 1.0 + COUNTS_FROM || effect.operations_apart > 0,
            }
        })
        .collect();
    let counting = faults.iter().filter(|fault| fault.counts);
    let largest = counting.max_by(|a, b| a.effect.size().total_cmp(&b.effect.size()));
    let truth = Truth {
        seed: scenario.workload.seed,
        scenario: scenario.name(),
        culprit: largest.map(|fault| fault.culprit.clone()),
        healthy: largest.is_none(),
        faults,
    };
    Ok((ended, truth))
}

/// Finds the truth and writes the case into `case_dir`, which exists and is empty. `argv` is a command that gives the
/// same bytes again.
pub fn run(
    scenario: &Scenario,
    case_dir: &Path,
    argv: Vec<String>,
    threads: usize,
) -> Result<Report, LabError> {
    let (ended, truth) = run_with_truth(scenario, threads, Some(case_dir))?;
    let outcome = ended.seal(scenario, argv, &truth)?;
    Ok(report(scenario, outcome, truth))
}

/// Finds the truth without writing a case.
pub fn evaluate(scenario: &Scenario, threads: usize) -> Result<Report, LabError> {
    let (ended, truth) = run_with_truth(scenario, threads, None)?;
    Ok(report(scenario, ended.outcome, truth))
}

fn report(scenario: &Scenario, outcome: Outcome, truth: Truth) -> Report {
    Report {
        scenario: scenario.name(),
        seed: scenario.workload.seed,
        outcome,
        truth,
    }
}

/// How many of the operations that stand apart took less than half as long in a run without the fault.
fn spared(apart: &[(u64, u64)], without: Option<&Judged>) -> u64 {
    let Some(Judged::These(these)) = without else {
        return 0;
    };
    let spared = apart
        .iter()
        .filter(|(op_id, latency_ns)| 2 * these.get(op_id).copied().unwrap_or(0) < *latency_ns);
    spared.count() as u64
}

/// `a / b`; 1 where both are nothing.
fn ratio(a: f64, b: f64) -> f64 {
    match (a, b) {
        (0.0, 0.0) => 1.0,
        _ => a / b.max(1e-9),
    }
}
