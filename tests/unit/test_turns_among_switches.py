"""A program that takes the CPU for a few milliseconds at a time is named, although thousands of short waits are for whoever serves the device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

OPERATIONS, US, MS = 5_000, 1_000, 1_000_000
PID = 900


def committing(path: Path, seed: int, rivals: tuple[str, ...], part: float = 0.015) -> Path:
    """One thread syncs, 1 ms each, and waits 40 us for a CPU in each: a worker of the kernel has it. In a few syncs another program has it for 3 to 6 ms."""
    rng = np.random.default_rng([seed, 67])
    device_ns = (800 * US * np.exp(rng.normal(0, 0.2, OPERATIONS))).astype(np.int64)
    turn = rng.random(OPERATIONS) < part
    short_ns = np.full(OPERATIONS, 40 * US)
    turn_ns = np.where(turn, rng.integers(3 * MS, 6 * MS, OPERATIONS), 0)
    latency = device_ns + short_ns + turn_ns + 60 * US
    begin = np.cumsum(latency + 100 * US) - latency
    row = {"tid": PID, "pid": PID, "comm": "sqlite", "cpu": 0, "state": "runnable"}
    waits = [
        {
            **row,
            "start_ns": int(begin[at]) + 10 * US,
            "duration_ns": 40 * US,
            "cause": "kworker/u8:3",
            "cause_pid": 33,
        }
        for at in range(OPERATIONS)
    ]
    waits += [
        {
            **row,
            "start_ns": int(begin[at]) + 60 * US,
            "duration_ns": int(turn_ns[at]),
            "cause": rivals[place % len(rivals)],
            "cause_pid": 700 + place % len(rivals),
        }
        for place, at in enumerate(np.flatnonzero(turn))
    ]
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(OPERATIONS),
        "start_ns": begin,
        "latency_ns": latency,
        "op": "sync",
        "size_bytes": 0,
        "device": "nvme0n1",
        "tid": PID,
        "pid": PID,
        "comm": "sqlite",
        "app_ns": 0,
        "fs_ns": 60 * US,
        "queue_ns": 0,
        "device_ns": device_ns,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": short_ns + turn_ns,
    }
    waits.sort(key=lambda wait: int(str(wait["start_ns"])))
    meta = {"duration_ns": int((begin + latency).max()) + MS, "command": ["sqlite"]}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_that_takes_long_turns_is_named(tmp_path: Path, seed: int) -> None:
    verdict = solve(committing(tmp_path / "case", seed, ("hog",)))
    assert [(f.culprit.kind, f.culprit.name) for f in verdict.findings] == [("process", "hog")], (
        verdict.summary
    )


@pytest.mark.parametrize(
    ("rivals", "part"),
    [
        # Many programs, each its turn: a busy machine.
        (("cc1plus", "sshd", "ld", "make", "grep"), 0.015),
        # Turns too few for the 99th percentile.
        (("hog",), 0.002),
        # The kernel works for whoever asked.
        (("kworker/1:1H",), 0.015),
    ],
)
def test_turns_of_others_accuse_nobody(tmp_path: Path, rivals: tuple[str, ...], part: float) -> None:
    verdict = solve(committing(tmp_path / "case", 1, rivals, part))
    assert not [f for f in verdict.findings if f.culprit.kind == "process"], verdict.summary
