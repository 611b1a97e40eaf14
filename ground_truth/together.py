"""Sealed cases of clients of one program that wait for each other, or for another thread of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, SYSCALL_ID_BASE, write_case

DISK, PID, CLIENTS, COMPACTION = "nvme0n1", 4500, 4, 4510
US, MS = 1_000, 1_000_000
_ROUNDS, _LATE = 4000, 2
_HELD_NS = 10 * MS


def _committing(seed: int, path: Path, leader_is_held: bool) -> Path:
    """Four clients commit together, 4,000 times; one of them writes the log, the others sleep until it has.

    In two rounds that takes 10 ms: in the leader's call, if it is held, else nobody was in a call, while a compaction writes all along.
    """
    rng = np.random.default_rng([seed, 141])
    write_ns = rng.integers(60 * US, 90 * US, _ROUNDS)
    late = np.sort(rng.permutation(np.arange(200, _ROUNDS - 200))[:_LATE])
    extra = np.zeros(_ROUNDS, np.int64)
    extra[late] = _HELD_NS
    took = write_ns + extra + 30 * US
    begin = np.cumsum(took + 50 * US) - took
    leader = rng.integers(0, CLIENTS, _ROUNDS)
    rounds, clients = (values.ravel() for values in np.mgrid[0:_ROUNDS, 0:CLIENTS])
    leads = clients == leader[rounds]
    # Who sleeps begins a little earlier, or wakes up a little later.
    early = np.where(leads, 0, rng.integers(0, 8 * US, len(rounds)))
    latency = took[rounds] + early + np.where(leads, 0, rng.integers(0, 8 * US, len(rounds)))
    inside = np.where(leads, write_ns[rounds] + (extra[rounds] if leader_is_held else 0), 0)
    app: dict[str, Any] = {
        "op_id": APP_ID_BASE | np.arange(len(rounds)),
        "start_ns": begin[rounds] - early,
        "latency_ns": latency,
        "app_ns": latency - inside,
        "fs_ns": inside,
        "op": "update",
        "tid": PID + 1 + clients,
        "pid": PID,
        "comm": "client",
    }
    # The compaction: writes of 2 ms, one after the other.
    compacting = np.arange(0, int(begin[-1] + took[-1]), 2 * MS)
    count = _ROUNDS + len(compacting)
    call_ns = write_ns + (extra if leader_is_held else 0)
    syscall: dict[str, Any] = {
        "op_id": SYSCALL_ID_BASE | np.arange(count),
        "start_ns": np.concatenate((begin + 10 * US, compacting)),
        "latency_ns": np.concatenate((call_ns, np.full(len(compacting), 1900 * US))),
        "fs_ns": np.concatenate((call_ns, np.zeros(len(compacting), np.int64))),
        "device_ns": np.concatenate((np.zeros(_ROUNDS, np.int64), np.full(len(compacting), 1900 * US))),
        "op": "write",
        "size_bytes": np.concatenate((np.full(_ROUNDS, 1024), np.full(len(compacting), 1 << 20))),
        "tid": np.concatenate((PID + 1 + leader, np.full(len(compacting), COMPACTION))),
        "pid": PID,
        "comm": np.array(["client"] * _ROUNDS + ["compaction"] * len(compacting)),
        "device": DISK,
    }
    for stage in ("queue", "interrupt", "reap", "runqueue"):
        syscall[f"{stage}_ns"] = np.zeros(count, np.int64)
        app[f"{stage}_ns"] = np.zeros(len(rounds), np.int64)
    app["device_ns"] = np.zeros(len(rounds), np.int64)
    led = np.flatnonzero(leads)
    return write_case(
        path,
        app=app,
        syscall=syscall,
        links={
            "parent_id": APP_ID_BASE | led,
            "child_id": SYSCALL_ID_BASE | rounds[led],
            "kind": ["issues"] * len(led),
        },
        devices=(DISK,),
        tables={"waits": _sleeps(begin, took, late, leader)},
        meta={
            "observer": "record",
            "command": ["kv"],
            "duration_ns": int(begin[-1] + took[-1] + 100 * MS),
            "workload": {"program": "kv"},
        },
    )


def _sleeps(begin: Any, took: Any, late: Any, leader: Any) -> list[dict[str, Any]]:
    """Every thread sleeps through the late rounds; what the leader sleeps in is known."""
    return [
        {
            "tid": PID + 1 + client,
            "pid": PID,
            "comm": "client",
            "cpu": 0,
            "start_ns": int(begin[number]) + 12 * US,
            "duration_ns": int(took[number]) - 20 * US,
            "state": "blocked",
            "cause": "read lock" if client == leader[number] else None,
            "cause_pid": None,
        }
        for number in late
        for client in range(CLIENTS)
    ]


def leader_held(seed: int, path: Path) -> Path:
    """The leader's write waits for a lock of the file system: the others slept in the program, and a little longer."""
    return _committing(seed, path, True)


def slept_by_themselves(seed: int, path: Path) -> Path:
    """All sleep in the program while a compaction writes, as it always does: nothing shows that they waited for it."""
    return _committing(seed, path, False)
