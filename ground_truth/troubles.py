"""Sealed cases of devices that report errors, with and without consequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.synth import Simulation, write_case

STALL_MS = 300


def _write(
    seed: int, path: Path, stalls: Sequence[float], times: Sequence[float], subject: str = "nvme0n1"
) -> Path:
    simulation = Simulation(seed=seed, depth=4, seconds=6.0, typical_us=400.0)
    simulation.stall("device", stalls, STALL_MS)
    app, block, links = simulation.lay_out()
    events = [
        {
            "time_ns": int(moment * 1e9),
            "kind": kind,
            "subject": subject,
            "detail": "command 17 did not answer",
        }
        for moment in sorted(times)
        for kind in ("timeout", "reset")
    ]
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, events=events, meta=meta)


def _moments(seed: int) -> list[float]:
    rng = np.random.default_rng([seed, 41])
    return [float(number + rng.uniform(0.1, 0.6)) for number in range(6)]


def timeouts(seed: int, path: Path) -> Path:
    """Six times a command does not answer for 300 ms, and the controller is reset."""
    moments = _moments(seed)
    return _write(seed, path, moments, [moment + 0.25 for moment in moments])


def harmless_errors(seed: int, path: Path) -> Path:
    """Errors that nobody notices."""
    return _write(seed, path, [], _moments(seed))


def errors_elsewhere(seed: int, path: Path) -> Path:
    """Another device has the errors."""
    moments = _moments(seed)
    return _write(seed, path, moments, [moment + 0.25 for moment in moments], subject="sdb")


def errors_of_others(seed: int, path: Path) -> Path:
    """A program that nobody asked about waits for a disk that fails its reads; the judged one is on another disk, and well."""
    simulation = Simulation(seed=seed, depth=4, seconds=6.0, typical_us=400.0)
    app, block, links = simulation.lay_out()
    start = np.arange(100_000_000, 6_000_000_000, 60_000_000, dtype=np.int64)
    number = np.arange(len(start))
    device_ns = np.where(number % 3 == 0, 24_000_000, 200_000)
    theirs: dict[str, object] = {
        "op_id": int(block["op_id"].max()) + 1 + number,
        "start_ns": start,
        "latency_ns": device_ns,
        "op": ["read"] * len(start),
        "device": ["sdb"] * len(start),
        "comm": ["backup"] * len(start),
        "offset_bytes": 1_000_000_000 + number * 4096,
        "size_bytes": 4096,
        "queue_depth": 1,
        "queue_ns": 0,
        "device_ns": device_ns,
        "interrupt_ns": 0,
        "pid": 5200,
        "tid": 5200,
    }
    ours = len(block["op_id"])
    both = {
        name: np.concatenate(
            (np.broadcast_to(values, ours), np.broadcast_to(np.asarray(theirs[name]), len(start)))
        )
        for name, values in block.items()
        if name in theirs
    }
    events = [
        {
            "time_ns": int(begin + 24_000_000),
            "kind": "error",
            "subject": "sdb",
            "detail": f"read of 4096 bytes at byte {1_000_000_000 + place * 4096}: I/O error",
        }
        for place, begin in enumerate(start.tolist())
        if place % 3 == 0
    ]
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=both, links=links, events=events, meta=meta)
