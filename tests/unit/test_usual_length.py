"""The slowest of a kind that always takes long: where its time is, not where a trifle of it was lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.synth import write_case
from whodisk.verdict.slowest import USUAL_LENGTH
from whodisk.verdict.solve import solve

MS = 1_000_000


def test_where_a_usual_operation_spends_its_time(tmp_path: Path) -> None:
    """Of syncs that all take 60 ms above the block layer, one waited 0.7 ms for a CPU, and nobody blames the CPU for its 60 ms."""
    syncs = 200
    runqueue = np.zeros(syncs, np.int64)
    runqueue[11] = 700_000
    fs = 60 * MS - np.arange(syncs, dtype=np.int64) * 1_000
    fs[11] = 59 * MS + 500_000
    latency = fs + runqueue
    calls = {
        "op_id": np.arange(syncs),
        "start_ns": np.arange(syncs) * 100 * MS,
        "latency_ns": latency,
        "op": np.full(syncs, "sync", object),
        "device": np.full(syncs, "nvme0n1", object),
        "tid": np.full(syncs, 41),
        "pid": np.full(syncs, 41),
        "comm": np.full(syncs, "git", object),
        "fs_ns": fs,
        "runqueue_ns": runqueue,
    }
    case = write_case(tmp_path / "syncs.case", syscall=calls, meta={"duration_ns": syncs * 100 * MS})
    slowest = {item.op_ids[0]: item for item in solve(case).slowest}
    assert slowest, "the verdict lists none"
    for item in slowest.values():
        assert item.stage_ns > 0.9 * item.latency_ns, (item.stage, item.stage_ns, item.latency_ns)
    assert any(item.what == USUAL_LENGTH for item in slowest.values())
