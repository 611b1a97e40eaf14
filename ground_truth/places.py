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
    return _may_hold(case, nr_requests, device_takes)


def _ring(seed: int, path: Path, *, nr_requests: int, waited_us: int = 1000) -> Path:
    """One thread with sixteen reads in flight: it submits them all, waits four times for a place meanwhile, then takes what has ended."""
    rng = np.random.default_rng([seed, 192])
    rounds, depth = 600, 16
    shape = (rounds, depth)
    device = rng.lognormal(np.log(1000 * US), 0.1, shape).astype(np.int64)
    fs = np.full(shape, 10 * US, np.int64)
    waited = rng.integers(round(0.8 * waited_us), round(1.2 * waited_us), (rounds, 4)) * US // 4
    took = waited.sum(axis=1) + 2200 * US
    begin = np.cumsum(took) - took
    # Four of them enter the queue at once, and four after each wait.
    entered = begin[:, None] + np.concatenate((np.zeros((rounds, 1), np.int64), np.cumsum(waited, axis=1)), 1)
    start = (entered[:, np.arange(depth) // 4] + np.arange(depth) * 2 * US).ravel()
    end = np.repeat(begin + took - 50 * US, depth)
    order = np.argsort(start, kind="stable")
    start, latency = start[order], (end - start)[order]
    fs, device = fs.ravel()[order], device.ravel()[order]
    zeros = np.zeros(len(start), np.int64)
    about: dict[str, Any] = {
        "op": "read",
        "size_bytes": 4096,
        "pid": 5000,
        "tid": 5000,
        "comm": "ring",
        "device": DISK,
        "queue_depth": depth,
    }
    syscall = {
        **about,
        "op_id": SYSCALL_ID_BASE | np.arange(len(start)),
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": fs,
        "device_ns": device,
        "reap_ns": latency - device - fs,
        **{f"{stage}_ns": zeros for stage in ("interrupt", "queue", "runqueue")},
    }
    block = {
        **about,
        "op_id": BLOCK_ID_BASE | np.arange(len(start)),
        "start_ns": start + 5 * US,
        "latency_ns": device,
        "queue_ns": zeros,
        "device_ns": device,
        "interrupt_ns": zeros,
    }
    slept = {"pid": 5000, "tid": 5000, "comm": "ring", "state": "blocked"}
    waits = [
        {**slept, "start_ns": int(at), "duration_ns": int(long), "cause": "blk_mq_get_tag"}
        for at, long in zip(entered[:, :4].ravel(), waited.ravel(), strict=True)
    ]
    links = {"parent_id": syscall["op_id"], "child_id": block["op_id"], "kind": ["waits_for"] * len(start)}
    meta = {"observer": "record", "command": ["ring"], "duration_ns": int((start + latency).max())}
    case = write_case(
        path, syscall=syscall, block=block, links=links, tables={"waits": waits}, devices=(DISK,), meta=meta
    )
    return _may_hold(case, nr_requests, 32)


def _may_hold(case: Path, nr_requests: int, device_takes: int) -> Path:
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["devices"][DISK] |= {
        "queue": {"nr_requests": str(nr_requests)},
        "facts": {"device_queue_depth": str(device_takes)},
    }
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def ring_of_four_places(seed: int, path: Path) -> Path:
    """One thread has sixteen reads in flight, of a queue that may hold four: it sleeps a third of its time until it may submit."""
    return _ring(seed, path, nr_requests=4)


def ring_of_many_places(seed: int, path: Path) -> Path:
    """The queue may hold 64, as Linux gives it."""
    return _ring(seed, path, nr_requests=64)


def ring_that_seldom_waits(seed: int, path: Path) -> Path:
    """The queue may hold four, and the thread waits 2 % of its time for a place."""
    return _ring(seed, path, nr_requests=4, waited_us=48)


def four_places(seed: int, path: Path) -> Path:
    """The queue may hold four requests, of a device that takes 32 at once."""
    return _readers(seed, path, nr_requests=4)


def many_places(seed: int, path: Path) -> Path:
    """It may hold 64, as Linux gives it: it is full, and nobody set it so."""
    return _readers(seed, path, nr_requests=64)


def one_at_once(seed: int, path: Path) -> Path:
    """It may hold two, as Linux gives a device that takes one request at a time."""
    return _readers(seed, path, nr_requests=2, device_takes=1)
