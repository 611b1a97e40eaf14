"""Ratios between repeated runs: known answers, made worlds (the long tables are `make accuracy ARGS='experiments'`), edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accuracy.experiments import trial
from tests.experiment_worlds import METRICS, WORLDS, World, draw, totals_only
from whodisk.statistics import steadiness
from whodisk.statistics.autocorrelation import block_length
from whodisk.statistics.repeated import Metric, called, compare, episodes_beyond, holm, value
from whodisk.statistics.stopping import Rule, enough, half_width

MEAN = Metric("mean", total="latency", per="operations")
P50 = Metric("p50", quantile=0.5)


def lognormal(seed: int, count: int = 4000, median: float = 1e5) -> np.ndarray:
    return median * np.exp(np.random.default_rng(seed).normal(0, 0.3, count))


def test_a_quantile_is_that_of_the_values_within_a_bin() -> None:
    values = lognormal(1)
    for part in (0.01, 0.5, 0.9, 0.99):
        found = value([totals_only(values)], Metric("q", quantile=part))
        assert found == pytest.approx(np.quantile(values, part), rel=0.004)


@pytest.mark.parametrize("world", WORLDS[:2], ids=lambda world: world.name)
def test_intervals_cover_a_known_ratio_stopping_rule_included(world: World) -> None:
    outcomes = [trial(world, seed, 1.1, Rule(0.06, 5, 8)) for seed in range(25)]
    held = [ok for outcome in outcomes for ok in outcome.covered.values()]
    # Of 25 trials at 95 % each metric misses one or two; all of them together are not independent.
    assert len(held) > 100 and np.mean(held) > 0.85
    assert any(outcome.rounds < 8 for outcome in outcomes) or world is WORLDS[1]


def test_equal_arms_are_seldom_called_different() -> None:
    calls = [trial(WORLDS[0], seed, 1.0, Rule(None, 5, 5)).called for seed in range(40)]
    assert sum(calls) <= 7


def test_a_ratio_is_found_and_called() -> None:
    outcome = trial(WORLDS[0], 3, 1.3, Rule(None, 6, 6))
    assert outcome.called


def test_rounds_that_differ_do_not_hide_a_small_ratio() -> None:
    world = World("drifts", rounds_spread=0.5, runs_spread=0.005, moments_spread=0.01, bursts=0.0)
    generator = np.random.default_rng(1)
    effects = generator.normal(0, world.rounds_spread, 8)
    first = [draw(world, generator, effect, 1.0).run for effect in effects]
    second = [draw(world, generator, effect, 1.05).run for effect in effects]
    (paired,) = compare(first, second, METRICS[:1], paired=True)
    (apart,) = compare(first, second, METRICS[:1])
    assert paired.high < 1 and paired.low < 1 / 1.05 < paired.high
    assert apart.low < 1 < apart.high
    assert paired.smallest_effect < 0.2 * apart.smallest_effect


def test_one_run_a_side_speaks_of_these_runs_only() -> None:
    (ratio,) = compare([totals_only(lognormal(1))], [totals_only(1.1 * lognormal(2))], [P50])
    assert ratio.these_runs_only and ratio.low < 1.1 < ratio.high
    (three,) = compare(
        [totals_only(lognormal(i)) for i in range(3)], [totals_only(lognormal(i)) for i in range(3, 6)], [P50]
    )
    assert not three.these_runs_only


def test_a_quantile_with_few_episodes_is_not_estimable() -> None:
    sides = ({"p50": 10}, {"p50": 9})
    (ratio,) = compare([totals_only(lognormal(1))], [totals_only(lognormal(2))], [P50], episodes=sides)
    assert not ratio.is_known and "9 episodes" in ratio.missing and math.isnan(ratio.ratio)
    assert called([ratio]) == [False]


def test_what_is_absent_is_no_ratio() -> None:
    runs = [totals_only(lognormal(seed)) for seed in range(2)]
    runs[1].totals["queue"] = np.zeros(runs[1].moments)
    runs[0].totals["queue"] = np.ones(runs[0].moments)
    (ratio,) = compare([runs[0]], [runs[1]], [Metric("queue", total="queue", per="operations")])
    assert ratio.missing == "zero on one side"


def test_sides_that_do_not_match_are_refused() -> None:
    run = totals_only(lognormal(1))
    with pytest.raises(ValueError, match="found 1 and 2"):
        compare([run], [run, run], [MEAN], paired=True)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.floats(0.2, 5.0))
def test_a_ratio_and_its_inverse_are_the_same_statement(seed: int, factor: float) -> None:
    first = [totals_only(lognormal(seed + i, 200)) for i in range(3)]
    second = [totals_only(factor * lognormal(seed + 10 + i, 200)) for i in range(3)]
    (one,) = compare(first, second, [MEAN], paired=True)
    (other,) = compare(second, first, [MEAN], paired=True)
    assert one.low <= one.ratio <= one.high
    assert other.ratio == pytest.approx(1 / one.ratio) and other.low == pytest.approx(1 / one.high)
    assert one.p_value == pytest.approx(other.p_value)


def test_episodes_are_not_operations() -> None:
    # Twenty operations held up together are one; five that follow each other far apart are five.
    together = np.zeros(20, np.int64)
    apart = np.arange(5) * 1_000_000
    start = np.concatenate((together, 10_000_000 + apart))
    latency = np.concatenate((np.full(20, 100_000), np.full(5, 100_000)))
    assert episodes_beyond(start, latency, 50_000) == 6
    assert episodes_beyond(start, latency, 100_000) == 0


def test_operations_that_overlap_without_end_are_many_episodes() -> None:
    start = np.arange(10_000) * 10_000
    latency = np.full(10_000, 1_000_000)
    assert 20 <= episodes_beyond(start, latency, 500_000) <= 30


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_blocks_are_long_where_values_hang_together() -> None:
    generator = np.random.default_rng(1)
    noise = generator.normal(0, 1, 2000)
    slow = np.zeros(2000)
    for i in range(1, 2000):
        slow[i] = 0.95 * slow[i - 1] + noise[i]
    assert block_length(noise) < 6 and block_length(slow) > 20
    assert block_length(np.ones(100)) == 1.0


def test_the_ramp_ends_where_the_rate_is_steady() -> None:
    series = np.concatenate((np.linspace(10, 100, 30), np.full(70, 100.0)))
    assert steadiness.ramp_length(series, 0.2, 0.1) in (20, 30)
    assert steadiness.ramp_length(np.full(100, 5.0), 0.2, 0.1) == 0
    assert steadiness.ramp_length(np.exp(np.linspace(0, 4, 100)), 0.2, 0.1) is None


def test_an_experiment_stops_when_it_knows_enough_or_may_not_go_on() -> None:
    (narrow,) = compare(
        [totals_only(lognormal(i)) for i in range(6)],
        [totals_only(lognormal(i)) for i in range(6, 12)],
        [MEAN],
    )
    rule = Rule(2 * half_width(narrow), 5, 9)
    assert not enough(rule, 4, [narrow]) and enough(rule, 5, [narrow])
    assert not enough(Rule(0.5 * half_width(narrow), 5, 9), 8, [narrow])
    assert enough(Rule(0.5 * half_width(narrow), 5, 9), 9, [narrow])
    assert not enough(Rule(None, 5, 9), 8, [narrow])
