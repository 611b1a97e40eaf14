"""Whether two kinds of intervals coincide more than both following the same load would make them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.statistics.draws import drawn_p
from whodisk.statistics.stats import SEED, Floats, Ints, disjoint, episodes, extents

#: An interval is moved within a stretch this many times as long as is typical of them: long enough that a coincidence is rare by chance, and
#: short enough that the load in it is one load.
WINDOW = 20.0
#: Of the places where an interval could have begun an even part is tried: this many, less than twice as many at most.
PLACES_MAX = 500


@dataclass(frozen=True)
class Intervals:
    """Intervals of threads, one array element each, ns."""

    thread: Ints
    begin_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.thread)


def coincidence_p(held: Intervals, late: Intervals, places_ns: Ints, rounds: int) -> float:
    """Probability that the intervals `held` cover as much of their threads' `late` ones if the two have nothing to do with each other.

    Null model: each interval could as well have begun at any other of `places_ns` (moments at which operations begin, ascending) in the
    stretch of time around it: interval jitter (Amarasingham, Harrison, Hatsopoulos and Geman, J. Neurophysiology 107, 2012) on the clock
    of the load. Both may come in bursts, with the load or at a period of their own: that is kept. Intervals that overlap, of several
    threads, are one and stay together. 1 where nothing coincides.
    """
    if not len(held) or not len(late):
        return 1.0
    group = episodes(held.begin_ns, held.end_ns)
    first, _ = extents(group, held.begin_ns, held.end_ns)
    covered = Covered(late)
    observed = covered.by(held.thread, held.begin_ns, held.end_ns)
    total = float(observed.sum())
    if total <= 0:
        return 1.0
    stretch = max(1, int(WINDOW * float(np.median(held.end_ns - held.begin_ns))))
    drawn = np.zeros(rounds)
    generator = np.random.default_rng(SEED)
    # Stretches begin anywhere: not where the data would like it.
    offset = int(generator.integers(0, stretch))
    for number, begin in enumerate(first.tolist()):
        mine = np.flatnonzero(group == number)
        low = (begin - offset) // stretch * stretch + offset
        since, until = np.searchsorted(places_ns, (low, low + stretch))
        places = places_ns[since:until][:: max(1, (until - since) // PLACES_MAX)]
        if len(places) < 2:
            drawn += float(observed[mine].sum())
            continue
        moved = np.zeros(len(places))
        for one in mine:
            at = places + (held.begin_ns[one] - begin)
            thread = np.full(len(places), held.thread[one])
            moved += covered.by(thread, at, at + (held.end_ns[one] - held.begin_ns[one]))
        drawn += moved[generator.integers(0, len(places), rounds)]
    return drawn_p(drawn, total)


class Covered:
    """How much of an interval of a thread others of the same thread cover, those that overlap counted once."""

    def __init__(self, covering: Intervals) -> None:
        self._of: dict[int, tuple[Floats, Floats]] = {}
        for thread in np.unique(covering.thread).tolist():
            mine = covering.thread == thread
            lows, highs = disjoint(covering.begin_ns[mine], covering.end_ns[mine])
            points = np.column_stack((lows, highs)).ravel()
            steps = np.diff(points) * (np.arange(len(points) - 1) % 2 == 0)
            self._of[thread] = points, np.concatenate(([0.0], np.cumsum(steps)))

    def by(self, thread: Ints, begin_ns: Ints, end_ns: Ints) -> Floats:
        """Per interval, ns."""
        result = np.zeros(len(thread))
        for number in np.unique(thread).tolist():
            if number in self._of:
                points, sums = self._of[number]
                mine = thread == number
                result[mine] = np.interp(end_ns[mine], points, sums) - np.interp(begin_ns[mine], points, sums)
        return result
