"""A drive that sleeps when it has nothing to do, and one that is late at other times."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground_truth import asleep
from whodisk.verdict.solve import solve


@pytest.mark.parametrize("seed", range(3))
def test_what_woke_the_drive_is_told_and_how_to_keep_it_awake(tmp_path: Path, seed: int) -> None:
    first = solve(asleep.sleeping_drive(seed, tmp_path / "case")).findings[0]
    assert "when it had had nothing to do" in first.claim and "saves power" in first.claim
    assert first.remedy.startswith("Switch off its power saving")
    assert "Keep sda awake" in first.refute


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_late_in_the_middle_of_bursts_woke_nobody(tmp_path: Path, seed: int) -> None:
    first = solve(asleep.late_in_bursts(seed, tmp_path / "case")).findings[0]
    assert "nothing to do" not in first.claim
    assert "power saving" not in first.remedy + first.refute
