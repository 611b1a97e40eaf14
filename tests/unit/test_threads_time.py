"""For how long threads were there that could lose time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.time_lost import threads_time
from whodisk.reading.views import Case

MS, CALLS = 1_000_000, 500


@pytest.mark.parametrize(("cause", "threads"), [("do_wait", 1.0), ("futex_do_wait", 2.0)])
def test_who_waits_for_a_program_that_it_started_is_not_there(
    tmp_path: Path, cause: str, threads: float
) -> None:
    """A shell makes two calls, and sleeps between them while a program makes one every 10 ms."""
    start = np.concatenate((np.arange(CALLS) * 10 * MS, [0, (CALLS - 1) * 10 * MS]))
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(CALLS + 2),
        "start_ns": start,
        "latency_ns": MS,
        "op": "write",
        "fs_ns": MS,
        "pid": [40] * CALLS + [39] * 2,
        "tid": [40] * CALLS + [39] * 2,
        "comm": ["pack"] * CALLS + ["bash"] * 2,
    }
    sleep = {
        "pid": 39,
        "tid": 39,
        "comm": "bash",
        "cpu": 0,
        "start_ns": MS,
        "duration_ns": (CALLS - 1) * 10 * MS - MS,
        "state": "blocked",
        "cause": cause,
        "cause_pid": None,
    }
    whole_ns = (CALLS - 1) * 10 * MS + MS
    meta = {"duration_ns": whole_ns}
    with Case(write_case(tmp_path / "x.case", syscall=calls, tables={"waits": [sleep]}, meta=meta)) as case:
        context = SimpleNamespace(case=case, survey=survey_layer(case, "syscall"), layer="syscall")
        there = threads_time(context, [39, 40])  # type: ignore[arg-type]
    whole_ns = (CALLS - 1) * 10 * MS + MS
    assert there.sum() / whole_ns == pytest.approx(threads, abs=0.02)
