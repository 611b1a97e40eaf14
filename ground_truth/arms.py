"""Sealed cases of a reader of many small files on a disk that turns: most of what it reads follows, some lies elsewhere; healthy, and not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case

SIZE = 65_536
COUNT = 4000


def _tree(seed: int, path: Path, late: Any) -> Path:
    """`late` gives what requests take beyond what the disk needs, ns, from (generator, which of them jump)."""
    rng = np.random.default_rng([seed, 71])
    jumps = rng.random(COUNT) < 0.03
    # What lies elsewhere is at least 2 MiB away, a seek and a part of a turn.
    offset = np.cumsum(np.where(jumps, rng.integers(2 << 20, 1 << 30, COUNT) // 4096 * 4096, SIZE)).astype(
        np.int64
    )
    device = np.where(jumps, rng.uniform(4e6, 16e6, COUNT), 220_000 * np.exp(rng.normal(0, 0.15, COUNT)))
    device = (device + late(rng, jumps)).astype(np.int64)
    start = np.concatenate(([0], np.cumsum(device + 40_000)[:-1])).astype(np.int64)
    every: dict[str, Any] = {
        "size_bytes": [SIZE] * COUNT,
        "queue_depth": [1] * COUNT,
        "tid": [101] * COUNT,
        "device": ["sda"] * COUNT,
    }
    app = every | {
        "op_id": APP_ID_BASE + np.arange(COUNT),
        "start_ns": start,
        "latency_ns": device + 20_000,
        "fs_ns": np.full(COUNT, 20_000),
        "device_ns": device,
        "offset_bytes": np.arange(COUNT) * SIZE,
        "flags": 0,
    }
    block = every | {
        "op_id": BLOCK_ID_BASE + np.arange(COUNT),
        "start_ns": start + 20_000,
        "latency_ns": device,
        "device_ns": device,
        "offset_bytes": offset,
        "flags": 1,
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"], "bytes": app["size_bytes"]}
    case = write_case(path, app=app, block=block, links=links, devices=("sda",))
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["devices"]["sda"]["queue"]["rotational"] = "1"
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def tree_on_disk(seed: int, path: Path) -> Path:
    """Three in a hundred requests lie elsewhere, and take as long as that takes."""
    return _tree(seed, path, lambda rng, jumps: np.zeros(COUNT))


def slow_sectors(seed: int, path: Path) -> Path:
    """Two in a hundred requests take 60 ms longer, wherever they lie: the disk reads them again and again."""
    return _tree(seed, path, lambda rng, jumps: np.where(rng.random(COUNT) < 0.02, 60e6, 0.0))
