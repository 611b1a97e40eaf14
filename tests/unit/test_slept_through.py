"""Calls that begin and end with the stops of another process waited for it: it serves their files (FUSE), or feeds who does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

READER, SERVER, FEEDER = 900, 77, 78
STOP_NS = 600_000_000
SPAN_NS = 14_000_000_000


def _wait(pid: int, comm: str, start_ns: int, ns: int, state: str, cause: str) -> dict[str, Any]:
    return {
        "tid": pid,
        "pid": pid,
        "comm": comm,
        "cpu": 0,
        "start_ns": start_ns,
        "duration_ns": ns,
        "state": state,
        "cause": cause,
        "cause_pid": None,
        "waker": None,
        "waker_pid": None,
        "waker_tid": None,
    }


def _case(
    path: Path,
    stops_begin_ns: list[int],
    pid: int = FEEDER,
    moments: tuple[float, ...] = (1, 3.5, 6, 8.5, 11),
    stop_ns: int = STOP_NS,
    **more: Any,
) -> Path:
    """Reads of 0.4 ms through sshfs, one of which takes `stop_ns` at each of these moments, s; `pid` is stopped for as long at the given times."""
    held = [int(at * 1e9) for at in moments]
    start, latency, now = [], [], 0
    rng = np.random.default_rng(3)
    while now < SPAN_NS:
        took = int(rng.integers(300_000, 500_000))
        if held and now >= held[0]:
            took, held = stop_ns + took, held[1:]
        start.append(now)
        latency.append(took)
        now += took + 50_000
    count = len(start)
    none = np.zeros(count, np.int64)
    waits = [
        _wait(READER, "scan", s, n, "blocked", "folio_wait_bit_common")
        for s, n in zip(start, latency, strict=True)
        if n > stop_ns
    ]
    waits += [
        _wait(pid, "sftp-server", begin, stop_ns, "stopped", "do_signal_stop") for begin in stops_begin_ns
    ]
    return write_case(
        path,
        syscall={
            "op_id": SYSCALL_ID_BASE | np.arange(count),
            "start_ns": np.array(start),
            "latency_ns": np.array(latency),
            "op": "read",
            "size_bytes": 16384,
            "file": "/mnt/data/film",
            "tid": READER,
            "pid": READER,
            "comm": "scan",
            "fs_ns": none,
            "runqueue_ns": none,
            "unknown_ns": np.array(latency),
        }
        | more,
        tables={"waits": waits},
        meta={"observer": "record", "duration_ns": SPAN_NS}
        | ({} if more else {"command": ["scan"], "command_pid": READER}),
        system={"servers": {str(SERVER): ["loop0" if more else "/mnt/data"]}},
    )


WITH_THEM = [int(at * 1e9) + 300_000 for at in (1, 3.5, 6, 8.5, 11)]
AT_OTHER_TIMES = [int(at * 1e9) for at in (2, 4.6, 7.1, 9.6, 12.2)]


def test_a_stop_behind_a_server_of_files_is_named(tmp_path: Path) -> None:
    """SIGSTOP of sftp-server behind sshfs was nowhere in the verdict, 21 % of the time of the program's threads."""
    found = solve(_case(tmp_path / "case", WITH_THEM)).findings
    assert [(f.culprit.name, f.culprit.because_of) for f in found][:1] == [("sftp-server", "was stopped")]
    assert "began and ended with 5 of these stops" in found[0].claim
    assert "process 77 serves (FUSE)" in found[0].claim


@pytest.mark.parametrize(("stops", "pid"), [(AT_OTHER_TIMES, FEEDER), (WITH_THEM, READER)])
def test_other_stops_accuse_nobody_else(stops: list[int], pid: int, tmp_path: Path) -> None:
    """A process that was stopped at other times; and a program that was stopped itself waits for nobody else."""
    found = solve(_case(tmp_path / "case", stops, pid)).findings
    assert not any(f.culprit.because_of == "was stopped" for f in found), [f.claim for f in found]


@pytest.mark.parametrize(("device", "stopped"), [("loop0", True), ("sda", False)])
def test_one_stop_of_who_serves_the_device_is_named(device: str, stopped: bool, tmp_path: Path) -> None:
    """The machine was recorded as a whole, the server's own calls with it: once is enough where it is known to serve that device, and chance elsewhere."""
    path = tmp_path / "case"
    _case(path, [6_000_300_000], SERVER, (6.0,), 1_500_000_000, device=device)
    verdict = solve(path)
    told = [f.claim for f in verdict.findings if f.culprit.because_of == "was stopped"]
    assert bool(told) == stopped, [f.claim for f in verdict.findings]
    assert (
        not stopped
        or "was stopped once, for 1.5 s. 1 call of scan on loop0, which it serves, began and ended with that stop"
        in told[0]
    )
