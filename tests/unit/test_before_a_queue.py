"""What holds a thread before its request is queued is what held the operation in the queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whodisk.evidence.surroundings import NOTHING, _cause, _Times

MS = 1_000_000


@pytest.mark.parametrize(
    ("who", "stage", "slept_ms", "said"),
    [
        (
            "__bio_queue_enter",
            "queue",
            58,
            "the queue of its device was frozen, as it is while its settings change",
        ),
        ("rq_qos_wait", "queue", 58, "its thread waited for a turn to write (writeback throttling)"),
        # Half of the time says nothing of the other half, and other sleeps are not before a queue.
        ("rq_qos_wait", "queue", 30, NOTHING.said),
        ("folio_wait_bit_common", "queue", 58, NOTHING.said),
        ("__bio_queue_enter", "device", 58, NOTHING.said),
    ],
)
def test_a_sleep_before_the_queue_is_time_in_it(who: str, stage: str, slept_ms: int, said: str) -> None:
    """A commit of 60 ms in a run of 10 s, whose thread slept once."""
    episode: Any = SimpleNamespace(
        start_ns=5_000 * MS,
        end_ns=5_060 * MS,
        latency_ns=60 * MS,
        silence=False,
        stage=stage,
        stage_excess_ns=60 * MS,
        op="commit",
        flags=0,
        foreign_handler_ns=0,
    )
    survey: Any = SimpleNamespace(begin_ns=0, end_ns=10_000 * MS)
    begin = np.array([5_001 * MS])
    sleep = _Times(begin, begin + slept_ms * MS, "blocked", who, np.array([0]), False)
    cause = _cause(episode, survey, [sleep], None, 0.0, True)
    assert cause.said == said
    assert cause.certain is (cause is not NOTHING)
