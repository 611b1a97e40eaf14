"""A few stalls of a device stand apart although many operations wait for a CPU, some for as long as a tail goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

OPERATIONS, THREADS, US, MS = 8_000, 4, 1_000, 1_000_000
PID = 900


def crowded(path: Path, seed: int, stalls: int, stall_ms: int = 90) -> Path:
    """Four threads that read on two CPUs: one read in twelve waits for a CPU, typically 1 ms, now and then ten times as long. The device holds a few."""
    rng = np.random.default_rng([seed, 41])
    tid = PID + np.arange(OPERATIONS) % THREADS
    device_ns = (300 * US * np.exp(rng.normal(0, 0.25, OPERATIONS))).astype(np.int64)
    waited = rng.random(OPERATIONS) < 1 / 12
    wait_ns = np.where(waited, 1 * MS * np.exp(rng.normal(0, 0.9, OPERATIONS)), 0).astype(np.int64)
    held = np.linspace(800, OPERATIONS - 800, stalls).astype(int) if stalls else np.zeros(0, int)
    device_ns[held] += (stall_ms * MS * rng.uniform(0.98, 1.02, len(held))).astype(np.int64)
    latency = device_ns + wait_ns + 15 * US
    begin = np.zeros(OPERATIONS, np.int64)
    for thread in range(THREADS):
        mine = np.flatnonzero(tid == PID + thread)
        begin[mine] = np.cumsum(latency[mine] + 40 * US) - latency[mine]
    waits = [
        {
            "tid": int(tid[number]),
            "pid": PID,
            "comm": "reader",
            "cpu": 0,
            "start_ns": int(begin[number] + 5 * US),
            "duration_ns": int(wait_ns[number]),
            "state": "runnable",
            "cause": "reader",
            "cause_pid": PID,
        }
        for number in np.flatnonzero(wait_ns)
    ]
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(OPERATIONS),
        "start_ns": begin,
        "latency_ns": latency,
        "op": "read",
        "size_bytes": 4096,
        "device": "nvme0n1",
        "file": "/data/table",
        "tid": tid,
        "pid": PID,
        "comm": "reader",
        "app_ns": 0,
        "fs_ns": 15 * US,
        "queue_ns": 0,
        "device_ns": device_ns,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": wait_ns,
    }
    meta = {"duration_ns": int((begin + latency).max()) + MS, "command": ["reader"]}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_few_stalls_of_the_device_are_told(tmp_path: Path, seed: int) -> None:
    verdict = solve(crowded(tmp_path / "case", seed, stalls=2))
    assert [(f.culprit.kind, f.culprit.name) for f in verdict.findings] == [("stage", "device")], (
        verdict.summary
    )
    assert "2 reads took" in verdict.findings[0].claim, verdict.findings[0].claim
    assert "apart from waiting for a CPU" in verdict.findings[0].claim, verdict.findings[0].claim


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_waits_for_a_cpu_alone_make_no_outlier(tmp_path: Path, seed: int) -> None:
    verdict = solve(crowded(tmp_path / "case", seed, stalls=0))
    assert not verdict.findings, verdict.summary
