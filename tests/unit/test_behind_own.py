"""A sleep for a lock that another thread of the program holds asleep is what that one sleeps in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def one_file(path: Path, waker: int, holder_slept: str) -> Path:
    """Reads of 50 us; 20 of them wait 12 ms for a lock on their file that a thread which writes has in hand."""
    rng = np.random.default_rng(3)
    latency = (50_000 * np.exp(rng.normal(0, 0.1, 4_000))).astype(np.int64)
    held = np.arange(100, 4_000, 200)
    latency[held] = 12 * MS
    start = np.cumsum(latency + 300_000) - latency
    waits = [sleep(LAST, at / MS + 0.01, at / MS + 11.99, "xfs_ilock", waker) for at in start[held].tolist()]
    if holder_slept:
        waits += [sleep(WRITER, at / MS, at / MS + 11.98, holder_slept) for at in start[held].tolist()]
    begin = np.concatenate((start, start[held] - 10_000))
    order = np.argsort(begin, kind="stable")
    took = np.concatenate((latency, np.full(20, 12 * MS)))[order]
    reads = order < 4_000
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(4_020),
        "start_ns": begin[order],
        "latency_ns": took,
        "op": np.where(reads, "read", "write"),
        "size_bytes": np.where(reads, 4096, 8 << 20),
        "fs_ns": took,
        "pid": 40,
        "tid": np.where(reads, LAST, WRITER),
        "comm": "build",
    }
    meta = {"duration_ns": int(start[-1]) + MS, "observer": "record", "command": ["build"]}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


@pytest.mark.parametrize(
    ("waker", "holder_slept", "accused"),
    [(WRITER, "", False), (WRITER, "add_transaction_credits", True), (0, "", True)],
)
def test_a_call_behind_a_call_of_its_program_accuses_nobody(
    tmp_path: Path, waker: int, holder_slept: str, accused: bool
) -> None:
    verdict = solve(one_file(tmp_path / "x.case", waker, holder_slept))
    assert [(finding.culprit.kind, finding.culprit.name) for finding in verdict.findings] == (
        [("stage", "fs")] if accused else []
    )
    if holder_slept:
        assert holder_slept in verdict.findings[0].claim
    if not accused:
        assert any("until a call of another thread of its program" in line for line in verdict.minor)
