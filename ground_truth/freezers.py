"""Sealed cases of a process that is stopped as a whole while most of its threads sleep, which the scheduler does not tell of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import SYSCALL_ID_BASE, write_case

MS, US = 1_000_000, 1_000
PID, WORKERS, SECONDS = 900, 4, 12


def _pool(seed: int, path: Path, stops: list[tuple[int, int, int, str]], *, holds: bool = True) -> Path:
    """Threads of a pool write in turn for an event loop that gives them something each 300 us or so; they sleep in between. `stops`: tid, begin, length, and
    where the thread stood. `holds`: nobody writes meanwhile."""
    rng = np.random.default_rng([seed, 71])
    start = np.cumsum(rng.exponential(300 * US, SECONDS * 3_000).astype(np.int64) + 20 * US)
    if holds:
        # What would have begun in a stop begins behind it, and all that follows later.
        for begin, length in sorted({(begin, length) for _, begin, length, _ in stops}):
            start[start >= begin] += length
    start = start[start < SECONDS * 1_000 * MS]
    latency = (6 * US * np.exp(rng.normal(0, 0.2, len(start)))).astype(np.int64)
    tid = PID + 1 + rng.integers(0, WORKERS, len(start))
    waits: list[dict[str, Any]] = [
        {
            "tid": of,
            "pid": PID,
            "comm": "node",
            "cpu": 0,
            "start_ns": begin,
            "duration_ns": length,
            "state": "stopped",
            "cause": cause,
        }
        for of, begin, length, cause in stops
    ]
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(start)),
        "start_ns": start,
        "latency_ns": latency,
        "op": "write",
        "size_bytes": 200,
        "device": "nvme0n1",
        "tid": tid,
        "pid": PID,
        "comm": "node",
        "app_ns": 0,
        "fs_ns": latency,
        "queue_ns": 0,
        "device_ns": 0,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": 0,
    }
    meta = {"duration_ns": SECONDS * 1_000 * MS, "command": ["node"]}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


def _moments(seed: int, count: int = 4) -> list[int]:
    rng = np.random.default_rng([seed, 72])
    return [int((1.5 + 2.5 * number + rng.uniform(0, 0.4)) * 1e9) for number in range(count)]


def frozen_pool(seed: int, path: Path) -> Path:
    """The control group of all is frozen four times for 500 ms: only the event loop ran then, and told of it."""
    stops = [(PID, begin, 500 * MS, "__refrigerator") for begin in _moments(seed)]
    return _pool(seed, path, stops)


def frozen_for_moments(seed: int, path: Path) -> Path:
    """It is frozen four times for 40 ms: 1.3 % of the run."""
    stops = [(PID, begin, 40 * MS, "__refrigerator") for begin in _moments(seed)]
    return _pool(seed, path, stops)


def traced_thread(seed: int, path: Path) -> Path:
    """A debugger stops the event loop alone, which has given out its work before: the others write on."""
    stops = [(PID, begin, 500 * MS, "ptrace_stop") for begin in _moments(seed)]
    return _pool(seed, path, stops, holds=False)
