"""Who sleeps until the file system has made room: behind a few requests, or by its timers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import write_case
from whodisk.detectors.written_before import _is_own_work
from whodisk.evidence.device_pace import Pace
from whodisk.evidence.room import waits_for_room
from whodisk.reading.views import Case

MS = 1_000_000


def _case(tmp_path: Path, cause: str) -> Path:
    """A thread that sleeps twice for 8 ms each: once in a call of 10 ms, once in one of 40."""
    waits = [
        {
            "tid": 7,
            "pid": 7,
            "comm": "rsync",
            "cpu": 0,
            "start_ns": start * MS,
            "duration_ns": 8 * MS,
            "state": "blocked",
            "cause": cause,
        }
        for start in (101, 201)
    ]
    return write_case(
        tmp_path / "case",
        syscall={
            "start_ns": np.array((100, 200)) * MS,
            "latency_ns": np.array((10, 40)) * MS,
            "op": "write",
            "tid": 7,
            "comm": "rsync",
        },
        tables={"waits": waits},
    )


@pytest.mark.parametrize(("cause", "expected"), [("__reserve_bytes", [True, False]), ("io", [False, False])])
def test_most_of_a_call_asleep_for_room(cause: str, expected: list[bool], tmp_path: Path) -> None:
    with Case(_case(tmp_path, cause)) as case:
        begin = np.array((100, 200)) * MS
        found = waits_for_room(case, np.array((7, 7)), begin, begin + np.array((10, 40)) * MS)
        assert found.tolist() == expected
        # Another thread did not sleep.
        assert not waits_for_room(case, np.array((8,)), begin[:1], begin[:1] + 10 * MS).any()


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # Nearly all that was seen was for room: so is what was not.
        (["__reserve_bytes"] * 10, True),
        # A part of it was a lock: what was not seen may be, too.
        (["__reserve_bytes"] * 5 + ["btrfs_tree_read_lock_nested"] * 5, False),
        # Nothing was seen.
        ([], False),
    ],
)
def test_sleeps_that_nobody_looked_into_are_as_those_seen(
    seen: list[str], expected: bool, tmp_path: Path
) -> None:
    """Eleven calls of 10 ms, asleep for 8 ms each; the recorder did not look at what the last one slept in."""
    count = len(seen) + 1
    begin = np.arange(count) * 100 * MS
    wait = {"pid": 7, "comm": "tar", "cpu": 0, "duration_ns": 8 * MS, "state": "blocked"}
    waits = [
        {"tid": 7 + at, "start_ns": int(begin[at]) + MS, "cause": cause, **wait}
        for at, cause in enumerate([*seen, None])
    ]
    calls = {
        "start_ns": begin,
        "latency_ns": 10 * MS,
        "op": "open",
        "tid": 7 + np.arange(count),
        "comm": "tar",
    }
    path = write_case(tmp_path / "case", syscall=calls, tables={"waits": waits})
    with Case(path) as case:
        found = waits_for_room(case, 7 + np.arange(count), begin, begin + 10 * MS)
        assert found[-1] == expected
        assert found[:-1].tolist() == [cause == "__reserve_bytes" for cause in seen]


def _own_work(length_ms: float, requests_ms: list[tuple[float, float]], for_room: bool) -> bool:
    first, last = np.array(requests_ms).reshape(-1, 2).T
    return _is_own_work(0.0, length_ms, first, last, np.ones(len(first), np.bool_), for_room)


def test_timers_of_the_file_system_are_nobodys_fault() -> None:
    # Five requests, then the file system sleeps: long enough idle that something else may have held the call.
    few = [(float(at), at + 0.5) for at in range(5)]
    assert not _own_work(16.0, few, for_room=False)
    assert _own_work(16.0, few, for_room=True)
    # It may sleep without any request; who waits for something else does not.
    assert not _own_work(16.0, [], for_room=False)
    assert _own_work(16.0, [], for_room=True)
    # One request that took most of the time is the device's.
    assert not _own_work(16.0, [(0.0, 12.0)], for_room=True)


def test_a_device_at_its_pace_holds_up_who_sleeps_for_room(tmp_path: Path) -> None:
    # At its pace for 3 of the 10 ms: the rest are timers.
    pace = Pace(
        device="sda",
        op="write",
        unit="bytes",
        per_s=1000.0,
        bytes_per_s=4096e3,
        held=0.9,
        size_bytes=4096.0,
        each_ns=1e6,
        begin_ns=np.array([100.0 * MS]),
        end_ns=np.array([103.0 * MS]),
        span_ns=1e9,
    )
    at = np.array((7,)), np.array((100,)) * MS, np.array((110,)) * MS
    for cause, held in (("__reserve_bytes", True), ("io", False)):
        with Case(_case(tmp_path / cause, cause)) as case:
            assert pace.held_up(case, *at).tolist() == [held]
