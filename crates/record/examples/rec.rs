//! Runs the recorder alone: `rec RAW_DIR [--seconds N] [--ring BYTES] [--join PID] [--probe NAME,...]`; ends on SIGINT or
//! SIGTERM.
use record::{Config, Recorder};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let handler = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler only stores to an atomic.
    unsafe {
        libc::signal(libc::SIGINT, handler);
        libc::signal(libc::SIGTERM, handler);
    }
    let mut arguments = std::env::args().skip(1);
    let raw_dir = PathBuf::from(arguments.next().ok_or("usage: rec RAW_DIR [options]")?);
    let mut config = Config::default();
    let mut seconds = f64::INFINITY;
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("an option needs a value")?;
        match name.as_str() {
            "--seconds" => seconds = value.parse()?,
            "--ring" => config.ring_bytes = value.parse()?,
            "--probe" => config.probes = Some(value.split(',').map(String::from).collect()),
            "--join" => config.join_tgid = Some(value.parse()?),
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let running = Recorder::attach(config)?.start(&raw_dir)?;
    eprintln!("recording");
    let begin = Instant::now();
    while !STOP.load(Ordering::Relaxed) && begin.elapsed().as_secs_f64() < seconds {
        std::thread::sleep(Duration::from_millis(20));
    }
    let summary = running.stop()?;
    println!("{summary:#?}");
    for (name, (runs, ns)) in &summary.program_runs {
        if *runs > 0 {
            println!("{name}: {runs} runs, {:.1} ns each", *ns as f64 / *runs as f64);
        }
    }
    Ok(())
}
