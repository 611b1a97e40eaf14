//! Draws random scenarios: a stack, a workload that suits it, and faults of any size, or none.
//!
//! Case `k` of a seed depends on the two only. By `k` modulo five: the first is healthy, the second a look-alike (something
//! that catches the eye without being a fault), the others have a fault whose magnitude reaches down to no visible effect.
use super::dice::Dice;
use super::fault::faulty;
use super::sites::{cached, disk, served, single_flash, streaming, striped, us, Site};
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
