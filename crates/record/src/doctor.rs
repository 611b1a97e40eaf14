//! What this host lets us observe.
use crate::load::has_tracepoint;
use crate::probe::Need;
use crate::registry::{Entry, REGISTRY};
use crate::{block, host, kernel, nvme, stack, writeback};
use aya::Btf;
use std::collections::BTreeSet;

/// Name of the check whether this kernel is supported at all.
pub const KERNEL: &str = "kernel";

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Works.
    Yes,
    /// Recording works, but a fact will be missing.
    Partly,
    /// Recording block requests does not work.
    No,
}

/// One thing that recording needs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// What was looked at.
    pub what: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found, and what to do about it.
    pub detail: String,
}

/// Looks at everything that recording block requests needs; attaches nothing.
pub fn doctor() -> Vec<Check> {
    let mut checks = vec![kernel_supported(), privileges(), lockdown()];
    match Btf::from_sys_fs() {
        Ok(btf) => {
            checks.push(check(
                "kernel type information",
                Verdict::Yes,
                "/sys/kernel/btf/vmlinux",
            ));
            checks.extend(tracepoints(&btf));
            checks.extend(REGISTRY.iter().filter_map(numbers));
        }
        Err(error) => {
            let detail = format!("{error}; use a kernel built with CONFIG_DEBUG_INFO_BTF");
            checks.push(check("kernel type information", Verdict::No, &detail));
        }
    }
    checks.push(exact_join());
    checks.push(volumes());
    checks.push(nvme_commands());
    checks
}

fn check(what: &str, verdict: Verdict, detail: &str) -> Check {
    Check {
        what: what.into(),
        verdict,
        detail: detail.into(),
    }
}

fn kernel_supported() -> Check {
    let release = kernel::release();
    match kernel::unsupported(&release) {
        Some(because) => check(KERNEL, Verdict::No, &because),
        None => check(KERNEL, Verdict::Yes, &format!("Linux {release}")),
    }
}

/// Only where some are not known.
fn numbers(entry: &Entry) -> Option<Check> {
    let found = entry.numbers_known().err()?;
    let what = format!("numbers of the kernel for probe {}", entry.name);
    let verdict = if entry.vital { Verdict::No } else { Verdict::Partly };
    Some(check(
        &what,
        verdict,
        &format!("probe {} cannot be used: {found}", entry.name),
    ))
}

fn privileges() -> Check {
    match host::may_load_tracing() {
        Ok(found) => check("privileges", Verdict::Yes, &found),
        Err(found) => {
            let hint = "recording block requests needs root, or CAP_BPF and CAP_PERFMON";
            check("privileges", Verdict::No, &format!("{hint}: {found}"))
        }
    }
}

fn lockdown() -> Check {
    if host::locked_down() {
        return check("kernel lockdown", Verdict::No, "confidentiality forbids tracing");
    }
    check("kernel lockdown", Verdict::Yes, "does not forbid tracing")
}

/// Every tracepoint that some probe uses, once: the first probe that wants it speaks for all.
fn tracepoints(btf: &Btf) -> Vec<Check> {
    let old_kernel = !has_tracepoint(btf, "block_io_start");
    let mut seen = BTreeSet::new();
    let mut checks = Vec::new();
    for entry in REGISTRY {
        for (name, need) in entry.hooks {
            let wanted = match *name {
                "block_io_start" => !old_kernel,
                "block_getrq" => old_kernel,
                _ => true,
            };
            if wanted && seen.insert(*name) {
                checks.push(tracepoint(btf, entry, name, *need));
            }
        }
    }
    checks
}

fn tracepoint(btf: &Btf, entry: &Entry, name: &str, need: Need) -> Check {
    let what = format!("tracepoint {name}");
    if has_tracepoint(btf, name) {
        return check(&what, Verdict::Yes, "exists");
    }
    if writeback::is_of_module(btf, name) {
        return match writeback::visible(name) {
            Ok(detail) => check(&what, Verdict::Yes, &detail),
            Err(detail) => check(&what, Verdict::Partly, &detail),
        };
    }
    match need {
        Need::Must if entry.vital => {
            let detail = "missing; whodisk is made for Linux 6.1 and later";
            check(&what, Verdict::No, detail)
        }
        Need::Must => {
            let detail = format!("missing: probe {} cannot be used", entry.name);
            check(&what, Verdict::Partly, &detail)
        }
        Need::Fact(fact) => check(&what, Verdict::Partly, &format!("missing: no {fact}")),
        Need::Alternative => check(&what, Verdict::Yes, "missing; another one takes its place"),
    }
}

fn nvme_commands() -> Check {
    let (verdict, detail) = match nvme::visible() {
        Ok(detail) => (Verdict::Yes, detail),
        Err(detail) => (Verdict::Partly, detail),
    };
    check("commands to NVMe controllers", verdict, &detail)
}

fn volumes() -> Check {
    let found = stack::volumes();
    let detail = match found.is_empty() {
        true => "none is there; the probe stack begins when one appears".into(),
        false => format!("bios of {} are recorded", found.join(", ")),
    };
    check("volumes (dm, md)", Verdict::Yes, &detail)
}

fn exact_join() -> Check {
    let what = "exact join of our own operations to block requests";
    let (wanted, found) = block::join_symbols();
    match block::join_obstacle(&found) {
        Some(obstacle) => check(what, Verdict::Partly, &obstacle),
        None => {
            let detail = format!("{} of {} kernel functions found", found.len(), wanted.len());
            check(what, Verdict::Yes, &detail)
        }
    }
}

/// The kernel's verifier may explain itself at the length of a book; the first and the last words say the most.
pub fn shortened(text: &str) -> String {
    const KEEP: usize = 300;
    let characters: Vec<char> = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if characters.len() <= 2 * KEEP {
        return characters.into_iter().collect();
    }
    let head: String = characters[..KEEP].iter().collect();
    let tail: String = characters[characters.len() - KEEP..].iter().collect();
    format!("{head} [...] {tail}")
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn long_messages_keep_both_ends() {
        assert_eq!(shortened("short\nlines"), "short lines");
        let text = shortened(&format!("begin {} end", "x".repeat(10_000)));
        assert!(
            text.len() < 700 && text.starts_with("begin") && text.ends_with("end"),
            "{text}"
        );
    }
}
