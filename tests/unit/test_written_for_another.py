"""A call that waits until a file system has written everything out waits for who wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.reading.flush_waits import KERNEL
from whodisk.verdict.solve import solve

MS = 1_000_000
FLUSHER, DD, DB = 33, 90, 10


def waiting(path: Path, who: str, cause: str = "wb_wait_for_completion") -> Path:
    """A database writes 2,000 times; one write sleeps for 3 s while a thread of the kernel writes out what `who` had dirtied, 300 requests of 9 ms."""
    number = np.arange(2000)
    latency = (20_000 * np.exp(np.random.default_rng(3).normal(0, 0.1, len(number)))).astype(np.int64)
    latency[900] = 3_000 * MS
    start = np.cumsum(latency + 500_000) - latency
    begin = int(start[900])
    calls = {
        "op_id": SYSCALL_ID_BASE | number,
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": latency,
        "op": "write",
        "size_bytes": 4096,
        "device": "sda",
        "comm": "db",
        "pid": DB,
        "tid": DB,
    }
    rng = np.random.default_rng(3)
    took = (9 * MS * np.exp(rng.normal(0, 0.5, 300))).astype(np.int64)
    took = (took * (2_950 * MS / took.sum())).astype(np.int64)
    written = begin + MS // 2 + np.cumsum(took) - took
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(written)),
        "start_ns": written,
        "latency_ns": took,
        "device_ns": took,
        "op": "write",
        "size_bytes": rng.choice([64 << 10, 256 << 10, 1 << 20], 300),
        "device": "sda",
        "comm": "kworker/u8:2",
        "pid": FLUSHER,
        "tid": FLUSHER,
        "flags": KERNEL,
    }
    events: list[dict[str, Any]] = [
        {
            "time_ns": begin - 50 * MS,
            "kind": "dirtied",
            "subject": "/mnt/file",
            "detail": f"duration_ns 5000 bytes {300 << 20} by {who}",
        },
        {
            "time_ns": begin,
            "kind": "inode_written",
            "subject": "/mnt/file",
            "detail": f"duration_ns {3_000 * MS} bytes {300 << 20} cause fs_free_space by kworker/u8:2 (pid {FLUSHER})",
        },
    ]
    sleep = {"tid": DB, "pid": DB, "comm": "db", "state": "blocked", "cause": cause}
    waits = [{**sleep, "start_ns": begin + 1_000, "duration_ns": 3_000 * MS - 2_000}]
    return write_case(
        path, syscall=calls, block=block, tables={"events": events, "waits": waits}, devices=("sda",)
    )


@pytest.mark.parametrize(
    ("who", "cause", "culprit"),
    [
        (f"dd (pid {DD})", "wb_wait_for_completion", ("process", "dd")),
        (f"db (pid {DB})", "wb_wait_for_completion", ("saturation", "writing out what db wrote before")),
        # A lock may be anybody's.
        (f"dd (pid {DD})", "rwsem_down_write_slowpath", ("stage", "fs")),
    ],
)
def test_who_wrote_what_is_waited_for_is_accused(
    tmp_path: Path, who: str, cause: str, culprit: tuple[str, str]
) -> None:
    """RDF4J wrote 0.3 MB while dd's gigabyte was written out for 29 s, and "writing out what java wrote before" was said."""
    found = solve(waiting(tmp_path / "case", who, cause)).findings[0]
    assert (found.culprit.kind, found.culprit.name) == culprit, found.claim
