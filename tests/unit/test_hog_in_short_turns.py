"""A program that keeps submitters from a CPU costs what all its turns cost, not only the long ones; and it is told from the recorded one of its name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.detectors.candidates import leave_cpu
from whodisk.verdict.solve import solve

OPERATIONS, US, MS = 4_000, 1_000, 1_000_000
OWN_PID, RIVAL_PID = 900, 77


def hogged(path: Path, seed: int, rival: str, pids: tuple[int, ...] = (RIVAL_PID,)) -> Path:
    """One thread reads, 1 ms each. In a tenth of the reads the rival has its CPU for 4 ms, in one of 100 for 12 ms; in a tenth a thread of its own for 1 ms."""
    rng = np.random.default_rng([seed, 41])
    device_ns = (1 * MS * np.exp(rng.normal(0, 0.15, OPERATIONS))).astype(np.int64)
    wait_ms = rng.choice([0.0, 1.0, 4.0, 12.0], OPERATIONS, p=[0.79, 0.1, 0.1, 0.01])
    wait_ns = (wait_ms * MS * rng.uniform(0.98, 1.02, OPERATIONS)).astype(np.int64)
    latency = device_ns + wait_ns + 20 * US
    begin = np.cumsum(latency + 30 * US) - latency
    own = wait_ms == 1
    waits = [
        {
            "tid": OWN_PID,
            "pid": OWN_PID,
            "comm": "python3",
            "cpu": 0,
            "start_ns": int(begin[at]) + 10 * US,
            "duration_ns": int(wait_ns[at]),
            "state": "runnable",
            "cause": "python3" if own[at] else rival,
            "cause_pid": OWN_PID if own[at] else pids[place % len(pids)],
        }
        for place, at in enumerate(np.flatnonzero(wait_ns))
    ]
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(OPERATIONS),
        "start_ns": begin,
        "latency_ns": latency,
        "op": "read",
        "size_bytes": 4096,
        "device": "nvme0n1",
        "tid": OWN_PID,
        "pid": OWN_PID,
        "comm": "python3",
        "app_ns": 0,
        "fs_ns": 20 * US,
        "queue_ns": 0,
        "device_ns": device_ns,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": wait_ns,
    }
    meta = {"duration_ns": int((begin + latency).max()) + MS, "command": ["python3", "work.py"]}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


@pytest.mark.parametrize("seed", [1, 2])
def test_all_turns_of_a_hog_count(tmp_path: Path, seed: int) -> None:
    first = solve(hogged(tmp_path / "case", seed, "stress")).findings[0]
    assert first.culprit.name == "stress"
    # 0.52 of 1.65 ms of the mean read: its long turns are 0.12, and the own thread's 0.1.
    assert first.share_of_latency == pytest.approx(0.52 / 1.65, abs=0.03), first.claim


def test_a_namesake_is_named_with_its_process(tmp_path: Path) -> None:
    first = solve(hogged(tmp_path / "one", 1, "python3")).findings[0]
    assert first.culprit.name == f"python3 (process {RIVAL_PID})"
    assert f"python3 (process {RIVAL_PID}, not the recorded one)" in first.claim
    assert f"taskset -cp CPUS {RIVAL_PID}" in first.remedy
    several = solve(hogged(tmp_path / "several", 1, "python3", (RIVAL_PID, 78, 79))).findings[0]
    assert several.culprit.name == f"python3 (processes {RIVAL_PID}, 78 and 79)"
    assert "taskset -cp CPUS PID" in several.remedy
    many = solve(hogged(tmp_path / "many", 1, "python3", tuple(range(77, 85)))).findings[0]
    assert many.culprit.name.endswith(" and 5 more)"), many.culprit.name


def test_an_idle_process_of_the_same_name_is_not_named(tmp_path: Path) -> None:
    """An idle shell with the lowest number had the CPU in one of 31 waits."""
    first = solve(hogged(tmp_path / "case", 1, "python3", (*(78, 79) * 15, RIVAL_PID))).findings[0]
    assert "(processes 78 and 79)" in first.culprit.name or "(processes 79 and 78)" in first.culprit.name
    assert str(RIVAL_PID) not in first.remedy, first.remedy


def test_in_a_recording_of_the_whole_machine_everybody_was_recorded(tmp_path: Path) -> None:
    case = hogged(tmp_path / "case", 1, "python3")
    meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
    (case / "case.json").write_text(json.dumps({**meta, "command": []}), encoding="utf-8")
    first = solve(case).findings[0]
    assert first.culprit.name == f"python3 (process {RIVAL_PID})"
    assert "not the recorded one" not in first.claim, first.claim


def test_the_remedy_holds_for_real_time_classes(tmp_path: Path) -> None:
    """Which class a thread runs in is not recorded: a weight does nothing in some."""
    assert "real-time class" in leave_cpu("hog") and "stop it" in leave_cpu("hog")
