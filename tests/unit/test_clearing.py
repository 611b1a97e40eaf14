"""What is innocent: each thing by its own time, over blocks of time, and never what a finding names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground_truth.cases import TRUTHS
from tests.synth import BLOCK_ID_BASE, Simulation, write_case
from whodisk.verdict.clearing import _used
from whodisk.verdict.solve import solve


def test_a_device_is_cleared_by_its_own_time(tmp_path: Path) -> None:
    """Mystery 2: a read waits long in front of a device whose own time is as ever."""
    case = TRUTHS["once_in_the_queue"].build(4, tmp_path / "case")
    for expect in ([], ["max<5ms"]):
        verdict = solve(case, expect=expect)
        assert verdict.findings[0].culprit.name == "queue"
        device = next(item for item in verdict.cleared if item.what == "device:nvme0n1")
        assert device.bound.startswith("none of 40,000 requests spent over 1")
        assert device.bound.endswith(" us in it")
        assert device.block_ns < 2_000_000
        assert "stage:queue" not in [item.what for item in verdict.cleared]
        assert "nvme0n1 (none of 40,000 requests spent over 1" in " ".join(verdict.summary)


def test_a_stage_that_holds_what_a_finding_on_sums_costs_is_not_cleared(tmp_path: Path) -> None:
    """A neighbour costs a sixteenth of all latency, inside the device, where operations pass all of their time; "none of them spent over ..." with the largest value seen cleared that stage."""
    verdict = solve(TRUTHS["seldom_guest"].build(1, tmp_path / "case"))
    assert [finding.culprit.name for finding in verdict.findings] == ["cron"]
    stages = {item.what for item in verdict.cleared if item.what.startswith("stage:")}
    assert "stage:device" not in stages
    assert "stage:fs" in stages
    # What is lost between operations is in none of their stages.
    stopped = solve(TRUTHS["stopped_server"].build(1, tmp_path / "stopped"))
    assert "stage:device" in [item.what for item in stopped.cleared]


@pytest.mark.slow
def test_operations_in_flight_together_are_one_piece_of_evidence(tmp_path: Path) -> None:
    """64 at a time tell no more of a device than the blocks of time in which they were there."""
    shallow = Simulation(seed=1, depth=4, seconds=1.5, typical_us=300.0).write(tmp_path / "shallow")
    deep = Simulation(seed=1, depth=64, seconds=1.5, typical_us=300.0).write(tmp_path / "deep")
    found = {
        case.name: next(item for item in solve(case).cleared if item.what.startswith("device:"))
        for case in (shallow, deep)
    }
    for item in found.values():
        assert item.blocks <= 1.6e9 / item.block_ns
        assert 1 - 3.1 / item.blocks < item.quantile < 1 - 2.8 / item.blocks
    assert found["deep"].quantile < found["shallow"].quantile + 0.001


def test_a_coarse_clock_clears_no_more_than_it_sees(tmp_path: Path) -> None:
    """Whole milliseconds, cut off: what counts as none may have been one."""
    count = 2000
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(count),
        "start_ns": np.arange(count) * 1_000_000,
        "latency_ns": np.zeros(count, np.int64),
        "device_ns": np.zeros(count, np.int64),
        "device": "sda",
    }
    coarse = {"clock": {"resolution_ns": 1_000_000}}
    case = write_case(tmp_path / "case", block=block, devices=("sda",), meta=coarse)
    bounds = {item.what: item.bound for item in solve(case).cleared}
    assert bounds["device:sda"] == "none of 2,000 requests spent over 1 ms in it"


@pytest.mark.parametrize("length_ns", [1, 7, 1000, 10**7])
def test_blocks_are_counted_once(length_ns: int) -> None:
    start_ns = np.sort(np.random.default_rng(length_ns).integers(-5000, 200_000, 3000))
    assert _used(start_ns, length_ns) == len(np.unique(start_ns // length_ns))
    assert _used(start_ns[:1], length_ns) == 1
    assert _used(start_ns[:0], length_ns) == 0
