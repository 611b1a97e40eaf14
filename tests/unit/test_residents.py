"""A recording of a whole machine: a program that came is in the way of one that stayed, or has nothing to do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.evidence.residents import residents_of
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

MS = 1_000_000
SECONDS = 16


def machine(
    path: Path,
    copies: tuple[float, float],
    meta: dict[str, Any] | None = None,
    *,
    one_call: bool = False,
    slowest_ns: int = 0,
) -> Path:
    """Two threads of a database read from a disk that serves one request at a time; a copy reads in order between these seconds."""
    rng = np.random.default_rng(5)
    threads = {("db", 71): 0.0, ("db", 72): 0.0, ("copy", 90): copies[0] * 1e9}
    free, rows = 0.0, []
    while True:
        who = min(threads, key=lambda each: threads[each])
        start = threads[who]
        if start > SECONDS * 1e9:
            break
        is_copy = who[0] == "copy"
        begin = max(start, free)
        free = begin + (2 * MS if is_copy else rng.uniform(4, 12) * MS)
        rows.append((*who, start, free - start))
        threads[who] = free + 0.5 * MS
        if is_copy:
            # An elevator goes on with what follows: twelve more for one of another.
            rows += [(*who, free + each * 2 * MS, 2 * MS) for each in range(12)]
            free += 24 * MS
            threads[who] = free if free < copies[1] * 1e9 else 1e18
    comm, tid, begun, took = (np.array(column) for column in zip(*rows, strict=True))
    began_ns, took_ns = begun.astype(np.int64), took.astype(np.int64)
    every: dict[str, Any] = {
        "comm": comm,
        "pid": np.where(comm == "db", 70, 90),
        "tid": tid.astype(np.int64),
        "device": ["sda"] * len(rows),
        "size_bytes": np.where(comm == "db", 8192, 1 << 20),
        "offset_bytes": np.where(
            comm == "db", rng.integers(0, 1 << 26, len(rows)), np.arange(len(rows)) * 256
        )
        * 4096,
    }
    syscall: dict[str, Any] = every | {
        "op_id": APP_ID_BASE + np.arange(len(rows)),
        "start_ns": began_ns,
        "latency_ns": took_ns + 20_000,
        "fs_ns": np.full(len(rows), 20_000),
        "device_ns": took_ns.copy(),
        "file": np.where(comm == "db", "/srv/db/heap", "/srv/other"),
    }
    block = every | {
        "op_id": BLOCK_ID_BASE + np.arange(len(rows)),
        "start_ns": began_ns + 10_000,
        "latency_ns": took_ns,
        "device_ns": took_ns,
    }
    links: dict[str, Any] = {
        "parent_id": syscall["op_id"],
        "child_id": block["op_id"],
        "bytes": every["size_bytes"],
    }
    if one_call:
        # A file system copies by itself: all that the program did is to ask for it.
        kept = (comm == "db") | (np.arange(len(rows)) == np.flatnonzero(comm == "copy")[0])
        syscall = {name: np.asarray(column)[kept] for name, column in syscall.items()}
        for name in ("latency_ns", "device_ns"):
            syscall[name] = np.where(syscall["comm"] == "copy", 20_000, syscall[name])
        links = {name: np.asarray(column)[kept] for name, column in links.items()}
    if slowest_ns:
        # One read of the copy.
        at = int(np.flatnonzero(comm == "copy")[-1])
        syscall["latency_ns"][at] = syscall["device_ns"][at] = slowest_ns
    meta = {"observer": "record", "duration_ns": SECONDS * 1_000_000_000, **(meta or {})}
    system = {
        "devices": {
            "sda": {
                "name": "sda",
                "dev": 8 << 20,
                "size_bytes": 1 << 40,
                "queue": {"rotational": "1"},
                "facts": {},
            }
        }
    }
    return write_case(
        path, syscall=syscall, block=block, links=links, devices=("sda",), meta=meta, system=system
    )


def test_who_came_is_to_blame_for_what_the_one_lost_that_stayed(tmp_path: Path) -> None:
    verdict = solve(machine(tmp_path / "case", (6.0, 12.0)))
    assert verdict.status == "slow"
    assert (verdict.findings[0].culprit.kind, verdict.findings[0].culprit.name) == ("process", "copy")
    unjudged = verdict.cannot_exclude[0]
    assert unjudged.what == "what copy waited for"
    assert unjudged.because.endswith("judged are the operations of db")


@pytest.mark.parametrize(("slowest_ns", "judged_alone"), [(0, True), (900 * MS, False)])
def test_what_was_expected_is_answered_for_all(slowest_ns: int, judged_alone: bool, tmp_path: Path) -> None:
    """A read of the copy is beyond the limit, and none of the database."""
    path = machine(tmp_path / "case", (6.0, 12.0), slowest_ns=slowest_ns)
    verdict = solve(path, expect=["max<400ms"])
    assert [item.met for item in verdict.expectations] == [not slowest_ns]
    assert verdict.check_failed == bool(slowest_ns)
    assert ("what copy waited for" in [item.what for item in verdict.cannot_exclude]) == judged_alone


def test_one_call_may_make_thousands_of_requests(tmp_path: Path) -> None:
    """A balance of btrfs is one ioctl: its program had no part in the time of all calls worth speaking of, and most of the time of all requests."""
    verdict = solve(machine(tmp_path / "case", (6.0, 12.0), one_call=True))
    assert (verdict.findings[0].culprit.kind, verdict.findings[0].culprit.name) == ("process", "copy")


@pytest.mark.parametrize(
    ("copies", "meta", "why"),
    [
        ((0.0, 16.0), None, "both stayed"),
        ((6.0, 6.2), None, "it did next to nothing"),
        ((6.0, 12.0), {"command": ["db"]}, "a command was recorded"),
        ((6.0, 12.0), {"scope": {"pids": [70]}}, "a process was recorded"),
    ],
)
def test_all_are_judged(
    copies: tuple[float, float], meta: dict[str, Any] | None, why: str, tmp_path: Path
) -> None:
    with Case(machine(tmp_path / "case", copies, meta)) as case:
        assert residents_of(case) is None, why


def test_a_job_beside_daemons_is_judged(tmp_path: Path) -> None:
    """Who stayed had hardly any of the time."""
    path = machine(tmp_path / "case", (1.0, 11.0))
    with Case(path) as case:
        found = residents_of(case)
        assert found is not None
        assert (found.stayed, found.passed) == (("db",), ("copy",))
        case.views["measured"] = (
            f"SELECT * FROM ({case.views['measured']}) WHERE comm <> 'db' OR op_id % 40 = 0"
        )
        case._forget()
        assert residents_of(case) is None
