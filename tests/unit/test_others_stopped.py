"""When threads slept while another process was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ground_truth import outside
from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.evidence.context import Context
from whodisk.evidence.others_stopped import slept_meanwhile, stops_of_all
from whodisk.evidence.slow_operations import empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

MS, CALLS, WRITER, FILTER = 1_000_000, 101, 70, 90


def wait(pid: int, begin: int, length: int, state: str, waker: int | None = None) -> dict[str, Any]:
    same = {"tid": pid, "pid": pid, "comm": str(pid), "cpu": 0, "cause_pid": None, "state": state}
    woke = {"waker": waker and str(waker), "waker_pid": waker, "waker_tid": waker}
    cause = "anon_pipe_read" if state == "blocked" else None
    return {**same, **woke, "cause": cause, "start_ns": begin * MS, "duration_ns": length * MS}


def slept(path: Path, waits: list[dict[str, Any]], long_call: tuple[int, int] = (0, 1)) -> list[list[int]]:
    """A thread of a writer makes a call of 1 ms each 10 ms, one of them longer: thread, begin and end in ms of its sleeps in stops of others."""
    start = np.arange(CALLS) * 10 * MS
    start[0] = long_call[0] * MS
    calls: dict[str, Any] = {
        "op_id": SYSCALL_ID_BASE | np.arange(CALLS),
        "start_ns": start,
        "latency_ns": np.concatenate(([long_call[1] * MS], np.full(CALLS - 1, MS))),
        "op": "write",
        "pid": WRITER,
        "tid": WRITER,
        "comm": "writer",
    }
    order = np.argsort(start, kind="stable")
    syscall = {name: np.asarray(of)[order] if np.ndim(of) else of for name, of in calls.items()}
    meta = {"observer": "record", "command": ["writer"], "duration_ns": 1010 * MS}
    with Case(write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)) as case:
        surveys = {"syscall": survey_layer(case, "syscall")}
        context = Context(case, surveys, "syscall", empty_slow_set(), np.zeros(0, np.bool_))
        rows = slept_meanwhile(context, [WRITER], stops_of_all(context))
        return [(of // (MS if at else 1)).tolist() for at, of in enumerate(rows)]


def test_what_of_a_sleep_lies_in_a_stop_of_another_process_counts(tmp_path: Path) -> None:
    stops = [wait(FILTER, 200, 100, "stopped"), wait(FILTER, 250, 100, "stopped")]
    waits = [wait(WRITER, 102, 5, "blocked", FILTER), wait(WRITER, 152, 100, "blocked", FILTER)]
    waits += [*stops, wait(WRITER, 302, 100, "blocked", FILTER)]
    assert slept(tmp_path / "x.case", waits) == [[WRITER] * 2, [200, 302], [252, 350]]


def test_sleeps_in_its_own_stops_and_calls_and_those_that_nobody_ended_do_not(tmp_path: Path) -> None:
    stop = wait(FILTER, 200, 100, "stopped")
    alone = [stop, wait(WRITER, 202, 90, "blocked")]
    assert slept(tmp_path / "alone.case", alone)[0] == []
    stopped = [stop, wait(WRITER, 202, 50, "blocked", FILTER), wait(WRITER, 202, 70, "stopped")]
    assert slept(tmp_path / "own.case", stopped)[0] == []
    in_call = [stop, wait(WRITER, 204, 50, "blocked", FILTER)]
    assert slept(tmp_path / "call.case", in_call, (203, 60))[0] == []
    assert slept(tmp_path / "none.case", in_call[1:])[0] == []


def test_a_stop_is_named_with_its_times_and_what_it_cost(tmp_path: Path) -> None:
    verdict = solve(outside.fed_by_who_is_stopped(1, tmp_path / "x.case"))
    assert verdict.summary[0] == "Slow: whoever stopped filter is to blame."
    first = verdict.findings[0]
    assert first.claim.startswith("filter (process 90) was stopped 6 times for 1.19 s in all"), first.claim
    assert "ledger slept 1.19 s until it let go on" in first.claim and "SIGSTOP" in first.remedy
    assert first.share_of_latency == pytest.approx(0.2, abs=0.01)
