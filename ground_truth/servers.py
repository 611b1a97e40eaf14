"""Sealed cases of a program on a loop device that a process of this machine serves: that process needs a CPU, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, probe, write_case
from whodisk.statistics.stats import Ints

DISK, TID, SERVER, HOG = "loop0", 4300, 60, 99
DRIVE, JOURNAL = "nvme0n1", 310
MS = 1_000_000
_COUNT = 3000


def _in_pauses(start: Ints, late: Ints, held_ns: Ints) -> tuple[Ints, Ints]:
    """The same begins of operations with a pause of the program some time after each late one, and when the hog begins in each of these."""
    pauses = np.zeros(_COUNT, np.int64)
    pauses[late + 61] = held_ns + MS
    start = start + np.cumsum(pauses)
    return start, start[late + 61] - held_ns - MS // 2


def _served(seed: int, path: Path, stuck: int, hog_at_stuck: bool) -> Path:
    """Reads of 100 us, `stuck` of which take 20 to 60 ms longer; a hog kept the server from its CPU as often and as long, then or at other times."""
    rng = np.random.default_rng([seed, 121])
    device_ns = rng.integers(80_000, 120_000, _COUNT)
    late = np.linspace(100, _COUNT - 200, stuck).astype(int) + rng.integers(0, 50, stuck)
    held_ns = rng.integers(20 * MS, 60 * MS, stuck)
    device_ns[late] += held_ns
    latency = device_ns + 10_000
    start = np.cumsum(latency + 50_000) - latency
    begin = start[late] + 40_000
    if not hog_at_stuck:
        start, begin = _in_pauses(start, late, held_ns)
    ids = np.arange(_COUNT)
    common = {"device": DISK, "op": "read", "size_bytes": 4096, "tid": TID, "pid": TID, "comm": "db"}
    stages = {"queue_ns": np.zeros(_COUNT, np.int64), "device_ns": device_ns}
    syscall = {
        **common,
        **stages,
        "op_id": APP_ID_BASE | ids,
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": np.full(_COUNT, 10_000),
        "interrupt_ns": np.zeros(_COUNT, np.int64),
        "runqueue_ns": np.zeros(_COUNT, np.int64),
    }
    block = {
        **common,
        **stages,
        "op_id": BLOCK_ID_BASE | ids,
        "start_ns": start + 10_000,
        "latency_ns": device_ns,
    }
    waits = [
        _wait(TID, "db", int(at), int(ns), "blocked", "io", None)
        for at, ns in zip(start + 5_000, device_ns, strict=True)
    ]
    waits += [
        _wait(SERVER, "served", int(at), int(ns), "runnable", "hog", HOG)
        for at, ns in zip(begin, held_ns, strict=True)
    ]
    return write_case(
        path,
        syscall=syscall,
        block=block,
        links={"parent_id": APP_ID_BASE | ids, "child_id": BLOCK_ID_BASE | ids, "kind": ["split"] * _COUNT},
        devices=(DISK,),
        tables={"waits": sorted(waits, key=lambda wait: wait["start_ns"])},
        meta={
            "observer": "record",
            "command": ["db"],
            "duration_ns": int(start[-1] + 200 * MS),
            "probes": {"sched": probe(servers=1)},
        },
        system={"servers": {str(SERVER): [DISK]}},
    )


def _commits(seed: int, path: Path, hog_at_stuck: bool) -> Path:
    """Syncs of 300 us on a drive, two of which sleep for 60 to 80 ms in the file system; a hog kept the journal's thread from a CPU as long, then or at
    other times."""
    rng = np.random.default_rng([seed, 122])
    number = np.arange(_COUNT)
    fs_ns = rng.integers(150_000, 250_000, _COUNT)
    late = np.array([800, 2100]) + rng.integers(0, 50, 2)
    held_ns = rng.integers(60 * MS, 80 * MS, 2)
    fs_ns[late] += held_ns
    latency = fs_ns + 100_000
    start = np.cumsum(latency + 400_000) - latency
    begin = start[late] + 100_000
    if not hog_at_stuck:
        start, begin = _in_pauses(start, late, held_ns)
    common = {"device": DRIVE, "tid": TID, "pid": TID, "comm": "db", "device_ns": np.full(_COUNT, 100_000)}
    syscall = {
        **common,
        "op": "sync",
        "op_id": APP_ID_BASE | number,
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": fs_ns,
        "queue_ns": np.zeros(_COUNT, np.int64),
        "interrupt_ns": np.zeros(_COUNT, np.int64),
        "runqueue_ns": np.zeros(_COUNT, np.int64),
    }
    block = {
        **common,
        "op": "write",
        "size_bytes": 4096,
        "op_id": BLOCK_ID_BASE | number,
        "start_ns": start + 50_000,
        "latency_ns": np.full(_COUNT, 100_000),
    }
    waits = [
        _wait(TID, "db", int(at), int(ns), "blocked", "jbd2_log_wait_commit", None)
        for at, ns in zip(start + 5_000, latency - 10_000, strict=True)
    ]
    waits += [
        _wait(JOURNAL, f"jbd2/{DRIVE}p1-8", int(at), int(ns), "runnable", "hog", HOG)
        for at, ns in zip(begin, held_ns, strict=True)
    ]
    return write_case(
        path,
        syscall=syscall,
        block=block,
        links={
            "parent_id": APP_ID_BASE | number,
            "child_id": BLOCK_ID_BASE | number,
            "kind": ["split"] * _COUNT,
        },
        devices=(DRIVE,),
        tables={"waits": sorted(waits, key=lambda wait: wait["start_ns"])},
        meta={"observer": "record", "command": ["db"], "duration_ns": int(start[-1] + 200 * MS)},
    )


def _wait(
    tid: int, comm: str, start_ns: int, duration_ns: int, state: str, cause: str, cause_pid: int | None
) -> dict[str, Any]:
    return {
        "tid": tid,
        "pid": tid,
        "comm": comm,
        "cpu": 0,
        "start_ns": start_ns,
        "duration_ns": duration_ns,
        "state": state,
        "cause": cause,
        "cause_pid": cause_pid,
    }


def starved_server(seed: int, path: Path) -> Path:
    """A hog has the CPU of the process that serves the device, eight times for 20 to 60 ms: reads wait at a device with which nothing is wrong."""
    return _served(seed, path, 8, True)


def slow_behind_its_server(seed: int, path: Path) -> Path:
    """The device's own delays; the hog had the server's CPU as often and as long, while nobody waited for the device."""
    return _served(seed, path, 8, False)


def starved_journal(seed: int, path: Path) -> Path:
    """A hog has the CPU of the thread that commits the journal, twice for 60 to 80 ms: syncs sleep meanwhile."""
    return _commits(seed, path, True)


def slow_beside_its_journal(seed: int, path: Path) -> Path:
    """Syncs sleep as long for a reason that is not seen; the hog had the journal's CPU as often and as long, while nobody waited for a commit."""
    return _commits(seed, path, False)
