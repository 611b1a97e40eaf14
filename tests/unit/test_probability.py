"""The distributions of whodisk against those of scipy.stats, which are written another way."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as peers

from whodisk.statistics import probability

COUNTS = st.integers(0, 100_000)
CHANCES = st.floats(1e-9, 1.0)


def close(ours: float, theirs: float) -> None:
    # What underflows in one way of computing need not in the other.
    assert math.isclose(ours, float(theirs), rel_tol=1e-9, abs_tol=1e-300), (ours, theirs)


@given(st.integers(-2, 1000), st.integers(0, 900), CHANCES)
def test_binomial_tail(count: int, trials: int, chance: float) -> None:
    close(probability.at_least(count, trials, chance), peers.binom.sf(count - 1, trials, chance))


@pytest.mark.parametrize("chance", [0.0, 1.0])
@pytest.mark.parametrize("count", [0, 1, 7, 8])
def test_binomial_tail_of_the_impossible_and_the_certain(count: int, chance: float) -> None:
    assert probability.at_least(count, 7, chance) == peers.binom.sf(count - 1, 7, chance)


@given(st.sampled_from([0.025, 0.5, 0.975]), st.integers(1, 100_000))
def test_chi_squared(at: float, degrees: int) -> None:
    close(probability.chi_squared_quantile(at, degrees), peers.chi2.ppf(at, degrees))


@given(st.sampled_from([0.05, 0.95, 0.99]), COUNTS, COUNTS)
def test_beta(at: float, a: int, b: int) -> None:
    close(probability.beta_quantile(at, a + 1, b + 1), peers.beta.ppf(at, a + 1, b + 1))


@given(st.floats(-50, 50), st.integers(1, 200))
def test_student(value: float, degrees: int) -> None:
    close(probability.student_above(value, degrees), peers.t.sf(value, degrees))
