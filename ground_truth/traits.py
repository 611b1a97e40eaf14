"""Sealed cases whose slow operations have a trait in common, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import Simulation

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
