"""A seeded part of `python -m tests.accuracy nulls`: tests that reject where nothing is to be found, and that find what is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground_truth.nulls import FAMILIES
from tests.accuracy.nulls import LEVEL, TESTS, Kept, document, judged, wrong_findings

#: Worlds per family; by chance one in a hundred gives p < 0.01, and a test that is sound in 1,000 stays below a tenth here.
WORLDS, POWER_WORLDS = 8, 6
SLOW = {"drives", "groups", "presence", "pauses"}


@pytest.mark.parametrize("name", TESTS)
def test_nothing_is_found_where_nothing_is(name: str) -> None:
    test = TESTS[name]
    worlds = 2 if name in SLOW else WORLDS
    # Seeds of their own: those of the table may be looked at.
    low = [
        (family, seed)
        for family in test.families
        for seed in range(90_000, 90_000 + worlds)
        if test.null(family, seed) < LEVEL
    ]
    assert len(low) <= max(1, worlds * len(test.families) // 12), low


@pytest.mark.parametrize("name", [name for name, test in TESTS.items() if test.power is not None])
def test_the_smallest_effect_is_found(name: str) -> None:
    power = TESTS[name].power
    assert power is not None
    worlds = 2 if name in SLOW else POWER_WORLDS
    assert sum(power(seed) < LEVEL for seed in range(90_000, 90_000 + worlds)) >= 0.8 * worlds


@pytest.mark.parametrize("family", ["mixed_sizes", "programs", "heavy_tails"])
def test_whole_cases_accuse_nobody(family: str, tmp_path: Path) -> None:
    assert family in FAMILIES
    assert not wrong_findings(family, 90_001, tmp_path / "case")


def test_what_is_kept_is_not_computed_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def one(_family: str, seed: int) -> float:
        calls.append(seed)
        return 0.001 if seed < 2 else 0.5

    for worlds in (60, 100):
        Kept(tmp_path / "p.jsonl").fill("silences", "quiet", range(worlds), one)
    assert calls == list(range(100))
    kept = Kept(tmp_path / "p.jsonl")
    assert kept.counted("silences", "quiet") == (2, 100)
    assert "| late operations lie in silences | submitter_gap | quiet | 2 | 100 |" in document(kept)


def test_the_bar() -> None:
    assert judged(15, 1000) == judged(130, 10_000) == "passes"
    assert judged(0, 999) == "passes so far"
    assert judged(25, 1000) == judged(131, 10_000) == "fails"
    assert judged(20, 1000).startswith("between")
