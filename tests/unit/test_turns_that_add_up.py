"""Operations that wait for a CPU many times for a moment lost nothing to who had it for long once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

OPERATIONS, US, MS = 600, 1_000, 1_000_000
PID, HOG_PID = 700, 99


def turns(path: Path, hog_turns: int) -> Path:
    """A scan in three waits eight times for 1.9 ms, while other threads of its program run; in so many scans `hog` has the CPU for 40 ms."""
    rng = np.random.default_rng(7)
    short_ns, parts = 1_900 * US, 8
    waited = np.arange(OPERATIONS) % 3 == 0
    held = np.zeros(OPERATIONS, np.bool_)
    held[np.linspace(10, OPERATIONS - 10, hog_turns).astype(int) // 3 * 3 + 1] = True
    device_ns = (20 * MS * np.exp(rng.normal(0, 0.2, OPERATIONS))).astype(np.int64)
    wait_ns = np.where(waited, parts * short_ns, 0) + np.where(held, 40 * MS, 0)
    latency = device_ns + wait_ns + 100 * US
    begin = np.cumsum(latency + 50 * US) - latency
    every = {"tid": PID, "pid": PID, "comm": "scanner", "cpu": 0, "state": "runnable"}
    waits: list[dict[str, object]] = []
    for number in np.flatnonzero(waited):
        step = int(latency[number]) // (parts + 1)
        waits += [
            {
                **every,
                "start_ns": int(begin[number]) + part * step,
                "duration_ns": short_ns,
                "cause": "scanner",
                "cause_pid": PID,
            }
            for part in range(parts)
        ]
    waits += [
        {
            **every,
            "start_ns": int(begin[number]) + 50 * US,
            "duration_ns": 40 * MS,
            "cause": "hog",
            "cause_pid": HOG_PID,
        }
        for number in np.flatnonzero(held)
    ]
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(OPERATIONS),
        "start_ns": begin,
        "latency_ns": latency,
        "op": "read",
        "size_bytes": 1 << 20,
        "device": "nvme0n1",
        "file": "/data/table",
        "tid": PID,
        "pid": PID,
        "comm": "scanner",
        "app_ns": 0,
        "fs_ns": 100 * US,
        "queue_ns": 0,
        "device_ns": device_ns,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": wait_ns,
    }
    meta = {"duration_ns": int((begin + latency).max()) + MS, "command": ["scanner"]}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


@pytest.mark.parametrize(("hog_turns", "accused"), [(4, []), (40, ["hog"])])
def test_a_turn_counts_by_its_own_length(tmp_path: Path, hog_turns: int, accused: list[str]) -> None:
    """YCSB beside a program that had the CPU for 2.4 % of the scans' time: 10.4 % was said, the other waits of these scans being of its own threads."""
    verdict = solve(turns(tmp_path / "case", hog_turns))
    assert [found.culprit.name for found in verdict.findings] == accused, verdict.findings
