"""Sealed cases of threads that wait for a free place in the queue of a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

DISK = "sda"
US = 1_000
_THREADS, _READS = 8, 400


def _readers(seed: int, path: Path, *, nr_requests: int, device_takes: int = 32) -> Path:
    """Eight threads read at once; each read takes the device 1 ms, and waits for about 1.5 ms before it gets a place."""
    rng = np.random.default_rng([seed, 191])
    shape = (_THREADS, _READS)
    device = rng.lognormal(np.log(1000 * US), 0.1, shape).astype(np.int64)
    waited = rng.integers(1200 * US, 1800 * US, shape)
    latency = device + waited + 10 * US
    think = rng.integers(5 * US, 15 * US, shape)
    start = np.cumsum(think, axis=1) + np.cumsum(latency, axis=1) - latency
    order = np.argsort(start.ravel(), kind="stable")
    tid = np.repeat(5000 + np.arange(_THREADS), _READS)[order]
    begin, took, at_device, wait = (values.ravel()[order] for values in (start, latency, device, waited))
    count = len(order)
    about: dict[str, Any] = {
        "op": "read",
        "size_bytes": 4096,
        "pid": 5000,
        "tid": tid,
        "comm": "reader",
        "device": DISK,
    }
    zeros = np.zeros(count, np.int64)
    syscall = {
        **about,
        "op_id": SYSCALL_ID_BASE | np.arange(count),
        "start_ns": begin,
        "latency_ns": took,
        "fs_ns": np.full(count, 10 * US),
        "queue_ns": wait,
        "device_ns": at_device,
        **{f"{stage}_ns": zeros for stage in ("interrupt", "reap", "runqueue")},
    }
    block = {
        **about,
        "op_id": BLOCK_ID_BASE | np.arange(count),
        "start_ns": begin + 5 * US,
        "latency_ns": wait + at_device,
        "queue_ns": wait,
        "device_ns": at_device,
        "interrupt_ns": zeros,
    }
    waits = [
        {
            "pid": 5000,
            "tid": int(tid[n]),
            "comm": "reader",
            "start_ns": int(begin[n] + 6 * US),
            "duration_ns": int(wait[n]),
            "state": "blocked",
            "cause": "blk_mq_get_tag",
        }
        for n in range(count)
    ]
    links = {"parent_id": syscall["op_id"], "child_id": block["op_id"], "kind": ["waits_for"] * count}
    meta = {"observer": "record", "command": ["reader"], "duration_ns": int((begin + took).max())}
    case = write_case(
        path, syscall=syscall, block=block, links=links, tables={"waits": waits}, devices=(DISK,), meta=meta
    )
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["devices"][DISK] |= {
        "queue": {"nr_requests": str(nr_requests)},
        "facts": {"device_queue_depth": str(device_takes)},
    }
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def four_places(seed: int, path: Path) -> Path:
    """The queue may hold four requests, of a device that takes 32 at once."""
    return _readers(seed, path, nr_requests=4)


def many_places(seed: int, path: Path) -> Path:
    """It may hold 64, as Linux gives it: it is full, and nobody set it so."""
    return _readers(seed, path, nr_requests=64)


def one_at_once(seed: int, path: Path) -> Path:
    """It may hold two, as Linux gives a device that takes one request at a time."""
    return _readers(seed, path, nr_requests=2, device_takes=1)
