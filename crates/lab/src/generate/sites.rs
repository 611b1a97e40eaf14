//! Stacks with a workload that suits them, drawn at random, still without faults.
use super::dice::Dice;
use std::fmt::Write;

/// A stack with a workload that suits it, still without faults.
pub(super) struct Site {
    /// Top-level keys and tables.
    pub text: String,
    /// About how long the run is, virtual nanoseconds.
    pub length_ns: f64,
    /// Drives.
    pub drives: u64,
    /// Service time of one request at its drive, ns.
    pub service_ns: f64,
    /// Size of a read.
    pub read_bytes: u64,
    /// Bytes that are written to each drive.
    pub written_bytes: f64,
    /// What a drive serves at once.
    pub parallel: u64,
}

pub(super) fn us(ns: f64) -> String {
    format!("\"{}us\"", (ns / 1e3).round().max(1.0) as u64)
}

/// The text of `[workload]` and of the sampling step.
struct Workload {
    operations: u64,
    length_ns: f64,
    ramp_ns: f64,
    body: String,
}

impl Workload {
    /// `rate` operations a second are asked for or expected; a twentieth of the run is ramp.
    fn new(operations: u64, rate: f64, body: String) -> Workload {
        let length_ns = operations as f64 / rate * 1e9;
        Workload {
            operations,
            length_ns,
            ramp_ns: length_ns / 20.0,
            body,
        }
    }

    fn text(&self, seed: u64) -> String {
        format!(
            "sample = {}\n\n[workload]\ntargets = [\"data\"]\n{}operations = {}\nramp = {}\nseed = {seed}\n\n",
            us(self.length_ns / 40.0),
            self.body,
            self.operations,
            us(self.ramp_ns)
        )
    }
}

/// One or several flash drives, direct I/O, open or closed loop.
fn flash(dice: &mut Dice, seed: u64, drives: u64, parallel: Option<u64>, mix: Mix) -> Site {
    let (read_us, write_us) = (dice.log_whole(60, 250), dice.log_whole(15, 60));
    let read = match mix {
        Mix::Any | Mix::Large => dice.pick(&[100u64, 90, 70, 50]),
        Mix::Writes | Mix::Syncs => dice.pick(&[70u64, 50, 30]),
    };
    let (workers, depth) = dice.pick(&[(1u64, 1u64), (1, 4), (2, 4), (1, 16), (4, 4), (2, 8)]);
    let service_ns = (read * read_us + (100 - read) * write_us) as f64 * 10.0;
    let capacity = (workers * depth) as f64 / (service_ns + 5e3) * 1e9;
    let block_kib = match mix {
        Mix::Large => dice.pick(&[64u64, 128, 256]),
        _ => dice.pick(&[4u64, 4, 8, 16]),
    };
    let operations = dice.log_whole(6000, 24_000);
    let mut body = format!(
        "file_size = \"64GiB\"\nblock_sizes = \"{block_kib}KiB\"\nread = \"{read}%\"\nqueue_depth = {depth}\nworkers = {workers}\n"
    );
    if mix == Mix::Syncs {
        let _ = writeln!(body, "sync_every_writes = {}", dice.pick(&[1u64, 4, 16]));
    }
    let mut rate = capacity;
    if dice.chance(0.6) {
        rate = dice.log(0.05, 0.5) * capacity;
        let arrival = dice.pick(&["constant", "poisson"]);
        let _ = writeln!(body, "rate = \"{}/s\"\narrival = \"{arrival}\"", rate as u64);
    }
    let workload = Workload::new(operations, rate, body);
    let mut text = workload.text(seed);
    let cpus = dice.pick(&[4u64, 8, 16]);
    let max_vec = dice.pick(&[1u64, 2, 4]);
    let spread = dice.pick(&["0.05", "0.15", "0.3"]);
    let _ = write!(
        text,
        "[host]\ncpus = {cpus}\n\n[interrupts]\nmax_vec = {max_vec}\n\n[device]\nname = \"nvme\"\ncount = {drives}\n\
         simple_read = \"{read_us}us\"\nsimple_write = \"{write_us}us\"\nsimple_spread = {spread}\n"
    );
    if let Some(parallel) = parallel {
        let _ = writeln!(text, "simple_parallel = {parallel}");
    }
    if drives > 1 {
        text += "\n[volume]\nchunk = \"64KiB\"\n";
    }
    Site {
        text,
        length_ns: workload.length_ns,
        drives,
        service_ns,
        read_bytes: block_kib << 10,
        written_bytes: (operations * (100 - read) * (block_kib << 10)) as f64 / 100.0 / drives as f64,
        parallel: parallel.unwrap_or(64),
    }
}

/// What a flash workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// Reads, or reads and writes.
    Any,
    /// Reads and writes.
    Writes,
    /// The same, with syncs.
    Syncs,
    /// Requests so large that their transfer counts.
    Large,
}

/// One or a few flash drives with large requests.
pub(super) fn transferring(dice: &mut Dice, seed: u64) -> Site {
    let drives = dice.pick(&[1u64, 1, 2, 4]);
    flash(dice, seed, drives, Some(32), Mix::Large)
}

/// A few flash drives that serve few commands at once: whoever else uses them is felt.
pub(super) fn narrow(dice: &mut Dice, seed: u64) -> Site {
    let (drives, parallel) = (dice.pick(&[4u64, 6]), dice.pick(&[2u64, 4, 8]));
    flash(dice, seed, drives, Some(parallel), Mix::Any)
}

/// Flash drives with writes, one or several; `mix` says whether they are synced.
pub(super) fn written(dice: &mut Dice, seed: u64, mix: Mix) -> Site {
    match dice.chance(0.5) {
        true => {
            let drives = dice.pick(&[4u64, 6, 8]);
            flash(dice, seed, drives, None, mix)
        }
        false => {
            let parallel = dice.pick(&[8u64, 16, 32]);
            flash(dice, seed, 1, Some(parallel), mix)
        }
    }
}

pub(super) fn striped(dice: &mut Dice, seed: u64) -> Site {
    let drives = dice.pick(&[4u64, 6, 8, 10, 12]);
    flash(dice, seed, drives, None, Mix::Any)
}

pub(super) fn single_flash(dice: &mut Dice, seed: u64) -> Site {
    let parallel = dice.pick(&[8u64, 16, 32]);
    flash(dice, seed, 1, Some(parallel), Mix::Any)
}

pub(super) fn flash_of_any_kind(dice: &mut Dice, seed: u64) -> Site {
    if dice.chance(0.6) {
        striped(dice, seed)
    } else {
        single_flash(dice, seed)
    }
}

/// Buffered random reads of a file that fits in RAM; `warm`: it is in RAM when the measured phase begins.
pub(super) fn cached(dice: &mut Dice, seed: u64, warm: bool) -> Site {
    let pages = dice.log_whole(400, 1200);
    let page_kib = dice.pick(&[16u64, 64]);
    let rate = dice.log(2000.0, 12_000.0);
    let warming = if warm { 7 * pages } else { 0 };
    let operations = warming + dice.log_whole(5000, 12_000);
    let depth = dice.pick(&[4u64, 8]);
    let body = format!(
        "file_size = \"{}KiB\"\nio = \"buffered\"\nblock_sizes = \"{page_kib}KiB\"\nqueue_depth = {depth}\nrate = \"{}/s\"\n",
        pages * page_kib,
        rate as u64
    );
    let read_us = dice.log_whole(80, 250);
    let workload = Workload {
        ramp_ns: warming as f64 / rate * 1e9,
        ..Workload::new(operations, rate, body)
    };
    let mut text = workload.text(seed);
    let _ = write!(
        text,
        "[host]\ncpus = 8\n\n[interrupts]\n\n[cache]\nsize = \"{}KiB\"\npage = \"{page_kib}KiB\"\n\n[device]\nname = \"nvme\"\n\
         simple_read = \"{read_us}us\"\n",
        pages * page_kib * 5 / 4
    );
    Site {
        text,
        length_ns: workload.length_ns,
        drives: 1,
        service_ns: read_us as f64 * 1e3,
        read_bytes: page_kib << 10,
        written_bytes: 0.0,
        parallel: 64,
    }
}

/// What a stream reads meanwhile has to be under way before it is asked for: a disk's jump, waiting behind another one's, and some more.
const AHEAD_S: f64 = 0.035;

/// Sequential readers of an array of disks with a prefetcher that is large enough.
pub(super) fn streaming(dice: &mut Dice, seed: u64) -> Site {
    let read_kib = dice.pick(&[1088u64, 2112, 4160, 8448]);
    let bytes_per_s = dice.log(80e6, 250e6);
    let rate = bytes_per_s / (read_kib << 10) as f64;
    let operations = dice.log_whole(500, 1000);
    let body = format!(
        "file_size = \"100GiB\"\nio = \"buffered\"\nblock_sizes = \"{read_kib}KiB\"\nrandom = \"0%\"\nqueue_depth = 4\nworkers = 2\n\
         rate = \"{}/s\"\n",
        rate.ceil() as u64
    );
    let workload = Workload::new(operations, rate, body);
    let mut text = workload.text(seed);
    let _ = write!(
        text,
        "[host]\ncpus = 8\n\n[cache]\nsize = \"2GiB\"\npage = \"64KiB\"\n\n[prefetch]\nchunk = \"{}KiB\"\n\n[volume]\n\
         chunk = \"1MiB\"\n\n[device]\nkind = \"hdd\"\nname = \"sd\"\ncount = 8\nsize = \"2TiB\"\n",
        read_kib * ((AHEAD_S * rate).ceil() as u64).max(2)
    );
    Site {
        text,
        length_ns: workload.length_ns,
        drives: 8,
        service_ns: 8e6,
        read_bytes: read_kib << 10,
        written_bytes: 0.0,
        parallel: 1,
    }
}

/// One disk; sequential, or random.
pub(super) fn disk(dice: &mut Dice, seed: u64, sequential: bool) -> Site {
    let (block_kib, random, iops) = match sequential {
        true => (dice.pick(&[512u64, 1024]), 0, 150.0),
        false => (dice.pick(&[4u64, 16, 64]), 100, 90.0),
    };
    let depth = dice.pick(&[1u64, 2, 4]);
    let operations = dice.log_whole(1000, 3000);
    let body = format!(
        "file_size = \"200GiB\"\nblock_sizes = \"{block_kib}KiB\"\nrandom = \"{random}%\"\nqueue_depth = {depth}\n"
    );
    let workload = Workload::new(operations, iops, body);
    let mut text = workload.text(seed);
    text += "[host]\ncpus = 4\n\n[device]\nkind = \"hdd\"\nname = \"sd\"\nsize = \"1TiB\"\n";
    Site {
        text,
        length_ns: workload.length_ns,
        drives: 1,
        service_ns: 8e6,
        read_bytes: block_kib << 10,
        written_bytes: 0.0,
        parallel: 1,
    }
}

/// Clients of a file server over a network.
pub(super) fn served(dice: &mut Dice, seed: u64) -> Site {
    let rate = dice.log(1000.0, 6000.0);
    let operations = dice.log_whole(5000, 12_000);
    let block_kib = dice.pick(&[16u64, 64]);
    let body = format!(
        "file_size = \"64GiB\"\nblock_sizes = \"{block_kib}KiB\"\nqueue_depth = 8\nworkers = 4\nrate = \"{}/s\"\n",
        rate as u64
    );
    let workload = Workload::new(operations, rate, body);
    let mut text = workload.text(seed);
    let (latency_us, read_us) = (dice.log_whole(30, 200), dice.log_whole(80, 250));
    let _ = write!(
        text,
        "[host]\ncpus = 8\n\n[protocol]\n\n[network]\nlatency = \"{latency_us}us\"\n\n[interrupts]\n\n[device]\nname = \"nvme\"\n\
         simple_read = \"{read_us}us\"\n"
    );
    Site {
        text,
        length_ns: workload.length_ns,
        drives: 1,
        service_ns: read_us as f64 * 1e3,
        read_bytes: block_kib << 10,
        written_bytes: 0.0,
        parallel: 1,
    }
}
