"""A program that waits for its own threads, whose writes a device takes no faster: the device's pace is the limit, and nothing stands apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.verdict.solve import solve

UPDATES, US, MS, KIB = 8000, 1_000, 1_000_000, 1 << 10
#: Updates that sleep, and for how long.
ASLEEP, ASLEEP_NS = (2000, 3500, 5000, 6500), 270 * MS


def database(path: Path, busy: bool) -> Path:
    """Updates of 50 us into memory, four of which sleep for 270 ms; meanwhile, and before, its other thread writes at 12 MiB/s, or only between them."""
    rng = np.random.default_rng(29)
    latency = (50 * US * np.exp(rng.normal(0, 0.2, UPDATES))).astype(np.int64)
    latency[list(ASLEEP)] = ASLEEP_NS
    start = np.cumsum(latency + 100 * US) - latency
    end_ns = int(start[-1] + latency[-1])
    size = rng.choice([64, 256, 512], 4000) * KIB
    took = (size / (12 << 20) * 1e9).astype(np.int64)
    begun = np.cumsum(took) - took
    asleep = [(start[at], start[at] + ASLEEP_NS) for at in ASLEEP]
    within = np.zeros(len(begun), np.bool_)
    for low, high in asleep:
        within |= (begun < high) & (begun + took > low)
    kept = (begun + took < end_ns) & (busy | ~within)
    size, took, begun = size[kept], took[kept], begun[kept]
    common = {"pid": 4300, "comm": "db"}
    stages = dict.fromkeys(("queue_ns", "device_ns", "interrupt_ns", "reap_ns", "runqueue_ns", "fs_ns"), 0)
    app = (
        common
        | stages
        | {
            "op_id": APP_ID_BASE | np.arange(UPDATES),
            "start_ns": start,
            "latency_ns": latency,
            "op": "update",
            "tid": 4300,
            "size_bytes": 0,
            "app_ns": latency,
        }
    )
    block = common | {
        "op_id": BLOCK_ID_BASE | np.arange(len(begun)),
        "start_ns": begun,
        "latency_ns": took,
        "op": "write",
        "tid": 4301,
        "device": "nvme0n1",
        "size_bytes": size,
        "queue_ns": 0,
        "device_ns": took,
    }
    waits = [
        {
            **common,
            "tid": 4300,
            "cpu": 0,
            "start_ns": int(low),
            "duration_ns": ASLEEP_NS,
            "state": "blocked",
            "cause": "futex_do_wait",
        }
        for low, _ in asleep
    ]
    return write_case(
        path,
        app=app,
        block=block,
        tables={"waits": waits},
        meta={"duration_ns": end_ns + MS, "workload": {"program": "ycsb-a"}},
    )


@pytest.mark.parametrize(("busy", "outliers"), [(True, False), (False, True)])
def test_updates_that_slept_behind_their_programs_writes(tmp_path: Path, busy: bool, outliers: bool) -> None:
    verdict = solve(database(tmp_path / "case", busy))
    assert any(finding.detector == "outliers" for finding in verdict.findings) == outliers, verdict.summary
    # They are still shown.
    assert sum(each.latency_ns == ASLEEP_NS for each in verdict.slowest) == len(ASLEEP)
    assert not any(cleared.what == "device:nvme0n1" for cleared in verdict.cleared if busy)
