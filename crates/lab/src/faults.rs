//! Faults as inputs: each changes the plan of a stack before it is built, and names the culprit that follows.
use crate::components::drive::QueueStall;
use crate::components::host::{Pressure, Stall};
use crate::components::interrupts::ForeignHandler;
use crate::components::load::{Pattern, FAULT_KEYS};
use crate::components::network::Loss;
use crate::components::slowness::{Errors, Pauses, Shape, Slow};
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
pub static KINDS: [FaultKind; 20] = [
    FaultKind {
        name: "slow_member",
        about: "One drive is slower than its peers: always, in its tail, or now and then.",
        keys: &[
            DRIVE,
            ONSET,
            LENGTH,
            key(
                "shape",
                Kind::Choice(&["constant", "tail", "intermittent"]),
                "constant",
                "Which commands.",
            ),
            key(
                "factor",
                Kind::Number(1.0, 1e4),
                "1",
                "Multiplies the service time of those.",
            ),
            key("add", Kind::Time(0, 60_000_000_000), "0us", "Is added to it."),
            key("probability", Kind::Percent, "1%", "Share of commands (tail)."),
            key(
                "period",
                Kind::Time(1000, DAY_NS),
                "10s",
                "Distance of slow parts (intermittent).",
            ),
            key(
                "active",
                Kind::Time(1, DAY_NS),
                "1s",
                "Length of a slow part (intermittent).",
            ),
            key(
                "op",
                Kind::Choice(&["any", "read", "write"]),
                "any",
                "Which commands.",
            ),
        ],
        apply: slow_member,
    },
    FaultKind {
        name: "slow_handler",
        about: "A foreign interrupt handler (a PCIe switch's management endpoint) shares a drive's vector.",
        keys: &[
            DRIVE,
            ONSET,
            LENGTH,
            key("handler", Kind::Text, "switchtec", "Its name."),
            key("cost", Kind::Time(1, 1_000_000_000), "40us", "Of each call."),
            key(
                "rate",
                Kind::Number(0.0, 1e6),
                "0",
                "Interrupts of its own per second.",
            ),
            key(
                "queues",
                Kind::Count(1, 256),
                "256",
                "How many of the drive's vectors it shares.",
            ),
            key(
                "one_at_a_time",
                Kind::Flag,
                "false",
                "Whether its device answers one call at a time: calls on several CPUs wait for each other.",
            ),
        ],
        apply: slow_handler,
    },
    FaultKind {
        name: "wrong_affinity",
        about: "The wanted CPUs of the vectors are ignored: all interrupts go to a few CPUs.",
        keys: &[key(
            "cpus",
            Kind::Count(1, 4096),
            "1",
            "How many: CPU 0 and those after it.",
        )],
        apply: wrong_affinity,
    },
    FaultKind {
        name: "submitter_stall",
        about: "A worker's thread is stopped now and then.",
        keys: &[
            key("worker", Kind::Count(0, 65535), "65535", "Which; 65535 = all."),
            ONSET,
            LENGTH,
            key("period", Kind::Time(1000, DAY_NS), "1s", "Distance of the stops."),
            key(
                "stop",
                Kind::Time(1, 3_600_000_000_000),
                "18ms",
                "Length of each.",
            ),
            key("irregular", Kind::Flag, "false", "Whether a stop comes anywhere in its period."),
        ],
        apply: submitter_stall,
    },
    FaultKind {
        name: "runqueue_pressure",
        about: "Other processes want the CPUs: threads that wake up wait for one.",
        keys: &[
            ONSET,
            LENGTH,
            key(
                "probability",
                Kind::Percent,
                "20%",
                "Share of wake-ups that wait.",
            ),
            key(
                "wait",
                Kind::Time(1, 60_000_000_000),
                "1ms",
                "Mean wait (exponential).",
            ),
        ],
        apply: runqueue_pressure,
    },
    FaultKind {
        name: "throttle",
        about: "An I/O controller holds requests back.",
        keys: &[
            ONSET,
            LENGTH,
            key(
                "iops",
                Kind::Count(0, 1_000_000_000),
                "1000",
                "Requests per second; 0 = no such limit.",
            ),
            key(
                "bandwidth",
                Kind::Rate(0, 1 << 40),
                "0B/s",
                "Bytes per second; 0 = no such limit.",
            ),
        ],
        apply: throttle,
    },
    FaultKind {
        name: "cache_too_small",
        about: "The RAM cache is a fraction of what it should be.",
        keys: &[key("share", Kind::Percent, "10%", "Of the size it should have.")],
        apply: cache_too_small,
    },
    FaultKind {
        name: "prefetch_misfit",
        about: "Prefetches are smaller than the reads: each read misses its rest.",
        keys: &[key(
            "chunk",
            Kind::Size(4096, 1 << 30),
            "1MiB",
            "Most bytes of one prefetch.",
        )],
        apply: prefetch_misfit,
    },
    FaultKind {
        name: "oversized_transaction",
        about: "The internal read of an offloaded copy is sized by the largest transaction, not by the target.",
        keys: &[key(
            "size",
            Kind::Size(4096, 1 << 30),
            "8448KiB",
            "What the largest transaction comes to.",
        )],
        apply: oversized_transaction,
    },
    FaultKind {
        name: "queue_stall",
        about: "The host does not run a CPU's hardware queue of a drive for a while: its requests are not issued.",
        keys: &[
            DRIVE,
            ONSET,
            LENGTH,
            key("cpu", Kind::Count(0, 65535), "65535", "Whose queue; 65535 = that of each CPU in turn."),
            key("period", Kind::Time(1000, DAY_NS), "1s", "Distance of the stalls."),
            key("stall", Kind::Time(1, 3_600_000_000_000), "113ms", "Length of each."),
        ],
        apply: queue_stall,
    },
    FaultKind {
        name: "fragmentation",
        about: "Files lie in many small pieces on the volume.",
        keys: &[key(
            "piece",
            Kind::Size(4096, 1 << 30),
            "64KiB",
            "Size of a piece.",
        )],
        apply: fragmentation,
    },
    FaultKind {
        name: "aged_layout",
        about: "A copy-on-write array has been overwritten for long: what lay together lies apart.",
        keys: &[key(
            "overwritten",
            Kind::Number(0.0, 20.0),
            "0.5",
            "Random overwrites of the files, as a multiple of their size.",
        )],
        apply: aged_layout,
    },
    FaultKind {
        name: "fill_level",
        about: "The volume is so full that new data go into small holes.",
        keys: &[key("full", Kind::Percent, "95%", "Of its capacity.")],
        apply: fill_level,
    },
    FaultKind {
        name: "garbage_collection",
        about: "A drive pauses to collect garbage, the more often the more is written.",
        keys: &[
            DRIVE,
            ONSET,
            LENGTH,
            key(
                "every",
                Kind::Time(1000, DAY_NS),
                "50ms",
                "Mean distance of pauses.",
            ),
            key("pause", Kind::Time(1, 60_000_000_000), "5ms", "Length of each."),
        ],
        apply: garbage_collection,
    },
    FaultKind {
        name: "firmware_hiccups",
        about: "A drive takes no notice of anything for a while, at random moments.",
        keys: &[
            DRIVE,
            ONSET,
            LENGTH,
            key("every", Kind::Time(1000, DAY_NS), "2s", "Mean distance."),
            key("pause", Kind::Time(1, 60_000_000_000), "100ms", "Length of each."),
        ],
        apply: firmware_hiccups,
    },
    FaultKind {
        name: "device_errors",
        about: "Commands of a drive fail now and then and are given again, as events tell.",
        keys: &[
            DRIVE,
            ONSET,
            LENGTH,
            key("probability", Kind::Percent, "1%", "Share of commands."),
            key(
                "retry",
                Kind::Time(0, 600_000_000_000),
                "10ms",
                "From the failure to the next attempt, which succeeds.",
            ),
        ],
        apply: device_errors,
    },
    FaultKind {
        name: "network_loss",
        about: "Messages are lost and sent again after a timeout.",
        keys: &[
            ONSET,
            LENGTH,
            key("probability", Kind::Percent, "1%", "Per message."),
        ],
        apply: network_loss,
    },
    FaultKind {
        name: "noisy_neighbour",
        about: "Somebody else uses the same volume or drive.",
        keys: &FAULT_KEYS,
        apply: noisy_neighbour,
    },
    FaultKind {
        name: "periodic_job",
        about: "A job reads or writes a lot at equal distances.",
        keys: &FAULT_KEYS,
        apply: periodic_job,
    },
    FaultKind {
        name: "checkpoint_storm",
        about: "A file system or database writes everything out at equal distances.",
        keys: &FAULT_KEYS,
        apply: checkpoint_storm,
    },
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
            plan.loads.push((name, pattern(section)));
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

fn slow_member(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let shape = match section.text("shape") {
        "tail" => Shape::Tail(section.real("probability")),
        "intermittent" => Shape::Intermittent {
            period_ns: section.whole("period"),
            on_ns: section.whole("active"),
        },
        _ => Shape::Constant,
    };
    let reads = match section.text("op") {
        "read" => Some(true),
        "write" => Some(false),
        _ => None,
    };
    let slow = Slow {
        from_ns,
        to_ns,
        shape,
        factor: section.real("factor"),
        add_ns: section.whole("add"),
        reads,
    };
    plan.slow.push((drive, slow));
    Ok(plan.device_culprit(drive))
}

fn slow_handler(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "interrupts")?;
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let interrupts = plan.scenario.section("interrupts");
    let (pool, max_vec) = (
        interrupts.whole("vectors") as usize,
        interrupts.whole("max_vec") as usize,
    );
    let own = (0..max_vec.min(pool)).map(|n| (drive * max_vec + n) % pool);
    let vectors: Vec<usize> = own.take(section.whole("queues") as usize).collect();
    let first = vectors.first().map_or(0, |vector| *vector as i16);
    plan.handlers.push(ForeignHandler {
        name: section.text("handler").into(),
        vectors,
        cost_ns: section.whole("cost"),
        one_at_a_time: section.flag("one_at_a_time"),
        rate_per_s: section.real("rate"),
        from_ns,
        to_ns,
    });
    let vector = crate::components::interrupts::FIRST_VECTOR + first;
    Ok(culprit("vector", &vector.to_string()))
}

fn wrong_affinity(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "interrupts")?;
    let file = plan.scenario.file.clone();
    let interrupts = plan.scenario.section_mut("interrupts");
    interrupts.set(&file, "affinity", &toml::Value::String("ignored".into()))?;
    let cpus = toml::Value::Integer(section.whole("cpus") as i64);
    interrupts.set(&file, "ignored_cpus", &cpus)?;
    Ok(culprit("vector", "cpu 0"))
}

fn submitter_stall(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let (from_ns, to_ns) = span(section);
    let worker = section.whole("worker");
    plan.stalls.push(Stall {
        worker: (worker != 65535).then_some(worker as usize),
        from_ns,
        to_ns,
        every_ns: section.whole("period"),
        length_ns: section.whole("stop"),
        irregular: section.flag("irregular"),
    });
    Ok(culprit("process", "submitter"))
}

fn runqueue_pressure(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let (from_ns, to_ns) = span(section);
    plan.pressure.push(Pressure {
        from_ns,
        to_ns,
        probability: section.real("probability"),
        wait_ns: section.whole("wait"),
    });
    Ok(culprit("stage", "runqueue"))
}

fn throttle(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let (from_ns, to_ns) = span(section);
    plan.limits.push(Limit {
        from_ns,
        to_ns,
        ops_per_s: section.whole("iops"),
        bytes_per_s: section.whole("bandwidth"),
    });
    Ok(culprit("stage", "throttle"))
}

fn cache_too_small(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "cache")?;
    let file = plan.scenario.file.clone();
    let cache = plan.scenario.section_mut("cache");
    let size = (cache.whole("size") as f64 * section.real("share")).max(65536.0) as u64;
    cache.set(&file, "size", &toml::Value::String(format!("{size}B")))?;
    Ok(culprit("cache_tier", "ram"))
}

fn prefetch_misfit(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "prefetch")?;
    let file = plan.scenario.file.clone();
    let chunk = toml::Value::String(format!("{}B", section.whole("chunk")));
    plan.scenario
        .section_mut("prefetch")
        .set(&file, "chunk", &chunk)?;
    Ok(culprit("request_shape", "prefetch"))
}

fn oversized_transaction(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "protocol")?;
    let file = plan.scenario.file.clone();
    let bytes = section.whole("size");
    let protocol = plan.scenario.section_mut("protocol");
    protocol.set(
        &file,
        "max_transaction",
        &toml::Value::String(format!("{bytes}B")),
    )?;
    protocol.set(&file, "internal_read", &toml::Value::String("max".into()))?;
    Ok(culprit("request_shape", &format!("read of {bytes} bytes")))
}

fn queue_stall(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let stall = QueueStall {
        cpu: (section.whole("cpu") != 65535).then_some(section.whole("cpu") as u16),
        cpus: plan.scenario.section("host").whole("cpus") as u16,
        from_ns,
        to_ns,
        every_ns: section.whole("period"),
        length_ns: section.whole("stall"),
    };
    plan.queue_stalls.push((drive, stall));
    Ok(culprit("stage", "queue"))
}

fn fragmentation(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let file = plan.scenario.file.clone();
    let piece = toml::Value::String(format!("{}B", section.whole("piece")));
    if plan.scenario.has("array") {
        plan.scenario
            .section_mut("array")
            .set(&file, "guest_piece", &piece)?;
        return Ok(culprit("layout", "fragmentation"));
    }
    plan.scenario.section_mut("server").set(&file, "piece", &piece)?;
    Ok(culprit("layout", "fragmentation"))
}

fn aged_layout(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "array")?;
    let file = plan.scenario.file.clone();
    let times = toml::Value::Float(section.real("overwritten"));
    plan.scenario
        .section_mut("array")
        .set(&file, "overwritten", &times)?;
    Ok(culprit("layout", "aged layout"))
}

fn fill_level(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    if plan.scenario.has("array") {
        let file = plan.scenario.file.clone();
        let full = toml::Value::String(format!("{}%", section.real("full") * 100.0));
        plan.scenario.section_mut("array").set(&file, "full", &full)?;
        return Ok(culprit("layout", "fill level"));
    }
    // New data go into holes: their size falls as the volume fills (half full: 1 MiB, 95 %: 64 KiB, 99 %: 16 KiB).
    let free = (1.0 - section.real("full")).max(0.001);
    let piece = ((free * 1.25 * (1 << 20) as f64) as u64 / 4096).clamp(1, 256) * 4096;
    let file = plan.scenario.file.clone();
    let piece = toml::Value::String(format!("{piece}B"));
    plan.scenario.section_mut("server").set(&file, "piece", &piece)?;
    Ok(culprit("layout", "fill level"))
}

fn garbage_collection(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    pauses(section, plan)
}

fn firmware_hiccups(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    pauses(section, plan)
}

fn pauses(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let pauses = Pauses {
        from_ns,
        to_ns,
        every_ns: section.whole("every"),
        length_ns: section.whole("pause"),
        periodic: false,
    };
    plan.pauses.push((drive, pauses));
    Ok(plan.device_culprit(drive))
}

fn device_errors(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    let drive = plan.drive(section)?;
    let (from_ns, to_ns) = span(section);
    let errors = Errors {
        from_ns,
        to_ns,
        probability: section.real("probability"),
        retry_ns: section.whole("retry"),
    };
    plan.errors.push((drive, errors));
    Ok(plan.device_culprit(drive))
}

fn network_loss(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    plan.need(section, "network")?;
    let (from_ns, to_ns) = span(section);
    plan.losses.push(Loss {
        from_ns,
        to_ns,
        probability: section.real("probability"),
    });
    Ok(culprit("host", "network"))
}

/// Reads the keys of a load.
pub fn pattern(section: &Section) -> Pattern {
    let drive = section.whole("drive");
    Pattern {
        comm: section.text("comm").into(),
        drive: (drive != 65535).then_some(drive as usize),
        rate_per_s: section.real("rate"),
        size_bytes: section.whole("size") as u32,
        read: section.real("read"),
        random: section.real("random"),
        depth: section.whole("depth") as usize,
        period_ns: section.whole("period"),
        active_ns: section.whole("active"),
        onset_ns: section.whole("onset"),
    }
}

fn other_load(section: &Section, plan: &mut Plan, kind: &'static str) -> Result<Culprit, LabError> {
    if section.whole("drive") != 65535 {
        plan.drive(section)?;
    }
    let pattern = pattern(section);
    let found = culprit(kind, &pattern.comm);
    plan.loads.push((section.name.replace('.', "-"), pattern));
    Ok(found)
}

fn noisy_neighbour(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    other_load(section, plan, "process")
}

fn periodic_job(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    other_load(section, plan, "process")
}

fn checkpoint_storm(section: &Section, plan: &mut Plan) -> Result<Culprit, LabError> {
    other_load(section, plan, "time_pattern")
}
