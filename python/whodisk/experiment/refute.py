"""The first finding's refutation as an experiment: the suspect taken away by setting something, and nothing else changed.

A new way to refute is a function and a line of `RECIPES`. The finding says in its own words what needs hands (another drive, a patch).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whodisk import words
from whodisk.errors import WhodiskError
from whodisk.findings import Finding, Verdict
from whodisk.reading.views import Case

#: Rounds.
REPETITIONS = 3
AS_FOUND = "as found"
#: At most this many processes of one name are stopped.
STOPPED_MAX = 4
CGROUP_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Refutation:
    """What is done to show a finding wrong."""

    finding: Finding
    #: Name of the arm, which says what is taken away.
    name: str
    #: What is different in it.
    changed: dict[str, Any]
    #: What both arms share: the load.
    common: dict[str, Any]
    #: What will be touched, in words.
    touches: list[str]
    #: Devices made for it.
    slowdisks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def table(self) -> dict[str, Any]:
        """As an experiment file."""
        return {
            "experiment": {
                "name": "refute",
                "about": f"Would show wrong: {self.finding.claim}",
                "repetitions": REPETITIONS,
                "baseline": AS_FOUND,
            },
            "common": self.common,
            "arm": {AS_FOUND: {}, self.name: self.changed},
            **({"slowdisk": self.slowdisks} if self.slowdisks else {}),
        }


def refutation(case: Case, verdict: Verdict) -> Refutation:
    """How to refute the first finding. Raises WhodiskError if there is none, or if it cannot be done by setting something here."""
    if not verdict.findings:
        raise WhodiskError(
            f"{case.path}: expected a finding to refute, found a verdict '{verdict.status}' without any"
        )
    finding = verdict.findings[0]
    load = load_of(case)
    for recipe in RECIPES:
        found = recipe(case, finding, load)
        if found is not None:
            return found
    raise WhodiskError(
        f"{case.path}: expected a finding that a setting refutes, found '{finding.culprit.kind} {finding.culprit.name}'; by hand: {finding.refute}"
    )


def load_of(case: Case) -> dict[str, Any]:
    """The load of a case, to be run again. Raises WhodiskError if it is not known."""
    spec = (case.meta.get("workload") or {}).get("spec") if case.meta.get("observer") == "run" else None
    if isinstance(spec, dict):
        return {"workload": workload_of(spec)}
    command = case.meta.get("command")
    if case.meta.get("observer") == "record" and isinstance(command, list) and command:
        return {"command": command}
    raise WhodiskError(
        f"{case.path}: expected the case of a command or of an access specification, which can be run again, found a case of "
        f"'{case.meta.get('observer')}'; for a case of the lab, see whodisk whatif"
    )


def workload_of(spec: dict[str, Any]) -> dict[str, Any]:
    """An access specification out of what a case keeps of it (base units)."""
    paths = spec["targets"].get("paths") if isinstance(spec["targets"], dict) else None
    table: dict[str, Any] = {
        "targets": paths or ["null"],
        "block_sizes": {f"{block['size_bytes']}B": _percent(block["share_ppm"]) for block in spec["blocks"]},
        "read": _percent(spec["read_ppm"]),
        "random": _percent(spec["random_ppm"]),
        "io": "direct" if spec["direct"] else "buffered",
        "align": f"{spec['align_bytes']}B",
    }
    table |= {
        key: spec[key] for key in ("allow_overwrite", "queue_depth", "workers", "seed", "sequential_run_ops")
    }
    if spec["sync_every_writes"]:
        table["sync_every_writes"] = spec["sync_every_writes"]
    if spec["sync_every_writes"] or str(spec["sync_kind"]).startswith("o_"):
        table["sync_kind"] = spec["sync_kind"]
    for key, name, unit in (
        ("file_size_bytes", "file_size", "B"),
        ("ramp_ns", "ramp", "ns"),
        ("duration_ns", "duration", "ns"),
    ):
        if spec.get(key) is not None:
            table[name] = f"{spec[key]}{unit}"
    if spec.get("operations") is not None:
        table["operations"] = spec["operations"]
    if spec.get("rate_per_s") is not None:
        table |= {"rate": f"{spec['rate_per_s']:g}/s", "arrival": spec["arrival"]}
    return table


def _percent(ppm: int) -> str:
    return f"{ppm / 10_000:g}%"


# -- recipes ----------------------------------------------------------------------------------


def _readahead(_case: Case, finding: Finding, load: dict[str, Any]) -> Refutation | None:
    """Readahead that is too small: a larger one."""
    match = re.fullmatch(r"read_ahead_kb of (\S+)", finding.culprit.name)
    if not match:
        return None
    said = f"read_ahead_kb of {match[1]} is set to 1024 for every second run"
    return Refutation(
        finding, "read_ahead_kb 1024", {"set": {match[1]: {"read_ahead_kb": 1024}}}, load, [said]
    )


def _limit(case: Case, finding: Finding, load: dict[str, Any]) -> Refutation | None:
    """A limit of a control group: lifted; both arms run in that group."""
    if finding.culprit.kind != "config" or "limit of" not in finding.culprit.name:
        return None
    rows = case.rows(
        "SELECT cgroup, count(*) AS n FROM judged WHERE cgroup IS NOT NULL AND cgroup <> '/' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1"
    )
    group = str(rows[0]["cgroup"]) if rows else ""
    lifted = lifted_limits(group, cpu=finding.culprit.name.startswith("CPU"))
    if not lifted:
        return None
    folder = Path(next(iter(lifted))).parent
    said = [f"{path} = {value} for every second run" for path, value in lifted.items()]
    return Refutation(finding, "limit lifted", {"set": lifted}, {**load, "cgroup": str(folder)}, said)


def lifted_limits(group: str, *, cpu: bool, root: Path = CGROUP_ROOT) -> dict[str, str]:
    """Files of a control group that hold a limit, and what lifts it (both versions of control groups)."""
    if not group.strip("/"):
        return {}
    found: dict[str, str] = {}
    folders = [
        root / group.strip("/"),
        *(root / name / group.strip("/") for name in ("blkio", "cpu", "cpu,cpuacct")),
    ]
    for folder in (folder for folder in folders if folder.is_dir()):
        for name, lift in (CPU_LIMITS if cpu else IO_LIMITS).items():
            path = folder / name
            now = path.read_text(encoding="ascii").strip() if path.is_file() else ""
            if now and now.split()[0] not in ("max", "-1"):
                found[str(path)] = "\n".join(lift(line) for line in now.splitlines())
    return found


CPU_LIMITS: dict[str, Callable[[str], str]] = {
    "cpu.max": lambda line: f"max {line.split()[1]}",
    "cpu.cfs_quota_us": lambda _: "-1",
}
IO_LIMITS: dict[str, Callable[[str], str]] = {
    "io.max": lambda line: f"{line.split()[0]} rbps=max wbps=max riops=max wiops=max",
    **{
        f"blkio.throttle.{kind}_{unit}_device": lambda line: f"{line.split()[0]} 0"
        for kind in ("read", "write")
        for unit in ("iops", "bps")
    },
}


def _neighbour(_case: Case, finding: Finding, load: dict[str, Any]) -> Refutation | None:
    """Another program: stopped while the load runs, and continued."""
    if finding.culprit.kind != "process" or (finding.culprit.because_of or "").startswith("silence"):
        return None
    pids = processes(finding.culprit.name)
    if not pids:
        raise WhodiskError(
            f"expected {finding.culprit.name} to run, so that it can be stopped for a while, found no such process; by hand: {finding.refute}"
        )
    if len(pids) > STOPPED_MAX:
        raise WhodiskError(
            f"expected at most {STOPPED_MAX} processes named {finding.culprit.name} to stop for a while, found {len(pids)}: not all of them "
            f"can be meant; by hand: {finding.refute}"
        )
    numbers = " ".join(map(str, pids))
    changed = {"setup": f"kill -STOP {numbers}", "teardown": f"kill -CONT {numbers}"}
    said = f"{finding.culprit.name} ({words.listed([f'process {pid}' for pid in pids])}) is stopped during every second run"
    return Refutation(finding, f"{_plain(finding.culprit.name)} stopped", changed, load, [said])


def processes(comm: str) -> list[int]:
    """Processes of this name that are no threads of the kernel, none that this one descends from, and not the first."""
    listed = subprocess.run(
        ["pgrep", "-x", re.escape(comm)], capture_output=True, text=True, check=False
    ).stdout
    kept = {1, os.getpid(), *_ancestors()}
    return [int(pid) for pid in listed.split() if int(pid) not in kept and _is_program(int(pid))]


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    while pid > 1:
        yield pid
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        pid = int(text.rpartition(")")[2].split()[1])


def _is_program(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def _elsewhere(case: Case, finding: Finding, load: dict[str, Any]) -> Refutation | None:
    """A device: the same load on a slow disk without a fault, in memory. If the finding stays, the device is not its cause."""
    is_device = finding.culprit.kind == "device" or (finding.culprit.because_of or "").startswith("device:")
    workload = load.get("workload")
    targets = (case.meta.get("workload") or {}).get("targets") or []
    if not is_device or not workload or len(targets) != 1 or targets[0].get("name") == "null":
        return None
    size_bytes = max(1 << 20, -(-int(targets[0]["size_bytes"]) // 4096) * 4096)
    if size_bytes > 4 << 30:
        return None
    typical = max(10, round(_typical_us(case)))
    changed = {"workload": {"targets": ["{elsewhere}"], "allow_overwrite": True}}
    disks = {"elsewhere": {"size": f"{size_bytes}B", "latency": f"{typical}us"}}
    said = f"every second run uses a device in memory ({words.size(size_bytes)}, {typical} us per request) instead of {targets[0]['name']}"
    return Refutation(finding, "elsewhere", changed, load, [said], disks)


def _typical_us(case: Case) -> float:
    rows = case.rows("SELECT median(device_ns) AS ns FROM measured WHERE device_ns > 0")
    return float(rows[0]["ns"] or 0) / 1e3


def _plain(name: str) -> str:
    return re.sub(r"[^\w.\-]", "_", name)


RECIPES: tuple[Callable[[Case, Finding, dict[str, Any]], Refutation | None], ...] = (
    _readahead,
    _limit,
    _neighbour,
    _elsewhere,
)


# -- what came out ----------------------------------------------------------------------------


def is_same(first: Finding, other: Finding) -> bool:
    """Whether two findings accuse the same, on whichever device."""
    one, two = first.culprit, other.culprit
    strip = re.compile(r"\b(loop|sd|vd|nvme)\w+")
    return (one.kind, strip.sub("", one.name)) == (two.kind, strip.sub("", two.name))


def conclusion(finding: Finding, counts: dict[str, tuple[int, int]]) -> str:
    """What the runs say of the diagnosis; `counts`: arm -> (runs with the finding, runs)."""
    (there, runs), (left, others) = counts[AS_FOUND], next(v for k, v in counts.items() if k != AS_FOUND)
    other = next(k for k in counts if k != AS_FOUND)
    seen = f"found again in {there} of {words.things(runs, 'run')} as found, and in {left} of {others} with: {other}"
    if runs == 0 or others == 0:
        return f"Nothing can be said: {seen}."
    if there * 2 <= runs:
        return f"Not reproduced, so neither refuted nor confirmed: {seen}."
    if left * 2 <= others:
        return f"The diagnosis stands: {seen}. Without the suspect it is gone."
    return f"The diagnosis moved: {seen}. It is there without the suspect, too: something else causes it."
