"""Pauses of a device out of the moments at which its requests begin and end."""

from __future__ import annotations

import heapq
from pathlib import Path

import numpy as np
import pytest

from ground_truth import silences
from tests import synth
from whodisk.detectors.silent_device import Requests, find_pauses
from whodisk.findings import Culprit
from whodisk.verdict.solve import solve


def served(
    seed: int,
    parallel: int,
    depth: int,
    sigma: float,
    pauses: int = 0,
    count: int = 12_000,
    pause_ns: float = 150e3,
) -> Requests:
    """A closed loop of `depth` requests at a device that serves `parallel` at once, 100 us each; a pause adds `pause_ns` to all."""
    generator = np.random.default_rng([seed, 82])
    took = 100e3 * generator.lognormal(0, sigma, count)
    length = count * 100e3 / parallel
    moments = np.sort(generator.uniform(0.05, 0.95, pauses)) * length
    free = [0.0] * parallel
    slots = [0.0] * depth
    begin, end = np.zeros(count), np.zeros(count)
    for number in range(count):
        begin[number] = heapq.heappop(slots)
        end[number] = max(begin[number], heapq.heappop(free)) + took[number]
        heapq.heappush(free, end[number])
        heapq.heappush(slots, end[number] + 2e3)
    # Time stands still in a pause.
    late = pause_ns * np.searchsorted(moments, np.column_stack((begin, end)))
    begin_ns, end_ns = (np.stack((begin, end)) + late.T).astype(np.int64)
    return Requests(begin_ns, end_ns, np.zeros(count, np.int64))


@pytest.mark.parametrize(
    ("parallel", "depth", "sigma"), [(8, 16, 0.05), (16, 16, 0.05), (8, 8, 0.3), (32, 16, 0.15)]
)
def test_pauses_are_counted(parallel: int, depth: int, sigma: float) -> None:
    for seed in range(3):
        found = find_pauses(served(seed, parallel, depth, sigma, pauses=23))
        assert 18 <= len(found) <= 23, f"seed {seed}"


@pytest.mark.parametrize(("depth", "pause_ns"), [(8, 50e3), (16, 45e3)])
def test_pauses_of_half_a_requests_time_show_by_their_chance(depth: int, pause_ns: float) -> None:
    """Of lengths and of logarithms of chances some are everywhere; so unlikely are only pauses."""
    for seed in range(3):
        found = find_pauses(served(seed, 2 * depth, depth, 0.05, 25, 17_000, pause_ns))
        assert 15 <= len(found) <= 26, f"seed {seed}"


@pytest.mark.parametrize("parallel", [1, 8, 32])
@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0])
def test_devices_that_do_not_pause_have_hardly_one(parallel: int, sigma: float) -> None:
    """Batches, long queues and heavy tails: what is in flight waits, but no longer than usual."""
    for seed in range(3):
        for depth in (4, 16, 128):
            found = find_pauses(served(seed, parallel, depth, sigma))
            assert len(found) <= 4, f"seed {seed}, depth {depth}: {found}"


def test_few_requests_say_nothing() -> None:
    assert len(find_pauses(served(1, 8, 16, 0.1, count=50))) == 0


def arriving(seed: int, pauses: int, count: int = 8000) -> Requests:
    """Requests that come by themselves, one or two under way at a time, 55 us each; in a pause of 250 us none is served."""
    generator = np.random.default_rng([seed, 83])
    came = np.cumsum(generator.exponential(42e3, count))
    end = came + 55e3 * generator.lognormal(0, 0.05, count)
    for moment in generator.uniform(0.02, 0.98, pauses) * came[-1]:
        # What is left is served after the pause.
        held = (came < moment + 250e3) & (end > moment)
        end[held] += 250e3 - (came[held] - moment).clip(0)
    begun, done = np.arange(1, count + 1), np.searchsorted(np.sort(end), came)
    return Requests(
        came.astype(np.int64), end.astype(np.int64), np.floor(np.log2(begun - done)).astype(np.int64)
    )


def test_pauses_are_found_where_few_requests_are_under_way() -> None:
    """Only in a pause are many: their depth is none that tells what is usual."""
    for seed in range(3):
        assert 15 <= len(find_pauses(arriving(seed, 30))) <= 30, f"seed {seed}"
        assert len(find_pauses(arriving(seed, 0))) <= 1, f"seed {seed}"


def test_without_interrupts_the_stage_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late interrupt would look the same: no device is accused, but the stage that holds both."""
    monkeypatch.setattr(synth, "BLOCK_STAGES", ("queue", "device"))
    (finding,) = solve(silences.short_pauses(5, tmp_path / "case")).findings
    assert finding.detector == "silent_device"
    assert finding.culprit == Culprit("stage", "device", "device:nvme0n1")
