"""Sealed cases of a program with threads of its own that write large requests: a compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, Ints, write_case

DISK, READER, WRITER = "nvme0n1", 4400, 4410
US, MS = 1_000, 1_000_000
_READS, _BURSTS, _WRITES = 6000, 30, 4
_PAUSES, _PAUSE_NS = 12, 20 * MS
_SMALL, _LARGE = 4096, 2 << 20


def _compacting(seed: int, path: Path, waits: bool, pauses: str = "") -> Path:
    """A thread reads 4 KiB after 4 KiB; another writes four times 2 MiB now and then, about a millisecond each.

    `waits`: a read takes until the large write that it meets has ended. `pauses`: the device stands still for 20 ms, `beside` large
    writes or `with` them.
    """
    rng = np.random.default_rng([seed, 131])
    span_ns = _READS * 90 * US
    first = (np.arange(_BURSTS) + rng.uniform(0.3, 0.6, _BURSTS)) * span_ns / _BURSTS
    large_ns = rng.integers(900 * US, 1200 * US, (_BURSTS, _WRITES))
    begin = (first[:, None] + np.cumsum(large_ns + 20 * US, axis=1) - large_ns).astype(np.int64).ravel()
    end = begin + large_ns.ravel()
    held_from = np.zeros(0, np.int64)
    if pauses:
        chosen = rng.permutation(_BURSTS)[:_PAUSES]
        at = begin.reshape(_BURSTS, _WRITES)[chosen, -1] + (300 * US if pauses == "with" else 6 * MS)
        held_from = np.sort(at)
        if pauses == "with":
            end.reshape(_BURSTS, _WRITES)[chosen, -1] += _PAUSE_NS
    start, device_ns = _reads(rng, begin, end, held_from, waits)
    syscall: dict[str, Any] = {
        "op_id": SYSCALL_ID_BASE | np.arange(_READS),
        "start_ns": start,
        "latency_ns": device_ns + 8 * US,
        "fs_ns": np.full(_READS, 8 * US),
        "device_ns": device_ns,
        "op": "read",
        "size_bytes": _SMALL,
        "tid": READER,
        "pid": READER,
        "comm": "db",
        "device": DISK,
    }
    for stage in ("queue", "interrupt", "reap", "runqueue"):
        syscall[f"{stage}_ns"] = np.zeros(_READS, np.int64)
    count = _READS + len(begin)
    block: dict[str, Any] = {
        "op_id": BLOCK_ID_BASE | np.arange(count),
        "start_ns": np.concatenate((start + 5 * US, begin)),
        "latency_ns": np.concatenate((device_ns, end - begin)),
        "device_ns": np.concatenate((device_ns, end - begin)),
        "queue_ns": np.zeros(count, np.int64),
        "interrupt_ns": np.zeros(count, np.int64),
        "op": np.array(["read"] * _READS + ["write"] * len(begin)),
        "size_bytes": np.concatenate((np.full(_READS, _SMALL), np.full(len(begin), _LARGE))),
        "tid": np.concatenate((np.full(_READS, READER), np.full(len(begin), WRITER))),
        "pid": READER,
        "comm": np.array(["db"] * _READS + ["db:compaction"] * len(begin)),
        "device": DISK,
    }
    return write_case(
        path,
        syscall=syscall,
        block=block,
        links={
            "parent_id": SYSCALL_ID_BASE | np.arange(_READS),
            "child_id": BLOCK_ID_BASE | np.arange(_READS),
            "kind": ["split"] * _READS,
        },
        devices=(DISK,),
        meta={"observer": "record", "command": ["db"], "duration_ns": int(start[-1] + 100 * MS)},
    )


def _reads(
    rng: np.random.Generator, begin: Ints, end: Ints, held_from: Ints, waits: bool
) -> tuple[Ints, Ints]:
    """When each read begins, and how long the device takes for it: one after the other."""
    usual, think = rng.integers(50 * US, 70 * US, _READS), rng.integers(15 * US, 25 * US, _READS)
    start, device_ns = np.zeros(_READS, np.int64), usual.copy()
    now = 0
    for number in range(_READS):
        now += int(think[number])
        asked = now + 5 * US
        until = asked + int(usual[number])
        met = np.flatnonzero((begin <= asked) & (end > asked) & waits)
        if len(met):
            until = max(until, int(end[met[-1]]) + int(usual[number]))
        held = np.flatnonzero((held_from <= until) & (held_from + _PAUSE_NS > asked))
        if len(held):
            until = max(until, int(held_from[held[-1]]) + _PAUSE_NS + int(usual[number]))
        start[number], device_ns[number] = now, until - asked
        now = until + 3 * US
    return start, device_ns


def behind_compaction(seed: int, path: Path) -> Path:
    """Reads wait behind the large writes of the same program: a quarter of all latency, and nothing is broken."""
    return _compacting(seed, path, True)


def pauses_beside_compaction(seed: int, path: Path) -> Path:
    """The device serves reads beside large writes as fast as ever, and pauses at other times."""
    return _compacting(seed, path, False, "beside")


def pauses_with_compaction(seed: int, path: Path) -> Path:
    """The device pauses while it has a large write, which takes 20 ms longer as well: that is the device, not its load."""
    return _compacting(seed, path, False, "with")
