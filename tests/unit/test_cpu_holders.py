"""Who had the CPU: a process, however many names its threads have, or a crowd of programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.findings import Finding
from whodisk.verdict.solve import solve

OPERATIONS, US, MS = 2000, 1_000, 1_000_000
OWN_PID, JAVA = 4300, 77


def first_finding(path: Path, holders: list[tuple[str, int]], processes: dict[str, str]) -> Finding:
    """One thread that syncs, and waits for a CPU for 3 ms in three of ten syncs; `holders`, (thread's name, process), have it by turns."""
    rng = np.random.default_rng(41)
    waited = rng.random(OPERATIONS) < 0.3
    wait_ns = np.where(waited, 3 * MS * rng.uniform(0.8, 1.2, OPERATIONS), 0).astype(np.int64)
    device_ns = (1 * MS * np.exp(rng.normal(0, 0.15, OPERATIONS))).astype(np.int64)
    latency = device_ns + wait_ns
    start = np.cumsum(latency + 50 * US) - latency
    waits = [
        {
            "tid": OWN_PID,
            "pid": OWN_PID,
            "comm": "db",
            "cpu": 0,
            "start_ns": int(start[at] + 10 * US),
            "duration_ns": int(wait_ns[at]),
            "state": "runnable",
            "cause": holders[number % len(holders)][0],
            "cause_pid": holders[number % len(holders)][1],
        }
        for number, at in enumerate(np.flatnonzero(waited))
    ]
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(OPERATIONS),
        "start_ns": start,
        "latency_ns": latency,
        "op": "sync",
        "device": "nvme0n1",
        "tid": OWN_PID,
        "pid": OWN_PID,
        "comm": "db",
        "device_ns": device_ns,
        "runqueue_ns": wait_ns,
        **dict.fromkeys(("fs_ns", "queue_ns", "interrupt_ns"), 0),
    }
    meta = {"observer": "record", "command": ["db"], "duration_ns": int(start[-1] + 10 * MS)}
    case = write_case(
        path, syscall=syscall, tables={"waits": waits}, meta=meta, system={"processes": processes}
    )
    verdict = solve(case)
    assert verdict.status == "slow", verdict.summary
    return verdict.findings[0]


def test_threads_of_a_process_count_together(tmp_path: Path) -> None:
    threads = [(f"GC Thread#{number}", JAVA) for number in range(6)]
    told = first_finding(tmp_path / "told.case", threads, {str(JAVA): "java"})
    assert (told.culprit.kind, told.culprit.name) == ("process", "java"), told.claim
    assert "java ran in 100 % of that time" in told.claim or "java had the CPU" in told.claim, told.claim
    untold = first_finding(tmp_path / "untold.case", threads, {})
    assert untold.culprit.kind == "process" and untold.culprit.name.startswith("GC Thread#"), untold.claim


def test_a_crowd_is_told_by_its_programs(tmp_path: Path) -> None:
    programs = [(f"job-{letter}", 80 + number) for number, letter in enumerate("abcdef")]
    found = first_finding(tmp_path / "x.case", programs, {})
    assert (found.culprit.kind, found.culprit.name) == ("stage", "runqueue")
    assert "several programs ran meanwhile, none of them most of the time: job-" in found.claim, found.claim
    assert "and 3 more" in found.claim and found.remedy.startswith("More wants to run"), found.remedy
