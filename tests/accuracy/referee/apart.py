"""Which operations stand apart from the rest of their kind: the rule of DESIGN 8, coded a second time.

The solver has its own. This one reads a program's own log and nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: So many are looked at, at most, and not more than one in `OPERATIONS_PER_OUTLIER`.
OUTLIERS_MAX = 200
OPERATIONS_PER_OUTLIER = 100
#: The tail is estimated from so many maxima below, at least.
TAIL_MIN = 100
#: Chance of a false call in one run, over all its classes, ...
ALPHA = 0.005
#: ... half of it on the first so many.
FIRST = 10
GAP_RATIO_MIN = 2.0
MEDIANS_MIN = 10.0

Times = NDArray[np.int64]


def maxima_of_episodes(start_ns: Times, latency_ns: Times, wanted: int) -> list[int]:
    """Indices of the slowest operations, slowest first; one that overlaps in time with a slower one counts with it.

    At most `wanted`. Cost: one sort of all operations.
    """
    begins: list[int] = []
    ends: list[int] = []
    found: list[int] = []
    for index in np.argsort(-latency_ns, kind="stable"):
        begin, end = int(start_ns[index]), int(start_ns[index] + latency_ns[index])
        place = bisect_left(begins, end)
        # Those that were taken are apart from each other: only the one before can reach into this one.
        if place and ends[place - 1] > begin:
            continue
        begins.insert(place, begin)
        ends.insert(place, end)
        found.append(int(index))
        if len(found) == wanted:
            break
    return found


def level(j: int, classes: int) -> float:
    """The chance that is spent on the question whether the first `j` of a class stand apart."""
    if j <= FIRST:
        return ALPHA / 2 / FIRST / classes
    return ALPHA / 2 / (OUTLIERS_MAX - FIRST) / classes


def outliers(latency_ns_maxima: Sequence[float], operations: int, median_ns: float, classes: int = 1) -> int:
    """How many of the maxima of episodes (slowest first) of one class stand apart.

    `operations` and `median_ns` are those of all operations of the class; `classes` how many classes the run has.
    Zero where there are too few maxima to know the tail.
    """
    x = np.maximum(np.asarray(latency_ns_maxima, dtype=float), 1.0)
    found = 0
    spacings = np.arange(1, len(x)) * np.log(x[:-1] / x[1:])
    for j in range(1, min(OUTLIERS_MAX, operations // OPERATIONS_PER_OUTLIER) + 1):
        k = max(TAIL_MIN, 2 * j)
        if j + k > len(spacings):
            break
        if x[j - 1] < GAP_RATIO_MIN * x[j] or x[j - 1] < MEDIANS_MIN * median_ns:
            continue
        xi = float(spacings[j : j + k].mean())
        # A tail of equal values: anything above it stands apart.
        chance = (1.0 + spacings[j - 1] / (k * xi)) ** -k if xi > 0 else 0.0
        if chance < level(j, classes):
            found = j
    return found


def standing_apart(start_ns: Times, latency_ns: Times, kinds: NDArray[np.str_]) -> list[int]:
    """Indices of the operations of a log that stand apart from the rest of their kind, slowest of each kind first.

    `start_ns`, `latency_ns`: one clock, >= 0. `kinds`: kind (and size class, where the log tells it) of each operation.
    """
    names = np.unique(kinds)
    apart: list[int] = []
    for name in names:
        (of_kind,) = np.nonzero(kinds == name)
        latency = latency_ns[of_kind]
        maxima = maxima_of_episodes(start_ns[of_kind], latency, 3 * OUTLIERS_MAX + 1)
        found = outliers(latency[maxima].tolist(), len(latency), float(np.median(latency)), len(names))
        apart += [int(of_kind[index]) for index in maxima[:found]]
    return apart
