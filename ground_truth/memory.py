"""Sealed cases of a program with too little memory, and of one that only frees pages which nobody needs again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

DISK, SWAP = "vda", "vdb"
US = 1_000
_READS = 2500


def _reader(seed: int, path: Path, *, freed_ns: int, freed_part: float, swapped: bool) -> Path:
    """Reads of a file from the page cache, 8 us each, with work in between. In some of the pauses the thread frees memory for so long, and reads a page from the other disk."""
    rng = np.random.default_rng([seed, 181])
    latency = rng.lognormal(np.log(8 * US), 0.1, _READS).astype(np.int64)
    work = rng.integers(150 * US, 250 * US, _READS)
    frees = rng.random(_READS) < freed_part
    freed = np.where(frees, rng.integers(freed_ns // 2, 3 * freed_ns // 2, _READS), 0)
    page = np.where(frees & swapped, rng.integers(70 * US, 130 * US, _READS), 0)
    pause = work + freed + page
    start = np.cumsum(pause) + np.concatenate(([0], np.cumsum(latency)[:-1]))
    about: dict[str, Any] = {"pid": 4800, "tid": 4800, "comm": "worker"}
    zeros = np.zeros(_READS, np.int64)
    syscall = {
        **about,
        "op": "read",
        "op_id": SYSCALL_ID_BASE | np.arange(_READS),
        "start_ns": start,
        "latency_ns": latency,
        "size_bytes": 4096,
        "file": ["/data/table"] * _READS,
        "fs_ns": latency,
        **{f"{stage}_ns": zeros for stage in ("queue", "device", "interrupt", "reap", "runqueue")},
    }
    at = np.flatnonzero(frees)
    # A few requests of everybody's, so that the block layer was there.
    begins = start[at] - page[at] if swapped else start[:20]
    took = page[at] if swapped else np.full(20, 100 * US)
    block = {
        **about,
        "op": "read" if swapped else "write",
        "op_id": BLOCK_ID_BASE | np.arange(len(begins)),
        "start_ns": begins,
        "latency_ns": took,
        "device": SWAP if swapped else DISK,
        "size_bytes": 4096,
        "device_ns": took,
        "queue_ns": np.zeros(len(begins), np.int64),
        "interrupt_ns": np.zeros(len(begins), np.int64),
    }
    waits = [
        {
            **about,
            "start_ns": int(start[n] - page[n] - freed[n]),
            "duration_ns": int(freed[n]),
            "state": "blocked",
            "cause": "direct reclaim",
        }
        for n in at
    ]
    meta = {"observer": "record", "command": ["worker"], "duration_ns": int(start[-1] + latency[-1])}
    case = write_case(
        path, syscall=syscall, block=block, tables={"waits": waits}, devices=(DISK, SWAP), meta=meta
    )
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["swaps"] = [f"/dev/{SWAP}"]
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def swapping(seed: int, path: Path) -> Path:
    """A third of the pauses: 0.3 ms to free memory, and 0.1 ms for a page that had been swapped out."""
    return _reader(seed, path, freed_ns=300 * US, freed_part=0.33, swapped=True)


def streaming(seed: int, path: Path) -> Path:
    """A third of the pauses: 50 us to free pages, and none of them comes back."""
    return _reader(seed, path, freed_ns=50 * US, freed_part=0.33, swapped=False)


def hardly_swapping(seed: int, path: Path) -> Path:
    """One pause in four hundred: less than 1 % of the time."""
    return _reader(seed, path, freed_ns=300 * US, freed_part=0.0025, swapped=True)
