"""A part of a device in which reads are late is no lack of CPU; what is late everywhere, or is read one part after the other, tells nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground_truth.ranges import slow_for_a_while
from whodisk.evidence.late_places import densest, parts_apart
from whodisk.evidence.thresholds import LATE_PLACES, LATE_PLACES_TIMES
from whodisk.statistics.stats import Bools, Ints
from whodisk.verdict.solve import solve

MS = 1_000_000
SPAN = 10_000 * MS


def apart(part: Ints, start: Ints, late: Bools) -> list[int]:
    """The parts that stand apart, of reads at these places and times, some of which are late by 4 ms."""
    moment = start * LATE_PLACES_TIMES // SPAN
    there = np.zeros((LATE_PLACES, LATE_PLACES_TIMES), np.int64)
    np.add.at(there, (part, moment), 1)
    order = np.flatnonzero(late)[np.argsort(start[late], kind="stable")]
    told = {
        "part": part[order],
        "moment": moment[order],
        "start_ns": start[order],
        "end_ns": start[order] + 4 * MS,
    }
    return np.flatnonzero(parts_apart(there, told)).tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bad", [[5], [4, 5], list(range(6))])
def test_parts_of_late_reads_stand_apart(seed: int, bad: list[int]) -> None:
    """All reads of some parts are late, and one of 40 others (they miss a turn on a CPU)."""
    rng = np.random.default_rng([seed, 1])
    start, part = rng.integers(0, SPAN, 8_000), rng.integers(0, LATE_PLACES, 8_000)
    late = np.isin(part, bad) | (rng.random(8_000) < 1 / 40)
    assert apart(part, start, late) == bad


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("every", [400, 40, 4])
def test_what_is_late_everywhere_is_not(seed: int, every: int) -> None:
    rng = np.random.default_rng([seed, 2])
    start, part = rng.integers(0, SPAN, 8_000), rng.integers(0, LATE_PLACES, 8_000)
    assert apart(part, start, rng.random(8_000) < 1 / every) == []


@pytest.mark.parametrize("seed", range(5))
def test_one_part_after_the_other_is_compared_with_nobody(seed: int) -> None:
    """A scan of the device is late for a third of its time, whatever it reads then."""
    rng = np.random.default_rng([seed, 3])
    start = np.sort(rng.integers(0, SPAN, 8_000))
    part = start * LATE_PLACES // SPAN
    assert apart(part, start, (start > SPAN // 3) & (start < 2 * SPAN // 3)) == []


@pytest.mark.parametrize("seed", range(5))
def test_reads_that_are_late_at_once_count_as_one(seed: int) -> None:
    """Four turns on a CPU are missed by 50 reads of one part each, all at once: four events."""
    rng = np.random.default_rng([seed, 4])
    start, part = rng.integers(0, SPAN, 8_000), rng.integers(0, LATE_PLACES, 8_000)
    late = np.zeros(8_000, np.bool_)
    late[:200] = True
    part[:200] = 7
    start[:200] = np.repeat(rng.integers(0, SPAN - MS, 4), 50) + rng.integers(0, MS, 200)
    assert apart(part, start, late) == []


def test_the_range_with_most_late_reads_is_found() -> None:
    reads = np.array([9, 9, 9, 9, 9, 9, 9])
    assert densest(reads, np.array([0, 1, 9, 4, 9, 1, 6])) == (2, 5)
    assert densest(reads, np.array([0, 1, 2, 0, 1, 0, 0])) == (0, 0)


def test_a_device_that_is_slow_for_a_while_is_slow_nowhere_in_particular(tmp_path: Path) -> None:
    said = "".join(f.claim for f in solve(slow_for_a_while(1, tmp_path / "case")).findings)
    assert "took 4.4" in said
    assert "addresses" not in said
