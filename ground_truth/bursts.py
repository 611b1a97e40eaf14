"""Sealed cases of stalls that come back: with and without a period."""

from __future__ import annotations

from bisect import bisect
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, Simulation, write_case

SECONDS = 4.0
BURST_S = 0.06


#: The judged program, as the simulation has it.
OWN_PID = 4200


def slowed(
    seed: int,
    path: Path,
    moments: Any,
    factor: float,
    *writers: tuple[str, int, int],
    every: int = 1,
    burst_s: float = BURST_S,
    steady: bool = False,
) -> Path:
    """Operations that begin in a burst take `factor` times as long; `writers` (name, process, bytes of a request) write in the bursts, or only in each
    `every`-th of them; or all the time (`steady`)."""
    simulation = Simulation(seed=seed, depth=4, seconds=SECONDS, typical_us=300.0)
    device = simulation.stages["device"]
    # Before the first one there is none.
    begins = [-np.inf, *sorted(moments)]
    for slot in range(simulation.slots):
        now = 0.0
        for number in range(simulation.count):
            if now - begins[bisect(begins, now) - 1] < burst_s:
                device[slot, number] *= factor
            now += (device[slot, number] + 12_000) / 1e9
    app, block, links = simulation.lay_out()
    for comm, pid, size_bytes in writers:
        start = np.concatenate([np.arange(begin, begin + BURST_S, 0.001) for begin in moments[::every]])
        if steady:
            start = np.sort(np.random.default_rng([seed, 33]).uniform(0, SECONDS, 4_000))
        start = (start[start < SECONDS] * 1e9).astype(np.int64)
        count = len(start)
        extra: dict[str, Any] = {
            "op_id": int(max(block["op_id"])) + 1 + np.arange(count),
            "start_ns": start,
            "latency_ns": np.full(count, 700_000),
            "op": ["write"] * count,
            "offset_bytes": np.arange(count) * size_bytes,
            "size_bytes": np.full(count, size_bytes),
            "device": ["nvme0n1"] * count,
            "pid": np.full(count, pid),
            "tid": np.full(count, pid),
            "comm": [comm] * count,
            "queue_ns": np.full(count, 2_000),
            "device_ns": np.full(count, 695_000),
            "interrupt_ns": np.full(count, 3_000),
            "queue_depth": np.full(count, 4),
        }
        before = len(block["op_id"])
        for name, values in extra.items():
            own = np.broadcast_to(np.asarray(block[name], dtype=object), (before,))
            block[name] = [*own, *values]
        block.update(flags=1, vector=40, complete_cpu=0)
    meta = {"duration_ns": int(SECONDS * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, meta=meta)


def _other(comm: str) -> tuple[str, int, int]:
    return comm, 5002, 131_072


def _regular(seed: int) -> Any:
    return np.random.default_rng([seed, 31]).uniform(0.05, 0.2) + np.arange(0, SECONDS - 0.2, 0.4)


def periodic_job(seed: int, path: Path) -> Path:
    """Every 400 ms another program writes for 60 ms, and everything takes three times as long."""
    return slowed(seed, path, _regular(seed), 3.0, _other("rotate-logs"))


def own_workers(seed: int, path: Path) -> Path:
    """The same, and the judged program has its requests done by workers while it waits."""
    own = ("iou-wrk-4300", OWN_PID, 524_288)
    return slowed(seed, path, _regular(seed), 3.0, _other("rotate-logs"), own)


def periodic_nobody(seed: int, path: Path) -> Path:
    """The same pattern, and nobody is seen to cause it."""
    return slowed(seed, path, _regular(seed), 3.0)


def weak_period(seed: int, path: Path) -> Path:
    """A period that costs almost nothing."""
    return slowed(seed, path, _regular(seed), 1.15, _other("rotate-logs"))


def no_bursts(seed: int, path: Path) -> Path:
    """A wide, natural distribution."""
    return Simulation(seed=seed, depth=4, seconds=2.0, typical_us=300.0, sigma=1.0).write(path)


def even_writer(seed: int, path: Path) -> Path:
    """A program that writes at a period, and slows nobody."""
    return slowed(seed, path, _regular(seed), 1.0, _other("logger"))


def steady_writer(seed: int, path: Path) -> Path:
    """A device that is slow for 1 ms every 8 ms, and a program that writes all the time: most of that lies in a burst or next to one."""
    moments = np.arange(0.1, SECONDS - 0.1, 0.008)
    return slowed(seed, path, moments, 8.0, _other("logger"), burst_s=0.001, steady=True)


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
