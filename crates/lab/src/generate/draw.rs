//! Draws random scenarios: a stack, a workload that suits it, and faults of any size, or none.
//!
//! Case `k` of a seed depends on the two only. By `k` modulo five: the first is healthy, the second a look-alike (something
//! that catches the eye without being a fault), the others have a fault with a magnitude down to no visible effect.
use super::dice::Dice;
use super::fault::faulty;
use super::sites::{cached, disk, served, single_flash, streaming, striped, us, Site};
use crate::components::slowness::LINKS;
use crate::error::LabError;
use crate::run;
use crate::scenario::Scenario;
use crate::sim::stream;
use std::fmt::Write;

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
const FAULTS: [&str; 29] = [
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
    "device_errors",
    "queue_stall",
    "flush_tail",
    "thermal_throttle",
    "link_downgrade",
    "fast_region_full",
    "slow_firmware",
    "misalignment",
    "multipath_failover",
    "rebuild",
    "scrub",
    "discard_storm",
    "journal_contention",
    "numa_distance",
];

/// Programs that the work may belong to.
const PROGRAMS: [&str; 8] = [
    "fio",
    "postgres",
    "mysqld",
    "mongod",
    "java",
    "clickhouse-serv",
    "qemu-system-x86",
    "rocksdb_bench",
];

/// Effects are drawn evenly on a log scale between these: times worse.
const EFFECTS: (f64, f64) = (1.05, 20.0);
/// Steps in which the strength that has the effect is sought.
const STEPS: usize = 6;

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

/// A recorder as people run it: often without the drives' own times, sometimes with fewer probes, a coarse clock, or lost events. What a kind
/// of fault needs for its verdict is always there.
fn recorder(dice: &mut Dice, kind: &str) -> String {
    let mut text = String::from("\n[recorder]\n");
    let mut without = |key: &str, probability: f64, needed: bool, dice: &mut Dice| {
        if dice.chance(probability) && !needed {
            let _ = writeln!(text, "{key} = false");
        }
    };
    without("device", 0.7, false, dice);
    without("syscalls", 0.2, false, dice);
    without(
        "interrupts",
        0.2,
        matches!(kind, "slow_handler" | "wrong_affinity"),
        dice,
    );
    without(
        "scheduler",
        0.1,
        matches!(kind, "submitter_stall" | "runqueue_pressure"),
        dice,
    );
    if dice.chance(0.15) {
        text += "clock = \"1us\"\n";
    }
    if dice.chance(0.2) {
        let _ = writeln!(text, "lost = \"{:.2}%\"", dice.log(0.1, 3.0));
    }
    text
}

/// What hosts have and nobody feels: CPUs of two nodes, a slot with fewer lanes than the drive, a misaligned partition that is read in large pieces.
fn with_facts(dice: &mut Dice, group: &str, text: String) -> String {
    let (nodes, slot, partition) = (dice.chance(0.3), dice.chance(0.2), dice.chance(0.4));
    let mut text = text;
    if nodes {
        text = text.replacen("[host]\n", "[host]\nnodes = 2\n", 1);
    }
    let drives = text.contains("name = \"nvme\"\n") && group != "link_downgrade";
    let wide_enough = LINKS
        .iter()
        .filter(|(_, rate)| *rate as f64 > 3.0 * most_bytes_per_s(&text));
    let narrower: Vec<&str> = wide_enough.map(|(link, _)| *link).take(3).collect();
    if slot && drives && !narrower.is_empty() {
        let link = dice.pick(&narrower);
        text = text.replacen("[device]\n", &format!("[device]\nlink = \"{link}\"\n"), 1);
    }
    let large = text.contains("random = \"0%\"\n") && !text.contains("[fault.");
    if partition && large {
        text = text.replacen("targets = [\"data\"]", "targets = [\"data\", \"old/data\"]", 1);
        text += "\n[server]\nmisplaced = 1\n";
    }
    text
}

/// The most that a workload can ask of a drive, bytes per second, as its text has it.
fn most_bytes_per_s(text: &str) -> f64 {
    let number = |key: &str| -> f64 {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        let digits = line.map(|value| {
            value
                .trim_matches('"')
                .trim_end_matches(|c: char| !c.is_ascii_digit())
        });
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(1.0)
    };
    let fastest_us = number("simple_read").min(number("simple_write").max(1.0));
    let own = number("workers") * number("queue_depth") * number("block_sizes") * 1024.0 * 1e6;
    own / fastest_us + others_bytes_per_s(text)
}

/// What programs beside it ask of one drive, bytes per second.
fn others_bytes_per_s(text: &str) -> f64 {
    let number = |load: &str, key: &str| -> f64 {
        let line = load
            .lines()
            .take_while(|line| !line.starts_with('['))
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        let digits = line.map(|value| value.trim_matches(|c: char| !c.is_ascii_digit() && c != '.'));
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0.0)
    };
    let loads = text.split("[load.").skip(1);
    loads
        .filter_map(|load| load.split_once('\n'))
        .map(|(_, load)| number(load, "rate") * number(load, "size") * 1024.0)
        .sum()
}

/// Dice of case `number` of `seed`, with a strength.
fn dice_of(seed: u64, number: u64, strength: f64) -> Dice {
    Dice(stream(seed, &format!("case {number}")), strength)
}

/// Case `number` of `seed`, its fault as strong as said (0 to 1), and the effect it should have.
fn drawn(seed: u64, number: u64, strength: f64) -> (Drawn, f64) {
    let mut dice = dice_of(seed, number, strength);
    let own_seed = dice.0.below(1 << 48);
    let effect = dice.log(EFFECTS.0, EFFECTS.1);
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
    let program = dice.pick(&PROGRAMS);
    let text = text.replacen("[host]\n", &format!("[host]\ncomm = \"{program}\"\n"), 1);
    let text = with_facts(
        &mut Dice(stream(seed, &format!("facts {number}")), 0.0),
        group,
        text,
    );
    let recorder = recorder(&mut dice, group);
    let text = format!("name = \"{group}\"\nabout = \"{about}\"\n{text}{recorder}");
    (Drawn { class, group, text }, effect)
}

/// What a drawn fault does: times worse.
fn effect_of(drawn: &Drawn) -> Result<f64, LabError> {
    let scenario = Scenario::parse("drawn", &drawn.text, &[])?;
    run::effect(&scenario, drawn.group).map(|effect| effect.size())
}

/// Case `number` of `seed`. A fault is as strong as the drawn effect needs, as far as that can be had.
///
/// Errors: a scenario of our own that does not run, which is a bug.
pub fn draw(seed: u64, number: u64) -> Result<Drawn, LabError> {
    let (first, wanted) = drawn(seed, number, 0.5);
    if first.class != Class::Fault {
        return Ok(first);
    }
    let (mut low, mut high, mut strength) = (0.0, 1.0, 0.5);
    let mut nearest = (f64::INFINITY, strength);
    for _ in 0..STEPS {
        let effect = effect_of(&drawn(seed, number, strength).0)?;
        let apart = (effect / wanted).ln().abs();
        if apart < nearest.0 {
            nearest = (apart, strength);
        }
        if effect < wanted {
            low = strength;
        } else {
            high = strength;
        }
        strength = (low + high) / 2.0;
    }
    Ok(drawn(seed, number, nearest.1).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Plan;
    use std::collections::BTreeSet;

    #[test]
    fn what_others_ask_of_a_drive_counts_for_its_slot() {
        let text = "[workload]\nrate = \"24801/s\"\n\n[load.scan]\ncomm = \"scan\"\nrate = 1000.5\nsize = \"16KiB\"\n\n[load.other]\nrate = 2.0\nsize = \"4KiB\"\n\n[recorder]\n";
        assert_eq!(others_bytes_per_s(text), 1000.5 * 16384.0 + 2.0 * 4096.0);
        assert_eq!(others_bytes_per_s("[workload]\nrate = 5.0\n"), 0.0);
    }

    #[test]
    fn every_drawn_scenario_is_legal_and_all_kinds_occur() {
        let mut groups = BTreeSet::new();
        for number in 0..1000 {
            let drawn = drawn(7, number, 0.3).0;
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
        let classes: Vec<Class> = (0..100).map(|number| drawn(1, number, 0.5).0.class).collect();
        let count = |class| classes.iter().filter(|other| **other == class).count();
        assert_eq!((count(Class::Healthy), count(Class::LookAlike)), (20, 20));
    }

    #[test]
    fn a_fault_is_as_strong_as_its_effect_needs() {
        let seed = 3;
        let faults = (0..15).filter(|number| number % 5 > 1);
        let near = faults.filter(|number| {
            let wanted = drawn(seed, *number, 0.5).1;
            let effect = effect_of(&draw(seed, *number).expect("it runs")).expect("it runs");
            (effect / wanted).ln().abs() < 0.3
        });
        assert!(near.count() >= 5, "of nine; some kinds cannot have every effect");
    }
}
