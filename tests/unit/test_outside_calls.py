"""A program that waits for storage in calls that are no operation: a web server that writes a mapped file to a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ground_truth import outside
from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

CALLS, SLEEPS, US, MS = 1000, 100, 1_000, 1_000_000
META = {"observer": "record", "command": ["apache2"], "duration_ns": 10_000 * MS}


def _sleep(start_ns: int, duration_ns: int, **whose: Any) -> dict[str, Any]:
    """A wait for a page."""
    return {
        **whose,
        "cpu": 0,
        "start_ns": start_ns,
        "duration_ns": duration_ns,
        "state": "blocked",
        "cause": "folio_wait_bit_common",
        "cause_pid": None,
    }


@pytest.mark.parametrize(
    ("length_ms", "inside", "status"),
    [(50, False, "insufficient"), (0.05, False, "limited"), (50, True, "healthy")],
)
def test_waits_outside_of_calls_are_no_health(
    length_ms: float, inside: bool, status: str, tmp_path: Path
) -> None:
    """A thousand opens of 10 us in 10 s; another thread sleeps for pages 100 times, or in a read for as long as each."""
    rng = np.random.default_rng(5)
    length_ns = (length_ms * MS * rng.uniform(0.9, 1.1, SLEEPS)).astype(np.int64)
    begin = np.arange(SLEEPS) * 100 * MS + 3 * MS
    opens = np.arange(CALLS) * 10 * MS
    start = np.concatenate((opens, begin - 5 * US)) if inside else opens
    latency = (
        np.concatenate((np.full(CALLS, 10 * US), length_ns + 10 * US)) if inside else np.full(CALLS, 10 * US)
    )
    same = {"pid": 70, "comm": "apache2"}
    syscall = {
        **same,
        "op_id": SYSCALL_ID_BASE | np.arange(len(start)),
        "start_ns": start,
        "latency_ns": latency,
        "op": ["open"] * CALLS + ["read"] * (len(start) - CALLS),
        "tid": [71] * CALLS + [72] * (len(start) - CALLS),
        "fs_ns": latency,
    }
    waits = [
        _sleep(int(at), int(length), **same, tid=72) for at, length in zip(begin, length_ns, strict=True)
    ]
    verdict = solve(write_case(tmp_path / "x.case", syscall=syscall, tables={"waits": waits}, meta=META))
    assert verdict.status == status, verdict.summary
    said = verdict.summary[0].startswith("No verdict: threads of apache2 waited for storage for")
    assert said is (status == "insufficient"), verdict.summary


def test_waits_of_a_neighbour_whose_calls_are_not_recorded_say_nothing(tmp_path: Path) -> None:
    """Another program on the same disk waits for 5 s of 10 s: of a recorded command no call of others is a row."""
    waits = [_sleep(n * 100 * MS, 50 * MS, pid=90, comm="fio", tid=91) for n in range(SLEEPS)]
    case = write_case(tmp_path / "x.case", syscall=_opens(10 * US), tables={"waits": waits}, meta=META)
    assert solve(case).status == "limited"


def test_waits_outside_of_calls_are_told_where_calls_waited_longer(tmp_path: Path) -> None:
    """Calls of 8 s together in 10 s, and a second of sleep beside them: in `close`, say."""
    waits = [_sleep(n * 1_000 * MS + 8 * MS, 100 * MS, pid=70, comm="apache2", tid=72) for n in range(10)]
    verdict = solve(
        write_case(tmp_path / "x.case", syscall=_opens(8 * MS), tables={"waits": waits}, meta=META)
    )
    assert verdict.status != "insufficient"
    (said,) = [c for c in verdict.cannot_exclude if c.what == "what calls wait for that are not recorded"]
    assert said.because.startswith(
        "threads of apache2 waited for storage for 1 s in all (10 times, 100 ms at most"
    )


def _opens(latency_ns: int) -> dict[str, Any]:
    """A thousand in 10 s."""
    return {
        "pid": 70,
        "tid": 71,
        "comm": "apache2",
        "op_id": SYSCALL_ID_BASE | np.arange(CALLS),
        "start_ns": np.arange(CALLS) * 10 * MS,
        "latency_ns": latency_ns,
        "op": "open",
        "fs_ns": latency_ns,
    }


def test_a_lock_between_threads_of_the_program_is_told_and_accuses_nobody(tmp_path: Path) -> None:
    verdict = solve(outside.locked_by_its_own(1, tmp_path / "x.case"))
    assert not verdict.findings
    (told,) = [line for line in verdict.minor if "for a lock on a file" in line]
    assert (
        told.startswith("ledger waited 5.95 s for a lock on a file") and "the same program (ledger)" in told
    ), told
