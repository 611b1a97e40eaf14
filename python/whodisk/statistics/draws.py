"""How unlikely a statistic is among draws of its null model: beyond the draws by a fitted tail, so that few of them say enough for a correction."""

from __future__ import annotations

import math

import numpy as np

from whodisk.statistics.stats import Floats

#: With this many draws at or above the observed value these are counted, and nothing is fitted ...
COUNTED_MIN = 10
#: ... else a tail is fitted to the largest: this many, or this part of all draws, whichever is fewer.
FITTED_MAX = 250
FITTED_PART = 0.125
#: Fewer values have no tail to be fitted.
FITTED_MIN = 50


def drawn_p(drawn: Floats, observed: float) -> float:
    """Probability that the null model gives a statistic of `observed` or more, from a sample `drawn` of it.

    Where enough draws reach it, (1 + reached) / (1 + draws) (Phipson and Smyth 2010). Beyond, a generalised Pareto distribution of the
    largest draws (Knijnenburg, Wessels, Reinders and Shmulevich, Bioinformatics 25, 2009), fitted by probability-weighted moments (Hosking
    and Wallis, Technometrics 29, 1987). The fitted tail never ends and is always heavier than an exponential one (shape over 0): a
    statistic that is the largest of many, or counts, may go on further than the draws show. 1 / draws^2 at least: nobody saw more.
    """
    count = len(drawn)
    reached = int((drawn >= observed - 1e-9 * max(1.0, abs(observed))).sum())
    counted = (1 + reached) / (1 + count)
    largest = min(FITTED_MAX, int(FITTED_PART * count))
    if reached >= COUNTED_MIN or largest < FITTED_MIN or not math.isfinite(observed):
        return counted
    ranked = np.sort(drawn)[::-1]
    threshold = 0.5 * float(ranked[largest - 1] + ranked[largest])
    beyond = np.sort(ranked[:largest] - threshold)
    first = float(beyond.mean())
    second = float(((1 - (np.arange(1, largest + 1) - 0.35) / largest) * beyond).mean())
    if first <= 0 or observed <= threshold:
        return counted
    # Hosking and Wallis' k is minus this shape.
    shape = 2.0 - first / (first - 2 * second) if first > 2 * second else 0.0
    # One standard error more: a tail that is fitted too thin finds what is not there.
    shape = min(0.9, max(0.0, shape) + math.sqrt(4 / 3 / largest))
    far = (observed - threshold) / (first * (1.0 - shape))
    survival = math.pow(1 + shape * far, -1 / shape)
    return min(1.0, max(largest / count * survival, 1.0 / count**2))
