"""What is called who had the CPU: the program of a process, whatever it was started through."""

from __future__ import annotations

from pathlib import Path

from tests.synth import write_case
from whodisk.evidence.cpu_names import name_holders, said_of
from whodisk.reading.views import Case

MS, WAITER = 1_000_000, 4300
#: A process that others waited for (process, name, begin of a wait and its length in ms).
Held = tuple[int, str, float, float]


def called(
    path: Path, held: list[Held], processes: dict[str, str] | None = None
) -> tuple[dict[int, set[str]], Case]:
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
    return found, case


#: It is called timeout and taskset, and then executes md5sum, which keeps the CPU.
CHAIN: list[Held] = [
    (90, "timeout", 0, 1),
    (90, "taskset", 0, 3),
    (90, "md5sum", 4, 300),
    (90, "md5sum", 40, 270),
]


def test_a_process_is_called_by_the_last_program_that_it_executed(tmp_path: Path) -> None:
    found, _ = called(tmp_path / "x", CHAIN)
    assert found == {90: {"md5sum"}}


def test_threads_of_a_process_keep_their_names(tmp_path: Path) -> None:
    at_the_same_time = [(77, f"GC Thread#{number % 2}", number * 10.0, 9.0) for number in range(6)]
    found, _ = called(tmp_path / "x", at_the_same_time)
    assert found == {77: {"GC Thread#0", "GC Thread#1"}}
    one_after_the_other = [(77, "java", 0.0, 20.0), (77, "GC Thread#0", 30.0, 20.0)]
    found, _ = called(tmp_path / "y", one_after_the_other, {"77": "java"})
    assert found == {77: {"java", "GC Thread#0"}}


def test_who_keeps_the_cpu_from_its_start_on_is_what_others_like_it_became(tmp_path: Path) -> None:
    """Nobody sees what a process executes while it has the CPU."""
    found, case = called(tmp_path / "x", [*CHAIN, (91, "taskset", 500, 300), (92, "timeout", 900, 300)])
    assert found == {90: {"md5sum"}, 91: {"md5sum"}, 92: {"md5sum"}}
    assert said_of(case, "md5sum") == "md5sum (started as taskset and timeout)"
    assert said_of(case, "db") == "db"


def test_who_has_the_cpu_again_under_its_name_is_called_so(tmp_path: Path) -> None:
    """A shell that computes for itself, beside one that started a program; another process had its CPU in between."""
    shell: list[Held] = [(91, "bash", 500, 100), (95, "cat", 600, 1), (91, "bash", 610, 100)]
    found, _ = called(
        tmp_path / "x", [(90, "bash", 0, 1), (90, "md5sum", 4, 300), *shell, (92, "bash", 900, 50)]
    )
    assert (found[90], found[91], found[92]) == ({"md5sum"}, {"bash"}, {"bash"})


def test_who_may_have_become_one_or_the_other_keeps_its_name(tmp_path: Path) -> None:
    other: list[Held] = [(93, "taskset", 400, 1), (93, "gzip", 402, 50)]
    found, _ = called(tmp_path / "x", [*CHAIN, *other, (91, "taskset", 500, 300)])
    assert (found[90], found[93], found[91]) == ({"md5sum"}, {"gzip"}, {"taskset"})


def test_short_turns_say_nothing_of_who_keeps_a_cpu(tmp_path: Path) -> None:
    """A program that starts others, each for a moment, and keeps a CPU itself."""
    started: list[Held] = [
        (number, name, number * 10.0, 6.0) for number in (50, 51) for name in ("python", "git")
    ]
    started = [(pid, name, begin + 6 * (name == "git"), length) for pid, name, begin, length in started]
    found, _ = called(tmp_path / "x", [*started, (91, "python", 900, 300)])
    assert (found[50], found[91]) == ({"git"}, {"python"})
