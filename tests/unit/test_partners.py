"""A client takes CPU time from its server, and is no stranger: it lets the server's threads go on again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.machine.partners import partners_of
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

MS = 1_000_000
ROUNDS = 1000
DB, CLIENT = 70, 90


def served(path: Path, woken_by: str | None, meta: dict[str, Any] | None = None) -> Path:
    """A database on one CPU: each 10 ms it sleeps for 1 ms until a request comes, waits for 3 ms behind `client`, and writes for 6 ms."""
    base = {"tid": DB, "pid": DB, "comm": "db", "cpu": 0}
    waits: list[dict[str, Any]] = []
    for number in range(ROUNDS):
        begin = number * 10 * MS
        slept = {"start_ns": begin, "duration_ns": MS, "state": "blocked", "cause": "do_epoll_wait"}
        if woken_by is not None:
            slept |= {"waker": woken_by, "waker_pid": CLIENT, "waker_tid": CLIENT}
        ready = {
            "start_ns": begin + MS,
            "duration_ns": 3 * MS,
            "state": "runnable",
            "cause": "client",
            "cause_pid": CLIENT,
        }
        waits += [base | slept, base | ready]
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(ROUNDS),
        "start_ns": np.arange(ROUNDS) * 10 * MS + 4 * MS,
        "latency_ns": 5 * MS,
        "op": "write",
        "size_bytes": 8192,
        "fs_ns": 5 * MS,
        "runqueue_ns": 0,
        "pid": DB,
        "tid": DB,
        "comm": "db",
    }
    meta = {"observer": "record", "scope": {"pids": [DB]}, "duration_ns": ROUNDS * 10 * MS} | (meta or {})
    return write_case(path, syscall=calls, tables={"waits": waits}, meta=meta, system={"cpus": 1})


@pytest.mark.parametrize(
    ("woken_by", "partners"),
    [("client", {CLIENT: "client"}), (None, {}), ("kworker/0:1", {})],
)
def test_who_wakes_the_judged_threads_works_with_them(
    woken_by: str | None, partners: dict[int, str], tmp_path: Path
) -> None:
    with Case(served(tmp_path / "case", woken_by)) as case:
        context = Context(
            case,
            {"syscall": survey_layer(case, "syscall")},
            "syscall",
            empty_slow_set(),
            np.zeros(0, np.bool_),
        )
        assert partners_of(context) == partners


@pytest.mark.parametrize(("woken_by", "accused"), [(None, True), ("client", False)])
def test_a_partner_is_not_accused_of_its_part_of_the_work(
    woken_by: str | None, accused: bool, tmp_path: Path
) -> None:
    verdict = solve(served(tmp_path / "case", woken_by))
    named = [f.claim for f in verdict.findings if f.culprit.name == "client"]
    assert bool(named) == accused, verdict.to_json()
    told = [
        said for said in verdict.minor if "of client, which works with it, wait for each other's CPU" in said
    ]
    assert bool(told) != accused
