//! `whodisk-agent`: the static binary that observes. It writes cases; it never explains them.
mod args;
mod case_dir;
mod child;
mod doctor;
mod failure;
mod flight;
mod import;
mod lab;
mod layout;
mod losses;
mod observe;
mod output;
mod own_log;
mod probe;
mod redact;
mod sampling;
mod scope;
mod seal;
mod sharing;
mod signals;
mod slowdisk;
mod time;
mod verify;
mod watch;
mod whatif;
mod workload;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    report_panics();
    let cli = Cli::parse();
    // A panic is our bug: the hook has said so, and 2 is the code of an error.
    let result = std::panic::catch_unwind(|| dispatch(cli)).unwrap_or(Err(Failure::error("")));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                output::say(&failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Record(args) => observe::record(args),
        Command::Watch(args) => watch::main(&args),
        Command::Run(args) => observe::run(args),
        Command::Workload(args) => workload::main(&args),
        Command::OwnLog(args) => own_log::main(&args),
        Command::Slowdisk(args) => slowdisk::main(&args),
        Command::Lab(command) => lab::main(&command),
        Command::Whatif(args) => whatif::main(&args),
        Command::Layout(command) => layout::main(&command),
        Command::Import(args) => import::main(&args),
        Command::Seal(args) => seal::main(&args),
        Command::Redact(args) => redact::main(&args),
        Command::Verify(args) => verify::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Completion(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "whodisk-agent", &mut script);
            output::print(String::from_utf8_lossy(&script).trim_end())
        }
    }
}

/// Replaces the trace of a panic by words that a person can act on.
fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("no message");
        let place = info
            .location()
            .map_or(String::new(), |l| format!("{}:{}: ", l.file(), l.line()));
        output::say(&format!("internal error: {place}{what}"));
        output::say(
            "this is a bug in whodisk; please report it with these lines and the command that led here",
        );
    }));
}
