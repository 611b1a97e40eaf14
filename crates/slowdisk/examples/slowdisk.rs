//! A slow disk by itself: `slowdisk SIZE LATENCY|- DURATION [FAULT...]`; prints the device, then what it did.
use std::sync::atomic::AtomicBool;

fn main() {
    let mut words = std::env::args().skip(1);
    let mut next = || words.next().unwrap_or_default();
    let (size, latency, duration) = (next(), next(), next());
    let latency = (latency != "-").then_some(latency);
    let faults = words.collect();
    let options = slowdisk::Options {
        size,
        faults,
        latency,
        duration: Some(duration),
        log: std::env::var_os("SLOWDISK_LOG").map(Into::into),
        ..Default::default()
    };
    if let Err(error) = slowdisk::serve(&options, None, &AtomicBool::new(false), &mut std::io::stdout()) {
        eprintln!("whodisk: {error}");
        std::process::exit(2);
    }
}
