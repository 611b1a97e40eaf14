"""Time in a volume itself, in its drive, and in requests that a driver gave back: what the verdict says of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground_truth import crowds, volumes
from whodisk.evidence.context import Context
from whodisk.evidence.held_in_volumes import held_in_volumes
from whodisk.evidence.slow_operations import find_slow, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.machine.volume_time import VolumeTime, in_all_volumes
from whodisk.reading.views import Case
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


@pytest.mark.parametrize("seed", range(3))
def test_a_request_that_a_volume_held_is_the_volumes(tmp_path: Path, seed: int) -> None:
    first = solve(volumes.suspended(seed, tmp_path / "case")).findings[0]
    assert (first.culprit.name, first.culprit.because_of) == ("fs", "device:dm-0"), first.culprit
    assert "the volume dm-0 held its request, with nothing in flight in nvme0n1" in first.claim
    assert "dmsetup suspend" in first.remedy


@pytest.mark.parametrize("seed", range(3))
def test_what_the_file_system_held_is_not_the_volumes(tmp_path: Path, seed: int) -> None:
    first = solve(volumes.held_above(seed, tmp_path / "case")).findings[0]
    assert (first.culprit.name, first.culprit.because_of) == ("fs", None), first.culprit
    assert "volume" not in first.claim


def test_a_volume_held_nothing_while_its_drive_was_at_work(tmp_path: Path) -> None:
    path = volumes.suspended(0, tmp_path / "case")
    with Case(path) as case:
        (longest,) = case.arrays(
            "SELECT op_id FROM syscall_ops ORDER BY latency_ns DESC, op_id LIMIT 1"
        ).values()
        op_id = int(longest[0])
        held = held_in_volumes(case, np.array([op_id], np.int64))[op_id]
        assert (held.volume, held.members) == ("dm-0", ("nvme0n1",)) and 600e6 <= held.held_ns < 601e6
    late = volumes.late_drive(0, tmp_path / "late")
    with Case(late) as case:
        (longest,) = case.arrays(
            "SELECT op_id FROM syscall_ops ORDER BY latency_ns DESC, op_id LIMIT 1"
        ).values()
        found = held_in_volumes(case, longest.astype(np.int64))
        assert all(one.held_ns < 1e6 for one in found.values()), found


@pytest.mark.parametrize("seed", range(3))
def test_an_origin_waits_for_the_device_of_its_snapshot(tmp_path: Path, seed: int) -> None:
    verdict = solve(volumes.origin(seed, tmp_path / "case", waits=True))
    assert verdict.status == "limited" and verdict.limit is not None
    assert "the volume dm-1, which waits for nvme1n1 (part of dm-2, as nvme0n1 is)" in verdict.limit
    assert "device:nvme1n1" not in [item.what for item in verdict.cleared], verdict.cleared


@pytest.mark.parametrize("seed", range(3))
def test_a_volume_that_takes_the_time_by_itself_waits_for_no_snapshot(tmp_path: Path, seed: int) -> None:
    verdict = solve(volumes.origin(seed, tmp_path / "case", waits=False))
    assert verdict.limit is not None and "in the volume dm-1 itself, not in nvme0n1" in verdict.limit
    assert "nvme1n1" not in verdict.limit


def _time_in(path: Path) -> VolumeTime:
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in case.layers}
        slow = find_slow(case, surveys["syscall"])
        found = in_all_volumes(Context(case, surveys, "syscall", slow, none_of(slow)), ("write",))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_member_that_an_array_waits_for_alone_is_told(tmp_path: Path, seed: int) -> None:
    found = _time_in(volumes.parity(seed, tmp_path / "case", slow="sdb"))
    assert found.last is not None and found.last.device == "sdb", found
    assert "of its own time only sdb has one, up to 4" in found.said
    assert found.held_by == "sdb"


@pytest.mark.parametrize("seed", range(8))
def test_members_that_are_late_alike_are_not_told_apart(tmp_path: Path, seed: int) -> None:
    found = _time_in(volumes.parity(seed, tmp_path / "case", slow="all"))
    assert found.last is None and found.held_by == "md0", found.last


@pytest.mark.parametrize("seed", range(2))
def test_a_member_that_held_the_longest_is_named_however_few_they_are(tmp_path: Path, seed: int) -> None:
    """The program's reads name no device, and their requests one made of others: links lead to the drive that had them."""
    first = solve(crowds.stuck_member(seed, tmp_path / "case")).findings[0]
    assert (first.culprit.name, first.culprit.because_of) == ("device", "device:nvme2n1"), first.claim
    assert "device stage of nvme2n1" in first.claim
