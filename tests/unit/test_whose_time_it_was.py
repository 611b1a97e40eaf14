"""Whose a time was: of a flush, of a sleep whose waker had no CPU, of a silence in pieces, of a thread on a stolen CPU, of a program with a thread that only waits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.detectors.cpu_holders import told_apart
from whodisk.detectors.submitter_gap import _one_after_the_other
from whodisk.detectors.throttle import _group, _limits
from whodisk.evidence.flush_owners import flushes_of_others, written_before_flushes
from whodisk.evidence.main_program import Program
from whodisk.evidence.surroundings import Cause, _or_late_wakers
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.thread_time import thread_time
from whodisk.reading.views import Case

MS = 1_000_000


def calls_of(tid: Any, start_ns: Any, latency_ns: Any, **columns: Any) -> dict[str, Any]:
    count = len(start_ns)
    return {
        "op_id": SYSCALL_ID_BASE | np.arange(count),
        "start_ns": start_ns,
        "latency_ns": latency_ns,
        "op": "read",
        "fs_ns": latency_ns,
        "pid": 40,
        "tid": tid,
        "comm": "db",
        **columns,
    }


def requests_of(rows: list[tuple[str, str | None, int, float, float]]) -> dict[str, Any]:
    """(op, program, bytes, begin and end in ms)"""
    begin = (np.array([row[3] for row in rows]) * MS).astype(np.int64)
    end = (np.array([row[4] for row in rows]) * MS).astype(np.int64)
    return {
        "op_id": BLOCK_ID_BASE | np.arange(len(rows)),
        "start_ns": begin,
        "latency_ns": end - begin,
        "op": [row[0] for row in rows],
        "comm": [row[1] for row in rows],
        "size_bytes": [row[2] for row in rows],
        "device": "sda",
        "queue_ns": 0,
        "device_ns": end - begin,
        "interrupt_ns": 0,
    }


def test_a_flush_belongs_to_who_wrote_most_of_what_ended_since_the_one_before(tmp_path: Path) -> None:
    rows: list[tuple[str, str | None, int, float, float]] = [
        ("write", "db", 4096, 0, 1),
        ("flush", None, 0, 2, 3),
        # Ends behind the flush: it is the next one's.
        ("write", "backup", 1 << 20, 1.5, 4),
        ("write", "db", 4096, 4, 5),
        ("flush", None, 0, 6, 50),
        ("write", "db", 4096, 51, 52),
        ("flush", None, 0, 53, 54),
        # Half of it is not most.
        ("write", "db", 4096, 55, 56),
        ("write", "backup", 4096, 55, 56),
        ("flush", None, 0, 57, 58),
    ]
    path = write_case(
        tmp_path / "x.case",
        syscall=calls_of(40, np.array([0]), MS),
        block=requests_of(rows),
        meta={"duration_ns": 100 * MS},
    )
    with Case(path) as case:
        context: Any = SimpleNamespace(
            case=case,
            own_programs=(["db"], []),
            other_writers=[],
            surveys={"block": survey_layer(case, "block")},
        )
        found = case.rows(f"SELECT comm, start_ns, size_bytes FROM {flushes_of_others(context)}")
    assert found == [{"comm": "backup", "start_ns": 6 * MS, "size_bytes": 1 << 20}]


def test_what_was_written_before_a_flush_is_told_by_program(tmp_path: Path) -> None:
    rows: list[tuple[str, str | None, int, float, float]] = [
        ("flush", None, 0, 0, 1),
        ("write", "db", 4096, 2, 3),
        ("write", "backup", 1 << 20, 2, 3),
        # Not yet in the device's cache when the flush begins.
        ("write", "backup", 1 << 20, 3, 9),
        ("write", "jbd2/sda-8", 8192, 3, 4),
        ("flush", None, 0, 5, 8),
        ("write", "indexer", 65536, 9, 10),
        ("flush", None, 0, 11, 12),
    ]
    path = write_case(
        tmp_path / "x.case",
        syscall=calls_of(40, np.array([0]), MS),
        block=requests_of(rows),
        meta={"duration_ns": 100 * MS},
    )
    with Case(path) as case:
        context: Any = SimpleNamespace(case=case, own_programs=(["db"], []), other_writers=[])
        written = written_before_flushes(context, "sda", "backup", ["indexer"])
        found = case.rows(f"SELECT its_bytes, other_bytes, third_bytes FROM {written} AS f ORDER BY op_id")
    assert [tuple(int(value or 0) for value in row.values()) for row in found] == [
        (0, 0, 0),
        (1 << 20, 12288, 0),
        (1 << 20, 65536, 65536),
    ]


@pytest.mark.parametrize(("ready_ms", "who"), [(11.0, "recorder"), (6.0, None)])
def test_a_sleeper_behind_a_worker_without_a_cpu_waits_for_that_cpu(
    tmp_path: Path, ready_ms: float, who: str | None
) -> None:
    """An open sleeps for 11.1 ms in `xfs_buf_wait` until a worker of the kernel ends it, which was ready for so long."""
    waits = [
        {
            "tid": 40,
            "pid": 40,
            "comm": "db",
            "start_ns": 0,
            "duration_ns": 11_100_000,
            "state": "blocked",
            "cause": "xfs_buf_wait",
            "waker": "kworker/0:1",
            "waker_pid": 10,
            "waker_tid": 10,
        },
        {
            "tid": 10,
            "pid": 10,
            "comm": "kworker/0:1",
            "start_ns": 20_000,
            "duration_ns": int(ready_ms * MS),
            "state": "runnable",
            "cause": "recorder",
        },
    ]
    path = write_case(
        tmp_path / "x.case",
        syscall=calls_of(40, np.array([0]), 11_200_000),
        tables={"waits": [{"cpu": 0, "cause_pid": None, **wait} for wait in waits]},
        meta={"duration_ns": 100 * MS},
    )
    episode: Any = SimpleNamespace(
        tid=40, start_ns=0, end_ns=11_200_000, stage_excess_ns=11_100_000, silence=False
    )
    asleep = Cause("blocked", "xfs_buf_wait", "its thread slept in xfs_buf_wait", True)
    with Case(path) as case:
        [cause] = _or_late_wakers(case, survey_layer(case, "syscall"), [episode], [asleep])
    assert (cause.state, cause.who) == (("runnable", who) if who else ("blocked", "xfs_buf_wait"))


def test_a_freezers_stops_within_a_moment_are_one() -> None:
    begin = np.array([0.0, 20e3, 1000e6, 1000.02e6, 2000e6])
    end = np.array([13e3, 350e6, 1000.01e6, 1350e6, 2350e6])
    lengths = _one_after_the_other(begin, end)
    assert (lengths / MS).round().tolist() == [350, 350, 350]
    # Stops of 100 ms with 50 ms between them are not.
    assert len(_one_after_the_other(np.array([0.0, 150e6]), np.array([100e6, 250e6]))) == 2


@pytest.mark.parametrize(
    ("moved_ms", "group", "file"),
    [
        (40, "/g/blkio/W", "/g/blkio/W/blkio.throttle.*_device"),
        (200, "", "/g/blkio/GROUP/blkio.throttle.*_device"),
    ],
)
def test_the_group_is_the_one_in_which_requests_are_held_back(
    tmp_path: Path, moved_ms: int, group: str, file: str
) -> None:
    """Of 100 requests those from 60 ms on are held back; the program comes into the group at `moved_ms`."""
    start = np.arange(100) * MS
    held = np.where(start >= 60 * MS, 500_000, 0)
    block = requests_of([("write", "db", 4096, at / MS, at / MS + 1) for at in start.tolist()]) | {
        "throttle_ns": held,
        "device_ns": MS - held,
        "cgroup": ["/g/blkio/W" if at >= moved_ms * MS else None for at in start.tolist()],
    }
    path = write_case(
        tmp_path / "x.case",
        syscall=calls_of(40, start, MS),
        block=block,
        meta={"duration_ns": 101 * MS},
        system={"mounts": {"/g/blkio": ["cgroup", "cgroup"]}},
    )
    with Case(path) as case:
        surveys = {layer: survey_layer(case, layer) for layer in ("syscall", "block")}
        context: Any = SimpleNamespace(
            case=case, layer="syscall", surveys=surveys, survey=surveys["syscall"], own_programs=(["db"], [])
        )
        assert _group(context) == group
        assert _limits(context, group) == file


def test_the_recorded_program_is_no_namesake_of_itself() -> None:
    case: Any = SimpleNamespace(is_of_a_part=True, meta={"command": ["db"], "command_pid": 40})
    context: Any = SimpleNamespace(case=case, own_programs=(["db"], [41]))
    assert told_apart(context, "db", [40, 41]) == ("db", "db")
    assert told_apart(context, "db", [40, 77])[1] == "db (process 77, not the recorded one)"


def test_the_thread_that_works_is_what_a_programs_speed_hangs_on(tmp_path: Path) -> None:
    """One thread reads for a tenth of its time and computes; the other one made a few short reads and sleeps until that is done."""
    start = np.concatenate((np.arange(1_000) * MS, np.arange(200) * 5 * MS + 500_000))
    took = np.concatenate((np.full(1_000, 100_000), np.full(200, 55_000)))
    tid = np.concatenate((np.full(1_000, 50), np.full(200, 49)))
    order = np.argsort(start, kind="stable")
    sleeps = [
        {
            "tid": 49,
            "pid": 40,
            "comm": "db",
            "cpu": 0,
            "start_ns": int(at + 60_000),
            "duration_ns": int(4.9 * MS),
            "state": "blocked",
            "cause": "hrtimer_nanosleep",
            "cause_pid": None,
        }
        for at in start[1_000:].tolist()
    ]
    path = write_case(
        tmp_path / "x.case",
        syscall=calls_of(tid[order], start[order], took[order]),
        tables={"waits": sleeps},
        meta={"duration_ns": 1_001 * MS},
    )
    program = Program("db", "", (40,))
    with Case(path) as case:
        context: Any = SimpleNamespace(case=case, layer="syscall", survey=survey_layer(case, "syscall"))
        both, alone = thread_time(context, program), thread_time(context, program, alone=True)
    assert both is not None and alone is not None
    assert (set(both.tids), alone.tids) == ({49, 50}, (50,))
    assert alone.share["running"] > 0.8 > both.share["running"]
