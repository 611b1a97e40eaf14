"""Rank tests within strata, against SciPy's and against worlds in which only the strata differ."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as distributions

from whodisk.statistics.ranks import stratified_correlation_p, stratified_rank_p


def test_one_stratum_is_wilcoxon_s_test() -> None:
    rng = np.random.default_rng(1)
    values, chosen = rng.normal(size=200).round(1), rng.random(200) < 0.3
    values[chosen] += 0.3
    known = distributions.mannwhitneyu(
        values[chosen], values[~chosen], alternative="greater", use_continuity=False, method="asymptotic"
    ).pvalue
    assert stratified_rank_p(values, chosen, np.zeros(200, np.int64)) == pytest.approx(known, rel=0.02)


def test_one_stratum_is_spearman_s_correlation() -> None:
    rng = np.random.default_rng(2)
    one = rng.normal(size=300)
    other = 0.2 * one + rng.normal(size=300)
    known = distributions.spearmanr(one, other, alternative="greater").pvalue
    found = stratified_correlation_p(one, other, np.zeros(300, np.int64))
    assert found == pytest.approx(known, rel=0.2)


def test_what_differs_between_strata_proves_nothing() -> None:
    """A slow hour in which more was chosen."""
    low = [0, 0]
    for seed in range(300):
        rng = np.random.default_rng([seed, 3])
        stratum = np.repeat(np.arange(40), 12)
        slow = rng.normal(0, 2, 40)[stratum]
        values = np.exp(slow + rng.standard_cauchy(480).clip(-5, 5))
        chosen = rng.random(480) < 1 / (1 + np.exp(-slow))
        low[0] += stratified_rank_p(values, chosen, stratum) < 0.01
        low[1] += stratified_correlation_p(slow + rng.normal(size=480), values, stratum) < 0.01
    assert max(low) <= 8


def test_nothing_varies() -> None:
    ones = np.ones(20)
    assert stratified_rank_p(ones, np.arange(20) < 5, np.zeros(20, np.int64)) == 1.0
    assert stratified_correlation_p(ones, np.arange(20.0), np.zeros(20, np.int64)) == 1.0
