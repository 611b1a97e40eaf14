"""Whether something goes to and fro between two levels, in windows of time, under no more load on the higher one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from whodisk.evidence.thresholds import (
    LEVEL_LOAD_MAX,
    LEVEL_NOISE_MAX,
    LEVEL_RATIO_MIN,
    LEVELS_BETWEEN,
    LEVELS_PART_MIN,
    LEVELS_WINDOW_MIN,
    LEVELS_WINDOWS_MIN,
)
from whodisk.statistics.stats import SEED, Bools, Floats, Ints, bootstrap_log_ratio, runs


@dataclass(frozen=True)
class TwoLevels:
    """Windows on the higher of two levels, and how many times as long things take there."""

    #: First block of each window, and the one after its last.
    begin: Ints
    end: Ints
    #: Per block: whether it is of a window.
    high: Bools
    ratio: float
    #: Of 95 %, over windows and the times between them.
    low_ratio: float
    high_ratio: float
    p_value: float


def two_levels(log_time: Floats, *loads: Floats) -> TwoLevels | None:
    """The two levels of `log_time` (a mean log per block of time, NaN where nothing was); None if there are none.

    Levels are far apart against how much each varies, hardly a block lies between them but where one turns into the other, and the higher one
    comes back, each time for several blocks. No more is asked for there (`loads`, each per block). The test is Wald's and Wolfowitz's of runs: blocks that
    are slow independently of each other do not lie together in so few windows. What it cannot know, why they lie together, the caller has to ask.
    """
    known = np.isfinite(log_time)
    values = np.where(known, log_time, -np.inf)
    middle = middle_of(log_time[known])
    if middle is None:
        return None
    high = values > middle
    of_high, of_low = log_time[known & high], log_time[known & ~high]
    change = float(np.median(of_high) - np.median(of_low))
    if change < np.log(LEVEL_RATIO_MIN) or not LEVELS_PART_MIN <= high[known].mean() <= 1 - LEVELS_PART_MIN:
        return None
    begin, end = runs(high)
    if len(begin) < LEVELS_WINDOWS_MIN or np.median(end - begin) < LEVELS_WINDOW_MIN:
        return None
    between = np.abs(log_time[known] - 0.5 * (np.median(of_high) + np.median(of_low))) < 0.25 * change
    if between.sum() > LEVELS_BETWEEN * len(begin):
        return None
    if max(_spread(of_high), _spread(of_low)) > LEVEL_NOISE_MAX * change:
        return None
    if any(load[known & high].mean() > LEVEL_LOAD_MAX * load[known & ~high].mean() for load in loads):
        return None
    low_ratio, high_ratio = _interval(log_time, begin, end)
    return TwoLevels(begin, end, high, float(np.exp(change)), low_ratio, high_ratio, runs_p(high[known]))


def middle_of(values: Floats) -> float | None:
    """The value that divides them best into two groups, by the sum of squares between these (Otsu); None if there are too few, or all are equal."""
    ordered = np.sort(values)
    count = len(ordered)
    if count < 2 * LEVELS_WINDOWS_MIN * LEVELS_WINDOW_MIN or ordered[0] == ordered[-1]:
        return None
    at = np.arange(1, count)
    upto = np.cumsum(ordered)[:-1]
    apart = (ordered.sum() - upto) / (count - at) - upto / at
    best = int(np.argmax(apart**2 * at * (count - at)))
    return float(0.5 * (ordered[best] + ordered[best + 1]))


def _spread(values: Floats) -> float:
    """Robust standard deviation: blocks in which one level turns into the other do not count."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _interval(log_time: Floats, begin: Ints, end: Ints) -> tuple[float, float]:
    """Of the ratio: windows and the times between them are drawn again."""
    edges = np.concatenate(([0], np.ravel(np.column_stack((begin, end))), [len(log_time)]))
    stretches = [log_time[a:b][np.isfinite(log_time[a:b])] for a, b in itertools.pairwise(edges)]
    lower, higher = (
        np.array([float(np.median(part)) for part in stretches[first::2] if len(part)]) for first in (0, 1)
    )
    return bootstrap_log_ratio(lower, higher)


def runs_p(high: Bools, rounds: int = 4999) -> float:
    """How often blocks in any order have as few windows."""
    seen = _windows(high[None, :])[0]
    generator = np.random.default_rng(SEED)
    shuffled = generator.permuted(np.tile(high, (rounds, 1)), axis=1)
    return (1 + int((_windows(shuffled) <= seen).sum())) / (1 + rounds)


def _windows(high: Bools) -> Ints:
    return np.asarray(high[:, 0] + (high[:, 1:] & ~high[:, :-1]).sum(axis=1), np.int64)
