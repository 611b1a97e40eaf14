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
