"""Rank tests within strata: blocks of time, say, in each of which everything else is alike."""

from __future__ import annotations

import numpy as np

from whodisk.statistics import probability
from whodisk.statistics.stats import Bools, Floats, Ints


def stratified_rank_p(values: Floats, chosen: Bools, stratum: Ints) -> float:
    """Probability that the `chosen` values are this much larger than the others of their stratum, if they were drawn from them.

    Van Elteren's test (Bull. Inst. Int. Stat. 37, 1960): Wilcoxon's rank sums, weighted by 1 / (n + 1). One-sided, normal approximation with
    ties. 1 where no stratum has both.
    """
    ranks, count = _ranks(values, stratum)
    inside = np.bincount(stratum, chosen, len(count))
    mean = (count + 1) / 2
    weight = 1 / (count + 1)
    above = np.bincount(stratum, np.where(chosen, ranks, 0.0), len(count)) - inside * mean
    squares = np.bincount(stratum, (ranks - mean[stratum]) ** 2, len(count)) / np.maximum(count - 1, 1)
    variance = squares * inside * (count - inside) / np.maximum(count, 1)
    spread = float(np.sqrt((weight**2 * variance).sum()))
    return probability.normal_above(float((weight * above).sum()) / spread) if spread > 0 else 1.0


def stratified_correlation_p(one: Floats, other: Floats, stratum: Ints) -> float:
    """Probability that two values grow with each other this much within their strata, if the pairs were drawn anew in each.

    Spearman's correlation, its strata added up; one-sided, normal approximation. 1 where nothing varies.
    """
    first, count = _ranks(one, stratum)
    second, _ = _ranks(other, stratum)
    mean = ((count + 1) / 2)[stratum]
    weight = (1 / (count + 1))[stratum]
    together = float((weight * (first - mean) * (second - mean)).sum())
    squares = [np.bincount(stratum, (ranks - mean) ** 2, len(count)) for ranks in (first, second)]
    variance = squares[0] * squares[1] / np.maximum(count - 1, 1) / (count + 1) ** 2
    spread = float(np.sqrt(variance[count > 1].sum()))
    return probability.normal_above(together / spread) if spread > 0 else 1.0


def _ranks(values: Floats, stratum: Ints) -> tuple[Floats, Floats]:
    """Rank of each value in its stratum (1, 2, ...; equal ones share the mean), and the number of values of each stratum."""
    count = np.bincount(stratum).astype(np.float64)
    order = np.lexsort((values, stratum))
    ordered, group = values[order], stratum[order]
    begins = np.concatenate(([0.0], np.cumsum(count)[:-1]))
    place = np.arange(len(values)) - begins[group] + 1
    new = np.concatenate(([True], (ordered[1:] != ordered[:-1]) | (group[1:] != group[:-1])))
    tie = np.cumsum(new) - 1
    shared = np.bincount(tie, place) / np.bincount(tie)
    ranks = np.empty(len(values))
    ranks[order] = shared[tie]
    return ranks, count
