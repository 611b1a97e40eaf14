"""A program that waits for storage in calls that are no operation: a web server that writes a mapped file to a socket."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

CALLS, SLEEPS, US, MS = 1000, 100, 1_000, 1_000_000


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
        {
            **same,
            "tid": 72,
            "cpu": 0,
            "start_ns": int(at),
            "duration_ns": int(length),
            "state": "blocked",
            "cause": "folio_wait_bit_common",
            "cause_pid": None,
        }
        for at, length in zip(begin, length_ns, strict=True)
    ]
    meta = {"observer": "record", "command": ["apache2"], "duration_ns": 10_000 * MS}
    verdict = solve(write_case(tmp_path / "x.case", syscall=syscall, tables={"waits": waits}, meta=meta))
    assert verdict.status == status, verdict.summary
    said = verdict.summary[0].startswith("No verdict: threads of apache2 waited for storage for")
    assert said is (status == "insufficient"), verdict.summary
