"""What is called who had the CPU: the program of a process, whatever it was started through."""

from __future__ import annotations

from pathlib import Path

from tests.synth import write_case
from whodisk.evidence.cpu_names import name_holders
from whodisk.reading.views import Case

MS, WAITER = 1_000_000, 4300
#: A process that others waited for (process, name, begin of a wait and its length in ms).
Held = tuple[int, str, float, float]


def called(path: Path, held: list[Held], processes: dict[str, str] | None = None) -> dict[int, set[str]]:
    """Process -> what the view `waits` calls it."""
    waits = [
        {
            "tid": WAITER + number,
            "pid": WAITER,
            "comm": "db",
            "cpu": 0,
            "start_ns": round(begin * MS),
            "duration_ns": round(length * MS),
            "state": "runnable",
            "cause": name,
            "cause_pid": pid,
        }
        for number, (pid, name, begin, length) in enumerate(held)
    ]
    syscall = {"start_ns": [0], "latency_ns": [MS], "op": "sync", "tid": WAITER, "pid": WAITER, "comm": "db"}
    case = Case(
        write_case(path, syscall=syscall, tables={"waits": waits}, system={"processes": processes or {}})
    )
    name_holders(case)
    found: dict[int, set[str]] = {}
    for row in case.rows("SELECT cause_pid, cause FROM waits WHERE state = 'runnable'"):
        found.setdefault(int(row["cause_pid"] or 0), set()).add(str(row["cause"]))
    return found


#: It is called timeout and taskset, and then executes md5sum, which keeps the CPU.
CHAIN: list[Held] = [
    (90, "timeout", 0, 1),
    (90, "taskset", 0, 3),
    (90, "md5sum", 4, 300),
    (90, "md5sum", 40, 270),
]


def test_a_process_is_called_by_the_last_program_that_it_executed(tmp_path: Path) -> None:
    found = called(tmp_path / "x", CHAIN)
    assert found == {90: {"md5sum"}}


def test_threads_of_a_process_keep_their_names(tmp_path: Path) -> None:
    at_the_same_time = [(77, f"GC Thread#{number % 2}", number * 10.0, 9.0) for number in range(6)]
    found = called(tmp_path / "x", at_the_same_time)
    assert found == {77: {"GC Thread#0", "GC Thread#1"}}
    one_after_the_other = [(77, "java", 0.0, 20.0), (77, "GC Thread#0", 30.0, 20.0)]
    found = called(tmp_path / "y", one_after_the_other, {"77": "java"})
    assert found == {77: {"java", "GC Thread#0"}}


def test_a_helper_thread_that_outlives_the_others_is_no_program(tmp_path: Path) -> None:
    """An allocator's thread had the CPU for 9 ms when a process of 5.9 s ended, and the verdict accused "jemalloc_bg_thd"."""
    found = called(tmp_path / "x", [(90, "python", 0.0, 900.0), (90, "jemalloc_bg_thd", 950.0, 9.0)])
    assert found == {90: {"python", "jemalloc_bg_thd"}}
