"""Sealed cases of another program that uses the device once, for a third of the run; and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

SECOND, MS, US = 1_000_000_000, 1_000_000, 1_000
SECONDS, DEVICE, OTHER_DEVICE = 6, "nvme0n1", "sdb"
_USUAL_US, _TIMES_AS_LONG = 250.0, 12.0


def _visited(
    seed: int,
    path: Path,
    *,
    slow: Callable[[float, float, float], bool],
    requests: int = 12_000,
    took_ms: float = 5.0,
    device: str = DEVICE,
    stays: bool = False,
) -> Path:
    """The judged program reads one after the other; another one begins `requests` in two seconds of the run, or from then to its end. `slow`: whether reads take
    twelve times as long at a moment, by when the visit begins and ends."""
    rng = np.random.default_rng([seed, 151])
    came = float(rng.uniform(1.8, 2.2) * SECOND)
    left = float(SECONDS * SECOND) if stays else came + 2.0 * SECOND
    begins, lengths, now = [], [], 0.0
    while now < SECONDS * SECOND:
        typical_us = _USUAL_US * (_TIMES_AS_LONG if slow(now, came, left) else 1.0)
        took = typical_us * US * float(np.exp(rng.normal(0, 0.2)))
        begins.append(now)
        lengths.append(took)
        now += took + 60.0 * US
    own_start, own_latency = (np.array(values).astype(np.int64) for values in (begins, lengths))
    start = np.sort(rng.uniform(came, left, requests)).astype(np.int64)
    latency = (took_ms * MS * np.exp(rng.normal(0, 0.2, requests))).astype(np.int64)
    count = len(own_start)
    block: dict[str, Any] = {
        "op_id": BLOCK_ID_BASE + np.arange(count + requests),
        "start_ns": np.concatenate((own_start, start)),
        "latency_ns": np.concatenate((own_latency, latency)),
        "device_ns": np.concatenate((own_latency, latency)),
        "op": "read",
        "comm": np.array(["bup"] * count + ["indexer"] * requests),
        "offset_bytes": rng.integers(0, 1 << 24, count + requests) * 4096,
        "size_bytes": 4096,
        "device": np.array([DEVICE] * count + [device] * requests),
        "pid": np.array([101] * count + [102] * requests),
        "tid": np.array([101] * count + [102] * requests),
    }
    app: dict[str, Any] = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": own_start - 1 * US,
        "latency_ns": own_latency + 2 * US,
        "fs_ns": 1 * US,
        "device_ns": own_latency,
        "reap_ns": 1 * US,
        "op": "read",
        "comm": "bup",
        "size_bytes": 4096,
        "queue_depth": 1,
        "device": DEVICE,
        "pid": 101,
        "tid": 101,
    }
    app["start_ns"] = np.maximum(app["start_ns"], 0)
    links = {"parent_id": app["op_id"], "child_id": block["op_id"][:count]}
    return write_case(path, app=app, block=block, links=links, devices=(DEVICE, OTHER_DEVICE))


def visit(seed: int, path: Path) -> Path:
    """Reads wait behind the other program's while it is there."""
    return _visited(seed, path, slow=lambda at, came, left: came <= at < left)


def free_visit(seed: int, path: Path) -> Path:
    """The device has room for both."""
    return _visited(seed, path, slow=lambda *_: False, took_ms=0.3)


def visit_elsewhere(seed: int, path: Path) -> Path:
    """The device is slow by itself while another program uses another one."""
    return _visited(seed, path, slow=lambda at, came, left: came <= at < left, device=OTHER_DEVICE)


def visit_of_a_slow_device(seed: int, path: Path) -> Path:
    """The device was slow half a second before somebody came."""
    return _visited(seed, path, slow=lambda at, came, left: came - 0.5 * SECOND <= at < left)


def slow_for_half_a_visit(seed: int, path: Path) -> Path:
    """It is slow in the first half of the visit, and well in the second, which asks for as much."""
    return _visited(seed, path, slow=lambda at, came, left: came <= at < (came + left) / 2)


def slow_beyond_a_visit(seed: int, path: Path) -> Path:
    """It stays slow for as long again when the other program has left."""
    return _visited(seed, path, slow=lambda at, came, left: came <= at < left + 1.5 * SECOND)


def collected_requests(seed: int, path: Path) -> Path:
    """The device is slow by itself; a program that asks for little has much in flight meanwhile, because each of its requests waits."""
    return _visited(seed, path, slow=lambda at, came, left: came <= at < left, requests=200, took_ms=200.0)


def visit_to_the_end(seed: int, path: Path) -> Path:
    """It stays: reads wait behind its own from then on, and the device has more to do than before."""
    return _visited(seed, path, slow=lambda at, came, left: came <= at, requests=24_000, stays=True)


def free_visit_to_the_end(seed: int, path: Path) -> Path:
    """The device has room for both."""
    return _visited(seed, path, slow=lambda *_: False, requests=24_000, took_ms=0.3, stays=True)


def stays_at_a_slow_device(seed: int, path: Path) -> Path:
    """The device was slow half a second before somebody came and stayed."""
    return _visited(
        seed, path, slow=lambda at, came, left: came - 0.5 * SECOND <= at, requests=24_000, stays=True
    )


def slow_later_than_who_stays(seed: int, path: Path) -> Path:
    """Somebody came a second and a half before the device became slow."""
    return _visited(
        seed, path, slow=lambda at, came, left: came + 1.5 * SECOND <= at, requests=24_000, stays=True
    )


def _written_out(seed: int, path: Path, writer: str, pid: int) -> Path:
    """The judged program syncs, 2 ms each time. After two seconds `writer` has written 300 MiB through the page cache; from then on a thread of the kernel writes that out, 48
    requests at once each time the device has done the last ones, and a sync takes as long as these."""
    rng = np.random.default_rng([seed, 152])
    came = float(rng.uniform(1.8, 2.2) * SECOND)
    begins, lengths, now = [], [], 0.0
    while now < SECONDS * SECOND:
        took = (700.0 if now >= came + 4 * MS else 2.0) * MS * float(np.exp(rng.normal(0, 0.2)))
        begins.append(now)
        lengths.append(took)
        now += took + 500.0 * US
    start, latency = (np.array(values).astype(np.int64) for values in (begins, lengths))
    count, end = len(start), int(now)
    bursts = np.arange(came + 5 * MS, end - 0.2 * SECOND, 0.5 * SECOND)
    theirs = np.sort((np.repeat(bursts, 48) + rng.uniform(0, 5 * MS, 48 * len(bursts))).astype(np.int64))
    theirs_ns = (0.45 * SECOND * np.exp(rng.normal(0, 0.1, len(theirs)))).astype(np.int64)
    block: dict[str, Any] = {
        "op_id": BLOCK_ID_BASE + np.arange(count + len(theirs)),
        "start_ns": np.concatenate((start + 5 * US, theirs)),
        "latency_ns": np.concatenate((latency - 10 * US, theirs_ns)),
        "device_ns": np.concatenate((latency - 10 * US, theirs_ns)),
        "op": "write",
        "comm": np.array(["ledger"] * count + ["kworker/u8:2"] * len(theirs)),
        "size_bytes": np.array([4096] * count + [524_288] * len(theirs)),
        "device": DEVICE,
        "pid": np.array([101] * count + [33] * len(theirs)),
        "tid": np.array([101] * count + [33] * len(theirs)),
        "flags": np.array([0] * count + [2048] * len(theirs)),
    }
    syscall: dict[str, Any] = {
        "op_id": SYSCALL_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": 10 * US,
        "device_ns": latency - 10 * US,
        "op": "sync",
        "comm": "ledger",
        "size_bytes": 0,
        "queue_depth": 1,
        "device": DEVICE,
        "pid": 101,
        "tid": 101,
    }
    events = [
        {
            "time_ns": round(came - 0.1 * SECOND),
            "kind": "dirtied",
            "subject": "/data/image",
            "detail": f"duration_ns 90000000 bytes {300 << 20} by {writer} (pid {pid})",
        },
        {
            "time_ns": round(came),
            "kind": "inode_written",
            "subject": "/data/image",
            "detail": f"duration_ns {end - round(came)} cause sync by kworker/u8:2 (pid 33)",
        },
    ]
    links = {"parent_id": syscall["op_id"], "child_id": block["op_id"][:count], "kind": "waits_for"}
    meta = {"observer": "record", "command": ["ledger"], "duration_ns": end}
    return write_case(
        path,
        syscall=syscall,
        block=block,
        links=links,
        tables={"events": events},
        devices=(DEVICE, OTHER_DEVICE),
        meta=meta,
    )


def written_through_the_cache(seed: int, path: Path) -> Path:
    """Another program wrote it: the kernel's thread works for that one, and hardly lets a sync pass."""
    return _written_out(seed, path, "backup", 102)


def written_by_itself(seed: int, path: Path) -> Path:
    """The judged program wrote it: nobody else is in its way."""
    return _written_out(seed, path, "ledger", 101)
