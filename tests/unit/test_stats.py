"""Statistics against known answers and over random inputs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whodisk.statistics import stats


def histogram(values: stats.Floats) -> tuple[stats.Floats, stats.Ints]:
    bins, counts = np.unique(np.floor(np.log2(values) * 64), return_counts=True)
    return np.exp2((bins + 0.5) / 64), counts.astype(np.int64)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_natural_tails_have_no_second_hump_worth_a_test(sigma: float, seed: int) -> None:
    values = np.exp(np.random.default_rng(seed).normal(0, sigma, 20_000))
    split = stats.find_split(*histogram(values))
    if split is not None:
        assert stats.tail_p(split, values[values > split.limit]) > 0.001, f"seed {seed}: {split}"


def test_a_second_hump_is_found_between_its_sides() -> None:
    rng = np.random.default_rng(1)
    body = np.exp(rng.normal(0, 0.3, 50_000))
    slow = 80 * np.exp(rng.normal(0, 0.05, 50))
    split = stats.find_split(*histogram(np.concatenate((body, slow))))
    assert split is not None
    assert body.max() < split.limit < slow.min()
    assert split.beyond == 50
    assert stats.tail_p(split, slow) < 1e-20


NATURAL_TAILS: dict[str, Callable[[np.random.Generator], stats.Floats]] = {
    "log-normal": lambda generator: generator.lognormal(0, 1.2, 30_000),
    "pareto": lambda generator: generator.pareto(1.1, 30_000) + 1,
    "exponential": lambda generator: generator.exponential(5, 30_000) + 1,
    "weibull": lambda generator: 20 * generator.weibull(0.5, 30_000) + 1,
}


@pytest.mark.parametrize("tail", NATURAL_TAILS)
def test_no_natural_tail_has_a_narrow_hump(tail: str) -> None:
    for seed in range(30):
        values = NATURAL_TAILS[tail](np.random.default_rng(seed))
        split = stats.find_split(*histogram(values), widths=stats.NARROW)
        if split is not None:
            assert stats.tail_p(split, values[values > split.limit]) > 0.001, f"seed {seed}: {split}"


def test_a_cause_of_constant_length_is_found_inside_a_heavy_tail() -> None:
    generator = np.random.default_rng(7)
    body = generator.pareto(1.1, 100_000) + 1
    slow = 230.0 + generator.exponential(6.0, 100)
    tail = histogram(np.concatenate((body, slow)))
    assert stats.find_split(*tail) is None
    split = stats.find_split(*tail, widths=stats.NARROW)
    assert split is not None
    assert split.limit < 230 < split.hump * 2**split.octaves
    assert stats.tail_p(split, np.concatenate((body[body > split.limit], slow))) < 1e-6


@given(st.floats(1e-3, 1e3))
@settings(max_examples=30)
def test_the_split_is_scale_free(factor: float) -> None:
    rng = np.random.default_rng(2)
    values = np.concatenate((np.exp(rng.normal(0, 0.3, 2000)), np.full(20, 50.0)))
    ratios, counts = histogram(values)
    first = stats.find_split(ratios, counts)
    again = stats.find_split(ratios * factor, counts)
    assert first is not None
    if factor >= 1:  # below, the floor of 1.05 x typical cuts into the body
        assert again is not None
        assert again.beyond == first.beyond


@given(st.integers(0, 10_000), st.integers(4, 60), st.sampled_from([0.5, 1.0, 2.0]))
def test_a_natural_tail_is_of_many_lengths(seed: int, count: int, index: float) -> None:
    tail = np.random.default_rng(seed).pareto(index, count) + 1.0
    assert stats.same_length_p(tail, 1e-6) > 1e-4


def test_what_always_takes_the_same_time_does_so_by_no_chance() -> None:
    rng = np.random.default_rng(3)
    twelve = 28e6 + rng.uniform(0, 500e3, 12)
    assert stats.same_length_p(twelve, 1e-6) < 1e-9
    # Three of another kind among them change little, a clock that cannot tell them apart everything.
    assert stats.same_length_p(np.concatenate([twelve, [9e6, 12e6, 90e6]]), 1e-6) < 1e-6
    assert stats.same_length_p(twelve, 1.0) == 1.0
    # Two may be alike by chance.
    assert stats.same_length_p(twelve[:2], 1e-6) > 0.01
    assert stats.same_length_p(twelve[:1], 1e-6) == 1.0


def test_episodes_are_chains_of_overlap() -> None:
    start = np.array([0, 5, 100, 103], np.int64)
    end = np.array([10, 20, 104, 110], np.int64)
    assert stats.episodes(start, end).tolist() == [0, 0, 1, 1]


def test_endless_chains_are_cut() -> None:
    start = np.arange(0, 1000, 5, dtype=np.int64)
    numbers = stats.episodes(start, start + 10)
    assert 20 <= numbers.max() + 1 <= 30  # 1,000 ns in pieces of 4 x 10 ns


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)), max_size=50))
def test_episodes_do_not_depend_on_order(intervals: list[tuple[int, int]]) -> None:
    start = np.array([s for s, _ in intervals], np.int64)
    end = np.array([s + d for s, d in intervals], np.int64)
    numbers = stats.episodes(start, end)
    flipped = stats.episodes(start[::-1], end[::-1])
    assert len(np.unique(numbers)) == len(np.unique(flipped))
    for i in range(len(start)):
        for j in range(i):
            apart = start[i] > end[j] or start[j] > end[i]
            same = numbers[i] == numbers[j]
            assert not (same and apart and len(intervals) == 2)


def test_operations_that_wait_together_do_not_do_so_by_chance() -> None:
    together = np.full(16, 5_000_000, np.int64) + np.arange(16)
    latency = np.full(16, 100_000, np.int64)
    every = np.concatenate((np.linspace(0, 1e9, 20_000).astype(np.int64), together))
    numbers = stats.episodes(together, together + latency)
    assert stats.concentration_p(numbers, together, latency, every) < 1e-20
    spread = np.linspace(0, 9e8, 16).astype(np.int64)
    numbers = stats.episodes(spread, spread + latency)
    assert stats.concentration_p(numbers, spread, latency, every) == 1.0


def test_a_burst_of_the_load_is_no_common_event() -> None:
    """One operation in fifty is slow by itself; the load comes in bursts, so these overlap."""
    low = 0
    for seed in range(100):
        rng = np.random.default_rng([seed, 5])
        begin = np.sort((np.arange(20)[:, None] * 5 * 10**8 + rng.uniform(0, 2e6, (20, 200))).ravel())
        every = begin.astype(np.int64)
        slow = np.sort(rng.choice(every, 80, replace=False))
        latency = rng.uniform(8e6, 12e6, 80).astype(np.int64)
        numbers = stats.episodes(slow, slow + latency)
        low += stats.concentration_p(numbers, slow, latency, every) < 0.01
    assert low <= 3


def test_benjamini_hochberg_by_hand() -> None:
    assert stats.benjamini_hochberg([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert stats.benjamini_hochberg([]) == []


def test_clearing_is_the_rule_of_three() -> None:
    operations = 1_204_331
    assert stats.cleared_quantile(operations, 0) == pytest.approx(1 - 2.9957 / operations, abs=1e-9)
    assert stats.cleared_quantile(operations, 0) == pytest.approx(0.9999975, abs=1e-7)
    assert stats.cleared_quantile(100, 5) < 0.95
    assert stats.cleared_quantile(10, 10) == 0.0


def test_quantiles_need_operations() -> None:
    assert stats.quantile_needs(0.99) == 300
    assert stats.quantile_needs(0.99999) == 300_000


def test_bootstrap_covers_the_truth() -> None:
    covered = 0
    for seed in range(100):
        values = np.random.default_rng(seed).exponential(1.0, 60)
        low, high = stats.bootstrap_ratio(values, np.ones(60))
        covered += low <= 1.0 <= high
    assert covered >= 85


def test_bootstrap_is_deterministic() -> None:
    values = np.random.default_rng(3).exponential(1.0, 50)
    assert stats.bootstrap_ratio(values, np.ones(50)) == stats.bootstrap_ratio(values, np.ones(50))


def test_few_episodes_give_wide_intervals() -> None:
    low, high = stats.bootstrap_sum(np.full(3, 10.0))
    assert low < 10
    assert high > 80
    assert stats.bootstrap_sum(np.zeros(0)) == (0.0, 0.0)


def test_permutation_p() -> None:
    first, second = np.full(8, 2.0), np.full(8, 1.0)
    assert stats.permutation_p(first, second) < 0.001
    assert stats.permutation_p(second, first) > 0.9
    assert stats.permutation_p(np.zeros(0), first) == 1.0


@given(st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=200))
def test_splits_survive_anything(values: list[float]) -> None:
    ratios, counts = histogram(np.array(values))
    split = stats.find_split(ratios, counts)
    if split is not None:
        assert 0 <= split.beyond <= len(values)
        assert math.isfinite(split.limit)
        assert 0.0 <= stats.tail_p(split, np.array(values)) <= 1.0


@pytest.mark.parametrize("seed", range(5))
def test_long_operations_are_not_forgotten_because_they_are_seldom_spared(seed: int) -> None:
    """A fiftieth takes 200 ms by itself; stops every 370 ms touch most of these, and a quarter of the others."""
    generator = np.random.default_rng([seed, 91])
    start = np.sort(generator.uniform(0, 60e9, 60_000)).astype(np.int64)
    latency = np.where(
        generator.random(60_000) < 0.02, 200e6, 1e6 * generator.lognormal(0, 0.3, 60_000)
    ).astype(np.int64)
    low = np.arange(0, 60e9, 370e6).astype(np.int64) + generator.integers(0, 20_000_000, 163)
    high = low + 40_000_000
    spared = ~stats.touched(start, latency, low, high)
    assert np.quantile(latency[spared], 0.99) < 10e6, "which a plain quantile does"
    for quantile in (0.5, 0.97, 0.99):
        expected = float(np.quantile(latency, quantile))
        assert stats.spared_quantile(start, latency, spared, low, high, quantile) == pytest.approx(
            expected, rel=0.1
        )


def test_where_everything_is_touched_nothing_is_known() -> None:
    one = np.array([5], np.int64)

    def of_one(low: int, high: int) -> float:
        begin, end = np.array([low]), np.array([high])
        spared = ~stats.touched(one, one, begin, end)
        return stats.spared_quantile(one, one, spared, begin, end, 0.99)

    assert math.isnan(of_one(0, 100))
    assert of_one(50, 60) == 5.0


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=20),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_a_moved_quantile_is_that_of_all_steps_one_by_one(
    values: list[int], moves: list[tuple[int, int]], weight: float, quantile: float
) -> None:
    late = np.array([max(pair) for pair in moves], np.float64)
    typical = np.array([min(pair) for pair in moves], np.float64)
    everything = np.concatenate([np.array(values, np.float64), late, typical])
    counts = np.concatenate([np.ones(len(values)), -weight * np.ones(len(late)), weight * np.ones(len(late))])
    order = np.argsort(everything, kind="stable")
    passed = np.maximum.accumulate(np.cumsum(counts[order]))
    expected = everything[order][np.searchsorted(passed, quantile * len(values))]
    assert stats.moved_quantile(np.sort(np.array(values)), late, typical, weight, quantile) == expected
