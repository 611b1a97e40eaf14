"""A thread that has ended is not there any more, though the kernel's last word of it is that it sleeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import empty_slow_set, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.time_lost import threads_time
from whodisk.reading.views import Case

MS = 1_000_000


def test_threads_are_there_until_they_end(tmp_path: Path) -> None:
    """Fossil's hooks: 16 short-lived processes made 124 s of threads' time out of a run of 10 s, and a hog that took 29 % of it was nobody."""
    number, short = np.arange(1000), np.arange(8)
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(number) + len(short)),
        "start_ns": np.concatenate((number * 10 * MS, short * 20 * MS)),
        "latency_ns": MS,
        "op": "sync",
        "tid": np.concatenate((np.full(len(number), 50), 100 + short)),
        "pid": 50,
        "comm": "fossil",
    }
    waits = [
        {
            "tid": 100 + int(one),
            "pid": 50,
            "comm": "fossil",
            "start_ns": int(one) * 20 * MS + 5 * MS,
            "duration_ns": 9_990 * MS - int(one) * 20 * MS,
            "state": "blocked",
            "cause": "do_task_dead",
        }
        for one in short
    ]
    path = write_case(
        tmp_path / "case", syscall=calls, tables={"waits": waits}, meta={"duration_ns": 10_000 * MS}
    )
    with Case(path) as case:
        slow = empty_slow_set()
        context = Context(case, {"syscall": survey_layer(case, "syscall")}, "syscall", slow, none_of(slow))
        there = threads_time(context, [50, *(100 + short).tolist()])
    assert there.sum() == pytest.approx(10e9, rel=0.01)
