"""A call on a file system of a process (FUSE) that waited for a request of that process is the device's, where the record shows the request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

DB, SERVER, OTHER = 900, 77, 500
LOST_NS = 30_000_000


def _sleep(pid: int, start_ns: int, ns: int, cause: str, waker: int | None = None) -> dict[str, Any]:
    return {
        "tid": pid,
        "pid": pid,
        "comm": "db" if pid == DB else "bindfs",
        "cpu": 0,
        "start_ns": start_ns,
        "duration_ns": ns,
        "state": "blocked",
        "cause": cause,
        "cause_pid": None,
        "waker": None if waker is None else "bindfs",
        "waker_pid": waker,
        "waker_tid": waker,
    }


def _case(path: Path, server_sleeps_in: str, waker: int, other_size: int = 4096) -> Path:
    """Reads of files on /mnt/data, 1 in 50 of which take 30 ms longer; a request of the process that serves it takes as long then."""
    rng = np.random.default_rng(5)
    count = 4000
    number = np.arange(count)
    late = rng.random(count) < 0.02
    latency = rng.integers(200_000, 300_000, count) + LOST_NS * late
    start = np.cumsum(latency + 20_000) - latency
    none = np.zeros(count, np.int64)
    waits = []
    for at in np.flatnonzero(late).tolist():
        begin, took = int(start[at]), int(latency[at])
        waits.append(_sleep(DB, begin + 5_000, took - 10_000, "request_wait_answer", waker))
        waits.append(_sleep(SERVER, begin + 20_000, took - 40_000, server_sleeps_in))
    return write_case(
        path,
        syscall={
            "op_id": SYSCALL_ID_BASE | number,
            "start_ns": start,
            "latency_ns": latency,
            "op": "read",
            "size_bytes": np.where(late | (number % 3 > 0), 4096, other_size),
            "file": "/mnt/data/table",
            "tid": DB,
            "pid": DB,
            "comm": "db",
            "fs_ns": latency,
            "queue_ns": none,
            "device_ns": none,
            "interrupt_ns": none,
            "runqueue_ns": none,
        },
        block={
            "op_id": BLOCK_ID_BASE | number,
            "start_ns": start + 15_000,
            "latency_ns": latency - 30_000,
            "queue_ns": none,
            "device_ns": latency - 30_000,
            "op": "read",
            "size_bytes": 4096,
            "device": "sda",
            "tid": SERVER,
            "pid": SERVER,
            "comm": "bindfs",
        },
        tables={"waits": waits},
        meta={"observer": "record", "command": ["db"], "duration_ns": int(start[-1] + 1_000_000)},
        system={"servers": {str(SERVER): ["/mnt/data"]}},
    )


def test_the_device_of_a_server_is_named(tmp_path: Path) -> None:
    """mergerfs over a disk of which 1 in 50 reads took 40 ms: "the program mergerfs is to blame"."""
    first = solve(_case(tmp_path / "case", "folio_wait_bit_common", SERVER)).findings[0]
    assert (first.culprit.kind, first.culprit.name, first.culprit.because_of) == (
        "stage",
        "device",
        "device:sda",
    )
    assert "bindfs (process 77) serves (FUSE): those requests are its own" in first.claim


def test_what_a_server_asked_for_has_not_the_size_of_the_call(tmp_path: Path) -> None:
    """Larger reads found their data in the server's cache: "requests of 16 KiB are to blame", beside its disk."""
    found = solve(_case(tmp_path / "case", "folio_wait_bit_common", SERVER, 65536)).findings
    assert [f.culprit.name for f in found] == ["device"], [f.claim for f in found]


@pytest.mark.parametrize(
    ("server_sleeps_in", "waker"), [("futex_do_wait", SERVER), ("folio_wait_bit_common", OTHER)]
)
def test_a_server_that_waited_for_something_else_stays_named(
    server_sleeps_in: str, waker: int, tmp_path: Path
) -> None:
    """The server had a lock of its own to wait for, or it was not the server that let the call go on."""
    first = solve(_case(tmp_path / "case", server_sleeps_in, waker)).findings[0]
    assert first.culprit.name != "device", first.claim
    assert first.culprit.because_of == "process:bindfs"
