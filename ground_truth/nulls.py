"""Null worlds: what a test looks for is absent, and all else is as nasty as in practice.

One `World` serves all tests: operations of several threads on several devices, as columns. A family says what is nasty: load in bursts, heavy tails,
stalls that hit what is in flight, mixed sizes, several programs, a file in pieces on a disk whose service time does not depend on place, drives that are
slower by their role on every host. What happens beside the operations (silences, errors, guests, presence) is drawn without looking at their latencies, at moments that
the load chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SECONDS = 20
SPAN_NS = SECONDS * 10**9
MIB = 1 << 20


@dataclass(frozen=True)
class Family:
    """What is nasty in a world, in words and in numbers."""

    what: str
    #: Part of the operations that come in bursts.
    bursts: float = 0.0
    #: Tail index of the service times (0: log-normal, sigma 0.3).
    tail_index: float = 0.0
    stalls: int = 0
    #: Part of the operations that is of 1 MiB, and takes ten times as long.
    large: float = 0.0
    programs: int = 1
    #: Slow phases: how far the service time wanders (standard deviation of its log).
    wander: float = 0.0


FAMILIES: dict[str, Family] = {
    "quiet": Family("Poisson arrivals, log-normal latencies"),
    "bursts": Family("nine tenths of the operations come in bursts of their program", bursts=0.9),
    "heavy_tails": Family("service times with a tail index of 1.3", tail_index=1.3),
    "stalls": Family("all devices pause at thirty moments: who is there waits", stalls=30),
    "mixed_sizes": Family("the same, and one operation in ten is of 1 MiB", stalls=30, large=0.1),
    "programs": Family(
        "the same, of five programs with sizes, files and rates of their own",
        stalls=30,
        large=0.3,
        programs=5,
        bursts=0.5,
    ),
    "wandering": Family(
        "service times wander by a factor of two, load in bursts", wander=0.5, bursts=0.5, tail_index=2.0
    ),
}


@dataclass
class World:
    """Operations in the order of their begin; one array element each."""

    family: str
    seed: int
    start_ns: Ints
    latency_ns: Ints
    #: What each took without the stalls, ns.
    own_ns: Floats
    size_bytes: Ints
    program: Ints
    thread: Ints
    device: Ints
    offset_bytes: Ints
    #: Whether a stall held it.
    held: npt.NDArray[np.bool_]
    stalls_ns: Ints
    rng: np.random.Generator = field(repr=False)

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Ints:
        return self.start_ns + self.latency_ns

    def moments(self, count: int) -> Ints:
        """Moments at which the load is: begins of operations, whatever becomes of them."""
        return np.sort(self.rng.choice(self.start_ns, count, replace=False))

    def depth(self) -> Ints:
        """In flight when each begins, this one included."""
        begun = np.arange(1, len(self) + 1)
        return begun - np.searchsorted(np.sort(self.end_ns), self.start_ns, side="right")


def world(family: str, seed: int, operations: int = 6000, devices: int = 4) -> World:
    """The world of a family with this seed; about so many operations in twenty seconds."""
    kind = FAMILIES[family]
    rng = np.random.default_rng([seed, sorted(FAMILIES).index(family), 120])
    share = rng.dirichlet(np.full(kind.programs, 3.0)) if kind.programs > 1 else np.ones(1)
    parts = [_arrivals(rng, max(200, int(operations * part)), kind.bursts) for part in share]
    start = np.concatenate(parts)
    program = np.repeat(np.arange(kind.programs), [len(part) for part in parts])
    order = np.argsort(start, kind="stable")
    start, program = start[order], program[order]
    count = len(start)
    large = rng.random(count) < kind.large * (2 * rng.random(kind.programs))[program]
    body = rng.pareto(kind.tail_index, count) + 1 if kind.tail_index else np.exp(rng.normal(0, 0.3, count))
    own = 300e3 * body * np.where(large, 10.0, 1.0)
    if kind.wander:
        steps = np.repeat(rng.normal(0, kind.wander, 100), SPAN_NS // 100 // 10**6)
        own *= np.exp(steps[np.minimum(start // 10**6, len(steps) - 1)])
    own = np.minimum(own, 2e9)
    latency = own.copy()
    held = np.zeros(count, np.bool_)
    moments = np.sort(rng.uniform(0, SPAN_NS - 10**8, kind.stalls)).astype(np.int64)
    for moment in moments:
        until = moment + 60_000_000
        there = (start < moment) & (start + latency > moment)
        latency[there] += until - moment
        late = (start >= moment) & (start < until)
        latency[late] += until - start[late]
        held |= there | late
    return World(
        family=family,
        seed=seed,
        start_ns=start,
        latency_ns=latency.astype(np.int64),
        own_ns=own,
        size_bytes=np.where(large, MIB, 4096 << (program % 3)),
        program=program,
        thread=program * 4 + rng.integers(0, 4, count),
        device=rng.choice(devices, count, p=rng.dirichlet(np.full(devices, 4.0))),
        offset_bytes=rng.integers(0, 1 << 18, count) * 4096,
        held=held,
        stalls_ns=moments,
        rng=rng,
    )


def _arrivals(rng: np.random.Generator, count: int, bursts: float) -> Ints:
    """Begins of a program's operations: that part of them in a dozen bursts of 30 ms to 300 ms."""
    inside = int(count * bursts)
    even = rng.uniform(0, SPAN_NS - 10**8, count - inside)
    if not inside:
        return np.sort(even).astype(np.int64)
    at = rng.uniform(0, SPAN_NS - 10**9, 12)
    which = rng.integers(0, 12, inside)
    length = rng.uniform(30e6, 300e6, 12)
    return np.sort(np.concatenate((even, at[which] + rng.random(inside) * length[which]))).astype(np.int64)


@dataclass(frozen=True)
class FleetWorld:
    """Log latencies and loads, hosts by blocks of time by drives."""

    latency: Floats
    load: Floats


FLEETS = {
    "plain": "hosts and drives differ by themselves, load wanders",
    "roles": "the drives of two slots are 8 and 20 % slower, on half of all hosts each",
    "clusters": "three clusters of different drives and work",
    "restless": "noise that lasts for hours, no two drives alike, with heavy tails",
}


def fleet(kind: str, seed: int, hosts: int = 18, drives: int = 6, blocks: int = 120) -> FleetWorld:
    """A fleet in which nothing is wrong."""
    rng = np.random.default_rng([seed, sorted(FLEETS).index(kind), 121])
    cluster = rng.integers(0, 3, hosts) if kind == "clusters" else np.zeros(hosts, np.int64)
    swing = np.array([0.5, 1.0, 2.0])[cluster] if kind == "clusters" else np.ones(hosts)
    day = np.cumsum(rng.normal(0, 0.05, (hosts, blocks)), axis=1) * 0.3 + 0.3 * np.sin(np.arange(blocks) / 4)
    common = day * swing[:, None]
    shape = (hosts, blocks, drives)
    load = 16 + common[:, :, None] + 0.6 * cluster[:, None, None] + rng.normal(0, 0.05, shape)
    latency = (
        4 + 0.35 * common[:, :, None] + 0.5 * cluster[:, None, None] + rng.normal(0, 0.03, (hosts, 1, 1))
    )
    latency = latency + rng.normal(0, 0.015, (hosts, 1, drives)) + rng.normal(0, 0.04, shape)
    if kind == "roles":
        latency[::2, :, 0] += np.log(1.2)
        latency[1::2, :, 1] += np.log(1.08)
    if kind == "restless":
        hours = rng.standard_t(3, (hosts, blocks // 6, drives)) * 0.04
        latency = latency + np.repeat(hours, 6, axis=1)
    return FleetWorld(latency, load)


def pieces(seed: int, random: bool) -> dict[str, Any]:
    """Reads of a file in pieces on a disk whose service time does not depend on place: here and there, or in order. As `layout` reads them."""
    rng = np.random.default_rng([seed, int(random), 122])
    count = 3000
    blocks = rng.integers(0, 1500, count) if random else np.arange(count)
    extent = rng.permutation(count)
    service = 4e6 * np.exp(rng.normal(0, 0.4, count) + 0.5 * np.sin(np.arange(count) / rng.uniform(20, 200)))
    end = np.cumsum(service.astype(np.int64) + 20_000)
    return {
        "op_id": np.arange(count),
        "request": np.arange(count) + 10**6,
        "file": np.full(count, "/data/a"),
        "file_offset": blocks.astype(np.int64) * 4096,
        "file_bytes": np.full(count, 4096),
        "device": np.full(count, "sda"),
        "disk_offset": (extent[blocks // 3] * 12 + blocks % 3).astype(np.int64) * 4096,
        "disk_bytes": np.full(count, 4096),
        "start_ns": end - service.astype(np.int64),
        "latency_ns": service.astype(np.int64),
    }
