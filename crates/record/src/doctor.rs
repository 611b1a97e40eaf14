//! What this host lets us observe.
use crate::block;
use crate::host;
use aya::Btf;

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
    let mut checks = vec![privileges(), lockdown()];
    match Btf::from_sys_fs() {
        Ok(btf) => {
            checks.push(check(
                "kernel type information",
                Verdict::Yes,
                "/sys/kernel/btf/vmlinux",
            ));
            checks.extend(tracepoints(&btf));
        }
        Err(error) => {
            let detail = format!("{error}; use a kernel built with CONFIG_DEBUG_INFO_BTF");
            checks.push(check("kernel type information", Verdict::No, &detail));
        }
    }
    checks.push(exact_join());
    checks
}

fn check(what: &str, verdict: Verdict, detail: &str) -> Check {
    Check {
        what: what.into(),
        verdict,
        detail: detail.into(),
    }
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

fn tracepoints(btf: &Btf) -> Vec<Check> {
    let old_kernel = !block::has_tracepoint(btf, "block_io_start");
    block::HOOKS
        .iter()
        .filter(|(name, _)| match *name {
            "block_io_start" => !old_kernel,
            "block_getrq" => old_kernel,
            _ => true,
        })
        .map(|(name, need)| {
            let what = format!("tracepoint {name}");
            match (block::has_tracepoint(btf, name), need) {
                (true, _) => check(&what, Verdict::Yes, "exists"),
                (false, block::Need::Must) => check(
                    &what,
                    Verdict::No,
                    "missing; whodisk is made for Linux 6.1 and later",
                ),
                (false, block::Need::Fact(fact)) => {
                    check(&what, Verdict::Partly, &format!("missing: no {fact}"))
                }
                (false, block::Need::InsteadOfStart) => check(
                    &what,
                    Verdict::Partly,
                    "missing: nobody knows who submitted a request",
                ),
            }
        })
        .collect()
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
