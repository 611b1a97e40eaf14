"""Which slow operations waited for a thread that was held up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from whodisk.evidence.context import Context
from whodisk.evidence.late_threads import late_while_held
from whodisk.reading.views import STAGES

MS = 1_000_000


class Slow(SimpleNamespace):
    """Enough of a `SlowSet`."""

    def __len__(self) -> int:
        return len(self.tid)


def context(stage: str, start_ns: int, latency_ns: int, stage_ns: int) -> Context:
    """One slow operation of thread 7 that lost its time in one stage."""
    each = np.zeros((1, len(STAGES)))
    each[0, STAGES.index(stage)] = stage_ns
    slow = Slow(
        blamed=np.array([STAGES.index(stage)]),
        tid=np.array([7]),
        start_ns=np.array([start_ns]),
        end_ns=np.array([start_ns + latency_ns]),
        latency_ns=np.array([latency_ns]),
        stage_ns=each,
        stage_excess_ns=each,
    )
    return cast(Context, SimpleNamespace(slow=slow))


@pytest.mark.parametrize(
    ("stage", "start_ms", "seen", "explained"),
    [
        # Held from 100 to 200 ms; the operation takes 101 ms.
        ("reap", 99, False, True),
        ("fs", 99, True, True),
        # A silence says nothing of what its thread does in a call.
        ("fs", 99, False, False),
        # Another time, another stage.
        ("fs", 160, True, False),
        ("device", 99, True, False),
    ],
)
def test_what_waited_for_a_thread_that_was_stopped(
    stage: str, start_ms: int, seen: bool, explained: bool
) -> None:
    held = np.array([7]), np.array([100 * MS]), np.array([100 * MS])
    found = late_while_held(context(stage, start_ms * MS, 101 * MS, 100 * MS), *held, seen=seen)
    assert found.explained.tolist() == [explained]


@pytest.mark.parametrize(("reap_ms", "explained"), [(0, True), (90, False)])
def test_a_stop_while_an_operation_waits_to_be_taken_is_not_in_its_call(
    reap_ms: int, explained: bool
) -> None:
    """Held in the file system for 100 ms, then perhaps not taken for 90 ms: its thread was stopped at the end of that, from 110 to 200 ms."""
    one = context("fs", 99 * MS, 101 * MS, (101 - reap_ms) * MS)
    one.slow.stage_ns[0, STAGES.index("reap")] = reap_ms * MS
    held = np.array([7]), np.array([110 * MS]), np.array([90 * MS])
    assert late_while_held(one, *held, seen=True).explained.tolist() == [explained]
