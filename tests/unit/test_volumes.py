"""Time in a volume itself, in its drive, and in requests that a driver gave back: what the verdict says of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground_truth import volumes
from whodisk.verdict.solve import solve


@pytest.mark.parametrize("seed", range(3))
def test_a_volume_that_takes_the_time_is_the_limit_and_not_memory(tmp_path: Path, seed: int) -> None:
    verdict = solve(volumes.encrypted(seed, tmp_path / "case"))
    assert verdict.status == "limited" and verdict.limit is not None
    assert "in the volume dm-0 itself, not in nvme0n1" in verdict.limit
    assert "memory" not in verdict.limit
    assert not [item for item in verdict.cleared if item.what == "device:dm-0"], verdict.cleared


@pytest.mark.parametrize("seed", range(3))
def test_what_a_volume_held_itself_is_not_its_drives(tmp_path: Path, seed: int) -> None:
    first = solve(volumes.late_volume(seed, tmp_path / "case")).findings[0]
    assert (first.culprit.kind, first.culprit.because_of) == ("stage", "device:dm-0"), first.culprit
    assert "passed in the volume dm-0 itself" in first.claim
    assert "dmsetup table" in first.remedy


@pytest.mark.parametrize("seed", range(3))
def test_what_the_drive_below_held_is_the_drives(tmp_path: Path, seed: int) -> None:
    first = solve(volumes.late_drive(seed, tmp_path / "case")).findings[0]
    assert (first.culprit.name, first.culprit.because_of) == ("device", "device:nvme0n1"), first.culprit
    assert "volume" not in first.claim


@pytest.mark.parametrize("seed", range(3))
def test_requests_that_were_given_back_are_told(tmp_path: Path, seed: int) -> None:
    first = solve(volumes.given_back(seed, tmp_path / "case")).findings[0]
    assert (first.culprit.name, first.culprit.because_of) == ("queue", "device:nvme0n1"), first.culprit
    assert "The driver had given their requests back, typically 4 times each" in first.claim
    assert "TASK" not in first.remedy and "queue_depth" in first.remedy


@pytest.mark.parametrize("seed", range(3))
def test_what_waited_without_being_given_back_is_not_said_to(tmp_path: Path, seed: int) -> None:
    first = solve(volumes.late_queue(seed, tmp_path / "case")).findings[0]
    assert first.culprit.name == "queue" and "given" not in first.claim
