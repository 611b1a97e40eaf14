"""Sealed cases of a program that works in bursts, on a drive that sleeps in between, and on one that is late at other times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

DISK = "sda"
US, MS = 1_000, 1_000_000
_BURSTS, _READS = 40, 120


def _bursts(seed: int, path: Path, late: str) -> Path:
    """Bursts of 120 reads, one after the other, 0.2 to 0.6 s apart. In most of them a read takes 9 ms longer: the `first`, or `one` of the others."""
    rng = np.random.default_rng([seed, 141])
    count = _BURSTS * _READS
    device_ns = rng.lognormal(np.log(90 * US), 0.2, (_BURSTS, _READS)).astype(np.int64)
    for burst in np.flatnonzero(rng.random(_BURSTS) < 0.85):
        place = 0 if late == "first" else int(rng.integers(5, _READS))
        device_ns[burst, place] += int(rng.uniform(8.5, 9.5) * MS)
    think_ns = rng.integers(15 * US, 25 * US, (_BURSTS, _READS))
    think_ns[:, 0] += rng.integers(200 * MS, 600 * MS, _BURSTS)
    device, think = device_ns.ravel(), think_ns.ravel()
    start = np.cumsum(think) + np.concatenate(([0], np.cumsum(device + 12 * US)[:-1]))
    both: dict[str, Any] = {
        "op": "read",
        "size_bytes": 4096,
        "pid": 4400,
        "tid": 4400,
        "comm": "collector",
        "device": DISK,
        "device_ns": device,
    }
    syscall = {
        **both,
        "op_id": SYSCALL_ID_BASE | np.arange(count),
        "start_ns": start,
        "latency_ns": device + 12 * US,
        "fs_ns": np.full(count, 12 * US),
    }
    for stage in ("queue", "interrupt", "reap", "runqueue"):
        syscall[f"{stage}_ns"] = np.zeros(count, np.int64)
    block = {
        **both,
        "op_id": BLOCK_ID_BASE | np.arange(count),
        "start_ns": start + 5 * US,
        "latency_ns": device,
        "queue_ns": np.zeros(count, np.int64),
        "interrupt_ns": np.zeros(count, np.int64),
    }
    links = {
        "parent_id": syscall["op_id"],
        "child_id": block["op_id"],
        "kind": ["split"] * count,
    }
    meta = {"observer": "record", "command": ["collector"], "duration_ns": int(start[-1] + 100 * MS)}
    return write_case(path, syscall=syscall, block=block, links=links, devices=(DISK,), meta=meta)


def sleeping_drive(seed: int, path: Path) -> Path:
    """The drive sleeps between bursts: their first read waits until it is awake."""
    return _bursts(seed, path, "first")


def late_in_bursts(seed: int, path: Path) -> Path:
    """The same reads are as late, and never the first of a burst: the drive was awake."""
    return _bursts(seed, path, "one")
