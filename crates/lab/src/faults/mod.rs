//! Faults as inputs: each changes the plan of a stack before it is built, and names the culprit that follows.
//! A kind is a file: its keys, and what it does to the plan.
mod aged_layout;
mod cache_too_small;
mod checkpoint_storm;
mod device_errors;
mod discard_storm;
mod fast_region_full;
mod fill_level;
mod firmware_hiccups;
mod flush_tail;
mod fragmentation;
mod garbage_collection;
mod journal_contention;
mod link_downgrade;
mod load;
mod misalignment;
mod multipath_failover;
mod network_loss;
mod noisy_neighbour;
mod numa_distance;
mod oversized_transaction;
mod periodic_job;
mod prefetch_misfit;
mod queue_stall;
mod rebuild;
mod runqueue_pressure;
mod scrub;
mod slow_firmware;
mod slow_handler;
mod slow_member;
mod submitter_stall;
mod thermal_throttle;
mod throttle;
mod wrong_affinity;

use crate::components::drive::QueueStall;
use crate::components::host::{Pressure, Stall};
use crate::components::interrupts::ForeignHandler;
use crate::components::load::Pattern;
use crate::components::network::Loss;
use crate::components::server::{Commits, Far};
use crate::components::slowness::{Errors, Link, Pauses, Slow};
use crate::components::throttle::Limit;
use crate::error::LabError;
use crate::keys::{hint_for, key, Key, Kind, Section};
use crate::scenario::Scenario;
use serde::Serialize;

const DAY_NS: u64 = 86_400_000_000_000;

/// A kind of fault.
pub struct FaultKind {
    /// `slow_member`.
    pub name: &'static str,
    /// In a sentence.
    pub about: &'static str,
    /// Keys beside `kind` and `enabled`.
    pub keys: &'static [Key],
    apply: fn(&Section, &mut Plan) -> Result<Culprit, LabError>,
}

/// Who is to blame: kinds as in a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Culprit {
    /// `device`, `vector`, `stage`, `host`, ...
    pub kind: &'static str,
    /// Which.
    pub name: String,
}

/// A scenario with what faults add to it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Possibly changed by faults.
    pub scenario: Scenario,
    /// Per drive.
    pub slow: Vec<(usize, Slow)>,
    /// Per drive; None = all of them at the same moments.
    pub pauses: Vec<(usize, Pauses)>,
    /// Per drive: commands that fail.
    pub errors: Vec<(usize, Errors)>,
    /// Per drive: a link that is slower than the drive.
    pub links: Vec<(usize, Link)>,
    /// Commits of a file system's journal, which hold up writes and syncs.
    pub commits: Vec<Commits>,
    /// CPUs that are far from memory and drives.
    pub far: Vec<Far>,
    /// When the drives' firmware was updated.
    pub firmware_from_ns: Option<u64>,
    /// Physical block of the drives.
    pub physical_block_bytes: u64,
    /// Per drive: queues that the host does not run for a while.
    pub queue_stalls: Vec<(usize, QueueStall)>,
    /// Handlers that are no drive's.
    pub handlers: Vec<ForeignHandler>,
    /// Stops of workers.
    pub stalls: Vec<Stall>,
    /// Pressure on the run queues.
    pub pressure: Vec<Pressure>,
    /// Controllers.
    pub limits: Vec<Limit>,
    /// Loss on the network.
    pub losses: Vec<Loss>,
    /// Other load: name and what it does.
    pub loads: Vec<(String, Pattern)>,
}

/// A fault of a scenario.
#[derive(Clone, Debug)]
pub struct Fault {
    /// `fault.NAME`.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its keys.
    pub section: Section,
}

const ONSET: Key = key("onset", Kind::Time(0, DAY_NS), "0s", "When it begins.");
const LENGTH: Key = key(
    "length",
    Kind::Time(0, DAY_NS),
    "0s",
    "How long it lasts; 0 = to the end.",
);
const DRIVE: Key = key("drive", Kind::Count(0, 1023), "0", "Number of the drive.");

/// Every kind of fault.
pub static KINDS: [FaultKind; 32] = [
    slow_member::KIND,
    slow_handler::KIND,
    wrong_affinity::KIND,
    submitter_stall::KIND,
    runqueue_pressure::KIND,
    throttle::KIND,
    cache_too_small::KIND,
    prefetch_misfit::KIND,
    oversized_transaction::KIND,
    queue_stall::KIND,
    fragmentation::KIND,
    aged_layout::KIND,
    fill_level::KIND,
    garbage_collection::KIND,
    firmware_hiccups::KIND,
    device_errors::KIND,
    network_loss::KIND,
    noisy_neighbour::KIND,
    periodic_job::KIND,
    checkpoint_storm::KIND,
    flush_tail::KIND,
    thermal_throttle::KIND,
    link_downgrade::KIND,
    fast_region_full::KIND,
    slow_firmware::KIND,
    misalignment::KIND,
    multipath_failover::KIND,
    rebuild::KIND,
    scrub::KIND,
    discard_storm::KIND,
    journal_contention::KIND,
    numa_distance::KIND,
];

impl Fault {
    /// Checks `[fault.NAME]`; None if it says `enabled = false`.
    pub fn parse(file: &str, name: &str, mut table: toml::Table) -> Result<Option<Fault>, LabError> {
        let place = format!("fault.{name}");
        let enabled = match table.remove("enabled") {
            None | Some(toml::Value::Boolean(true)) => true,
            Some(toml::Value::Boolean(false)) => false,
            Some(other) => {
                let at = format!("{place}.enabled");
                return Err(LabError::key(
                    file,
                    at,
                    "true or false",
                    other.to_string(),
                    "correct it",
                ));
            }
        };
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let found = table.remove("kind");
        let text = found
            .as_ref()
            .and_then(|value| value.as_str())
            .unwrap_or("nothing");
        let Some(kind) = KINDS.iter().find(|kind| kind.name == text) else {
            let at = format!("{place}.kind");
            return Err(LabError::key(
                file,
                at,
                "a kind of fault",
                format!("{text:?}"),
                hint_for(text, &names),
            ));
        };
        let section = Section::parse(file, &place, kind.keys, &table)?;
        Ok(enabled.then(|| Fault {
            name: name.into(),
            kind: kind.name,
            section,
        }))
    }

    /// Its kind.
    pub fn describe(&self) -> &'static FaultKind {
        KINDS
            .iter()
            .find(|kind| kind.name == self.kind)
            .unwrap_or(&KINDS[0])
    }

    /// Changes the plan. Errors: it needs something that the stack does not have.
    pub fn apply(&self, plan: &mut Plan) -> Result<Culprit, LabError> {
        (self.describe().apply)(&self.section, plan)
    }
}

impl Plan {
    /// The plan of a scenario with the faults at `with` (indices); the culprits in the same order.
    pub fn new(scenario: &Scenario, with: &[usize]) -> Result<(Plan, Vec<Culprit>), LabError> {
        let mut plan = Plan {
            scenario: scenario.clone(),
            slow: Vec::new(),
            pauses: Vec::new(),
            errors: Vec::new(),
            links: Vec::new(),
            commits: Vec::new(),
            far: Vec::new(),
            firmware_from_ns: None,
            physical_block_bytes: 4096,
            queue_stalls: Vec::new(),
            handlers: Vec::new(),
            stalls: Vec::new(),
            pressure: Vec::new(),
            limits: Vec::new(),
            losses: Vec::new(),
            loads: Vec::new(),
        };
        for section in &scenario.loads {
            let name = section.name.replace('.', "-");
            plan.loads.push((name, load::pattern(section)));
        }
        let culprits = with.iter().map(|n| scenario.faults[*n].apply(&mut plan));
        let culprits = culprits.collect::<Result<Vec<_>, _>>()?;
        Ok((plan, culprits))
    }

    fn need(&self, section: &Section, table: &str) -> Result<(), LabError> {
        if self.scenario.has(table) {
            return Ok(());
        }
        Err(LabError::key(
            &self.scenario.file,
            &section.name,
            format!("a stack with [{table}]"),
            "none",
            format!("add [{table}] or remove the fault"),
        ))
    }

    fn drive(&self, section: &Section) -> Result<usize, LabError> {
        let (drive, count) = (
            section.whole("drive"),
            self.scenario.section("device").whole("count"),
        );
        if drive < count {
            return Ok(drive as usize);
        }
        let place = format!("{}.drive", section.name);
        let expected = format!("0 to {}", count - 1);
        Err(LabError::key(
            &self.scenario.file,
            place,
            expected,
            drive.to_string(),
            "choose one of the drives",
        ))
    }

    fn drives(&self) -> usize {
        self.scenario.section("device").whole("count") as usize
    }

    fn device_culprit(&self, drive: usize) -> Culprit {
        culprit("device", &self.scenario.drive_names()[drive])
    }
}

fn culprit(kind: &'static str, name: &str) -> Culprit {
    Culprit {
        kind,
        name: name.into(),
    }
}

/// Begin and end of a fault.
fn span(section: &Section) -> (u64, u64) {
    let from_ns = section.whole("onset");
    match section.whole("length") {
        0 => (from_ns, u64::MAX),
        length => (from_ns, from_ns.saturating_add(length)),
    }
}
