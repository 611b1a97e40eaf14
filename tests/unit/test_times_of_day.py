"""Moments of a log that has times of day and no date: as the log has them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from rich.console import Console

from tests.synth import write_case
from whodisk.report import brief, slowest, terminal
from whodisk.verdict.solve import solve

SECOND = 1_000_000_000
NOON = 43_200 * SECOND
HOUR = 3_600 * SECOND
CLOCK = {
    "start_utc": "1970-01-01T00:00:00Z",
    "clock": {"name": "midnight", "host": "", "start_ns": NOON - HOUR, "resolution_ns": SECOND},
}


def test_samples_are_told_by_the_clock_of_their_log(tmp_path: Path) -> None:
    """They counted from the first sample, below a heading that said that 0 s is midnight."""
    took = np.full(30, 1e6)
    took[7] = 25e6
    stuck = {"busy_ratio": 1.0, "queue_depth": 4.0, "operations_per_s": 0.0}
    rows = [
        {
            "time_ns": HOUR + at * SECOND,
            "kind": "device",
            "subject": subject,
            "metric": metric,
            "value": value,
        }
        for at in range(30)
        for subject, of in (
            ("sda", {"read_latency_ns": took[at], "read_operations_per_s": 90.0, "busy_ratio": 0.2}),
            (
                "sdb",
                stuck if 10 <= at < 20 else {"busy_ratio": 0.1, "queue_depth": 0.0, "operations_per_s": 9.0},
            ),
        )
        for metric, value in of.items()
    ]
    verdict = solve(
        write_case(tmp_path / "x.case", tables={"series": rows}, devices=("sda", "sdb"), meta=CLOCK)
    )
    said = " ".join(verdict.summary)
    assert "25 ms at most (at 12:00:07)" in said, said
    assert "sdb completed nothing for 10 s (from 12:00:09 on)" in said, said
    assert verdict.zero_of_day_ns == NOON - HOUR and verdict.began == "11:00:00 by its log"
    assert verdict.findings[0].detector == "stuck_device"
    whole = io.StringIO()
    terminal.render(verdict, Console(file=whole, width=100))
    assert "sdb      12:00:10.000" in whole.getvalue(), whole.getvalue()


def test_operations_are_told_by_the_clock_of_their_log(tmp_path: Path) -> None:
    count = 400
    latency = np.full(count, SECOND // 1000)
    latency[10] *= 567
    calls = {
        "op_id": np.arange(count),
        "start_ns": HOUR + np.arange(count) * SECOND + 433_000_000,
        "latency_ns": latency,
        "op": "sync",
        "comm": "yum",
        "fs_ns": latency,
    }
    case = write_case(tmp_path / "x.case", syscall=calls, meta=CLOCK | {"duration_ns": HOUR + count * SECOND})
    verdict = solve(case)
    assert slowest.rows(verdict)[0][0] == "12:00:10.433"
    screen = io.StringIO()
    brief.render(verdict, Console(file=screen, width=100))
    # What the rows print needs no zero.
    assert "0 s is" not in screen.getvalue() and "12:00:10.433" in screen.getvalue()
