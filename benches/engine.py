"""Our engine and fio as arms of a benchmark: commands, results, CPU time per operation."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from common import ROOT, BenchError, Samples, run_measured

RELEASE = ROOT / "target" / "x86_64-unknown-linux-gnu" / "release"
WORK = ROOT / "target" / "bench"


@dataclass
class Arms:
    """Runs arms and keeps, per arm and round, operations per second and CPU microseconds per operation."""

    cpu_us_per_op: Samples = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def ours(self, name: str, spec: Path) -> float:
        """One run of `spec` with every operation logged; operations per second."""
        WORK.mkdir(parents=True, exist_ok=True)
        raw = Path(tempfile.mkdtemp(dir=WORK)) / "raw"
        try:
            done = run_measured(ours_command(spec, raw))
            summary = json.loads((raw / "app" / "workload.json").read_text(encoding="utf-8"))
            logged = sum(file.stat().st_size for file in (raw / "app").glob("*.arrows"))
        finally:
            shutil.rmtree(raw.parent)
        if summary["errors"]:
            raise BenchError(f"{spec}: {summary['errors']} operations failed: {summary['errors_by_errno']}")
        self.cpu_us_per_op.setdefault(name, []).append(done.cpu_s * 1e6 / summary["ops"])
        self.notes.append(
            f"{name}: {summary['ops']:,} operations logged in {logged / summary['ops']:.1f} bytes each, "
            f"stood still for the log {summary['log_stalls_ns'] / 1e9:.2f} s"
        )
        return float(summary["achieved_ops_per_s"])

    def fio(self, name: str, command: list[str]) -> float:
        """One run of fio; operations per second."""
        WORK.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=WORK))
        try:
            done = run_measured([part.replace("LOGS", str(folder / "log")) for part in command])
        finally:
            shutil.rmtree(folder)
        job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
        ops = job["read"]["total_ios"] + job["write"]["total_ios"]
        if job["error"] or not ops:
            raise BenchError(f"{name}: fio reports error {job['error']} after {ops} operations")
        self.cpu_us_per_op.setdefault(name, []).append(done.cpu_s * 1e6 / ops)
        return float(job["read"]["iops"] + job["write"]["iops"])


def ours_command(spec: Path, raw: Path) -> list[str]:
    """The engine by itself, in the process that `whodisk run` starts for it."""
    agent = Path(os.environ.get("WHODISK_AGENT", RELEASE / "whodisk-agent"))
    if not agent.exists():
        raise BenchError(f"{agent} is not built: run `make build`")
    return [str(agent), "workload", str(spec), "--raw", str(raw)]


def fio_command(seconds: int, *more: str) -> list[str]:
    """fio's side of 4 KiB, 60 % read, depth 64, one thread."""
    common = "--name=bench --rw=randrw --rwmixread=60 --bs=4k --iodepth=64 --thread --time_based"
    lean = "--norandommap --group_reporting --output-format=json"
    return ["fio", *common.split(), *lean.split(), f"--runtime={seconds}", *more]


def write_spec(name: str, body: str) -> Path:
    """A specification in the benchmark's folder."""
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / name
    path.write_text(f"[workload]\n{body}\n", encoding="utf-8")
    return path


def one_line(spec: Path) -> str:
    """A specification as it is shown beside its result."""
    return "; ".join(spec.read_text(encoding="utf-8").splitlines()[1:])
