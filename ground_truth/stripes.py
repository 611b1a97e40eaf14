"""Sealed cases of stripes: parents on md0, one child on each of several members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.synth import BLOCK_ID_BASE, write_case

Floats = npt.NDArray[np.float64]
STRIPES = 4_000


def _write(path: Path, members: Any, latency_ns: Floats, depth: int = 2) -> Path:
    """`members` (names) and `latency_ns` have the shape (stripes, members of each); `depth` stripes are in flight."""
    count, width = latency_ns.shape
    whole = np.floor(latency_ns.max(axis=1)).astype(np.int64) + 2_000
    start = np.zeros(count, np.int64)
    for slot in range(depth):
        start[slot::depth] = np.cumsum(whole[slot::depth] + 1_000) - whole[slot::depth]
    parents = BLOCK_ID_BASE + np.arange(count)
    children = BLOCK_ID_BASE + count + np.arange(count * width)
    block = {
        "op_id": np.concatenate((parents, children)),
        "start_ns": np.concatenate((start, np.repeat(start + 1_000, width))),
        "latency_ns": np.concatenate((whole, np.floor(latency_ns).ravel().astype(np.int64))),
        "op": "write",
        "device": ["md0"] * count + [str(name) for name in np.asarray(members).ravel()],
        "size_bytes": np.concatenate((np.full(count, width * 65536), np.full(count * width, 65536))),
        "queue_depth": depth,
        "tid": 999,
        "comm": "writer",
    }
    links = {
        "parent_id": np.repeat(parents, width),
        "child_id": children,
        "bytes": np.full(count * width, 65536),
        "kind": ["stacked"] * (count * width),
    }
    duration_ns = int((start + whole).max())
    names = sorted({str(name) for name in np.asarray(members).ravel()})
    meta = {"duration_ns": duration_ns, "observer": "record"}
    return write_case(path, block=block, links=links, meta=meta, devices=("md0", *names))


def _latency(seed: int, shape: tuple[int, int], sigma: float = 0.2) -> Floats:
    rng = np.random.default_rng([seed, 21])
    return 200_000.0 * np.exp(rng.normal(0.0, sigma, shape))


def slow_mirror(seed: int, path: Path) -> Path:
    """One side of a mirror takes five times as long for a third of the writes."""
    rng = np.random.default_rng([seed, 22])
    latency = _latency(seed, (STRIPES, 2))
    latency[rng.random(STRIPES) < 0.33, 1] *= 5
    return _write(path, [["sda", "nvme0n1"]] * STRIPES, latency)


def even_mirror(seed: int, path: Path) -> Path:
    """Either side is slow now and then."""
    rng = np.random.default_rng([seed, 23])
    latency = _latency(seed, (STRIPES, 2))
    latency[rng.random((STRIPES, 2)) < 0.15] *= 5
    return _write(path, [["sda", "nvme0n1"]] * STRIPES, latency)


def in_every_stripe(seed: int, path: Path) -> Path:
    """One drive is a member of every stripe, the other two take turns: it holds up more, and is no slower."""
    rng = np.random.default_rng([seed, 24])
    members = [["sda", ("nvme0n1", "vdb")[number % 2]] for number in range(STRIPES)]
    latency = _latency(seed, (STRIPES, 2))
    latency[rng.random((STRIPES, 2)) < 0.15] *= 5
    return _write(path, members, latency)


def natural_stripes(seed: int, path: Path) -> Path:
    """Wide stripes with a natural tail: some member is always the last."""
    members = [[f"nvme{number}n1" for number in range(6)]] * STRIPES
    return _write(path, members, _latency(seed, (STRIPES, 6), sigma=0.6))


def slow_member_of_stripes(seed: int, path: Path) -> Path:
    """One of six drives is always slow: one finding, and what it does to the stripes."""
    latency = _latency(seed, (STRIPES, 6))
    latency[:, 4] *= 4
    # Every other stripe does without it, so that stripes are slow, not just long.
    members = np.array([[f"nvme{number}n1" for number in range(6)]] * STRIPES, dtype=object)
    spared = np.arange(STRIPES) % 3 > 0
    latency[spared, 4] /= 4
    members[spared, 4] = "nvme6n1"
    return _write(path, members, latency)
