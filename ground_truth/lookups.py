"""Sealed cases of a program that looks up names and lists folders: no recorded call makes its reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

PID = 41
OTHER = 99
CALLS, LOOKUPS, OTHERS = 200, 4_000, 400


def _find(seed: int, path: Path, part: float) -> Path:
    """It opens its libraries, then reads what a cold tree is made of, one after the other, of which `part` takes 15 ms longer. A neighbour reads from another
    disk, which holds one read in ten for 20 ms."""
    rng = np.random.default_rng([seed, 98])
    opens = (8_000 * np.exp(rng.normal(0, 0.3, CALLS))).astype(np.int64)
    begin = np.cumsum(opens + 20_000) - opens
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(CALLS),
        "start_ns": begin,
        "latency_ns": opens,
        "fs_ns": opens,
        "op": "open",
        "tid": PID,
        "pid": PID,
        "comm": "find",
    }
    took = (250_000 * np.exp(rng.normal(0, 0.2, LOOKUPS))).astype(np.int64)
    took += 15_000_000 * (rng.random(LOOKUPS) < part)
    at = int(begin[-1]) + 1_000_000 + np.cumsum(took + 30_000) - took
    theirs = (300_000 * np.exp(rng.normal(0, 0.2, OTHERS))).astype(np.int64)
    theirs += 20_000_000 * (rng.random(OTHERS) < 0.1)
    when = np.linspace(int(at[0]), int(at[-1]), OTHERS).astype(np.int64)
    latency, mine = np.concatenate((took, theirs)), np.arange(LOOKUPS + OTHERS) < LOOKUPS
    requests = {
        "op_id": BLOCK_ID_BASE | np.arange(LOOKUPS + OTHERS),
        "start_ns": np.concatenate((at, when)),
        "latency_ns": latency,
        "queue_ns": 2_000,
        "device_ns": latency - 4_000,
        "interrupt_ns": 2_000,
        "op": "read",
        "tid": np.where(mine, PID, OTHER),
        "pid": np.where(mine, PID, OTHER),
        "comm": np.where(mine, "find", "updatedb"),
        "device": np.where(mine, "nvme0n1", "sda"),
        "size_bytes": 4096,
        "queue_depth": 1,
    }
    meta = {
        "duration_ns": int(at[-1] + took[-1]) + 1_000_000,
        "observer": "record",
        "command": ["find", "/srv"],
    }
    return write_case(path, syscall=calls, block=requests, meta=meta, devices=("nvme0n1", "sda"))


def slow_lookups(seed: int, path: Path) -> Path:
    """One of these reads in 70 takes 15 ms longer."""
    return _find(seed, path, 1 / 70)


def quick_lookups(seed: int, path: Path) -> Path:
    """None does: the other disk is none of its business."""
    return _find(seed, path, 0.0)
