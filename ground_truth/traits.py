"""Sealed cases whose slow operations have a trait in common, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, Simulation, write_case

SIZES = ((4096, 0.8, 1.0), (65536, 0.2, 1.1))


def slow_size(seed: int, path: Path) -> Path:
    """4 % of the 64 KiB operations take 20 ms longer; the device does not care about the others."""
    simulation = Simulation(seed=seed, depth=4, seconds=3.0, typical_us=300.0, sizes=SIZES)
    hit = (simulation.size_index == 1) & (simulation.rng.random(simulation.size_index.shape) < 0.04)
    simulation.stages["device"][hit] += 20e6
    return simulation.write(path)


def slow_thread(seed: int, path: Path) -> Path:
    """2 % of the operations of one of five threads take 20 ms longer in the device."""
    simulation = Simulation(seed=seed, workers=5, depth=1, seconds=4.0, typical_us=400.0)
    hit = simulation.rng.random(simulation.size_index.shape) < 0.02
    hit[np.arange(simulation.slots) != 3] = False
    simulation.stages["device"][hit] += 20e6
    return simulation.write(path)


def any_operation(seed: int, path: Path) -> Path:
    """1 in 100 operations is slow, whatever its size and thread."""
    simulation = Simulation(seed=seed, workers=4, depth=1, seconds=3.0, typical_us=400.0, sizes=SIZES)
    return simulation.tail("device", 0.01, 20).write(path)


def busier_device(seed: int, path: Path) -> Path:
    """One of four drives serves three quarters of all operations and so has most of the slow ones."""
    devices = tuple(f"nvme{number}n1" for number in range(4))
    simulation = Simulation(seed=seed, depth=4, seconds=3.0, typical_us=400.0, devices=devices)
    simulation.device_index[simulation.rng.random(simulation.device_index.shape) < 0.67] = 2
    return simulation.tail("device", 0.01, 20).write(path)


def paused_mixed_sizes(seed: int, path: Path) -> Path:
    """All of the device pauses for 60 ms, thirty times; one read in ten is of 1 MiB and takes twelve times as long, so that more than half of what is
    in flight at any moment is large: a pause hits what is there."""
    sizes = ((4096, 0.9, 1.0), (1 << 20, 0.1, 12.0))
    simulation = Simulation(seed=seed, depth=1, workers=1, seconds=6.0, typical_us=250.0, sizes=sizes)
    moments = np.sort(np.random.default_rng([seed, 83]).uniform(0.05, 5.9, 30))
    return simulation.stall("device", list(moments), 60).write(path)


def slow_flushes(seed: int, path: Path) -> Path:
    """A key-value store: it reads 4 KiB, writes records of any length to its log, and syncs the log after each. One flush in twenty takes 15 ms
    longer: only what is synced waits for flushes, and only the log has lengths and places that are no multiples of 4 KiB."""
    rng = np.random.default_rng([seed, 84])
    count = 6_000
    kind = rng.choice(3, count, p=(0.6, 0.2, 0.2))
    offset = np.where(
        kind == 1, np.cumsum(rng.integers(90, 900, count)) + 13, rng.integers(0, 1 << 18, count) * 4096
    )
    size = np.where(kind == 1, rng.integers(90, 900, count), 4096)
    device = np.select([kind == 0, kind == 1], [90e3, 350e3], 60e3) * np.exp(rng.normal(0, 0.2, count))
    device += np.where((kind == 1) & (rng.random(count) < 0.05), 15e6, 0.0)
    device = device.astype(np.int64)
    start = np.cumsum(device + 22_000) - device
    file = np.select([kind == 0, kind == 1], ["/data/000007.sst", "/data/000009.log"], "/data/000008.sst")
    flags = np.select([kind == 0, kind == 1], [256, 1], 0)
    common = {
        "start_ns": start,
        "op": np.where(kind == 0, "read", "write"),
        "offset_bytes": offset,
        "size_bytes": size,
        "device": ["nvme0n1"] * count,
        "comm": ["kvstore"] * count,
        "tid": [101] * count,
        "queue_depth": [1] * count,
        "device_ns": device,
    }
    app = {
        **common,
        "op_id": APP_ID_BASE + np.arange(count),
        "latency_ns": device + 2_000,
        "fs_ns": np.full(count, 1_000),
        "reap_ns": np.full(count, 1_000),
        "file": file,
        "flags": flags,
    }
    block = {
        **common,
        "op_id": BLOCK_ID_BASE + np.arange(count),
        "latency_ns": device,
        "flags": np.where(kind == 1, 1 | 128, 1),
        "offset_bytes": offset // 512 * 512,
        "size_bytes": (size + 511) // 512 * 512,
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    meta = {"duration_ns": int(start[-1]) + 20_000_000}
    return write_case(path, app=app, block=block, links=links, meta=meta)
