"""Ratios between two sets of repeated runs, with intervals that respect repetition and autocorrelation.

What lies in one run is alike, and what is near in time is alike. So whole repetitions are drawn anew (a bootstrap with runs as blocks) where
a side has `RUNS_MIN` of them; where it has fewer, blocks of time inside its runs are, and the answer speaks of these runs only. The
interval is Student's around the logarithm of the ratio: with five blocks the bootstrap's own percentiles cover the truth in about 83 % of trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whodisk.statistics import probability
from whodisk.statistics.autocorrelation import block_length
from whodisk.statistics.stats import SEED, Bools, Floats, Ints

#: Bins of a latency histogram per octave; neighbours differ by 0.27 %, and quantiles are interpolated inside a bin.
BINS_PER_OCTAVE = 256
#: Runs a side from which on the spread between runs is known.
RUNS_MIN = 3
#: A quantile needs this many episodes beyond it on each side.
EPISODES_MIN = 10
#: Resamplings.
ROUNDS = 400
#: Blocks of time that a single run is cut into: at least, or there is no interval, and at most.
BLOCKS_MIN, BLOCKS_MAX = 8, 60
#: Chance with which the smallest effect would have been seen.
POWER = 0.8
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Metric:
    """A number of a run: a quantile of its values, or one total over another."""

    name: str
    #: 0 to 1 for a quantile; else None, and the metric is `total` over `per`.
    quantile: float | None = None
    total: str = ""
    per: str = ""
    higher_is_better: bool = False


@dataclass(frozen=True)
class Run:
    """One run, cut into moments of equal length.

    `totals` hold one number per moment each (`seconds` and `operations` among them); the histogram is a list of (moment, bin, how many), ordered by
    nothing; `bin` is `bin_of` a value. `episodes` says how many separate episodes lie beyond a quantile of all runs of its side.
    """

    totals: dict[str, Floats]
    moment: Ints
    bin: Ints
    number: Ints

    @property
    def moments(self) -> int:
        """How many."""
        return len(self.totals["seconds"])


@dataclass(frozen=True)
class Ratio:
    """What is known of one metric: both sides' values, their ratio (second over first), and how sure that is."""

    metric: Metric
    first: float
    second: float
    ratio: float
    #: 95 % interval of `ratio`.
    low: float
    high: float
    #: Probability of so large a ratio, or so small, if both sides were the same.
    p_value: float
    #: The smallest change (0.05 = 5 %) that would have been seen with `POWER`.
    smallest_effect: float
    degrees: float
    #: Whether it speaks of these runs only, and not of others like them.
    these_runs_only: bool
    #: Why there is no ratio; empty if there is one.
    missing: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is a ratio with an interval."""
        return not self.missing


def bin_of(values: Floats | Ints) -> Ints:
    """Bin of each value; values below 1 share the lowest."""
    return np.asarray(np.floor(np.log2(np.maximum(values, 1)) * BINS_PER_OCTAVE), np.int64)


def per_moment(moment: Ints, values: Floats, moments: int) -> Floats:
    """Sum of the values of each moment."""
    return np.asarray(np.bincount(moment, values, moments), np.float64)


def low_edge(bins: Ints | Floats) -> Floats:
    """The smallest value of a bin."""
    return np.asarray(np.exp2(np.asarray(bins, np.float64) / BINS_PER_OCTAVE), np.float64)


@dataclass(frozen=True)
class _Units:
    """What is drawn anew: runs, or blocks of time inside runs. `group`: only units of one group stand for each other."""

    totals: dict[str, Floats]
    group: Ints
    bins: Ints
    #: [unit, place]: values of the unit in all bins up to this one.
    passed: Floats
    is_runs: bool

    @property
    def degrees(self) -> int:
        return len(self.group) - len(np.unique(self.group))


def _units(runs: Sequence[Run], names: Sequence[str], by_run: bool, has_quantiles: bool) -> _Units:
    units = [np.zeros(run.moments, np.int64) if by_run else _blocks(run) for run in runs]
    begins = np.cumsum([0, *(int(unit[-1]) + 1 for unit in units)])
    groups = (
        [np.zeros(len(runs), np.int64)]
        if by_run
        else [np.full(int(u[-1]) + 1, i) for i, u in enumerate(units)]
    )
    totals = {
        name: np.concatenate([np.bincount(u, run.totals[name]) for u, run in zip(units, runs, strict=True)])
        for name in names
    }
    group = np.concatenate(groups)
    if not has_quantiles:
        return _Units(totals, group, np.zeros(0, np.int64), np.zeros((len(group), 0)), by_run)
    bins, place = np.unique(np.concatenate([run.bin for run in runs]), return_inverse=True)
    row = np.concatenate([begins[i] + units[i][run.moment] for i, run in enumerate(runs)]).astype(np.int64)
    counts = np.zeros((int(begins[-1]), max(1, len(bins))))
    np.add.at(counts, (row, place), np.concatenate([run.number for run in runs]))
    return _Units(totals, group, bins, np.cumsum(counts, axis=1), by_run)


def _blocks(run: Run) -> Ints:
    """The block of each moment: long enough that neighbours have little to do with each other."""
    moments = run.moments
    operations = run.totals["operations"]
    worth = np.where(operations > 0, run.totals["latency"] / np.maximum(operations, 1), np.nan)
    # A moment without an operation says nothing of how long one takes: it counts like the others.
    worth = np.log(np.where(np.isfinite(worth) & (worth > 0), worth, np.nanmedian(worth)))
    length = max(block_length(worth), block_length(operations))
    count = int(np.clip(moments // max(1, math.ceil(length)), min(BLOCKS_MIN, moments), BLOCKS_MAX))
    return np.minimum(np.arange(moments) * count // moments, count - 1).astype(np.int64)


def _draws(units: _Units, generator: np.random.Generator) -> Floats:
    """Weights [round, unit]: how often each unit is drawn, group by group."""
    weights = np.empty((ROUNDS, len(units.group)))
    for group in np.unique(units.group):
        inside = np.flatnonzero(units.group == group)
        weights[:, inside] = generator.multinomial(len(inside), np.full(len(inside), 1 / len(inside)), ROUNDS)
    return weights


def _values(units: _Units, weights: Floats, metric: Metric) -> Floats:
    """The metric in each round."""
    if metric.quantile is not None:
        return _quantiles(units, weights, metric.quantile)
    below = weights @ units.totals[metric.per]
    return np.asarray(weights @ units.totals[metric.total] / np.where(below > 0, below, np.nan), np.float64)


def _quantiles(units: _Units, weights: Floats, quantile: float) -> Floats:
    """The quantile of each round: found by halving among the bins, and interpolated inside its bin."""
    passed = units.passed
    if not len(units.bins):
        return np.full(len(weights), np.nan)
    target = quantile * (weights @ passed[:, -1])
    low, high = np.zeros(len(weights), np.int64), np.full(len(weights), passed.shape[1] - 1)
    while np.any(low < high):
        middle = (low + high) // 2
        reached = np.einsum("ru,ur->r", weights, passed[:, middle]) >= target
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    at = np.einsum("ru,ur->r", weights, passed[:, low])
    before = np.where(low > 0, np.einsum("ru,ur->r", weights, passed[:, np.maximum(low - 1, 0)]), 0.0)
    part = np.clip((target - before) / np.maximum(at - before, 1e-12), 0.0, 1.0)
    return low_edge(units.bins[low] + part)


def names_of(metrics: Sequence[Metric]) -> list[str]:
    """Totals that these metrics need."""
    used = {name for metric in metrics for name in (metric.total, metric.per) if name}
    return sorted(used | {"seconds", "operations", "latency"})


def value(runs: Sequence[Run], metric: Metric) -> float:
    """The metric over all runs of a side; NaN if there is nothing."""
    units = _units(runs, names_of([metric]), True, metric.quantile is not None)
    return float(_values(units, np.ones((1, len(runs))), metric)[0])


def compare(
    first: Sequence[Run],
    second: Sequence[Run],
    metrics: Sequence[Metric],
    *,
    paired: bool = False,
    episodes: tuple[dict[str, int], dict[str, int]] | None = None,
    level: float = CONFIDENCE,
) -> list[Ratio]:
    """One ratio per metric, second side over first.

    `paired`: run i of both sides belongs to the same round of an experiment with rounds that differ (a machine that drifts); the ratio of each round counts.
    `level`: of the first metric's interval (`stopping.Rule.level`: a rule that looked at it decided how many runs there are); all others have `CONFIDENCE`.
    `episodes`: how many lie beyond each quantile on each side, by the metric's name; fewer than `EPISODES_MIN` is "not estimable".
    Raises ValueError if a side is empty, or pairs do not match.
    """
    if not first or not second or (paired and len(first) != len(second)):
        raise ValueError(
            f"runs: expected some on each side, as many if paired; found {len(first)} and {len(second)}"
        )
    generator = np.random.default_rng(SEED)
    names = names_of(metrics)
    has_quantiles = any(metric.quantile is not None for metric in metrics)
    sides = [_units(runs, names, len(runs) >= RUNS_MIN, has_quantiles) for runs in (first, second)]
    paired = paired and len(first) >= RUNS_MIN
    weights = [_draws(side, generator) for side in sides]
    if paired:
        weights[1] = weights[0]
    levels = [level, *(CONFIDENCE for _ in metrics[1:])]
    return [
        _ratio(metric, sides, weights, paired, episodes, own)
        for metric, own in zip(metrics, levels, strict=True)
    ]


def _ratio(
    metric: Metric,
    sides: list[_Units],
    weights: list[Floats],
    paired: bool,
    episodes: tuple[dict[str, int], dict[str, int]] | None,
    level: float,
) -> Ratio:
    whole = [float(_values(side, np.ones((1, len(side.group))), metric)[0]) for side in sides]
    only = not all(side.is_runs for side in sides)
    missing = _missing(metric, sides, whole, episodes)
    if missing:
        nothing = math.nan
        return Ratio(metric, whole[0], whole[1], nothing, nothing, nothing, 1.0, nothing, 0.0, only, missing)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(_values(side, weight, metric)) for side, weight in zip(sides, weights, strict=True)]
    error, degrees = _spread(logs, sides, paired)
    center = math.log(whole[1] / whole[0])
    reach = probability.student_quantile(0.5 + level / 2, degrees)
    half = reach * error
    p_value = 2 * probability.student_above(abs(center) / error, degrees) if error > 0 else float(center == 0)
    seen = (reach + probability.student_quantile(POWER, degrees)) * error
    return Ratio(
        metric,
        whole[0],
        whole[1],
        math.exp(center),
        math.exp(center - half),
        math.exp(center + half),
        p_value,
        math.expm1(min(seen, 50.0)),
        degrees,
        only,
    )


def _missing(
    metric: Metric,
    sides: list[_Units],
    whole: list[float],
    episodes: tuple[dict[str, int], dict[str, int]] | None,
) -> str:
    """Why there is no ratio, in words; empty if there is one."""
    if metric.quantile is not None and episodes is not None:
        fewest = min(side.get(metric.name, 0) for side in episodes)
        if fewest < EPISODES_MIN:
            return f"not estimable: {fewest} episodes beyond it, {EPISODES_MIN} are needed on each side"
    if not all(math.isfinite(number) for number in whole):
        return "not observed"
    if not all(number > 0 for number in whole):
        return "zero on both sides" if not any(number > 0 for number in whole) else "zero on one side"
    if any(side.degrees < 2 for side in sides):
        return "too short: a single run needs three blocks of time or more"
    return ""


def _spread(logs: list[Floats], sides: list[_Units], paired: bool) -> tuple[float, float]:
    """Standard error of the logarithm of the ratio, and its degrees of freedom (Welch and Satterthwaite)."""
    if paired:
        return _corrected(logs[1] - logs[0], sides[0]), float(sides[0].degrees)
    variances = [_corrected(log, side) ** 2 for log, side in zip(logs, sides, strict=True)]
    total = sum(variances)
    if total == 0:
        return 0.0, float(sum(side.degrees for side in sides))
    below = sum(v**2 / side.degrees for v, side in zip(variances, sides, strict=True))
    return math.sqrt(total), total**2 / below


def _corrected(logs: Floats, side: _Units) -> float:
    """The spread of the rounds; n units drawn from n spread by (n - 1) / n too little (Davison and Hinkley 1997, 3.8)."""
    finite: Bools = np.isfinite(logs)
    if finite.sum() < 2:
        return 0.0
    return float(np.std(logs[finite])) * math.sqrt(len(side.group) / max(1, side.degrees))


#: A chain of operations that overlap is cut into episodes of this many times their typical length.
EPISODE_LENGTH = 4.0


def episodes_beyond(start_ns: Ints, latency_ns: Ints, limit_ns: float) -> int:
    """Separate episodes of a run in which operations took longer than `limit_ns`.

    Where many are in flight, those that are slow each by itself overlap without end. So time is cut into pieces four times as long as the
    median of them, and what begins in one piece and overlaps is one episode.
    """
    beyond = latency_ns > limit_ns
    if not beyond.any():
        return 0
    order = np.argsort(start_ns[beyond], kind="stable")
    starts, ends = start_ns[beyond][order], (start_ns + latency_ns)[beyond][order]
    reach = np.maximum.accumulate(ends)
    begins = np.concatenate(([True], starts[1:] > reach[:-1]))
    first = starts[begins][np.cumsum(begins) - 1]
    piece = np.floor((starts - first) / (EPISODE_LENGTH * float(np.median(latency_ns[beyond]))))
    return int((begins | np.concatenate(([True], piece[1:] != piece[:-1]))).sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """p of each test after Holm's correction: the chance of one false call among all of them."""
    order = np.argsort(p_values, kind="stable")
    result = [0.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, p_values[index] * (len(p_values) - rank)))
        result[index] = worst
    return result


#: Chance of a false call of all metrics but the first together, while the first shows nothing.
ALPHA_OTHERS = 0.005


def called(ratios: Sequence[Ratio], level: float = CONFIDENCE) -> list[bool]:
    """Which ratios are called a difference; the first metric is the one that was asked for.

    It is tested by itself: its interval leaves out 1. The others, however many, share `ALPHA_OTHERS`, and 5 % once the first is different: so two equal
    sides are called different in at most 5.5 % of experiments.
    """
    if not ratios:
        return []
    first = ratios[0].is_known and ratios[0].p_value < 1 - level
    rest = [i for i in range(1, len(ratios)) if ratios[i].is_known]
    corrected = dict(zip(rest, holm([ratios[i].p_value for i in rest]), strict=True))
    limit = 1 - CONFIDENCE if first else ALPHA_OTHERS
    return [first, *(corrected.get(i, 1.0) < limit for i in range(1, len(ratios)))]
