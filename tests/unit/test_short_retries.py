"""Errors of a device that are tried again at once: none of their operations takes four times as long as usual."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.verdict.solve import solve

COUNT = 12_000


def tried_again(path: Path, retry_ns: int, *, apart: bool) -> Path:
    """One request in 80 is tried again; `apart`: the errors come with others instead."""
    rng = np.random.default_rng(7)
    number = np.arange(COUNT)
    device = (180_000 * np.exp(rng.normal(0, 0.15, COUNT))).astype(np.int64)
    tried = number % 80 == 17
    device[tried] += retry_ns
    start = number * 600_000
    ops = {"start_ns": start, "latency_ns": device, "device": "nvme0n1", "size_bytes": 4096, "queue_depth": 1}
    app = {**ops, "op_id": APP_ID_BASE | number, "tid": 4300, "device_ns": device, "comm": "postgres"}
    block = {**ops, "op_id": BLOCK_ID_BASE | number, "device_ns": device, "comm": "postgres"}
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    failed = number % 80 == (57 if apart else 17)
    events = [
        {"time_ns": int(moment) + 90_000, "kind": "error", "subject": "nvme0n1", "detail": "tried again"}
        for moment in start[failed]
    ]
    meta = {"duration_ns": int(start[-1]) + 1_000_000}
    return write_case(path, app=app, block=block, links=links, events=events, meta=meta)


@pytest.mark.parametrize("retry_ns", [330_000, 1_500_000])
def test_the_device_is_named_for_them(retry_ns: int, tmp_path: Path) -> None:
    first = solve(tried_again(tmp_path / "case", retry_ns, apart=False)).findings[0]
    assert (first.detector, first.culprit.name) == ("device_errors", "nvme0n1")


def test_not_for_errors_that_cost_nothing(tmp_path: Path) -> None:
    found = solve(tried_again(tmp_path / "case", 330_000, apart=True)).findings
    assert all(finding.detector != "device_errors" for finding in found)


def given_again(path: Path, *, retry_ns: int) -> Path:
    """Sixteen in flight on a device that serves eight at a time, whose latencies vary as much as a retry takes; events name the requests that were given again."""
    rng = np.random.default_rng(11)
    number = np.arange(COUNT)
    device = (300_000 * np.exp(rng.normal(0, 0.25, COUNT))).astype(np.int64)
    tried = rng.random(COUNT) < 0.04
    device[tried] += retry_ns
    start = number * 20_000
    place = rng.permutation(COUNT) * 4096
    ops = {
        "start_ns": start,
        "latency_ns": device,
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_depth": 16,
    }
    app = {**ops, "op_id": APP_ID_BASE | number, "tid": 4300, "device_ns": device, "comm": "postgres"}
    block = {
        **ops,
        "op_id": BLOCK_ID_BASE | number,
        "offset_bytes": place,
        "device_ns": device,
        "comm": "postgres",
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    events = [
        {
            "time_ns": int(start[n]) + 90_000,
            "kind": "error",
            "subject": "nvme0n1",
            "detail": f"read of 4096 bytes at byte {place[n]}, given again",
        }
        for n in np.flatnonzero(tried)
    ]
    meta = {"duration_ns": int(start[-1]) + 1_000_000}
    return write_case(path, app=app, block=block, links=links, events=events, meta=meta)


def test_requests_that_events_name_need_not_be_slow_beside_others(tmp_path: Path) -> None:
    """1 in 25 takes twice as long, and none as long as the slowest others do by themselves."""
    first = solve(given_again(tmp_path / "case", retry_ns=350_000)).findings[0]
    assert (first.detector, first.basis, first.culprit.name) == ("device_errors", "measured", "nvme0n1")
    assert "that failed took" in first.claim
    harmless = solve(given_again(tmp_path / "harmless", retry_ns=1_000))
    assert harmless.findings == []
    assert any(line.startswith("nvme0n1 had ") for line in harmless.minor)
