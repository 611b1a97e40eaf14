"""A CPU limit that keeps the thread from running which another one waits for: one cause, not two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, write_case
from whodisk.verdict.solve import solve

OPERATIONS = 3000
EVERY = 60
HELD_NS = 80_000_000


@pytest.mark.parametrize("waits_in", ["app", "fs"])
def test_who_waits_for_a_thread_that_the_limit_holds_waits_for_the_limit(
    tmp_path: Path, waits_in: str
) -> None:
    rng = np.random.default_rng(3)
    rows, waits = [], []
    for tid in (7, 8):
        now = 10_000_000
        for number in range(OPERATIONS):
            held = number % EVERY == EVERY - 1
            # The limit keeps one of them from running, in turn; the other waits for it in the program, or in the file system.
            kept = held and number // EVERY % 2 == tid % 2
            if kept:
                wait = {"tid": tid, "pid": 7, "comm": "base", "cpu": 0, "state": "throttled"}
                waits.append(wait | {"start_ns": now + 1000, "duration_ns": HELD_NS})
            length = int(rng.integers(18_000, 24_000)) + HELD_NS * held
            rows.append((now, length, tid, HELD_NS * kept))
            now += length + 50_000
    start, latency, tids, runqueue = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    app = {
        "op_id": APP_ID_BASE + np.arange(len(rows)),
        "start_ns": start,
        "latency_ns": latency,
        "op": "update",
        "comm": "base",
        "pid": 7,
        "tid": tids,
        "size_bytes": None,
        "offset_bytes": None,
        "app_ns": 0,
        "fs_ns": 0,
        f"{waits_in}_ns": latency - runqueue,
        "runqueue_ns": runqueue,
    }
    meta = {"workload": {"program": "base"}}
    verdict = solve(write_case(tmp_path / "one.case", app=app, tables={"waits": waits}, meta=meta))
    accused = [finding.culprit.name for finding in verdict.findings]
    assert accused == ["CPU limit of base"], [finding.claim for finding in verdict.findings]
