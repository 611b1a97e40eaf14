"""A program whose own threads crowd the CPUs is limited by them; what another program takes of these CPUs is that program's doing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

OPERATIONS, THREADS, US, MS = 4000, 4, 1_000, 1_000_000
OWN_PID, SHELL_PID, OTHER_PID = 4300, 4299, 77


def crowd(
    path: Path,
    others: float,
    cause_pid: int,
    reads: bool = False,
    own_ms: float = 1.0,
    name: str = "other",
    sleeps_in: str = "io",
) -> Path:
    """Four threads that sync; in a third of the syncs an own thread has the CPU for 1 ms, in a part of them somebody else for 3 ms.

    `reads`: somebody else, called `name`, reads from the same disk, and sleeps for it there. `own_ms`: what an own thread takes in five of the syncs.
    """
    rng = np.random.default_rng(29)
    tid = 5000 + np.arange(OPERATIONS) % THREADS
    device_ns = (1 * MS * np.exp(rng.normal(0, 0.15, OPERATIONS))).astype(np.int64)
    own = rng.random(OPERATIONS) < 1 / 3
    other = ~own & (rng.random(OPERATIONS) < others)
    wait_ns = np.where(own, 1 * MS, 0) + np.where(other, 3 * MS, 0)
    wait_ns = (wait_ns * rng.uniform(0.7, 1.3, OPERATIONS)).astype(np.int64)
    if own_ms > 1:
        longest = np.flatnonzero(own)[50:1050:200]
        wait_ns[longest] = (own_ms * MS * rng.uniform(0.99, 1.01, len(longest))).astype(np.int64)
    latency = device_ns + wait_ns + 20 * US
    begin = np.zeros(OPERATIONS, np.int64)
    for thread in range(THREADS):
        mine = np.flatnonzero(tid == 5000 + thread)
        begin[mine] = np.cumsum(latency[mine] + 30 * US) - latency[mine]
    waits: list[dict[str, object]] = [
        {
            "tid": int(tid[number]),
            "pid": OWN_PID,
            "comm": "db",
            "cpu": 0,
            "start_ns": int(begin[number] + 10 * US),
            "duration_ns": int(wait_ns[number]),
            "state": "runnable",
            "cause": "db" if own[number] else name,
            "cause_pid": OWN_PID if own[number] else cause_pid,
        }
        for number in np.flatnonzero(wait_ns)
    ]
    # The shell that started it waited, too, so it was recorded: it makes no calls on storage.
    shell: dict[str, object] = {
        "tid": SHELL_PID,
        "pid": SHELL_PID,
        "comm": "other",
        "start_ns": 0,
        "duration_ns": 50 * US,
    }
    waits.append({**waits[0], **shell, "cause": None, "cause_pid": None})
    block = {
        "start_ns": np.arange(200) * 5 * MS,
        "latency_ns": 100 * US,
        "op": "read",
        "device": "nvme0n1",
        "tid": cause_pid,
        "pid": cause_pid,
        "comm": name,
        "queue_ns": 5 * US,
        "device_ns": 95 * US,
    }
    if reads:
        # Whoever makes requests, or sleeps for them, is recorded with its waits.
        reader: dict[str, object] = {"tid": cause_pid, "pid": cause_pid, "comm": name, "start_ns": 3 * MS}
        waits.append(
            {
                **waits[0],
                **reader,
                "duration_ns": 90 * US,
                "state": "blocked",
                "cause": sleeps_in,
                "cause_pid": None,
            }
        )
        # Whoever is started has the name of who starts it until it executes its program.
        forked: dict[str, object] = {"comm": "db", "start_ns": 1 * MS, "duration_ns": 90 * US}
        waits.append({**waits[0], **reader, **forked, "cause": None, "cause_pid": None})
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(OPERATIONS),
        "start_ns": begin,
        "latency_ns": latency,
        "op": "sync",
        "device": "nvme0n1",
        "file": "/data/log",
        "tid": tid,
        "pid": OWN_PID,
        "comm": "db",
        "app_ns": 0,
        "fs_ns": 20 * US,
        "queue_ns": 0,
        "device_ns": device_ns,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": wait_ns,
    }
    meta = {"duration_ns": int((begin + latency).max()) + MS, "command": ["sh", "-c", "db"]}
    return write_case(
        path, block=block if reads else None, syscall=syscall, tables={"waits": waits}, meta=meta
    )


@pytest.mark.parametrize(
    ("others", "cause_pid", "reads", "accused"),
    [
        (0.15, OTHER_PID, False, [("process", "other")]),
        (0.15, OTHER_PID, True, [("process", "other")]),
        (0.02, OTHER_PID, False, []),
        (0.15, SHELL_PID, False, []),
    ],
)
def test_what_another_program_takes_is_told_beside_a_crowd_of_own_threads(
    tmp_path: Path, others: float, cause_pid: int, reads: bool, accused: list[tuple[str, str]]
) -> None:
    verdict = solve(crowd(tmp_path / "case", others, cause_pid, reads))
    assert [(f.culprit.kind, f.culprit.name) for f in verdict.findings] == accused, verdict.summary
    if accused:
        assert 0.05 <= verdict.findings[0].share_of_latency <= 0.3


def test_a_long_turn_of_an_own_thread_accuses_nobody(tmp_path: Path) -> None:
    """Five syncs of 14 ms stand apart; another thread of the program had the CPU."""
    verdict = solve(crowd(tmp_path / "case", 0, OTHER_PID, own_ms=14))
    assert not verdict.findings, verdict.summary
    assert any("That is a thread of the same program" in line for line in verdict.minor), verdict.minor


def test_who_reads_and_made_no_calls_is_another_program_whatever_its_name(tmp_path: Path) -> None:
    verdict = solve(crowd(tmp_path / "case", 0.15, OTHER_PID, reads=True, name="db"))
    accused = [(f.culprit.kind, f.culprit.name) for f in verdict.findings]
    assert accused == [("process", f"db (process {OTHER_PID})")], verdict.summary


def test_a_sleep_for_a_page_is_one_for_io(tmp_path: Path) -> None:
    """A program that page faults read from disk is no descendant of the command, though it makes no request of its own."""
    path = crowd(tmp_path / "case", 0.15, OTHER_PID, reads=True, sleeps_in="folio_wait_bit_common")
    for part in (path / "ops" / "layer=block").glob("*.parquet"):
        part.unlink()
    verdict = solve(path)
    assert [(f.culprit.kind, f.culprit.name) for f in verdict.findings] == [("process", "other")]
