"""Sealed cases of reads past the page cache, by requests that a queue setting cuts, and by such that only look like it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

DISK = "sda"
KIB, US = 1024, 1_000
_READS = 600


def _reads(
    seed: int, path: Path, *, read_kib: int, max_sectors_kb: int, max_hw_sectors_kb: int = 1280
) -> Path:
    """One reader, one read at a time; each is served by requests of at most `max_sectors_kb`, one after the other, 60 us each and 0.3 us per KiB."""
    rng = np.random.default_rng([seed, 151])
    each_kib = min(read_kib, max_sectors_kb)
    pieces = read_kib // each_kib
    shape = (_READS, pieces)
    device_ns = rng.lognormal(np.log((60 + 0.3 * each_kib) * US), 0.15, shape).astype(np.int64)
    ends = np.cumsum(device_ns, axis=1)
    latency = ends[:, -1] + 15 * US
    start = np.concatenate(([0], np.cumsum(latency + rng.integers(5 * US, 30 * US, _READS))[:-1]))
    places = rng.permutation(_READS) * read_kib * KIB
    both: dict[str, Any] = {"op": "read", "pid": 4500, "tid": 4500, "comm": "reader", "device": DISK}
    syscall = {
        **both,
        "op_id": SYSCALL_ID_BASE | np.arange(_READS),
        "start_ns": start,
        "latency_ns": latency,
        "offset_bytes": places,
        "size_bytes": read_kib * KIB,
        "fs_ns": np.full(_READS, 15 * US),
        "device_ns": ends[:, -1],
    }
    for stage in ("queue", "interrupt", "reap", "runqueue"):
        syscall[f"{stage}_ns"] = np.zeros(_READS, np.int64)
    count = _READS * pieces
    block = {
        **both,
        "op_id": BLOCK_ID_BASE | np.arange(count),
        "start_ns": (start[:, None] + 10 * US + ends - device_ns).ravel(),
        "latency_ns": device_ns.ravel(),
        "offset_bytes": (places[:, None] + np.arange(pieces) * each_kib * KIB).ravel(),
        "size_bytes": each_kib * KIB,
        "device_ns": device_ns.ravel(),
        "queue_ns": np.zeros(count, np.int64),
        "interrupt_ns": np.zeros(count, np.int64),
    }
    links = {
        "parent_id": np.repeat(syscall["op_id"], pieces),
        "child_id": block["op_id"],
        "kind": ["waits_for"] * count,
    }
    meta = {"observer": "record", "command": ["reader"], "duration_ns": int(start[-1] + latency[-1])}
    case = write_case(path, syscall=syscall, block=block, links=links, devices=(DISK,), meta=meta)
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    queue = {"max_sectors_kb": str(max_sectors_kb), "max_hw_sectors_kb": str(max_hw_sectors_kb)}
    system["devices"][DISK]["queue"] = {**system["devices"][DISK].get("queue", {}), **queue}
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def cut(seed: int, path: Path) -> Path:
    """Reads of 128 KiB become 16 requests of 8 KiB each, which the device would take as one."""
    return _reads(seed, path, read_kib=128, max_sectors_kb=8)


def cut_by_the_device(seed: int, path: Path) -> Path:
    """The device itself takes no more than 8 KiB at once: there is nothing to set."""
    return _reads(seed, path, read_kib=128, max_sectors_kb=8, max_hw_sectors_kb=8)


def as_small_as_the_limit(seed: int, path: Path) -> Path:
    """The program asks for 8 KiB at a time: none of its reads is cut."""
    return _reads(seed, path, read_kib=8, max_sectors_kb=8)


def cut_but_large(seed: int, path: Path) -> Path:
    """Reads of 1 MiB become requests of 512 KiB, as Linux has long done by itself."""
    return _reads(seed, path, read_kib=1024, max_sectors_kb=512)
