"""Whether samples over time lie on one level and then, to the end, on another: a median over both is a value that no sample has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.thresholds import LASTING_RATIO_MIN, LASTING_SAMPLES_MIN
from whodisk.reading.views import Case
from whodisk.statistics.stats import Floats


@dataclass(frozen=True)
class Levels:
    """The medians on both sides of a change."""

    before: float
    after: float
    #: The moments of the last sample before the change, and of the first behind it.
    until_ns: float
    from_ns: float

    def said(self, case: Case, before: str, after: str) -> str:
        """`4.36 ms until 150 s, 10.4 ms from 180 s on`, out of both levels with their units."""
        return f"{before} until {case.moment(self.until_ns)}, {after} from {case.moment(self.from_ns)} on"


def two_levels(time_ns: Floats, values: Floats) -> Levels | None:
    """The change of level, of samples in their order; None: there is none.

    No sample of one side lies within what the samples of the other side span, each side has `LASTING_SAMPLES_MIN`, and their medians are
    `LASTING_RATIO_MIN` apart. Of several such moments it is the one that leaves least of the differences unexplained. It describes, and tests nothing.
    """
    known = np.isfinite(values) & (values >= 0)
    time_ns, values = time_ns[known], values[known]
    count = len(values)
    if count < 2 * LASTING_SAMPLES_MIN:
        return None
    low, high = np.minimum.accumulate(values), np.maximum.accumulate(values)
    low_after, high_after = (
        np.minimum.accumulate(values[::-1])[::-1],
        np.maximum.accumulate(values[::-1])[::-1],
    )
    at = np.arange(LASTING_SAMPLES_MIN, count - LASTING_SAMPLES_MIN + 1)
    apart = (low[at - 1] > high_after[at]) | (high[at - 1] < low_after[at])
    places = at[apart]
    if not len(places):
        return None
    # What is 0 has no logarithm; here it only has to be far below all else.
    logs = np.log(np.maximum(values, np.max(values) * 1e-6))
    unexplained = [
        float(logs[:place].var() * place + logs[place:].var() * (count - place)) for place in places
    ]
    place = int(places[int(np.argmin(unexplained))])
    before, after = float(np.median(values[:place])), float(np.median(values[place:]))
    if max(before, after) < LASTING_RATIO_MIN * min(before, after):
        return None
    return Levels(before, after, float(time_ns[place - 1]), float(time_ns[place]))
