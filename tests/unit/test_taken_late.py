"""What had ended and was not taken, because its thread sat in a slower operation, is a consequence; alone it is a finding of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, write_case
from whodisk.verdict.solve import solve

OPERATIONS, DEPTH, US, MS = 8000, 4, 1_000, 1_000_000
HELD = np.arange(800, OPERATIONS, 800)


def batches(path: Path, who_sits: str) -> Path:
    """One thread, four reads at a time, 100 us each; nine times three of them are done and not taken for 15 ms, in which the fourth waits in the
    queue, or nothing does. The fourth may be another thread's, of the same program or of another one."""
    rng = np.random.default_rng(23)
    device_ns = (100 * US * np.exp(rng.normal(0, 0.15, OPERATIONS))).astype(np.int64)
    queue_ns = np.zeros(OPERATIONS, np.int64)
    reap_ns = np.full(OPERATIONS, 5 * US)
    for first in HELD.tolist():
        length = int(15 * MS * rng.uniform(0.9, 1.1))
        reap_ns[first : first + 3] += length
        if who_sits != "nobody":
            # Whoever takes the others does so when that is over.
            queue_ns[first + 3] += length - (0 if who_sits == "submitter" else 100 * US)
    latency = device_ns + queue_ns + reap_ns
    longest = latency.reshape(-1, DEPTH).max(axis=1)
    begin = np.cumsum(longest + 30 * US) - longest
    app = {
        "op_id": APP_ID_BASE | np.arange(OPERATIONS),
        "start_ns": np.repeat(begin, DEPTH),
        "latency_ns": latency,
        "op": "read",
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_depth": DEPTH,
        "tid": np.tile([4300, 4300, 4300, 4300 if who_sits == "submitter" else 4301], OPERATIONS // DEPTH),
        "pid": 4300,
        "comm": np.tile(
            ["db", "db", "db", "backup" if who_sits == "another program" else "db"], OPERATIONS // DEPTH
        ),
        "app_ns": 0,
        "fs_ns": 0,
        "queue_ns": queue_ns,
        "device_ns": device_ns,
        "interrupt_ns": 0,
        "reap_ns": reap_ns,
        "runqueue_ns": 0,
    }
    return write_case(path, app=app, meta={"duration_ns": int(begin[-1] + longest[-1]) + MS})


@pytest.mark.parametrize(
    ("who_sits", "accused"),
    [
        ("submitter", {"queue"}),
        ("another thread", {"queue"}),
        ("another program", {"queue", "reap"}),
        ("nobody", {"reap"}),
    ],
)
def test_what_waits_to_be_taken_behind_a_slow_one_accuses_nothing(
    tmp_path: Path, who_sits: str, accused: set[str]
) -> None:
    verdict = solve(batches(tmp_path / "case", who_sits))
    assert {finding.culprit.name for finding in verdict.findings} == accused, verdict.summary
