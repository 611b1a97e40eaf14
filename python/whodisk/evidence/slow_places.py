"""Whether reads of some places of a device take many times as long as all others, and whether that is the place's doing, or that of the time when it was read.

Who reads in order is at a place once: what is slow there may be slow for what happens then. Requests that come there at another time tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.thresholds import (
    PART_APART_MIN,
    PART_GAP_MIN,
    PART_MOST,
    PART_PLACES,
    PART_PLACES_MIN,
    PART_READS_MIN,
    PART_RUNS_MAX,
    PART_TIME_P_MAX,
    SAME_CELL_MIN,
)
from whodisk.evidence.two_levels import middle_of, runs_p
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_log_ratio, runs


@dataclass(frozen=True)
class SlowPlaces:
    """Pieces of a device that take longer than the others: first byte of each, and the one after its last."""

    begin: Ints
    end: Ints
    #: Geometric mean over places.
    ratio: float
    #: Of 95 %, over places.
    low_ratio: float
    high_ratio: float
    #: How often places in any order lie in as few pieces.
    p_value: float

    def hold(self, offset: Ints) -> Bools:
        """Which of these offsets lie there."""
        at = np.searchsorted(self.begin, offset, side="right") - 1
        return np.asarray((at >= 0) & (offset < self.end[np.maximum(at, 0)]), np.bool_)


def slow_places(offset: Ints, size: Ints, log_time: Floats, ratio_min: float) -> SlowPlaces | None:
    """The places of which reads of one kind take `ratio_min` times as long or more; None if these are not few, far from the others, and nearly all that is slow."""
    count = min(PART_PLACES, len(offset) // PART_READS_MIN)
    if count < PART_PLACES_MIN:
        return None
    # As many reads in each: a file system uses some of a disk, and that here and there.
    edges = np.unique(np.quantile(offset, np.arange(1, count) / count, method="nearest"))
    place = np.searchsorted(edges, offset, side="right")
    reads = np.bincount(place, minlength=len(edges) + 1)
    known = np.flatnonzero(reads >= PART_READS_MIN // 2)
    order = np.argsort(place, kind="stable")
    each = np.split(log_time[order], np.cumsum(reads)[:-1])
    level = np.array([float(np.median(each[number])) for number in known])
    middle = middle_of(level) if len(level) >= PART_PLACES_MIN else None
    if middle is None:
        return None
    high = level > middle
    change = float(np.median(level[high]) - np.median(level[~high]))
    first, last = runs(high)
    if change < np.log(ratio_min) or high.mean() >= PART_MOST or len(first) > PART_RUNS_MAX:
        return None
    # Where a piece ends, a place is of both.
    inner = high & np.roll(high, 1) & np.roll(high, -1)
    outer = ~(high | np.roll(high, 1) | np.roll(high, -1))
    if not inner.any() or not outer.any():
        return None
    if level[inner].min() - level[outer].max() < PART_GAP_MIN * change:
        return None
    slow, others = np.isin(place, known[inner]), np.isin(place, known[outer])
    if (log_time[slow] > np.quantile(log_time[others], 0.95)).mean() < PART_APART_MIN:
        return None
    found = [np.isin(place, known[a:b]) & (log_time > middle) for a, b in zip(first, last, strict=True)]
    begin = np.array([int(offset[piece].min()) for piece in found], np.int64)
    end = np.array([int((offset + size)[piece].max()) for piece in found], np.int64)
    low_ratio, high_ratio = bootstrap_log_ratio(level[~high], level[high])
    ratio = float(np.exp(level[high].mean() - level[~high].mean()))
    return SlowPlaces(begin, end, ratio, low_ratio, high_ratio, runs_p(high))


def met_again(
    places: SlowPlaces, offset: Ints, size: Ints, log_time: Floats, kind: Ints, mine: Bools, ratio_min: float
) -> bool:
    """Whether requests at another time are slow at these places, too; all of them in the order in which they began.

    `mine`: the reads by which the places were found. The others are of another operation and say it by themselves; of `mine` those of one half of the run say where, and those of the other half whether it holds.
    """
    tests = []
    if (~mine).any():
        tests.append((places.hold(offset[~mine]), _ranks(log_time[~mine], kind[~mine])))
    own = np.flatnonzero(mine)
    halves = own[: len(own) // 2], own[len(own) // 2 :]
    for says, asked in (halves, halves[::-1]):
        of_half = slow_places(offset[says], size[says], log_time[says], ratio_min)
        if of_half is not None:
            tests.append((of_half.hold(offset[asked]), _ranks(log_time[asked], kind[asked])))
    return any(moved_p(there, rank) * len(tests) <= PART_TIME_P_MAX for there, rank in tests)


def moved_p(there: Bools, rank: Floats) -> float:
    """How often requests would be as slow where `there` is, had all that happens come earlier or later by any number of requests (the end goes on at the begin)."""
    if min(there.sum(), (~there).sum()) < SAME_CELL_MIN:
        return 1.0
    flags = there.astype(np.float64)
    sums = np.fft.irfft(np.fft.rfft(rank) * np.conj(np.fft.rfft(flags)), len(rank))
    return float((sums >= sums[0] - 1e-9 * len(rank)).mean())


def _ranks(log_time: Floats, kind: Ints) -> Floats:
    """The place of each among all of its kind, 0 to 1."""
    found = np.zeros(len(log_time))
    for one in np.unique(kind):
        mine = np.flatnonzero(kind == one)
        order = np.argsort(np.argsort(log_time[mine], kind="stable"), kind="stable")
        found[mine] = (order + 0.5) / len(mine)
    return found
