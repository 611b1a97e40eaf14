"""Silences of threads and late operations: what has to do with each other, and what only follows the same load."""

from __future__ import annotations

import numpy as np

from whodisk.statistics.coincidence import Intervals, coincidence_p
from whodisk.statistics.stats import Ints

SECOND = 10**9


def busy(rng: np.random.Generator) -> Ints:
    """Begins of operations in bursts: 300 a burst, 40 bursts in twenty seconds."""
    bursts = np.sort(rng.uniform(0, 20 * SECOND, 40))
    return np.sort((bursts[:, None] + rng.uniform(0, 0.1 * SECOND, (40, 300))).ravel()).astype(np.int64)


def intervals(begin: Ints, length: float) -> Intervals:
    begin = np.sort(begin)
    return Intervals(np.full(len(begin), 7), begin, begin + int(length))


def test_what_follows_the_same_load_is_no_coincidence() -> None:
    """60 worlds, silences and late operations both in the bursts of the load: before, p < 0.01 in each of them."""
    low = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 1])
        begins = busy(rng)
        silent = intervals(rng.choice(begins, 30, replace=False), 12e6)
        late = intervals(rng.choice(begins, 400, replace=False), 8e6)
        low += coincidence_p(silent, late, begins, 499) < 0.01
    assert low <= 3


def test_late_operations_in_silences_are_found() -> None:
    for seed in range(20):
        rng = np.random.default_rng([seed, 2])
        begins = busy(rng)
        at = np.sort(rng.choice(begins, 30, replace=False))
        late = intervals(np.concatenate((at[:24], rng.choice(begins, 100, replace=False))), 12e6)
        assert coincidence_p(intervals(at, 12e6), late, begins, 499) < 0.001


def test_only_the_thread_s_own_operations_count() -> None:
    begins = np.arange(0, SECOND, 10**5, dtype=np.int64)
    at = np.array([1, 3, 5, 7], np.int64) * 10**8
    silent = Intervals(np.full(4, 1), at, at + 10**7)
    assert coincidence_p(silent, Intervals(np.full(4, 1), at, at + 10**7), begins, 499) < 0.01
    assert coincidence_p(silent, Intervals(np.full(4, 2), at, at + 10**7), begins, 499) == 1.0
