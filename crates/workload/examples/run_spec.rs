//! Runs one specification and prints its summary: `run_spec SPEC RAW_DIR`. For benchmarks of the engine alone.
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, spec, raw_dir] = arguments.as_slice() else {
        eprintln!("usage: run_spec SPEC RAW_DIR");
        return 2.into();
    };
    let stop = AtomicBool::new(false);
    let options = workload::RunOptions { stop: &stop, progress: None };
    let summary = workload::Spec::read(Path::new(spec))
        .and_then(|spec| workload::run(&spec, Path::new(raw_dir), options));
    match summary.map(|summary| serde_json::to_string(&summary)) {
        Ok(Ok(text)) => {
            println!("{text}");
            0.into()
        }
        Ok(Err(error)) => fail(&error),
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::error::Error) -> std::process::ExitCode {
    eprintln!("run_spec: {error}");
    2.into()
}
