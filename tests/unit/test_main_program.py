"""What the judged program is called."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.evidence.context import Context
from whodisk.evidence.main_program import Program, main_program
from whodisk.evidence.slow_operations import empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case

MS, CALLS, PID, COMMITTER = 1_000_000, 200, 40, 44


def named(path: Path, first: list[tuple[str, int, int]], waits: list[tuple[str, int, int]]) -> Program | None:
    """A thread commits all the time; its process's first thread makes these calls and sleeps so (name, begin and length in ms)."""
    made = [("committer", COMMITTER, 10 * number, 8) for number in range(CALLS)]
    made += [(name, PID, begin, length) for name, begin, length in first]
    calls = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(made)),
        "start_ns": np.array([begin * MS for _, _, begin, _ in made]),
        "latency_ns": np.array([length * MS for _, _, _, length in made]),
        "op": "sync",
        "device": "sda",
        "pid": PID,
        "tid": [tid for _, tid, _, _ in made],
        "comm": [name for name, _, _, _ in made],
    }
    slept = [
        {"tid": PID, "pid": PID, "comm": name, "cpu": 0, "start_ns": begin * MS, "duration_ns": length * MS}
        | {"state": "blocked", "cause": "futex_do_wait", "cause_pid": None}
        for name, begin, length in waits
    ]
    meta = {
        "observer": "record",
        "command": ["bash", "x.sh"],
        "command_pid": PID,
        "duration_ns": 10 * CALLS * MS,
    }
    with Case(write_case(path, syscall=calls, tables={"waits": slept}, meta=meta)) as case:
        surveys = {"syscall": survey_layer(case, "syscall")}
        return main_program(Context(case, surveys, "syscall", empty_slow_set(), np.zeros(0, np.bool_)))


def test_a_program_that_a_shell_became_is_called_by_its_own_name(tmp_path: Path) -> None:
    """The shell reads its script and runs the program in its place, which then waits for its threads: the shell's calls took longer than its own."""
    shell = [("bash", 0, 9), ("bash", 12, 8)]
    program = named(tmp_path / "a.case", [*shell, ("ledger", 25, 1)], [("ledger", 30, 1900)])
    assert program is not None and (program.name, program.pids) == ("ledger", (PID,))


def test_a_name_of_a_moment_is_not_the_programs(tmp_path: Path) -> None:
    """A first thread that calls itself otherwise for some work, and has most of its calls then."""
    work = [("helper", 1000, 9), ("helper", 1010, 9)]
    program = named(tmp_path / "a.case", [("ledger", 0, 1), *work, ("ledger", 1950, 1)], [])
    assert program is not None and program.name == "ledger"


def test_without_a_record_of_the_first_thread_the_command_is_meant(tmp_path: Path) -> None:
    program = named(tmp_path / "a.case", [], [])
    assert program is not None and program.name == "bash"
