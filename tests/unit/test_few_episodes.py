"""What happened once: no verdict says that nothing stands out, and what was ahead of it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve

US, MS = 1_000, 1_000_000


def solved(tmp_path: Path, rows: list[dict[str, Any]]) -> Verdict:
    """The verdict on requests to `sda`."""
    rows = sorted(rows, key=lambda row: row["start_ns"])
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    columns |= {"op_id": BLOCK_ID_BASE | np.arange(len(rows)), "device": "sda"}
    columns["latency_ns"] = np.array(columns["queue_ns"]) + np.array(columns["device_ns"])
    end = max(row["start_ns"] + row["queue_ns"] + row["device_ns"] for row in rows)
    return solve(write_case(tmp_path / "x.case", block=columns, devices=("sda",), meta={"duration_ns": end}))


def request(start_ns: float, device_ns: float, queue_ns: float = 5_000, **changes: Any) -> dict[str, Any]:
    return {
        "start_ns": int(start_ns),
        "device_ns": int(device_ns),
        "queue_ns": int(queue_ns),
        "op": "read",
        "size_bytes": 4096,
        "comm": "java",
        **changes,
    }


@pytest.fixture
def behind_writeback(tmp_path: Path) -> Verdict:
    """78 reads of 0.5 ms, some of 13 ms, and one that came behind 40 writes."""
    rows = [
        request(n * 100 * MS, 13 * MS if n % 15 == 7 else 500 * US, size_bytes=131_072) for n in range(78)
    ]
    # Not at one pace: then the device was at its limit, and that is said.
    ends = np.where(np.arange(40) < 20, 20 * MS, 150 * MS)
    for n in range(len(ends)):
        row = request(4_330 * MS + n * 400 * US, ends[n], op="write", size_bytes=524_288, comm="flush-8:16")
        rows.append(row)
    rows.append(request(4_350 * MS, 600 * US, 145 * MS, size_bytes=262_144))
    return solved(tmp_path, rows)


def test_one_far_beyond_the_rest_stands_in_the_first_sentence(behind_writeback: Verdict) -> None:
    assert behind_writeback.status == "healthy"
    assert "1 read took 146 ms" in behind_writeback.summary[0], behind_writeback.summary
    assert "no operation stands out" not in behind_writeback.summary[0]


def test_what_was_ahead_in_the_queue_is_said(behind_writeback: Verdict) -> None:
    read = next(item for item in behind_writeback.slowest if item.op == "read")
    assert read.stage == "queue"
    assert "writes of flush-8:16" in read.what, read.what


@pytest.mark.parametrize(("longest_ns", "told"), [(700 * US, False), (30 * MS, True)])
def test_a_call_too_short_to_stand_apart_leaves_nothing_open(
    tmp_path: Path, longest_ns: int, told: bool
) -> None:
    """Three of 3,003 calls are a mkdir; one of these took far longer than the others. Less than a millisecond stands apart in no kind."""
    rng = np.random.default_rng(33)
    count = 3_000
    latency = np.concatenate((rng.integers(300 * US, 330 * US, count), [30 * US, 31 * US, longest_ns]))
    op = ["open"] * 1_000 + ["read"] * (count - 1_000) + ["mkdir"] * 3
    order = rng.permutation(len(latency))
    latency = latency[order].astype(np.int64)
    calls = {
        "op_id": APP_ID_BASE | np.arange(len(latency)),
        "start_ns": np.cumsum(latency + 900 * US) - latency,
        "latency_ns": latency,
        "app_ns": 0,
        "fs_ns": latency,
        "op": [op[place] for place in order],
        "tid": 9,
        # Only the long one came to a disk: there are none like it.
        "device": ["sda" if ns == longest_ns else None for ns in latency],
    }
    verdict = solve(write_case(tmp_path / "x.case", app=calls))
    assert ("1 mkdir took 30 ms" in verdict.summary[0]) is told, verdict.summary
    assert (verdict.summary[0] == "Healthy: no operation stands out.") is not told
    # What took most time is said first, and of three calls no sentence is made.
    assert verdict.speed[0].startswith("2,000 reads: ") and "; 1,000 opens: " in verdict.speed[0]
