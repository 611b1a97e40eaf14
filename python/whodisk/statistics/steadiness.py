"""Whether a series had come to rest (SNIA, Solid State Storage Performance Test Specification: steady state)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.statistics.stats import Floats

#: Rounds of the measured window.
ROUNDS = 5


@dataclass(frozen=True)
class Steadiness:
    """What the rounds say about a series."""

    mean: float
    #: (largest - smallest round) / mean.
    range: float
    #: Rise of the fitted line over the window / mean; negative = falls.
    excursion: float

    def within(self, range_max: float, excursion_max: float) -> bool:
        """Whether that is a steady state: SNIA allows a range of 0.20 and an excursion of 0.10."""
        return self.range <= range_max and abs(self.excursion) <= excursion_max


def judge(series: Floats, rounds: int = ROUNDS) -> Steadiness:
    """`rounds` equal rounds of a series of at least as many values."""
    means = np.array([part.mean() for part in np.array_split(series, rounds)])
    mean = float(means.mean())
    if mean <= 0:
        return Steadiness(mean, 0.0, 0.0)
    slope = float(np.polyfit(np.arange(rounds), means, 1)[0])
    return Steadiness(mean, float(np.ptp(means)) / mean, slope * (rounds - 1) / mean)


def ramp_length(series: Floats, range_max: float, excursion_max: float) -> int | None:
    """Values to leave out at the begin so that the rest is steady: multiples of a tenth, half of the series at most; None if that does not help."""
    for tenths in range(6):
        begin = len(series) * tenths // 10
        if len(series) - begin >= ROUNDS and judge(series[begin:]).within(range_max, excursion_max):
            return begin
    return None
