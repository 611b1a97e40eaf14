//! `whodisk lab`: scenarios of the storage stack model.
use crate::args::{LabCommand, LabFitArgs, LabGenerateArgs, LabListArgs, LabRunArgs, LabShowArgs};
use crate::failure::{io_failure, Failure};
use crate::output::{grouped, print, print_json, Progress};
use lab::run::{Outcome, Report};
use std::io::Write;
use std::path::Path;

/// Runs a subcommand of `lab`.
pub fn main(command: &LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::Run(args) => run(args),
        LabCommand::List(args) => list(args),
        LabCommand::Show(args) => show(args),
        LabCommand::Generate(args) => generate(args),
        LabCommand::Fit(args) => fit(args),
    }
}

fn list(args: &LabListArgs) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (name, _) in lab::embedded::SCENARIOS {
        let scenario = lab::embedded::open(name, &[]).map_err(Failure::error)?;
        rows.push((*name, scenario.root.text("about").to_owned()));
    }
    if args.json {
        let rows = rows
            .iter()
            .map(|(name, about)| serde_json::json!({"name": name, "about": about}));
        return print_json(&rows.collect::<Vec<_>>());
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(name, about)| format!("{name:width$}  {about}"));
    print(&lines.collect::<Vec<_>>().join("\n"))
}

fn show(args: &LabShowArgs) -> Result<(), Failure> {
    let scenario = lab::embedded::open(&args.scenario, &args.set).map_err(Failure::error)?;
    print(lab::explain::explain(&scenario).trim_end())
}

/// The edits of a run: `--set`, then the seed.
fn edits(args: &LabRunArgs) -> Vec<String> {
    let mut edits = args.set.clone();
    edits.extend(args.seed.map(|seed| format!("workload.seed={seed}")));
    edits
}

fn threads(asked: Option<usize>) -> usize {
    asked
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
        .max(1)
}

/// A command that gives the same bytes again; where the case goes is no part of it.
fn argv(args: &LabRunArgs) -> Vec<String> {
    let mut argv: Vec<String> = ["whodisk", "lab", "run", &args.scenario]
        .map(str::to_owned)
        .into();
    for edit in edits(args) {
        argv.extend(["--set".to_owned(), edit]);
    }
    argv
}

fn run(args: &LabRunArgs) -> Result<(), Failure> {
    args.sharing.take();
    if let Some(sweep) = &args.sweep {
        return run_sweep(args, sweep);
    }
    let scenario = lab::embedded::open(&args.scenario, &edits(args)).map_err(Failure::error)?;
    let report = match &args.case {
        Some(case) => {
            let created = empty_directory(case)?;
            let result = lab::run::run(&scenario, case, argv(args), threads(args.threads));
            if result.is_err() && created {
                // Nothing came of it; the error is what the user needs to see.
                let _ = std::fs::remove_dir_all(case);
            }
            result
        }
        None => lab::run::evaluate(&scenario, threads(args.threads)),
    };
    let report = report.map_err(Failure::error)?;
    if args.json {
        return print_json(&report);
    }
    print(&text(&report))
}

/// Makes `case` an empty directory; whether it was created here.
fn empty_directory(case: &Path) -> Result<bool, Failure> {
    match std::fs::create_dir(case) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let mut entries = std::fs::read_dir(case).map_err(|error| io_failure(case, "read", &error))?;
            match entries.next() {
                None => Ok(false),
                Some(_) => Err(Failure::error(format!(
                    "{}: expected a new or empty directory, found files; choose another place with -o",
                    case.display()
                ))),
            }
        }
        Err(error) => Err(io_failure(case, "create the case directory", &error)),
    }
}

fn run_sweep(args: &LabRunArgs, sweep: &str) -> Result<(), Failure> {
    let wrong = |found: &str| {
        Failure::error(format!(
            "--sweep {sweep}: expected KEY=VALUE,VALUE,..., found {found}; write it as device.count=1,2,4"
        ))
    };
    let (key, values) = sweep.split_once('=').ok_or_else(|| wrong("no ="))?;
    let values: Vec<&str> = values
        .split(',')
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .collect();
    if values.is_empty() {
        return Err(wrong("no value"));
    }
    let mut scenarios = Vec::new();
    for value in &values {
        let mut edits = edits(args);
        edits.push(format!("{key}={value}"));
        scenarios.push(lab::embedded::open(&args.scenario, &edits).map_err(Failure::error)?);
    }
    let results = lab::run::in_parallel(scenarios.len(), threads(args.threads), |n| {
        lab::run::evaluate(&scenarios[n], 1)
    });
    let reports = results
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(Failure::error)?;
    if args.json {
        let rows = values.iter().zip(&reports);
        let rows =
            rows.map(|(value, report)| serde_json::json!({"key": key, "value": value, "report": report}));
        return print_json(&rows.collect::<Vec<_>>());
    }
    let mut lines = vec![format!("{:>16} {}", key, HEADINGS)];
    let rows = values.iter().zip(&reports);
    lines.extend(rows.map(|(value, report)| format!("{value:>16} {}", numbers(&report.outcome))));
    print(&lines.join("\n"))
}

fn generate(args: &LabGenerateArgs) -> Result<(), Failure> {
    args.sharing.take();
    let progress = std::sync::Mutex::new((0u64, Progress::new()));
    let tell = |_: &lab::generate::Line| {
        if let Ok(mut progress) = progress.lock() {
            progress.0 += 1;
            let done = progress.0;
            progress
                .1
                .tick(|| format!("{} of {} cases", grouped(done), grouped(args.count)));
        }
    };
    let request = lab::generate::Request {
        seed: args.seed,
        first: args.first,
        count: args.count,
        threads: threads(args.threads),
    };
    let result = lab::generate::generate(&args.dir, request, &tell);
    if let Ok(mut progress) = progress.into_inner() {
        progress.1.clear();
    }
    let lines = result.map_err(Failure::error)?;
    if args.json {
        return print_json(&lines);
    }
    let texts = lines.iter().map(|line| {
        format!(
            "{}  {:<24} effect x {:<10.3} {}{}",
            line.case,
            line.group,
            line.effect,
            line.culprit.as_deref().unwrap_or("healthy"),
            if line.kept { "  (was there)" } else { "" }
        )
    });
    print(&texts.collect::<Vec<_>>().join("\n"))
}

fn fit(args: &LabFitArgs) -> Result<(), Failure> {
    let is_there = || {
        Failure::error(format!(
            "{}: expected a new file, found one; choose another name with -o",
            args.stack.display()
        ))
    };
    if args.stack.is_symlink() || args.stack.exists() {
        return Err(is_there());
    }
    let fit = lab::fit::fit(&args.cases, args.device.as_deref()).map_err(Failure::error)?;
    let written = std::fs::File::create_new(&args.stack);
    let written = written.and_then(|mut file| file.write_all(fit.stack.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => is_there(),
        _ => io_failure(&args.stack, "write", &error),
    })?;
    if args.json {
        return print_json(&fit);
    }
    let mut lines = vec![format!(
        "{}: {} requests in {} cells of kind, size and depth{}",
        fit.device,
        grouped(fit.requests),
        fit.cells,
        fit.cache_bytes.map_or(String::new(), |bytes| format!(
            "; page cache of {} MiB",
            grouped(bytes >> 20)
        ))
    )];
    lines.extend(fit.remarks);
    lines.push(format!(
        "written: {0}; try whodisk whatif {1} --stack {0}",
        args.stack.display(),
        args.cases[0].display()
    ));
    print(&lines.join("\n"))
}

const HEADINGS: &str = "    ops/s       MB/s   mean us    p50 us    p99 us  p99.9 us    max us";

fn numbers(outcome: &Outcome) -> String {
    let us = |ns: f64| format!("{:>9.1}", ns / 1e3);
    format!(
        "{:>9} {:>10.1} {} {} {} {} {}",
        grouped(outcome.ops_per_s.round() as u64),
        outcome.throughput_bytes_per_s / 1e6,
        us(outcome.mean_ns),
        us(outcome.p50_ns),
        us(outcome.p99_ns),
        us(outcome.p999_ns),
        us(outcome.max_ns as f64)
    )
}

fn text(report: &Report) -> String {
    let mut lines = vec![
        format!(
            "{}, seed {}: {} operations in {:.3} s of virtual time",
            report.scenario,
            report.seed,
            grouped(report.outcome.ops),
            report.outcome.duration_ns as f64 / 1e9
        ),
        HEADINGS.to_owned(),
        numbers(&report.outcome),
    ];
    for fault in &report.truth.faults {
        lines.push(format!(
            "{} ({}): p99 x {:.3}, throughput x {:.3} against the same seed without it; {}",
            fault.name,
            fault.kind,
            fault.effect.p99_ratio,
            fault.effect.throughput_ratio,
            if fault.counts {
                "it counts"
            } else {
                "too little to count"
            }
        ));
    }
    lines.push(match &report.truth.culprit {
        Some(culprit) => format!("truth: {} {}", culprit.kind, culprit.name),
        None => "truth: healthy".into(),
    });
    lines.join("\n")
}
