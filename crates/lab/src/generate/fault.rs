//! Faults drawn at random: the stack for a kind, where and when, and a magnitude from no visible effect up.
use super::dice::Dice;
use super::sites::{
    cached, disk, flash_of_any_kind, narrow, served, single_flash, streaming, striped, transferring, us,
    written, Mix, Site,
};
use crate::components::slowness::LINKS;
use std::fmt::Write;

/// The stack for a fault kind, and the fault on it.
/// How large its effect is says the strength of the dice.
pub(super) fn faulty(dice: &mut Dice, seed: u64, kind: &str) -> String {
    let mut site = match kind {
        "slow_member" | "slow_handler" | "wrong_affinity" => striped(dice, seed),
        "cache_too_small" => cached(dice, seed, true),
        "prefetch_misfit" => streaming(dice, seed),
        "fragmentation" | "fill_level" => disk(dice, seed, true),
        "network_loss" => served(dice, seed),
        "noisy_neighbour" | "periodic_job" | "discard_storm" => single_flash(dice, seed),
        "rebuild" | "scrub" => narrow(dice, seed),
        "link_downgrade" => transferring(dice, seed),
        "fast_region_full" => written(dice, seed, Mix::Writes),
        "flush_tail" | "journal_contention" => written(dice, seed, Mix::Syncs),
        _ => flash_of_any_kind(dice, seed),
    };
    let keys = fault_keys(dice, &site, kind);
    if kind == "wrong_affinity" {
        // What one CPU has to do for all: its magnitude.
        let cost = us(dice.at(1e3, 60e3));
        site.text = site
            .text
            .replace("[interrupts]\n", &format!("[interrupts]\nhandler = {cost}\n"));
    }
    match kind {
        // On two partitions.
        "misalignment" => {
            site.text = site
                .text
                .replace("targets = [\"data\"]", "targets = [\"data\", \"old/data\"]")
        }
        // On both nodes.
        "numa_distance" => site.text = site.text.replace("workers = 1\n", "workers = 2\n"),
        _ => {}
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
                dice.at(1.02, 60.0)
            ),
            "tail" => format!(
                "drive = {drive}\nshape = \"tail\"\nprobability = \"{:.2}%\"\nadd = {}\nonset = {onset}\n",
                dice.log(0.1, 20.0),
                us(site.service_ns * dice.at(0.2, 200.0))
            ),
            _ => {
                let period_ns = length_ns / dice.log(5.0, 20.0);
                format!(
                    "drive = {drive}\nshape = \"intermittent\"\nfactor = {:.3}\nperiod = {}\nactive = {}\n",
                    dice.at(1.05, 60.0),
                    us(period_ns),
                    us(period_ns * dice.log(0.05, 0.5))
                )
            }
        },
        "slow_handler" => format!(
            "drive = {drive}\ncost = {}\nonset = {onset}\n",
            us(dice.at(1e3, 600e3))
        ),
        "submitter_stall" => {
            let period_ns = length_ns / dice.log(6.0, 40.0);
            format!(
                "period = {}\nstop = {}\n",
                us(period_ns),
                us(period_ns * dice.at(0.0005, 0.5))
            )
        }
        "runqueue_pressure" => format!(
            "probability = \"{:.2}%\"\nwait = {}\nonset = {onset}\n",
            dice.log(0.1, 30.0),
            us(site.service_ns * dice.at(0.1, 100.0))
        ),
        "throttle" => {
            // Relative to what one request after the other would give.
            let iops = (1e9 / site.service_ns * dice.at(20.0, 0.1)) as u64;
            format!("iops = {}\n", iops.max(10))
        }
        "cache_too_small" => format!("share = \"{:.1}%\"\n", dice.at(100.0, 5.0)),
        "prefetch_misfit" => {
            let chunk_kib = (site.read_bytes as f64 * dice.at(2.0, 0.1) / 65_536.0).round() as u64 * 64;
            format!("chunk = \"{}KiB\"\n", chunk_kib.max(64))
        }
        "fragmentation" => format!("piece = \"{}KiB\"\n", 4 * dice.at(16_384.0, 4.0) as u64),
        "fill_level" => format!("full = \"{:.1}%\"\n", 100.0 - dice.at(60.0, 1.0)),
        "garbage_collection" | "firmware_hiccups" => {
            let every_ns = length_ns / dice.log(6.0, 40.0);
            format!(
                "drive = {drive}\nevery = {}\npause = {}\n",
                us(every_ns),
                us(every_ns * dice.at(0.0005, 0.5))
            )
        }
        "network_loss" => format!("probability = \"{:.3}%\"\n", dice.at(0.005, 8.0)),
        "noisy_neighbour" | "periodic_job" => {
            // The drive serves 8 to 32 at once; the job asks for 1 % to 300 % of what 16 would do.
            let rate = 16.0 * 1e9 / 60e3 * dice.at(0.005, 5.0);
            let mut keys = format!(
                "comm = \"{}\"\nrate = {:.0}\nsize = \"{}KiB\"\nread = \"{}%\"\n",
                dice.pick(&["restic", "updatedb", "clamscan", "pg_dump"]),
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
        _ => later_kinds(dice, site, kind, &onset),
    }
}

/// The same for kinds with names that say what their stack needs.
fn later_kinds(dice: &mut Dice, site: &Site, kind: &str, onset: &str) -> String {
    let drive = dice.0.below(site.drives);
    let length_ns = site.length_ns;
    match kind {
        "device_errors" => format!(
            "drive = {drive}\nprobability = \"{:.2}%\"\nretry = {}\nonset = {onset}\n",
            dice.log(0.2, 5.0),
            us(site.service_ns * dice.at(0.5, 500.0))
        ),
        "queue_stall" => {
            let period_ns = length_ns / dice.log(6.0, 40.0);
            format!(
                "drive = {drive}\nperiod = {}\nstall = {}\n",
                us(period_ns),
                us(period_ns * dice.at(0.001, 0.8))
            )
        }
        "flush_tail" => format!(
            "drive = {drive}\nprobability = \"{:.2}%\"\nadd = {}\nonset = {onset}\n",
            dice.log(1.0, 30.0),
            us(site.service_ns * dice.at(0.5, 500.0))
        ),
        "thermal_throttle" => {
            let period_ns = length_ns / dice.log(3.0, 10.0);
            format!(
                "drive = {drive}\nfactor = {:.3}\nperiod = {}\nwarm = {}\n",
                dice.at(1.03, 60.0),
                us(period_ns),
                us(period_ns * dice.log(0.2, 0.6))
            )
        }
        "link_downgrade" => {
            // Lanes and speeds that there are, below those of the whole link.
            let narrower = &LINKS[..LINKS.len() - 1];
            let lost = (dice.1 * narrower.len() as f64) as usize;
            let (_, rate) = narrower[narrower.len() - 1 - lost.min(narrower.len() - 1)];
            format!("drive = {drive}\nbandwidth = \"{rate}B/s\"\nonset = {onset}\n")
        }
        "fast_region_full" => format!(
            "drive = {drive}\nsize = \"{}B\"\nfactor = {:.3}\n",
            ((site.written_bytes * dice.log(0.2, 0.6)) as u64).max(4096),
            dice.at(1.03, 100.0)
        ),
        "slow_firmware" => format!(
            "factor = {:.3}\nonset = {}\n",
            dice.at(1.03, 30.0),
            us((0.2 + 0.4 * dice.unit()) * length_ns)
        ),
        "misalignment" => format!("factor = {:.3}\n", dice.at(1.03, 30.0)),
        "multipath_failover" => format!(
            "drive = {drive}\nevery = {}\ntimeout = {}\n",
            us(length_ns / dice.log(2.0, 8.0)),
            us(length_ns * dice.at(0.0003, 0.15))
        ),
        "rebuild" | "scrub" => {
            let rate = site.parallel as f64 * 1e9 / 100e3 * dice.at(0.02, 4.0);
            let active = (15_000.0 / (rate * length_ns / 1e9)).min(0.5);
            let period_ns = length_ns / dice.log(4.0, 10.0);
            let which = if kind == "rebuild" {
                format!("drive = {drive}\n")
            } else {
                String::new()
            };
            format!(
                "{which}rate = {rate:.0}\nperiod = {}\nactive = {}\n",
                us(period_ns),
                us(period_ns * active)
            )
        }
        "discard_storm" => {
            let period_ns = length_ns / dice.log(4.0, 12.0);
            format!(
                "rate = {:.0}\nsize = \"1MiB\"\ndepth = {}\nperiod = {}\nactive = {}\n",
                site.parallel as f64 * 1e9 / 350e3 * dice.at(0.01, 4.0),
                4 * site.parallel,
                us(period_ns),
                us(period_ns * dice.log(0.1, 0.4))
            )
        }
        "journal_contention" => {
            let every_ns = length_ns / dice.log(6.0, 30.0);
            format!(
                "every = {}\ncommit = {}\nonset = {onset}\n",
                us(every_ns),
                us(every_ns * dice.at(0.001, 0.6))
            )
        }
        "numa_distance" => format!("add = {}\n", us(site.service_ns * dice.at(0.02, 30.0))),
        _ => String::new(),
    }
}

/// A little other load. Whether it harms anybody, the truth says.
fn distraction(dice: &mut Dice, site: &mut Site) {
    let drive = dice.0.below(site.drives);
    let rate = 0.02 * 1e9 / site.service_ns;
    let _ = write!(
        site.text,
        "\n[load.other]\ncomm = \"logrotate\"\ndrive = {drive}\nrate = {rate:.1}\nsize = \"16KiB\"\ndepth = 4\n"
    );
}
