"""Sealed cases of one device that pauses, or only seems to."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import Simulation

SECONDS = 1.0


def _device(seed: int) -> Simulation:
    """Sixteen requests under way, 150 us each."""
    return Simulation(seed=seed, workers=2, depth=8, seconds=SECONDS, typical_us=150.0, sigma=0.15)


def _moments(seed: int, count: int) -> list[float]:
    rng = np.random.default_rng([seed, 81])
    return list(np.sort(rng.uniform(0.02, SECONDS - 0.02, count)))


def short_pauses(seed: int, path: Path) -> Path:
    """Everything in flight waits for 0.25 ms, 150 times a second: no operation takes four times as long as usual."""
    return _device(seed).stall("device", _moments(seed, 150), 0.25).write(path)


def long_one_by_one(seed: int, path: Path) -> Path:
    """As many operations take 0.25 ms longer, each by itself: how this device is."""
    return _device(seed).tail("device", 0.025, 0.25).write(path)


def waiting_workers(seed: int, path: Path) -> Path:
    """The same pauses of a loop device: its worker threads had no CPU."""
    loop = Simulation(
        seed=seed, workers=2, depth=8, seconds=SECONDS, typical_us=150.0, sigma=0.15, devices=("loop0",)
    )
    return loop.stall("device", _moments(seed, 150), 0.25).write(path)


def seldom_pauses(seed: int, path: Path) -> Path:
    """The same pauses, but six of them: the 99th percentile knows nothing of them."""
    return _device(seed).stall("device", _moments(seed, 6), 0.25).write(path)
