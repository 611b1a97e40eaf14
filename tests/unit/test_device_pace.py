"""A pace is seen where ends are told late; a device that goes faster whenever it likes keeps none."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.synth import Simulation
from whodisk.detectors.device_rate import said_of
from whodisk.evidence.context import Context
from whodisk.evidence.device_pace import BYTES, REQUESTS, Pace, pace_of
from whodisk.evidence.slow_operations import find_slow, none_of
from whodisk.evidence.surroundings import Cause
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import STAGES, Case
from whodisk.statistics.stats import Floats

MIB = 1 << 20
NS_PER_BYTE = 1e9 / (180 * MIB)


def _requests(seed: int, count: int = 3_000) -> tuple[Floats, Floats, Floats]:
    """Issue, end, size of requests of a device that takes 180 MiB/s and always has the next one waiting."""
    rng = np.random.default_rng(seed)
    size = rng.choice([64, 96, 128, 160, 240], count) * 1024.0
    end = np.cumsum(size * NS_PER_BYTE)
    issued = np.concatenate((np.zeros(8), end[:-8]))
    return issued, end, size


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ends_that_are_told_late_hide_no_pace(seed: int) -> None:
    """A quarter of the ends come late, by up to a third of a request's time, as where who tells them waits for a CPU: the next seems fast."""
    issued, end, size = _requests(seed)
    rng = np.random.default_rng([seed, 1])
    late = np.where(rng.random(len(end)) < 0.25, rng.uniform(0.1, 0.35, len(end)) * size * NS_PER_BYTE, 0.0)
    told = np.maximum.accumulate(end + late)
    pace = pace_of("sda", "write", issued, told, size, float(told[-1]))
    assert pace is not None and pace.unit == BYTES
    assert pace.bytes_per_s == pytest.approx(180 * MIB, rel=0.03)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_device_that_now_and_then_goes_faster_keeps_no_pace(seed: int) -> None:
    """A quarter of the requests take half the time, whatever was before them: it can do more."""
    _, end, size = _requests(seed)
    rng = np.random.default_rng([seed, 2])
    own = np.diff(np.concatenate(([0.0], end))) * np.where(rng.random(len(end)) < 0.25, 0.5, 1.0)
    end = np.cumsum(own)
    assert pace_of("sda", "write", np.concatenate((np.zeros(8), end[:-8])), end, size, float(end[-1])) is None


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_comes_after_a_pause_is_not_forgiven(seed: int) -> None:
    """Where the device has nothing to do in between, a late end gives the next request nothing: half of them are faster than the rest."""
    _, _, size = _requests(seed)
    own = size * NS_PER_BYTE * np.where(np.arange(len(size)) % 2, 0.6, 1.4)
    issued = np.cumsum(own + 1e6) - own
    end = issued + own
    assert pace_of("sda", "write", issued, end, size, float(end[-1])) is None


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ends_that_come_late_and_early_by_turns_hide_no_pace(seed: int) -> None:
    """fio through io_uring, eight in flight, on a device that takes one write of 4 KiB in 151 us: whoever tells the ends is late by up to 70 us."""
    rng = np.random.default_rng([seed, 3])
    count, each_ns = 5_000, 151_000.0
    end = np.cumsum(np.full(count, each_ns))
    issued = np.concatenate((np.zeros(4), end[:-4]))
    told = np.maximum.accumulate(end + rng.exponential(20_000, count).clip(max=70_000))
    pace = pace_of("loop0", "write", issued, told, np.full(count, 4096.0), float(told[-1]))
    assert pace is not None and pace.each_ns == pytest.approx(each_ns, rel=0.03)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_times_of_their_own_are_no_pace_however_they_even_out(seed: int) -> None:
    """Eight requests of any device take about as long as the next eight; they come by no turns."""
    rng = np.random.default_rng([seed, 4])
    own = rng.gamma(16.0, 151_000 / 16.0, 5_000)
    end = np.cumsum(own)
    issued = np.concatenate((np.zeros(4), end[:-4]))
    assert pace_of("loop0", "write", issued, end, np.full(5_000, 4096.0), float(end[-1])) is None


def _one_by_one(seed: int, spread: float, apart_ns: float) -> tuple[Floats, Floats, Floats]:
    """Issue, end, size of requests of 1.1 ms, whatever their size; some take longer, by up to a half, where they spread. Each comes so long after the end of the
    one before it (less than none: it waited)."""
    rng = np.random.default_rng([seed, 5])
    own = 1.1e6 * np.exp(rng.normal(0, 0.01, 3_000))
    own *= np.where(rng.random(3_000) < spread, rng.uniform(1.15, 1.5, 3_000), 1.0)
    end = np.cumsum(own + max(0.0, apart_ns))
    issued = end - own - max(0.0, -apart_ns)
    return issued, end, rng.choice([4, 8, 16, 64, 128], 3_000) * 1024.0


@pytest.mark.parametrize(
    ("spread", "apart_ns", "is_one", "alone"),
    [(0.2, 50_000.0, False, False), (0.0, 50_000.0, True, True), (0.2, -300_000.0, True, False)],
)
def test_what_one_takes_that_nobody_waited_behind_is_no_pace(
    spread: float, apart_ns: float, is_one: bool, alone: bool
) -> None:
    """A network disk of 1.1 ms was said to take 8.9 MiB/s and no more. Where it hardly varies, nothing tells the two apart."""
    issued, end, size = _one_by_one(1, spread, apart_ns)
    pace = pace_of("vdb", "write", issued, end, size, float(end[-1]))
    assert (pace is not None, pace is not None and pace.alone) == (is_one, alone)


def test_a_pace_by_bytes_needs_nobody_to_wait() -> None:
    """Requests that come one by one, and take as much longer as they are larger: that is a rate."""
    _, _, size = _one_by_one(2, 0.0, 0.0)
    rng = np.random.default_rng([2, 6])
    own = size / (8 * MIB) * 1e9 * np.where(rng.random(len(size)) < 0.2, 1.3, 1.0)
    end = np.cumsum(own + 50_000.0)
    pace = pace_of("vdb", "write", end - own, end, size, float(end[-1]))
    assert pace is not None and (pace.unit, pace.alone) == (BYTES, False)


def _said_pace(size_bytes: float, alone: bool) -> Pace:
    times = np.array([0.0]), np.array([1e9])
    return Pace("vdb", "write", REQUESTS, 900.0, 900.0 * 10_240, 0.97, size_bytes, 1.0e6, *times, 1e9, alone)


def test_size_and_time_of_a_request_go_with_the_rate() -> None:
    """The median size stood beside the mean rate: 4 KiB in 1.1 ms are not 8.9 MiB/s."""
    assert "one write of 10 KiB on average in 1.11 ms, one after the other, which is 8.79 MiB/s" in said_of(
        _said_pace(4_096.0, False), 0.9
    )
    assert "one write of 10 KiB in 1.11 ms, one after the other" in said_of(_said_pace(10_240.0, False), 0.9)
    assert "never asked for two writes at once" in said_of(_said_pace(4_096.0, True), 0.9)


@pytest.mark.parametrize("waited", [True, False])
def test_a_short_operation_that_waited_for_a_pace_stands_apart_of_nothing(
    tmp_path: Path, waited: bool
) -> None:
    """`cp` made a file, and XFS wrote its log out before: 9 ms at a device of 18 MiB/s, 2 ms longer in stage `fs` than such calls take."""
    case = Case(Simulation(seed=4, seconds=0.5).tail("device", 0.003, 20).write(tmp_path / "case"))
    surveys = {layer: survey_layer(case, layer) for layer in case.layers}
    slow = find_slow(case, surveys["app"])
    context = Context(case, surveys, "app", slow, none_of(slow))
    fs = STAGES.index("fs")
    stages = tuple(9e6 if stage == fs else 0.0 for stage in range(len(STAGES)))
    more = tuple(2e6 if stage == fs else 0.0 for stage in range(len(STAGES)))
    episode = dataclasses.replace(
        context.longest[0][0],
        device="",
        silence=False,
        start_ns=100_000_000,
        latency_ns=9_000_000,
        stage_ns=stages,
        excess_ns=more,
    )
    begin = 100_000_000.0 if waited else 200_000_000.0
    pace = Pace(
        "sda",
        "write",
        BYTES,
        600.0,
        18.0 * MIB,
        0.95,
        32768.0,
        1.7e6,
        np.array([begin]),
        np.array([begin + 9e6]),
        5e8,
    )
    context.__dict__["paces"] = [pace]
    slept = Cause("blocked", "__flush_workqueue", "its thread slept in __flush_workqueue", True)
    assert context.is_usual(episode, slept) is waited
