"""Calls in which threads compute are limited by CPUs, and not by how many are in flight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

CALLS = 4000


def _case(path: Path, *, asleep: float, device: float) -> Path:
    """Two threads of grep, each always in a read of 60 us, of which they sleep a part; and a part is the device's (that a poller waits for with a CPU in hand)."""
    number = np.arange(CALLS)
    tid = 901 + number % 2
    latency = np.full(CALLS, 60_000)
    start = number // 2 * 65_000 + number % 2 * 7_000
    waits: list[dict[str, Any]] = [
        {
            "tid": int(thread),
            "pid": 901,
            "comm": "grep",
            "cpu": 0,
            "start_ns": int(begin) + 2_000,
            "duration_ns": int(max(1_000, asleep * 60_000)),
            "state": "blocked",
            "cause": "io",
            "cause_pid": None,
        }
        for thread, begin in zip(tid, start, strict=True)
    ]
    return write_case(
        path,
        syscall={
            "op_id": SYSCALL_ID_BASE | number,
            "start_ns": start,
            "latency_ns": latency,
            "op": "read",
            "size_bytes": 4096,
            "file": "/mnt/sq/file",
            "tid": tid,
            "pid": 901,
            "comm": "grep",
            "fs_ns": (latency * (1 - device)).astype(np.int64),
            "queue_ns": 0,
            "device_ns": (latency * device).astype(np.int64),
            "interrupt_ns": 0,
            "runqueue_ns": 0,
        },
        block={
            "op_id": BLOCK_ID_BASE | number[:400],
            "start_ns": start[:400] + 3_000,
            "latency_ns": np.full(400, 5_000),
            "op": "read",
            "size_bytes": 4096,
            "device": "loop1",
            "tid": 901,
            "pid": 901,
            "comm": "grep",
        },
        tables={"waits": waits},
        meta={"observer": "record", "command": ["grep"], "duration_ns": int(start[-1] + 100_000)},
    )


@pytest.mark.parametrize(
    ("asleep", "device", "computes"), [(0.1, 0.01, True), (0.8, 0.01, False), (0.1, 0.9, False)]
)
def test_threads_that_compute_in_their_calls_are_limited_by_cpus(
    asleep: float, device: float, computes: bool, tmp_path: Path
) -> None:
    """grep in a squashfs image: "queue depth 2 at 60.6 us allows 33,013 IOPS", while the kernel unpacked; and who sleeps, or polls a device, is limited by how many it has in flight."""
    limit = solve(_case(tmp_path / "case", asleep=asleep, device=device)).limit or ""
    assert ("their threads compute in the kernel" in limit) is computes, limit
    assert ("queue depth 2" in limit) is not computes, limit
