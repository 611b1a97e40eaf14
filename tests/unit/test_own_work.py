"""What a program does to itself: told by its files, its log, and its pauses; nobody else is accused of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import write_case
from whodisk.evidence.own_work import own_work
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

MS = 1_000_000
#: Each operation is a commit of 0.2 ms; a few take far longer.
COMMITS = 2000
APP_BASE, CALL_BASE = 1 << 56, 2 << 56


def database(
    path: Path,
    slow: dict[int, int],
    in_sync: bool,
    clients: int = 1,
    asleep: list[int] | None = None,
    **workload: Any,
) -> Path:
    """Commits one every 4 ms, by turns of the clients, each one sync of the log; `slow` gives some another length, in the sync or in the program; those `asleep`
    have no sync and wait for the one before, until 1.1 ms after their start."""
    rng = np.random.default_rng(7)
    start = np.arange(COMMITS, dtype=np.int64) * 4 * MS
    app = np.full(COMMITS, 100_000, np.int64)
    sync = rng.integers(90_000, 110_000, COMMITS)
    for number, length in slow.items():
        (sync if in_sync else app)[number] = length
    child = np.arange(COMMITS)
    for number in asleep or ():
        child[number], sync[number] = number - 1, MS
    stages = {
        "runqueue_ns": 0,
        "unknown_ns": 0,
        "queue_ns": 0,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "throttle_ns": 0,
    }
    thread = {"pid": 40, "tid": 41 + np.arange(COMMITS) % clients, "comm": "db", "flags": 0}
    return write_case(
        path,
        app={
            "op_id": APP_BASE + np.arange(COMMITS),
            "start_ns": start,
            "latency_ns": app + sync,
            "op": "commit",
            "app_ns": app,
            "fs_ns": 0,
            "device_ns": sync,
            **stages,
            **thread,
        },
        syscall={
            "op_id": CALL_BASE + np.arange(COMMITS),
            "start_ns": start + app,
            "latency_ns": sync,
            "op": "sync",
            "file": "/db/pg_wal/000000010000000000000001",
            "fs_ns": 0,
            "device_ns": sync,
            **stages,
            **thread,
        },
        links={
            "parent_id": APP_BASE + np.arange(COMMITS),
            "child_id": CALL_BASE + child,
        },
        meta={"workload": {"program": "postgresql", **workload}},
    )


def test_the_tail_is_told_by_files_and_by_what_was_going_on(tmp_path: Path) -> None:
    slow = dict.fromkeys(range(500, 520), 5 * MS)
    checkpoint = {"what": "checkpoint", "start_ns": 500 * 4 * MS, "duration_ns": 100 * MS}
    case = Case(database(tmp_path / "case", slow, True, activities=[checkpoint]))
    assert own_work(case) == [
        "The slowest 1 % of commits (20) spent 98 % in syncs of the write-ahead log. Meanwhile, by its own log: "
        "checkpoint in 100 % of their time (1 % of all)."
    ]


def test_other_cases_than_those_of_programs_have_no_such_sentence(tmp_path: Path) -> None:
    path = database(tmp_path / "case", {}, True)
    (path / "case.json").write_text((path / "case.json").read_text().replace('"program"', '"spec"'))
    assert own_work(Case(path)) == []


def test_a_pause_that_the_program_logged_is_its_own(tmp_path: Path) -> None:
    pauses = [{"what": "JVM safepoint G1", "start_ns": 900 * 4 * MS, "duration_ns": 60 * MS}]
    slow = {900: 60 * MS}
    verdict = solve(database(tmp_path / "case", slow, False, pauses=pauses))
    assert verdict.slowest[0].what == "the program paused all its threads (JVM safepoint G1)"
    assert verdict.slowest[0].stage == "app"
    unlogged = solve(database(tmp_path / "unlogged", slow, False))
    assert "JVM" not in unlogged.slowest[0].what


def test_a_commit_that_slept_for_another_ones_sync_says_so(tmp_path: Path) -> None:
    """Each second commit is another client's; those after a long sync (10 of 5.1 ms) sleep until it is done (1.1 ms), and make none of their own."""
    slow = dict.fromkeys(range(500, 520, 2), 5 * MS)
    path = database(tmp_path / "case", slow, True, clients=2, asleep=[number + 1 for number in slow])
    (told,) = own_work(Case(path))
    assert told == (
        "The slowest 1 % of commits (20) spent 80.6 % in syncs of the write-ahead log and 17.7 % in syncs of the write-ahead log "
        "by another one, for which they slept."
    )
