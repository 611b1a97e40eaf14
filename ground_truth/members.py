"""Sealed cases of devices that ought to be alike: slow ones among them, and what only looks like one.

`fleet` draws sampled series as a monitoring system would hold them: the hosts' load moves all of their devices together,
identical drives differ by 1.5 %, and every sample has its own noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests.synth import Simulation, write_case

PERIOD_NS = 15_000_000_000
Floats = npt.NDArray[np.float64]


@dataclass
class Fleet:
    """Log latencies (us) and log throughputs (B/s), moments by hosts by drives; change them, then `write`."""

    seed: int
    hosts: int = 6
    drives: int = 8
    samples: int = 600
    noise: float = 0.15
    period_ns: int = PERIOD_NS
    latency: Floats = field(init=False)
    load: Floats = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 5])
        self.rng = rng
        shape = (self.samples, self.hosts, self.drives)
        steps = rng.normal(0, 0.05, (self.samples, self.hosts, 1))
        common = np.cumsum(steps, axis=0) * 0.2 + 0.3 * np.sin(np.linspace(0, 9, self.samples))[:, None, None]
        self.load = np.log(2e7) + common + rng.normal(0, 0.2, shape)
        natural = rng.normal(0, 0.015, (1, self.hosts, self.drives))
        host = rng.normal(0, 0.1, (1, self.hosts, 1))
        self.latency = np.log(80.0) + 0.35 * common + natural + host + rng.normal(0, self.noise, shape)

    def write(self, path: Path) -> Path:
        """The case; NaN are missing values."""
        moments, hosts, drives = (index.ravel() for index in np.indices(self.latency.shape))
        columns: dict[str, list[Any]] = {"time_ns": [], "host": [], "subject": [], "metric": [], "value": []}
        for metric, values in (
            ("latency_ns", np.exp(self.latency) * 1e3),
            ("throughput_bytes_per_s", np.exp(self.load)),
        ):
            known = np.isfinite(values.ravel())
            columns["time_ns"].append(moments[known].astype(np.int64) * self.period_ns)
            columns["host"].append(np.char.add("host", hosts[known].astype(str)))
            columns["subject"].append(np.char.add("disk", drives[known].astype(str)))
            columns["metric"].append(np.full(int(known.sum()), metric))
            columns["value"].append(values.ravel()[known])
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        order = np.argsort(joined["time_ns"], kind="stable")
        table = pa.table(
            {
                "time_ns": joined["time_ns"][order],
                "host": joined["host"][order],
                "kind": np.full(len(order), "device"),
                "subject": joined["subject"][order],
                "metric": joined["metric"][order],
                "value": joined["value"][order],
            }
        )
        meta = {"duration_ns": self.samples * self.period_ns, "observer": "import"}
        return write_case(path, tables={"series": table}, meta=meta)

    def some_drive(self) -> tuple[int, int]:
        """A drive of the fleet, by the seed."""
        return int(self.rng.integers(self.hosts)), int(self.rng.integers(self.drives))


def slow_drive(seed: int, path: Path) -> Path:
    """One drive of 48 takes half as long again."""
    fleet = Fleet(seed)
    fleet.latency[:, 2, 3] += np.log(1.5)
    return fleet.write(path)


def slow_at_times(seed: int, path: Path) -> Path:
    """One drive is 40 % slower for a third of the time."""
    fleet = Fleet(seed)
    hours = np.arange(fleet.samples) // 60
    slow = np.isin(hours, fleet.rng.permutation(hours.max() + 1)[: (hours.max() + 1) // 3])
    fleet.latency[slow, 2, 3] += np.log(1.4)
    return fleet.write(path)


def _nightly(seed: int) -> tuple[Fleet, npt.NDArray[np.bool_]]:
    """A sample every four minutes for ten days, and which of them are from 02:00 to 04:00."""
    fleet = Fleet(seed, samples=3600, period_ns=240_000_000_000)
    return fleet, np.arange(fleet.samples) // 15 % 24 // 2 == 1


def slow_every_night(seed: int, path: Path) -> Path:
    """One drive is 25 % slower for two hours of every night: a twelfth of the time."""
    fleet, night = _nightly(seed)
    fleet.latency[night, 2, 3] += np.log(1.25)
    return fleet.write(path)


def busy_every_night(seed: int, path: Path) -> Path:
    """One host works for two hours of every night, and one drive of another one has half as much again to do then: each as slow as
    any would be."""
    fleet, night = _nightly(seed)
    fleet.latency[night, 1, :] += np.log(1.3)
    fleet.load[night, 2, 3] += np.log(1.5)
    fleet.latency[night, 2, 3] += 0.3 * np.log(1.5)
    return fleet.write(path)


def slow_host(seed: int, path: Path) -> Path:
    """All drives of a host become slow together: no drive is to blame."""
    fleet = Fleet(seed, hosts=10)
    fleet.latency[fleet.samples // 3 :, 4, :] += np.log(2.2)
    return fleet.write(path)


def half_load(seed: int, path: Path) -> Path:
    """One drive has half the load of its peers, and answers a little faster."""
    fleet = Fleet(seed)
    fleet.load[:, 2, 3] -= np.log(2)
    fleet.latency[:, 2, 3] -= 0.35 * np.log(2)
    return fleet.write(path)


def double_load(seed: int, path: Path) -> Path:
    """One drive has twice the load of its peers, and is slower as any of them would be."""
    fleet = Fleet(seed)
    fleet.load[:, 2, 3] += np.log(2)
    fleet.latency[:, 2, 3] += 0.3 * np.log(2)
    return fleet.write(path)


def healthy_fleet(seed: int, path: Path) -> Path:
    """Nothing but natural differences, and a tenth of the values missing."""
    fleet = Fleet(seed)
    fleet.latency[fleet.rng.random(fleet.latency.shape) < 0.1] = np.nan
    fleet.load[fleet.rng.random(fleet.load.shape) < 0.1] = np.nan
    return fleet.write(path)


def slow_member_operations(seed: int, path: Path) -> Path:
    """Every operation of one of six drives takes 1.6 times as long: no operation stands out on its own drive."""
    devices = tuple(f"nvme{number}n1" for number in range(6))
    simulation = Simulation(seed=seed, depth=12, seconds=1.5, typical_us=400.0, devices=devices)
    simulation.stages["device"][simulation.device_index == 4] *= 1.6
    return simulation.write(path)


def busier_member(seed: int, path: Path) -> Path:
    """One of six drives serves three times as many operations as the others, none of them slower."""
    devices = tuple(f"nvme{number}n1" for number in range(6))
    simulation = Simulation(seed=seed, depth=12, seconds=1.5, typical_us=400.0, devices=devices)
    moved = simulation.rng.random(simulation.device_index.shape) < 0.25
    simulation.device_index[moved] = 4
    return simulation.write(path)
