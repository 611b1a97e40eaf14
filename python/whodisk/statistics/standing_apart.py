"""Do the largest of many values stand apart from the rest, whatever the rest is like?

A tail without anything wrong may be heavy: the largest of a Pareto sample is often twice the next. So a gap is measured in units of the
tail's own spacing. For a Pareto tail of any index, i ln(x_i / x_i+1) are independent and exponential with one mean, xi (Renyi 1953; Hill
1975); lighter tails (exponential, lognormal, Weibull) have smaller spacings at the top than further down, which makes the test careful.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from whodisk.statistics.stats import Floats

#: The chance that anything at all is said to stand apart where nothing does, over all groups of a case (DESIGN 8).
ALPHA = 0.005
#: Half of it is spent on the first ones, this many.
FEW = 10
#: At most this many stand apart, and at most this part of all.
APART_MAX = 200
PART_MAX = 0.01
#: The tail behind them that shows its spacing: this many spacings at least, and this many for each one that stands apart.
SPACINGS_MIN = 100
SPACINGS_PER_APART = 2
#: With fewer spacings than this nothing is known of the tail.
SPACINGS_FLOOR = 20
#: Each is this many times the largest of the rest, and of the median, at least.
NEXT_RATIO_MIN = 2.0
MEDIAN_RATIO_MIN = 10.0
#: As many values as `standing_apart` ever looks at.
MAXIMA_MAX = APART_MAX + SPACINGS_PER_APART * APART_MAX + 1


@dataclass(frozen=True)
class Apart:
    """The first `count` values stand apart; with the gap behind them."""

    count: int
    #: Chance of such a gap in a tail like the one behind it.
    p_value: float
    #: Index of that tail: mean of i ln(x_i / x_i+1); 0.2 is light, 1 is as heavy as 1 / x.
    tail_index: float
    #: The largest value that does not stand apart.
    next_value: float


def has_tail(operations: float, maxima: int) -> bool:
    """Whether so many values, the largest of so many episodes among them, can say of one that it stands apart."""
    return operations * PART_MAX >= 1 and maxima > SPACINGS_FLOOR + 1


def standing_apart(maxima: Floats, operations: float, median: float, groups: int = 1) -> Apart | None:
    """How many of the largest values stand apart; None if none does.

    `maxima` are the largest values, descending, one of each episode (values of one episode are not independent): `MAXIMA_MAX` of them if
    there are as many. `operations` is how many values there are in all, `median` their median, `groups` in how many groups of the case
    this question is asked.
    """
    # A clock's step makes ties; they count as no spacing at all.
    values = np.maximum(np.asarray(maxima, np.float64)[:MAXIMA_MAX], 1.0)
    most = min(APART_MAX, int(operations * PART_MAX))
    found = None
    while True:
        # What stands apart is no part of the tail: the ranks of the rest begin anew behind it.
        begin = found.count if found else 0
        further = _first_gap(values[begin:], most - begin, median, groups)
        if further is None:
            return found
        found = replace(further, count=begin + further.count)


def _first_gap(values: Floats, most: int, median: float, groups: int) -> Apart | None:
    """The fewest values, `most` at most, behind which there is a gap that the tail behind it would not leave."""
    logs = np.log(values)
    spacings = np.arange(1, len(values)) * (logs[:-1] - logs[1:])
    total = np.concatenate(([0.0], np.cumsum(spacings)))
    for count in range(1, most + 1):
        rest = min(max(SPACINGS_MIN, SPACINGS_PER_APART * count), len(spacings) - count)
        if rest < SPACINGS_FLOOR:
            return None
        smallest, following = values[count - 1], values[count]
        if smallest < NEXT_RATIO_MIN * following or smallest < MEDIAN_RATIO_MIN * median:
            continue
        behind = total[count + rest] - total[count]
        p_value = math.exp(-rest * math.log1p(spacings[count - 1] / behind)) if behind > 0 else 0.0
        if p_value < _alpha(count) / groups:
            return Apart(count, p_value, float(behind / rest), float(following))
    return None


def _alpha(count: int) -> float:
    """The part of `ALPHA` that is spent on the first `count`."""
    return ALPHA / 2 / FEW if count <= FEW else ALPHA / 2 / (APART_MAX - FEW)
