"""What the kernel writes out belongs to the program that had dirtied it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.evidence.context import Context
from whodisk.evidence.programs import program_sql
from whodisk.evidence.slow_operations import empty_slow_set, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.reading.flush_waits import KERNEL
from whodisk.reading.views import Case

MS = 1_000_000
FLUSHER, DD, DB = 33, 90, 10


def _case(path: Path, dirtied: list[tuple[int, str, str, int]]) -> Path:
    """A database syncs; a thread of the kernel writes out `/a` at 100 ms, `/b` at 200 ms and `/c` at 300 ms, two requests each, and one of no file at 400 ms."""
    number = np.arange(50)
    syncs = {
        "op_id": SYSCALL_ID_BASE | number,
        "start_ns": number * 10 * MS,
        "latency_ns": MS,
        "op": "sync",
        "size_bytes": 0,
        "device": "sda",
        "comm": "db",
        "pid": DB,
        "tid": DB,
    }
    moments = [100, 100, 200, 200, 300, 300, 400]
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(moments) + 1),
        "start_ns": np.array([5, *moments]) * MS + 10_000,
        "latency_ns": MS,
        "op": "write",
        "size_bytes": 4096,
        "device": "sda",
        "comm": ["db"] + ["kworker/u8:2"] * len(moments),
        "pid": [DB] + [FLUSHER] * len(moments),
        "tid": [DB] + [FLUSHER] * len(moments),
        "flags": [0] + [KERNEL] * len(moments),
    }
    events: list[dict[str, Any]] = [
        {
            "time_ns": at * MS,
            "kind": "inode_written",
            "subject": file,
            "detail": f"duration_ns 100000 bytes 8192 cause background by kworker/u8:2 (pid {FLUSHER})",
        }
        for at, file in ((100, "/a"), (200, "/b"), (300, "/c"))
    ]
    events += [
        {
            "time_ns": at * MS,
            "kind": "dirtied",
            "subject": file,
            "detail": f"duration_ns 5000 bytes {size} by {who}",
        }
        for at, file, who, size in dirtied
    ]
    events.sort(key=lambda event: event["time_ns"])
    return write_case(path, syscall=syncs, block=block, tables={"events": events}, devices=("sda",))


def _programs(path: Path) -> list[str]:
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in ("syscall", "block")}
        slow = empty_slow_set()
        context = Context(case, surveys, "syscall", slow, none_of(slow))
        rows = case.rows(f"SELECT {program_sql(context)} AS who FROM block_ops ORDER BY start_ns, op_id")
        return [str(row["who"]) for row in rows]


def test_writeback_belongs_to_who_dirtied_the_file(tmp_path: Path) -> None:
    dd, db = f"dd (pid {DD})", f"db (pid {DB})"
    journal = "jbd2/sda-8 (pid 40)"
    path = _case(
        tmp_path / "case",
        # The database wrote to /b last; what is dirtied after it was written out is not in it.
        [(20, "/a", dd, 2 << 20), (30, "/b", dd, 4096), (40, "/b", db, 4096), (350, "/c", dd, 4096)],
    )
    kernel = "kworker/u8:2"
    assert _programs(path) == ["db", "dd", "dd", kernel, kernel, kernel, kernel, kernel]
    # Little is not asked for; the journal's own thread, and the judged program, are nobody else.
    path = _case(
        tmp_path / "little", [(20, "/a", dd, 4096), (30, "/b", db, 2 << 20), (40, "/c", journal, 4096)]
    )
    assert _programs(path) == ["db", *[kernel] * 7]
