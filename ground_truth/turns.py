"""Threads of one program that use one file: some of its calls sleep until another one of its threads lets them go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import SYSCALL_ID_BASE, write_case

MS = 1_000_000
_READS, _EVERY = 4_000, 200
WRITER, READER = 4401, 4402


def behind_a_write(seed: int, path: Path) -> Path:
    """Reads wait for the lock on their file that a thread which writes 8 MiB has in hand."""
    return _one_file(seed, path, True, "")


def behind_a_sleeper(seed: int, path: Path) -> Path:
    """The same, where that thread sleeps for room in the journal."""
    return _one_file(seed, path, True, "add_transaction_credits")


def behind_nobody_known(seed: int, path: Path) -> Path:
    """The same, where nobody saw who ended the sleeps."""
    return _one_file(seed, path, False, "")


def _one_file(seed: int, path: Path, known: bool, holder_slept: str) -> Path:
    """Reads of 50 us; 20 of them wait for about 12 ms."""
    rng = np.random.default_rng([seed, 157])
    latency = (50_000 * np.exp(rng.normal(0, 0.1, _READS))).astype(np.int64)
    held = np.arange(_EVERY // 2, _READS, _EVERY)
    wait_ns = (12 * MS * rng.uniform(0.95, 1.05, len(held))).astype(np.int64)
    latency[held] = wait_ns
    start = np.cumsum(latency + 300_000) - latency
    woke = {"waker": "db", "waker_pid": WRITER, "waker_tid": WRITER} if known else {}
    waits = [
        _sleep(READER, at + 10_000, ns - 20_000, "xfs_ilock") | woke
        for at, ns in zip(start[held].tolist(), wait_ns.tolist(), strict=True)
    ]
    if holder_slept:
        waits += [
            _sleep(WRITER, at, ns - 20_000, holder_slept)
            for at, ns in zip(start[held].tolist(), wait_ns.tolist(), strict=True)
        ]
    begin = np.concatenate((start, start[held] - 10_000))
    order = np.argsort(begin, kind="stable")
    took = np.concatenate((latency, wait_ns))[order]
    reads = order < _READS
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(len(order)),
        "start_ns": begin[order],
        "latency_ns": took,
        "op": np.where(reads, "read", "write"),
        "size_bytes": np.where(reads, 4096, 8 << 20),
        "fs_ns": took,
        "pid": WRITER,
        "tid": np.where(reads, READER, WRITER),
        "comm": "db",
    }
    meta = {"duration_ns": int(start[-1]) + MS, "observer": "record", "command": ["db"]}
    return write_case(path, syscall=syscall, tables={"waits": waits}, meta=meta)


def _sleep(tid: int, start_ns: int, duration_ns: int, cause: str) -> dict[str, Any]:
    return {
        "tid": tid,
        "pid": WRITER,
        "comm": "db",
        "cpu": 0,
        "start_ns": start_ns,
        "duration_ns": duration_ns,
        "state": "blocked",
        "cause": cause,
        "cause_pid": None,
        "waker": None,
        "waker_pid": None,
        "waker_tid": None,
    }
