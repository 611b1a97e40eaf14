"""Whether something became slower at one moment and stayed so, under no more load than before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.thresholds import (
    LEVEL_BLOCKS,
    LEVEL_LOAD_MAX,
    LEVEL_NOISE_MAX,
    LEVEL_PLACES,
    LEVEL_RATIO_MIN,
    LEVEL_SHARP_MIN,
    LEVEL_SIDE_MIN,
)
from whodisk.statistics.stats import SEED, Floats, Ints, bootstrap_log_ratio


@dataclass(frozen=True)
class LevelChange:
    """A change of level: in which block it begins, and how many times as long things take from then on."""

    block: int
    ratio: float
    #: Of 95 %, over blocks.
    low: float
    high: float
    p_value: float


def level_change(log_time: Floats, *loads: Floats) -> LevelChange | None:
    """The one moment from which on `log_time` (a mean log per block of time, NaN where nothing was) is higher, to the end; None if there is none.

    Two levels tell nearly everything: neither rises by itself, nearly all of the difference lies at the moment, and no more was asked for afterwards
    (`loads`, each per block). One change is one piece of evidence, however many blocks it has: the test says how unlikely it is that the best of all
    splits of exchangeable blocks is as good, and what it cannot know, whether blocks follow each other, the shape has to tell (decision 0320).
    """
    known = np.flatnonzero(np.isfinite(log_time))
    values = log_time[known]
    if len(values) < 3 * LEVEL_SIDE_MIN:
        return None
    at = _best_split(values)
    before, after = values[:at], values[at:]
    # The block in which it happens is of both.
    if len(after) > LEVEL_SIDE_MIN and after[0] < np.median(after) - 2 * float(after[1:].std()):
        after = after[1:]
    change = float(np.median(after) - np.median(before))
    if change < np.log(LEVEL_RATIO_MIN):
        return None
    near = float(np.median(after[:3]) - np.median(before[-3:]))
    stays = float(np.median(after[-3:]) - np.median(before))
    noise = max(float(before.std()), float(after.std()))
    apart = float(np.quantile(after, 0.05) - np.quantile(before, 0.95))
    if min(near, stays) < LEVEL_SHARP_MIN * change or noise > LEVEL_NOISE_MAX * change or apart <= 0:
        return None
    for load in loads:
        asked_before, asked_after = load[known][:at].mean(), load[known][at:].mean()
        if asked_after > LEVEL_LOAD_MAX * asked_before:
            return None
    low, high = bootstrap_log_ratio(before, after)
    return LevelChange(int(known[at]), float(np.exp(change)), low, high, _p_value(values))


def blocks_of(start_ns: Ints, begin_ns: int, span_ns: int, of_requests: float = 0.5) -> Ints:
    """The block that each of `LEVEL_PLACES` equal parts of the time lies in, ascending; `start_ns` are requests, or an even sample of them.

    Blocks are equal in the mean of the time and the requests that they hold. What gets many times slower does in nearly all of the time what it did in
    a small part of it before, and that part held many requests: by time alone it would be too short for a level. `of_requests`: the weight of requests
    in this mean.
    """
    place = ((start_ns - begin_ns) * (LEVEL_PLACES / span_ns)).astype(np.int64).clip(0, LEVEL_PLACES - 1)
    number = np.bincount(place, minlength=LEVEL_PLACES).astype(np.float64)
    held = of_requests * number / max(1.0, float(number.sum())) + (1.0 - of_requests) / LEVEL_PLACES
    middle = np.cumsum(held) - 0.5 * held
    return np.minimum(LEVEL_BLOCKS - 1, (middle * LEVEL_BLOCKS).astype(np.int64))


def level_of(log_time: Floats, count: Floats, block: Ints, kind: npt.NDArray[Any], blocks: int) -> Floats:
    """The level per block of time out of the means of kinds in blocks: each kind against its own mean, weighted by `count`; NaN where nothing was."""
    sums, weights = np.zeros(blocks), np.zeros(blocks)
    for one in np.unique(kind):
        chosen = kind == one
        centre = float(np.average(log_time[chosen], weights=count[chosen]))
        np.add.at(sums, block[chosen], (log_time[chosen] - centre) * count[chosen])
        np.add.at(weights, block[chosen], count[chosen])
    return np.where(weights > 0, sums / np.maximum(weights, 1.0), np.nan)


def _gain(values: Floats) -> Floats:
    """Sum of squares between the two sides of each split that leaves enough on both; a fall counts as nothing."""
    count = values.shape[-1]
    at = np.arange(LEVEL_SIDE_MIN, count - LEVEL_SIDE_MIN + 1)
    upto = np.cumsum(values, axis=-1)[..., at - 1]
    total = values.sum(axis=-1, keepdims=True)
    rise = (total - upto) / (count - at) - upto / at
    gain: Floats = np.maximum(rise, 0.0) ** 2 * at * (count - at) / count
    return gain


def _best_split(values: Floats) -> int:
    return LEVEL_SIDE_MIN + int(np.argmax(_gain(values)))


def _p_value(values: Floats, rounds: int = 4999) -> float:
    generator = np.random.default_rng(SEED)
    shuffled = generator.permuted(np.tile(values, (rounds, 1)), axis=1)
    seen = float(_gain(values).max())
    return (1 + int((_gain(shuffled).max(axis=-1) >= seen).sum())) / (1 + rounds)
