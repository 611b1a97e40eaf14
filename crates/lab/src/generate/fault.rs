//! Faults drawn at random: the stack for a kind, where and when, and a magnitude from no visible effect up.
use super::dice::Dice;
use super::sites::{cached, disk, flash_of_any_kind, served, single_flash, streaming, striped, us, Site};
use std::fmt::Write;

/// The stack for a fault kind, and the fault on it.
pub(super) fn faulty(dice: &mut Dice, seed: u64, kind: &str) -> String {
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

/// A little other load. Whether it harms anybody, the truth says.
fn distraction(dice: &mut Dice, site: &mut Site) {
    let drive = dice.0.below(site.drives);
    let rate = 0.02 * 1e9 / site.service_ns;
    let _ = write!(
        site.text,
        "\n[load.other]\ncomm = \"cron\"\ndrive = {drive}\nrate = {rate:.1}\nsize = \"16KiB\"\ndepth = 4\n"
    );
}
