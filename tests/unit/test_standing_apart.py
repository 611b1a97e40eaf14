"""When the largest values stand apart: never for a natural tail, always for what is far beyond one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtri

from whodisk.statistics.standing_apart import ALPHA, MAXIMA_MAX, standing_apart
from whodisk.statistics.stats import Floats

QUANTILES: dict[str, Callable[[Floats], Floats]] = {
    "Pareto, index 1": lambda tail: tail**-1.0,
    "Pareto, index 0.5": lambda tail: tail**-0.5,
    "Pareto, index 0.2": lambda tail: tail**-0.2,
    "exponential": lambda tail: -np.log(tail),
    "Weibull, shape 0.3": lambda tail: (-np.log(tail)) ** (1 / 0.3),
    "lognormal, sigma 1": lambda tail: np.exp(-ndtri(tail)),
    "lognormal, sigma 3": lambda tail: np.exp(-3 * ndtri(tail)),
}
RUNS = 600


def largest(rng: np.random.Generator, quantile: Callable[[Floats], Floats], count: int) -> Floats:
    """The largest of so many values, descending, without drawing the others: order statistics of uniforms are sums of exponentials."""
    sums = np.cumsum(rng.exponential(size=min(MAXIMA_MAX, count // 2)))
    total = sums[-1] + rng.gamma(count + 1 - len(sums))
    return np.asarray(1e5 * quantile(sums / total), np.float64)


@pytest.mark.parametrize("name", QUANTILES)
@pytest.mark.parametrize("count", [1_000, 100_000, 30_000_000])
def test_natural_tails_have_none(name: str, count: int) -> None:
    rng = np.random.default_rng([count, len(name)])
    median = float(1e5 * QUANTILES[name](np.array([0.5]))[0])
    alarms = sum(
        standing_apart(largest(rng, QUANTILES[name], count), count, median) is not None for _ in range(RUNS)
    )
    # Five standard errors above the promise: a seed that misses by chance is one in a million.
    assert alarms <= RUNS * ALPHA + 5 * np.sqrt(RUNS * ALPHA)


@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("count", [100_000, 1_000_000, 30_000_000])
@pytest.mark.parametrize("name", ["Pareto, index 0.2", "exponential", "lognormal, sigma 1"])
def test_rare_outliers_are_all_found(name: str, count: int, number: int) -> None:
    rng = np.random.default_rng([count, number])
    exact = 0
    for _ in range(50):
        values = largest(rng, QUANTILES[name], count)
        outliers = np.sort(values[0] * rng.uniform(20, 60, number))[::-1]
        found = standing_apart(np.concatenate([outliers, values]), count, 1e5)
        assert found is not None
        assert found.count >= number
        exact += found.count == number
    # Behind them the tail itself may have a gap, as often as any tail.
    assert exact >= 48


def test_a_clock_that_makes_ties_is_no_reason() -> None:
    values = np.concatenate([np.full(300, 4e6), np.full(400, 2e6)])
    assert standing_apart(values, 100_000, 1e5) is None


def test_too_few_say_nothing() -> None:
    assert standing_apart(np.array([1e9, 1.0, 1.0]), 3, 1.0) is None
