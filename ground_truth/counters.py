"""What iostat prints each second of a host's disks: one hangs, and what looks like that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.synth import write_case

SECOND = 1_000_000_000
SAMPLES = 120
DISKS = ("sda", "sdb", "sdc", "sdd", "sde", "sdf")
Floats = npt.NDArray[np.float64]


def _host(seed: int) -> tuple[np.random.Generator, dict[str, dict[str, Floats]]]:
    """Six disks that share a volume's work."""
    rng = np.random.default_rng([seed, 41])
    work = 120 * np.exp(rng.normal(0, 0.3, SAMPLES))
    disks = {}
    for disk in DISKS:
        per_s, latency = (
            np.round(work * np.exp(rng.normal(0, 0.03, SAMPLES))),
            5e6 * np.exp(rng.normal(0, 0.1, SAMPLES)),
        )
        disks[disk] = {
            "operations_per_s": per_s,
            "latency_ns": latency,
            "queue_depth": per_s * latency / 1e9,
            "busy_ratio": np.minimum(1.0, per_s * latency / 1e9),
        }
    return rng, disks


def _write(path: Path, disks: dict[str, dict[str, Floats]], every_s: int = 1) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "time_ns": at * every_s * SECOND,
            "kind": "device",
            "subject": disk,
            "metric": metric,
            "value": float(value),
        }
        for disk, metrics in disks.items()
        for metric, values in metrics.items()
        for at, value in enumerate(values)
        # iostat's mean of no request is none.
        if not (metric == "latency_ns" and metrics["operations_per_s"][at] == 0)
    ]
    return write_case(
        path, tables={"series": rows}, devices=DISKS, meta={"duration_ns": SAMPLES * every_s * SECOND}
    )


def _stuck(disk: dict[str, Floats], chosen: Any, in_flight: float) -> None:
    disk["operations_per_s"][chosen], disk["queue_depth"][chosen], disk["busy_ratio"][chosen] = (
        0.0,
        in_flight,
        1.0,
    )


def hangs(seed: int, path: Path) -> Path:
    """One of six completes nothing for 12 s, with 32 requests in flight."""
    rng, disks = _host(seed)
    begin = int(rng.integers(20, 80))
    _stuck(disks["sdd"], slice(begin, begin + 12), 32.0)
    return _write(path, disks)


def hangs_for_two_samples(seed: int, path: Path) -> Path:
    """sar's archive, a sample every ten minutes: one disk completes nothing in two of them."""
    rng, disks = _host(seed)
    begin = int(rng.integers(20, 80))
    _stuck(disks["sdd"], slice(begin, begin + 2), 32.0)
    return _write(path, disks, 600)


def lost_count(seed: int, path: Path) -> Path:
    """An idle disk, of which the kernel never took one request off its count: in flight and busy all the time, now and then a request."""
    rng, disks = _host(seed)
    _stuck(disks["sdd"], slice(None), 1.0)
    disks["sdd"]["operations_per_s"][rng.random(SAMPLES) < 0.1] = 1.0
    return _write(path, disks)


def idle(seed: int, path: Path) -> Path:
    """A disk has nothing to do for 12 s: nothing completes, and nothing is in flight."""
    rng, disks = _host(seed)
    begin = int(rng.integers(20, 80))
    for name in ("operations_per_s", "queue_depth", "busy_ratio"):
        disks["sdd"][name][begin : begin + 12] = 0.0
    return _write(path, disks)


def one_long_request(seed: int, path: Path) -> Path:
    """A disk that works at one request for two seconds."""
    rng, disks = _host(seed)
    begin = int(rng.integers(20, 80))
    _stuck(disks["sdd"], slice(begin, begin + 2), 1.0)
    return _write(path, disks)
