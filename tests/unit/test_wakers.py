"""Whom sleepers waited for, followed from who was woken to who woke."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ground_truth import holders
from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.machine.wakers import Holder, holders_of
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

MS = 1_000_000
#: Name, process and thread.
CLIENT, NEXT, HOLDER, KERNEL = ("db", 70, 71), ("db", 70, 72), ("backup", 90, 90), ("kworker/0:1", 9, 9)
Who = tuple[str, int, int]


class _Context:
    """As much of a context as the question needs."""

    def __init__(self, case: Case) -> None:
        self.case = case


def sleep(who: Who, begin_ms: float, end_ms: float, cause: str, waker: Who | None = None) -> dict[str, Any]:
    name, pid, tid = waker or (None, None, None)
    return {
        "tid": who[2],
        "pid": who[1],
        "comm": who[0],
        "cpu": 0,
        "start_ns": int(begin_ms * MS),
        "duration_ns": int((end_ms - begin_ms) * MS),
        "state": "blocked",
        "cause": cause,
        "cause_pid": None,
        "waker": name,
        "waker_pid": pid,
        "waker_tid": tid,
    }


def asked(
    path: Path, waits: list[dict[str, Any]], calls: list[tuple[Who, float, float, str]] | None = None
) -> list[Holder]:
    """Who the client's sleeps waited for."""
    made = [((*CLIENT[:2], 79), 0.0, 0.01, "read"), *(calls or [])]
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(made)),
        "start_ns": np.array([int(begin * MS) for _, begin, _, _ in made]),
        "latency_ns": np.array([int((end - begin) * MS) for _, begin, end, _ in made]),
        "op": [op for _, _, _, op in made],
        "comm": [who[0] for who, _, _, _ in made],
        "pid": [who[1] for who, _, _, _ in made],
        "tid": [who[2] for who, _, _, _ in made],
    }
    meta = {"observer": "record", "command": ["db"], "duration_ns": 1000 * MS}
    mine = [row for row in waits if row["tid"] == CLIENT[2]]
    begin = np.array([row["start_ns"] for row in mine])
    end = begin + np.array([row["duration_ns"] for row in mine])
    with Case(write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)) as case:
        return holders_of(_Context(case), np.full(len(mine), CLIENT[2]), begin, end)  # type: ignore[arg-type]


def test_a_wait_behind_another_one_is_for_who_held_that_one_up(tmp_path: Path) -> None:
    """The client sleeps for 20 ms; of these the next in line slept 16 ms for the holder, and held the lock for 4 ms itself."""
    waits = [
        sleep(CLIENT, 10, 30, "futex_do_wait", NEXT),
        sleep(NEXT, 8, 26, "futex_do_wait", HOLDER),
        sleep(HOLDER, 5, 20, "hrtimer_nanosleep"),
    ]
    first, second = asked(tmp_path / "x.case", waits)
    assert (first.name, first.pids, first.tids) == ("backup", (90,), (90,))
    assert first.share == pytest.approx(0.8) and second.share == pytest.approx(0.2)
    assert dict(first.did) == pytest.approx(
        {"slept in hrtimer_nanosleep, for a time that the program chose": 10 / 16, "ran": 6 / 16}
    )
    assert second.tids == (72,) and dict(second.did) == pytest.approx({"ran": 1.0})
    assert (
        first.said((70,))
        == "backup (process 90), which slept in hrtimer_nanosleep, for a time that the program chose for 62.5 % and ran for 37.5 % of that time"
    )
    assert second.said((70,)).startswith("a thread of the same program (db), which ran for 100 %")


def test_what_a_holder_sleeps_in_its_calls_belongs_to_the_call(tmp_path: Path) -> None:
    """A thread of the kernel ends the holder's sleep in a sync: it is the sync that the client waited for."""
    waits = [
        sleep(CLIENT, 10, 30, "fcntl_setlk", HOLDER),
        sleep(HOLDER, 12, 28, "jbd2_log_wait_commit", KERNEL),
    ]
    (only,) = asked(tmp_path / "x.case", waits, [(HOLDER, 5.0, 5.1, "read"), (HOLDER, 11.0, 29.0, "sync")])
    assert only.name == "backup" and only.share == pytest.approx(1.0)
    assert dict(only.did) == pytest.approx({"was in syncs": 0.9, "ran": 0.1})


def test_who_was_not_recorded_did_nothing_that_is_known(tmp_path: Path) -> None:
    (only,) = asked(tmp_path / "x.case", [sleep(CLIENT, 10, 30, "fcntl_setlk", HOLDER)])
    assert (only.did, only.said(())) == ((), "backup (process 90)")


def test_before_its_first_record_a_thread_did_nothing_that_is_known(tmp_path: Path) -> None:
    """As who thaws a file system was started for that."""
    waits = [sleep(CLIENT, 10, 30, "percpu_rwsem_wait", HOLDER), sleep(HOLDER, 28, 29, "ext4_commit_super")]
    (only,) = asked(tmp_path / "x.case", waits)
    assert dict(only.did) == pytest.approx({"slept in ext4_commit_super": 0.05, "ran": 0.05})
    assert only.said(()) == "backup (process 90)"


def test_few_long_sleeps_among_thousands_count_by_their_length(tmp_path: Path) -> None:
    """Of 1 s the client slept three times 100 ms for one that was stopped, and 6000 times 0.1 ms for another that ran."""
    rest = np.setdiff1d(
        np.arange(0, 9000), np.concatenate([np.arange(at, at + 1000) for at in (500, 3500, 7000)])
    )
    waits = [sleep(CLIENT, at / 10, at / 10 + 0.1, "anon_pipe_read", NEXT) for at in rest[:6000]]
    for at in (50.0, 350.0, 700.0):
        waits += [sleep(CLIENT, at, at + 100, "anon_pipe_read", HOLDER)]
        waits += [{**sleep(HOLDER, at, at + 99, "none"), "state": "stopped", "cause": None}]
    waits.sort(key=lambda row: row["start_ns"])
    found = {holder.name: holder for holder in asked(tmp_path / "x.case", waits)}
    assert found["backup"].share == pytest.approx(1 / 3, abs=0.001)
    assert found["db"].share == pytest.approx(2 / 3, abs=0.001)
    assert dict(found["backup"].did)["was stopped"] == pytest.approx(0.99, abs=0.001)


@pytest.mark.parametrize("waker", [None, KERNEL])
def test_interrupts_and_threads_of_the_kernel_are_nobody(waker: Who | None, tmp_path: Path) -> None:
    assert asked(tmp_path / "x.case", [sleep(CLIENT, 10, 30, "do_epoll_wait", waker)]) == []


def test_where_most_of_the_time_has_no_waker_nobody_is_named(tmp_path: Path) -> None:
    waits = [sleep(CLIENT, 10, 20, "futex_do_wait", HOLDER), sleep(CLIENT, 30, 50, "futex_do_wait")]
    assert asked(tmp_path / "x.case", waits) == []


def test_threads_that_wake_each_other_come_to_an_end(tmp_path: Path) -> None:
    """Each woke the other at the very end: after eight times whoever is next is named."""
    waits = [sleep(CLIENT, 10, 30, "futex_do_wait", NEXT), sleep(NEXT, 10, 30, "futex_do_wait", CLIENT)]
    (only,) = asked(tmp_path / "x.case", waits)
    assert only.name == "db" and only.share == pytest.approx(1.0)


def test_the_claim_names_the_other_program_and_the_experiment(tmp_path: Path) -> None:
    verdict = solve(holders.held_by_backup(1, tmp_path / "x.case"))
    assert verdict.summary[0] == "Slow: the program backup is to blame."
    first = verdict.findings[0]
    assert "waited for a write lock" in first.claim
    assert "until they were let go on, directly or behind others, by backup (process 90)." in first.claim
    assert first.refute.startswith("Repeat without backup")
