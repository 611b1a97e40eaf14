"""What is as long as what stands apart, and was held by the same cause, stands apart with it; a stop weighs by its thread's time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import write_case
from whodisk.evidence.device_pace import Pace
from whodisk.verdict.solve import solve

MS = 1_000_000
CALLS = 8_000
READER, WRITER = 41, 42
STOP_MS = {READER: (11.2, 11.3, 11.25), WRITER: (11.4, 11.22)}


def calls(tid: int, op: str, latency: Any, busy_ns: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Calls of one thread, which computes for `busy_ns` between them and is stopped now and then between two of them."""
    between = np.full(CALLS, busy_ns, np.int64)
    places = np.linspace(1_000, 7_000, len(STOP_MS[tid])).astype(int)
    stops = np.array([int(ms * MS) for ms in STOP_MS[tid]])
    between[places] += stops
    start = np.cumsum(between + latency) - latency
    waits = [
        {
            "tid": tid,
            "pid": tid,
            "comm": "app",
            "cpu": 0,
            "start_ns": int(start[at] - ns),
            "duration_ns": int(ns),
            "state": "stopped",
            "cause": "SIGSTOP",
        }
        for at, ns in zip(places, stops, strict=True)
    ]
    columns = {
        "start_ns": start,
        "latency_ns": latency,
        "op": [op] * CALLS,
        "tid": [tid] * CALLS,
        "pid": [tid] * CALLS,
    }
    return columns, waits


def stopped(path: Path) -> Path:
    """Reads of an even length; writes with a tail up to the length of a stop: no rule of the tail tells these stops."""
    rng = np.random.default_rng(3)
    even = rng.integers(9_000, 11_000, CALLS)
    heavy = np.minimum((8_000 * rng.pareto(1.2, CALLS)).astype(np.int64) + 8_000, 9 * MS)
    (reads, first), (writes, second) = (
        calls(READER, "read", even, 90_000),
        calls(WRITER, "write", heavy, 60_000),
    )
    both = {name: np.concatenate([reads[name], writes[name]]) for name in reads}
    stages = {
        f"{stage}_ns": 0
        for stage in ("app", "queue", "device", "interrupt", "reap", "throttle", "runqueue", "unknown")
    }
    syscall = {
        "op_id": np.arange(2 * CALLS) + 1,
        "size_bytes": 4096,
        "comm": "app",
        "fs_ns": both["latency_ns"],
        **both,
        **stages,
    }
    end = int((both["start_ns"] + both["latency_ns"]).max())
    return write_case(
        path,
        syscall=syscall,
        meta={"duration_ns": end, "observer": "record"},
        tables={"waits": first + second},
    )


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return solve(stopped(tmp_path_factory.mktemp("stopped")))


def test_stops_of_one_length_stand_apart_together(verdict: Any) -> None:
    every = sorted((ms for lengths in STOP_MS.values() for ms in lengths), reverse=True)
    assert [episode.latency_ns / MS for episode in verdict.slowest] == pytest.approx(every, abs=0.01)
    assert all(episode.apart for episode in verdict.slowest)
    assert verdict.findings[0].episodes == len(every)


def test_a_stop_between_calls_is_a_part_of_the_time_of_threads(verdict: Any) -> None:
    lost = sum(ms for lengths in STOP_MS.values() for ms in lengths)
    lived = sum(CALLS * (10_000 + busy) for busy in (90_000, 70_000)) / MS
    assert verdict.findings[0].share_of_latency < 1.2 * lost / lived


def test_a_pace_is_the_pace_of_its_device() -> None:
    pace = Pace(
        "sda", "read", "requests", 500.0, 2e6, 0.9, 4096.0, 2e6, np.array([0.0]), np.array([1e9]), 1e9
    )
    assert pace.is_of("sda")
    # Of what waits above the block layer no device may be known.
    assert pace.is_of("")
    assert not pace.is_of("sdb")
