"""Sealed cases of a device that is slow in one range of its addresses, or for a while, under reads all over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

DISK, MIB = "nvme0n1", 1 << 20
US = 1_000
_READS, _END = 12_000, 1024 * MIB
#: The slow one.
RANGE = 512 * MIB, 700 * MIB


def slow_range(seed: int, path: Path) -> Path:
    """Reads take 0.4 ms, in the range 4 ms longer."""
    return _reads(seed, path, lambda place, _: (place >= RANGE[0]) & (place < RANGE[1]))


def slow_for_a_while(seed: int, path: Path) -> Path:
    """As many take as much longer, in three stretches of time."""
    return _reads(seed, path, lambda _, number: number % 4_000 < 4_000 * (RANGE[1] - RANGE[0]) // _END)


def _reads(seed: int, path: Path, is_late: Any) -> Path:
    rng = np.random.default_rng([seed, 211])
    place = rng.integers(0, _END // 4096, _READS) * 4096
    late = is_late(place, np.arange(_READS))
    device = rng.lognormal(np.log(400 * US), 0.1, _READS).astype(np.int64) + 4_000 * US * late
    start = np.cumsum(device + 30 * US) - device
    about: dict[str, Any] = {
        "op": "read",
        "size_bytes": 4096,
        "pid": 5000,
        "tid": 5000,
        "comm": "reader",
        "device": DISK,
    }
    zeros = np.zeros(_READS, np.int64)
    syscall = {
        **about,
        "op_id": SYSCALL_ID_BASE | np.arange(_READS),
        "start_ns": start - 5 * US,
        "latency_ns": device + 10 * US,
        "fs_ns": np.full(_READS, 10 * US),
        "device_ns": device,
        **{f"{stage}_ns": zeros for stage in ("queue", "interrupt", "reap", "runqueue")},
    }
    block = {
        **about,
        "op_id": BLOCK_ID_BASE | np.arange(_READS),
        "offset_bytes": place,
        "start_ns": start,
        "latency_ns": device,
        "queue_ns": zeros,
        "device_ns": device,
        "interrupt_ns": zeros,
    }
    links = {"parent_id": syscall["op_id"], "child_id": block["op_id"], "kind": ["waits_for"] * _READS}
    meta = {"observer": "record", "command": ["reader"], "duration_ns": int((start + device).max())}
    return write_case(path, syscall=syscall, block=block, links=links, devices=(DISK,), meta=meta)
