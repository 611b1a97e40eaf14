"""Sealed cases of threads that sleep between their calls on storage: for a lock on a file, in a frozen file system, for too many dirty pages, for a process that
is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import SYSCALL_ID_BASE, write_case

US, MS = 1_000, 1_000_000
PID, OTHER = 70, 90
SECONDS = 6

#: Begin and length of a sleep, what the thread slept in, and the thread that ended it (its name, process and number), if one did.
Sleep = tuple[int, int, str, tuple[str, int, int] | None]


def _written(
    seed: int, path: Path, sleeps: dict[int, list[Sleep]], stops: list[tuple[int, int]] | None = None
) -> Path:
    """`stops`: begin and length of those of a process `filter`. The threads of one program write 4 KiB and sync, half a millisecond each time, with as much of its own work in between, whenever they are not asleep."""
    rng = np.random.default_rng([seed, 97])
    rows: list[dict[str, Any]] = []
    waits: list[dict[str, Any]] = []
    for begin, length in stops or []:
        stopped = {"tid": OTHER, "pid": OTHER, "comm": "filter", "cpu": 1, "state": "stopped", "cause": None}
        stopped |= dict.fromkeys(("cause_pid", "waker", "waker_pid", "waker_tid"))
        waits.append({**stopped, "start_ns": begin, "duration_ns": length})
    for tid, its in sleeps.items():
        for begin, length, cause, woke in its:
            name, pid, waker = woke or (None, None, None)
            waits.append(
                {
                    "tid": tid,
                    "pid": PID,
                    "comm": "ledger",
                    "cpu": 0,
                    "start_ns": begin,
                    "duration_ns": length,
                    "state": "blocked",
                    "cause": cause,
                    "cause_pid": None,
                    "waker": name,
                    "waker_pid": pid,
                    "waker_tid": waker,
                }
            )
        now = 0
        for begin, end in [(b, b + n) for b, n, _, _ in its] + [(SECONDS * 1000 * MS, 0)]:
            while now < begin - 2 * MS:
                length = int(rng.lognormal(np.log(500 * US), 0.2))
                rows.append({"start_ns": now, "latency_ns": length, "tid": tid})
                now += length + int(rng.uniform(300, 700) * US)
            now = end
    rows.sort(key=lambda row: row["start_ns"])
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(rows)),
        "op": ["sync"] * len(rows),
        "size_bytes": np.zeros(len(rows), np.int64),
        "pid": PID,
        "comm": "ledger",
        "fs_ns": columns["latency_ns"],
        **columns,
    }
    waits.sort(key=lambda wait: (wait["start_ns"], wait["tid"]))
    meta = {"observer": "record", "command": ["ledger"], "duration_ns": SECONDS * 1000 * MS}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


def _locked(seed: int, path: Path, first: tuple[str, int, int]) -> Path:
    """Three threads take turns at a lock. Eight times `first` has it for 250 ms: one of them waits for that, the others behind that one."""
    rng = np.random.default_rng([seed, 98])
    sleeps: dict[int, list[Sleep]] = {tid: [] for tid in (71, 72, 73)}
    for number in range(8):
        begin = int((number + rng.uniform(0.2, 0.4)) * SECONDS * 1000 * MS / 8)
        length = int(rng.uniform(240, 260) * MS)
        for place, tid in enumerate((71, 72, 73)):
            woke = first if place == 0 else ("ledger", PID, 70 + place)
            sleeps[tid].append((begin + place * 50 * US, length, "fcntl_setlk", woke))
    return _written(seed, path, sleeps)


def locked_by_another(seed: int, path: Path) -> Path:
    """Another program has the lock on their file."""
    return _locked(seed, path, ("reporter", OTHER, OTHER))


def locked_by_its_own(seed: int, path: Path) -> Path:
    """A fourth thread of the same program has it."""
    return _locked(seed, path, ("ledger", PID, 74))


def frozen_maps(seed: int, path: Path) -> Path:
    """It writes to pages of a mapped file; somebody freezes the file system for 300 ms six times, and each time another process lets it go on."""
    rng = np.random.default_rng([seed, 99])
    sleeps = [
        (
            int((number + rng.uniform(0.2, 0.5)) * 1000 * MS),
            300 * MS,
            "percpu_rwsem_wait",
            ("fsfreeze", OTHER + number, OTHER + number),
        )
        for number in range(SECONDS)
    ]
    return _written(seed, path, {71: sleeps})  # type: ignore[dict-item]


def dirty_maps(seed: int, path: Path) -> Path:
    """It writes to pages of a mapped file faster than they may get dirty: it sleeps 10 ms each 25 ms, in no call."""
    rng = np.random.default_rng([seed, 100])
    sleeps: list[Sleep] = []
    for number in range(SECONDS * 40):
        begin, length = int((number + rng.uniform(0.3, 0.5)) * 25 * MS), int(rng.uniform(9, 11) * MS)
        sleeps.append((begin, length, "dirty throttling", None))
    return _written(seed, path, {71: sleeps})


def _fed(seed: int, path: Path, feeder: tuple[str, int, int]) -> Path:
    """What it writes comes through a pipe from `feeder`: it sleeps there for 200 ms once a second. A process `filter` is stopped at these times."""
    rng = np.random.default_rng([seed, 101])
    begins = [int((number + rng.uniform(0.2, 0.6)) * 1000 * MS) for number in range(SECONDS)]
    sleeps: list[Sleep] = [(begin, 200 * MS, "anon_pipe_read", feeder) for begin in begins]
    return _written(seed, path, {71: sleeps}, [(begin + MS, 198 * MS) for begin in begins])


def fed_by_who_is_stopped(seed: int, path: Path) -> Path:
    """It waits for that one."""
    return _fed(seed, path, ("filter", OTHER, OTHER))


def beside_who_is_stopped(seed: int, path: Path) -> Path:
    """It waits for another process, and nobody for that one."""
    return _fed(seed, path, ("source", OTHER + 1, OTHER + 1))
