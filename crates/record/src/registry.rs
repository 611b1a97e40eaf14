//! The probes. A new one is a folder and a line here; what it provides is then no longer reported as unseen.
use crate::error::RecordError;
use crate::facts::{self, Fact};
use crate::kernel::{Kernel, Numbers};
use crate::load::Context;
use crate::probe::{Hooks, Probe};
use crate::{block, cache, doctor, irq, nvme, sampler, sched, stack, syscall, writeback};
use case::meta::Unseen;

/// A probe that may be attached.
pub struct Entry {
    /// Its name: folder, `--probe` argument, key in `case.json`.
    pub name: &'static str,
    /// What is known when it is attached.
    pub provides: &'static [&'static Fact],
    /// The recording is refused where it cannot be attached; for any other it goes on and says what is missing.
    pub vital: bool,
    /// Tracepoints that it uses.
    pub hooks: Hooks,
    /// What it takes for granted of the kernel's numbers.
    pub numbers: Numbers,
    /// Loads and attaches it.
    pub attach: fn(&Context<'_>) -> Result<Box<dyn Probe>, RecordError>,
}

impl Entry {
    /// Whether the running kernel's numbers are those that it takes for granted; the error names what is not.
    pub fn numbers_known(&self) -> Result<(), String> {
        let Numbers {
            enumerators,
            macros,
            fields,
            ..
        } = &self.numbers;
        if enumerators.is_empty() && macros.is_empty() && fields.is_empty() {
            return Ok(());
        }
        Kernel::running()?.checked(&self.numbers)
    }

    fn attached(&self, context: &Context<'_>) -> Result<Box<dyn Probe>, RecordError> {
        self.numbers_known().map_err(|found| RecordError::Numbers {
            probe: self.name,
            found,
        })?;
        (self.attach)(context)
    }

    /// What it leaves out on this kernel.
    fn left_out(&self) -> Vec<Unseen> {
        let left_out = Kernel::running().map(|kernel| kernel.left_out(&self.numbers));
        let told = left_out.unwrap_or_default().into_iter();
        told.map(|(what, because)| Unseen {
            what: what.into(),
            because,
        })
        .collect()
    }
}

/// All probes, in the order of attaching.
pub const REGISTRY: &[Entry] = &[
    Entry {
        name: "block",
        provides: &[&facts::BLOCK_REQUESTS],
        vital: true,
        hooks: block::HOOKS,
        numbers: Numbers::OF_REQUESTS,
        attach: block::attach,
    },
    Entry {
        name: "stack",
        provides: &[&facts::STACKED_BIOS],
        vital: false,
        hooks: stack::HOOKS,
        numbers: Numbers::OF_BIOS,
        attach: stack::attach,
    },
    Entry {
        name: "syscall",
        // When an operation began; the block probe sees that its bio was queued by the controller's worker.
        provides: &[&facts::SYSCALLS, &facts::CONTROLLERS],
        vital: false,
        hooks: syscall::HOOKS,
        numbers: Numbers::OF_CALLS,
        attach: syscall::attach,
    },
    Entry {
        name: "cache",
        provides: &[&facts::PAGE_CACHE],
        vital: false,
        hooks: cache::HOOKS,
        numbers: Numbers::OF_PAGES,
        attach: cache::attach,
    },
    Entry {
        name: "writeback",
        provides: &[&facts::WRITEBACK],
        vital: false,
        hooks: writeback::HOOKS,
        numbers: Numbers::OF_WRITEBACK,
        attach: writeback::attach,
    },
    Entry {
        name: "sched",
        provides: &[&facts::RUN_QUEUE, &facts::WRITEBACK_THROTTLING],
        vital: false,
        hooks: sched::HOOKS,
        numbers: Numbers::OF_THREADS,
        attach: sched::attach,
    },
    Entry {
        name: "irq",
        provides: &[&facts::HANDLERS],
        vital: false,
        hooks: irq::HOOKS,
        numbers: Numbers::OF_SOFTIRQS,
        attach: irq::attach,
    },
    Entry {
        name: "nvme",
        provides: &[&facts::NVME_COMMANDS],
        vital: false,
        hooks: &[],
        numbers: Numbers::NONE,
        attach: nvme::attach,
    },
    Entry {
        name: "sampler",
        provides: &[&facts::STEAL],
        vital: false,
        hooks: &[],
        numbers: Numbers::NONE,
        attach: sampler::attach,
    },
];

/// Names of all probes.
pub fn names() -> Vec<&'static str> {
    REGISTRY.iter().map(|entry| entry.name).collect()
}

/// The probes that were asked for, attached where this host allows it.
pub struct Attached {
    /// Name and probe.
    pub probes: Vec<(&'static str, Box<dyn Probe>)>,
    /// Facts that will be missing, and why.
    pub unseen: Vec<Unseen>,
}

/// Attaches what the configuration asks for. Errors: an unknown name; a vital probe that cannot be attached.
pub fn attach(context: &Context<'_>) -> Result<Attached, RecordError> {
    if let Some(wanted) = &context.config.probes {
        check_names(wanted)?;
    }
    let mut probes = Vec::new();
    let mut failures = Vec::new();
    for entry in REGISTRY {
        if !context.config.wants(entry.name) {
            failures.push((
                entry,
                format!("the recording was asked for without probe {}", entry.name),
            ));
            continue;
        }
        match entry.attached(context) {
            Ok(probe) => probes.push((entry.name, probe)),
            Err(error) if entry.vital => return Err(error),
            Err(error) => failures.push((entry, doctor::shortened(&error.to_string()))),
        }
    }
    let mut unseen: Vec<Unseen> = probes
        .iter()
        .flat_map(|(_, probe)| probe.unseen().iter().cloned())
        .collect();
    let attached: Vec<&str> = probes.iter().map(|(name, _)| *name).collect();
    let entries = REGISTRY.iter().filter(|entry| attached.contains(&entry.name));
    unseen.extend(entries.flat_map(Entry::left_out));
    unseen.extend(missing_facts(&attached, &failures));
    Ok(Attached { probes, unseen })
}

/// What a recording without any probe does not see.
pub fn all_unseen(because: &str) -> Vec<Unseen> {
    let failures: Vec<(&Entry, String)> = REGISTRY
        .iter()
        .map(|entry| (entry, because.to_string()))
        .collect();
    missing_facts(&[], &failures)
}

fn check_names(wanted: &[String]) -> Result<(), RecordError> {
    let known = names();
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(RecordError::Setting {
            name: "probes",
            expected: format!("names out of {}", known.join(", ")),
            found: format!("'{unknown}'"),
        }),
    }
}

fn missing_facts(attached: &[&str], failures: &[(&Entry, String)]) -> Vec<Unseen> {
    let provided = |fact: &Fact| {
        let mut entries = REGISTRY.iter().filter(|entry| attached.contains(&entry.name));
        entries.any(|entry| entry.provides.contains(&fact))
    };
    let because = |fact: &Fact| {
        let failed = failures.iter().find(|(entry, _)| entry.provides.contains(&fact));
        match failed {
            Some((_, cause)) => format!("{cause}; {}", fact.consequence),
            None => format!(
                "this version of whodisk has no probe for it; {}",
                fact.consequence
            ),
        }
    };
    let missing = facts::ALL.iter().filter(|fact| !provided(fact));
    missing
        .map(|fact| Unseen {
            what: fact.what.into(),
            because: because(fact),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_provided_facts_are_listed() {
        let mut known = names();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), REGISTRY.len());
        for entry in REGISTRY {
            for fact in entry.provides {
                assert!(facts::ALL.contains(fact), "{}: {}", entry.name, fact.what);
            }
        }
    }

    #[test]
    fn a_fact_is_missing_until_its_probe_is_attached() {
        let of_block = |unseen: &[Unseen]| unseen.iter().any(|u| u.what == facts::BLOCK_REQUESTS.what);
        assert!(of_block(&all_unseen("no privileges")));
        assert!(!of_block(&missing_facts(&["block"], &[])));
        let reason = &all_unseen("no privileges")[0].because;
        assert!(reason.contains("; "), "{reason}");
    }

    #[test]
    fn an_unknown_probe_is_named() {
        let error = check_names(&["block".into(), "blick".into()]).unwrap_err();
        assert!(error.to_string().contains("'blick'"), "{error}");
    }
}
