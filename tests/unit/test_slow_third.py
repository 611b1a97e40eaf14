"""A slow group that is more than a quarter of its kind, far from the others: it is no part of their body."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.evidence.slow_operations import find_families
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

US = 1_000
COUNT = 6_000


def syncing(path: Path, slow_part: float, times: float) -> Path:
    """One worker that makes a sync after every third write; a part of the flushes takes so many times as long as the others."""
    rng = np.random.default_rng(11)
    is_sync = np.arange(COUNT) % 4 == 3
    device_ns = np.where(is_sync, 220 * US, 45 * US) * np.exp(rng.normal(0, 0.2, COUNT))
    device_ns[is_sync & (rng.random(COUNT) < slow_part)] += (times - 1) * 220 * US
    device_ns = device_ns.astype(np.int64)
    latency = device_ns + 3 * US
    begin = np.cumsum(latency + 2 * US) - latency
    common = {"device": "nvme0n1", "size_bytes": np.where(is_sync, 0, 4096), "queue_depth": 1, "tid": 4300}
    common |= {"pid": 4300, "comm": "worker-0"}
    app = {
        **common,
        "op_id": APP_ID_BASE | np.arange(COUNT),
        "op": np.where(is_sync, "sync", "write").tolist(),
        "start_ns": begin,
        "latency_ns": latency,
        "app_ns": 0,
        "fs_ns": 2 * US,
        "queue_ns": 0,
        "device_ns": device_ns,
        "interrupt_ns": 1 * US,
        "reap_ns": 0,
    }
    block = {
        **common,
        "op_id": BLOCK_ID_BASE | np.arange(COUNT),
        "op": np.where(is_sync, "flush", "write").tolist(),
        "start_ns": begin + 2 * US,
        "latency_ns": device_ns,
        "device_ns": device_ns,
        "queue_ns": 0,
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    return write_case(path, app=app, block=block, links=links)


@pytest.mark.parametrize("slow_part", [0.2, 0.3, 0.35])
def test_it_is_seen_however_many_they_are(tmp_path: Path, slow_part: float) -> None:
    path = syncing(tmp_path / "case", slow_part, 10)
    with Case(path) as case:
        [family] = find_families(case, survey_layer(case, "app"))
    assert family.op == "sync"
    assert 2 < family.split.limit < 10
    first = solve(path).findings[0]
    assert first.culprit.because_of == "device:nvme0n1"
    assert first.share_of_latency > 0.4


@pytest.mark.parametrize(("slow_part", "times"), [(0.3, 3), (0.6, 10)])
def test_what_is_near_or_usual_is_none(tmp_path: Path, slow_part: float, times: float) -> None:
    with Case(syncing(tmp_path / "case", slow_part, times)) as case:
        assert not find_families(case, survey_layer(case, "app"))
