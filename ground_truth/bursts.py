"""Sealed cases of stalls that come back: with and without a period."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, Simulation, write_case

SECONDS = 4.0
BURST_S = 0.06


def _slowed(seed: int, path: Path, moments: Any, factor: float, comm: str | None = None) -> Path:
    """Operations that begin in a burst take `factor` times as long; `comm` writes in the bursts."""
    simulation = Simulation(seed=seed, depth=4, seconds=SECONDS, typical_us=300.0)
    device = simulation.stages["device"]
    for slot in range(simulation.slots):
        now = 0.0
        for number in range(simulation.count):
            if any(begin <= now < begin + BURST_S for begin in moments):
                device[slot, number] *= factor
            now += (device[slot, number] + 12_000) / 1e9
    app, block, links = simulation.lay_out()
    if comm is not None:
        start = np.concatenate([np.arange(begin, begin + BURST_S, 0.001) for begin in moments])
        start = (start[start < SECONDS] * 1e9).astype(np.int64)
        count = len(start)
        extra: dict[str, Any] = {
            "op_id": int(max(block["op_id"])) + 1 + np.arange(count),
            "start_ns": start,
            "latency_ns": np.full(count, 700_000),
            "op": ["write"] * count,
            "offset_bytes": np.arange(count) * 131_072,
            "size_bytes": np.full(count, 131_072),
            "device": ["nvme0n1"] * count,
            "pid": np.full(count, 5002),
            "tid": np.full(count, 5002),
            "comm": [comm] * count,
            "queue_ns": np.full(count, 2_000),
            "device_ns": np.full(count, 695_000),
            "interrupt_ns": np.full(count, 3_000),
            "queue_depth": np.full(count, 4),
        }
        for name, values in extra.items():
            own = np.broadcast_to(np.asarray(block[name], dtype=object), (len(app["op_id"]),))
            block[name] = [*own, *values]
        block.update(flags=1, vector=40, complete_cpu=0)
    meta = {"duration_ns": int(SECONDS * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, meta=meta)


def _regular(seed: int) -> Any:
    return np.random.default_rng([seed, 31]).uniform(0.05, 0.2) + np.arange(0, SECONDS - 0.2, 0.4)


def periodic_job(seed: int, path: Path) -> Path:
    """Every 400 ms another program writes for 60 ms, and everything takes three times as long."""
    return _slowed(seed, path, _regular(seed), 3.0, "rotate-logs")


def periodic_nobody(seed: int, path: Path) -> Path:
    """The same pattern, and nobody is seen to cause it."""
    return _slowed(seed, path, _regular(seed), 3.0)


def weak_period(seed: int, path: Path) -> Path:
    """A period that costs almost nothing."""
    return _slowed(seed, path, _regular(seed), 1.15, "rotate-logs")


def no_bursts(seed: int, path: Path) -> Path:
    """A wide, natural distribution."""
    return Simulation(seed=seed, depth=4, seconds=2.0, typical_us=300.0, sigma=1.0).write(path)


def even_writer(seed: int, path: Path) -> Path:
    """A program that writes at a period, and slows nobody."""
    return _slowed(seed, path, _regular(seed), 1.0, "logger")


def brief_waits(seed: int, path: Path) -> Path:
    """Few operations a second, and once a second one waits 3 ms for its CPU: its neighbours in time are as quick as ever."""
    rng = np.random.default_rng([seed, 32])
    count, seconds = 8000, 8
    start = np.sort(rng.integers(0, seconds * 10**9, count))
    late = np.searchsorted(start, (rng.uniform(0.1, 0.9) + np.arange(seconds)) * 1e9).clip(0, count - 1)
    reap = np.full(count, 4_000)
    reap[late] += 3_000_000
    device = (40_000 * np.exp(rng.normal(0, 0.1, count))).astype(np.int64)
    app: dict[str, Any] = {
        "op_id": APP_ID_BASE | np.arange(count),
        "start_ns": start,
        "latency_ns": device + reap + 1_000,
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_depth": 1,
        "tid": 4300,
        "comm": "worker-0",
        "app_ns": np.zeros(count, np.int64),
        "fs_ns": np.full(count, 1_000),
        "queue_ns": np.zeros(count, np.int64),
        "device_ns": device,
        "interrupt_ns": np.zeros(count, np.int64),
        "reap_ns": reap,
    }
    return write_case(path, app=app, meta={"duration_ns": seconds * 10**9})
