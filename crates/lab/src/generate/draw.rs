//! Draws random scenarios: a stack, a workload that suits it, and faults of any size, or none.
//!
//! Case `k` of a seed depends on the two only. By `k` modulo five: the first is healthy, the second a look-alike (something
//! that catches the eye without being a fault), the others have a fault whose magnitude reaches down to no visible effect.
use crate::sim::stream;
use std::fmt::Write;
use workload::rng::Rng;

/// What a case is meant to be; what it is says its truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing out of the ordinary.
    Healthy,
    /// Out of the ordinary, but nobody's fault.
    LookAlike,
    /// A fault.
    Fault,
}

/// A scenario drawn at random.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// What it is meant to be.
    pub class: Class,
    /// The kind of its fault or look-alike; also the scenario's name, by which `score` groups.
    pub group: &'static str,
    /// The scenario, as TOML.
    pub text: String,
}

/// Look-alikes, all equally likely.
const LOOK_ALIKES: [&str; 4] = [
    "lookalike_heavy_load",
    "lookalike_busier_drive",
    "lookalike_warming_cache",
    "lookalike_even_hiccups",
];

/// Fault kinds, all equally likely.
const FAULTS: [&str; 15] = [
    "slow_member",
    "slow_handler",
    "wrong_affinity",
    "submitter_stall",
    "runqueue_pressure",
    "throttle",
    "cache_too_small",
    "prefetch_misfit",
    "fragmentation",
    "fill_level",
    "garbage_collection",
    "firmware_hiccups",
    "network_loss",
    "noisy_neighbour",
    "periodic_job",
];

/// Random choices by name.
struct Dice(Rng);

impl Dice {
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize]
    }

    /// Log-uniform: every factor equally likely.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    fn log_whole(&mut self, low: u64, high: u64) -> u64 {
        self.log(low as f64, high as f64) as u64
    }
}

/// A stack with a workload that suits it, still without faults.
struct Site {
    /// Top-level keys and tables.
    text: String,
    /// About how long the run is, virtual nanoseconds.
    length_ns: f64,
    /// Drives.
    drives: u64,
    /// Service time of one request at its drive, ns.
    service_ns: f64,
    /// Size of a read.
    read_bytes: u64,
}

fn us(ns: f64) -> String {
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
fn flash(dice: &mut Dice, seed: u64, drives: u64, parallel: Option<u64>) -> Site {
    let (read_us, write_us) = (dice.log_whole(60, 250), dice.log_whole(15, 60));
    let read = dice.pick(&[100u64, 90, 70, 50]);
    let (workers, depth) = dice.pick(&[(1u64, 1u64), (1, 4), (2, 4), (1, 16), (4, 4), (2, 8)]);
    let service_ns = (read * read_us + (100 - read) * write_us) as f64 * 10.0;
    let capacity = (workers * depth) as f64 / (service_ns + 5e3) * 1e9;
    let block_kib = dice.pick(&[4u64, 4, 8, 16]);
    let operations = dice.log_whole(6000, 24_000);
    let mut body = format!(
        "file_size = \"64GiB\"\nblock_sizes = \"{block_kib}KiB\"\nread = \"{read}%\"\nqueue_depth = {depth}\nworkers = {workers}\n"
    );
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
    }
}

fn striped(dice: &mut Dice, seed: u64) -> Site {
    let drives = dice.pick(&[4u64, 6, 8, 10, 12]);
    flash(dice, seed, drives, None)
}

fn single_flash(dice: &mut Dice, seed: u64) -> Site {
    let parallel = dice.pick(&[8u64, 16, 32]);
    flash(dice, seed, 1, Some(parallel))
}

fn flash_of_any_kind(dice: &mut Dice, seed: u64) -> Site {
    if dice.chance(0.6) {
        striped(dice, seed)
    } else {
        single_flash(dice, seed)
    }
}

/// Buffered random reads of a file that fits in RAM; `warm`: it is in RAM when the measured phase begins.
fn cached(dice: &mut Dice, seed: u64, warm: bool) -> Site {
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
    }
}

/// Sequential readers of an array of disks with a prefetcher that is large enough.
fn streaming(dice: &mut Dice, seed: u64) -> Site {
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
        2 * read_kib
    );
    Site {
        text,
        length_ns: workload.length_ns,
        drives: 8,
        service_ns: 8e6,
        read_bytes: read_kib << 10,
    }
}

/// One disk; sequential, or random.
fn disk(dice: &mut Dice, seed: u64, sequential: bool) -> Site {
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
    }
}

/// Clients of a file server over a network.
fn served(dice: &mut Dice, seed: u64) -> Site {
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
    }
}

/// The stack for a fault kind, and the fault on it.
fn faulty(dice: &mut Dice, seed: u64, kind: &str) -> String {
    let mut site = match kind {
        "slow_member" | "slow_handler" | "wrong_affinity" => striped(dice, seed),
        "cache_too_small" => cached(dice, seed, true),
        "prefetch_misfit" => streaming(dice, seed),
        "fragmentation" | "fill_level" => disk(dice, seed, true),
        "network_loss" => served(dice, seed),
        "noisy_neighbour" | "periodic_job" => single_flash(dice, seed),
        _ => flash_of_any_kind(dice, seed),
    };
    let keys = fault_keys(dice, &site, kind);
    if kind == "wrong_affinity" {
        // What one CPU has to do for all: its magnitude.
        let cost = us(dice.log(1e3, 40e3));
        site.text = site
            .text
            .replace("[interrupts]\n", &format!("[interrupts]\nhandler = {cost}\n"));
    }
    if dice.chance(0.2) {
        distraction(dice, &mut site);
    }
    let _ = write!(site.text, "\n[fault.{kind}]\nkind = \"{kind}\"\n{keys}");
    if dice.chance(0.1) && !matches!(kind, "submitter_stall" | "wrong_affinity") {
        let stall = fault_keys(dice, &site, "submitter_stall");
        let _ = write!(
            site.text,
            "\n[fault.also_submitter_stall]\nkind = \"submitter_stall\"\n{stall}"
        );
    }
    site.text
}

/// The keys of a fault: where and when, and a magnitude from no visible effect up.
fn fault_keys(dice: &mut Dice, site: &Site, kind: &str) -> String {
    let drive = dice.0.below(site.drives);
    let length_ns = site.length_ns;
    // Some faults are there from the beginning, some come later.
    let onset = match dice.chance(0.5) {
        true => "\"0us\"".into(),
        false => us(dice.unit() * 0.5 * length_ns),
    };
    match kind {
        "slow_member" => match dice.pick(&["constant", "tail", "intermittent"]) {
            "constant" => format!(
                "drive = {drive}\nfactor = {:.3}\nonset = {onset}\n",
                dice.log(1.01, 10.0)
            ),
            "tail" => format!(
                "drive = {drive}\nshape = \"tail\"\nprobability = \"{:.2}%\"\nadd = {}\nonset = {onset}\n",
                dice.log(0.1, 20.0),
                us(site.service_ns * dice.log(1.0, 50.0))
            ),
            _ => {
                let period_ns = length_ns / dice.log(5.0, 20.0);
                format!(
                    "drive = {drive}\nshape = \"intermittent\"\nfactor = {:.3}\nperiod = {}\nactive = {}\n",
                    dice.log(1.05, 20.0),
                    us(period_ns),
                    us(period_ns * dice.log(0.05, 0.5))
                )
            }
        },
        "slow_handler" => format!(
            "drive = {drive}\ncost = {}\nonset = {onset}\n",
            us(dice.log(1e3, 300e3))
        ),
        "submitter_stall" => {
            let period_ns = length_ns / dice.log(6.0, 40.0);
            format!(
                "period = {}\nstop = {}\n",
                us(period_ns),
                us(period_ns * dice.log(0.001, 0.3))
            )
        }
        "runqueue_pressure" => format!(
            "probability = \"{:.2}%\"\nwait = {}\nonset = {onset}\n",
            dice.log(0.1, 30.0),
            us(site.service_ns * dice.log(0.2, 20.0))
        ),
        "throttle" => {
            // Relative to what one request after the other would give.
            let iops = (1e9 / site.service_ns * dice.log(0.2, 8.0)) as u64;
            format!("iops = {}\n", iops.max(10))
        }
        "cache_too_small" => format!("share = \"{:.1}%\"\n", dice.log(8.0, 100.0)),
        "prefetch_misfit" => {
            let chunk_kib = (site.read_bytes as f64 * dice.log(0.2, 2.0) / 65_536.0).round() as u64 * 64;
            format!("chunk = \"{}KiB\"\n", chunk_kib.max(64))
        }
        "fragmentation" => format!("piece = \"{}KiB\"\n", 4 * dice.log_whole(4, 16_384)),
        "fill_level" => format!("full = \"{:.1}%\"\n", 100.0 - dice.log(2.0, 60.0)),
        "garbage_collection" | "firmware_hiccups" => {
            let every_ns = length_ns / dice.log(6.0, 40.0);
            format!(
                "drive = {drive}\nevery = {}\npause = {}\n",
                us(every_ns),
                us(every_ns * dice.log(0.002, 0.3))
            )
        }
        "network_loss" => format!("probability = \"{:.3}%\"\n", dice.log(0.01, 4.0)),
        "noisy_neighbour" | "periodic_job" => {
            // The drive serves 8 to 32 at once; the job asks for 1 % to 300 % of what 16 would do.
            let rate = 16.0 * 1e9 / 60e3 * dice.log(0.01, 3.0);
            let mut keys = format!(
                "comm = \"{}\"\nrate = {:.0}\nsize = \"{}KiB\"\nread = \"{}%\"\n",
                dice.pick(&["backup", "indexer", "scrub", "reporter"]),
                rate,
                dice.pick(&[16u64, 64]),
                dice.pick(&[0u64, 50, 100])
            );
            // Bounds the rows of a case: what is left out would not have changed the picture.
            let active = (30_000.0 / (rate * length_ns / 1e9)).min(0.5);
            let period_ns = length_ns / dice.log(5.0, 15.0);
            if kind == "periodic_job" || active < 0.5 {
                let _ = write!(
                    keys,
                    "period = {}\nactive = {}\n",
                    us(period_ns),
                    us(period_ns * active)
                );
            }
            keys
        }
        _ => String::new(),
    }
}

/// A little other load that harms nobody.
fn distraction(dice: &mut Dice, site: &mut Site) {
    let drive = dice.0.below(site.drives);
    let rate = 0.02 * 1e9 / site.service_ns;
    let _ = write!(
        site.text,
        "\n[load.other]\ncomm = \"cron\"\ndrive = {drive}\nrate = {rate:.1}\nsize = \"16KiB\"\ndepth = 4\n"
    );
}

fn any_site(dice: &mut Dice, seed: u64) -> Site {
    match dice.0.below(7) {
        0 | 1 => striped(dice, seed),
        2 => single_flash(dice, seed),
        3 => cached(dice, seed, true),
        4 => streaming(dice, seed),
        5 => {
            let sequential = dice.chance(0.5);
            disk(dice, seed, sequential)
        }
        _ => served(dice, seed),
    }
}

fn look_alike(dice: &mut Dice, seed: u64, kind: &str) -> String {
    match kind {
        "lookalike_heavy_load" => {
            let site = single_flash(dice, seed);
            // Many more in flight than the drive serves at once: long queues, and nobody's fault.
            let deep = dice.pick(&[64, 128, 256]);
            site.text
                .lines()
                .filter(|line| !line.starts_with("rate") && !line.starts_with("arrival"))
                .fold(String::new(), |mut text, line| {
                    let _ = match line.split(' ').next() {
                        Some("queue_depth") => writeln!(text, "queue_depth = {deep}"),
                        // The run is shorter than at the rate.
                        Some("ramp") => writeln!(text, "ramp = \"1ms\""),
                        Some("sample") => writeln!(text, "sample = \"2ms\""),
                        _ => writeln!(text, "{line}"),
                    };
                    text
                })
        }
        "lookalike_busier_drive" => {
            let mut site = striped(dice, seed);
            let drive = dice.0.below(site.drives);
            // A drive serves 64 at once: 5 to 15 of them are this load, and nobody waits for it.
            let rate = dice.log(5.0, 15.0) * 1e9 / site.service_ns;
            let rate = rate.min(30_000.0 / (site.length_ns / 1e9));
            let _ = write!(
                site.text,
                "\n[load.scan]\ncomm = \"scan\"\ndrive = {drive}\nrate = {rate:.1}\nsize = \"16KiB\"\nread = \"100%\"\ndepth = 32\n"
            );
            site.text
        }
        "lookalike_warming_cache" => cached(dice, seed, false).text,
        _ => {
            let site = striped(dice, seed);
            if dice.chance(0.5) {
                // Every drive has the same heavy tail.
                let spread = format!("{:.2}", 0.5 + 0.6 * dice.unit());
                return site
                    .text
                    .lines()
                    .map(|line| match line.starts_with("simple_spread") {
                        true => format!("simple_spread = {spread}\n"),
                        false => format!("{line}\n"),
                    })
                    .collect();
            }
            let (every_ns, share) = (site.length_ns / dice.log(4.0, 10.0), dice.log(0.002, 0.008));
            (0..site.drives).fold(site.text, |mut text, drive| {
                let _ = write!(
                    text,
                    "\n[fault.hiccups{drive}]\nkind = \"firmware_hiccups\"\ndrive = {drive}\nevery = {}\npause = {}\n",
                    us(every_ns),
                    us(every_ns * share)
                );
                text
            })
        }
    }
}

/// Case `number` of `seed`.
pub fn draw(seed: u64, number: u64) -> Drawn {
    let mut dice = Dice(stream(seed, &format!("case {number}")));
    let own_seed = dice.0.below(1 << 48);
    let (class, group, text) = match number % 5 {
        0 => (Class::Healthy, "healthy", any_site(&mut dice, own_seed).text),
        1 => {
            let kind = dice.pick(&LOOK_ALIKES);
            (Class::LookAlike, kind, look_alike(&mut dice, own_seed, kind))
        }
        _ => {
            let kind = dice.pick(&FAULTS);
            (Class::Fault, kind, faulty(&mut dice, own_seed, kind))
        }
    };
    let about = match class {
        Class::Healthy => "Drawn at random, without a fault.",
        Class::LookAlike => "Drawn at random: out of the ordinary, but nobody's fault.",
        Class::Fault => "Drawn at random, with a fault.",
    };
    Drawn {
        class,
        group,
        text: format!("name = \"{group}\"\nabout = \"{about}\"\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Plan;
    use crate::scenario::Scenario;
    use std::collections::BTreeSet;

    #[test]
    fn every_drawn_scenario_is_legal_and_all_kinds_occur() {
        let mut groups = BTreeSet::new();
        for number in 0..600 {
            let drawn = draw(7, number);
            let scenario = Scenario::parse("drawn", &drawn.text, &[])
                .unwrap_or_else(|error| panic!("case {number}: {error}\n{}", drawn.text));
            let all: Vec<usize> = (0..scenario.faults.len()).collect();
            let plan = Plan::new(&scenario, &all);
            assert!(plan.is_ok(), "case {number}: {:?}\n{}", plan.err(), drawn.text);
            groups.insert(drawn.group);
        }
        assert_eq!(groups.len(), 1 + LOOK_ALIKES.len() + FAULTS.len());
    }

    #[test]
    fn a_fifth_is_healthy_and_a_fifth_looks_ill() {
        let classes: Vec<Class> = (0..100).map(|number| draw(1, number).class).collect();
        let count = |class| classes.iter().filter(|other| **other == class).count();
        assert_eq!((count(Class::Healthy), count(Class::LookAlike)), (20, 20));
    }
}
