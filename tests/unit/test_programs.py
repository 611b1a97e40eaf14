"""Real programs: what they tell of themselves, and the command that runs them by name."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from whodisk.cli.run import is_program
from whodisk.programs import ALIASES, PROGRAMS, trees
from whodisk.programs.base import Log, Place, ProgramError, read_log
from whodisk.programs.db_bench import ends
from whodisk.programs.postgresql import CONNECTED, checkpoints
from whodisk.programs.rocksdb import activities, read
from whodisk.programs.ycsb import WORKLOADS, pauses


def test_a_log_comes_back(tmp_path: Path) -> None:
    log = Log()
    log.add("commit", 5, 7, 11, 2)
    log.add("read", 1, 2)
    log.write(tmp_path / "log")
    assert (tmp_path / "log").read_text() == "commit 5 7 11 2\nread 1 2 0 0\n"
    assert read_log(tmp_path / "log") == log
    with pytest.raises(ProgramError, match="found none: it was ended"):
        read_log(tmp_path / "absent")


def test_the_registry_keeps_its_places() -> None:
    # They decide which cells a test set keeps for itself (decision 0130): it grows at the end only.
    assert list(PROGRAMS)[:5] == ["fio", "postgresql", "db_bench", "tar", "sqlite"]
    assert set(ALIASES.values()) <= set(PROGRAMS)
    assert not set(ALIASES) & set(PROGRAMS)


@pytest.mark.parametrize(
    ("arguments", "programs"),
    [
        (["sqlite"], True),
        (["--seconds", "3", "pgbench"], True),
        (["--list"], True),
        (["nonsense"], True),
        (["spec.toml"], False),
        (["./sqlite"], False),
        (["/tmp/spec"], False),
        (["--help"], False),
        ([], False),
    ],
)
def test_programs_are_told_from_specifications(arguments: list[str], programs: bool) -> None:
    assert is_program(arguments) is programs


def test_a_file_of_a_programs_name_is_a_specification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sqlite").write_text("[workload]\n")
    assert not is_program(["sqlite"])


def test_the_server_says_who_serves_whom() -> None:
    told = (
        "17 1700000000.1 LOG:  connection authorized: user=postgres database=postgres application_name=pgbench\n"
        "18 1700000000.2 LOG:  connection authorized: user=postgres database=postgres application_name=psql\n"
        "19 1700000000.3 LOG:  connection authorized: user=postgres database=postgres application_name=pgbench\n"
    )
    assert CONNECTED.findall(told) == ["17", "19"]


def test_pauses_are_read_from_the_log_of_safepoints() -> None:
    told = (
        '[1000500000ns] Safepoint "G1CollectForAllocation", Time since last: 1 ns, Reaching safepoint: 2 ns, '
        "Cleanup: 3 ns, At safepoint: 4 ns, Total:    500000 ns\n"
        '[2000000000ns] Safepoint "Cleanup", Time since last: 1 ns, Total: 99999 ns\n'
    )
    assert pauses(told) == [
        {"what": "JVM safepoint G1CollectForAllocation", "start_ns": 1_000_000_000, "duration_ns": 500_000}
    ]


def test_shares_of_workloads_are_whole() -> None:
    assert [round(sum(shares.values()), 9) for _, shares, _ in WORKLOADS.values()] == [1.0] * 6


def test_a_program_that_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whodisk.programs.base.find", lambda _: None)
    lacking = PROGRAMS["postgresql"].missing()
    assert lacking is not None
    assert "apt-get install postgresql util-linux" in lacking


def test_sqlite_leaves_its_log_when_the_database_breaks(tmp_path: Path) -> None:
    place = Place(tmp_path / "data", tmp_path / "scratch", 1, scale=0.01)
    place.data.mkdir()
    place.scratch.mkdir()
    program = PROGRAMS["sqlite"]
    program.set_up(place)
    with program.ready(place, 0.2) as load:
        subprocess.run(load.command, check=True)
    assert {"commit", "read"} == set(program.own_log(place).kind)
    (place.data / "load.db").write_bytes(b"no database at all" * 1000)
    with program.ready(place, 0.2) as load:
        done = subprocess.run(load.command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "SQLite: " in done.stderr
    assert "Traceback" not in done.stderr
    assert program.own_log(place).kind == []


def test_a_log_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    """A disk that fails requests gives no LOG back, and the case is sealed without it."""
    assert activities(tmp_path) == []
    (tmp_path / "LOG").mkdir()
    assert activities(tmp_path) == []


def test_rocksdb_says_what_it_did() -> None:
    def line(kind: str, job: int, ms: int) -> str:
        event = f'{{"time_micros": {1_000_000 + ms * 1000}, "job": {job}, "event": "{kind}"}}'
        return f"2026/01/02-03:04:05.000000 7 EVENT_LOG_v1 {event}"

    told = [
        line("flush_started", 3, 0),
        line("compaction_started", 4, 5),
        "2026/01/02-03:04:05.000000 7 [db/db_impl.cc:1] no event",
        "EVENT_LOG_v1 {broken",
        line("flush_finished", 3, 40),
        line("compaction_finished", 4, 25),
        line("flush_finished", 9, 50),
        line("compaction_started", 5, 60),
    ]
    assert read(told, 1_000_000_000) == [
        {"what": "memtable flush", "start_ns": 0, "duration_ns": 40_000_000},
        {"what": "compaction", "start_ns": 5_000_000, "duration_ns": 20_000_000},
    ]


def test_checkpoints_are_read_from_the_log_of_the_server() -> None:
    told = (
        "12 1700000000.100 LOG:  checkpoint starting: time\n"
        "12 1700000002.500 LOG:  checkpoint complete: wrote 3 buffers (0.1%); write=2.1 s, sync=0.2 s, total=2.400 s; sync files=3\n"
    )
    assert checkpoints(told, 1_700_000_000 * 10**9) == [
        {"what": "checkpoint", "start_ns": 100_000_000, "duration_ns": 2_400_000_000}
    ]


def test_operations_end_before_the_next_begins_and_when_they_were_heard_of() -> None:
    # Three operations of 10, heard of late and together; then one of 5 in time.
    assert ends([(130, 10), (130, 10), (131, 10), (136, 5)]) == [(111, 10), (121, 10), (131, 10), (136, 5)]
    assert ends([]) == []


def test_files_of_a_copy_belong_to_the_last_process_in_line() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout is not None
        sleeper = int(shell.stdout.readline())
        try:
            assert trees._worker(shell.pid) == trees._worker(sleeper) == sleeper
        finally:
            os.kill(sleeper, signal.SIGKILL)
    # One that has ended is itself.
    assert trees._worker(sleeper) == sleeper
