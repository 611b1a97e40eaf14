"""Sealed cases of reads through a cache: tails that are missed each time, and what only looks like it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, write_case

KIB, MIB = 1024, 1 << 20
#: Copies a page of memory, ns.
PAGE_NS = 300


def build(
    path: Path,
    *,
    read_bytes: int,
    pieces: list[list[tuple[int, int, str, int]]],
    seed: int,
    read_ahead_kb: int = 128,
    max_sectors_kb: int = 1280,
    rotational: bool = True,
) -> Path:
    """A serial reader that reads on; `pieces` are (offset in the read, bytes, tier, wait ns) of each read."""
    rng = np.random.default_rng([seed, 5])
    count = len(pieces)
    copy_ns = read_bytes // 4096 * PAGE_NS
    wait_ns = np.array([sum(wait for *_, wait in read) for read in pieces])
    latency = (wait_ns + copy_ns * rng.uniform(0.95, 1.05, count)).astype(np.int64)
    start = np.concatenate(([0], np.cumsum(latency + 20_000)[:-1])).astype(np.int64)
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": latency,
        "offset_bytes": np.arange(count, dtype=np.int64) * read_bytes,
        "size_bytes": [read_bytes] * count,
        "queue_depth": [1] * count,
        "tid": [101] * count,
        "file": ["/data/a.vhd"] * count,
        "device": ["sda"] * count,
        "flags": 0,
    }
    cache: list[dict[str, Any]] = [
        {
            "op_id": APP_ID_BASE + number,
            "tier": tier,
            "file": "/data/a.vhd",
            "offset_bytes": number * read_bytes + at,
            "size_bytes": size,
            "wait_ns": wait,
        }
        for number, read in enumerate(pieces)
        for at, size, tier, wait in read
    ]
    case = write_case(path, app=app, tables={"cache": cache}, devices=("sda",))
    _set_queue(case, read_ahead_kb, max_sectors_kb, rotational)
    return case


def _set_queue(case: Path, read_ahead_kb: int, max_sectors_kb: int, rotational: bool) -> None:
    path = case / "system.json"
    system = json.loads(path.read_text(encoding="utf-8"))
    queue = {
        "read_ahead_kb": str(read_ahead_kb),
        "max_sectors_kb": str(max_sectors_kb),
        "rotational": str(int(rotational)),
    }
    system["devices"]["sda"]["queue"] = {**system["devices"]["sda"].get("queue", {}), **queue}
    path.write_text(json.dumps(system), encoding="utf-8")


def outrun(path: Path, seed: int) -> Path:
    """Reads of 8 MiB + 256 KiB: 8 MiB are there, the tail is not."""
    rng = np.random.default_rng([seed, 6])
    waits = rng.lognormal(np.log(20e6), 0.3, 200).astype(int)
    pieces = [[(0, 8 * MIB, "ram", 0), (8 * MIB, 256 * KIB, "hdd", int(wait))] for wait in waits]
    return build(path, read_bytes=8 * MIB + 256 * KIB, pieces=pieces, seed=seed)


def linux_tail(path: Path, seed: int) -> Path:
    """Random reads of 132 KiB with readahead and requests of 128 KiB: the last page is waited for by itself."""
    rng = np.random.default_rng([seed, 7])
    waits = rng.uniform(12e6, 40e6, (150, 2)).astype(int)
    pieces = [
        [(0, 128 * KIB, "device", int(first)), (128 * KIB, 4 * KIB, "device", int(second))]
        for first, second in waits
    ]
    return build(path, read_bytes=132 * KIB, pieces=pieces, seed=seed, max_sectors_kb=128)


def one_request(path: Path, seed: int) -> Path:
    """The control: max_sectors_kb lets the same read go in one request; slow, but nothing is wrong with its shape."""
    rng = np.random.default_rng([seed, 8])
    pieces = [[(0, 132 * KIB, "device", int(wait))] for wait in rng.uniform(12e6, 40e6, 150)]
    return build(path, read_bytes=132 * KIB, pieces=pieces, seed=seed)


def scattered_misses(path: Path, seed: int) -> Path:
    """Every read misses 256 KiB somewhere: a cache that is too small, not a shape."""
    rng = np.random.default_rng([seed, 9])
    size = 8 * MIB + 256 * KIB
    pieces = []
    for wait in rng.uniform(10e6, 30e6, 200):
        at = int(rng.integers(0, (size - 256 * KIB) // 4096)) * 4096
        pieces.append([(at, 256 * KIB, "hdd", int(wait))])
    return build(path, read_bytes=size, pieces=pieces, seed=seed)


def cheap_tails(path: Path, seed: int) -> Path:
    """The tail is missed each time, but comes from the SSD tier: no visible loss, and a test that hides it."""
    rng = np.random.default_rng([seed, 10])
    pieces = [
        [(0, 8 * MIB, "ram", 0), (8 * MIB, 256 * KIB, "ssd", int(wait))]
        for wait in rng.uniform(8e3, 20e3, 200)
    ]
    return build(path, read_bytes=8 * MIB + 256 * KIB, pieces=pieces, seed=seed)
