"""How long values that follow each other in time stay alike."""

from __future__ import annotations

import math

import numpy as np

from whodisk.statistics.stats import Floats


def block_length(series: Floats) -> float:
    """Length of the blocks, in values, that a bootstrap of the mean of this series should draw; at least 1.

    Politis and White (Econometric Reviews 23, 2004, corrected by Patton, Politis and White 2009), circular blocks: the correlation is
    followed until it stays within noise, and the length that makes the error of the variance smallest follows from it. A third of the series at most.
    """
    count = len(series)
    if count < 8:
        return 1.0
    centred = series - series.mean()
    variance = float((centred**2).mean())
    if variance <= 0:
        return 1.0
    reach = max(5, math.isqrt(count))
    longest = min(math.ceil(math.sqrt(count)) + reach, count - 1)
    covariance = np.array(
        [float((centred[: count - lag] * centred[lag:]).sum()) / count for lag in range(longest + 1)]
    )
    noise = 2.0 * math.sqrt(math.log10(count) / count)
    small = np.abs(covariance[1:] / variance) < noise
    quiet = next((lag for lag in range(len(small) - reach + 1) if small[lag : lag + reach].all()), None)
    last = quiet if quiet is not None else int(np.flatnonzero(~small)[-1]) + 1
    width = min(2 * max(last, 1), longest)
    lags = np.arange(1, width + 1)
    taper = np.clip(2.0 * (1.0 - lags / width), 0.0, 1.0)
    spectrum = variance + 2 * float((taper * covariance[1 : width + 1]).sum())
    bent = 2 * float((taper * lags * covariance[1 : width + 1]).sum())
    if spectrum <= 0:
        return count / 3
    length = (1.5 * (bent / spectrum) ** 2 * count) ** (1 / 3)
    return float(np.clip(length, 1.0, count / 3))
