"""What happened once, what is a part of something smaller, and who stopped a thread."""

from __future__ import annotations

import numpy as np
import pytest

from whodisk import words
from whodisk.detectors.base import Candidate
from whodisk.detectors.candidates import of_time_lost
from whodisk.evidence.time_lost import TimeLost
from whodisk.findings import Culprit, Finding
from whodisk.verdict.adjudicate import _finding
from whodisk.verdict.causes import merge


def lost(share: float, windows: int, part: float) -> Candidate:
    held = TimeLost(share, share, share, windows, 1e8, part, count=1799, each_ns=11e6)
    return of_time_lost(
        held,
        culprit=Culprit("stage", "runqueue"),
        claim="",
        baseline="",
        metric="part of the operations' time",
        evidence=[],
        refute="",
        remedy="",
        explains=np.zeros(0, np.bool_),
        causes=(),
    )


@pytest.mark.parametrize(("windows", "part", "large"), [(1, 0.01, False), (1, 0.2, True), (2, 0.01, True)])
def test_a_moment_with_many_in_flight_is_no_loss_of_the_run(windows: int, part: float, large: bool) -> None:
    """1,799 reads waited for 11 ms in one window of 124 ms: 15 % of the time of all operations."""
    assert lost(0.15, windows, part).large is large


@pytest.mark.parametrize(("latency_ns", "first"), [(0.14e9, "stops"), (12e9, "hog")])
def test_parts_of_operations_and_of_threads_are_one_unit(latency_ns: float, first: str) -> None:
    """A program that computes: 16.5 % of its operations' time is 23 ms, and stopped it was for 2 of 12 s."""
    accepted: list[tuple[Candidate, Finding]] = []
    for name, share, of_ns in (("hog", 0.2, None), ("stops", 0.169, 12e9)):
        candidate = lost(share, 4, 0.2)
        candidate.culprit, candidate.of_ns = Culprit("process", name), of_ns
        candidate.worse = {"p99": {"with": 1.0, "without": 1.0}}
        accepted.append((candidate, _finding(None, name, candidate, None)))  # type: ignore[arg-type]
    assert merge(accepted, latency_ns=latency_ns)[0].culprit.name == first


def test_a_frozen_thread_got_no_signal() -> None:
    assert words.stopped("__refrigerator") == "frozen with its control group (freezer)"
    assert words.stopped("") == "stopped by a signal"
