"""Sealed cases of devices that ought to be alike: slow ones among them, and what only looks like one.

`fleet` draws sampled series as a monitoring system would hold them: the hosts' load moves all of their devices together,
identical drives differ by 1.5 %, and every sample has its own noise.
"""

from __future__ import annotations

import json
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
    #: How much hosts differ by themselves, and how far their load moves them (standard deviation, times).
    host_spread: float = 0.1
    moved: float = 1.0
    #: The drives of a host are sampled one after the other, this far apart.
    later_ns: int = 0
    latency: Floats = field(init=False)
    load: Floats = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 5])
        self.rng = rng
        shape = (self.samples, self.hosts, self.drives)
        steps = rng.normal(0, 0.05, (self.samples, self.hosts, 1))
        common = np.cumsum(steps, axis=0) * 0.2 + 0.3 * np.sin(np.linspace(0, 9, self.samples))[:, None, None]
        common = common * self.moved
        self.load = np.log(2e7) + common + rng.normal(0, 0.2, shape)
        natural = rng.normal(0, 0.015, (1, self.hosts, self.drives))
        host = rng.normal(0, self.host_spread, (1, self.hosts, 1))
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
            time_ns = moments[known].astype(np.int64) * self.period_ns + drives[known] * self.later_ns
            columns["time_ns"].append(time_ns)
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
    """One drive takes half as long again for a third of the time."""
    fleet = Fleet(seed)
    hours = np.arange(fleet.samples) // 60
    slow = np.isin(hours, fleet.rng.permutation(hours.max() + 1)[: (hours.max() + 1) // 3])
    fleet.latency[slow, 2, 3] += np.log(1.5)
    return fleet.write(path)


def slow_half_way_of_four(seed: int, path: Path) -> Path:
    """One of four drives, all that there are, takes three times as long from 60 % of the time on."""
    fleet = Fleet(seed, hosts=1, drives=4)
    fleet.latency[360:, 0, 2] += np.log(3)
    return fleet.write(path)


def bad_moments_of_four(seed: int, path: Path) -> Path:
    """Each of four drives has a bad quarter of an hour, at a moment of its own, and how long they take wanders by a tenth."""
    fleet = Fleet(seed, hosts=1, drives=4)
    wander = np.repeat(fleet.rng.normal(0, 0.1, (15, 4)), 40, axis=0)
    fleet.latency[:, 0] += wander
    for drive, moment in enumerate(fleet.rng.permutation(fleet.samples // 60)[:4]):
        fleet.latency[moment * 60 :, 0, drive][:60] += np.log(3)
    return fleet.write(path)


def _nightly(seed: int) -> tuple[Fleet, npt.NDArray[np.bool_]]:
    """A sample every four minutes for ten days, and which of them are from 02:00 to 04:00."""
    fleet = Fleet(seed, samples=3600, period_ns=240_000_000_000)
    return fleet, np.arange(fleet.samples) // 15 % 24 // 2 == 1


def slow_every_night(seed: int, path: Path) -> Path:
    """One drive is four times as slow for two hours of every night: a twelfth of the time."""
    fleet, night = _nightly(seed)
    fleet.latency[night, 2, 3] += np.log(4)
    return fleet.write(path)


def watched_every_night(seed: int, path: Path) -> Path:
    """One drive is 25 % slower then, which costs it 2 % of its time."""
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


def host_hardly_slow(seed: int, path: Path) -> Path:
    """All drives of a host take 35 % longer for a quarter of the time, which costs 8 % of it: the host is watched."""
    fleet = Fleet(seed, hosts=16, drives=6, samples=1800)
    fleet.latency[np.arange(fleet.samples) // 60 % 4 == 0, 4, :] += np.log(1.35)
    return fleet.write(path)


def busy_host(seed: int, path: Path) -> Path:
    """All drives of a host get three times as much to do, and are slower as those of any host would be."""
    fleet = Fleet(seed, hosts=10)
    fleet.load[fleet.samples // 3 :, 4, :] += np.log(3)
    fleet.latency[fleet.samples // 3 :, 4, :] += 0.35 * np.log(3)
    return fleet.write(path)


def _clusters(seed: int, hosts: tuple[int, int, int] = (16, 13, 11)) -> Fleet:
    """Three clusters of different drives and work: their levels of latency and load, and how far the load moves them."""
    parts = [
        Fleet(seed * 3 + number, hosts=count, samples=400, host_spread=0.03, moved=moved)
        for number, (count, moved) in enumerate(zip(hosts, (0.6, 1.0, 2.5), strict=True))
    ]
    for part, latency, load in zip(parts, (0.0, 0.9, 0.35), (0.0, 0.4, 1.2), strict=True):
        part.latency += latency
        part.load += load
    whole = Fleet(seed, hosts=sum(hosts), samples=400)
    whole.latency = np.concatenate([part.latency for part in parts], axis=1)
    whole.load = np.concatenate([part.load for part in parts], axis=1)
    return whole


def slow_hosts_of_clusters(seed: int, path: Path) -> Path:
    """All drives of a host of the first cluster are 1.4 times as slow, always: no faster than those of the second cluster are."""
    fleet = _clusters(seed)
    fleet.latency[:, 5, :] += np.log(1.4)
    return fleet.write(path)


def three_clusters(seed: int, path: Path) -> Path:
    """Hosts of three clusters, and nothing wrong with any."""
    return _clusters(seed).write(path)


def few_of_each(seed: int, path: Path) -> Path:
    """The same with four to six hosts of each: nobody has peers enough."""
    return _clusters(seed, (6, 4, 5)).write(path)


def slow_roles(seed: int, path: Path) -> Path:
    """The drives in one slot are 20 % slower, and those in another 8 %, on half of all hosts: they have other work there."""
    fleet = Fleet(seed, hosts=18)
    fleet.latency[:, ::2, 0] += np.log(1.2)
    fleet.latency[:, 1::2, 1] += np.log(1.08)
    return fleet.write(path)


def hardly_slow(seed: int, path: Path) -> Path:
    """One drive is 8 % slower on average and 14 % in its slow third: it is watched."""
    fleet = Fleet(seed, hosts=8, drives=12, samples=3000, noise=0.08)
    slow = (np.arange(fleet.samples) // 120) % 3 == 0
    fleet.latency[:, 2, 3] += np.where(slow, np.log(1.14), np.log(1.05))
    return fleet.write(path)


def half_load(seed: int, path: Path) -> Path:
    """One drive has half the load of its peers, and answers a little faster."""
    fleet = Fleet(seed)
    fleet.load[:, 2, 3] -= np.log(2)
    fleet.latency[:, 2, 3] -= 0.35 * np.log(2)
    return fleet.write(path)


def next_to_idle(seed: int, path: Path) -> Path:
    """One drive has a fiftieth of the load of its peers, and what little it is asked takes three times as long at times: it has to wake for it."""
    fleet = Fleet(seed)
    fleet.load[:, 2, 3] -= np.log(50)
    fleet.latency[:, 2, 3] += np.where(fleet.rng.random(fleet.samples) < 0.6, np.log(3), 0.0)
    return fleet.write(path)


def slow_and_asked_less(seed: int, path: Path) -> Path:
    """One drive is eight times as slow, and those who wait for it ask it an eighth: as much is in flight there as at its peers."""
    fleet = Fleet(seed)
    fleet.load[:, 2, 3] -= np.log(8)
    fleet.latency[:, 2, 3] += np.log(8)
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


def slow_disk_by_letters(seed: int, path: Path) -> Path:
    """The same with disks that have letters, no numbers: what they are makes them peers, not how they are called."""
    return _four_disks(seed, path, {})


def slow_virtual_disk(seed: int, path: Path) -> Path:
    """The same with virtual disks, which have no model."""
    return _four_disks(seed, path, {}, prefix="vd", driver="virtio_blk", model="")


def slow_other_model(seed: int, path: Path) -> Path:
    """The slow one of four disks is another model: nobody knows what it ought to take."""
    return _four_disks(seed, path, {"facts": {"driver": "sd", "vendor": "ATA", "model": "ST4000DM004"}})


def slow_other_size(seed: int, path: Path) -> Path:
    """The slow one of four disks is twice as large."""
    return _four_disks(seed, path, {"size_bytes": 2 << 40})


def slow_other_medium(seed: int, path: Path) -> Path:
    """The slow one of four disks rotates, and is called as the others."""
    return _four_disks(seed, path, {"queue": {"rotational": "1"}})


def slow_other_role(seed: int, path: Path) -> Path:
    """The slow one of four disks is in no volume; the others are."""
    volume = {"name": "md0", "dev": 9 << 20, "size_bytes": 3 << 40, "queue": {}}
    members = {"facts": {"driver": "md", "members": "sda1 sdb1 sdd1"}}
    return _four_disks(seed, path, {}, more={"md0": volume | members})


def slow_unknown_disks(seed: int, path: Path) -> Path:
    """Nothing is known of the disks but their names."""
    return _four_disks(seed, path, {}, facts_known=False)


def _four_disks(
    seed: int,
    path: Path,
    of_the_slow: dict[str, Any],
    *,
    prefix: str = "sd",
    driver: str = "sd",
    model: str = "ST8000NM0055",
    more: dict[str, Any] | None = None,
    facts_known: bool = True,
) -> Path:
    """Four disks of which the third takes 1.6 times as long; what `system.json` says of that one is changed."""
    devices = tuple(f"{prefix}{letter}" for letter in "abcd")
    simulation = Simulation(seed=seed, depth=12, seconds=1.5, typical_us=400.0, devices=devices)
    simulation.stages["device"][simulation.device_index == 2] *= 1.6
    case = simulation.write(path)
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    for device in devices:
        facts = {"driver": driver, "vendor": "ATA", "model": model, "partitions": f"{device}1"}
        if not model:
            facts = {"driver": driver}
        known = {"queue": {"rotational": "0"}, "facts": facts}
        system["devices"][device] |= known if facts_known else {"size_bytes": 0}
    system["devices"][devices[2]] |= of_the_slow
    system["devices"] |= more or {}
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case
