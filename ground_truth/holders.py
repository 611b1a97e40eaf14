"""Sealed cases of writes that wait for a lock of the file system, and of who lets them go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import SYSCALL_ID_BASE, write_case

US, MS = 1_000, 1_000_000
PID, FIRST, SECOND = 70, 71, 72
EPISODES, RARE, SECONDS = 25, 2, 5
#: Width of the logarithm of ordinary latencies: narrow, and with a tail of its own.
NARROW, WIDE = 0.2, 0.9


def _locked(
    seed: int, path: Path, waker: str, waker_pid: int, episodes: int = EPISODES, width: float = NARROW
) -> Path:
    """Two threads write 4 KiB each millisecond. Now and then the first waits for the lock that `waker` holds, and the second behind the first."""
    rng = np.random.default_rng([seed, 91])
    held_ns = rng.uniform(15, 30, episodes) * MS
    moments = (np.arange(episodes) + rng.uniform(0.2, 0.6, episodes)) * (SECONDS * 1000 / episodes) * MS
    waits: list[dict[str, Any]] = []
    start, latency, tid = [], [], []
    for thread, lag_ns in ((FIRST, 0), (SECOND, 40 * US)):
        begin = np.sort(rng.uniform(0, SECONDS * 1000 * MS, SECONDS * 1000)).astype(np.int64)
        # While a thread sleeps it makes no other write.
        inside = np.zeros(len(begin), np.bool_)
        for moment, length in zip(moments, held_ns, strict=True):
            inside |= (begin > moment - 2 * MS) & (begin < moment + length + 2 * MS)
        begin = begin[~inside]
        late = (moments + lag_ns).astype(np.int64)
        slept = held_ns.astype(np.int64)
        start += [begin, late]
        latency += [rng.lognormal(np.log(8 * US), width, len(begin)).astype(np.int64), slept + 9 * US]
        tid += [np.full(len(begin) + episodes, thread)]
        woke = (waker, waker_pid, waker_pid) if thread == FIRST else ("mail", PID, FIRST)
        waits += [
            {
                "tid": thread,
                "pid": PID,
                "comm": "mail",
                "cpu": 0,
                "start_ns": int(at) + 4 * US,
                "duration_ns": int(length),
                "state": "blocked",
                "cause": "write lock",
                "cause_pid": None,
                "waker": woke[0],
                "waker_pid": woke[1],
                "waker_tid": woke[2],
            }
            for at, length in zip(late, slept, strict=True)
        ]
    started, took, threads = np.concatenate(start), np.concatenate(latency), np.concatenate(tid)
    order = np.argsort(started, kind="stable")
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(started)),
        "start_ns": started[order],
        "latency_ns": took[order],
        "op": ["write"] * len(started),
        "size_bytes": np.full(len(started), 4096),
        "tid": threads[order],
        "pid": PID,
        "comm": "mail",
        "fs_ns": took[order],
    }
    meta = {"observer": "record", "command": ["mail"], "duration_ns": SECONDS * 1000 * MS}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


def held_by_backup(seed: int, path: Path) -> Path:
    """Another program holds the lock: the first thread waits for it, the second behind the first."""
    return _locked(seed, path, "backup", 90)


def held_by_backup_rarely(seed: int, path: Path) -> Path:
    """The same, but only twice, and other writes have a tail, too: nothing but the length of these tells them from it."""
    return _locked(seed, path, "backup", 90, RARE, WIDE)


def held_by_own_thread(seed: int, path: Path) -> Path:
    """A third thread of the same program holds it."""
    return _locked(seed, path, "mail", 73)


def held_by_the_kernel(seed: int, path: Path) -> Path:
    """A thread of the kernel lets it go: nobody's program."""
    return _locked(seed, path, "kworker/u8:1", 33)
