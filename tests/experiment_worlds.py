"""Made experiments whose true ratio is known: correlated in time, different from run to run and from round to round, with bursts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whodisk.statistics.repeated import Metric, Run, bin_of, episodes_beyond, per_moment
from whodisk.statistics.stats import Floats, Ints

METRICS = (
    Metric("iops", total="operations", per="seconds", higher_is_better=True),
    Metric("p50", quantile=0.5),
    Metric("p90", quantile=0.9),
    Metric("p99", quantile=0.99),
    Metric("p99.9", quantile=0.999),
    Metric("p99.99", quantile=0.9999),
    Metric("device", total="device", per="operations"),
    Metric("queue", total="queue", per="operations"),
)


@dataclass(frozen=True)
class World:
    """How runs differ and hang together. Spreads are of logarithms of latency."""

    name: str
    #: Correlation of neighbouring moments, and their spread.
    correlation: float = 0.8
    moments_spread: float = 0.15
    #: Spread of runs, and of rounds (both arms of a round share it).
    runs_spread: float = 0.02
    rounds_spread: float = 0.05
    #: Spread of single operations.
    spread: float = 0.5
    #: Bursts per moment, and how many times longer operations take in one.
    bursts: float = 0.3
    burst_factor: float = 20.0
    operations: int = 1500
    moments: int = 60


WORLDS = (
    World("correlated"),
    World("strongly correlated", correlation=0.95, moments_spread=0.3),
    World("runs differ", runs_spread=0.1, rounds_spread=0.0),
    World("a machine that drifts", rounds_spread=0.3),
    World("heavy tails", spread=1.0, bursts=0.6, burst_factor=60.0),
)

MOMENT_NS = 1_000_000_000


@dataclass(frozen=True)
class Drawn:
    """One run, and its operations for counting episodes."""

    run: Run
    start_ns: Ints
    latency_ns: Ints


def draw(world: World, generator: np.random.Generator, round_effect: float, ratio: float) -> Drawn:
    """One run; all latencies are `ratio` times what they are at 1, and a closed loop gets that much less done."""
    shocks = generator.normal(0, 1, world.moments)
    state = np.empty(world.moments)
    last = shocks[0]
    for i, shock in enumerate(shocks):
        last = world.correlation * last + math.sqrt(1 - world.correlation**2) * shock if i else shock
        state[i] = last
    level = round_effect + generator.normal(0, world.runs_spread) + world.moments_spread * state
    rate = world.operations / world.moments * np.exp(-level) / ratio
    counts = generator.poisson(rate)
    moment = np.repeat(np.arange(world.moments), counts)
    total = len(moment)
    within = generator.random(total)
    usual = 1e5 * np.exp(level[moment] + world.spread * generator.normal(0, 1, total)) * ratio
    bursts = generator.poisson(world.bursts, world.moments)
    # A burst is a twentieth of its moment, and whoever begins in it is late together.
    begin = generator.random(world.moments) * 0.95
    hit = (bursts[moment] > 0) & (within >= begin[moment]) & (within < begin[moment] + 0.05)
    size = world.burst_factor * generator.pareto(3.0, world.moments) + 1.0
    waited = np.where(hit, usual * size[moment], 0.05 * usual)
    latency = usual + waited
    start = ((moment + within) * MOMENT_NS).astype(np.int64)
    totals = {
        "seconds": np.ones(world.moments),
        "operations": counts.astype(np.float64),
        "latency": per_moment(moment, latency, world.moments),
        "device": per_moment(moment, usual, world.moments),
        "queue": per_moment(moment, waited, world.moments),
    }
    bins = bin_of(latency)
    key, number = np.unique(moment * 1_000_000 + bins, return_counts=True)
    return Drawn(Run(totals, key // 1_000_000, key % 1_000_000, number), start, latency.astype(np.int64))


def side_episodes(drawn: list[Drawn], metrics: tuple[Metric, ...] = METRICS) -> dict[str, int]:
    """Episodes beyond each quantile of a side: at least as many as beyond a higher one."""
    every = np.concatenate([one.latency_ns for one in drawn])
    found: dict[str, int] = {}
    most = 0
    for metric in sorted((m for m in metrics if m.quantile is not None), key=lambda m: -(m.quantile or 0)):
        limit = float(np.quantile(every, metric.quantile or 0))
        here = sum(episodes_beyond(one.start_ns, one.latency_ns, limit) for one in drawn)
        most = max(most, here)
        found[metric.name] = most
    return found


def totals_only(values: Floats) -> Run:
    """A run whose moments hold one operation each, of these latencies."""
    moments = np.arange(len(values))
    totals = {"seconds": np.ones(len(values)), "operations": np.ones(len(values)), "latency": values.copy()}
    return Run(totals, moments, bin_of(values), np.ones(len(values), np.int64))
