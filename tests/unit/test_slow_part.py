"""Places of a device that take many times as long as the others, and whether it is the place or the time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground_truth.cases import TRUTHS
from ground_truth.hosts import slow_part, slow_part_once
from ground_truth.reads import tails_of_a_slow_disk
from whodisk.evidence.slow_places import SlowPlaces, met_again, moved_p, slow_places
from whodisk.statistics.stats import Bools, Floats, Ints
from whodisk.verdict.solve import solve

SIZE, PLACES = 4096, 2000


def times(seed: int, slow: Bools, ratio: float = 20.0) -> Floats:
    noise = np.random.default_rng(seed).normal(0, 0.4, len(slow))
    return np.asarray(noise + np.where(slow, np.log(ratio), 0.0), np.float64)


def found(place: Ints, log_time: Floats) -> SlowPlaces | None:
    return slow_places(place * SIZE, np.full(len(place), SIZE), log_time, 4.0)


def again(places: SlowPlaces, place: Ints, log_time: Floats, mine: Bools) -> bool:
    size = np.full(len(place), SIZE)
    return met_again(places, place * SIZE, size, log_time, mine.astype(np.int64), mine, 4.0)


def test_a_part_is_found_by_its_bytes() -> None:
    place = np.arange(PLACES)
    places = found(place, times(1, (place >= 600) & (place < 1000)))
    assert places is not None
    assert abs(int(places.begin[0]) - 600 * SIZE) < 16 * SIZE
    assert abs(int(places.end[0]) - 1000 * SIZE) < 16 * SIZE
    assert places.low_ratio < places.ratio < places.high_ratio
    assert 15 < places.ratio < 25 and places.p_value < 0.001


@pytest.mark.parametrize("case", ["most of it", "a slope", "here and there", "twice as long", "half of them"])
def test_what_is_no_part(case: str) -> None:
    place = np.arange(PLACES)
    part = (place >= 600) & (place < 1000)
    log_time = {
        "most of it": times(2, (place >= 600) & (place < 1900)),
        "a slope": times(2, np.zeros(PLACES, np.bool_)) + place / PLACES * np.log(20.0),
        "here and there": times(2, place // 50 % 4 == 1),
        "twice as long": times(2, part, 2.0),
        "half of them": times(2, part & (place % 2 == 0)),
    }[case]
    assert found(place, log_time) is None


def test_a_second_round_tells_the_place_from_the_time() -> None:
    once = np.arange(PLACES)
    twice = np.tile(once, 2)
    slow = (twice >= 600) & (twice < 1000)
    both = times(3, slow)
    places = found(twice, both)
    assert places is not None and again(places, twice, both, np.ones(len(twice), np.bool_))
    # Read once, and written before: the writes agree, or they do not.
    is_read = np.arange(2 * PLACES) >= PLACES
    only = found(once, both[is_read])
    assert only is not None and again(only, twice, both, is_read)
    elsewhere = np.where(is_read, both, np.roll(both, 700))
    assert not again(only, twice, elsewhere, is_read)
    even = np.where(is_read, both, times(4, np.zeros(2 * PLACES, np.bool_)))
    assert not again(only, twice, even, is_read)


def test_one_round_tells_nothing() -> None:
    place = np.arange(PLACES)
    log_time = times(5, (place >= 600) & (place < 1000))
    places = found(place, log_time)
    assert places is not None and not again(places, place, log_time, np.ones(PLACES, np.bool_))


def test_who_reads_here_and_there_is_at_a_place_at_all_times() -> None:
    place = np.random.default_rng(6).integers(0, PLACES, 4 * PLACES)
    log_time = times(6, (place >= 600) & (place < 1000))
    places = found(place, log_time)
    assert places is not None and again(places, place, log_time, np.ones(len(place), np.bool_))


def test_chance_by_shifts_along_the_time() -> None:
    there = (np.arange(1000) >= 300) & (np.arange(1000) < 400)
    rank = there.astype(np.float64)
    assert moved_p(there, rank) == pytest.approx(0.001)
    # The other way round every shift is as good.
    assert moved_p(there, 1 - rank) == 1.0
    # A few say nothing.
    assert moved_p(np.arange(1000) < 5, rank) == 1.0


def test_the_verdict_tells_whether_it_is_the_place(tmp_path: Path) -> None:
    twice, once = solve(slow_part(7, tmp_path / "twice")), solve(slow_part_once(7, tmp_path / "once"))
    assert "it is the place, and not the time" in twice.findings[0].claim
    assert "it was slow there, or just then" in once.findings[0].claim
    for verdict in (twice, once):
        assert not {"device:nvme0n1", "stage:device"} & {item.what for item in verdict.cleared}


def test_a_tail_behind_a_slow_request_costs_what_it_usually_does(tmp_path: Path) -> None:
    verdict = solve(tails_of_a_slow_disk(7, tmp_path / "case"))
    assert not [finding for finding in verdict.findings if finding.detector == "uncached_tail"], (
        verdict.summary
    )
    assert TRUTHS["tails_of_a_slow_disk"].detector == "uncached_tail"
