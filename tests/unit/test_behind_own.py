"""A sleep for a lock that another thread of the program holds asleep is what that one sleeps in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ground_truth import turns
from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.evidence.asleep_for_requests import slept_for
from whodisk.evidence.sleeps import of_threads
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

MS = 1_000_000
WRITER, FIRST, LAST = 40, 41, 42


def sleep(
    tid: int, begin_ms: float, end_ms: float, cause: str, waker: int = 0, pid: int = 40
) -> dict[str, Any]:
    return {
        "tid": tid,
        "pid": pid,
        "comm": "build",
        "cpu": 0,
        "start_ns": int(begin_ms * MS),
        "duration_ns": int((end_ms - begin_ms) * MS),
        "state": "blocked",
        "cause": cause,
        "cause_pid": None,
        "waker": "build" if waker else None,
        "waker_pid": 40 if waker else None,
        "waker_tid": waker or None,
    }


def case_of(path: Path, waits: list[dict[str, Any]], **layers: Any) -> Case:
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(1),
        "start_ns": 0,
        "latency_ns": MS,
        "op": "rename",
        "fs_ns": MS,
        "pid": 40,
        "tid": 40,
        "comm": "build",
    }
    return Case(
        write_case(path, syscall=calls, tables={"waits": waits}, meta={"duration_ns": 1000 * MS}, **layers)
    )


@pytest.mark.parametrize(
    ("waits", "held_in"),
    [
        # One behind the other, both behind who waits to write.
        (
            [
                sleep(WRITER, 99, 200, "rq_qos_wait"),
                sleep(FIRST, 100, 200, "do_renameat2", WRITER),
                sleep(LAST, 101, 201, "path_openat", FIRST),
            ],
            "rq_qos_wait",
        ),
        # Half of the time is not most of it.
        (
            [sleep(WRITER, 150, 200, "rq_qos_wait"), sleep(LAST, 101, 201, "path_openat", WRITER)],
            "path_openat",
        ),
        # Who waits for work has no lock in hand.
        (
            [sleep(WRITER, 99, 200, "futex_do_wait"), sleep(LAST, 101, 201, "path_openat", WRITER)],
            "path_openat",
        ),
        (
            [sleep(WRITER, 99, 200, "rq_qos_wait"), sleep(LAST, 101, 201, "futex_do_wait", WRITER)],
            "futex_do_wait",
        ),
        # Of another process: that is its doing.
        (
            [sleep(WRITER, 99, 200, "rq_qos_wait"), sleep(LAST, 101, 201, "path_openat", WRITER, 60)],
            "path_openat",
        ),
    ],
)
def test_the_last_of_a_chain_sleeps_in_what_the_first_one_does(
    tmp_path: Path, waits: list[dict[str, Any]], held_in: str
) -> None:
    asked = np.array([LAST]), np.array([101 * MS]), np.array([201 * MS])
    with case_of(tmp_path / "x.case", waits) as case:
        ((mine, sleeps),) = of_threads(case, *asked, held=True)
        assert mine.tolist() == [True] and sleeps.cause.tolist() == [held_in]
        ((_, sleeps),) = of_threads(case, *asked)
        assert sleeps.cause.tolist() == [waits[-1]["cause"]]


@pytest.mark.parametrize(("others_end_ms", "device"), [(260, "nvme0n1"), (150, "")])
def test_who_waits_for_a_turn_to_write_waits_for_the_device_that_stands_still(
    tmp_path: Path, others_end_ms: float, device: str
) -> None:
    """Five writes and a flush are under way for 150 ms; in the second case a sixth request ends in the middle of them."""
    end_ms = np.array([250.0, 251, 252, 253, 254, 255, others_end_ms])
    begin_ms = np.array([95.0, 96, 97, 98, 99, 99.5, 99.6])
    took = ((end_ms - begin_ms) * MS).astype(np.int64)
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(took)),
        "start_ns": (begin_ms * MS).astype(np.int64),
        "latency_ns": took,
        "op": ["flush", *["write"] * 6],
        "device": "nvme0n1",
        "size_bytes": [0, *[4096] * 6],
        "queue_ns": 0,
        "device_ns": took,
        "interrupt_ns": 0,
    }
    waits = [sleep(WRITER, 100, 254, "rq_qos_wait"), sleep(LAST, 100.5, 254.5, "do_renameat2", WRITER)]
    with case_of(tmp_path / "x.case", waits, block=block) as case:
        asked = np.array([LAST]), np.array([100 * MS]), np.array([255 * MS])
        found = slept_for(case, *asked, np.array([154.0 * MS]))
    assert [(request.op, request.device) for request in found.values()] == (
        [("flush", device)] if device else []
    )


def served(path: Path, cause: str, op: str) -> Path:
    """Four threads send files to clients that read slowly: each call sleeps for 30 ms."""
    calls, sleeps = [], []
    for thread in range(4):
        start = np.arange(200) * 32 * MS + thread * MS
        calls.append((start, np.full(200, 50 + thread)))
        sleeps += [sleep(50 + thread, at / MS + 0.5, at / MS + 30.5, cause, pid=50) for at in start.tolist()]
    start, tid = (np.concatenate(column) for column in zip(*calls, strict=True))
    order = np.argsort(start, kind="stable")
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(start)),
        "start_ns": start[order],
        "latency_ns": 31 * MS,
        "op": op,
        "size_bytes": 65536,
        "fs_ns": 31 * MS,
        "pid": 50,
        "tid": tid[order],
        "comm": "httpd",
    }
    meta = {"duration_ns": int(start.max()) + 32 * MS, "observer": "record", "command": ["httpd"]}
    return write_case(path, syscall=syscall, tables={"waits": sleeps}, meta=meta)


@pytest.mark.parametrize(
    ("cause", "op", "peer"),
    [
        ("wait_woken", "copy", True),
        ("pipe_wait_writable", "copy", True),
        ("folio_wait_bit_common", "copy", False),
        # A sync has no other end.
        ("wait_woken", "sync", False),
    ],
)
def test_who_sends_to_a_slow_reader_is_limited_by_it(tmp_path: Path, cause: str, op: str, peer: bool) -> None:
    limit = solve(served(tmp_path / "x.case", cause, op)).limit or ""
    assert limit.startswith("who is at the other end: httpd waits") is peer


@pytest.mark.parametrize(
    ("build", "accused"),
    [(turns.behind_a_write, False), (turns.behind_a_sleeper, True), (turns.behind_nobody_known, True)],
)
def test_a_call_behind_a_call_of_its_program_accuses_nobody(
    tmp_path: Path, build: Callable[[int, Path], Path], accused: bool
) -> None:
    verdict = solve(build(3, tmp_path / "x.case"))
    assert [(finding.culprit.kind, finding.culprit.name) for finding in verdict.findings] == (
        [("stage", "fs")] if accused else []
    )
    if build is turns.behind_a_sleeper:
        assert "add_transaction_credits" in verdict.findings[0].claim
