"""A cause too small for the loss is rejected in words (mystery 4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.verdict.solve import solve
from whodisk.verdict.too_small import most_lost

DRIVES, STRIPES = 20, 3_000


def striped(path: Path, slower_us: float, all_drives: bool = False) -> Path:
    """Writes of a stripe over 20 drives, one after the other: each waits for all of its requests. One drive, or all, is slower."""
    rng = np.random.default_rng(8)
    service = (50_000 * np.exp(rng.normal(0, 0.05, (STRIPES, DRIVES)))).astype(np.int64)
    service[:, slice(None) if all_drives else 7] += int(slower_us * 1e3)
    longest = service.max(axis=1)
    latency = longest + 2_000
    start = np.cumsum(latency + 1_000) - latency
    app = {
        "op_id": APP_ID_BASE | np.arange(STRIPES),
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": np.full(STRIPES, 2_000),
        "device_ns": longest,
        "op": "write",
        "device": "md0",
        "size_bytes": DRIVES * 16_384,
        "queue_depth": 1,
        "tid": 101,
    }
    number = np.arange(STRIPES * DRIVES)
    block = {
        "op_id": BLOCK_ID_BASE | number,
        "start_ns": np.repeat(start + 1_000, DRIVES),
        "latency_ns": service.ravel(),
        "device_ns": service.ravel(),
        "op": "write",
        "device": [f"nvme{n % DRIVES}n1" for n in number],
        "size_bytes": 16_384,
        "queue_depth": 1,
    }
    links = {"parent_id": np.repeat(app["op_id"], DRIVES), "child_id": block["op_id"]}
    devices = [f"nvme{n}n1" for n in range(DRIVES)]
    return write_case(
        path,
        app=app,
        block=block,
        links=links,
        devices=devices,
        meta={"duration_ns": int(start[-1] + latency[-1])},
    )


def test_an_average_that_rises_a_little_cannot_have_halved_the_throughput(tmp_path: Path) -> None:
    found, usual = striped(tmp_path / "found", 240), striped(tmp_path / "usual", 0)
    alone = solve(found)
    assert any(finding.culprit.name == "nvme7n1" for finding in alone.findings), alone.summary
    said = solve(found, against=usual)
    assert len(said.too_small) == 1
    # 12 us on 20 drives is 240 us on one of them.
    assert "12 us longer on average" in said.too_small[0]
    assert "(62" in said.too_small[0] and "even a load bound by latency would lose 19." in said.too_small[0]
    assert said.too_small[0] in said.summary


def test_an_average_that_explains_the_loss_is_not_rejected(tmp_path: Path) -> None:
    found = striped(tmp_path / "found", 240, all_drives=True)
    assert solve(found, against=striped(tmp_path / "usual", 0)).too_small == []


def test_what_a_load_bound_by_latency_loses() -> None:
    assert most_lost(125.0, 100.0) == pytest.approx(0.2)
    assert most_lost(100.0, 100.0) == most_lost(90.0, 100.0) == most_lost(0.0, 0.0) == 0.0
