"""Sealed cases of a virtual machine whose CPUs the hypervisor gives to others at times; and look-alikes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.synth import APP_ID_BASE, write_case

SECONDS = 8
SAMPLE_NS = 100_000_000
SAMPLES = SECONDS * 10


def _stolen(seed: int, path: Path, part: float, factor: float, busier: float = 1.0) -> Path:
    """Now and then `part` of the wanted CPU time is stolen for some tenths of a second; operations take `factor` times as long then, and
    are `busier` times as many."""
    rng = np.random.default_rng([seed, 61])
    away = np.zeros(SAMPLES, np.bool_)
    for begin in range(4, SAMPLES - 8, 12):
        first = begin + int(rng.integers(0, 6))
        away[first : first + int(rng.integers(2, 5))] = True
    count = 1000 * SECONDS
    chance = np.where(away, busier, 1.0)
    tenth = rng.choice(SAMPLES, count, p=chance / chance.sum())
    start = np.sort(tenth * SAMPLE_NS + rng.integers(0, SAMPLE_NS, count))
    slower = np.where(away[np.minimum(SAMPLES - 1, start // SAMPLE_NS)], factor, 1.0)
    fs, device, reap = (mean * 1e3 * slower * rng.lognormal(0, 0.3, count) for mean in (20, 200, 30))
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": sum(stage.astype(np.int64) for stage in (fs, device, reap)),
        "fs_ns": fs.astype(np.int64),
        "device_ns": device.astype(np.int64),
        "reap_ns": reap.astype(np.int64),
        "size_bytes": [4096] * count,
        "queue_depth": [1] * count,
        "tid": [101] * count,
        "device": ["vda"] * count,
    }
    wanted = rng.uniform(0.5, 0.7, SAMPLES)
    values = np.concatenate((wanted, np.where(away, part, 0.0) * wanted))
    series = {
        "time_ns": np.tile((np.arange(SAMPLES) + 1) * SAMPLE_NS, 2),
        "host": ["vm"] * 2 * SAMPLES,
        "kind": ["cpu"] * 2 * SAMPLES,
        "subject": ["all"] * 2 * SAMPLES,
        "metric": ["wanted_ratio"] * SAMPLES + ["steal_ratio"] * SAMPLES,
        "value": values,
    }
    meta = {"duration_ns": SECONDS * 10**9}
    return write_case(path, app=app, tables={"series": pa.table(series)}, meta=meta, devices=("vda",))


def stolen_cpus(seed: int, path: Path) -> Path:
    """Half of the wanted time is stolen then, and operations take twice as long."""
    return _stolen(seed, path, 0.5, 2.0)


def harmless_steal(seed: int, path: Path) -> Path:
    """Operations take as long as ever: what was stolen was not needed for them."""
    return _stolen(seed, path, 0.3, 1.0)


def hardly_stolen(seed: int, path: Path) -> Path:
    """One part in a hundred: not worth a word."""
    return _stolen(seed, path, 0.01, 1.0)


def load_that_wants_more(seed: int, path: Path) -> Path:
    """Twice as many operations at a time: they are slower for their number, and the machine wants more CPU than it gets."""
    return _stolen(seed, path, 0.3, 1.5, busier=2.0)
